"""Numbers in a text: in digits and in words, mixed, and as ranges."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from streams.text.quantity import word_at
from streams.text.tokens import MAGNITUDES, Form, Token
from streams.text.units import CARDINALS, FRACTION_SIGNS

_NUMBER_PARTS = re.compile(r"([-+\u2212]?)([\d,]+(?:\.\d+)?)\s?(.*)")


@dataclass(frozen=True, slots=True)
class Number:
    value: float
    stop: int
    unit: str = ""
    high: float | None = None
    """The upper end of a range such as 5-7."""


def _numeral(tokens: Sequence[Token], at: int) -> Number | None:
    text = tokens[at].text
    if text in FRACTION_SIGNS:
        return Number(FRACTION_SIGNS[text], at + 1)
    match = _NUMBER_PARTS.match(text)
    if match is None:
        return None
    sign, digits, suffix = match.groups()
    value = float(digits.replace(",", "")) * (-1 if sign in {"-", "\u2212"} else 1)
    suffix = suffix.replace(" ", "")
    if suffix.lower() in {"k", "bn"} or suffix == "M":
        value, suffix = value * MAGNITUDES[suffix.lower()], ""
    return Number(value, at + 1, suffix)


def _spoken(tokens: Sequence[Token], at: int) -> Number | None:
    """Read "twenty-five", "two hundred and six", "a dozen"; None if there is no number word."""
    place, total, current, said = at, 0.0, 0.0, False
    if word_at(tokens, at - 1) in _VAGUE and word_at(tokens, at) in MAGNITUDES:
        return None
    if word_at(tokens, at) in {"a", "an"} and word_at(tokens, at + 1) in _COUNTED_BY_ONE:
        place, current = at + 1, 1.0
    while place < len(tokens):
        word = tokens[place].lower
        if word == "dozen":
            current = max(current, 1.0) * 12
        elif word in CARDINALS:
            if said and not _joins(current, CARDINALS[word]):
                break
            current += CARDINALS[word]
        elif word == "hundred":
            current = max(current, 1.0) * 100
        elif len(word) > 3 and word in MAGNITUDES:  # noqa: PLR2004 - k, m, b and bn are no words
            total, current = total + max(current, 1.0) * MAGNITUDES[word], 0.0
        elif not (
            said
            and word == "and"
            and current >= 100  # noqa: PLR2004 - "two hundred and six", not "two and six"
            and word_at(tokens, place + 1) in CARDINALS
        ):
            break
        said = True
        place += 1
    return Number(total + current, place) if said else None


_COUNTED_BY_ONE = {*MAGNITUDES, "dozen"} - set("kmb")
_VAGUE = frozenset(["of", "few", "several", "many"])
"""Before "hundred" these leave the number open."""


def _joins(current: float, value: float) -> bool:
    """Return whether a number word continues the number: "twenty five" but not "five six"."""
    return current % 100 == 0 or (current % 10 == 0 and current % 100 >= 20 and value < 10)  # noqa: PLR2004 - decimal places


def magnitude(tokens: Sequence[Token], at: int) -> tuple[float, int]:
    """Read "million", also in "85-million" and "1.1 millions"."""
    place = at + 1 if word_at(tokens, at) == "-" else at
    word = word_at(tokens, place).removesuffix("s")
    if len(word) > 3 and word in MAGNITUDES:  # noqa: PLR2004 - k, m, b and bn are no words
        return MAGNITUDES[word], place + 1
    return 1.0, at


def _number_at(tokens: Sequence[Token], at: int) -> Number | None:
    numeral = tokens[at].form is Form.NUMBER
    number = _numeral(tokens, at) if numeral else _spoken(tokens, at)
    if number is None or number.unit:
        return number
    scale, stop = magnitude(tokens, number.stop) if numeral else (1.0, number.stop)
    value = number.value * scale
    if numeral and stop == number.stop and (mixed := _mixed(tokens, stop)):
        return Number(value + mixed, stop + 3)
    if [token.lower for token in tokens[stop : stop + 3]] == ["and", "a", "half"]:
        value, stop = value + 0.5, stop + 3
    return Number(value, stop)


def _mixed(tokens: Sequence[Token], at: int) -> float:
    """Read the fraction of "5 1/2"; 0 if there is none."""
    spelt = [token.text for token in tokens[at : at + 3]]
    if len(spelt) < 3 or spelt[1] != "/" or not (spelt[0].isdigit() and spelt[2].isdigit()):  # noqa: PLR2004
        return 0.0
    over, under = int(spelt[0]), int(spelt[2])
    return over / under if 0 < over < under <= 16 else 0.0  # noqa: PLR2004 - sixteenths of an inch


def range_at(tokens: Sequence[Token], at: int) -> Number | None:
    """Read a number, or two as a range: "5-7", "5 to 7", "two or three"."""
    number = _number_at(tokens, at)
    joiners = {"and"} if word_at(tokens, at - 1) == "between" else {"-", "\u2013", "to", "or"}
    if number is None or number.unit or word_at(tokens, number.stop) not in joiners:
        return number
    after = number.stop + 1
    if after >= len(tokens) or not _is_number(tokens[after]):
        return number
    high = _number_at(tokens, after)
    if high is None or high.value <= number.value:
        return number
    return Number(number.value, high.stop, high.unit, high.value)


def number_if(tokens: Sequence[Token], at: int) -> Number | None:
    return _number_at(tokens, at) if at < len(tokens) and _is_number(tokens[at]) else None


def _is_number(token: Token) -> bool:
    return token.form is Form.NUMBER or token.lower in CARDINALS
