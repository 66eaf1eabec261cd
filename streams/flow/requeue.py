"""Which dead letters are open, and how what they hold is published again."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from schemas.codec import DEAD_LETTER, INPUT, Codec, Unreadable
from schemas.events import Event
from schemas.outcomes import DeadLetter, Settled, Stage
from schemas.topics import DEAD_LETTERS, EVENTS, TURNS
from schemas.turns import Turn
from streams.flow.dead_letters import (
    ATTEMPTS_HEADER,
    ORIGIN_HEADER,
    ROW_HEADER,
    original,
    oversized,
)
from streams.flow.incoming import addressed
from streams.ports import Outgoing, Poison

State = Literal["open", "requeued", "dropped"]
Inputs: TypeAlias = Codec[Event | Turn] | Codec[Event]


@dataclass(frozen=True)
class Letter:
    """A dead letter as its topic tells of it: how often it was seen, and what became of it.

    `partitions` are those that hold it.
    """

    content: DeadLetter
    seen: int
    state: State
    partitions: Sequence[int]


@dataclass(frozen=True)
class _Place:
    """What one partition says of a letter."""

    newest: DeadLetter
    seen: int
    state: State

    def settled(self, record: Settled) -> "_Place":
        """Settle what was seen to; what has failed once more meanwhile is not it."""
        return self if self.newest.attempts > record.attempts else replace(self, state=record.how)


class Letters:
    """The fold of the topic: a letter is open until it is settled, and open when written again.

    The records of a partition are added in order; those of several partitions have none, so a
    letter is open where any of them says so.
    """

    def __init__(self) -> None:
        self._places: dict[str, dict[int, _Place]] = {}

    def add(self, partition: int, record: DeadLetter | Settled) -> None:
        if isinstance(record, DeadLetter):
            places = self._places.setdefault(record.id, {})
            seen = places[partition].seen if partition in places else 0
            places[partition] = _Place(record, seen + 1, "open")
        else:  # the letter itself may have expired
            places = self._places.get(record.dead_letter_id, {})
            if partition in places:
                places[partition] = places[partition].settled(record)

    def all(self) -> list[Letter]:
        """Return the letters, each once, in the order in which they were added first."""
        return [_letter(places) for places in self._places.values()]


def _letter(places: dict[int, _Place]) -> Letter:
    states: list[State] = [place.state for place in places.values()]
    return Letter(
        content=max(
            (place.newest for place in places.values()), key=lambda letter: letter.attempts
        ),
        seen=sum(place.seen for place in places.values()),
        state="open" if "open" in states else states[-1],
        partitions=list(places),
    )


@dataclass(frozen=True)
class Readable:
    """The bytes of an event or a turn that can be used, and what they say."""

    value: bytes
    said: Event | Turn


def readable(value: bytes, inputs: Inputs = INPUT) -> Readable | Poison:
    """Read what somebody may publish, or tell why it would fail again."""
    if too_long := oversized(value):
        return too_long
    try:
        return Readable(value, inputs.decode(value))
    except Unreadable as error:
        return Poison(str(error), error.field)


def again(
    letter: Letter, mended: Readable | None = None, inputs: Inputs = INPUT
) -> Readable | Poison:
    """Return what a letter is published as: its own bytes or mended ones; or tell why it is not.

    One that was requeued and has not failed since is not published twice. `inputs` are the kinds
    of records that somebody reads there.
    """
    if letter.state == "requeued":
        return Poison("was requeued already; should it fail again, it is open again")
    return mended or _unchanged(letter.content, inputs)


def _unchanged(letter: DeadLetter, inputs: Inputs) -> Readable | Poison:
    value = original(letter)
    if letter.value_size > len(value):
        return Poison(
            f"only the first {len(value):,} of its {letter.value_size:,} bytes were kept; publish "
            "it from where it came, or give the whole record --with FILE"
        )
    found = readable(value, inputs)
    if isinstance(found, Readable):
        return found
    if letter.stage is Stage.READ:
        return Poison(
            "is a row of a file and no event; mend the file and run it again, or give an event "
            "--with FILE"
        )
    return Poison(f"would only fail again: {found}; mend it, and give it --with FILE")


def given_up(letter: Letter) -> Poison | None:
    """Tell why a letter cannot be dropped, if so."""
    return None if letter.state == "open" else Poison(f"was {letter.state} already")


def input_record(letter: Letter, readable: Readable, partitions: int) -> Outgoing:
    """Return the record that publishes an event or a turn once more; it says where it came from.

    Events and turns have as many `partitions`.
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


def settled_records(letter: Letter, how: Literal["requeued", "dropped"]) -> list[Outgoing]:
    """Return the records that settle a letter, behind it in each partition that holds it."""
    content = letter.content
    record = Settled(dead_letter_id=content.id, how=how, attempts=content.attempts)
    value = DEAD_LETTER.encode(record)
    return [Outgoing(DEAD_LETTERS.name, partition, None, value) for partition in letter.partitions]
