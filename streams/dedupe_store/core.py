"""Rows of another program's store as events: the mapping of their columns."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from schemas.base import EventId
from schemas.codec import EVENT, Unreadable
from schemas.events import Remember
from streams.model.identity import normalised
from streams.stage.core.mapping import FieldMapping, event_fields
from streams.store.core.columns import GuessedColumns, NamedColumns

SCOPE = "imported"
"""The scope of a row that has none."""
MERGED_FROM = "merged_from"
"""The column that names the rows of which a text was made."""

_TEXTS = ("text", "memory", "data", "content", "document", "page_content")
_SCOPES = ("scope", "user_id", "agent_id", "run_id")
_TIMES = ("occurred_at", "created_at", "timestamp")
_KEPT = frozenset({"importance", "confidence", "tags", "entities", "title", "category", "pinned"})
"""Columns with the same meaning in other stores; all others are passed through unread."""

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class ColumnAssignment:
    """The columns that the user named for a row's parts, and those guessed for the whole file."""

    named: NamedColumns
    guess: GuessedColumns

    def of(self, row: Mapping[str, Any]) -> FieldMapping:
        """Return the mapping of one row: what was named; else guessed or usual, if it has that."""
        scope = _first((self.guess.scope, *_SCOPES), row)
        return FieldMapping(
            text=self.named.text or _first((self.guess.text, *_TEXTS), row) or _TEXTS[0],
            scope=self.named.scope or (SCOPE if scope is None else f"{{{scope}}}"),
            time=self.named.time or _first((self.guess.time, *_TIMES), row),
            day_first=self.guess.day_first,
        )


def event_of(row: Mapping[str, Any], columns: ColumnAssignment, number: int) -> Remember:
    """Return row `number` as an event.

    A row without a time gets one from its number, so row order is kept. Raises Unreadable if the
    row is not a valid event.
    """
    mapping = columns.of(row)
    used = {mapping.text, mapping.time, *_KEPT}
    told = {name: value for name, value in row.items() if name in used or _named(mapping, name)}
    if mapping.time is not None and row.get(mapping.time) is None:
        mapping = replace(mapping, time=None)
    event: dict[str, Any] = {
        **event_fields(told, mapping),
        "event_id": EventId(f"row-{number}"),
        "metadata": {},
    }
    event.setdefault("occurred_at", (_BEGINNING + timedelta(seconds=number)).isoformat())
    try:
        found = EVENT.decode(to_json(event))
    except PydanticSerializationError as error:
        raise Unreadable(f"it cannot be written as JSON: {error}") from error
    if not isinstance(found, Remember):
        raise Unreadable("kind is not remember", "kind")
    return found


def written(
    row: Mapping[str, Any], columns: ColumnAssignment, text: str, stands_for: list[str]
) -> dict[str, Any]:
    """Return a row with the given text and, if it stands for several rows, their names."""
    mapping = columns.of(row)
    changed = dict(row)
    if normalised(str(row[mapping.text])) != normalised(text):
        changed[mapping.text] = text
    return changed | ({MERGED_FROM: stands_for} if len(stands_for) > 1 else {})


def name_of(row: Mapping[str, Any], number: int) -> str:
    """Return a row's name: its id, else its number."""
    named = row.get("id", row.get("event_id"))
    return f"row {number}" if named is None else str(named)


def _named(mapping: FieldMapping, column: str) -> bool:
    return f"{{{column}}}" in mapping.scope


def _first(names: tuple[str | None, ...], row: Mapping[str, Any]) -> str | None:
    return next((name for name in names if name and row.get(name) not in (None, "")), None)
