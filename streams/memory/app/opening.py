"""Opens the memories of a store, or of a cluster."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from streams.clock.system import SystemClock
from streams.forget.app.forgetting import Means
from streams.memory.app.cluster_store import ClusterStore
from streams.memory.app.embedded_store import EmbeddedStore, holding
from streams.memory.app.lifecycle import Lifecycle, Past
from streams.memory.app.memory_store import MemoryStore
from streams.memory.app.queueing import Cluster, Queue
from streams.recall.app.loading import loading
from streams.store.app import embedding, wiring
from streams.store.app.cluster_client import NO_WAITING, ClusterClient, Waiting
from streams.store.app.reading import LogTarget, opened, reader_of
from streams.store.app.settings import Settings
from streams.store.world.store_directory import StoreDirectory


async def open_memories(
    target: LogTarget, report: Callable[[str], None], note: Callable[[str], None], wait: float
) -> MemoryStore:
    """Open what `target` names; a cluster's decisions are waited for `wait` seconds."""
    if target.embedded:
        return await EmbeddedStore.open(target.settings, report, note)
    return await ClusterStore.open(target, report, note, wait)


def open_lifecycle(
    target: LogTarget, report: Callable[[str], None], *, reads_past: bool = False
) -> AbstractAsyncContextManager[Lifecycle]:
    """Open the operations on memories for a server. `reads_past`: a cluster's log is read, too."""
    if target.embedded:
        return _of_store(target.settings, report)
    return _of_cluster(target, report, reads_past=reads_past)


@asynccontextmanager
async def _of_store(settings: Settings, report: Callable[[str], None]) -> AsyncGenerator[Lifecycle]:
    """Yield the operations on memories over an embedded store, held for writing."""
    chosen = embedding.for_store(settings, report)
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(
            holding(chosen.settings, chosen, report, forgets=True)
        )
        found = await stack.enter_async_context(
            loading(LogTarget.of_store(settings), embedder=chosen.embedder)
        )
        key = wiring.forget_key(settings.forget, StoreDirectory(settings.store))
        if key is None:
            raise TypeError("a store that forgets has a key")
        queue = Queue(store.client, store.log, masked=chosen.policy.screens)
        stack.push_async_callback(queue.close)
        means = Means(key, chosen.policy, chosen.embedder, store.pipeline.judging)
        past = Past(store.log, store.reader)
        count = wiring.token_counter(chosen.settings.embedder, report)
        yield Lifecycle(found, queue, count, SystemClock(), past, means)


@asynccontextmanager
async def _of_cluster(
    target: LogTarget, report: Callable[[str], None], *, reads_past: bool
) -> AsyncGenerator[Lifecycle]:
    """Yield the operations on memories over Kafka and the services' memories."""
    settings = target.settings
    await wiring.partitions(settings.kafka)  # raises if the topics are not valid
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(opened(target))
        found = await stack.enter_async_context(loading(target, report=report))
        waiting = Waiting(lambda: settings.api.decision_seconds)
        index = found.index
        deciding = Cluster(
            ClusterClient(cluster, index, waiting),
            ClusterClient(cluster, index, NO_WAITING),
            cluster,
        )
        count = wiring.token_counter(settings.embedder, report)
        past = Past(cluster, reader_of(cluster, target)) if reads_past else None
        yield Lifecycle(found, deciding, count, SystemClock(), past)
