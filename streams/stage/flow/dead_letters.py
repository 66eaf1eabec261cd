"""Turns a record that can never succeed into a dead letter, with its complete content."""

import base64

from schemas.base import LABEL_MAX, Position
from schemas.codec import DEAD_LETTER
from schemas.outcomes import DeadLetter, Stage
from schemas.topics import DEAD_LETTERS
from streams.model.identity import dead_letter_id
from streams.model.ports.failures import Poison
from streams.model.ports.log import LogRecord, OutgoingRecord

EVENT_BYTES_MAX = 1_048_576
"""A longer event is refused unread: its decision repeats it and must fit into a record."""

VALUE_BYTES_MAX = 8_388_608
"""The longest value kept whole. A dead letter must fit into a record, too."""

_KEY_BYTES_MAX = 65_536
_HEADERS_BYTES_MAX = 1_048_576
_LETTER_BYTES_MAX = 15_728_640
"""The maximum encoded size of a letter; a record takes 16 MiB."""

_ORIGIN_MAX = 4_096

ROW_HEADER = "memsieve-row"
"""The digest of the row that an event was made from."""

ORIGIN_HEADER = "memsieve-origin"
"""Where a record was read: `FILE:LINE`."""

ATTEMPTS_HEADER = "memsieve-attempts"
"""How often a republished event has failed before."""

ATTEMPTS_MAX = 999_999
"""The maximum attempts counted: the header is untrusted."""


def oversized(event: bytes) -> Poison | None:
    """Return the error if an event is too long to be decided on; None otherwise."""
    if len(event) <= EVENT_BYTES_MAX:
        return None
    return Poison(f"is {len(event):,} bytes long; at most {EVENT_BYTES_MAX:,} are read")


def dead_letter(record: LogRecord, stage: Stage, poison: Poison) -> DeadLetter:
    """Describe a record of a topic that failed at a stage."""
    headers = dict(record.headers)
    origin = (_text(headers.get(ORIGIN_HEADER)) or "")[:_ORIGIN_MAX]
    return describe(
        row=headers.get(ROW_HEADER),
        value=record.value or b"",
        stage=stage,
        poison=poison,
        attempts=_attempts(headers.get(ATTEMPTS_HEADER)),
        origin=origin or record.place,
        position=record.position,
        key=_text(record.key),
        headers=_headers(record),
    )


def describe(
    *,
    value: bytes,
    row: bytes | None = None,
    stage: Stage,
    poison: Poison,
    attempts: int = 1,
    origin: str,
    position: Position | None = None,
    key: str | None = None,
    headers: tuple[tuple[str, str | None], ...] = (),
) -> DeadLetter:
    """Describe bytes that failed; `origin` names the place where a person should look.

    `row` identifies what was read there, if that is not the value itself.
    """
    letter = DeadLetter(
        id=dead_letter_id(stage.value, origin, row or value),
        stage=stage,
        field=_shown(poison.field or "")[:LABEL_MAX].strip() or None,
        error=_shown(str(poison)),
        attempts=attempts,
        origin=origin,
        position=position,
        key=key,
        value=base64.b64encode(value[:VALUE_BYTES_MAX]).decode("ascii"),
        value_size=len(value),
        headers=headers,
    )
    return letter if _size(letter) <= _LETTER_BYTES_MAX else _cut(letter)


def letter_record(letter: DeadLetter, partition: int) -> OutgoingRecord:
    """Return the record that publishes a letter; it may go to any partition."""
    cause = None if letter.position is None else letter.position.offset
    return OutgoingRecord(
        DEAD_LETTERS.name, partition, None, DEAD_LETTER.encode(letter), cause=cause
    )


def original(letter: DeadLetter) -> bytes:
    """Return the bytes that failed; only their first part if `value_size` is larger."""
    return base64.b64decode(letter.value)


def _attempts(failed: bytes | None) -> int:
    """Return how often a record has failed, this time included; an invalid count counts as 0."""
    if failed is None or len(failed) > len(str(ATTEMPTS_MAX)) or not failed.isdigit():
        return 1
    return min(int(failed) + 1, ATTEMPTS_MAX)


def _size(letter: DeadLetter) -> int:
    return len(DEAD_LETTER.encode(letter))


def _cut(letter: DeadLetter) -> DeadLetter:
    """Drop what makes a letter too long to publish: control characters encode to six bytes each."""
    named = f"{len(letter.headers):,} headers, left out: too long"
    return letter.model_copy(update={"headers": (("…", named),), "key": (letter.key or "")[:200]})


def _shown(text: str) -> str:
    """Escape the name of a poisoned record's part onto one line: its keys can be anything."""
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


def _headers(record: LogRecord) -> tuple[tuple[str, str | None], ...]:
    """Keep the headers; if there are very many, the first ones and the count of the rest."""
    kept: list[tuple[str, str | None]] = []
    size = 0
    for name, value in record.headers:
        pair = (name[:_KEY_BYTES_MAX], _text(value))
        size += len(pair[0]) + len(pair[1] or "")
        if size > _HEADERS_BYTES_MAX:
            kept.append(("…", f"{len(record.headers) - len(kept):,} more"))
            break
        kept.append(pair)
    return tuple(kept)


def _text(data: bytes | None) -> str | None:
    """Return bytes as text, truncated if very long."""
    if data is None:
        return None
    shown = data[:_KEY_BYTES_MAX].decode("utf-8", "backslashreplace")
    return shown if len(data) <= _KEY_BYTES_MAX else f"{shown}…"


def reused(record: LogRecord) -> DeadLetter:
    """Reject an event id reused with other words: ignoring the event would lose its content."""
    poison = Poison(
        "event_id was used before in this scope for another text; give this event its own id, or "
        "change the memory: memsieve memory update EVENT_ID TEXT",
        "event_id",
    )
    return dead_letter(record, Stage.DECIDE, poison)
