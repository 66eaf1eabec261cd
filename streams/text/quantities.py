"""Normalizes values in a text: numbers, amounts, dates, times, versions, identifiers.

A value is a set of named parts, so that "March 14" and "14/03/2024" can be compared by the parts
they share: two values of one kind conflict if a shared part differs.
"""
# ruff: noqa: SIM905 - a class of words is read as a line

import re
from collections.abc import Callable, Mapping, Sequence

from streams.text.clock_times import (
    clock_parts,
    clock_time,
    named_time,
    part_of_day,
    time_from_hour,
)
from streams.text.dates import YEARS, date_at, iso_date, relative_date, slashed_date
from streams.text.function_words import AUXILIARIES, FUNCTION_WORDS, MODALS
from streams.text.numbers import Number, magnitude, range_at
from streams.text.quantity import Kind, ParsedQuantity, found_in, word_at
from streams.text.tokens import MAGNITUDES, Form, Token
from streams.text.units import (
    BEFORE_YEARS,
    BOUNDS,
    CARDINALS,
    CURRENCIES,
    CURRENCY_WORDS,
    DURATIONS,
    FRACTIONS,
    MEASURES,
    ORDINALS,
    STARTS_VALUE,
    TENS_SPOKEN,
    TIMES,
    VERSIONED_BY,
)


def quantity_at(tokens: Sequence[Token], at: int) -> ParsedQuantity | None:
    """Read the longest value that begins at a token; None if none begins there."""
    token = tokens[at]
    if token.lower == "one" and _is_pronoun(tokens, at):
        return None
    if token.form is Form.MARK or (token.form is Form.WORD and token.lower not in STARTS_VALUE):
        return None
    for read in _READERS.get(token.form, ()):
        if found := read(tokens, at):
            return found
    return None


def _is_pronoun(tokens: Sequence[Token], at: int) -> bool:
    """Return whether "one" is a pronoun: "no one", "one may", "the one in"."""
    before, following = word_at(tokens, at - 1), word_at(tokens, at + 1)
    if before in {"no", "any", "every", "some"} or following in MODALS or following in AUXILIARIES:
        return True
    pointed = before in {"the", "this", "that", "which", "only", "another"}
    return pointed and (not following.isalnum() or following in FUNCTION_WORDS)


def bound_before(tokens: Sequence[Token], at: int) -> str:
    """Return the bound that the words before a value set: "more", "less", "about" or ""."""
    before = tuple(token.lower for token in tokens[max(0, at - _BOUND_REACH) : at])
    for words, bound in BOUNDS:
        if before[-len(words) :] == words:
            denied = bound in _OTHER_BOUND and not _DENYING.isdisjoint(before[: -len(words)])
            return _OTHER_BOUND[bound] if denied else bound
    return ""


def bound_behind(tokens: Sequence[Token], stop: int) -> str:
    """Return the bound that the words after a value set: "or more", "at most"."""
    words = (word_at(tokens, stop), word_at(tokens, stop + 1))
    return _BOUNDS_BEHIND.get(words, "")


_BOUND_REACH = 5
"""Words before a value that can bound it: "must not drop below 80" has four."""
_DENYING = frozenset(["not", "never", "nor", "neither", "cannot"])
_OTHER_BOUND = {"more": "less", "less": "more"}
_BOUNDS_BEHIND = {
    **{("or", word): "more" for word in ("more", "above", "over", "longer")},
    **{("or", word): "less" for word in ("less", "fewer", "below", "under")},
    ("at", "least"): "more",
    ("at", "most"): "less",
}


# Values recognized by their form alone.


def _verbatim(
    kind: Kind, part: str, around: str = ""
) -> Callable[[Sequence[Token], int], ParsedQuantity]:
    """Return a reader that takes a token as it is spelt, without the signs around it."""

    def read(tokens: Sequence[Token], at: int) -> ParsedQuantity:
        value = tokens[at].lower.rstrip(".,;:!?/").strip(around)
        return found_in(kind, {part: value}, tokens, (at, at + 1))

    return read


def _version(tokens: Sequence[Token], at: int) -> ParsedQuantity:
    """Read 2.3.1: 2.3 is compatible with it, 2.4 is not."""
    said = CARDINALS.get(tokens[at].lower)
    numbers = [f"{said:g}"] if said else re.split(r"[.-]", tokens[at].lower.lstrip("v"))
    parts: dict[str, float | str] = {f"v{place}": text for place, text in enumerate(numbers)}
    return found_in(Kind.VERSION, parts, tokens, (at, at + 1))


def _money(tokens: Sequence[Token], at: int) -> ParsedQuantity | None:
    match = re.search(r"[\d,]+(?:\.\d+)?", tokens[at].text)
    if match is None:
        return None
    text = tokens[at].lower
    suffix = re.search(r"(bn|[kmb])$", text)
    sign = next(sign for sign in "$€£¥₹" if sign in text)
    value = float(match.group().replace(",", "")) * (MAGNITUDES[suffix.group()] if suffix else 1.0)
    scale, stop = magnitude(tokens, at + 1)
    parts: dict[str, float | str] = {"amount": value * scale, "currency": CURRENCIES[sign]}
    return found_in(Kind.AMOUNT, parts, tokens, (at, stop))


# Numerals and number words with their units.


def _measured(tokens: Sequence[Token], at: int) -> ParsedQuantity | None:
    """Read a number with its unit."""
    number = range_at(tokens, at)
    if number is None:
        return None
    unit, stop = (number.unit, number.stop) if number.unit else _unit_at(tokens, number.stop)
    if unit in {"%", "percent", "percentage"}:
        return found_in(Kind.SHARE, _values(number, "share", 0.01), tokens, (at, stop))
    if re.fullmatch(r"st|[nr]d|th", number.unit):
        return found_in(Kind.ORDINAL, {"rank": number.value}, tokens, (at, number.stop))
    return (
        _hour(tokens, at, number)
        or _half_of_unit(tokens, at, number, unit, stop)
        or _in_unit(tokens, at, number, unit, stop)
    )


def _unit_at(tokens: Sequence[Token], at: int) -> tuple[str, int]:
    """Return the unit after a number, also in "5-year-old"; a compound's hyphen is skipped."""
    place = at + 1 if word_at(tokens, at) == "-" else at
    word = word_at(tokens, place)
    if word == "per" and word_at(tokens, place + 1) == "cent":
        return "%", place + 2
    if word == "km" and (word_at(tokens, place + 1), word_at(tokens, place + 2)) == ("/", "h"):
        return "km/h", place + 3
    return (word, place + 1) if place < len(tokens) else ("", at)


def _values(number: Number, name: str, factor: float = 1.0) -> dict[str, float | str]:
    low = round(number.value * factor, 6)
    return {name: low} if number.high is None else {name: low, "to": round(number.high * factor, 6)}


def _hour(tokens: Sequence[Token], at: int, number: Number) -> ParsedQuantity | None:
    """Read "3 o'clock", "at 9 in the morning"."""
    stop = number.stop + 1 if word_at(tokens, number.stop) == "o'clock" else number.stop
    half, end = part_of_day(tokens, stop)
    if number.value not in range(25) or (stop == number.stop and not half):
        return None
    return found_in(Kind.TIME, clock_parts(int(number.value), 0, half), tokens, (at, end))


def _half_of_unit(
    tokens: Sequence[Token], at: int, number: Number, unit: str, stop: int
) -> ParsedQuantity | None:
    """Read "and a half" after a number with a unit: "one hour and a half"."""
    if [token.lower for token in tokens[stop : stop + 3]] != ["and", "a", "half"]:
        return None
    more = Number(number.value + 0.5, number.stop, number.unit)
    return _in_unit(tokens, at, more, unit, stop + 3)


def _in_unit(
    tokens: Sequence[Token], at: int, number: Number, unit: str, stop: int
) -> ParsedQuantity | None:
    base = unit.lower()
    if base not in _UNIT_WORDS and base.endswith("s") and base[:-1] in _UNIT_WORDS:
        base = base[:-1]
    if base in {"°c", "°f", "°", "degree"}:
        if base != "°f" and word_at(tokens, stop) not in {"f", "fahrenheit"}:
            return found_in(Kind.MEASURE, _values(number, "degrees"), tokens, (at, stop), "c")
        celsius = Number((number.value - 32) / 1.8, number.stop)
        return found_in(Kind.MEASURE, _values(celsius, "degrees"), tokens, (at, stop), "f")
    if unit == "M" or (base == "m" and word_at(tokens, stop) in CURRENCY_WORDS):
        millions = Number(number.value * 1e6, number.stop)
        return found_in(Kind.NUMBER, _values(millions, "value"), tokens, (at, stop))
    beside_digits = bool(number.unit) or tokens[number.stop - 1].form is Form.NUMBER
    if base in DURATIONS and (beside_digits or len(base) > 1):
        return _duration(tokens, at, stop, _values(number, *DURATIONS[base]), base)
    one_foot = base == "foot" and number.value == 1.0  # "one foot in the door"
    if base in MEASURES and not one_foot and (beside_digits or len(base) > _ABBREVIATION_MAX):
        return found_in(Kind.MEASURE, _values(number, *MEASURES[base]), tokens, (at, stop), base)
    if unit.lower() in CURRENCIES:
        currency = CURRENCIES[unit.lower()]
        parts = {**_values(number, "amount"), "currency": currency}
        if currency == "cent":
            parts = _values(number, "amount", 0.01)
        return found_in(Kind.AMOUNT, parts, tokens, (at, stop))
    if number.unit:
        return found_in(Kind.IDENTIFIER, {"id": tokens[at].lower}, tokens, (at, number.stop))
    return _plain(tokens, at, number)


_UNIT_WORDS = {*DURATIONS, *MEASURES, "degree"}


_ABBREVIATION_MAX = 3
"""So short a measure counts only next to digits: "2 gal" is one, "two gals" are not."""


def _duration(
    tokens: Sequence[Token], at: int, stop: int, parts: dict[str, float | str], unit: str
) -> ParsedQuantity:
    """Read a duration; with "ago" or "later" after it, a point in time."""
    (name, value), *_ = parts.items()
    ago = word_at(tokens, stop) in {"ago", "earlier"}
    ahead = word_at(tokens, stop) in {"later", "hence"} or (
        word_at(tokens, stop) == "from" and word_at(tokens, stop + 1) == "now"
    )
    if (ago or ahead) and isinstance(value, float):
        relative: dict[str, float | str] = {f"relative-{name}": -value if ago else value}
        return found_in(Kind.DATE, relative, tokens, (at, stop + 1), unit)
    return found_in(Kind.DURATION, parts, tokens, (at, stop), unit)


def _plain(tokens: Sequence[Token], at: int, number: Number) -> ParsedQuantity:
    span = (at, number.stop)
    before = word_at(tokens, at - 1)
    text = tokens[at].text
    if before == "at" and number.value in range(1, 13) and _ends_phrase(tokens, number.stop):
        return found_in(Kind.TIME, clock_parts(int(number.value), 0, ""), tokens, span)
    if number.high is not None:
        return found_in(Kind.NUMBER, _values(number, "value"), tokens, span)
    if before in VERSIONED_BY or (
        re.fullmatch(r"\d+\.\d+", text)
        and at > 0
        and tokens[at - 1].text[:1].isupper()
        and before not in FUNCTION_WORDS
    ):
        return _version(tokens, at)
    if text.isdigit() and int(text) in YEARS and len(text) == 4 and before in BEFORE_YEARS:  # noqa: PLR2004
        return found_in(Kind.DATE, {"year": int(text)}, tokens, span)
    return found_in(Kind.NUMBER, _values(number, "value"), tokens, span)


def _ends_phrase(tokens: Sequence[Token], at: int) -> bool:
    """Return whether nothing is counted after a number: "at ten", "at ten on Monday"."""
    return at >= len(tokens) or (
        tokens[at].form is not Form.NUMBER
        and (tokens[at].text in {".", ",", ";", "!", "?"} or tokens[at].lower in _BEHIND_TIMES)
    )


_BEHIND_TIMES = frozenset(
    "on in and but so until till to because when every tomorrow today".split()
)


def _article_unit(tokens: Sequence[Token], at: int) -> ParsedQuantity | None:
    """Read "a week", "half an hour", "an hour and a half" as durations."""
    word = word_at(tokens, at)
    half = word == "half" and word_at(tokens, at + 1) in {"a", "an"}
    place = at + 1 if half else at
    unit = word_at(tokens, place + 1)
    if word_at(tokens, place) not in {"a", "an"} or unit not in DURATIONS:
        return None
    if len(unit) < 3 or unit == "second":  # noqa: PLR2004 - "a second" is mostly "another"
        return None
    if word_at(tokens, at - 1) in _PER:  # "twice a day" is a frequency, not a duration
        measured, length = DURATIONS[unit]
        return found_in(Kind.DURATION, {f"per-{measured}": length}, tokens, (at, at + 2), unit)
    number = Number(0.5 if half else 1.0, place + 1)
    return _half_of_unit(tokens, at, number, unit, place + 2) or _in_unit(
        tokens, at, number, unit, place + 2
    )


_PER = frozenset(["once", "twice", "thrice", "times"])


def _ordinal(tokens: Sequence[Token], at: int) -> ParsedQuantity | None:
    """Read "third", "twenty-first"; "thirds", and "second" after a number, are no ranks."""
    word = word_at(tokens, at)
    if word in ORDINALS:
        return found_in(Kind.ORDINAL, {"rank": ORDINALS[word]}, tokens, (at, at + 1))
    following = word_at(tokens, at + 1)
    if word in TENS_SPOKEN and following in ORDINALS and ORDINALS[following] < 10:  # noqa: PLR2004
        rank = CARDINALS[word] + ORDINALS[following]
        return found_in(Kind.ORDINAL, {"rank": rank}, tokens, (at, at + 2))
    return None


def _fraction(tokens: Sequence[Token], at: int) -> ParsedQuantity | None:
    """Read "half", "a quarter of", "two thirds"."""
    word, following = word_at(tokens, at), word_at(tokens, at + 1)
    if word == "half":
        return found_in(Kind.SHARE, {"share": 0.5}, tokens, (at, at + 1))
    part = _part(following, one=word in {"a", "one"})
    if not part or word not in {"a", *CARDINALS}:
        return None
    of_unit = _fraction_of_unit(tokens, at, CARDINALS.get(word, 1.0) * part)
    if of_unit or (word in {"a", "one"} and word_at(tokens, at + 2) != "of"):
        return of_unit
    share = round(CARDINALS.get(word, 1.0) * part, 6)
    return found_in(Kind.SHARE, {"share": share}, tokens, (at, at + 2))


def _part(word: str, *, one: bool) -> float:
    """Return the fraction that a word stands for: "half", "quarter", "fifths"; 0 if none."""
    over = word.removesuffix("s")
    if over in FRACTIONS or word in FRACTIONS:
        return FRACTIONS.get(word) or FRACTIONS[over]
    divides = over in ORDINALS and ORDINALS[over] > 2 and (one or word != over)  # noqa: PLR2004 - halves are no seconds
    return 1 / ORDINALS[over] if divides else 0.0


def _fraction_of_unit(tokens: Sequence[Token], at: int, value: float) -> ParsedQuantity | None:
    """Read "three quarters of an hour" as a duration."""
    unit = word_at(tokens, at + 4)
    of = word_at(tokens, at + 2) == "of" and word_at(tokens, at + 3) in {"a", "an"}
    if not of or unit not in DURATIONS or len(unit) < 3:  # noqa: PLR2004
        return None
    return _in_unit(tokens, at, Number(value, at + 4), unit, at + 5)


def _times(tokens: Sequence[Token], at: int) -> ParsedQuantity | None:
    """Read "once a week": "once" alone is also a conjunction."""
    count = TIMES.get(word_at(tokens, at))
    per = word_at(tokens, at + 1) in {"a", "an", "per", "every", "each", "daily", "weekly", ""}
    if count is None or not per:
        return None
    return found_in(Kind.NUMBER, {"value": count}, tokens, (at, at + 1))


_READERS: Mapping[Form, tuple[Callable[[Sequence[Token], int], ParsedQuantity | None], ...]] = {
    Form.URL: (_verbatim(Kind.IDENTIFIER, "url"),),
    Form.EMAIL: (_verbatim(Kind.IDENTIFIER, "address"),),
    Form.UUID: (_verbatim(Kind.IDENTIFIER, "id"),),
    Form.PATH: (_verbatim(Kind.IDENTIFIER, "path"),),
    Form.CODE: (_verbatim(Kind.IDENTIFIER, "id", "#"),),
    Form.PLACEHOLDER: (_verbatim(Kind.PLACEHOLDER, "name", "${}<>%"),),
    Form.ISO: (iso_date,),
    Form.SLASHED: (slashed_date,),
    Form.CLOCK: (clock_time, _verbatim(Kind.IDENTIFIER, "id")),
    Form.VERSION: (_version,),
    Form.MONEY: (_money, _verbatim(Kind.IDENTIFIER, "id")),
    Form.NUMBER: (date_at, time_from_hour, _measured),
    Form.WORD: (
        date_at,
        relative_date,
        named_time,
        time_from_hour,
        _article_unit,
        _fraction,
        _ordinal,
        _times,
        _measured,
    ),
}
