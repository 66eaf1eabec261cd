"""A record that can never succeed, turned into a dead letter with all it came with."""

import base64

from schemas.base import Position
from schemas.outcomes import DeadLetter, Stage
from streams.core.identity import dead_letter_id
from streams.ports import Poison, Record

VALUE_BYTES_MAX = 8_388_608
"""The longest value that is kept whole: what is longer is not read anywhere."""

_FIELD_MAX = 200

ROW_HEADER = "memsieve-row"
"""The digest of the row that an event was made of."""

ORIGIN_HEADER = "memsieve-origin"
"""Says where a record was read: `FILE:LINE`."""


def dead_letter(record: Record, stage: Stage, poison: Poison) -> DeadLetter:
    """Describe a record of a topic that failed at a stage."""
    headers = dict(record.headers)
    origin = _text(headers.get(ORIGIN_HEADER))
    return describe(
        row=headers.get(ROW_HEADER),
        value=record.value or b"",
        stage=stage,
        poison=poison,
        origin=origin or record.place,
        position=record.position,
        key=_text(record.key),
        headers=tuple((name, _text(value)) for name, value in record.headers),
    )


def describe(
    *,
    value: bytes,
    row: bytes | None = None,
    stage: Stage,
    poison: Poison,
    origin: str,
    position: Position | None = None,
    key: str | None = None,
    headers: tuple[tuple[str, str | None], ...] = (),
) -> DeadLetter:
    """Describe bytes that failed; `origin` names the place a person would look at.

    `row` stands for what was read there, where that is not the value itself.
    """
    return DeadLetter(
        id=dead_letter_id(stage.value, origin, row or value),
        stage=stage,
        field=_shown(poison.field or "")[:_FIELD_MAX].strip() or None,
        error=_shown(str(poison)),
        origin=origin,
        position=position,
        key=key,
        value=base64.b64encode(value[:VALUE_BYTES_MAX]).decode("ascii"),
        value_size=len(value),
        headers=headers,
    )


def _shown(text: str) -> str:
    """Write what names a poisoned record's parts on one line: its keys can be anything."""
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "backslashreplace")
