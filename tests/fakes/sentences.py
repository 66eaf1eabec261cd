"""An Embedder that knows sentences, and therefore every text that was joined from them."""

from collections.abc import Mapping, Sequence

import numpy as np

from schemas.base import ModelId
from streams.model.embedding import TextVector, Vector


class SentenceEmbedder:
    """Gives a known text its vector, and a joined text the direction of all that it holds.

    Reads `characters_max` characters: a longer text is truncated.
    """

    def __init__(self, table: Mapping[str, Vector], *, characters_max: int) -> None:
        self._table = table
        self._characters_max = characters_max
        (self._dimension,) = {vector.shape[0] for vector in table.values()}

    @property
    def model(self) -> ModelId:
        return ModelId("fake")

    @property
    def dimension(self) -> int:
        return self._dimension

    async def embed(self, texts: Sequence[str]) -> list[TextVector]:
        """Return one result per text, in order. KeyError on a text that holds nothing known."""
        return [
            TextVector(self._vector(text), truncated=len(text) > self._characters_max)
            for text in texts
        ]

    def _vector(self, text: str) -> Vector:
        if text in self._table:
            return self._table[text]
        held = [vector for known, vector in self._table.items() if known.rstrip(".") in text]
        if not held:
            raise KeyError(text)
        total = np.sum(held, axis=0, dtype=np.float64)
        unit: Vector = np.asarray(total / np.linalg.norm(total), np.float32)
        return unit
