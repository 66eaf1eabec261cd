"""Which dead letters are open, what they are published as again, and why some are not."""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pytest

from schemas.base import ScopeName
from schemas.codec import DEAD_LETTER
from schemas.outcomes import DeadLetter, Settled, Stage
from streams.dead_letters.flow import (
    DecodedInput,
    Letter,
    Letters,
    again,
    given_up,
    input_record,
    readable,
    settled_records,
)
from streams.model.ports.failures import Poison
from streams.model.ports.log import OutgoingRecord
from streams.model.scope import partition_of
from streams.stage.flow.dead_letters import (
    ATTEMPTS_HEADER,
    EVENT_BYTES_MAX,
    ORIGIN_HEADER,
    ROW_HEADER,
    VALUE_BYTES_MAX,
    dead_letter,
)
from tests.builders import event, record

EVENT = event().model_dump_json().encode()
NO_EVENT = Poison("is no event", "kind")


def letter(name: str = "a", *, attempts: int = 1, **fields: Any) -> DeadLetter:
    """Build a dead letter whose record was a readable event."""
    values = {"stage": Stage.DECODE, "error": "e", "value": "", "value_size": 0, **fields}
    return DeadLetter.model_validate({**values, "id": name, "attempts": attempts})


def of(value: bytes, **fields: Any) -> DeadLetter:
    """Build the dead letter of these bytes."""
    encoded = base64.b64encode(value).decode()
    values: dict[str, Any] = {"value": encoded, "value_size": len(value), **fields}
    return letter(**values)


def settled(how: Literal["requeued", "dropped"], name: str = "a", *, attempts: int = 1) -> Settled:
    return Settled(dead_letter_id=name, how=how, attempts=attempts)


def fold(*records: DeadLetter | Settled | tuple[int, DeadLetter | Settled]) -> list[Letter]:
    """Fold records, of partition 0 where none is named."""
    letters = Letters()
    for one in records:
        letters.add(*(one if isinstance(one, tuple) else (0, one)))
    return letters.all()


FOLDS: Mapping[str, tuple[Sequence[Any], list[tuple[str, int, str]]]] = {
    "nothing": ([], []),
    "a letter": ([letter()], [("a", 1, "open")]),
    "seen twice": ([letter(), letter()], [("a", 2, "open")]),
    "in the order of the log": (
        [letter("b"), letter("a"), letter("b")],
        [("b", 2, "open"), ("a", 1, "open")],
    ),
    "requeued": ([letter(), settled("requeued")], [("a", 1, "requeued")]),
    "dropped": ([letter(), settled("dropped")], [("a", 1, "dropped")]),
    "another one settled": ([letter(), settled("dropped", "b")], [("a", 1, "open")]),
    "settled, but expired": ([settled("dropped")], []),
    "written again": ([letter(), settled("dropped"), letter()], [("a", 2, "open")]),
    "and settled again": (
        [letter(), settled("dropped"), letter(), settled("requeued")],
        [("a", 2, "requeued")],
    ),
    "dropped, then requeued after all": (
        [letter(), settled("dropped"), settled("requeued")],
        [("a", 1, "requeued")],
    ),
    "failed again before it was settled": (
        [letter(), letter(attempts=2), settled("requeued", attempts=1)],
        [("a", 2, "open")],
    ),
    "failed again and settled": (
        [letter(), letter(attempts=2), settled("requeued"), settled("dropped", attempts=2)],
        [("a", 2, "dropped")],
    ),
    "failed again in another partition": (
        [(1, letter(attempts=2)), (2, letter()), (2, settled("requeued"))],
        [("a", 2, "open")],
    ),
    "settled in both": (
        [
            (1, letter(attempts=2)),
            (1, settled("dropped", attempts=2)),
            (2, letter()),
            (2, settled("requeued")),
            (2, settled("dropped", attempts=2)),
        ],
        [("a", 2, "dropped")],
    ),
    "settled where it does not lie": ([letter(), (1, settled("dropped"))], [("a", 1, "open")]),
}


@pytest.mark.parametrize(("records", "expected"), FOLDS.values(), ids=list(FOLDS))
def test_a_letter_is_open_until_it_is_settled_and_when_it_is_written_again(
    records: Sequence[Any], expected: list[tuple[str, int, str]]
) -> None:
    folded = fold(*records)
    assert [(one.content.id, one.seen, one.state) for one in folded] == expected


def test_of_several_letters_the_one_that_failed_most_often_is_told() -> None:
    [folded] = fold((0, letter(attempts=2)), (1, letter()))
    assert (folded.content.attempts, folded.partitions) == (2, [0, 1])


ROW = b'{"scope": "acme/ana", "text": "Ana likes tea."}'
ALL_STAGES = pytest.mark.parametrize("stage", list(Stage))


@ALL_STAGES
def test_what_is_an_event_is_published_as_it_was(stage: Stage) -> None:
    [one] = fold(of(EVENT, stage=stage))
    assert again(one) == DecodedInput(EVENT, event())


def test_one_that_was_dropped_may_be_requeued_after_all() -> None:
    [one] = fold(of(EVENT), settled("dropped"))
    assert isinstance(again(one), DecodedInput)


REFUSED: Mapping[str, tuple[DeadLetter, str]] = {
    "a row": (of(ROW, stage=Stage.READ), "is a row of a file, not an event; correct the file"),
    "a broken row": (
        of(b"{", stage=Stage.READ),
        "is a row of a file, not an event; correct the file",
    ),
    "a hostile row": (of(b"[" * 100_000, stage=Stage.READ), "is a row of a file, not an event"),
    "no JSON": (of(b"{"), "would fail again: not JSON: "),
    "nothing": (of(b""), "would fail again: the record is empty"),
    "no scope": (
        of(json.dumps({**json.loads(EVENT), "scope": "acme/*"}).encode()),
        "would fail again: scope holds the wildcard *; name one exact scope; correct it",
    ),
    "too long": (
        of(EVENT + b" " * EVENT_BYTES_MAX),
        "would fail again: is 1,048,",
    ),
    "cut": (
        dead_letter(record(EVENT + b" " * VALUE_BYTES_MAX), Stage.DECODE, NO_EVENT),
        f"only the first 8,388,608 of its {len(EVENT) + VALUE_BYTES_MAX:,} bytes were kept",
    ),
    "cut in front of something": (
        of(EVENT, value_size=len(EVENT) + 1),
        f"only the first {len(EVENT)} of its {len(EVENT) + 1} bytes were kept",
    ),
}


@pytest.mark.parametrize(("refused", "reason"), REFUSED.values(), ids=list(REFUSED))
def test_what_cannot_become_an_event_is_refused_unless_it_is_mended(
    refused: DeadLetter, reason: str
) -> None:
    [one] = fold(refused)
    said = again(one)
    assert isinstance(said, Poison)
    assert str(said).startswith(reason)
    mended = readable(EVENT)
    assert isinstance(mended, DecodedInput)
    assert again(one, mended) is mended


def test_one_that_was_requeued_waits_or_is_decided_and_is_not_published_twice() -> None:
    [one] = fold(of(EVENT), settled("requeued"))
    mended = readable(EVENT)
    assert isinstance(mended, DecodedInput)
    for said in (again(one), again(one, mended)):
        assert isinstance(said, Poison)
        assert str(said).startswith("was requeued already")


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ([letter()], None),
        ([letter(), settled("dropped"), letter()], None),
        ([letter(), settled("dropped")], "was dropped already"),
        ([letter(), settled("requeued")], "was requeued already"),
    ],
)
def test_only_what_is_open_is_given_up(records: Sequence[Any], reason: str | None) -> None:
    [one] = fold(*records)
    said = given_up(one)
    assert (None if said is None else str(said)) == reason


def published(one: Letter, partitions: int = 1) -> OutgoingRecord:
    said = again(one)
    assert isinstance(said, DecodedInput)
    return input_record(one, said, partitions)


def test_an_event_is_published_as_producers_should_publish_it() -> None:
    [one] = fold(of(EVENT, key="another/scope"))
    outgoing = published(one, partitions=7)
    assert (outgoing.topic, outgoing.value, outgoing.key) == ("memory.events", EVENT, b"acme/ana")
    assert outgoing.partition == partition_of(ScopeName("acme/ana"), 7)


def test_a_mended_event_goes_where_its_own_scope_belongs() -> None:
    mended = readable(event(scope="acme/ben").model_dump_json().encode())
    assert isinstance(mended, DecodedInput)
    [one] = fold(of(ROW, stage=Stage.READ, key="acme/ana"))
    outgoing = input_record(one, mended, 7)
    assert outgoing.key == b"acme/ben"
    assert outgoing.partition == partition_of(ScopeName("acme/ben"), 7)


@pytest.mark.parametrize(
    "headers",
    [
        (),
        ((ORIGIN_HEADER, b"team.jsonl:9"), (ROW_HEADER, b"0a1b")),
        ((ORIGIN_HEADER, b"\xff" * 5_000), ("who", b"ana"), ("none", None)),
    ],
)
@ALL_STAGES
def test_an_event_that_fails_again_is_the_same_letter_once_more(
    headers: tuple[tuple[str, bytes | None], ...], stage: Stage
) -> None:
    first = dead_letter(record(EVENT, 7, headers=headers), stage, NO_EVENT)
    [one] = fold(first)
    outgoing = published(one)
    second = dead_letter(record(EVENT, 99, headers=outgoing.headers), stage, NO_EVENT)
    assert (second.id, second.origin) == (first.id, first.origin)
    assert (first.attempts, second.attempts) == (1, 2)
    [twice] = fold(first, settled("requeued", first.id), second)
    assert (twice.state, twice.seen, twice.content.attempts) == ("open", 2, 2)
    assert dict(published(twice).headers)[ATTEMPTS_HEADER] == b"2"


def test_a_letter_is_settled_in_every_partition_that_holds_it() -> None:
    records = [(0, letter()), (2, letter(attempts=3))]
    [one] = fold(*records)
    outgoing = settled_records(one, "dropped")
    assert [(o.topic, o.partition, o.key) for o in outgoing] == [
        ("memory.dead-letters", 0, None),
        ("memory.dead-letters", 2, None),
    ]
    written = [(o.partition, DEAD_LETTER.decode(o.value)) for o in outgoing]
    [after] = fold(*records, *written)
    assert after.state == "dropped"
