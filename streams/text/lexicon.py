"""The relations between English words, from WordNet.

A word is looked up in all its senses: no part of speech is guessed, so a relation holds between
common meanings of two words, not necessarily between these two uses.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import Self, TypeVar

_T = TypeVar("_T")

_SECTION = "\n-\n"
_REMEMBERED = 65_536
"""The cache size for words and pairs: several times the vocabulary of a busy stream."""

_ENDINGS: Mapping[str, tuple[tuple[str, str], ...]] = {
    pos: tuple(
        (ending, base) for ending, _, base in (rule.partition(">") for rule in rules.split())
    )
    for pos, rules in {
        "n": "s> ses>s xes>x zes>z ches>ch shes>sh men>man ies>y",
        "v": "s> ies>y es>e es> ed>e ed> ing>e ing>",
        "a": "er> est> er>e est>e",
        "r": "",
    }.items()
}
"""WordNet's rules of detachment (morphy(7WN)): an ending and its replacement."""

_COMMON_SENSES = 3
"""Rarer senses only count as synonyms: "picture" is related to whatever a photo is related to."""

_CATEGORY_SENSES = 2
"""A word has the categories of its first senses; rarer ones put half the nouns in all of them."""


class Relation(StrEnum):
    """The relation of one word to another, named for the other word."""

    SYNONYM = "synonym"
    SIMILAR = "similar"
    DERIVED = "derived"
    PERTAINYM = "pertainym"
    ANTONYM = "antonym"
    OPPOSITE = "opposite"
    """An antonym of a synonym or of the head of the word's cluster: "quick" and "slow"."""
    SIBLING = "sibling"
    BROADER = "broader"
    NARROWER = "narrower"


_CONVERSE = {Relation.BROADER: Relation.NARROWER, Relation.NARROWER: Relation.BROADER}


@dataclass(frozen=True)
class Sense:
    """One meaning: its parents, similar meanings, opposites and attributes."""

    parents: frozenset[int]
    similar: frozenset[int]
    opposites: frozenset[int]
    attributes: frozenset[int]


@dataclass(frozen=True)
class Lexeme:
    """A dictionary word: its senses by part of speech, the most common first."""

    proper: bool
    senses: Mapping[str, tuple[int, ...]]
    counts: Mapping[str, int]
    antonyms: frozenset[str]
    derived: frozenset[str]
    pertains: frozenset[str]


@dataclass(frozen=True)
class _Facets:
    """Everything to compare a spelling by, collected over its base forms."""

    bases: frozenset[str]
    senses: frozenset[int]
    common: frozenset[int]
    parents: frozenset[int]
    ancestors: frozenset[int]
    similar: frozenset[int]
    opposites: frozenset[int]
    antonyms: frozenset[str]
    derived: frozenset[str]
    pertains: frozenset[str]

    @cached_property
    def words(self) -> frozenset[str]:
        """Every word through which another one may be related."""
        return self.bases | self.antonyms | self.derived | self.pertains

    @cached_property
    def meanings(self) -> frozenset[int]:
        """Every meaning through which another word may be related, without its ancestors."""
        return self.senses | self.parents | self.similar | self.opposites

    def unrelated(self, other: "_Facets") -> bool:
        """Return whether two words are certainly unrelated, as most pairs are."""
        return (
            self.meanings.isdisjoint(other.meanings)
            and self.ancestors.isdisjoint(other.common)
            and other.ancestors.isdisjoint(self.common)
            and self.words.isdisjoint(other.words)
        )


class Lexicon:
    """A dictionary: base forms, categories, and the relation of two words. It is immutable."""

    def __init__(
        self,
        words: Mapping[str, str],
        synsets: tuple[str, ...],
        exceptions: Mapping[tuple[str, str], str],
        categories: Mapping[str, frozenset[int]],
    ) -> None:
        self._words = words
        self._synsets = synsets
        self._exceptions = exceptions
        self._roots = categories
        self.entry: Callable[[str], Lexeme | None] = lru_cache(_REMEMBERED)(self._entry)
        """The dictionary entry of an exact word in lower case; None if there is none."""
        self._sense: Callable[[int], Sense] = lru_cache(_REMEMBERED)(self._read_sense)
        self._above: Callable[[int], frozenset[int]] = lru_cache(_REMEMBERED)(self._ancestors)
        self._facets: Callable[[str], _Facets] = lru_cache(_REMEMBERED)(self._gather)
        self._base_forms: Callable[[str], tuple[tuple[str, str], ...]] = lru_cache(_REMEMBERED)(
            self._inflected_from
        )
        self._related: Callable[[str, str], frozenset[Relation]] = lru_cache(_REMEMBERED)(
            self._compare
        )
        self._commonest_parts: Callable[[str], frozenset[str]] = lru_cache(_REMEMBERED)(
            self._most_frequent_parts
        )
        self._lemma: Callable[[str, str | None], str] = lru_cache(_REMEMBERED)(self._commonest_base)
        self.frequency: Callable[[str], int] = lru_cache(_REMEMBERED)(self._frequency)
        """How often the word's base forms occur in WordNet's sense-tagged texts."""
        self.categories: Callable[[str], frozenset[str]] = lru_cache(_REMEMBERED)(self._categories)
        """The categories ("colour", "country", …) of a word's common meanings."""

    @classmethod
    def parse(cls, table: str) -> Self:
        """Read the table that `training/lexicon.py` writes; words are parsed on demand."""
        categories, exceptions, synsets, words = table.split(_SECTION)
        return cls(
            words=dict(line.split("\t", 1) for line in words.splitlines()),
            synsets=tuple(synsets.split("\n")),
            exceptions=dict(_exception(line) for line in exceptions.splitlines()),
            categories=dict(_category(line) for line in categories.splitlines()),
        )

    def __contains__(self, word: str) -> bool:
        """Return whether a spelling, in lower case, is a word or an inflected form of one."""
        return bool(self._base_forms(word))

    def lemma(self, word: str, pos: str | None = None) -> str:
        """Return the base form of a word in lower case, the most common if there are several.

        With a part of speech (n, v, a, r), only its base forms count.
        """
        return self._lemma(word, pos)

    def parts_of_speech(self, word: str) -> frozenset[str]:
        """Return the parts of speech of a spelling: n, v, a, r."""
        return frozenset(pos for _, pos in self._base_forms(word))

    def is_mostly(self, word: str, pos: str) -> bool:
        """Return whether a spelling is this part of speech at least as often as any other."""
        return pos in self._commonest_parts(word)

    def is_proper(self, word: str) -> bool:
        """Return whether the dictionary capitalizes the word in all its meanings."""
        entry = self.entry(word)
        return entry is not None and entry.proper

    def relations(self, word: str, other: str) -> frozenset[Relation]:
        """Return the relations of `other` to `word`, over all their common meanings.

        BROADER: `other` is the more general word.
        """
        if word <= other:
            return self._related(word, other)
        return frozenset(_CONVERSE.get(kind, kind) for kind in self._related(other, word))

    def parents(self, sense: int) -> frozenset[int]:
        """Return the meanings directly above one."""
        return self._sense(sense).parents

    def _compare(self, word: str, other: str) -> frozenset[Relation]:
        here, there = self._facets(word), self._facets(other)
        if here.unrelated(there):
            return frozenset()
        held = {
            Relation.SYNONYM: here.senses & there.senses,
            Relation.SIMILAR: here.senses & there.similar or here.similar & there.senses,
            Relation.DERIVED: here.derived & there.bases or here.bases & there.derived,
            Relation.PERTAINYM: here.pertains & there.bases or here.bases & there.pertains,
            Relation.ANTONYM: here.antonyms & there.bases or here.bases & there.antonyms,
            Relation.OPPOSITE: here.opposites & (there.senses | there.similar)
            or there.opposites & (here.senses | here.similar),
            Relation.SIBLING: here.parents & there.parents,
            Relation.BROADER: there.common & here.ancestors,
            Relation.NARROWER: here.common & there.ancestors,
        }
        return frozenset(kind for kind, shared in held.items() if shared)

    def _gather(self, word: str) -> _Facets:
        forms = self._base_forms(word)
        entries = [entry for base, _ in forms if (entry := self.entry(base))]
        numbers = self._senses(word)
        common = self._senses(word, _COMMON_SENSES)
        senses = [self._sense(number) for number in common]
        similar = _union(sense.similar for sense in senses)
        heads = [self._sense(number) for number in similar]
        return _Facets(
            bases=frozenset(base for base, _ in forms) or frozenset([word]),
            senses=numbers,
            common=common,
            parents=_union(sense.parents for sense in senses),
            ancestors=_union(self._above(number) for number in common) - numbers,
            similar=similar,
            opposites=_union(sense.opposites for sense in (*senses, *heads)),
            antonyms=_union(entry.antonyms for entry in entries),
            derived=_union(entry.derived for entry in entries),
            pertains=_union(entry.pertains for entry in entries),
        )

    def _senses(self, word: str, most: int | None = None) -> frozenset[int]:
        """Return the meanings of a spelling; with `most`, only so many of each base form."""
        return frozenset(
            number
            for base, pos in self._base_forms(word)
            if (entry := self.entry(base))
            for number in entry.senses[pos][:most]
        )

    def _categories(self, word: str) -> frozenset[str]:
        senses = self._senses(word, _CATEGORY_SENSES)
        above = _union(self._above(number) | self._qualities(number) for number in senses)
        return frozenset(name for name, roots in self._roots.items() if roots & above)

    def _qualities(self, number: int) -> frozenset[int]:
        """Return the heads of an adjective's cluster, and the attributes they are values of."""
        sense = self._sense(number)
        heads = [self._sense(head) for head in sense.similar]
        attributes = _union(quality.attributes for quality in (sense, *heads))
        return sense.similar | _union(self._above(attribute) for attribute in attributes)

    def _ancestors(self, number: int) -> frozenset[int]:
        """Return a meaning and all its ancestors."""
        found: set[int] = set()
        waiting = [number]
        while waiting:
            at = waiting.pop()
            if at not in found:
                found.add(at)
                waiting += self._sense(at).parents
        return frozenset(found)

    def _commonest_base(self, word: str, pos: str | None) -> str:
        forms = [form for form in self._base_forms(word) if pos in {None, form[1]}]
        most = max(forms, key=lambda form: (self._count(*form), form[0] == word), default=(word,))
        return most[0]

    def _frequency(self, word: str) -> int:
        return sum(self._count(base, pos) for base, pos in self._base_forms(word))

    def _most_frequent_parts(self, word: str) -> frozenset[str]:
        counts: dict[str, int] = {}
        for base, pos in self._base_forms(word):
            counts[pos] = max(counts.get(pos, 0), self._count(base, pos))
        most = max(counts.values(), default=0)
        return frozenset(pos for pos, count in counts.items() if count == most)

    def _inflected_from(self, word: str) -> tuple[tuple[str, str], ...]:
        """Return base forms with their parts of speech, irregular ones first."""
        forms: list[tuple[str, str]] = []
        for pos, endings in _ENDINGS.items():
            irregular = self._exceptions.get((word, pos))
            bases = [irregular] if irregular else _detached(word, endings)
            forms += [(base, pos) for base in (word, *bases) if self._is_word(base, pos)]
        return tuple(dict.fromkeys(forms))

    def _is_word(self, base: str, pos: str) -> bool:
        entry = self.entry(base)
        return entry is not None and pos in entry.senses

    def _count(self, base: str, pos: str) -> int:
        entry = self.entry(base)
        return entry.counts.get(pos, 0) if entry else 0

    def _entry(self, word: str) -> Lexeme | None:
        line = self._words.get(word)
        if line is None:
            return None
        proper, senses, antonyms, derived, pertains = (*line.split("\t"), "", "", "")[:5]
        readings = [reading.split() for reading in senses.split(";")]
        return Lexeme(
            proper=bool(proper),
            senses={reading[0][0]: _numbers(reading[1:]) for reading in readings},
            counts={reading[0][0]: int(reading[0][1:]) for reading in readings},
            antonyms=frozenset(antonyms.split()),
            derived=frozenset(derived.split()),
            pertains=frozenset(pertains.split()),
        )

    def _read_sense(self, number: int) -> Sense:
        groups = (*self._synsets[number].split("\t"), "", "", "")[:4]
        return Sense(*(frozenset(_numbers(group.split())) for group in groups))


def _detached(word: str, endings: Iterable[tuple[str, str]]) -> list[str]:
    """Return the possible regular base forms of a word; a doubled consonant is undone."""
    bases: list[str] = []
    for ending, instead in endings:
        if word.endswith(ending) and len(word) > len(ending) + 1:
            stem = word[: -len(ending)]
            bases.append(stem + instead)
            if not instead and ending in {"ed", "ing", "er", "est"} and stem[-1] == stem[-2]:
                bases.append(stem[:-1])
    return bases


def _numbers(texts: Iterable[str]) -> tuple[int, ...]:
    return tuple(int(text, 36) for text in texts)


def _exception(line: str) -> tuple[tuple[str, str], str]:
    form, pos, base = line.split("\t")
    return (form, pos), base


def _category(line: str) -> tuple[str, frozenset[int]]:
    name, *roots = line.split("\t")
    return name, frozenset(_numbers(roots))


def _union(groups: Iterable[frozenset[_T]]) -> frozenset[_T]:
    return frozenset[_T]().union(*groups)
