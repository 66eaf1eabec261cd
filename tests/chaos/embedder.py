"""An embedder that costs nothing: a text's vector follows from its words alone, bit for bit."""

import hashlib
import math
import re
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from schemas.base import ModelId
from streams.embedding import DEFAULT_MODEL
from streams.model.embedding import TextVector, Vector

FILLERS = ("really", "truly", "certainly", "indeed", "always", "clearly", "surely", "still")
"""Words that hardly turn a vector: with one of them more, a text is nearly identical."""

_DIMENSION = 384
_FUNCTION_WORDS = frozenset([*FILLERS, "the", "in", "of", "is", "a"])


class WordEmbedder:
    """Implements ports.Embedder in the place of the default model.

    Texts of the same words are one to it, texts that share few are far apart. Whole numbers are
    added, so every process comes to the same bytes.
    """

    @property
    def model(self) -> ModelId:
        return ModelId(DEFAULT_MODEL)

    @property
    def dimension(self) -> int:
        return _DIMENSION

    async def embed(self, texts: Sequence[str]) -> list[TextVector]:
        return [TextVector(vector_of(text), truncated=False) for text in texts]


def vector_of(text: str) -> Vector:
    """Return the vector of a text."""
    words = re.findall(r"\w+", text.casefold()) or [text]
    total = np.sum([_weight(word) * _direction(word) for word in words], axis=0, dtype=np.int64)
    length = math.sqrt(int(np.sum(total * total)))
    unit: Vector = np.asarray(total / length, np.float32)
    unit.flags.writeable = False
    return unit


def _weight(word: str) -> int:
    return 1 if word in _FUNCTION_WORDS else min(max(len(word), 4), 8)


@cache
def _direction(word: str) -> NDArray[np.int64]:
    """Return the direction of a word: of two words, nearly always at right angles."""
    digest = hashlib.shake_128(word.encode()).digest(_DIMENSION)
    return np.frombuffer(digest, np.uint8).astype(np.int64) * 2 - 255
