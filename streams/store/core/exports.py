"""Exports of memories, ours or another store's: their formats, and the conversion of their rows."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from schemas.base import FEW_MAX
from schemas.codec import Unreadable
from schemas.events import Remember
from schemas.memories import Memory
from streams.model.places import SEEN

Row = Mapping[str, Any]

SCOPE = "imported"
"""The scope of a row that names neither user nor agent nor session."""

_LISTS = ("results", "memories", "items", "data")
_HOLDS = re.compile(rf'"(?:ids|{"|".join(_LISTS)})"\s*:\s*\[')


@dataclass(frozen=True)
class ExportFormat:
    """How one program writes a memory; of several columns, the first that has a value counts.

    `marks` are columns that all of its rows have. `scope` are joined to a path.
    """

    name: str
    marks: frozenset[str]
    text: str
    id: str
    scope: tuple[str, ...]
    session: tuple[str, ...] = ()
    time: tuple[str, ...] = ("updated_at", "created_at")
    same: Mapping[str, str] | None = None
    """Its names for fields that an event has, too."""
    retired: str | None = None
    """Its column that has a value if the memory was replaced or ended: such rows are left out."""

    @property
    def for_a_scope(self) -> tuple[str, ...]:
        """The columns that stay as they are, so that a scope can be made of them."""
        return *self.scope, *self.session

    def states(self, row: Row) -> bool:
        """Return whether a row is a live memory."""
        return self.retired is None or row.get(self.retired) is None

    def read(self, row: Row) -> dict[str, Any]:
        """Return a row in our names; what has no place in an event is metadata."""
        found = {name: value for name, value in row.items() if value is not None}
        rest, given = dict(found), found.get("metadata")
        if isinstance(given, dict):
            del rest["metadata"]
            rest = {**cast("dict[str, Any]", given), **rest}
        parts = {
            "text": rest.pop(self.text, None),
            "event_id": rest.pop(self.id, None),
            "occurred_at": _first(self.time, found),
            "session": _first(self.session, found),
            **{ours: rest.pop(theirs, None) for theirs, ours in (self.same or {}).items()},
        }
        parts["scope"] = self._path(found) or parts["session"] or SCOPE
        named = {name: rest.pop(name) for name in self.for_a_scope if name in rest}
        return {
            **{name: value for name, value in parts.items() if value is not None},
            **named,
            "metadata": rest,
        }

    def _path(self, row: Row) -> str:
        return "/".join(_step(row[name]) for name in self.scope if row.get(name))


@dataclass(frozen=True)
class _Nested(ExportFormat):
    """A format whose text is in an object: as its `content`, or as the content of that."""

    def read(self, row: Row) -> dict[str, Any]:
        value = row.get(self.text)
        held = cast("dict[str, Any]", value) if isinstance(value, dict) else {"content": value}
        content = held.get("content")
        if isinstance(content, dict):
            held = {**held, **cast("dict[str, Any]", content)}
            content = held["content"] if held["content"] is not content else None
        told = {name: one for name, one in held.items() if name != "content"}
        text = content if isinstance(content, str) else None
        return super().read({**row, self.text: text, "metadata": told})


_SHARED = (Remember.model_fields.keys() & Memory.model_fields.keys()) - {"schema_version"}


@dataclass(frozen=True)
class _Ours(ExportFormat):
    """Memories as we list and export them: observed when last seen, and counted as before."""

    def read(self, row: Row) -> dict[str, Any]:
        found = {name: _few(value) for name, value in row.items() if value is not None}
        count, given = found["observation_count"], found.get("metadata", {})
        parts = {
            **{name: value for name, value in found.items() if name in _SHARED},
            "event_id": found.get(self.id),
            "occurred_at": _first(self.time, found),
            "source": next(iter(found.get("sources", ())), None),
            "metadata": given if count == 1 else {SEEN: count, **given},
        }
        return {name: value for name, value in parts.items() if value is not None}


def _few(value: object) -> Any:  # noqa: ANN401 - JSON is what it is
    """Return a value, of a list as many entries as an event may have."""
    return cast("list[object]", value)[:FEW_MAX] if isinstance(value, list) else value


FORMATS = (
    _Ours(
        "memsieve",
        frozenset({"content_key", "observation_count", "last_seen_at"}),
        text="text",
        id="id",
        scope=("scope",),
        time=("last_seen_at",),
        retired="superseded",
    ),
    ExportFormat(
        "mem0",
        frozenset({"id", "memory", "created_at"}),
        text="memory",
        id="id",
        scope=("app_id", "user_id", "agent_id"),
        session=("run_id",),
        same={"categories": "tags"},
    ),
    ExportFormat(
        "redis agent-memory-server",
        frozenset({"id", "text", "memory_type"}),
        text="text",
        id="id",
        scope=("namespace", "user_id"),
        session=("session_id",),
        same={"topics": "tags", "entities": "entities", "pinned": "pinned"},
    ),
    _Nested(
        "LangMem",
        frozenset({"namespace", "key", "value"}),
        text="value",
        id="key",
        scope=("namespace",),
    ),
    ExportFormat(
        "Chroma",
        frozenset({"id", "document"}),
        text="document",
        id="id",
        scope=("user_id", "agent_id"),
        session=("session_id", "run_id"),
        time=("updated_at", "created_at", "timestamp"),
    ),
)


def format_of(rows: Sequence[Row]) -> ExportFormat | None:
    """Return the format that most of the rows have; None if they have none of these."""
    return next(
        (one for one in FORMATS if sum(one.marks <= row.keys() for row in rows) * 2 > len(rows)),
        None,
    )


def may_be_document(head: str) -> bool:
    """Return whether a file that begins like this may be one object that holds all rows."""
    begins = head.lstrip()
    if not (begins.startswith("{") and _HOLDS.search(begins)):
        return False
    try:
        _, end = json.JSONDecoder().raw_decode(begins)
    except (ValueError, RecursionError):
        return True  # longer than the beginning
    return not begins[end:].strip()


def entries(document: object) -> Sequence[object] | None:
    """Return the rows that a document holds; None if it holds no list of them, or is an event.

    Raises Unreadable if its lists do not fit together.
    """
    if not isinstance(document, dict):
        return None
    held = cast("dict[str, Any]", document)
    if "kind" in held:
        return None  # an undo lists memories, too
    if {"ids", "documents"} <= held.keys():
        return _of_columns(held)
    return next((held[name] for name in _LISTS if isinstance(held.get(name), list)), None)


def _of_columns(held: Row) -> list[object]:
    """Make a row from the entries at the same position of each list of Chroma."""
    ids, documents = held["ids"], held["documents"]
    metadatas = held.get("metadatas") or [None] * len(ids)
    if not len(ids) == len(documents or ()) == len(metadatas):
        raise Unreadable("ids, documents and metadatas differ in length: export them again")
    return [
        {**(metadata or {}), "id": identity, "document": text}
        for identity, text, metadata in zip(ids, documents, metadatas, strict=True)
    ]


def _step(value: object) -> str:
    return (
        "/".join(map(str, cast("list[object]", value))) if isinstance(value, list) else f"{value}"
    )


def _first(columns: tuple[str, ...], row: Row) -> Any:  # noqa: ANN401 - JSON is what it is
    return next((row[name] for name in columns if row.get(name)), None)
