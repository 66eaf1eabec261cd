"""A value in a text: what it is of, its parts, and when two of them conflict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from streams.text.tokens import Token

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

    def agrees(self, other: "Quantity") -> bool:
        """Return whether two values of one kind have parts to compare, and none that conflict."""
        return (
            self.kind is other.kind
            and not dict(self.parts).keys().isdisjoint(dict(other.parts))
            and not self.conflicts(other)
        )

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


@dataclass(frozen=True, slots=True)
class ParsedQuantity:
    """A value, and the index of the token after it."""

    quantity: Quantity
    stop: int


def word_at(tokens: Sequence[Token], at: int) -> str:
    return tokens[at].lower if 0 <= at < len(tokens) else ""


def found_in(
    kind: Kind,
    parts: Mapping[str, float | str],
    tokens: Sequence[Token],
    span: tuple[int, int],
    unit: str = "",
) -> ParsedQuantity:
    start, stop = span
    spelling = " ".join([token.text for token in tokens[start:stop]])
    return ParsedQuantity(Quantity(kind, tuple(sorted(parts.items())), spelling, unit), stop)
