"""Where proposals to join memories are decided on: a store of our own, a cluster, memory alone."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from schemas.base import DecisionId
from schemas.decisions import Marker, OnEvent
from schemas.events import Consolidate
from schemas.topics import DECISIONS, EVENTS
from streams.adapters.stopwatch import time_limit
from streams.apps import wiring
from streams.apps.following import Following
from streams.apps.processes import EmbeddedPipeline
from streams.apps.reading import opened
from streams.apps.rehearsing import Means, Rehearsal
from streams.apps.requests import decisions_on, record_of
from streams.apps.settings import Settings
from streams.core.fences import Reached
from streams.core.identity import decision_id
from streams.core.policy import Policy
from streams.flow.decisions import DECISION_ID_HEADER, DecisionsReader, epoch_at, read_decision
from streams.flow.takeover import applied
from streams.ports import Index, Log

_LOOK_SECONDS = 0.2
_ANSWER_SECONDS = 30.0
"""How long the services may take to decide on some proposals, and to apply that."""
_PAGE = 500


@dataclass(frozen=True)
class OwnStore:
    """Implements Place for an embedded store that this process writes."""

    pipeline: EmbeddedPipeline
    settings: Settings

    async def index(self) -> Index:
        return self.pipeline.index

    async def decide(self, proposals: Sequence[Consolidate]) -> list[OnEvent | None]:
        """Have each decided on once: what was proposed before is not proposed again."""
        if not proposals:
            return []
        ids = {decision_id(one.scope, one.event_id): one for one in proposals}
        async with opened(self.settings, embedded=True) as log:
            known = await log.find(DECISIONS.name, DECISION_ID_HEADER, list(ids))
            partitions = await log.partitions(EVENTS.name)
        before = {read_decision(record).decision_id for record in known}
        new = [one for identity, one in ids.items() if identity not in before]
        await self.pipeline.take([record_of(one, partitions) for one in new])
        return list(await decisions_on(self.settings, proposals))


@dataclass(frozen=True)
class InMemory:
    """Implements Place for memories that are tried out on: nothing is kept."""

    rehearsal: Rehearsal

    async def index(self) -> Index:
        return self.rehearsal.index

    async def decide(self, proposals: Sequence[Consolidate]) -> list[OnEvent | None]:
        decided = await self.rehearsal.hear(proposals, batch_records=_PAGE)
        return [None if isinstance(one, Marker) else one for one in decided]


@dataclass(frozen=True)
class Cluster:
    """Implements Place for what the services keep: proposals are events, which they decide on.

    `there` gives the memories: those of the services' own index, or what the log adds up to.
    """

    log: Log
    there: Callable[[], Awaitable[Index]]

    async def index(self) -> Index:
        return await self.there()

    async def decide(self, proposals: Sequence[Consolidate]) -> list[OnEvent | None]:
        """Publish, and wait for the decisions, and until the memories have them."""
        partitions = await self.log.partitions(EVENTS.name)
        ends = {p: await self.log.end(DECISIONS.name, p) for p in range(partitions)}
        records = [record_of(one, partitions) for one in proposals]
        await self.log.append(records)
        waiting = _Waiting(self.log, {r.partition: ends[r.partition] for r in records})
        ids = [decision_id(one.scope, one.event_id) for one in proposals]
        is_over = time_limit(_ANSWER_SECONDS)
        while ids and not is_over():
            if await waiting.have(ids, await self.there()):
                break
            await asyncio.sleep(_LOOK_SECONDS)
        return [waiting.decided.get(identity) for identity in ids]


class _Waiting:
    """Reads the decisions behind some offsets as they come."""

    def __init__(self, log: Log, since: dict[int, int]) -> None:
        self._log = log
        self._since = since
        self._readers: dict[int, DecisionsReader] = {}
        self.decided: dict[DecisionId, OnEvent] = {}

    async def have(self, ids: Sequence[DecisionId], index: Index) -> bool:
        """Read on; tell whether all are there, and the index has followed that far."""
        for partition in self._since:
            await self._read(partition)
        if not self.decided.keys() >= set(ids):
            return False
        reached = {p: (await applied(index, p)).reached.offset for p in self._since}
        return all(reached[p] >= reader.reached.offset for p, reader in self._readers.items())

    async def _read(self, partition: int) -> None:
        reader = self._readers.get(partition)
        if reader is None:
            start = self._since[partition]
            epoch = await epoch_at(self._log, partition, start)
            reader = self._readers[partition] = DecisionsReader(Reached(start, epoch))
        while page := await self._log.read(DECISIONS.name, partition, reader.reached.offset, _PAGE):
            for logged in reader.window(page):
                if not isinstance(logged.decision, Marker):
                    self.decided[logged.decision.decision_id] = logged.decision


@asynccontextmanager
async def cluster(settings: Settings) -> AsyncGenerator[Cluster]:
    """Open the cluster's log and memories: the services' index where that is a server."""
    async with AsyncExitStack() as stack:
        log = wiring.kafka_log(settings)
        stack.push_async_callback(log.close)
        await wiring.partitions(settings.kafka)
        if settings.index.kind != "qdrant":
            yield Cluster(log, Following(log).index)
            return
        collection = await wiring.open_collection(settings)
        stack.push_async_callback(collection.close)

        async def there() -> Index:
            return collection

        yield Cluster(log, there)


async def tried_out(memories: Index, policy: Policy, means: Means) -> InMemory:
    """Return a place that holds the same memories, where nothing is kept."""
    rehearsal = Rehearsal(policy, means)
    await rehearsal.index.write([stored async for stored in memories.scan()])
    return InMemory(rehearsal)
