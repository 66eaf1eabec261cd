"""A process that dies at a step: ports that stop everything before, in or after a call."""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import TypeVar

from schemas.base import ContentKey, DecisionId, MemoryId, ScopeName
from streams.log.local_broker import LocalBroker
from streams.model.embedding import TextVector
from streams.model.fences import ReadPosition
from streams.model.neighbours import KnownEvent, StoredMemory
from streams.model.ports.index import Index, IndexLevel, PartitionLevel, Query
from streams.model.ports.log import CommittedOffset, LogRecord, OutgoingRecord
from streams.model.ports.models import Embedder
from streams.model.wrapping import WrappedEmbedder

Result = TypeVar("Result")


class Crash(BaseException):
    """The process is gone: nobody may catch this but the test."""


class Steps:
    """Counts the moments before and after every port call, over all lives of a process."""

    def __init__(self, crashes: Collection[int] = ()) -> None:
        """`crashes`: the moments, from 1, at which the process dies."""
        self._crashes = frozenset(crashes)
        self.taken = 0

    def take(self) -> None:
        self.taken += 1
        if self.taken in self._crashes:
            raise Crash(self.taken)

    async def around(self, call: Callable[[], Awaitable[Result]]) -> Result:
        self.take()
        result = await call()
        self.take()
        return result


class CrashingLog:
    """Implements ports.Log and ports.Lookup over a broker."""

    is_indexed = True

    def __init__(self, log: LocalBroker, steps: Steps) -> None:
        self._log = log
        self._steps = steps

    async def partitions(self, topic: str) -> int:
        return await self._steps.around(lambda: self._log.partitions(topic))

    async def append(self, records: Sequence[OutgoingRecord]) -> list[int]:
        return await self._steps.around(lambda: self._log.append(records))

    async def read(self, topic: str, partition: int, offset: int, limit: int) -> list[LogRecord]:
        return await self._steps.around(lambda: self._log.read(topic, partition, offset, limit))

    async def beginning(self, topic: str, partition: int) -> int:
        return await self._steps.around(lambda: self._log.beginning(topic, partition))

    async def end(self, topic: str, partition: int) -> int:
        return await self._steps.around(lambda: self._log.end(topic, partition))

    async def erase(self, topic: str, partition: int, offsets: Sequence[int]) -> None:
        await self._steps.around(lambda: self._log.erase(topic, partition, offsets))

    async def commit(
        self, group: str, topic: str, partition: int, position: CommittedOffset
    ) -> None:
        await self._steps.around(lambda: self._log.commit(group, topic, partition, position))

    async def committed(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        return await self._steps.around(lambda: self._log.committed(group, topic, partition))

    async def find(self, topic: str, header: str, values: Sequence[str]) -> list[LogRecord]:
        return await self._steps.around(lambda: self._log.find(topic, header, values))

    async def find_beginning(
        self, topic: str, headers: Sequence[str], beginning: str
    ) -> list[LogRecord]:
        return await self._steps.around(lambda: self._log.find_beginning(topic, headers, beginning))


class CrashingIndex:
    """Implements ports.Index over an index whose content survives; a write may be torn."""

    def __init__(self, index: Index, steps: Steps) -> None:
        self._index = index
        self._steps = steps

    async def search(self, queries: Sequence[Query]) -> list[list[StoredMemory]]:
        return await self._steps.around(lambda: self._index.search(queries))

    async def get(self, ids: Sequence[MemoryId]) -> dict[MemoryId, StoredMemory]:
        return await self._steps.around(lambda: self._index.get(ids))

    async def with_content(
        self, keys: Sequence[ContentKey]
    ) -> dict[ContentKey, list[StoredMemory]]:
        return await self._steps.around(lambda: self._index.with_content(keys))

    async def contradicting(self, ids: Sequence[MemoryId]) -> dict[MemoryId, list[StoredMemory]]:
        return await self._steps.around(lambda: self._index.contradicting(ids))

    async def forgotten(self, scopes: Sequence[ScopeName]) -> dict[ScopeName, list[StoredMemory]]:
        return await self._steps.around(lambda: self._index.forgotten(scopes))

    async def decided(self, ids: Sequence[DecisionId]) -> Mapping[DecisionId, KnownEvent]:
        return await self._steps.around(lambda: self._index.decided(ids))

    async def count(self) -> int:
        return await self._steps.around(self._index.count)

    async def write(self, changes: Sequence[StoredMemory]) -> None:
        self._steps.take()
        for change in changes:
            await self._index.write([change])
            self._steps.take()

    async def level(self) -> IndexLevel | None:
        return await self._steps.around(self._index.level)

    async def keep_level(
        self, partition: int, reached: ReadPosition, *, since: PartitionLevel
    ) -> PartitionLevel:
        return await self._steps.around(
            lambda: self._index.keep_level(partition, reached, since=since)
        )

    async def clear(self) -> None:
        await self._index.clear()

    def scan(self, scope: ScopeName | None = None) -> AsyncIterator[StoredMemory]:
        return self._index.scan(scope)

    async def close(self) -> None:
        await self._index.close()


class CrashingEmbedder(WrappedEmbedder):
    """Implements ports.Embedder over an embedder."""

    def __init__(self, embedder: Embedder, steps: Steps) -> None:
        super().__init__(embedder)
        self._steps = steps

    async def embed(self, texts: Sequence[str]) -> list[TextVector]:
        return await self._steps.around(lambda: self._embedder.embed(texts))
