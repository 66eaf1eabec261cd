"""Opens the memories of a store, or of a cluster."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from streams.clock.system import SystemClock
from streams.forget.app.forgetting import PlanningDependencies, key_of
from streams.log.threads import abandonable
from streams.memory.app.holding import connecting, holding
from streams.memory.app.lifecycle import Lifecycle
from streams.memory.app.memory_store import MemoryStore
from streams.memory.app.queueing import Cluster, Queue
from streams.recall.app.loading import loading, require_judge
from streams.store.app import wiring
from streams.store.app.cluster_client import NO_WAITING, ClusterClient, Waiting
from streams.store.app.embedding import chosen_for, for_store
from streams.store.app.processes import as_made
from streams.store.app.reading import LogTarget, opened, reader_of
from streams.store.app.settings import Settings


async def open_memories(
    target: LogTarget, report: Callable[[str], None], note: Callable[[str], None], wait: float = 0
) -> MemoryStore:
    """Open a store for writing, which is created if it does not exist, or connect to a cluster.

    The decisions of a cluster are waited for `wait` seconds. `report` receives a line when a model
    is fetched or chosen, `note` when something is waited for. Raises as `holding` or `connecting`.
    """
    require_judge(target.settings)
    if target.embedded:
        chosen = await abandonable(partial(for_store, target.settings, report))
        target = LogTarget.of_store(as_made(chosen.settings))
        opening = partial(holding, target, chosen, note)
    else:
        chosen = await abandonable(partial(chosen_for, target, report))
        opening = partial(connecting, target, chosen, note, wait)
    store = MemoryStore(target, chosen, opening, note, wait)
    await store.take_hold()
    return store


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
    require_judge(settings)
    chosen = await abandonable(partial(for_store, settings, report))
    target = LogTarget.of_store(chosen.settings)
    async with holding(target, chosen, report, forgets=True) as held:
        means = PlanningDependencies(key_of(target), chosen.policy, chosen.embedder, held.judging)
        queue = Queue(held.client(), held.reader.log, masked=chosen.policy.screens)
        try:
            yield Lifecycle(held.loading, queue, held.count, SystemClock(), held.reader, means)
        finally:
            await queue.close()


@asynccontextmanager
async def _of_cluster(
    target: LogTarget, report: Callable[[str], None], *, reads_past: bool
) -> AsyncGenerator[Lifecycle]:
    """Yield the operations on memories over Kafka and the services' memories."""
    settings = target.settings
    await wiring.partitions(settings.kafka)  # raises if the topics are not valid
    async with opened(target) as cluster, loading(target, report=report) as found:
        waiting = Waiting(lambda: settings.api.decision_seconds)
        index = found.index
        deciding = Cluster(
            ClusterClient(cluster, index, waiting),
            ClusterClient(cluster, index, NO_WAITING),
            cluster,
        )
        count = wiring.token_counter(settings.embedder, report)
        past = reader_of(cluster, target) if reads_past else None
        yield Lifecycle(found, deciding, count, SystemClock(), past)
