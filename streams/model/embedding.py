"""Conversion of vectors between serialized form and numpy, and the similarity that bands use."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.base import Embedding, ModelId

Vector = NDArray[np.float32]
"""One embedding: shape (dimension,), float32."""

SIMILARITY_DECIMALS = 5
"""Encoding a text in another batch moves a cosine by about 1e-7 (measured); five decimals hide that
and are fine enough for any band edge."""

NEAR_TIE = 2e-5
"""Similarities closer than this may be ordered differently in float32 and by `similarity`."""


_REMEMBERED = 2_048
"""How many unpacked vectors are cached with their serialized form, at about 4 KiB each: consumers
of a decision read its vector at most one batch later."""


@dataclass(frozen=True)
class TextVector:
    """A text's vector; `truncated` if the model did not read the whole text."""

    vector: Vector
    truncated: bool


BF16 = "@bf16"
"""Suffix of the name of a model that computes in bf16."""


def base_model(model: str) -> str:
    """Return a model's name without its precision suffix: `name@bf16` becomes `name`."""
    return model.removesuffix(BF16)


def units(vectors: NDArray[Any]) -> NDArray[np.float32]:
    """Return the vectors, one per row, scaled to unit length; a zero vector stays zero."""
    exact = vectors.astype(np.float64)
    lengths = np.linalg.norm(exact, axis=1, keepdims=True)
    return np.divide(exact, lengths, out=exact, where=lengths > 0.0).astype(np.float32)


def nowhere(dimension: int) -> Vector:
    """Return a unit vector that stands for none: next to no text's lies near it."""
    vector = np.zeros(dimension, np.float32)
    vector[0] = 1.0
    return vector


def pack(vector: Vector, model: ModelId) -> Embedding:
    """Return a vector in serialized form, bit for bit."""
    values = base64.b64encode(np.ascontiguousarray(vector, dtype="<f4").tobytes())
    return Embedding.trusted(
        model=model, dimension=int(vector.shape[0]), values=values.decode("ascii")
    )


def unpack(embedding: Embedding) -> Vector:
    """Return the vector of a serialized form, bit for bit; read-only, shape (dimension,)."""
    return _vector(embedding.values)


@lru_cache(_REMEMBERED)
def _vector(values: str) -> Vector:
    return np.frombuffer(base64.b64decode(values), dtype="<f4")


def best_of_each(scores: NDArray[Any], sizes: Sequence[int]) -> NDArray[Any]:
    """Return the highest score of each group; `sizes` has the number of scores per group, ≥ 1."""
    if len(scores) == len(sizes):
        return scores  # the common case: one score per group
    starts = np.cumsum([0, *sizes[:-1]])
    return np.maximum.reduceat(scores, starts)


def similarity(first: Vector, second: Vector) -> float:
    """Return the cosine of two vectors in [-1, 1], computed in float64, rounded to five decimals.

    Every similarity that is compared with a band comes from here, however the neighbour was
    nominated, so the same two vectors always get the same band. A zero vector has similarity 0.0.
    """
    a, b = first.astype(np.float64), second.astype(np.float64)
    norms = float(np.dot(a, a)) * float(np.dot(b, b))
    if norms == 0.0:
        return 0.0
    cosine = float(np.dot(a, b)) / norms**0.5
    return round(min(1.0, max(-1.0, cosine)), SIMILARITY_DECIMALS)
