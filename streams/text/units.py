"""The words of values: numerals, months, days, units, currencies, bounds."""
# ruff: noqa: SIM905 - a class of words is read as a line

from collections.abc import Mapping
from typing import TypeVar

_Value = TypeVar("_Value")


def _by_word(values: Mapping[str, _Value]) -> Mapping[str, _Value]:
    """Return the value of each word, from the value of each line of words."""
    return {word: value for words, value in values.items() for word in words.split()}


_UNITS_SPOKEN = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
).split()

TENS_SPOKEN = "twenty thirty forty fifty sixty seventy eighty ninety".split()

CARDINALS: Mapping[str, float] = {
    **{word: float(value) for value, word in enumerate(_UNITS_SPOKEN)},
    **{word: 10.0 * value for value, word in enumerate(TENS_SPOKEN, 2)},
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

ORDINALS: Mapping[str, float] = {
    **{f"{word}th": value for word, value in CARDINALS.items() if value > 3 and word != "dozen"},  # noqa: PLR2004 - one, two and three are irregular
    **{f"{word[:-1]}ieth": 10.0 * value for value, word in enumerate(TENS_SPOKEN, 2)},
    **_IRREGULAR_ORDINALS,
    "hundredth": 100.0,
    "thousandth": 1000.0,
}

FRACTIONS = {"half": 0.5, "quarter": 0.25, "third": 1 / 3, "halves": 0.5, "quarters": 0.25}

FRACTION_SIGNS = {"½": 0.5, "¼": 0.25, "¾": 0.75}

TIMES = {"once": 1.0, "twice": 2.0, "thrice": 3.0}

_MONTH_NAMES = (
    "january february march april may june july august september october november december"
).split()

MONTHS: Mapping[str, int] = {
    **{name: number for number, name in enumerate(_MONTH_NAMES, 1)},
    **{name[:3]: number for number, name in enumerate(_MONTH_NAMES, 1)},
    "sept": 9,
}

_WEEKDAY_NAMES = "monday tuesday wednesday thursday friday saturday sunday".split()

WEEKDAYS: Mapping[str, int] = {
    **{name: number for number, name in enumerate(_WEEKDAY_NAMES)},
    **{f"{name}s": number for number, name in enumerate(_WEEKDAY_NAMES)},
    **{name[:3]: number for number, name in enumerate(_WEEKDAY_NAMES)},
    "tues": 1,
    "thurs": 3,
}

ALSO_WORDS = frozenset(["may", "march", "mar", "dec", "jan", "sat", "sun", "mon", "wed", "second"])
"""Spellings that are a date only in a date's position."""

BEFORE_DATES = frozenset(
    "in on by since until till from before after during last next this every each early late mid of "
    "and or for to between".split()
)

BEFORE_YEARS = frozenset(
    "in since until till from by during before after around late early mid of".split()
)

RELATIVE_DAYS = {"yesterday": -1.0, "today": 0.0, "tonight": 0.0, "tomorrow": 1.0}

RELATIVE = {"last": -1.0, "previous": -1.0, "this": 0.0, "current": 0.0, "next": 1.0}

PARTS_OF_DAY = {"morning": "am", "afternoon": "pm", "evening": "pm", "night": "pm"}

NAMED_TIMES = {"noon": 720, "midday": 720, "midnight": 0}

DURATIONS = _by_word(
    {
        "ms millisecond": ("seconds", 1e-3),
        "s sec second": ("seconds", 1.0),
        "min minute": ("seconds", 60.0),
        "h hr hour": ("seconds", 3600.0),
        "day night": ("seconds", 86_400.0),
        "wk week": ("seconds", 604_800.0),
        "fortnight": ("seconds", 1_209_600.0),
        "mo month": ("months", 1.0),
        "yr year": ("months", 12.0),
        "decade": ("months", 120.0),
        "century centuries": ("months", 1200.0),
    }
)
"""Units of time, in seconds, or in months, whose length varies."""

MEASURES = _by_word(
    {
        "mm millimeter millimetre": ("length", 1e-3),
        "cm centimeter centimetre": ("length", 1e-2),
        "inch inches": ("length", 0.0254),
        "ft foot feet": ("length", 0.3048),
        "yd yard": ("length", 0.9144),
        "m meter metre": ("length", 1.0),
        "km kilometer kilometre": ("length", 1e3),
        "mi mile": ("length", 1609.344),
        "mg milligram": ("mass", 1e-6),
        "g gram gramme": ("mass", 1e-3),
        "oz ounce": ("mass", 0.028349523),
        "lb lbs pound": ("mass", 0.45359237),
        "kg kilo kilogram": ("mass", 1.0),
        "t ton tonne": ("mass", 1e3),
        "ml milliliter millilitre": ("volume", 1e-3),
        "l liter litre": ("volume", 1.0),
        "gal gallon": ("volume", 3.785411784),
        "kb kilobyte": ("bytes", 1e3),
        "mb megabyte": ("bytes", 1e6),
        "gb gigabyte": ("bytes", 1e9),
        "tb terabyte": ("bytes", 1e12),
        "kib": ("bytes", 1024.0),
        "mib": ("bytes", 1024.0**2),
        "gib": ("bytes", 1024.0**3),
        "km/h kmh kph": ("speed", 1.0),
        "mph": ("speed", 1.609344),
        "hz hertz": ("frequency", 1.0),
        "mhz": ("frequency", 1e6),
        "ghz": ("frequency", 1e9),
        "w watt": ("power", 1.0),
        "kw": ("power", 1e3),
        "v volt": ("voltage", 1.0),
        "rpm": ("rate", 1.0),
        "dpi": ("density", 1.0),
        "px pixel": ("pixels", 1.0),
    }
)

CURRENCIES = _by_word(
    {
        "$ us$ usd dollar dollars buck bucks": "USD",
        "€ eur euro euros": "EUR",
        "£ gbp quid": "GBP",
        "¥ jpy yen": "JPY",
        "₹ inr rupee rupees": "INR",
        "chf franc francs": "CHF",
        "sek krona kronor": "SEK",
        "cent cents": "cent",
    }
)

CURRENCY_WORDS = frozenset(word for word in CURRENCIES if word.isalpha())

VERSIONED_BY = frozenset(["version", "release", "v"])

_BOUNDS = {
    "more": "no less than, no fewer than, more than, at least, over, above, minimum, exceed, exceeds, "
    "exceeding",
    "less": "no more than, less than, fewer than, at most, up to, under, below, maximum",
    "about": "just over, just under, about, around, roughly, approximately, nearly, almost, some, circa",
}

BOUNDS = sorted(
    (
        (tuple(phrase.split()), bound)
        for bound, said in _BOUNDS.items()
        for phrase in said.split(", ")
    ),
    key=lambda said: -len(said[0]),
)
"""The phrases before a value that bound it, the longest first: "no less than" before "less than"."""

STARTS_VALUE = (
    frozenset("a an version release hundred thousand million quarter half".split())
    .union(CARDINALS, ORDINALS, FRACTIONS, TIMES, MONTHS, WEEKDAYS)
    .union(RELATIVE_DAYS, RELATIVE, NAMED_TIMES, DURATIONS)
)
"""Words that can begin a value; every other word is skipped early."""

ZONES = frozenset(
    "utc gmt cet cest bst wet west eet eest msk ist jst hkt sgt aest aedt est edt cst cdt mst mdt "
    "pst pdt et pt".split()
)
"""Abbreviations of time zones that follow a time."""

PERIODS = frozenset("weekday weekend time noon midnight season".split()).union(
    WEEKDAYS, MONTHS, DURATIONS, PARTS_OF_DAY
)
"""Words after which "every" states a frequency: "every Sunday", "each time"."""
