"""Labelled data: pairs with a label, and streams with known clusters."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from pathlib import PurePath
from typing import Any, cast

from pydantic_core import to_json

from schemas.codec import EVENT, Unreadable
from schemas.events import Remember
from streams.lab.core.grading import Truth
from streams.model.ports.failures import Poison
from streams.model.ports.sources import SourceLine
from streams.stage.core.mapping import FieldMapping, event_fields
from streams.store.world.files import FileSource

SCOPE = "evaluation"
"""The scope of a row that names none."""

_TIMES = ("2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00")
"""The default times of a memory and an event; the event is later."""
_DAY = timedelta(days=1)
_SHOWN_MAX = 40
_OWN = frozenset({"cluster", "set", "id"})
"""Columns of a stream's row that are not part of its event."""


class Unmeasurable(ValueError):
    """The input cannot be measured; the one-line message names place, field and remedy."""


@dataclass(frozen=True)
class LabelledRow:
    """An event whose decision is graded: where its row stands, and what it is grouped by."""

    place: str
    id: str
    set: str
    kind: str
    event: Remember


@dataclass(frozen=True)
class LabelledPair(LabelledRow):
    """A new event, the event that made a stored memory, and the true relation of the two.

    Both are in a scope that no other pair uses.
    """

    truth: Truth
    memory: Remember


@dataclass(frozen=True)
class LabelledEvent(LabelledRow):
    """An event of a stream; the events of a cluster state the same fact.

    Without a cluster it is decided on, but not measured.
    """

    cluster: str | None

    @property
    def fact(self) -> str:
        """The fact that it states: its cluster, or without one a fact of its own."""
        return self.cluster or self.place


@dataclass
class LabelledRows:
    """All rows read: pairs, or one stream; `skipped` counts rows without a label.

    `refused` gives the place and the reason for each unusable row.
    """

    pairs: list[LabelledPair] = field(default_factory=list[LabelledPair])
    stream: list[LabelledEvent] = field(default_factory=list[LabelledEvent])
    read: int = 0
    skipped: int = 0
    refused: list[str] = field(default_factory=list[str])


def read(sources: Sequence[FileSource], limit: int | None = None) -> LabelledRows:
    """Read rows, at most `limit` of each source.

    Unusable rows are left out and listed. Raises Unmeasurable if that leaves nothing.
    """
    found = LabelledRows()
    for source in sources:
        for line in islice(source.lines(None), limit):
            found.read += 1
            try:
                _take(found, line, source)
            except Unmeasurable as refused:
                found.refused.append(str(refused))
    if found.refused and not (found.pairs or found.stream or found.skipped):
        raise Unmeasurable(found.refused[0])
    if found.pairs and found.stream:
        raise Unmeasurable("labelled pairs and streams are measured separately: give one of them")
    return found


def _take(found: LabelledRows, line: SourceLine, source: FileSource) -> None:
    place = f"{source.place}:{line.number}"
    row, set_ = line.row, PurePath(source.name).stem
    if isinstance(row, Poison):
        raise Unmeasurable(f"{place}: {row}")
    if "a" in row or "b" in row or "label" in row:
        truth = _truth(row, place)
        if truth is None:
            found.skipped += 1
        else:
            found.pairs.append(pair_of(row, truth, place=place, set_=set_, number=found.read))
    elif "cluster" in row:
        found.stream.append(_member(row, place, set_, found.read))
        found.skipped += row["cluster"] is None
    else:
        raise Unmeasurable(
            f"{place}: has neither a, b and label (a pair) nor text and cluster (of a stream)"
        )


def _truth(row: Mapping[str, Any], place: str) -> Truth | None:
    """Return a row's label; None if it is deliberately empty."""
    if "label" not in row:
        raise Unmeasurable(f"{place}: label is missing; add it, null for a row to be skipped")
    label = row["label"]
    if label is None or label == "":
        return None
    known = [str(one) for one in Truth]
    named = f"{label:g}" if isinstance(label, int | float) else str(label)
    if isinstance(label, bool) or named not in known:
        shown = repr(label)[:_SHOWN_MAX]
        raise Unmeasurable(f"{place}: label {shown} is none of {', '.join(known)}, null")
    return Truth(named)


def pair_of(
    row: Mapping[str, Any], truth: Truth, *, place: str, set_: str, number: int
) -> LabelledPair:
    """Return a pair with missing fields filled in; `number` makes its scope and ids unique.

    Raises Unmeasurable.
    """
    event, memory = _fields(row, "a", place), _fields(row, "b", place)
    scope = event.get("scope") or memory.get("scope") or row.get("scope") or SCOPE
    # Each pair gets its own scope below the named one, so that its rules apply.
    for name, fields in (("a", event), ("b", memory)):
        fields |= {"scope": f"{scope}/pair-{number}", "event_id": f"{name}-{number}"}
    said = _event(memory, place, "b", _TIMES[0])
    if "occurred_at" not in event and "occurred_at" in memory:
        event["occurred_at"] = _moved(said.occurred_at, _DAY).isoformat()
    new = _event(event, place, "a", _TIMES[1])
    if "occurred_at" not in memory and "occurred_at" in event:
        said = said.model_copy(update={"occurred_at": _moved(new.occurred_at, -_DAY)})
    return LabelledPair(
        place=place,
        id=_name(row, "id") or place,
        set=_name(row, "set") or set_,
        kind=_name(row, "kind"),
        truth=truth,
        event=new,
        memory=said,
    )


def _member(row: Mapping[str, Any], place: str, set_: str, number: int) -> LabelledEvent:
    return LabelledEvent(
        place=place,
        id=_name(row, "id") or place,
        set=_name(row, "set") or set_,
        kind="" if row.get("kind") == "remember" else _name(row, "kind"),
        cluster=_name(row, "cluster") or None,
        event=event_of_row(row, place, number),
    )


def event_of_row(row: Mapping[str, Any], place: str, number: int) -> Remember:
    """Return the event of a row, with missing fields filled in and `number` as the default id.

    Raises Unmeasurable.
    """
    fields = {"event_id": f"row-{number}", **_of_stream(row, place)}
    return _event(fields, place, "", _TIMES[0])


def _of_stream(row: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return the fields of a stream's event, which is given as an event or as a row's columns."""
    rest = {name: value for name, value in row.items() if name not in _OWN}
    if "event" in rest:
        return _fields(rest, "event", place)
    if rest.get("kind") == "remember":
        return rest
    try:
        return event_fields({"scope": SCOPE, **rest}, FieldMapping())
    except Unreadable as error:
        raise Unmeasurable(f"{place}: {error}") from error


def _moved(moment: datetime, by: timedelta) -> datetime:
    """Return a time shifted by a difference, or unchanged if that leaves the calendar."""
    with suppress(OverflowError):
        return moment + by
    return moment


def _fields(row: Mapping[str, Any], column: str, place: str) -> dict[str, Any]:
    """Return the fields of an event that is given as a text or as an object."""
    given = row.get(column)
    if isinstance(given, str):
        return {"text": given}
    if isinstance(given, dict):
        return dict(cast("dict[str, Any]", given))
    found = "is missing" if given is None else "is neither a text nor an event"
    raise Unmeasurable(f"{place}: {column} {found}; give it a text, or an event as an object")


def _event(fields: Mapping[str, Any], place: str, column: str, time: str) -> Remember:
    """Read an event as the owner would, with missing fields filled in."""
    whole: dict[str, Any] = {
        "kind": "remember",
        "schema_version": 1,
        "scope": SCOPE,
        "occurred_at": time,
        **fields,
    }
    try:
        event = EVENT.decode(to_json(whole))
    except Unreadable as error:
        raise Unmeasurable(f"{place}: {f'{column}: ' if column else ''}{error}") from error
    if not isinstance(event, Remember):
        raise Unmeasurable(f"{place}: {column} is an event of kind {event.kind}; give a remember")
    return event


def _name(row: Mapping[str, Any], column: str) -> str:
    value = row.get(column)
    return "" if value is None else str(value)
