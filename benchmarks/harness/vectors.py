"""Embedders that look up vectors instead of computing them, to measure all costs but encoding."""

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness.material import Event
from schemas.base import ModelId
from streams.model.embedding import TextVector, Vector
from streams.model.identity import normalised
from streams.model.ports.models import Embedder
from streams.store.app import policies

DIMENSION = 384
NEAR = 0.9
"""The cosine between an event and its near one: between the bands review and match."""


class Given:
    """Implements ports.Embedder over vectors computed beforehand.

    An unexpected text, such as a merged one, gets a vector derived from its words.
    """

    dimension = DIMENSION

    def __init__(self, vectors: Mapping[str, Vector]) -> None:
        self._embedded: dict[str, TextVector] = {}
        self.model = ModelId(policies.load("default").model)
        self.learn(vectors)

    def learn(self, vectors: Mapping[str, Vector]) -> None:
        """Add vectors."""
        for text, vector in vectors.items():
            self._embedded[text] = TextVector(vector, truncated=False)

    async def embed(self, texts: Sequence[str]) -> list[TextVector]:
        self.learn({text: seeded(text) for text in texts if text not in self._embedded})
        return [self._embedded[text] for text in texts]


class Recording:
    """Implements ports.Embedder over another embedder, and records its vectors."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.model, self.dimension = embedder.model, embedder.dimension
        self.made: dict[str, Vector] = {}

    async def embed(self, texts: Sequence[str]) -> list[TextVector]:
        embedded = await self._embedder.embed(texts)
        self.made.update(zip(texts, (one.vector for one in embedded), strict=True))
        return embedded


def of_texts(events: Iterable[Event]) -> dict[str, Vector]:
    """Return a unit vector for each text, derived from its words alone.

    The vectors are unrelated, except for events with a `near` text.
    """
    made: dict[str, Vector] = {}
    for event in events:
        own = seeded(event.text)
        if event.near is not None:
            own = _unit(NEAR * made[event.near] + math.sqrt(1 - NEAR**2) * own)
        made.setdefault(event.text, own)
    return made


def seeded(text: str) -> Vector:
    """Return the unit vector of a text's words, the same in every run."""
    digest = hashlib.blake2b(normalised(text).encode(), digest_size=16).digest()
    bits = np.random.Philox(key=int.from_bytes(digest))  # noqa: TID251 - the words are the seed
    values = np.random.Generator(bits).standard_normal(DIMENSION, dtype=np.float32)  # noqa: TID251
    return _unit(values)


def random_units(seed: int, count: int) -> Vector:
    """Return unrelated unit vectors, one per row, the same for the same seed."""
    made = np.random.default_rng(seed).standard_normal((count, DIMENSION), dtype=np.float32)  # noqa: TID251
    return made / np.linalg.norm(made, axis=1, keepdims=True)


def _unit(vector: NDArray[np.floating[Any]]) -> Vector:
    unit = (vector / np.linalg.norm(vector)).astype(np.float32)
    unit.flags.writeable = False
    return unit
