"""The text that a merge shows. Every source stays as a wording of the memory, so none is lost by it.

`append` joins what each text adds, `keep_better` and `newer_wins` show one of them, `worded` a
model's text where it neither leaves out a sentence or value of theirs nor adds one.

Splitting is conservative: where it is doubtful that a sentence ends, it does not. Too long a unit
leaves a repetition in; too short a one could drop half a fact.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from schemas.decisions import SAID_MAX, Composition, Strategy
from streams.core.identity import normalised
from streams.core.language.reading import Reading, Readings

UNWORDED = "wording: "
"""What evidence begins with where a model gave no text that can be taken; the reason follows."""

_QUOTES = "\"'\u201d\u2019)]"
_BOUNDARY = re.compile(rf"(?<=[.!?…])[{re.escape(_QUOTES)}]*\s+(?=[\"'\u201c\u2018(\[]?[^\W_a-z])")
_LAST_WORD = re.compile(rf"(\w+)[{re.escape(_QUOTES)}]*\.[{re.escape(_QUOTES)}]*$")
_ENDED = re.compile(rf"[.!?…][{re.escape(_QUOTES)}]*$")

_REPEATED = 0.75
"""A sentence with more than this share of its words in another text is said there already."""

_WORDS_MIN = 3
_WORD_LETTERS_MIN = 4
_NAME_LETTERS_MIN = 6
"""Shorter before a full stop is too often an abbreviation; names and titles more so than words."""

_LEANS_ON_CONTEXT = frozenset(
    [
        "he",
        "she",
        "it",
        "they",
        "him",
        "her",
        "them",
        "his",
        "hers",
        "its",
        "their",
        "theirs",
        "himself",
        "herself",
        "itself",
        "themselves",
        "this",
        "that",
        "these",
        "those",
        "there",
        "here",
        "then",
        "such",
        "one",
        "ones",
        "same",
        "former",
        "latter",
        "other",
        "others",
    ]
)
"""English third-person pronouns and demonstratives, a closed class: what such a sentence says
depends on the sentence before it."""


@dataclass(frozen=True)
class Part:
    """A text to be merged, by the memory's or event's id: when it was last said, and by whom.

    `sources` is empty where nobody knows.
    """

    origin: str
    text: str
    said_at: datetime
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class Joined:
    """A text made of others, and how."""

    text: str
    composition: Composition


@dataclass(frozen=True)
class Faults:
    """Why a wording cannot be taken: what it leaves out, and what nobody said."""

    missing: tuple[str, ...]
    invented: tuple[str, ...]


def sentences(text: str) -> list[str]:
    """Split a text into units that stand on their own; a text of several lines is one unit."""
    text = text.strip()
    if "\n" in text:
        return [text]
    units: list[str] = []
    start = 0
    for boundary in _BOUNDARY.finditer(text):
        unit = text[start : boundary.end()].strip()
        if _is_sentence(unit):
            units.append(unit)
            start = boundary.end()
    return [*units, text[start:]]


def append(parts: Sequence[Part], readings: Readings) -> Joined:
    """Join what texts add to each other, oldest first.

    A sentence adds something unless another text has its numbers, names and negations and nearly
    all of its other words. Of two that say the same, that of the text with less to say is left out.
    """
    units = [unit for part in _by_age(parts) for unit in _units(part, readings)]
    richness = {
        part.origin: sum(len(unit.words) for unit in units if unit.origin == part.origin)
        for part in parts
    }
    kept = list(units)
    for unit in sorted(
        units, key=lambda one: (richness[one.origin], len(one.words), -units.index(one))
    ):
        others = (other for other in kept if other.origin != unit.origin)
        if unit.is_said_by(others):
            kept.remove(unit)
    for part in parts:
        if kept == [unit for unit in units if unit.origin == part.origin]:
            return alone(part, "append")
    return _joined(kept)


def keep_better(parts: Sequence[Part], better_origin: str) -> Joined:
    """Show the better of the texts."""
    return alone(next(part for part in parts if part.origin == better_origin), "keep-better")


def newer_wins(parts: Sequence[Part]) -> Joined:
    """Show the newest text."""
    return alone(_by_age(parts)[-1], "newer-wins")


def alone(part: Part, strategy: Strategy) -> Joined:
    """Show one of the texts as it is."""
    told = tuple(sentences(part.text))
    origins = (part.origin,) * len(told)
    return Joined(
        part.text.strip(), Composition(strategy=strategy, sentences=told, origins=origins)
    )


def worded(parts: Sequence[Part], text: str, readings: Readings) -> Joined | Faults:
    """Take a model's wording where it leaves out no sentence, and adds none."""
    said = [unit for part in _by_age(parts) for unit in _units(part, readings)]
    told = _units(Part("", text, parts[0].said_at), readings)
    missing = tuple(unit.text[:SAID_MAX] for unit in said if not unit.is_said_by(told))
    invented = tuple(unit.text[:SAID_MAX] for unit in told if not unit.is_said_by(said))
    if missing or invented:
        return Faults(missing, invented)
    return Joined(text.strip(), Composition(strategy="llm"))


def contains(text: str, other: str) -> bool:
    """Tell whether `text` says every sentence of `other`, word for word."""
    return not _news(other, sentences(text))


@dataclass(frozen=True, eq=False)
class _Unit:
    """A sentence, with those behind it that lean on it."""

    origin: str
    sentences: tuple[str, ...]
    reading: Reading

    @property
    def text(self) -> str:
        return self.reading.text

    @cached_property
    def words(self) -> frozenset[tuple[str, bool]]:
        """The words that carry matter, each with whether it is denied."""
        return frozenset((word.lemma, word.negated) for word in self.reading.content)

    @cached_property
    def specific(self) -> frozenset[tuple[str, bool]]:
        """Of these the numbers, the names and what is denied."""
        return frozenset(
            (word.lemma, word.negated)
            for word in self.reading.content
            if word.quantity or word.name or word.negated
        )

    def is_said_by(self, others: Iterable["_Unit"]) -> bool:
        """Tell whether others have all that is specific and nearly all of the words.

        What one side denies and the other does not is not said.
        """
        there = list(others)
        if any(_key(self.text) == _key(other.text) for other in there):
            return True
        words = {word for other in there for word in other.words}
        opposite = {(lemma, not negated) for lemma, negated in words - self.words}
        return (
            self.specific <= words
            and (self.words - words).isdisjoint(opposite)
            and len(self.words & words) > _REPEATED * len(self.words)
        )


def _units(part: Part, readings: Readings) -> list[_Unit]:
    grouped: list[list[str]] = []
    for sentence in sentences(part.text):
        if grouped and _leans(sentence):
            grouped[-1].append(sentence)
        else:
            grouped.append([sentence])
    return [_Unit(part.origin, tuple(group), readings.of(" ".join(group))) for group in grouped]


def _joined(units: Sequence[_Unit]) -> Joined:
    whole = ""
    for unit in units:
        space = "\n" if "\n" in whole or "\n" in unit.text else " "
        whole = f"{_closed(whole)}{space}{unit.text}" if whole else unit.text
    told = [(sentence, unit.origin) for unit in units for sentence in unit.sentences]
    return Joined(
        whole,
        Composition(
            sentences=tuple(sentence for sentence, _ in told),
            origins=tuple(origin for _, origin in told),
        ),
    )


def _by_age(parts: Sequence[Part]) -> list[Part]:
    return sorted(parts, key=lambda part: (part.said_at, part.origin))


def _news(text: str, known: Sequence[str]) -> list[str]:
    """Return the sentences of `text` that are not among the known ones, or not in their context."""
    keys = [_key(sentence) for sentence in known]
    news: list[str] = []
    before: int | None = -1  # where among the known the sentence before was found; None: nowhere
    for sentence in sentences(text):
        before = _place(sentence, keys, before)
        if before is None:
            news.append(sentence)
    return news


def _place(sentence: str, keys: Sequence[str], before: int | None) -> int | None:
    """Find a sentence among the known; behind the place of the sentence before it if it leans."""
    key = _key(sentence)
    if before is not None and keys[before + 1 : before + 2] == [key]:
        return before + 1
    return keys.index(key) if key in keys and not _leans(sentence) else None


def _is_sentence(unit: str) -> bool:
    """Tell whether a unit is surely a whole sentence."""
    if len(unit.split()) < _WORDS_MIN:
        return False
    if not unit.rstrip(_QUOTES).endswith("."):
        return True
    last = _LAST_WORD.search(unit)
    return last is not None and _is_no_abbreviation(last.group(1))


def _is_no_abbreviation(word: str) -> bool:
    """Tell whether a full stop behind this word ends a sentence: not in Dr., St., Prof., a.m."""
    return (
        word.isdigit()
        or len(word) >= _NAME_LETTERS_MIN
        or (len(word) >= _WORD_LETTERS_MIN and word.islower())
    )


def _leans(sentence: str) -> bool:
    return not _LEANS_ON_CONTEXT.isdisjoint(re.findall(r"[^\W\d_]+", sentence.casefold()))


def _key(sentence: str) -> str:
    """Return what two spellings of one sentence share; a question is never a statement."""
    return normalised(sentence).rstrip(".!… ")


def _closed(text: str) -> str:
    """End a text that is followed by a sentence."""
    return text if _ENDED.search(text) else f"{text}."
