"""An embedder over another one, and a process over another one."""

from schemas.base import ModelId
from streams.model.ports.log import Process
from streams.model.ports.models import Embedder


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


class WrappedProcess:
    """The part of ports.Process that is the inner process's; a subclass has `handle`."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @property
    def topic(self) -> str:
        return self._process.topic

    @property
    def group(self) -> str:
        return self._process.group

    async def claim(self, partition: int) -> int:
        return await self._process.claim(partition)

    async def settle(self, partition: int) -> None:
        await self._process.settle(partition)

    def release(self, partition: int) -> None:
        self._process.release(partition)
