"""Guards on what a model of words reads badly: symbols, emoji, and quoted code.

The judge's tokenizer knows few symbols, its trees and word vectors none. Texts of the same words
look like one fact to it: "C" and "C++", "The build is ✅." and "The build is ❌."
"""

import re
import unicodedata
from typing import NamedTuple

from streams.text.guards.statement import COMPATIBLE, Answer, Differs, Sides

_CODE = re.compile(r"`([^`]+)`")
_RUN = re.compile(r"[^\w\s]+")
_BEFORE = "\"'`([{«\u201c\u2018\u2026"
_BEHIND = "\"'`)]}»,;:.?!\u201d\u2019\u2026"
"""Punctuation around a symbol that is no part of it."""
_SEPARATORS = frozenset(["=", "|", "->", "=>", "-->", "→", "⇒", "•", "·"])
"""What stands between the words of a note as a colon does."""
_DASHES = frozenset(["-", "\u2013", "\u2014", "\u2212"])
_OF_VALUES = frozenset("°©®™")
_DRAWN_AS = str.maketrans("", "", "\ufe0e\ufe0f")
"""Removes the characters that only choose between two drawings of a symbol."""


class _Symbols(NamedTuple):
    """The symbols of a text in order: beside a word, between words, and pictures."""

    beside: list[str]
    between: list[str]
    pictures: list[str]


def symbols(sides: Sides) -> Answer:
    """Compare the symbols of texts that are worded alike.

    What only one of them has may be decoration, unless it is beside a word, as in C++.
    """
    if not sides.worded_alike:
        return COMPATIBLE
    event, memory = (_symbols(reading.text) for reading in sides.readings)
    if event.beside != memory.beside:
        return Differs("symbol", " ".join(event.beside), " ".join(memory.beside))
    for said, known in ((event.between, memory.between), (event.pictures, memory.pictures)):
        if said and known and said != known:
            return Differs("symbol", " ".join(said), " ".join(known))
    return COMPATIBLE


def code(sides: Sides) -> Answer:
    """Compare what both texts quote as code; one piece may be a part of the other's."""
    event, memory = (_CODE.findall(reading.text.casefold()) for reading in sides.readings)
    if not event or not memory:
        return COMPATIBLE
    if any(said in known or known in said for said in event for known in memory):
        return COMPATIBLE
    return Differs("code", event[0], memory[0])


def _symbols(text: str) -> _Symbols:
    found = _Symbols([], [], [])
    for match in _RUN.finditer(text):
        run = match.group().translate(_DRAWN_AS).lstrip(_BEFORE).rstrip(_BEHIND)
        is_sign = any(one in "#^" or unicodedata.category(one) == "Sm" for one in run)
        if any(unicodedata.category(one) == "So" for one in run) and not _OF_VALUES & set(run):
            found.pictures.append(run)
        elif not _stands_alone(match):
            found.beside.extend([run] if is_sign else [])
        elif run in _DASHES or (is_sign and run not in _SEPARATORS):
            found.between.append(run)
    return found


def _stands_alone(match: re.Match[str]) -> bool:
    """Return whether there is a space, or nothing, on both sides."""
    text, start, end = match.string, match.start(), match.end()
    return not (text[max(start - 1, 0) : start] + text[end : end + 1]).strip()
