"""A dead letter keeps what its record came with, and always fits into a record itself."""

import base64

import pytest

from schemas.codec import DEAD_LETTER
from schemas.outcomes import Stage
from streams.model.ports.failures import Poison
from streams.stage.flow.dead_letters import (
    ATTEMPTS_HEADER,
    ATTEMPTS_MAX,
    EVENT_BYTES_MAX,
    ORIGIN_HEADER,
    VALUE_BYTES_MAX,
    dead_letter,
    oversized,
)
from tests.builders import record

NO_EVENT = Poison("is no event", "kind")
RECORD_BYTES_MAX = 16_777_216


def test_everything_of_an_ordinary_record_is_kept() -> None:
    headers = (("who", b"ana"), ("raw", b"\xff"), ("none", None))
    letter = dead_letter(record(b"{", 7, key=b"a/b", headers=headers), Stage.DECODE, NO_EVENT)
    assert base64.b64decode(letter.value) == b"{"
    assert letter.headers == (("who", "ana"), ("raw", "\\xff"), ("none", None))
    assert (letter.key, letter.origin) == ("a/b", "memory.events/0/7")


def test_the_largest_record_gives_a_letter_that_can_be_published() -> None:
    many = tuple((f"header {n}", b"\xff" * 1_000) for n in range(5_000))
    hostile = record(b"\xff" * (VALUE_BYTES_MAX + 1), key=b"\xff" * 1_000_000, headers=many)
    letter = dead_letter(hostile, Stage.DECODE, NO_EVENT)
    assert len(DEAD_LETTER.encode(letter)) < RECORD_BYTES_MAX
    assert letter.value_size == VALUE_BYTES_MAX + 1
    kept = len(letter.headers) - 1
    assert letter.headers[-1] == ("…", f"{5_000 - kept:,} more")
    assert letter.headers[0] == ("header 0", "\\xff" * 1_000)


@pytest.mark.parametrize("byte", [b"\x00", b"\xff", b"\\", b'"', b"a"])
def test_whatever_a_record_is_made_of_its_letter_can_be_published(byte: bytes) -> None:
    headers = tuple((f"header {n}" + byte.decode("latin-1"), byte * 65_000) for n in range(40))
    hostile = record(
        byte * VALUE_BYTES_MAX,
        key=byte * 3_000_000,
        headers=((ORIGIN_HEADER, byte * 1_000_000), *headers),
    )
    letter = dead_letter(hostile, Stage.DECODE, NO_EVENT)
    assert len(DEAD_LETTER.encode(letter)) < RECORD_BYTES_MAX
    assert base64.b64decode(letter.value) == byte * VALUE_BYTES_MAX


@pytest.mark.parametrize(
    ("said", "attempts"),
    [
        (None, 1),
        (b"1", 2),
        (b"41", 42),
        (b"0", 1),
        (b"", 1),
        (b"-1", 1),
        (b"1.5", 1),
        (b" 1", 1),
        (b"\xff", 1),
        ("\u0661".encode(), 1),
        (str(ATTEMPTS_MAX).encode(), ATTEMPTS_MAX),
        (b"9" * 1_000_000, 1),
    ],
)
def test_attempts_are_counted_by_a_header_that_nobody_trusts(
    said: bytes | None, attempts: int
) -> None:
    failed = record(b"{", headers=((ATTEMPTS_HEADER, said),))
    assert dead_letter(failed, Stage.DECODE, NO_EVENT).attempts == attempts


def test_an_event_may_be_as_long_as_is_said_and_no_longer() -> None:
    assert oversized(b" " * EVENT_BYTES_MAX) is None
    refused = oversized(b" " * (EVENT_BYTES_MAX + 1))
    assert str(refused) == "is 1,048,577 bytes long; at most 1,048,576 are read"
