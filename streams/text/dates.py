"""Dates in a text: by the calendar, by a weekday, and from today."""

import re
from collections.abc import Mapping, Sequence

from streams.text.clock_times import NOON, clock_parts
from streams.text.quantity import Kind, ParsedQuantity, found_in, word_at
from streams.text.tokens import Token
from streams.text.units import (
    ALSO_WORDS,
    BEFORE_DATES,
    DURATIONS,
    MONTHS,
    ORDINALS,
    RELATIVE,
    RELATIVE_DAYS,
    WEEKDAYS,
)


def iso_date(tokens: Sequence[Token], at: int) -> ParsedQuantity:
    date, _, time = tokens[at].lower.replace(" ", "t").partition("t")
    year, month, day = (int(text) for text in date.split("-"))
    parts: dict[str, float | str] = {"year": year, "month": month, "day": day}
    if time:
        hour, minute = int(time[:2]), int(time[3:5])
        parts |= clock_parts(hour, minute, "am" if hour < NOON else "pm")
    return found_in(Kind.DATE, parts, tokens, (at, at + 1))


def slashed_date(tokens: Sequence[Token], at: int) -> ParsedQuantity:
    """Read 14/03/2024; if day and month are ambiguous, only equal spellings are equal."""
    numbers = [int(text) for text in re.split(r"[/.]", tokens[at].text)]
    if numbers[0] > _YEAR_MIN:
        year, month, day = numbers
        return found_in(Kind.DATE, {"year": year, "month": month, "day": day}, tokens, (at, at + 1))
    first, second, year = numbers
    parts: dict[str, float | str] = {"year": year if year > _YEAR_MIN else 2000 + year}
    if first > _MONTHS_IN_YEAR or "." in tokens[at].text:
        parts |= {"day": first, "month": second}
    elif second > _MONTHS_IN_YEAR:
        parts |= {"day": second, "month": first}
    else:
        parts |= {"slashed": f"{first}/{second}"}
    return found_in(Kind.DATE, parts, tokens, (at, at + 1))


_MONTHS_IN_YEAR = 12
_DAYS_MAX = 31
_YEAR_MIN = 999
YEARS = range(1800, 2101)


def date_at(tokens: Sequence[Token], at: int) -> ParsedQuantity | None:
    """Read day, month, year and weekday in the usual orders, as far as the date goes."""
    parts: dict[str, float | str] = {}
    place = at
    while place < len(tokens):
        token = tokens[place]
        word = token.lower
        if word in {",", "of", "the", "."} and parts:
            if not _continues(tokens, place + 1, parts):
                break
        elif word in WEEKDAYS and "weekday" not in parts and _is_date_word(tokens, place, parts):
            parts["weekday"] = WEEKDAYS[word]
        elif word in MONTHS and "month" not in parts and _is_date_word(tokens, place, parts):
            parts["month"] = MONTHS[word]
        elif not (_take_day(tokens, place, parts) or _take_year(token, parts)):
            break
        place += 1
    if not parts.keys() & {"month", "weekday"}:
        return None
    return found_in(Kind.DATE, parts, tokens, (at, place))


def _continues(tokens: Sequence[Token], at: int, parts: Mapping[str, float | str]) -> bool:
    """Return whether a date continues after a comma or an "of"."""
    if at >= len(tokens):
        return False
    word = tokens[at].lower
    return (
        (word in MONTHS and "month" not in parts)
        or ("month" in parts and _year(tokens[at]) is not None)
        or (word_at(tokens, at - 1) == "." and "month" in parts and _day(word) is not None)
        or (_day(word) is not None and word_at(tokens, at + 1) in {*MONTHS, "of"})
    )


def _is_date_word(tokens: Sequence[Token], at: int, parts: Mapping[str, float | str]) -> bool:
    """Return whether "may" or "sun" is a date: next to a day or year, or in a date's position."""
    token = tokens[at]
    if token.lower not in ALSO_WORDS or parts:
        return True
    after = at + 2 if word_at(tokens, at + 1) == "." else at + 1
    following = word_at(tokens, after)
    if _day(following) is not None or following[:4].isdigit():
        return True
    before = word_at(tokens, at - 1)
    return token.text[:1].isupper() and (before in BEFORE_DATES or _day(before) is not None)


def _take_day(tokens: Sequence[Token], at: int, parts: dict[str, float | str]) -> bool:
    """Take a day of the month next to the month's name."""
    day = _day(tokens[at].lower)
    if day is None or "day" in parts:
        return False
    after = at + 2 if word_at(tokens, at + 1) in {"of", "."} else at + 1
    if "month" not in parts and word_at(tokens, after) not in MONTHS:
        return False
    parts["day"] = day
    return True


def _day(word: str) -> int | None:
    """Read the day of a month: 14, 14th, fourteenth."""
    if word in ORDINALS and ORDINALS[word] <= _DAYS_MAX:
        return int(ORDINALS[word])
    digits = re.fullmatch(r"(\d{1,2})(?:st|[nr]d|th)?", word)
    return int(digits.group(1)) if digits and 0 < int(digits.group(1)) <= _DAYS_MAX else None


def _take_year(token: Token, parts: dict[str, float | str]) -> bool:
    year = _year(token)
    if year is None or "month" not in parts or "year" in parts:
        return False
    parts["year"] = year
    return True


def _year(token: Token) -> int | None:
    text = token.text
    return int(text) if len(text) == 4 and text.isdigit() and int(text) in YEARS else None  # noqa: PLR2004


def relative_date(tokens: Sequence[Token], at: int) -> ParsedQuantity | None:
    """Read "yesterday", "last week", "next Monday"."""
    word, following = word_at(tokens, at), word_at(tokens, at + 1)
    if word in RELATIVE_DAYS:
        _, seconds = DURATIONS["day"]
        parts = {"relative-seconds": RELATIVE_DAYS[word] * seconds}
        return found_in(Kind.DATE, parts, tokens, (at, at + 1), "day")
    if word not in RELATIVE:
        return None
    if following in WEEKDAYS:
        parts = {"weekday": WEEKDAYS[following], "relative-weeks": RELATIVE[word]}
        return found_in(Kind.DATE, parts, tokens, (at, at + 2))
    measured, length = DURATIONS.get(following, ("", 0.0))
    if measured == "months" or following in {"week", "night"}:
        parts = {f"relative-{measured}": RELATIVE[word] * length}
        return found_in(Kind.DATE, parts, tokens, (at, at + 2), following)
    return None
