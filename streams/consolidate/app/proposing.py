"""Where proposals to join memories are decided on: our own store, a cluster, or in memory."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from schemas.decisions import Decision, Marker, OnEvent
from schemas.events import Consolidate
from schemas.topics import DECISIONS, EVENTS
from streams.clock.stopwatch import time_limit
from streams.model.identity import decision_id
from streams.model.policy import Policy
from streams.model.ports import Index, Log
from streams.stage.flow.decisions import DECISION_ID_HEADER, read_decision
from streams.stage.flow.takeover import applied
from streams.store.app import wiring
from streams.store.app.awaiting import LOOK_SECONDS, Published, publish
from streams.store.app.following import Following
from streams.store.app.processes import EmbeddedPipeline
from streams.store.app.reading import Target, opened
from streams.store.app.rehearsing import Means, Rehearsal
from streams.store.app.requests import decisions_on, record_of
from streams.store.app.settings import Settings

_ANSWER_SECONDS = 30.0
"""How long the services may take to decide on a batch of proposals and apply the decisions."""
_PAGE = 500


@dataclass(frozen=True)
class OwnStore:
    """Implements Place for an embedded store that this process writes."""

    pipeline: EmbeddedPipeline
    settings: Settings

    async def index(self) -> Index:
        return self.pipeline.index

    async def decide(self, proposals: Sequence[Consolidate]) -> list[OnEvent | None]:
        """Decide on each proposal once; one that was decided before is not submitted again."""
        if not proposals:
            return []
        ids = {decision_id(one.scope, one.event_id): one for one in proposals}
        async with opened(Target(self.settings, embedded=True)) as log:
            known = await log.find(DECISIONS.name, DECISION_ID_HEADER, list(ids))
            partitions = await log.partitions(EVENTS.name)
        before = {read_decision(record).decision_id for record in known}
        new = [one for identity, one in ids.items() if identity not in before]
        await self.pipeline.take([record_of(one, partitions) for one in new])
        return list(await decisions_on(self.settings, proposals))


@dataclass(frozen=True)
class InMemory:
    """Implements Place for a trial in memory: nothing is kept."""

    rehearsal: Rehearsal

    async def index(self) -> Index:
        return self.rehearsal.index

    async def decide(self, proposals: Sequence[Consolidate]) -> list[OnEvent | None]:
        decided = await self.rehearsal.hear(proposals, batch_records=_PAGE)
        return [_on_event(one) for one in decided]


@dataclass(frozen=True)
class Cluster:
    """Implements Place for the services: proposals are events, which the services decide on.

    `there` returns the memories, from the services' own index or from the log.
    """

    log: Log
    there: Callable[[], Awaitable[Index]]

    async def index(self) -> Index:
        return await self.there()

    async def decide(self, proposals: Sequence[Consolidate]) -> list[OnEvent | None]:
        """Publish the proposals, and wait until they are decided on and applied."""
        published = await publish(self.log, proposals)
        is_over = time_limit(_ANSWER_SECONDS)
        while not is_over():
            if await self._have(published):
                break
            await asyncio.sleep(LOOK_SECONDS)
        return [_on_event(one.decision) for one in published.replies]

    async def _have(self, published: Published) -> bool:
        """Return whether all are decided on and the memories reflect it."""
        if not await published.are_decided():
            return False
        index = await self.there()
        behind = [
            partition
            for partition, reached in published.reached.items()
            if (await applied(index, partition)).reached.offset < reached
        ]
        return not behind


@asynccontextmanager
async def cluster(settings: Settings) -> AsyncGenerator[Cluster]:
    """Open the cluster's log and memories, from the services' index if it is a server."""
    async with AsyncExitStack() as stack:
        log = wiring.kafka_log(settings)
        stack.push_async_callback(log.close)
        await wiring.partitions(settings.kafka)
        if not settings.index.kind.shared:
            yield Cluster(log, Following(log).index)
            return
        collection = await wiring.open_collection(settings)
        stack.push_async_callback(collection.close)

        async def there() -> Index:
            return collection

        yield Cluster(log, there)


async def tried_out(memories: Index, policy: Policy, means: Means) -> InMemory:
    """Return a place with a copy of the memories, where nothing is kept."""
    rehearsal = Rehearsal(policy, means)
    await rehearsal.index.write([stored async for stored in memories.scan()])
    return InMemory(rehearsal)


def _on_event(decision: Decision | None) -> OnEvent | None:
    return None if isinstance(decision, Marker) else decision
