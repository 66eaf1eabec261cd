"""The words of values: numerals, months, days, units, currencies, bounds."""
# ruff: noqa: SIM905 - a class of words is read as a line

from collections.abc import Mapping

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


RELATIVE_DAYS = {
    "yesterday": -1.0,
    "today": 0.0,
    "tonight": 0.0,
    "tomorrow": 1.0,
}


RELATIVE = {"last": -1.0, "previous": -1.0, "this": 0.0, "current": 0.0, "next": 1.0}


PARTS_OF_DAY = {"morning": "am", "afternoon": "pm", "evening": "pm", "night": "pm"}


NAMED_TIMES = {"noon": 720, "midday": 720, "midnight": 0}


SECONDS = {
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


CALENDAR_MONTHS = {
    "month": 1.0,
    "mo": 1.0,
    "year": 12.0,
    "yr": 12.0,
    "decade": 120.0,
    "century": 1200.0,
    "centuries": 1200.0,
}


MEASURES: Mapping[str, tuple[str, float]] = {
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


CURRENCIES: Mapping[str, str] = {
    **dict.fromkeys(("$", "us$", "usd", "dollar", "dollars", "buck", "bucks"), "USD"),
    **dict.fromkeys(("€", "eur", "euro", "euros"), "EUR"),
    **dict.fromkeys(("£", "gbp", "quid"), "GBP"),
    **dict.fromkeys(("¥", "jpy", "yen"), "JPY"),
    **dict.fromkeys(("₹", "inr", "rupee", "rupees"), "INR"),
    **dict.fromkeys(("chf", "franc", "francs"), "CHF"),
    **dict.fromkeys(("sek", "krona", "kronor"), "SEK"),
    **dict.fromkeys(("cent", "cents"), "cent"),
}


CURRENCY_WORDS = frozenset(word for word in CURRENCIES if word.isalpha())


VERSIONED_BY = frozenset(["version", "release", "v"])


BOUNDS: tuple[tuple[tuple[str, ...], str], ...] = (
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


STARTS_VALUE = (
    CARDINALS.keys()
    | ORDINALS.keys()
    | FRACTIONS.keys()
    | TIMES.keys()
    | MONTHS.keys()
    | WEEKDAYS.keys()
    | RELATIVE_DAYS.keys()
    | RELATIVE.keys()
    | NAMED_TIMES.keys()
    | SECONDS.keys()
    | CALENDAR_MONTHS.keys()
    | {"a", "an", "version", "release", "hundred", "thousand", "million", "quarter", "half"}
)
"""Words that can begin a value; every other word is skipped early."""


ZONES = frozenset(
    "utc gmt cet cest bst wet west eet eest msk ist jst hkt sgt aest aedt est edt cst cdt mst mdt "
    "pst pdt et pt".split()
)
"""Abbreviations of time zones that follow a time."""


PERIODS = (
    WEEKDAYS.keys() | MONTHS.keys() | SECONDS.keys() | CALENDAR_MONTHS.keys() | PARTS_OF_DAY.keys()
) | frozenset("weekday weekend time noon midnight season".split())
"""Words after which "every" states a frequency: "every Sunday", "each time"."""
