"""The text that a merge shows; every source text stays a wording of the memory, so none is lost.

`append` joins what each text adds; `keep_better` and `newer_wins` show one of the texts; `worded`
shows a model's text if it neither omits nor adds a sentence or value.

Sentence splitting is conservative: a doubtful boundary does not split. A unit that is too long
leaves a repetition in; one that is too short could drop half a fact.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from schemas.decisions import SAID_MAX, Composition, Strategy
from streams.model.identity import normalised
from streams.text.function_words import DEMONSTRATIVES, THIRD_PERSON
from streams.text.reading import AnalysedText, TextAnalyzer

UNWORDED = "wording: "
"""Prefix of the evidence that a model gave no usable text; the reason follows."""

_QUOTES = "\"'\u201d\u2019)]"
_BOUNDARY = re.compile(rf"(?<=[.!?…])[{re.escape(_QUOTES)}]*\s+(?=[\"'\u201c\u2018(\[]?[^\W_a-z])")
_LAST_WORD = re.compile(rf"(\w+)[{re.escape(_QUOTES)}]*\.[{re.escape(_QUOTES)}]*$")
_ENDED = re.compile(rf"[.!?…][{re.escape(_QUOTES)}]*$")

_REPEATED = 0.75
"""A sentence with more than this share of its words in other texts may count as said there."""
_RETOLD = 0.49
"""The same share for a sentence that a model rewords: the source stays a wording of the memory."""

_WORDS_MIN = 3
_WORD_LETTERS_MIN = 4
_NAME_LETTERS_MIN = 6
"""A shorter word before a full stop is too often an abbreviation, above all a name or title."""

_LEANS_ON_CONTEXT = (THIRD_PERSON | DEMONSTRATIVES | {"then", "former", "latter", "others"}) - {
    "another",
    "own",
}
"""English third-person pronouns and demonstratives, a closed class: a sentence with one of them
depends on the sentence before it."""


@dataclass(frozen=True)
class MergePart:
    """A text to be merged, with the id of its memory or event, when it was last said, and by whom.

    `sources` is empty if unknown.
    """

    origin: str
    text: str
    said_at: datetime
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class MergedText:
    """A text composed from others, and how."""

    text: str
    composition: Composition


@dataclass(frozen=True)
class Faults:
    """Why a model's wording is rejected: sentences that it omits, and sentences that it invents."""

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


def append(parts: Sequence[MergePart], readings: TextAnalyzer) -> MergedText:
    """Join what the texts add to each other, oldest first.

    A sentence adds something unless the other texts have its numbers, names and negations and
    nearly all of its other words. Of two equivalent sentences, drop that of the text with fewer
    words.
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


def keep_better(parts: Sequence[MergePart], better_origin: str) -> MergedText:
    """Show the better of the texts."""
    return alone(next(part for part in parts if part.origin == better_origin), "keep-better")


def newer_wins(parts: Sequence[MergePart]) -> MergedText:
    """Show the newest text."""
    return alone(_by_age(parts)[-1], "newer-wins")


def alone(part: MergePart, strategy: Strategy) -> MergedText:
    """Show one of the texts unchanged."""
    told = tuple(sentences(part.text))
    origins = (part.origin,) * len(told)
    return MergedText(
        part.text.strip(), Composition(strategy=strategy, sentences=told, origins=origins)
    )


def worded(parts: Sequence[MergePart], text: str, readings: TextAnalyzer) -> MergedText | Faults:
    """Accept a model's wording if it omits and adds no fact; otherwise return its Faults.

    A sentence is omitted if one of its numbers, names or negations is, more than half of its words,
    or all words that no other source has.
    """
    said = [unit for part in _by_age(parts) for unit in _units(part, readings)]
    told = _units(MergePart("", text, parts[0].said_at), readings)
    missing = tuple(unit.text[:SAID_MAX] for unit in said if not _is_retold(unit, said, told))
    invented = tuple(unit.text[:SAID_MAX] for unit in told if not unit.is_said_by(said))
    if missing or invented:
        return Faults(missing, invented)
    return MergedText(text.strip(), Composition(strategy="llm"))


def _is_retold(unit: "_Unit", said: Sequence["_Unit"], told: Sequence["_Unit"]) -> bool:
    """Return whether a wording says what a sentence of a source says, perhaps in other words."""
    elsewhere = {word for one in said if one.origin != unit.origin for word in one.words}
    own = unit.words - elsewhere
    kept = not own or any(not own.isdisjoint(one.words) for one in told)
    return kept and unit.is_said_by(told, _RETOLD)


def contains(text: str, other: str) -> bool:
    """Return whether `text` contains every sentence of `other`, word for word, in its context."""
    keys = [_key(sentence) for sentence in sentences(text)]
    before = -1
    for sentence in sentences(other):
        place = _place(sentence, keys, before)
        if place is None:
            return False
        before = place
    return True


@dataclass(frozen=True, eq=False)
class _Unit:
    """A sentence with the following sentences that depend on it."""

    origin: str
    sentences: tuple[str, ...]
    reading: AnalysedText

    @property
    def text(self) -> str:
        return self.reading.text

    @cached_property
    def words(self) -> frozenset[tuple[str, bool]]:
        """The content words, each with whether it is negated."""
        return frozenset((word.lemma, word.negated) for word in self.reading.content)

    @cached_property
    def specific(self) -> frozenset[tuple[str, bool]]:
        """Those of the words that are numbers, names or negated."""
        return frozenset(
            (word.lemma, word.negated)
            for word in self.reading.content
            if word.quantity or word.name or word.negated
        )

    def is_said_by(self, others: Iterable["_Unit"], share: float = _REPEATED) -> bool:
        """Return whether the others have all specific words and over `share` of the content words.

        A word that one side negates and the other does not prevents it.
        """
        there = list(others)
        if any(_key(self.text) == _key(other.text) for other in there):
            return True
        words = {word for other in there for word in other.words}
        opposite = {(lemma, not negated) for lemma, negated in words - self.words}
        return (
            self.specific <= words
            and (self.words - words).isdisjoint(opposite)
            and len(self.words & words) > share * len(self.words)
        )


def _units(part: MergePart, readings: TextAnalyzer) -> list[_Unit]:
    grouped: list[list[str]] = []
    for sentence in sentences(part.text):
        if grouped and _leans(sentence):
            grouped[-1].append(sentence)
        else:
            grouped.append([sentence])
    return [_Unit(part.origin, tuple(group), readings.of(" ".join(group))) for group in grouped]


def _joined(units: Sequence[_Unit]) -> MergedText:
    whole = ""
    for unit in units:
        space = "\n" if "\n" in whole or "\n" in unit.text else " "
        whole = f"{_closed(whole)}{space}{unit.text}" if whole else unit.text
    told = [(sentence, unit.origin) for unit in units for sentence in unit.sentences]
    return MergedText(
        whole,
        Composition(
            sentences=tuple(sentence for sentence, _ in told),
            origins=tuple(origin for _, origin in told),
        ),
    )


def _by_age(parts: Sequence[MergePart]) -> list[MergePart]:
    return sorted(parts, key=lambda part: (part.said_at, part.origin))


def _place(sentence: str, keys: Sequence[str], before: int) -> int | None:
    """Return the index of a known sentence; a dependent one must follow the previous sentence.

    `before` is the index of that; -1 if there is none.
    """
    key = _key(sentence)
    if keys[before + 1 : before + 2] == [key]:
        return before + 1
    return keys.index(key) if key in keys and not _leans(sentence) else None


def _is_sentence(unit: str) -> bool:
    """Return whether a unit is certainly a whole sentence."""
    if len(unit.split()) < _WORDS_MIN:
        return False
    if not unit.rstrip(_QUOTES).endswith("."):
        return True
    last = _LAST_WORD.search(unit)
    return last is not None and _is_no_abbreviation(last.group(1))


def _is_no_abbreviation(word: str) -> bool:
    """Return whether a full stop after this word ends a sentence: not in Dr., St., Prof., a.m."""
    return (
        word.isdigit()
        or len(word) >= _NAME_LETTERS_MIN
        or (len(word) >= _WORD_LETTERS_MIN and word.islower())
    )


def _leans(sentence: str) -> bool:
    return not _LEANS_ON_CONTEXT.isdisjoint(re.findall(r"[^\W\d_]+", sentence.casefold()))


def _key(sentence: str) -> str:
    """Return the key that two spellings of a sentence share; a question keeps its mark."""
    return normalised(sentence).rstrip(".!… ")


def _closed(text: str) -> str:
    """Return a text with a full stop if it lacks an end mark, so that a sentence can follow."""
    return text if _ENDED.search(text) else f"{text}."
