"""A text prepared for a judge: what every pair needs from it, computed once."""
# ruff: noqa: SIM905 - a class of words is read as a line

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from itertools import pairwise
from math import log1p
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streams.text.lexicon import Lexicon
from streams.text.parts import Word
from streams.text.reading import AnalysedText

Matrix = NDArray[np.float32]

LINKS = frozenset(
    "in on at by for with from to into onto off over under behind before after above below near up down "
    "out through without inside outside between during until since against across toward towards "
    "because if when while although unless of than as about".split()
)
"""English prepositions and conjunctions, a closed class: they say how things relate."""

_KINDS = frozenset(
    "colour country city nationality language month weekday season beverage room profession relative "
    "clothing vehicle instrument furniture sport planet direction number material food animal".split()
)
"""Categories whose members mostly exclude each other: what is red is not blue."""

_REACH = 3
"""How many words after itself a preposition can govern: articles and adjectives may intervene."""

_REMEMBERED = 65_536
"""The cache size for word traits: several times the vocabulary of a busy stream."""

_NEXT, _AFTER_NEXT = 0.5, 0.25
"""The weights of a word's neighbours, and of theirs, in its surroundings vector."""


class WordVectors:
    """A table of unit vectors, independent of context; unknown words get the zero vector."""

    def __init__(self, rows: Mapping[str, int], table: NDArray[np.int8]) -> None:
        """`table` has one row per word, shape (words, dimension); its scale is irrelevant."""
        self._rows = rows
        self._table = table

    def of(self, words: Sequence[tuple[str, str]]) -> tuple[Matrix, NDArray[np.bool_]]:
        """Return the vectors of words, shape (n, dimension), and which of them are known.

        A word is given as its spelling and its lemma: the first that is known is used.
        """
        found = [self._rows.get(word, self._rows.get(lemma, -1)) for word, lemma in words]
        rows = np.array(found, np.intp).reshape(-1)
        vectors = self._table[rows].astype(np.float32)
        known = rows >= 0
        vectors[~known] = 0.0
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.maximum(norms, 1e-6), known


class PreparedText(NamedTuple):
    """What every comparison needs from a text, computed once from its reading.

    `content` are the positions of content words, or of all words if there are none. Of each lemma
    among them, `places` has the first position, `governors` the preposition that governs it there,
    `behind` the content word after it there, and `before` the one before its last position. `parts`
    gives each word's main part of speech: n, v, a, r, a name ("p") or a value ("q").
    """

    reading: AnalysedText
    words: tuple[Word, ...]
    lemmas: tuple[str, ...]
    content: tuple[int, ...]
    vectors: Matrix
    surroundings: Matrix
    known: tuple[bool, ...]
    rarity: tuple[float, ...]
    weight: float
    parts: str
    kinds: tuple[AbstractSet[str], ...]
    bag: AbstractSet[str]
    spread: tuple[str, ...]
    places: Mapping[str, int]
    before: Mapping[str, str]
    behind: Mapping[str, str]
    governors: Mapping[str, str]
    bigrams: AbstractSet[tuple[str, str]]
    trigrams: AbstractSet[str]
    sets: tuple[AbstractSet[str], ...]
    negated: AbstractSet[str]


class _Traits(NamedTuple):
    """What the lexicon says of a spelling."""

    rarity: float
    part: str
    kinds: AbstractSet[str]


def prepare(reading: AnalysedText, lexicon: Lexicon, vectors: WordVectors) -> PreparedText:
    """Compute from a reading what `features` needs."""
    words = tuple(word for word in reading.words if word.lower[:1].isalnum())
    lemmas = tuple(word.quantity.key if word.quantity else word.lemma for word in words)
    content = tuple(at for at, word in enumerate(words) if word.content) or tuple(range(len(words)))
    matrix, known = vectors.of([(word.lower, word.lemma) for word in words])
    lower = reading.text.lower()
    spread = tuple(lemmas[at] for at in content)
    traits = [_traits(lexicon, word.lower) for word in words]
    rarity = tuple([trait.rarity for trait in traits])
    places: dict[str, int] = {}
    for at in content:
        places.setdefault(lemmas[at], at)
    return PreparedText(
        reading=reading,
        words=words,
        lemmas=lemmas,
        content=content,
        vectors=matrix,
        surroundings=_surroundings(matrix),
        known=tuple(known.tolist()),
        rarity=rarity,
        weight=sum(rarity[at] for at in content),
        parts="".join(map(_part, words, traits)),
        kinds=tuple([trait.kinds for trait in traits]),
        bag=frozenset(lemmas),
        spread=spread,
        places=places,
        before={lemma: earlier for earlier, lemma in pairwise(("", *spread))},
        behind=dict(reversed([*pairwise((*spread, ""))])),
        governors={lemma: _governor(words, at) for lemma, at in places.items()},
        bigrams=frozenset(pairwise(lemmas)),
        trigrams=frozenset(lower[at : at + 3] for at in range(max(1, len(lower) - 2))),
        sets=(
            frozenset(word.lower for word in words) & LINKS,
            frozenset(mark.kind for mark in reading.quantifiers),
            frozenset(mark.kind for mark in reading.modals),
            frozenset(quantity.key for quantity in reading.quantities),
            frozenset(word.lower for word in reading.names),
            reading.tenses,
            frozenset(f"{owning.owner} {owning.owned}" for owning in reading.possessions),
        ),
        negated=frozenset(word.lemma for word in words if word.negated and word.content),
    )


@lru_cache(_REMEMBERED)
def _traits(lexicon: Lexicon, word: str) -> _Traits:
    return _Traits(
        rarity=1.0 / (1.0 + log1p(lexicon.frequency(word))),
        part=next((pos for pos in "nvar" if lexicon.is_mostly(word, pos)), "n"),
        kinds=lexicon.categories(word) & _KINDS,
    )


def _part(word: Word, traits: _Traits) -> str:
    if word.quantity:
        return "q"
    return "p" if word.name else traits.part


def _governor(words: Sequence[Word], at: int) -> str:
    for before in range(at - 1, max(-1, at - 1 - _REACH), -1):
        if words[before].lower in LINKS:
            return words[before].lower
        if words[before].content and words[before].clause != words[at].clause:
            return ""
    return ""


def _surroundings(vectors: Matrix) -> Matrix:
    """Return each word's vector mixed with those of the words around it, normalized."""
    mixed = vectors.copy()
    for distance, weight in ((1, _NEXT), (2, _AFTER_NEXT)):
        mixed[distance:] += weight * vectors[:-distance]
        mixed[:-distance] += weight * vectors[distance:]
    return mixed / np.maximum(np.linalg.norm(mixed, axis=1, keepdims=True), 1e-6)
