"""Rows of a file become turns on memory.turns."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import to_json

from schemas.codec import TURN, Unreadable
from schemas.outcomes import DeadLetter, Stage
from schemas.topics import TURNS
from schemas.turns import Turn
from streams.extract.core.noting import arrived
from streams.model.ports.failures import Poison
from streams.model.ports.log import OutgoingRecord
from streams.model.ports.sources import Source, SourceLine
from streams.stage.core.mapping import LOCATION
from streams.stage.flow.dead_letters import ORIGIN_HEADER, describe, letter_record
from streams.stage.flow.incoming import addressed


def read_turn(line: SourceLine, scope: str | None) -> Turn:
    """Read a line's turn; kind, version and scope are filled in. Raises Poison or Unreadable.

    `scope` is the scope of turns without one; `{location}` in it stands for the place's number.
    """
    if isinstance(line.row, Poison):
        raise line.row
    row: Mapping[str, Any] = {"kind": "turn", "schema_version": 1, **line.row}
    if scope is None or "scope" in row:
        return TURN.decode(to_json(row))
    turn = TURN.decode(to_json({**row, "scope": scope.replace(LOCATION, "0")}))
    if LOCATION not in scope:
        return turn
    place = None if turn.state is None else arrived(turn.state)
    if place is None:
        raise Unreadable(
            "state.location_before is missing, but the scope is derived from it; add it, or a "
            "scope",
            "state.location_before",
        )
    return TURN.decode(to_json({**row, "scope": scope.replace(LOCATION, str(place.id))}))


def row_letter(content: bytes, place: str, stage: Stage, error: Poison | Unreadable) -> DeadLetter:
    """Describe a line that failed; `place` is its location as shown to a person."""
    poison = error if isinstance(error, Poison) else Poison(str(error), error.field)
    return describe(value=content, stage=stage, poison=poison, origin=place)


def turn_records(
    lines: Sequence[SourceLine], *, source: Source, scope: str | None, partitions: int
) -> list[OutgoingRecord]:
    """Return what a source's lines publish: a turn each, or a dead letter naming the line."""
    return [_record(line, f"{source.place}:{line.number}", scope, partitions) for line in lines]


def _record(line: SourceLine, place: str, scope: str | None, partitions: int) -> OutgoingRecord:
    try:
        turn = read_turn(line, scope)
    except (Poison, Unreadable) as error:
        return letter_record(row_letter(line.content, place, Stage.READ, error), 0)
    origin = (ORIGIN_HEADER, place.encode("utf-8", "backslashreplace"))
    return addressed(turn.scope, TURN.encode(turn), partitions, (origin,), topic=TURNS)
