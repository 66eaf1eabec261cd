"""Times of day in a text: 14:30, half past two, noon."""

import re
from collections.abc import Sequence

from streams.text.numbers import number_if
from streams.text.quantity import Kind, ParsedQuantity, found_in, word_at
from streams.text.tokens import Form, Token
from streams.text.units import NAMED_TIMES, PARTS_OF_DAY

NOON = 12


def clock_time(tokens: Sequence[Token], at: int) -> ParsedQuantity | None:
    digits = re.findall(r"\d+", tokens[at].text)
    hour, minute = int(digits[0]), int(digits[1]) if len(digits) > 1 else 0
    half = re.search(r"[ap](?=\.?m)", tokens[at].lower)
    if hour > 24 or minute > 59:  # noqa: PLR2004 - the hours of a day, the minutes of an hour
        return None
    midnight = hour % 24 == 0
    known = f"{half.group()}m" if half else "am" if midnight else "pm" if hour > NOON else ""
    said, stop = (known, at + 1) if known else part_of_day(tokens, at + 1)
    return found_in(Kind.TIME, clock_parts(hour, minute, said), tokens, (at, stop))


def clock_parts(hour: int, minute: int, half: str) -> dict[str, float | str]:
    """Return a time on the twelve-hour clock, with the half of the day if it is known."""
    parts: dict[str, float | str] = {"minute": hour % NOON * 60 + minute}
    return {**parts, "half": half} if half else parts


def part_of_day(tokens: Sequence[Token], at: int) -> tuple[str, int]:
    """Read "in the morning", "at night": the half of the day that a time is in."""
    for length in (3, 2):
        words = [token.lower for token in tokens[at : at + length]]
        if words and words[0] in {"in", "at"} and words[-1] in PARTS_OF_DAY:
            return PARTS_OF_DAY[words[-1]], at + length
    return "", at


def time_from_hour(tokens: Sequence[Token], at: int) -> ParsedQuantity | None:
    """Read "a quarter past nine", "half past 11", "twenty minutes to midnight"."""
    start = at + 1 if word_at(tokens, at) in {"a", "an"} else at
    minutes = _MINUTES_FROM_HOUR.get(word_at(tokens, start))
    side = start + 1
    if minutes is None:
        number = number_if(tokens, start)
        if number is None or number.unit or not 0 < number.value < 60:  # noqa: PLR2004
            return None
        minutes, side = int(number.value), number.stop
    said = word_at(tokens, side)
    if said in {"minute", "minutes"}:
        said, side = word_at(tokens, side + 1), side + 1
        spoken = said in {"past", "to", "before", "after"}
    else:  # "ten to nine" may be a range
        spoken = said == "past" or (
            said in {"to", "before"} and minutes == _QUARTER and side == start + 1
        )
    if not spoken:
        return None
    return _at_hour(tokens, at, side + 1, minutes if said in {"past", "after"} else -minutes)


_QUARTER = 15
_MINUTES_FROM_HOUR = {"quarter": _QUARTER, "half": 30}


def _at_hour(tokens: Sequence[Token], at: int, hour_at: int, minutes: int) -> ParsedQuantity | None:
    """Return the time that is some minutes from the hour at a token."""
    word = word_at(tokens, hour_at)
    if word in NAMED_TIMES:
        total = (NAMED_TIMES[word] + minutes) % _MINUTES_IN_DAY
        half = "am" if total < _MINUTES_IN_DAY // 2 else "pm"
        parts = clock_parts(total // 60, total % 60, half)
        return found_in(Kind.TIME, parts, tokens, (at, hour_at + 1))
    if hour_at < len(tokens) and tokens[hour_at].form is Form.CLOCK:
        clock = clock_time(tokens, hour_at)
        if clock is None:
            return None
        parts_at = dict(clock.quantity.parts)
        half, hour, stop = str(parts_at.get("half", "")), int(parts_at["minute"]) // 60, clock.stop
    else:
        number = number_if(tokens, hour_at)
        if number is None or number.unit or number.value not in range(25):
            return None
        hour = int(number.value)
        stop = number.stop + (word_at(tokens, number.stop) == "o'clock")
        half, stop = part_of_day(tokens, stop)
        half = half or ("pm" if hour > NOON else "")
    total = (hour % NOON * 60 + minutes) % (_MINUTES_IN_DAY // 2)
    if hour % NOON == 0 and minutes < 0:
        half = ""  # a quarter to twelve at noon is still the morning
    return found_in(Kind.TIME, clock_parts(total // 60, total % 60, half), tokens, (at, stop))


_MINUTES_IN_DAY = 1440


def named_time(tokens: Sequence[Token], at: int) -> ParsedQuantity | None:
    minute = NAMED_TIMES.get(tokens[at].lower)
    if minute is None:
        return None
    parts = {"minute": minute % 720, "half": "pm" if minute else "am"}
    return found_in(Kind.TIME, parts, tokens, (at, at + 1))
