"""Rows of a file become events on memory.events, each with its place in the file."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import PydanticSerializationError, to_json

from schemas.base import ScopeName
from schemas.codec import Unreadable
from schemas.outcomes import Stage
from schemas.topics import EVENTS
from streams.model.identity import event_id
from streams.model.ports.clock import Clock
from streams.model.ports.failures import Poison
from streams.model.ports.log import OutgoingRecord
from streams.model.ports.sources import Source, SourceLine
from streams.stage.core.mapping import FieldMapping, event_fields
from streams.stage.flow.dead_letters import (
    ORIGIN_HEADER,
    ROW_HEADER,
    describe,
    letter_record,
    oversized,
)
from streams.stage.flow.incoming import addressed


def records_of(
    lines: Sequence[SourceLine],
    *,
    source: Source,
    mapping: FieldMapping | None,
    partitions: int,
    clock: Clock,
) -> list[OutgoingRecord]:
    """Return what a source's lines publish: an event each, or a dead letter naming the line.

    Without a mapping, a row that names its `kind` is already an event and is published unchanged;
    any other row is mapped by the default names. A row without an id gets one from its place and
    content, so that the same line is always the same event.
    """
    return [_record(line, source, mapping, partitions, clock) for line in lines]


def _record(
    line: SourceLine, source: Source, mapping: FieldMapping | None, partitions: int, clock: Clock
) -> OutgoingRecord:
    origin = f"{source.place}:{line.number}"
    if isinstance(line.row, Poison):
        return _dead_letter(line, line.row, origin)
    if mapping is None and "kind" in line.row:
        return _event(line.row, line.content, line, origin, partitions)
    try:
        event = event_fields(line.row, mapping or FieldMapping())
        if "event_id" not in event:
            taken = f"{event['text']}".encode("utf-8", "surrogatepass")
            event["event_id"] = event_id(source.name, line.number, line.content, taken)
        if "occurred_at" not in event:
            event["occurred_at"] = clock.now().isoformat()
        return _event(event, to_json(event), line, origin, partitions)
    except Unreadable as error:
        return _dead_letter(line, Poison(str(error), error.field), origin)
    except PydanticSerializationError as error:
        return _dead_letter(line, Poison(f"cannot be published: {error}"), origin)


def _event(
    event: Mapping[str, Any], value: bytes, line: SourceLine, origin: str, partitions: int
) -> OutgoingRecord:
    """Address an event by its scope; without one it goes to any partition, to be rejected there."""
    if too_long := oversized(value):
        return _dead_letter(line, too_long, origin)
    headers = (
        (ORIGIN_HEADER, origin.encode("utf-8", "backslashreplace")),
        (ROW_HEADER, hashlib.sha256(line.content).hexdigest().encode()),
    )
    scope = event.get("scope")
    if isinstance(scope, str) and scope.isprintable():
        return addressed(ScopeName(scope), value, partitions, headers)
    return OutgoingRecord(EVENTS.name, 0, None, value, headers)


def _dead_letter(line: SourceLine, poison: Poison, origin: str) -> OutgoingRecord:
    letter = describe(value=line.content, stage=Stage.READ, poison=poison, origin=origin)
    return letter_record(letter, 0)
