"""Ports of one process: before and after every call anybody else may go on, for any time."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import TypeVar

from schemas.base import ContentKey, DecisionId, MemoryId, ScopeName
from streams.model.embedding import TextVector
from streams.model.fences import ReadPosition
from streams.model.neighbours import KnownEvent, StoredMemory
from streams.model.ports.failures import Transient
from streams.model.ports.index import IndexLevel, PartitionLevel, Query
from streams.model.ports.log import CommittedOffset, LogRecord, OutgoingRecord
from streams.model.ports.models import Embedder
from streams.model.wrapping import WrappedEmbedder
from tests.simulation.cluster import Cluster, Tenure, turn

Answer = TypeVar("Answer")

_TENSE = 4.0
"""The risk around what is written."""

_STALE = 12.0
"""The risk from when a memory is read to when it is written: what was read may grow old."""

_RISKS = {"partitions": 0.1, "beginning": 0.1, "end": 0.1, "get": _STALE}
"""Claims check much that seldom matters: elsewhere more goes wrong."""


async def _asked(
    cluster: Cluster, who: str, what: str, ask: Callable[[], Awaitable[Answer]]
) -> Answer:
    risk = _RISKS.get(what, 1.0)
    await turn(risk)
    cluster.maybe_fail(who, what)
    answer = await ask()
    await turn(risk)
    return answer


class SimulatedLog:
    """Implements ports.Log for one process; `believed` are the partitions it takes for its own."""

    def __init__(self, cluster: Cluster, who: str, believed: Mapping[int, Tenure | None]) -> None:
        self._cluster = cluster
        self._who = who
        self._believed = believed

    async def partitions(self, topic: str) -> int:
        return await self._ask("partitions", lambda: self._cluster.log.partitions(topic))

    async def append(self, records: Sequence[OutgoingRecord]) -> list[int]:
        """Send topic by topic: what follows in another topic must not be there without these."""
        offsets: list[int] = []
        for _, run in groupby(records, key=lambda record: record.topic):
            offsets += await self._send(list(run))
        return offsets

    async def _send(self, left: list[OutgoingRecord]) -> list[int]:
        cluster, what = self._cluster, f"append to {left[0].topic}"
        offsets: list[int] = []
        with cluster.sending(self._who, left):
            await turn(_TENSE)
            cluster.maybe_fail(self._who, what)
            while left:
                size = cluster.cut(len(left))
                offsets += await cluster.append(self._who, left[:size])
                del left[:size]
                cluster.maybe_doubt(self._who, what)
                await turn(_TENSE)
        return offsets

    async def read(self, topic: str, partition: int, offset: int, limit: int) -> list[LogRecord]:
        return await self._ask(
            "read", lambda: self._cluster.log.read(topic, partition, offset, limit)
        )

    async def beginning(self, topic: str, partition: int) -> int:
        return await self._ask("beginning", lambda: self._cluster.log.beginning(topic, partition))

    async def end(self, topic: str, partition: int) -> int:
        return await self._ask("end", lambda: self._cluster.log.end(topic, partition))

    async def erase(self, topic: str, partition: int, offsets: Sequence[int]) -> None:
        cluster, left = self._cluster, list(offsets)
        await turn(_TENSE)
        cluster.maybe_fail(self._who, "erase")
        while left:
            size = cluster.cut(len(left))
            await cluster.erase(self._who, topic, partition, left[:size])
            del left[:size]
            cluster.maybe_doubt(self._who, "erase")
            await turn(_TENSE)

    async def commit(
        self, group: str, topic: str, partition: int, position: CommittedOffset
    ) -> None:
        cluster, what = self._cluster, f"commit of {topic}"
        await turn(_TENSE)
        tenure, place = self._believed[partition], (group, topic, partition)
        try:
            cluster.maybe_fail(self._who, what)
        except Transient:
            late = partial(cluster.commit, f"late: {self._who}", place, position, tenure)
            cluster.maybe_late(late)
            raise
        await cluster.commit(self._who, place, position, tenure)
        cluster.maybe_doubt(self._who, what)
        await turn(_TENSE)

    async def committed(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        return await self._ask(
            "committed", lambda: self._cluster.log.committed(group, topic, partition)
        )

    async def _ask(self, what: str, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        return await _asked(self._cluster, self._who, what, ask)


class SimulatedIndex:
    """Implements ports.Index for one process, over the index that all share."""

    def __init__(self, cluster: Cluster, who: str) -> None:
        self._cluster = cluster
        self._who = who

    async def search(self, queries: Sequence[Query]) -> list[list[StoredMemory]]:
        return await self._ask("search", lambda: self._cluster.index.search(queries))

    async def get(self, ids: Sequence[MemoryId]) -> dict[MemoryId, StoredMemory]:
        return await self._ask("get", lambda: self._cluster.index.get(ids))

    async def with_content(
        self, keys: Sequence[ContentKey]
    ) -> dict[ContentKey, list[StoredMemory]]:
        return await self._ask("with_content", lambda: self._cluster.index.with_content(keys))

    async def contradicting(self, ids: Sequence[MemoryId]) -> dict[MemoryId, list[StoredMemory]]:
        return await self._ask("contradicting", lambda: self._cluster.index.contradicting(ids))

    async def forgotten(self, scopes: Sequence[ScopeName]) -> dict[ScopeName, list[StoredMemory]]:
        return await self._ask("forgotten", lambda: self._cluster.index.forgotten(scopes))

    async def decided(self, ids: Sequence[DecisionId]) -> Mapping[DecisionId, KnownEvent]:
        return await self._ask("decided", lambda: self._cluster.index.decided(ids))

    async def write(self, changes: Sequence[StoredMemory]) -> None:
        cluster, left = self._cluster, list(changes)
        await turn(_STALE)
        cluster.maybe_fail(self._who, "write")
        while left:
            cluster.require_index(self._who)
            size = cluster.cut(len(left))
            await cluster.write(self._who, left[:size])
            del left[:size]
            cluster.maybe_doubt(self._who, "write")
            await turn(_STALE)

    async def count(self) -> int:
        return await self._ask("count", self._cluster.index.count)

    async def level(self) -> IndexLevel | None:
        return await self._ask("level", self._cluster.index.level)

    async def keep_level(
        self, partition: int, reached: ReadPosition, *, since: PartitionLevel
    ) -> PartitionLevel:
        cluster = self._cluster
        await turn(_TENSE)
        cluster.maybe_fail(self._who, "keep_level")
        cluster.require_index(self._who)
        kept = await cluster.keep(self._who, partition, reached, since)
        cluster.maybe_doubt(self._who, "keep_level")
        await turn(_TENSE)
        return kept

    async def clear(self) -> None:
        raise AssertionError("no process clears an index that others use")

    def scan(self, scope: ScopeName | None = None) -> AsyncIterator[StoredMemory]:
        return self._cluster.index.scan(scope)

    async def close(self) -> None:
        pass

    async def _ask(self, what: str, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        def answer() -> Awaitable[Answer]:
            self._cluster.require_index(self._who)
            return ask()

        return await _asked(self._cluster, self._who, what, answer)


class SimulatedEmbedder(WrappedEmbedder):
    """Implements ports.Embedder for one process."""

    def __init__(self, cluster: Cluster, who: str, embedder: Embedder) -> None:
        self._cluster = cluster
        self._who = who
        super().__init__(embedder)

    async def embed(self, texts: Sequence[str]) -> list[TextVector]:
        def answer() -> Awaitable[list[TextVector]]:
            self._cluster.require_there(self._who, "embedder")
            return self._embedder.embed(texts)

        return await _asked(self._cluster, self._who, "embed", answer)
