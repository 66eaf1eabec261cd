"""An embedder over another one."""

from schemas.base import ModelId
from streams.model.ports import Embedder


class WrappedEmbedder:
    """The part of ports.Embedder that is the inner embedder's; a subclass has `embed`."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    @property
    def model(self) -> ModelId:
        return self._embedder.model

    @property
    def dimension(self) -> int:
        return self._embedder.dimension
