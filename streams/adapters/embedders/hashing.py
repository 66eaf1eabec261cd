"""Embeds texts by their spelling alone: nothing to fetch or to reach. The last resort.

A text is a bag of the two to five letters in a row of each of its words, hashed into a vector. Two
wordings are near where they share words or parts of words, so a duplicate told in other words is
not found: docs/tuning.md has what that comes to.
"""

import asyncio
import re
import unicodedata
import zlib
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from schemas.base import ModelId
from streams.adapters.embedders import HASHING
from streams.core.embedding import Embedded, Vector, units
from streams.core.language.function_words import FUNCTION_WORDS

DIMENSION = 512
"""Of our own pairs that say the same, .849 lie above all but a thousandth of unrelated texts at 384
dimensions, where words fall together, .869 at 512 and .865 at 1,024 (`benchmarks/spelling.py`)."""

CHARACTERS_MAX = 4_096
"""Of a text that are read: in a longer one the letters of any other text are found, too."""

_LENGTHS = (2, 3, 4, 5)
_FORM_WEIGHT = 0.25
"""What function words and marks count beside other words: at 1.0 it is .826 instead of .869."""

_WORD = re.compile(r"\w+|[^\w\s]+")
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 divided by the golden ratio: mixes all bits
_KEPT = np.uint64(20)
_SIGN = np.uint64(43)


class HashingEmbedder:
    """An Embedder that has no model to be missing. Equal texts have equal vectors, for ever."""

    @property
    def model(self) -> ModelId:
        return ModelId(HASHING)

    @property
    def dimension(self) -> int:
        return DIMENSION

    async def embed(self, texts: Sequence[str]) -> list[Embedded]:
        """Return one result per text, in order; equal texts share one."""
        return await asyncio.to_thread(_embedded, texts)


def _embedded(texts: Sequence[str]) -> list[Embedded]:
    made = {text: Embedded(_vector(text), len(text) > CHARACTERS_MAX) for text in set(texts)}
    return [made[text] for text in texts]


def _vector(text: str) -> Vector:
    read = unicodedata.normalize("NFC", text[:CHARACTERS_MAX]).lower()
    words = _WORD.findall(read) or [read]
    ngrams = [_ngrams(word) for word in words]
    weights = [np.full(len(of), _weight(word)) for word, of in zip(words, ngrams, strict=True)]
    summed = _summed(np.concatenate(ngrams), np.concatenate(weights))
    if not summed.any():  # all fell together
        summed = _summed(_hashed([read]), np.ones(1))
    [vector] = units(summed[np.newaxis])
    vector.flags.writeable = False
    return vector


def _summed(hashes: NDArray[np.uint64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of all n-grams, each at its place: the square root of how often it occurs.

    The sign that a hash gives makes two that fall together cancel out as often as add up.
    """
    ngrams, places = np.unique(hashes, return_inverse=True)
    counts = np.zeros(len(ngrams))
    np.add.at(counts, places, weights)
    signs = np.where((ngrams >> _SIGN) & np.uint64(1), 1.0, -1.0)
    summed = np.zeros(DIMENSION)
    np.add.at(summed, (ngrams % np.uint64(DIMENSION)).astype(np.int64), signs * np.sqrt(counts))
    return summed


@lru_cache(65_536)
def _ngrams(word: str) -> NDArray[np.uint64]:
    """Return the hashes of a word's n-grams; its edges count as letters."""
    edged = f" {word} "
    return _hashed(
        [
            edged[at : at + length]
            for length in _LENGTHS
            for at in range(max(1, len(edged) - length + 1))
        ]
    )


def _weight(word: str) -> float:
    is_form = word in FUNCTION_WORDS or not word[:1].isalnum()
    return _FORM_WEIGHT if is_form else 1.0


def _hashed(pieces: Sequence[str]) -> NDArray[np.uint64]:
    sums = np.array([zlib.crc32(piece.encode()) for piece in pieces], np.uint64)
    return (sums * _SPREAD) >> _KEPT
