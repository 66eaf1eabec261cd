"""Normalizes values in a text: numbers, amounts, dates, times, versions, identifiers.

A value is a set of named parts, so that "March 14" and "14/03/2024" can be compared by the parts
they share: two values of one kind conflict if a shared part differs.
"""
# ruff: noqa: SIM905 - a class of words is read as a line

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from streams.text.function_words import AUXILIARIES, FUNCTION_WORDS, MODALS
from streams.text.tokens import MAGNITUDES, Form, Token

_TOLERANCE = 0.02
"""The tolerance for converted values: people round "5 miles" to "8 km" (1.7 percent less)."""


class Kind(StrEnum):
    """What a value measures."""

    NUMBER = "number"
    ORDINAL = "ordinal"
    SHARE = "share"
    AMOUNT = "amount"
    MEASURE = "measure"
    DURATION = "duration"
    DATE = "date"
    TIME = "time"
    VERSION = "version"
    IDENTIFIER = "identifier"
    PLACEHOLDER = "placeholder"


@dataclass(frozen=True, slots=True)
class Quantity:
    """A value: its parts, its original unit, and the thing it is of, in lower case.

    `bound` is "more" for "at least" and the like, "less" for "at most", "about" for approximations.
    """

    kind: Kind
    parts: tuple[tuple[str, float | str], ...]
    spelling: str
    unit: str = ""
    bound: str = ""
    of: str = ""

    @property
    def key(self) -> str:
        """The key that equal values share."""
        return f"{self.kind.value}:" + ",".join(f"{name}={value}" for name, value in self.parts)

    def comparable(self, other: "Quantity") -> bool:
        """Return whether two values share a part that can be compared."""
        return not {name for name, _ in self.parts}.isdisjoint(name for name, _ in other.parts)

    def conflicts(self, other: "Quantity") -> bool:
        """Return whether two values cannot both be meant."""
        ours, theirs = dict(self.parts), dict(other.parts)
        if "months" in ours and "seconds" in theirs:
            return _far_apart(ours["months"], theirs["seconds"])
        if "seconds" in ours and "months" in theirs:
            return _far_apart(theirs["months"], ours["seconds"])
        if ("slashed" in ours) != ("slashed" in theirs) and not _one_day(ours, theirs):
            return True
        loosely = self.unit != other.unit
        return any(
            name in theirs and _unequal(value, theirs[name], loosely=loosely)
            for name, value in ours.items()
        )


def _one_day(ours: Mapping[str, float | str], theirs: Mapping[str, float | str]) -> bool:
    """Return whether "4/5" can be a date: its day and month are in either order."""
    slashed, date = (ours, theirs) if "slashed" in ours else (theirs, ours)
    numbers = [int(number) for number in str(slashed["slashed"]).split("/")]
    given = [int(date[part]) for part in ("day", "month") if part in date]
    if len(given) == len(numbers):
        return sorted(given) == sorted(numbers)
    return all(part in numbers for part in given)


def _far_apart(months: float | str, seconds: float | str) -> bool:
    """Return whether a duration in months cannot equal one in seconds, for any month lengths."""
    days = float(seconds) / 86_400
    return not 28 * float(months) <= days <= 31 * float(months)


def _unequal(value: float | str, other: float | str, *, loosely: bool) -> bool:
    if value == other:
        return False
    if isinstance(value, str) or isinstance(other, str) or not loosely:
        return True
    return abs(value - other) > _TOLERANCE * max(abs(value), abs(other))


_UNITS_SPOKEN = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
).split()
_TENS_SPOKEN = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_CARDINALS: Mapping[str, float] = {
    **{word: float(value) for value, word in enumerate(_UNITS_SPOKEN)},
    **{word: 10.0 * value for value, word in enumerate(_TENS_SPOKEN, 2)},
    "dozen": 12.0,
}
_IRREGULAR_ORDINALS = {
    "first": 1.0,
    "second": 2.0,
    "third": 3.0,
    "fifth": 5.0,
    "eighth": 8.0,
    "ninth": 9.0,
    "twelfth": 12.0,
}
_ORDINALS: Mapping[str, float] = {
    **{f"{word}th": value for word, value in _CARDINALS.items() if value > 3 and word != "dozen"},  # noqa: PLR2004 - one, two and three are irregular
    **{f"{word[:-1]}ieth": 10.0 * value for value, word in enumerate(_TENS_SPOKEN, 2)},
    **_IRREGULAR_ORDINALS,
    "hundredth": 100.0,
    "thousandth": 1000.0,
}
_FRACTIONS = {"half": 0.5, "quarter": 0.25, "third": 1 / 3, "halves": 0.5, "quarters": 0.25}
_FRACTION_SIGNS = {"½": 0.5, "¼": 0.25, "¾": 0.75}
_TIMES = {"once": 1.0, "twice": 2.0, "thrice": 3.0}

_MONTH_NAMES = (
    "january february march april may june july august september october november december"
).split()
_MONTHS: Mapping[str, int] = {
    **{name: number for number, name in enumerate(_MONTH_NAMES, 1)},
    **{name[:3]: number for number, name in enumerate(_MONTH_NAMES, 1)},
    "sept": 9,
}
_WEEKDAY_NAMES = "monday tuesday wednesday thursday friday saturday sunday".split()
_WEEKDAYS: Mapping[str, int] = {
    **{name: number for number, name in enumerate(_WEEKDAY_NAMES)},
    **{f"{name}s": number for number, name in enumerate(_WEEKDAY_NAMES)},
    **{name[:3]: number for number, name in enumerate(_WEEKDAY_NAMES)},
    "tues": 1,
    "thurs": 3,
}
_ALSO_WORDS = frozenset(["may", "march", "mar", "dec", "jan", "sat", "sun", "mon", "wed", "second"])
"""Spellings that are a date only in a date's position."""
_BEFORE_DATES = frozenset(
    "in on by since until till from before after during last next this every each early late mid of "
    "and or for to between".split()
)
_BEFORE_YEARS = frozenset(
    "in since until till from by during before after around late early mid of".split()
)

_RELATIVE_DAYS = {
    "yesterday": -1.0,
    "today": 0.0,
    "tonight": 0.0,
    "tomorrow": 1.0,
}
_RELATIVE = {"last": -1.0, "previous": -1.0, "this": 0.0, "current": 0.0, "next": 1.0}
_PARTS_OF_DAY = {"morning": "am", "afternoon": "pm", "evening": "pm", "night": "pm"}
_NAMED_TIMES = {"noon": 720, "midday": 720, "midnight": 0}

_SECONDS = {
    "second": 1.0,
    "sec": 1.0,
    "s": 1.0,
    "ms": 1e-3,
    "millisecond": 1e-3,
    "minute": 60.0,
    "min": 60.0,
    "hour": 3600.0,
    "hr": 3600.0,
    "h": 3600.0,
    "day": 86400.0,
    "night": 86400.0,
    "week": 604800.0,
    "wk": 604800.0,
    "fortnight": 1209600.0,
}
_CALENDAR_MONTHS = {
    "month": 1.0,
    "mo": 1.0,
    "year": 12.0,
    "yr": 12.0,
    "decade": 120.0,
    "century": 1200.0,
    "centuries": 1200.0,
}
_MEASURES: Mapping[str, tuple[str, float]] = {
    **dict.fromkeys(("m", "meter", "metre"), ("length", 1.0)),
    **dict.fromkeys(("km", "kilometer", "kilometre"), ("length", 1e3)),
    **dict.fromkeys(("cm", "centimeter", "centimetre"), ("length", 1e-2)),
    **dict.fromkeys(("mm", "millimeter", "millimetre"), ("length", 1e-3)),
    **dict.fromkeys(("mi", "mile"), ("length", 1609.344)),
    **dict.fromkeys(("ft", "foot", "feet"), ("length", 0.3048)),
    **dict.fromkeys(("inch", "inches"), ("length", 0.0254)),
    **dict.fromkeys(("yd", "yard"), ("length", 0.9144)),
    **dict.fromkeys(("kg", "kilo", "kilogram"), ("mass", 1.0)),
    **dict.fromkeys(("g", "gram", "gramme"), ("mass", 1e-3)),
    **dict.fromkeys(("mg", "milligram"), ("mass", 1e-6)),
    **dict.fromkeys(("lb", "lbs", "pound"), ("mass", 0.45359237)),
    **dict.fromkeys(("oz", "ounce"), ("mass", 0.028349523)),
    **dict.fromkeys(("t", "ton", "tonne"), ("mass", 1e3)),
    **dict.fromkeys(("l", "liter", "litre"), ("volume", 1.0)),
    **dict.fromkeys(("ml", "milliliter", "millilitre"), ("volume", 1e-3)),
    **dict.fromkeys(("gal", "gallon"), ("volume", 3.785411784)),
    **dict.fromkeys(("kb", "kilobyte"), ("bytes", 1e3)),
    **dict.fromkeys(("mb", "megabyte"), ("bytes", 1e6)),
    **dict.fromkeys(("gb", "gigabyte"), ("bytes", 1e9)),
    **dict.fromkeys(("tb", "terabyte"), ("bytes", 1e12)),
    **dict.fromkeys(("kib",), ("bytes", 1024.0)),
    **dict.fromkeys(("mib",), ("bytes", 1024.0**2)),
    **dict.fromkeys(("gib",), ("bytes", 1024.0**3)),
    **dict.fromkeys(("km/h", "kmh", "kph"), ("speed", 1.0)),
    "mph": ("speed", 1.609344),
    **dict.fromkeys(("hz", "hertz"), ("frequency", 1.0)),
    "mhz": ("frequency", 1e6),
    "ghz": ("frequency", 1e9),
    **dict.fromkeys(("w", "watt"), ("power", 1.0)),
    "kw": ("power", 1e3),
    **dict.fromkeys(("v", "volt"), ("voltage", 1.0)),
    "rpm": ("rate", 1.0),
    "dpi": ("density", 1.0),
    "px": ("pixels", 1.0),
    "pixel": ("pixels", 1.0),
}
_CURRENCIES: Mapping[str, str] = {
    **dict.fromkeys(("$", "us$", "usd", "dollar", "dollars", "buck", "bucks"), "USD"),
    **dict.fromkeys(("€", "eur", "euro", "euros"), "EUR"),
    **dict.fromkeys(("£", "gbp", "quid"), "GBP"),
    **dict.fromkeys(("¥", "jpy", "yen"), "JPY"),
    **dict.fromkeys(("₹", "inr", "rupee", "rupees"), "INR"),
    **dict.fromkeys(("chf", "franc", "francs"), "CHF"),
    **dict.fromkeys(("sek", "krona", "kronor"), "SEK"),
    **dict.fromkeys(("cent", "cents"), "cent"),
}
_CURRENCY_WORDS = frozenset(word for word in _CURRENCIES if word.isalpha())
_VERSIONED_BY = frozenset(["version", "release", "v"])

_BOUNDS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("no", "less", "than"), "more"),
    (("no", "fewer", "than"), "more"),
    (("no", "more", "than"), "less"),
    (("just", "over"), "about"),
    (("just", "under"), "about"),
    (("more", "than"), "more"),
    (("at", "least"), "more"),
    (("less", "than"), "less"),
    (("fewer", "than"), "less"),
    (("at", "most"), "less"),
    (("up", "to"), "less"),
    (("over",), "more"),
    (("above",), "more"),
    (("minimum",), "more"),
    (("under",), "less"),
    (("below",), "less"),
    (("maximum",), "less"),
    (("about",), "about"),
    (("around",), "about"),
    (("roughly",), "about"),
    (("approximately",), "about"),
    (("nearly",), "about"),
    (("almost",), "about"),
    (("some",), "about"),
    (("circa",), "about"),
    (("exceed",), "more"),
    (("exceeds",), "more"),
    (("exceeding",), "more"),
)

_STARTS_VALUE = (
    _CARDINALS.keys()
    | _ORDINALS.keys()
    | _FRACTIONS.keys()
    | _TIMES.keys()
    | _MONTHS.keys()
    | _WEEKDAYS.keys()
    | _RELATIVE_DAYS.keys()
    | _RELATIVE.keys()
    | _NAMED_TIMES.keys()
    | _SECONDS.keys()
    | _CALENDAR_MONTHS.keys()
    | {"a", "an", "version", "release", "hundred", "thousand", "million", "quarter", "half"}
)
"""Words that can begin a value; every other word is skipped early."""

ZONES = frozenset(
    "utc gmt cet cest bst wet west eet eest msk ist jst hkt sgt aest aedt est edt cst cdt mst mdt "
    "pst pdt et pt".split()
)
"""Abbreviations of time zones that follow a time."""

PERIODS = (
    _WEEKDAYS.keys()
    | _MONTHS.keys()
    | _SECONDS.keys()
    | _CALENDAR_MONTHS.keys()
    | _PARTS_OF_DAY.keys()
) | frozenset("weekday weekend time noon midnight season".split())
"""Words after which "every" states a frequency: "every Sunday", "each time"."""

_NUMBER_PARTS = re.compile(r"([-+\u2212]?)([\d,]+(?:\.\d+)?)\s?(.*)")


@dataclass(frozen=True, slots=True)
class Found:
    """A value, and the index of the token after it."""

    quantity: Quantity
    stop: int


def quantity_at(tokens: Sequence[Token], at: int) -> Found | None:
    """Read the longest value that begins at a token; None if none begins there."""
    token = tokens[at]
    if token.lower == "one" and _is_pronoun(tokens, at):
        return None
    if token.form is Form.MARK or (token.form is Form.WORD and token.lower not in _STARTS_VALUE):
        return None
    for read in _READERS.get(token.form, ()):
        if found := read(tokens, at):
            return found
    return None


def _is_pronoun(tokens: Sequence[Token], at: int) -> bool:
    """Return whether "one" is a pronoun: "no one", "one may", "the one in"."""
    before, following = _word(tokens, at - 1), _word(tokens, at + 1)
    if before in {"no", "any", "every", "some"} or following in MODALS or following in AUXILIARIES:
        return True
    pointed = before in {"the", "this", "that", "which", "only", "another"}
    return pointed and (not following.isalnum() or following in FUNCTION_WORDS)


def bound_before(tokens: Sequence[Token], at: int) -> str:
    """Return the bound that the words before a value set: "more", "less", "about" or ""."""
    before = tuple(token.lower for token in tokens[max(0, at - _BOUND_REACH) : at])
    for words, bound in _BOUNDS:
        if before[-len(words) :] == words:
            denied = bound in _OTHER_BOUND and not _DENYING.isdisjoint(before[: -len(words)])
            return _OTHER_BOUND[bound] if denied else bound
    return ""


def bound_behind(tokens: Sequence[Token], stop: int) -> str:
    """Return the bound that the words after a value set: "or more", "at most"."""
    words = (_word(tokens, stop), _word(tokens, stop + 1))
    return _BOUNDS_BEHIND.get(words, "")


_BOUND_REACH = 5
"""Words before a value that can bound it: "must not drop below 80" has four."""
_DENYING = frozenset(["not", "never", "nor", "neither", "cannot"])
_OTHER_BOUND = {"more": "less", "less": "more"}
_BOUNDS_BEHIND = {
    ("or", "more"): "more",
    ("or", "above"): "more",
    ("or", "over"): "more",
    ("or", "longer"): "more",
    ("or", "less"): "less",
    ("or", "fewer"): "less",
    ("or", "below"): "less",
    ("or", "under"): "less",
    ("at", "least"): "more",
    ("at", "most"): "less",
}


def _word(tokens: Sequence[Token], at: int) -> str:
    return tokens[at].lower if 0 <= at < len(tokens) else ""


def _spelt(tokens: Sequence[Token], start: int, stop: int) -> str:
    return " ".join(token.text for token in tokens[start:stop])


def _found(
    kind: Kind,
    parts: Mapping[str, float | str],
    tokens: Sequence[Token],
    span: tuple[int, int],
    unit: str = "",
) -> Found:
    start, stop = span
    spelling = _spelt(tokens, start, stop)
    return Found(Quantity(kind, tuple(sorted(parts.items())), spelling, unit), stop)


# Values recognized by their form alone.


def _verbatim(kind: Kind, part: str) -> Callable[[Sequence[Token], int], Found]:
    def read(tokens: Sequence[Token], at: int) -> Found:
        value = tokens[at].lower.rstrip(".,;:!?/")
        return _found(kind, {part: value}, tokens, (at, at + 1))

    return read


def _code(tokens: Sequence[Token], at: int) -> Found:
    return _found(Kind.IDENTIFIER, {"id": tokens[at].lower.removeprefix("#")}, tokens, (at, at + 1))


def _placeholder(tokens: Sequence[Token], at: int) -> Found:
    name = tokens[at].lower.strip("${}<>%")
    return _found(Kind.PLACEHOLDER, {"name": name}, tokens, (at, at + 1))


def _version(tokens: Sequence[Token], at: int) -> Found:
    """Read 2.3.1: 2.3 is compatible with it, 2.4 is not."""
    said = _CARDINALS.get(tokens[at].lower)
    numbers = [f"{said:g}"] if said else re.split(r"[.-]", tokens[at].lower.lstrip("v"))
    parts: dict[str, float | str] = {f"v{place}": text for place, text in enumerate(numbers)}
    return _found(Kind.VERSION, parts, tokens, (at, at + 1))


def _iso(tokens: Sequence[Token], at: int) -> Found:
    date, _, time = tokens[at].lower.replace(" ", "t").partition("t")
    year, month, day = (int(text) for text in date.split("-"))
    parts: dict[str, float | str] = {"year": year, "month": month, "day": day}
    if time:
        hour, minute = int(time[:2]), int(time[3:5])
        parts |= _clock_parts(hour, minute, "am" if hour < _NOON else "pm")
    return _found(Kind.DATE, parts, tokens, (at, at + 1))


def _slashed(tokens: Sequence[Token], at: int) -> Found:
    """Read 14/03/2024; if day and month are ambiguous, only equal spellings are equal."""
    numbers = [int(text) for text in re.split(r"[/.]", tokens[at].text)]
    if numbers[0] > _YEAR_MIN:
        year, month, day = numbers
        return _found(Kind.DATE, {"year": year, "month": month, "day": day}, tokens, (at, at + 1))
    first, second, year = numbers
    parts: dict[str, float | str] = {"year": year if year > _YEAR_MIN else 2000 + year}
    if first > _MONTHS_IN_YEAR or "." in tokens[at].text:
        parts |= {"day": first, "month": second}
    elif second > _MONTHS_IN_YEAR:
        parts |= {"day": second, "month": first}
    else:
        parts |= {"slashed": f"{first}/{second}"}
    return _found(Kind.DATE, parts, tokens, (at, at + 1))


_NOON = 12
_MONTHS_IN_YEAR = 12
_DAYS_MAX = 31
_YEAR_MIN = 999
_YEARS = range(1800, 2101)


def _clock(tokens: Sequence[Token], at: int) -> Found | None:
    digits = re.findall(r"\d+", tokens[at].text)
    hour, minute = int(digits[0]), int(digits[1]) if len(digits) > 1 else 0
    half = re.search(r"[ap](?=\.?m)", tokens[at].lower)
    if hour > 24 or minute > 59:  # noqa: PLR2004 - the hours of a day, the minutes of an hour
        return None
    midnight = hour % 24 == 0
    known = f"{half.group()}m" if half else "am" if midnight else "pm" if hour > _NOON else ""
    said, stop = (known, at + 1) if known else _part_of_day(tokens, at + 1)
    return _found(Kind.TIME, _clock_parts(hour, minute, said), tokens, (at, stop))


def _clock_parts(hour: int, minute: int, half: str) -> dict[str, float | str]:
    """Return a time on the twelve-hour clock, with the half of the day if it is known."""
    parts: dict[str, float | str] = {"minute": hour % _NOON * 60 + minute}
    return {**parts, "half": half} if half else parts


def _part_of_day(tokens: Sequence[Token], at: int) -> tuple[str, int]:
    """Read "in the morning", "at night": the half of the day that a time is in."""
    for length in (3, 2):
        words = [token.lower for token in tokens[at : at + length]]
        if words and words[0] in {"in", "at"} and words[-1] in _PARTS_OF_DAY:
            return _PARTS_OF_DAY[words[-1]], at + length
    return "", at


def _from_hour(tokens: Sequence[Token], at: int) -> Found | None:
    """Read "a quarter past nine", "half past 11", "twenty minutes to midnight"."""
    start = at + 1 if _word(tokens, at) in {"a", "an"} else at
    minutes = _MINUTES_FROM_HOUR.get(_word(tokens, start))
    side = start + 1
    if minutes is None:
        number = _number_if(tokens, start)
        if number is None or number.unit or not 0 < number.value < 60:  # noqa: PLR2004
            return None
        minutes, side = int(number.value), number.stop
    said = _word(tokens, side)
    if said in {"minute", "minutes"}:
        said, side = _word(tokens, side + 1), side + 1
        spoken = said in {"past", "to", "before", "after"}
    else:  # "ten to nine" may be a range
        spoken = said == "past" or (
            said in {"to", "before"} and minutes == _QUARTER and side == start + 1
        )
    return (
        _at_hour(tokens, at, side + 1, minutes if said in {"past", "after"} else -minutes)
        if spoken
        else None
    )


_QUARTER = 15
_MINUTES_FROM_HOUR = {"quarter": _QUARTER, "half": 30}


def _at_hour(tokens: Sequence[Token], at: int, hour_at: int, minutes: int) -> Found | None:
    """Return the time that is some minutes from the hour at a token."""
    word = _word(tokens, hour_at)
    if word in _NAMED_TIMES:
        total = (_NAMED_TIMES[word] + minutes) % _MINUTES_IN_DAY
        half = "am" if total < _MINUTES_IN_DAY // 2 else "pm"
        parts = _clock_parts(total // 60, total % 60, half)
        return _found(Kind.TIME, parts, tokens, (at, hour_at + 1))
    if hour_at < len(tokens) and tokens[hour_at].form is Form.CLOCK:
        clock = _clock(tokens, hour_at)
        if clock is None:
            return None
        parts_at = dict(clock.quantity.parts)
        half, hour, stop = str(parts_at.get("half", "")), int(parts_at["minute"]) // 60, clock.stop
    else:
        number = _number_if(tokens, hour_at)
        if number is None or number.unit or number.value not in range(25):
            return None
        hour = int(number.value)
        stop = number.stop + (_word(tokens, number.stop) == "o'clock")
        half, stop = _part_of_day(tokens, stop)
        half = half or ("pm" if hour > _NOON else "")
    total = (hour % _NOON * 60 + minutes) % (_MINUTES_IN_DAY // 2)
    if hour % _NOON == 0 and minutes < 0:
        half = ""  # a quarter to twelve at noon is still the morning
    return _found(Kind.TIME, _clock_parts(total // 60, total % 60, half), tokens, (at, stop))


_MINUTES_IN_DAY = 1440


def _named_time(tokens: Sequence[Token], at: int) -> Found | None:
    minute = _NAMED_TIMES.get(tokens[at].lower)
    if minute is None:
        return None
    return _found(
        Kind.TIME,
        {"minute": minute % 720, "half": "pm" if minute else "am"},
        tokens,
        (at, at + 1),
    )


def _money(tokens: Sequence[Token], at: int) -> Found | None:
    match = re.search(r"[\d,]+(?:\.\d+)?", tokens[at].text)
    if match is None:
        return None
    text = tokens[at].lower
    suffix = re.search(r"(bn|[kmb])$", text)
    sign = next(sign for sign in "$€£¥₹" if sign in text)
    value = float(match.group().replace(",", "")) * (MAGNITUDES[suffix.group()] if suffix else 1.0)
    scale, stop = _magnitude(tokens, at + 1)
    parts: dict[str, float | str] = {"amount": value * scale, "currency": _CURRENCIES[sign]}
    return _found(Kind.AMOUNT, parts, tokens, (at, stop))


# Numerals and number words with their units.


@dataclass(frozen=True, slots=True)
class _Number:
    value: float
    stop: int
    unit: str = ""
    high: float | None = None
    """The upper end of a range such as 5-7."""


def _numeral(tokens: Sequence[Token], at: int) -> _Number | None:
    text = tokens[at].text
    if text in _FRACTION_SIGNS:
        return _Number(_FRACTION_SIGNS[text], at + 1)
    match = _NUMBER_PARTS.match(text)
    if match is None:
        return None
    sign, digits, suffix = match.groups()
    value = float(digits.replace(",", "")) * (-1 if sign in {"-", "\u2212"} else 1)
    suffix = suffix.replace(" ", "")
    if suffix.lower() in {"k", "bn"} or suffix == "M":
        value, suffix = value * MAGNITUDES[suffix.lower()], ""
    return _Number(value, at + 1, suffix)


def _spoken(tokens: Sequence[Token], at: int) -> _Number | None:
    """Read "twenty-five", "two hundred and six", "a dozen"; None if there is no number word."""
    place, total, current, said = at, 0.0, 0.0, False
    if _word(tokens, at - 1) in _VAGUE and _word(tokens, at) in MAGNITUDES:
        return None
    if _word(tokens, at) in {"a", "an"} and _word(tokens, at + 1) in {*MAGNITUDES, "dozen"} - set(
        "kmb"
    ):
        place, current = at + 1, 1.0
    while place < len(tokens):
        word = tokens[place].lower
        if word == "dozen":
            current = max(current, 1.0) * 12
        elif word in _CARDINALS:
            if said and not _joins(current, _CARDINALS[word]):
                break
            current += _CARDINALS[word]
        elif word == "hundred":
            current = max(current, 1.0) * 100
        elif len(word) > 3 and word in MAGNITUDES:  # noqa: PLR2004 - k, m, b and bn are no words
            total, current = total + max(current, 1.0) * MAGNITUDES[word], 0.0
        elif not (
            said
            and word == "and"
            and current >= 100  # noqa: PLR2004 - "two hundred and six", not "two and six"
            and _word(tokens, place + 1) in _CARDINALS
        ):
            break
        said = True
        place += 1
    return _Number(total + current, place) if said else None


_VAGUE = frozenset(["of", "few", "several", "many"])
"""Before "hundred" these leave the number open."""


def _joins(current: float, value: float) -> bool:
    """Return whether a number word continues the number: "twenty five" but not "five six"."""
    return current % 100 == 0 or (current % 10 == 0 and current % 100 >= 20 and value < 10)  # noqa: PLR2004 - decimal places


def _magnitude(tokens: Sequence[Token], at: int) -> tuple[float, int]:
    """Read "million", also in "85-million" and "1.1 millions"."""
    place = at + 1 if _word(tokens, at) == "-" else at
    word = _word(tokens, place).removesuffix("s")
    if len(word) > 3 and word in MAGNITUDES:  # noqa: PLR2004 - k, m, b and bn are no words
        return MAGNITUDES[word], place + 1
    return 1.0, at


def _number_at(tokens: Sequence[Token], at: int) -> _Number | None:
    numeral = tokens[at].form is Form.NUMBER
    number = _numeral(tokens, at) if numeral else _spoken(tokens, at)
    if number is None or number.unit:
        return number
    scale, stop = _magnitude(tokens, number.stop) if numeral else (1.0, number.stop)
    value = number.value * scale
    if numeral and stop == number.stop and (mixed := _mixed(tokens, stop)):
        return _Number(value + mixed, stop + 3)
    if [token.lower for token in tokens[stop : stop + 3]] == ["and", "a", "half"]:
        value, stop = value + 0.5, stop + 3
    return _Number(value, stop)


def _mixed(tokens: Sequence[Token], at: int) -> float:
    """Read the fraction of "5 1/2"; 0 if there is none."""
    spelt = [token.text for token in tokens[at : at + 3]]
    if len(spelt) < 3 or spelt[1] != "/" or not (spelt[0].isdigit() and spelt[2].isdigit()):  # noqa: PLR2004
        return 0.0
    over, under = int(spelt[0]), int(spelt[2])
    return over / under if 0 < over < under <= 16 else 0.0  # noqa: PLR2004 - sixteenths of an inch


def _range_at(tokens: Sequence[Token], at: int) -> _Number | None:
    """Read a number, or two as a range: "5-7", "5 to 7", "two or three"."""
    number = _number_at(tokens, at)
    joiners = {"and"} if _word(tokens, at - 1) == "between" else {"-", "\u2013", "to", "or"}
    if number is None or number.unit or _word(tokens, number.stop) not in joiners:
        return number
    after = number.stop + 1
    if after >= len(tokens) or not _is_number(tokens[after]):
        return number
    high = _number_at(tokens, after)
    if high is None or high.value <= number.value:
        return number
    return _Number(number.value, high.stop, high.unit, high.value)


def _number_if(tokens: Sequence[Token], at: int) -> _Number | None:
    return _number_at(tokens, at) if at < len(tokens) and _is_number(tokens[at]) else None


def _is_number(token: Token) -> bool:
    return token.form is Form.NUMBER or token.lower in _CARDINALS


def _measured(tokens: Sequence[Token], at: int) -> Found | None:
    """Read a number with its unit."""
    number = _range_at(tokens, at)
    if number is None:
        return None
    unit, stop = (number.unit, number.stop) if number.unit else _unit_at(tokens, number.stop)
    return (
        _share(tokens, at, number, unit, stop)
        or _ordinal_numeral(tokens, at, number)
        or _hour(tokens, at, number)
        or _half_of_unit(tokens, at, number, unit, stop)
        or _in_unit(tokens, at, number, unit, stop)
    )


def _unit_at(tokens: Sequence[Token], at: int) -> tuple[str, int]:
    """Return the unit after a number, also in "5-year-old"; a compound's hyphen is skipped."""
    place = at + 1 if _word(tokens, at) == "-" else at
    word = _word(tokens, place)
    if word == "per" and _word(tokens, place + 1) == "cent":
        return "%", place + 2
    if word == "km" and (_word(tokens, place + 1), _word(tokens, place + 2)) == ("/", "h"):
        return "km/h", place + 3
    return (word, place + 1) if place < len(tokens) else ("", at)


def _values(number: _Number, name: str, factor: float = 1.0) -> dict[str, float | str]:
    low = round(number.value * factor, 6)
    return {name: low} if number.high is None else {name: low, "to": round(number.high * factor, 6)}


def _share(tokens: Sequence[Token], at: int, number: _Number, unit: str, stop: int) -> Found | None:
    if unit not in {"%", "percent", "percentage"}:
        return None
    return _found(Kind.SHARE, _values(number, "share", 0.01), tokens, (at, stop))


def _ordinal_numeral(tokens: Sequence[Token], at: int, number: _Number) -> Found | None:
    if not re.fullmatch(r"st|[nr]d|th", number.unit):
        return None
    return _found(Kind.ORDINAL, {"rank": number.value}, tokens, (at, number.stop))


def _hour(tokens: Sequence[Token], at: int, number: _Number) -> Found | None:
    """Read "3 o'clock", "at 9 in the morning"."""
    stop = number.stop + 1 if _word(tokens, number.stop) == "o'clock" else number.stop
    half, end = _part_of_day(tokens, stop)
    if number.value not in range(25) or (stop == number.stop and not half):
        return None
    return _found(Kind.TIME, _clock_parts(int(number.value), 0, half), tokens, (at, end))


def _half_of_unit(
    tokens: Sequence[Token], at: int, number: _Number, unit: str, stop: int
) -> Found | None:
    """Read "and a half" after a number with a unit: "one hour and a half"."""
    if [token.lower for token in tokens[stop : stop + 3]] != ["and", "a", "half"]:
        return None
    more = _Number(number.value + 0.5, number.stop, number.unit)
    return _in_unit(tokens, at, more, unit, stop + 3)


def _in_unit(
    tokens: Sequence[Token], at: int, number: _Number, unit: str, stop: int
) -> Found | None:
    base = unit.lower()
    if base not in _UNIT_WORDS and base.endswith("s") and base[:-1] in _UNIT_WORDS:
        base = base[:-1]
    if base in {"°c", "°f", "°", "degree"}:
        if base != "°f" and _word(tokens, stop) not in {"f", "fahrenheit"}:
            return _found(Kind.MEASURE, _values(number, "degrees"), tokens, (at, stop), "c")
        celsius = _Number((number.value - 32) / 1.8, number.stop)
        return _found(Kind.MEASURE, _values(celsius, "degrees"), tokens, (at, stop), "f")
    if unit == "M" or (base == "m" and _word(tokens, stop) in _CURRENCY_WORDS):
        millions = _Number(number.value * 1e6, number.stop)
        return _found(Kind.NUMBER, _values(millions, "value"), tokens, (at, stop))
    if base in _SECONDS and _is_unit_here(tokens, number, base):
        return _duration(tokens, at, stop, _values(number, "seconds", _SECONDS[base]), base)
    if base in _CALENDAR_MONTHS:
        return _duration(tokens, at, stop, _values(number, "months", _CALENDAR_MONTHS[base]), base)
    if base in _MEASURES and _is_measure_here(tokens, number, base):
        dimension, factor = _MEASURES[base]
        return _found(Kind.MEASURE, _values(number, dimension, factor), tokens, (at, stop), base)
    if unit.lower() in _CURRENCIES:
        currency = _CURRENCIES[unit.lower()]
        parts = {**_values(number, "amount"), "currency": currency}
        if currency == "cent":
            parts = _values(number, "amount", 0.01)
        return _found(Kind.AMOUNT, parts, tokens, (at, stop))
    if number.unit:
        return _found(Kind.IDENTIFIER, {"id": tokens[at].lower}, tokens, (at, number.stop))
    return _plain(tokens, at, number)


_UNIT_WORDS = {*_SECONDS, *_CALENDAR_MONTHS, *_MEASURES, "degree"}


def _is_unit_here(tokens: Sequence[Token], number: _Number, unit: str) -> bool:
    """Return whether a single letter is a unit: only next to digits."""
    return len(unit) > 1 or bool(number.unit) or tokens[number.stop - 1].form is Form.NUMBER


def _is_measure_here(tokens: Sequence[Token], number: _Number, unit: str) -> bool:
    """Return whether a word is a measure: "2 gal" is, "two gals" and "one foot" are not."""
    if unit == "foot":
        return number.value != 1.0
    beside_digits = bool(number.unit) or tokens[number.stop - 1].form is Form.NUMBER
    return len(unit) > _ABBREVIATION_MAX or beside_digits


_ABBREVIATION_MAX = 3


def _duration(
    tokens: Sequence[Token], at: int, stop: int, parts: dict[str, float | str], unit: str
) -> Found:
    """Read a duration; with "ago" or "later" after it, a point in time."""
    (name, value), *_ = parts.items()
    ago = _word(tokens, stop) in {"ago", "earlier"}
    ahead = _word(tokens, stop) in {"later", "hence"} or (
        _word(tokens, stop) == "from" and _word(tokens, stop + 1) == "now"
    )
    if (ago or ahead) and isinstance(value, float):
        relative: dict[str, float | str] = {f"relative-{name}": -value if ago else value}
        return _found(Kind.DATE, relative, tokens, (at, stop + 1), unit)
    return _found(Kind.DURATION, parts, tokens, (at, stop), unit)


def _plain(tokens: Sequence[Token], at: int, number: _Number) -> Found:
    span = (at, number.stop)
    before = _word(tokens, at - 1)
    text = tokens[at].text
    if before == "at" and number.value in range(1, 13) and _ends_phrase(tokens, number.stop):
        return _found(Kind.TIME, _clock_parts(int(number.value), 0, ""), tokens, span)
    if number.high is not None:
        return _found(Kind.NUMBER, _values(number, "value"), tokens, span)
    if before in _VERSIONED_BY or (
        re.fullmatch(r"\d+\.\d+", text)
        and at > 0
        and tokens[at - 1].text[:1].isupper()
        and before not in FUNCTION_WORDS
    ):
        return _version(tokens, at)
    if text.isdigit() and int(text) in _YEARS and len(text) == 4 and before in _BEFORE_YEARS:  # noqa: PLR2004
        return _found(Kind.DATE, {"year": int(text)}, tokens, span)
    return _found(Kind.NUMBER, _values(number, "value"), tokens, span)


def _ends_phrase(tokens: Sequence[Token], at: int) -> bool:
    """Return whether nothing is counted after a number: "at ten", "at ten on Monday"."""
    return at >= len(tokens) or (
        tokens[at].form is not Form.NUMBER
        and (tokens[at].text in {".", ",", ";", "!", "?"} or tokens[at].lower in _BEHIND_TIMES)
    )


_BEHIND_TIMES = frozenset(
    "on in and but so until till to because when every tomorrow today".split()
)


def _article_unit(tokens: Sequence[Token], at: int) -> Found | None:
    """Read "a week", "half an hour", "an hour and a half" as durations."""
    word = _word(tokens, at)
    half = word == "half" and _word(tokens, at + 1) in {"a", "an"}
    place = at + 1 if half else at
    unit = _word(tokens, place + 1)
    if _word(tokens, place) not in {"a", "an"} or unit not in {*_SECONDS, *_CALENDAR_MONTHS}:
        return None
    if len(unit) < 3 or unit == "second":  # noqa: PLR2004 - "a second" is mostly "another"
        return None
    if _word(tokens, at - 1) in _PER:
        return _per(tokens, at, unit)
    number = _Number(0.5 if half else 1.0, place + 1)
    return _half_of_unit(tokens, at, number, unit, place + 2) or _in_unit(
        tokens, at, number, unit, place + 2
    )


_PER = frozenset(["once", "twice", "thrice", "times"])


def _per(tokens: Sequence[Token], at: int, unit: str) -> Found:
    """Read the "a day" of "twice a day": a frequency, not a duration."""
    days = unit in _SECONDS
    value = _SECONDS[unit] if days else _CALENDAR_MONTHS[unit]
    part = "per-seconds" if days else "per-months"
    return _found(Kind.DURATION, {part: value}, tokens, (at, at + 2), unit)


def _ordinal(tokens: Sequence[Token], at: int) -> Found | None:
    """Read "third", "twenty-first"; "thirds", and "second" after a number, are no ranks."""
    word = _word(tokens, at)
    if word in _ORDINALS:
        return _found(Kind.ORDINAL, {"rank": _ORDINALS[word]}, tokens, (at, at + 1))
    following = _word(tokens, at + 1)
    if word in _TENS_SPOKEN and following in _ORDINALS and _ORDINALS[following] < 10:  # noqa: PLR2004
        rank = _CARDINALS[word] + _ORDINALS[following]
        return _found(Kind.ORDINAL, {"rank": rank}, tokens, (at, at + 2))
    return None


def _fraction(tokens: Sequence[Token], at: int) -> Found | None:
    """Read "half", "a quarter of", "two thirds"."""
    word, following = _word(tokens, at), _word(tokens, at + 1)
    if word == "half":
        return _found(Kind.SHARE, {"share": 0.5}, tokens, (at, at + 1))
    part = _part(following, one=word in {"a", "one"})
    if not part or word not in {"a", *_CARDINALS}:
        return None
    of_unit = _fraction_of_unit(tokens, at, _CARDINALS.get(word, 1.0) * part)
    if of_unit or (word in {"a", "one"} and _word(tokens, at + 2) != "of"):
        return of_unit
    share = round(_CARDINALS.get(word, 1.0) * part, 6)
    return _found(Kind.SHARE, {"share": share}, tokens, (at, at + 2))


def _part(word: str, *, one: bool) -> float:
    """Return the fraction that a word stands for: "half", "quarter", "fifths"; 0 if none."""
    over = word.removesuffix("s")
    if over in _FRACTIONS or word in _FRACTIONS:
        return _FRACTIONS.get(word) or _FRACTIONS[over]
    divides = over in _ORDINALS and _ORDINALS[over] > 2 and (one or word != over)  # noqa: PLR2004 - halves are no seconds
    return 1 / _ORDINALS[over] if divides else 0.0


def _fraction_of_unit(tokens: Sequence[Token], at: int, value: float) -> Found | None:
    """Read "three quarters of an hour" as a duration."""
    unit = _word(tokens, at + 4)
    of = _word(tokens, at + 2) == "of" and _word(tokens, at + 3) in {"a", "an"}
    if not of or unit not in {*_SECONDS, *_CALENDAR_MONTHS} or len(unit) < 3:  # noqa: PLR2004
        return None
    return _in_unit(tokens, at, _Number(value, at + 4), unit, at + 5)


def _times(tokens: Sequence[Token], at: int) -> Found | None:
    """Read "once a week": "once" alone is also a conjunction."""
    count = _TIMES.get(_word(tokens, at))
    per = _word(tokens, at + 1) in {"a", "an", "per", "every", "each", "daily", "weekly", ""}
    if count is None or not per:
        return None
    return _found(Kind.NUMBER, {"value": count}, tokens, (at, at + 1))


# Dates in words.


def _date(tokens: Sequence[Token], at: int) -> Found | None:
    """Read day, month, year and weekday in the usual orders, as far as the date goes."""
    parts: dict[str, float | str] = {}
    place = at
    while place < len(tokens):
        token = tokens[place]
        word = token.lower
        if word in {",", "of", "the", "."} and parts:
            if not _continues(tokens, place + 1, parts):
                break
        elif word in _WEEKDAYS and "weekday" not in parts and _is_date_word(tokens, place, parts):
            parts["weekday"] = _WEEKDAYS[word]
        elif word in _MONTHS and "month" not in parts and _is_date_word(tokens, place, parts):
            parts["month"] = _MONTHS[word]
        elif not (_take_day(tokens, place, parts) or _take_year(token, parts)):
            break
        place += 1
    if not parts.keys() & {"month", "weekday"}:
        return None
    return _found(Kind.DATE, parts, tokens, (at, place))


def _continues(tokens: Sequence[Token], at: int, parts: Mapping[str, float | str]) -> bool:
    """Return whether a date continues after a comma or an "of"."""
    if at >= len(tokens):
        return False
    word = tokens[at].lower
    return (
        (word in _MONTHS and "month" not in parts)
        or ("month" in parts and _year(tokens[at]) is not None)
        or (_word(tokens, at - 1) == "." and "month" in parts and _day(word) is not None)
        or (_day(word) is not None and _word(tokens, at + 1) in {*_MONTHS, "of"})
    )


def _is_date_word(tokens: Sequence[Token], at: int, parts: Mapping[str, float | str]) -> bool:
    """Return whether "may" or "sun" is a date: next to a day or year, or in a date's position."""
    token = tokens[at]
    if token.lower not in _ALSO_WORDS or parts:
        return True
    after = at + 2 if _word(tokens, at + 1) == "." else at + 1
    following = _word(tokens, after)
    if _day(following) is not None or following[:4].isdigit():
        return True
    before = _word(tokens, at - 1)
    return token.text[:1].isupper() and (before in _BEFORE_DATES or _day(before) is not None)


def _take_day(tokens: Sequence[Token], at: int, parts: dict[str, float | str]) -> bool:
    """Take a day of the month next to the month's name."""
    day = _day(tokens[at].lower)
    if day is None or "day" in parts:
        return False
    after = at + 2 if _word(tokens, at + 1) in {"of", "."} else at + 1
    if "month" not in parts and _word(tokens, after) not in _MONTHS:
        return False
    parts["day"] = day
    return True


def _day(word: str) -> int | None:
    """Read the day of a month: 14, 14th, fourteenth."""
    if word in _ORDINALS and _ORDINALS[word] <= _DAYS_MAX:
        return int(_ORDINALS[word])
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
    return int(text) if len(text) == 4 and text.isdigit() and int(text) in _YEARS else None  # noqa: PLR2004


def _relative_date(tokens: Sequence[Token], at: int) -> Found | None:
    """Read "yesterday", "last week", "next Monday"."""
    word, following = _word(tokens, at), _word(tokens, at + 1)
    if word in _RELATIVE_DAYS:
        seconds = _RELATIVE_DAYS[word] * _SECONDS["day"]
        return _found(Kind.DATE, {"relative-seconds": seconds}, tokens, (at, at + 1), "day")
    if word not in _RELATIVE:
        return None
    if following in _WEEKDAYS:
        parts: dict[str, float | str] = {
            "weekday": _WEEKDAYS[following],
            "relative-weeks": _RELATIVE[word],
        }
        return _found(Kind.DATE, parts, tokens, (at, at + 2))
    if following in {"week", "night"}:
        seconds = _RELATIVE[word] * _SECONDS[following]
        return _found(Kind.DATE, {"relative-seconds": seconds}, tokens, (at, at + 2), following)
    if following in _CALENDAR_MONTHS:
        months = _RELATIVE[word] * _CALENDAR_MONTHS[following]
        return _found(Kind.DATE, {"relative-months": months}, tokens, (at, at + 2), following)
    return None


_READERS: Mapping[Form, tuple[Callable[[Sequence[Token], int], Found | None], ...]] = {
    Form.URL: (_verbatim(Kind.IDENTIFIER, "url"),),
    Form.EMAIL: (_verbatim(Kind.IDENTIFIER, "address"),),
    Form.UUID: (_verbatim(Kind.IDENTIFIER, "id"),),
    Form.PATH: (_verbatim(Kind.IDENTIFIER, "path"),),
    Form.CODE: (_code,),
    Form.PLACEHOLDER: (_placeholder,),
    Form.ISO: (_iso,),
    Form.SLASHED: (_slashed,),
    Form.CLOCK: (_clock, _verbatim(Kind.IDENTIFIER, "id")),
    Form.VERSION: (_version,),
    Form.MONEY: (_money, _verbatim(Kind.IDENTIFIER, "id")),
    Form.NUMBER: (_date, _from_hour, _measured),
    Form.WORD: (
        _date,
        _relative_date,
        _named_time,
        _from_hour,
        _article_unit,
        _fraction,
        _ordinal,
        _times,
        _measured,
    ),
}
