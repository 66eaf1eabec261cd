"""Embeds texts by spelling alone, with no model to fetch or reach: the last resort.

A text is a bag of the 2- to 5-letter n-grams of its words, hashed into a vector. Two texts are near
if they share words or parts of words, so a duplicate in other words is not found: docs/tuning.md
has the consequences.
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
from streams.embedding import HASHING
from streams.model.embedding import TextVector, Vector, units
from streams.text.function_words import FUNCTION_WORDS

DIMENSION = 512
"""At this size, .869 of our own equivalent pairs lie above all but a thousandth of unrelated texts;
at 384 dimensions, with more hash collisions, .849, and at 1,024 .865 (`benchmarks/models/spelling.py`)."""

CHARACTERS_MAX = 4_096
"""The part of a text that is read: a longer one would contain the letters of any other text."""

_LENGTHS = (2, 3, 4, 5)
_FORM_WEIGHT = 0.25
"""The weight of function words and marks; others have 1.0. With 1.0 for all, .869 is .826."""

_WORD = re.compile(r"\w+|[^\w\s]+")
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2^64 divided by the golden ratio: mixes all bits
_KEPT = np.uint64(20)
_SIGN = np.uint64(43)


class HashingEmbedder:
    """An Embedder that needs no model. Equal texts always have equal vectors."""

    @property
    def model(self) -> ModelId:
        return ModelId(HASHING)

    @property
    def dimension(self) -> int:
        return DIMENSION

    async def embed(self, texts: Sequence[str]) -> list[TextVector]:
        """Return one result per text, in order; equal texts share one."""
        return await asyncio.to_thread(_embedded, texts)


def _embedded(texts: Sequence[str]) -> list[TextVector]:
    made = {text: TextVector(_vector(text), len(text) > CHARACTERS_MAX) for text in set(texts)}
    return [made[text] for text in texts]


def _vector(text: str) -> Vector:
    read = unicodedata.normalize("NFC", text[:CHARACTERS_MAX]).lower()
    words = _WORD.findall(read) or [read]
    ngrams = [_ngrams(word) for word in words]
    weights = [np.full(len(of), _weight(word)) for word, of in zip(words, ngrams, strict=True)]
    summed = _summed(np.concatenate(ngrams), np.concatenate(weights))
    if not summed.any():  # collisions cancelled everything out
        summed = _summed(_hashed([read]), np.ones(1))
    [vector] = units(summed[np.newaxis])
    vector.flags.writeable = False
    return vector


def _summed(hashes: NDArray[np.uint64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of all n-grams in their hash buckets, each the square root of its count.

    The hash also gives a sign, so that collisions cancel out as often as they add up.
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
