"""Aligns the words of two texts: which of them correspond, and which replace each other.

The content words are aligned by their longest common subsequence; what is left between two matches
is a gap. A swap is judged within its gap, so that one side saying more does not count as a swap.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from streams.text.function_words import FIRST_PERSON
from streams.text.lexicon import Lexicon, Relation
from streams.text.parts import Word
from streams.text.reading import AnalysedText

SAME_MEANING = frozenset([Relation.SYNONYM, Relation.DERIVED, Relation.PERTAINYM, Relation.SIMILAR])
OPPOSED = frozenset([Relation.ANTONYM, Relation.OPPOSITE])
_LONG = 200
"""Content words beyond which texts are compared only as sets: the table below is quadratic."""


class Gap(NamedTuple):
    """The words of each side between two matches; either may be empty."""

    event: tuple[Word, ...]
    memory: tuple[Word, ...]

    @property
    def swap(self) -> tuple[Word, Word] | None:
        """The single word on each side; None if there are more or fewer."""
        if len(self.event) == 1 == len(self.memory):
            return self.event[0], self.memory[0]
        return None


@dataclass(frozen=True)
class Alignment:
    """Matched words in order, the gaps between them, and words matched out of order."""

    pairs: tuple[tuple[Word, Word], ...]
    gaps: tuple[Gap, ...]
    moved: tuple[tuple[Word, Word], ...]

    @cached_property
    def event_only(self) -> tuple[Word, ...]:
        """The event's content words without a match."""
        return tuple([word for gap in self.gaps for word in gap.event])

    @cached_property
    def memory_only(self) -> tuple[Word, ...]:
        """The memory's content words without a match."""
        return tuple([word for gap in self.gaps for word in gap.memory])

    @cached_property
    def agreement(self) -> float:
        """The share of both sides' content words that have a match."""
        matched = 2 * (len(self.pairs) + len(self.moved))
        total = matched + len(self.event_only) + len(self.memory_only)
        return matched / total if total else 1.0

    @cached_property
    def common(self) -> frozenset[str]:
        """The lemmas that both sides have, each in its own side's form."""
        both = (*self.pairs, *self.moved)
        return frozenset(word.lemma for pair in both for word in pair)

    @cached_property
    def partners(self) -> dict[str, str]:
        """The memory's lemma for each matched lemma of the event."""
        return {event.lemma: memory.lemma for event, memory in (*self.pairs, *self.moved)}

    @cached_property
    def swaps(self) -> tuple[tuple[Word, Word], ...]:
        """The words that replace each other one for one."""
        found = [swap for gap in self.gaps if (swap := gap.swap)]
        if not found and len(self.event_only) == 1 == len(self.memory_only):
            found.append((self.event_only[0], self.memory_only[0]))
        return tuple(found)


def align(event: AnalysedText, memory: AnalysedText, lexicon: Lexicon) -> Alignment:
    """Align two texts."""
    ours, theirs = event.content, memory.content
    event_keys, memory_keys = _keys(ours, theirs, lexicon)
    places = _common_places(event_keys, memory_keys)
    pairs = tuple((ours[here], theirs[there]) for here, there in places)
    gaps = _gaps(ours, theirs, places)
    event_key = dict(zip(ours, event_keys, strict=True))
    moved = _moved(gaps, event_key, dict(zip(theirs, memory_keys, strict=True)))
    gone = {word for pair in moved for word in pair}
    left = [Gap(*[tuple([w for w in side if w not in gone]) for side in gap]) for gap in gaps]
    return Alignment(pairs, tuple(left), moved)


def _keys(
    ours: Sequence[Word], theirs: Sequence[Word], lexicon: Lexicon
) -> tuple[list[str], list[str]]:
    """Return the matching keys of the words; a synonym gets the key of the event's word."""
    event_keys = [_key(word) for word in ours]
    memory_keys = [_key(word) for word in theirs]
    known, others = set(event_keys), set(memory_keys)
    ours_left = [word for word in ours if _key(word) not in others]
    renamed: dict[str, str] = {}
    for word in theirs:
        key = _key(word)
        if key in known or key in renamed:
            continue
        same = next((mine for mine in ours_left if means_the_same(mine, word, lexicon)), None)
        if same:
            renamed[key] = _key(same)
            ours_left.remove(same)
    return event_keys, [renamed.get(key, key) for key in memory_keys]


def _key(word: Word) -> str:
    return "user" if word.lower in FIRST_PERSON else word.lemma


def means_the_same(word: Word, other: Word, lexicon: Lexicon) -> bool:
    """Return whether two different words or values can mean the same."""
    if word.quantity and other.quantity:
        return word.quantity.agrees(other.quantity)
    if word.quantity or other.quantity:
        return False
    return are_synonyms(word.lower, other.lower, lexicon)


def are_synonyms(word: str, other: str, lexicon: Lexicon) -> bool:
    """Return whether two words have a common meaning, and none that is opposed."""
    relations = lexicon.relations(word, other)
    return bool(relations & SAME_MEANING) and not relations & OPPOSED


def _common_places(ours: Sequence[str], theirs: Sequence[str]) -> list[tuple[int, int]]:
    """Return the positions of the longest common subsequence, equal ends first."""
    start, end = common_ends(ours, theirs)
    middle = _longest(ours[start : len(ours) - end], theirs[start : len(theirs) - end])
    return [
        *((at, at) for at in range(start)),
        *((start + here, start + there) for here, there in middle),
        *((len(ours) - at, len(theirs) - at) for at in range(end, 0, -1)),
    ]


def common_ends(ours: Sequence[str], theirs: Sequence[str]) -> tuple[int, int]:
    """Return the lengths of the common prefix and, behind that, of the common suffix."""
    least = min(len(ours), len(theirs))
    start = end = 0
    while start < least and ours[start] == theirs[start]:
        start += 1
    while end < least - start and ours[-1 - end] == theirs[-1 - end]:
        end += 1
    return start, end


def _longest(ours: Sequence[str], theirs: Sequence[str]) -> list[tuple[int, int]]:
    if not ours or not theirs or len(ours) * len(theirs) > _LONG * _LONG:
        return []
    table = [[0] * (len(theirs) + 1)]
    for mine in ours:
        above, row = table[-1], [0]
        for at, other in enumerate(theirs):
            row.append(above[at] + 1 if mine == other else max(row[at], above[at + 1]))
        table.append(row)
    places: list[tuple[int, int]] = []
    here, there = len(ours), len(theirs)
    while here and there:
        if ours[here - 1] == theirs[there - 1]:
            here, there = here - 1, there - 1
            places.append((here, there))
        elif table[here - 1][there] >= table[here][there - 1]:
            here -= 1
        else:
            there -= 1
    return places[::-1]


def _gaps(
    ours: Sequence[Word], theirs: Sequence[Word], places: Sequence[tuple[int, int]]
) -> list[Gap]:
    gaps: list[Gap] = []
    here = there = 0
    for mine, other in (*places, (len(ours), len(theirs))):
        if mine > here or other > there:
            gaps.append(Gap(tuple(ours[here:mine]), tuple(theirs[there:other])))
        here, there = mine + 1, other + 1
    return gaps


def _moved(
    gaps: Sequence[Gap], event_key: Mapping[Word, str], memory_key: Mapping[Word, str]
) -> tuple[tuple[Word, Word], ...]:
    """Match words that both sides have in different positions, each word once."""
    free: dict[str, list[Word]] = {}
    for gap in gaps:
        for word in gap.memory:
            free.setdefault(memory_key[word], []).append(word)
    return tuple(
        (word, free[event_key[word]].pop(0))
        for gap in gaps
        for word in gap.event
        if free.get(event_key[word])
    )
