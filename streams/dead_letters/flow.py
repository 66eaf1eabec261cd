"""Finds the open dead letters and republishes their content."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from schemas.codec import DEAD_LETTER, INPUT, Codec, Unreadable
from schemas.events import Event
from schemas.outcomes import DeadLetter, Settled, Stage
from schemas.topics import DEAD_LETTERS, EVENTS, TURNS
from schemas.turns import Turn
from streams.model.ports.failures import Poison
from streams.model.ports.log import OutgoingRecord
from streams.stage.flow.dead_letters import (
    ATTEMPTS_HEADER,
    ORIGIN_HEADER,
    ROW_HEADER,
    original,
    oversized,
)
from streams.stage.flow.incoming import addressed

Settlement: TypeAlias = Literal["requeued", "dropped"]
State: TypeAlias = Literal["open"] | Settlement
Inputs: TypeAlias = Codec[Event | Turn] | Codec[Event]


@dataclass(frozen=True)
class Letter:
    """A dead letter as recorded in its topic: how often it was seen, and its state.

    `partitions` are those that hold it. A later failure than those that were settled leaves it open.
    """

    content: DeadLetter
    seen: int
    state: State
    partitions: Sequence[int]


class Letters:
    """The fold of the topic: a letter is open until it is settled, and again when it is rewritten.

    The records of one partition are added in order; across partitions there is no order, so a
    letter is open if any partition says so.
    """

    def __init__(self) -> None:
        self._places: dict[str, dict[int, Letter]] = {}

    def add(self, partition: int, record: DeadLetter | Settled) -> None:
        if isinstance(record, DeadLetter):
            places = self._places.setdefault(record.id, {})
            seen = places[partition].seen if partition in places else 0
            places[partition] = Letter(record, seen + 1, "open", (partition,))
        else:  # the letter itself may have expired
            places = self._places.get(record.dead_letter_id, {})
            if partition in places and places[partition].content.attempts <= record.attempts:
                places[partition] = replace(places[partition], state=record.how)

    def all(self) -> list[Letter]:
        """Return each letter once, in the order of first appearance."""
        return [_joined(list(places.values())) for places in self._places.values()]


def _joined(places: Sequence[Letter]) -> Letter:
    """Return a letter as all partitions have it."""
    newest = max(places, key=lambda one: one.content.attempts)
    states: list[State] = [one.state for one in places]
    return Letter(
        content=newest.content,
        seen=sum(one.seen for one in places),
        state="open" if "open" in states else states[-1],
        partitions=[partition for one in places for partition in one.partitions],
    )


@dataclass(frozen=True)
class DecodedInput:
    """The bytes of a usable event or turn, and their decoded content."""

    value: bytes
    said: Event | Turn


def readable(value: bytes, inputs: Inputs = INPUT) -> DecodedInput | Poison:
    """Decode what is to be published, or return why it would fail again."""
    if too_long := oversized(value):
        return too_long
    try:
        return DecodedInput(value, inputs.decode(value))
    except Unreadable as error:
        return Poison(str(error), error.field)


def again(
    letter: Letter, mended: DecodedInput | None = None, inputs: Inputs = INPUT
) -> DecodedInput | Poison:
    """Return what to republish for a letter, its own bytes or mended ones, or why not.

    A letter that was requeued and has not failed since is not published twice. `inputs` are the
    kinds of records that consumers read there.
    """
    if letter.state == "requeued":
        return Poison("was requeued already; it is reopened if it fails again")
    return mended or _unchanged(letter.content, inputs)


def _unchanged(letter: DeadLetter, inputs: Inputs) -> DecodedInput | Poison:
    value = original(letter)
    if letter.value_size > len(value):
        return Poison(
            f"only the first {len(value):,} of its {letter.value_size:,} bytes were kept; publish "
            "it again from its source, or give the whole record --with FILE"
        )
    found = readable(value, inputs)
    if isinstance(found, DecodedInput):
        return found
    if letter.stage is Stage.READ:
        return Poison(
            "is a row of a file, not an event; correct the file and run it again, or give an event "
            "--with FILE"
        )
    return Poison(f"would fail again: {found}; correct it and give it --with FILE")


def given_up(letter: Letter) -> Poison | None:
    """Return why a letter cannot be dropped; None if it can."""
    return None if letter.state == "open" else Poison(f"was {letter.state} already")


def input_record(letter: Letter, readable: DecodedInput, partitions: int) -> OutgoingRecord:
    """Return the record that republishes an event or turn, with its origin in the headers.

    The topics of events and of turns both have `partitions` partitions.
    """
    content = letter.content
    kept = dict(content.headers)
    headers = {
        ORIGIN_HEADER: content.origin,
        ROW_HEADER: kept.get(ROW_HEADER),
        ATTEMPTS_HEADER: str(content.attempts),
    }
    told = tuple((name, text.encode()) for name, text in headers.items() if text is not None)
    topic = TURNS if isinstance(readable.said, Turn) else EVENTS
    return addressed(readable.said.scope, readable.value, partitions, told, topic=topic)


def settled_records(letter: Letter, how: Settlement) -> list[OutgoingRecord]:
    """Return the records that settle a letter, one in each partition that holds it."""
    content = letter.content
    record = Settled(dead_letter_id=content.id, how=how, attempts=content.attempts)
    value = DEAD_LETTER.encode(record)
    return [
        OutgoingRecord(DEAD_LETTERS.name, partition, None, value) for partition in letter.partitions
    ]
