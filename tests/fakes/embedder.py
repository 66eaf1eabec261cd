"""An Embedder whose vectors a test has chosen."""

from collections.abc import Container, Mapping, Sequence

import numpy as np

from schemas.base import ModelId
from streams.model.embedding import TextVector, Vector


class FakeEmbedder:
    """Gives each text of the table its vector at length one, and refuses every other text.

    A text nobody thought of would otherwise get a vector that nobody chose.
    """

    def __init__(
        self,
        table: Mapping[str, Sequence[float]],
        *,
        model: str = "fake",
        truncated: Container[str] = (),
    ) -> None:
        self._vectors = {text: _unit(values) for text, values in table.items()}
        self._model = ModelId(model)
        self._truncated = truncated
        (self._dimension,) = {vector.shape[0] for vector in self._vectors.values()}

    @property
    def model(self) -> ModelId:
        return self._model

    @property
    def dimension(self) -> int:
        return self._dimension

    async def embed(self, texts: Sequence[str]) -> list[TextVector]:
        """Return one result per text, in order. KeyError on a text outside the table."""
        return [
            TextVector(self._vectors[text], truncated=text in self._truncated) for text in texts
        ]


def _unit(values: Sequence[float]) -> Vector:
    exact = np.array(values, np.float64)
    unit = (exact / np.linalg.norm(exact)).astype(np.float32)
    unit.flags.writeable = False
    return unit
