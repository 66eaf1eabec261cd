"""Opens the memories of a store that this process writes, or of a cluster."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial

from streams.clock.stopwatch import countdown
from streams.clock.system import SystemClock
from streams.embedding.remembering import RememberingEmbedder
from streams.forget.app.forgetting import PlanningDependencies, key_of
from streams.log.threads import abandonable
from streams.memory.app.lifecycle import Lifecycle
from streams.memory.app.memory_store import MemoryStore
from streams.memory.app.queueing import Cluster, Queue
from streams.recall.app.loading import Loading, require_judge
from streams.store.app import wiring
from streams.store.app.cluster_client import NO_WAITING, ClusterClient, Waiting
from streams.store.app.embedding import ChosenModel, chosen_for, for_store
from streams.store.app.processes import StoreClient, as_made, embedded
from streams.store.app.projection import memories
from streams.store.app.reading import LogTarget, opened, reader_of, reading

_YOURS = "your scopes"
"""Where memories are looked for, for callers that must not learn more."""

Report = Callable[[str], None]


async def open_memories(
    target: LogTarget, report: Report, note: Report, wait: float = 0, *, place: str | None = None
) -> MemoryStore:
    """Open a store for writing, which is created if it does not exist, or connect to a cluster.

    The decisions of a cluster are waited for `wait` seconds. `report` receives a line when a model
    is fetched or chosen, `note` when something is waited for; `place` is where memories are, as
    callers are told. Raises NoStore if another process writes the store, or where the topics or the
    index do not exist, and NoServer or Unreachable for a server that does not answer.
    """
    target, chosen = await _chosen(target, report)
    where = place or target.place
    opening = (
        partial(_store, target, chosen, note, where)
        if target.embedded
        else partial(_cluster, target, chosen, note, wait, where)
    )
    store = MemoryStore(target, opening, wait)
    await store.take_hold()
    return store


@asynccontextmanager
async def open_lifecycle(
    target: LogTarget, report: Report, *, reads_past: bool = False
) -> AsyncGenerator[Lifecycle]:
    """Open the operations on memories for a server. `reads_past`: a cluster's log is read, too."""
    target, chosen = await _chosen(target, report)
    wait = target.settings.api.decision_seconds
    opening = (
        _store(target, chosen, report, _YOURS)
        if target.embedded
        else _cluster(target, chosen, report, wait, _YOURS, is_ours=False, reads_past=reads_past)
    )
    async with opening as life:
        yield life


async def _chosen(target: LogTarget, report: Report) -> tuple[LogTarget, ChosenModel]:
    """Return the model of a log; a store keeps what it was made with."""
    require_judge(target.settings)
    if not target.embedded:
        return target, await abandonable(partial(chosen_for, target, report))
    chosen = await abandonable(partial(for_store, target.settings, report))
    return LogTarget.of_store(as_made(chosen.settings)), chosen


@asynccontextmanager
async def _store(
    target: LogTarget, chosen: ChosenModel, note: Report, place: str
) -> AsyncGenerator[Lifecycle]:
    """Hold a store for writing, create it if it does not exist, and finish its pending events."""
    settings, policy, embedder = target.settings, chosen.policy, chosen.embedder
    async with embedded(settings, policy, embedder, note, forgets=True) as pipeline:
        await pipeline.recover()
        async with reading(target) as reader:
            client, judging = StoreClient(pipeline, reader), pipeline.judging
            queue = Queue(client, reader.log, masked=policy.screens)
            remembering = RememberingEmbedder(embedder)
            try:
                yield Lifecycle(
                    Loading(client.index, remembering, judging, policy, settings.load),
                    queue,
                    wiring.token_counter(settings.embedder, note),
                    SystemClock(),
                    reader,
                    lambda: PlanningDependencies(key_of(target), policy, embedder, judging),
                    place,
                    note,
                )
            finally:
                await queue.close()


@asynccontextmanager
async def _cluster(
    target: LogTarget,
    chosen: ChosenModel,
    note: Report,
    wait: float,
    place: str,
    *,
    is_ours: bool = True,
    reads_past: bool = True,
) -> AsyncGenerator[Lifecycle]:
    """Connect to a cluster; the decisions on a request are waited for `wait` seconds.

    `is_ours`: one program uses it, whose reads wait for what it has changed, and which may forget.
    """
    settings, policy, embedder = target.settings, chosen.policy, chosen.embedder
    reached = dict[int, int]() if is_ours else None
    async with (
        opened(target) as log,
        memories(target, log, embedder.model) as index,
        wiring.judging(settings, SystemClock()) as judging,
    ):

        def client() -> ClusterClient:
            return ClusterClient(log, index, Waiting(countdown(wait)), reached)

        await wiring.partitions(settings.kafka)  # raises if the topics are not valid
        await index()
        reader = reader_of(log, target) if reads_past else None
        level, remembering = client().index if is_ours else index, RememberingEmbedder(embedder)
        yield Lifecycle(
            Loading(level, remembering, judging, policy, settings.load),
            Cluster(client, ClusterClient(log, index, NO_WAITING), log, reader),
            wiring.token_counter(settings.embedder, note),
            SystemClock(),
            reader,
            (lambda: PlanningDependencies(key_of(target), policy, embedder, judging))
            if is_ours
            else None,
            place,
            note,
        )
