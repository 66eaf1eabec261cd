"""Guards on values: numbers, amounts, dates, times, durations, versions, identifiers."""

import re
from collections.abc import Callable, Sequence
from math import isclose, isnan, nan

from streams.text.guards.statement import COMPATIBLE, Answer, CannotTell, Differs, Sides
from streams.text.parts import Word
from streams.text.quantity import Kind, Quantity
from streams.text.reading import AnalysedText
from streams.text.units import ZONES


def values(what: str, *kinds: Kind) -> Callable[[Sides], Answer]:
    """Return the guard on some kinds of value: each side's own values must not conflict."""

    def guard(sides: Sides) -> Answer:
        event, memory = (_of_kinds(reading, kinds) for reading in sides.readings)
        if not event or not memory:
            return COMPATIBLE
        found = _repaired(what, event, memory) or _unmatched(what, event, memory)
        return _softened(found, event, memory) if isinstance(found, Differs) else found

    return guard


def numbers(sides: Sides) -> Answer:
    """Compare numbers, shares, ranks and measures; "a dog" is one dog."""
    answer = _plain_numbers(sides)
    if answer is not COMPATIBLE:
        return answer
    event, memory = sides.readings
    if found := _against_article(event, memory):
        return Differs("number", *found)
    if found := _against_article(memory, event):
        return Differs("number", *reversed(found))
    return _across_kinds(sides)


_plain_numbers = values("number", Kind.NUMBER, Kind.SHARE, Kind.ORDINAL, Kind.MEASURE)


def _of_kinds(reading: AnalysedText, kinds: Sequence[Kind]) -> list[Quantity]:
    return [quantity for quantity in reading.quantities if quantity.kind in kinds]


def _repaired(what: str, event: Sequence[Quantity], memory: Sequence[Quantity]) -> Differs | None:
    """Find a value of one thing that differs between the sides: "2 dogs" and "3 dogs"."""
    for mine in event:
        same_thing = [other for other in memory if other.of and other.of == mine.of]
        rivals = [other for other in same_thing if other.kind is mine.kind]
        if _is_counted_otherwise(mine, event, memory):
            continue
        if rivals and all(mine.conflicts(other) for other in rivals):
            return Differs(what, mine.spelling, rivals[0].spelling)
    return None


def _is_counted_otherwise(
    mine: Quantity, event: Sequence[Quantity], memory: Sequence[Quantity]
) -> bool:
    """Return whether the other side has this value for a thing that this side calls differently."""
    things = {quantity.of for quantity in event}
    return any(other.key == mine.key and other.of not in things for other in memory)


def _softened(found: Differs, event: Sequence[Quantity], memory: Sequence[Quantity]) -> Answer:
    """Keep a certain difference; a bound, a rounding, a range or a sum may hide equal values."""
    ours, theirs = _lacking(memory, event), _lacking(event, memory)
    few, many = sorted((ours, theirs), key=len)
    inexact = bool(few) and all(any(_may_be_one(mine, other) for other in many) for mine in few)
    if not (inexact or _is_sum(ours, theirs) or _is_sum(theirs, ours)):
        return found
    return CannotTell(f"'{found.event_says}' and '{found.memory_says}' may be one {found.what}")


def _is_sum(parts: Sequence[Quantity], whole: Sequence[Quantity]) -> bool:
    """Return whether one number is the sum of several: "two officials and five others"."""
    if len(whole) != 1 or len(parts) < 2 or whole[0].kind is not Kind.NUMBER:  # noqa: PLR2004
        return False
    numbers_said = [_main(part) for part in parts if part.kind is Kind.NUMBER]
    return len(numbers_said) > 1 and sum(numbers_said) == _main(whole[0])


def _main(quantity: Quantity) -> float:
    """Return a value's number, whatever it measures; NaN if it has none."""
    names = [name for name, value in quantity.parts if isinstance(value, float) and name != "to"]
    return float(dict(quantity.parts)[names[0]]) if len(names) == 1 else nan


def _may_be_one(mine: Quantity, other: Quantity) -> bool:
    """Return whether two numbers may be one at two precisions, or one may be the other's bound."""
    ours, theirs = _main(mine), _main(other)
    if isnan(ours) or isnan(theirs) or _units(mine) != _units(other):
        return False
    return (
        _includes(mine, theirs, other.bound)
        or _includes(other, ours, mine.bound)
        or _is_rounded(mine, other)
        or _is_rounded(other, mine)
    )


def _units(quantity: Quantity) -> dict[str, str]:
    """Return what must agree before numbers are compared: the kind, the measure, the currency."""
    parts = {name: value if isinstance(value, str) else "" for name, value in quantity.parts}
    return {**parts, "kind": quantity.kind, "to": ""}


def _includes(bounded: Quantity, value: float, bound: str) -> bool:
    """Return whether a bound, an approximate number or a range can include a value."""
    limit = _main(bounded)
    high = dict(bounded.parts).get("to")
    if isinstance(high, float):
        return limit <= value <= high
    if bounded.bound == "about":
        return abs(limit - value) <= _ROUGHLY * max(abs(limit), abs(value))
    if bound == bounded.bound:
        return False
    return (bounded.bound == "more" and limit < value <= _BOUND_REACH * limit) or (
        bounded.bound == "less" and limit / _BOUND_REACH <= value < limit
    )


_BOUND_REACH = 1.5
"""People do not say "at least 80" of 180."""

_ROUGHLY = 0.05
"""The relative error allowed after "about": "some 65 billion" may be 64.7."""


def _is_rounded(coarse: Quantity, fine: Quantity) -> bool:
    """Return whether one number is the other with fewer decimals: 0.44 as 0.4, 75.88 as 75."""
    short, long = _NUMERAL.search(coarse.spelling), _NUMERAL.search(fine.spelling)
    if not short or not long:
        return False
    places, more = (len(found.group(1) or "") for found in (short, long))
    cut, full = (float(found.group().replace(",", "")) for found in (short, long))
    one_scale = isclose(_main(coarse) * full, _main(fine) * cut)
    off = abs(cut - full)
    return more > places and one_scale and off < 10.0**-places and off <= _ROUNDED_MAX * full


_ROUNDED_MAX = 0.1
"""Beyond this share, a missing decimal makes another number: 2 does not mean 2.5."""

_NUMERAL = re.compile(r"[\d,]*\d(?:\.(\d+))?")


def _unmatched(what: str, event: Sequence[Quantity], memory: Sequence[Quantity]) -> Answer:
    """Compare as sets: they conflict if each side has a value that the other lacks."""
    ours, theirs = _lacking(memory, event), _lacking(event, memory)
    for mine in ours:
        for other in theirs:
            if mine.kind is other.kind and mine.conflicts(other):
                return Differs(what, mine.spelling, other.spelling)
    bounds = _opposite_bounds(event, memory)
    if bounds:
        return Differs(what, *bounds)
    if ours and theirs and ours[0].kind in _WHOLE:
        return Differs(what, ours[0].spelling, theirs[0].spelling)
    if ours and theirs and ours[0].kind is theirs[0].kind:
        return CannotTell(f"{ours[0].spelling} and {theirs[0].spelling} cannot be compared")
    return COMPATIBLE


_WHOLE = frozenset([Kind.IDENTIFIER, Kind.MEASURE])
"""Kinds whose values differ even if they share no comparable part: an address and a number."""


def _lacking(known: Sequence[Quantity], said: Sequence[Quantity]) -> list[Quantity]:
    """Return the values that are said on one side and lacking on the other."""
    return [one for one in said if not any(other.agrees(one) for other in known)]


def _opposite_bounds(
    event: Sequence[Quantity], memory: Sequence[Quantity]
) -> tuple[str, str] | None:
    """Find a value that is a lower bound on one side and an upper bound on the other."""
    for mine in event:
        for other in memory:
            if mine.key == other.key and {mine.bound, other.bound} == {"more", "less"}:
                return f"{mine.bound} {mine.spelling}", f"{other.bound} {other.spelling}"
    return None


def _against_article(counted: AnalysedText, other: AnalysedText) -> tuple[str, str] | None:
    """Find several of a thing against one: "two dogs" and "a dog"."""
    if any(quantity.kind is Kind.NUMBER for quantity in other.quantities):
        return None
    for quantity in counted.quantities:
        values_said = dict(quantity.parts)
        if quantity.kind is not Kind.NUMBER or values_said.get("value") in {0.0, 1.0}:
            continue
        for word in other.words:
            if word.lemma == quantity.of and word.lower == word.lemma and _is_plural(counted, word):
                before = other.before(word.position, 2)
                if any(article.lower in {"a", "an"} for article in before):
                    return f"{quantity.spelling} {quantity.of}", f"a {word.lower}"
    return None


def _is_plural(reading: AnalysedText, thing: Word) -> bool:
    return any(word.lemma == thing.lemma and word.lower != word.lemma for word in reading.words)


def _across_kinds(sides: Sides) -> Answer:
    """Compare values of two kinds in the same position: "in 2019" and "2020"."""
    for mine, other in sides.alignment.swaps:
        if _is_ranked_otherwise(mine, other) or _is_ranked_otherwise(other, mine):
            return Differs("rank", mine.spelling, other.spelling)
        if mine.quantity and other.quantity and mine.quantity.kind is not other.quantity.kind:
            ours, theirs = _digits(mine.quantity), _digits(other.quantity)
            if ours and theirs and ours != theirs:
                return Differs("value", mine.spelling, other.spelling)
    return COMPATIBLE


def _is_ranked_otherwise(ranked: Word, other: Word) -> bool:
    """Return whether one word is a rank and the other a relative position: "first" and "last"."""
    return (
        ranked.quantity is not None
        and ranked.quantity.kind is Kind.ORDINAL
        and other.lower in {"last", "final", "next", "previous"}
    )


def _digits(quantity: Quantity) -> str:
    return "".join(character for character in quantity.spelling if character.isdigit())


amounts = values("amount", Kind.AMOUNT)
dates = values("date", Kind.DATE)


def _zones(reading: AnalysedText) -> set[str]:
    """Return the time zones that a text names, each with its offset: "utc number:value=1.0"."""
    return {
        " ".join(
            near.lower
            for near in (word, *reading.behind(word.position, 1))
            if near is word or near.quantity
        )
        for word in reading.words
        if word.lower in ZONES
    }


_plain_times = values("time", Kind.TIME)


def times(sides: Sides) -> Answer:
    """Compare times of day; times in two zones may be the same."""
    found = _plain_times(sides)
    ours, theirs = (_zones(reading) for reading in sides.readings)
    if isinstance(found, Differs) and ours != theirs:
        return CannotTell(f"{found.event_says} and {found.memory_says} are of two time zones")
    return found


durations = values("duration", Kind.DURATION)
versions = values("version", Kind.VERSION)
identifiers = values("identifier", Kind.IDENTIFIER)
placeholders = values("placeholder", Kind.PLACEHOLDER)
