"""An app over HTTP as a process: over a store that it writes itself, or beside the services on Kafka."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Literal, TypeAlias

from starlette.types import ASGIApp

from streams.api.app import access
from streams.clock.system import SystemClock
from streams.forget.app.forgetting import Means
from streams.memory.app.embedded_store import holding
from streams.memory.app.lifecycle import Lifecycle, Past
from streams.memory.app.queueing import Cluster, Queue
from streams.recall.app.loading import loading
from streams.services.world.health import endpoints
from streams.services.world.serving import serving
from streams.services.world.signals import signals_to
from streams.store.app import embedding, wiring
from streams.store.app.cluster_client import NO_WAITING, ClusterClient, Waiting
from streams.store.app.reading import LogTarget, opened, reader_of
from streams.store.app.settings import Settings
from streams.store.world.metrics import ApiMetrics
from streams.store.world.store_directory import StoreDirectory

Build: TypeAlias = Callable[[Lifecycle, access.Access, ApiMetrics], Awaitable[ASGIApp]]
"""Makes an app that asks whoever comes for a token, and counts what it answers."""


@dataclass(frozen=True)
class Served:
    """An app to be served: `name` for people, `setting` is the group that has its host and port.

    `reads_past`: beside a cluster it reads its log as well, which takes as long as that is.
    """

    name: str
    setting: Literal["api", "web"]
    build: Build
    reads_past: bool = False


async def serve(target: LogTarget, app: Served, report: Callable[[str], None]) -> None:
    """Serve an app, and health and metrics on the port of `service`, until SIGTERM or SIGINT.

    This process alone writes an embedded store, and events are decided on before they are
    acknowledged. To a cluster they are published. Raises errors that a retry cannot fix.
    """
    settings = target.settings
    allowed = access.load(settings.api.tokens)
    stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    health = _Health()
    async with AsyncExitStack() as stack:
        stack.enter_context(signals_to(stop))
        watched = await stack.enter_async_context(health.served(settings))
        report(f"health and metrics on port {watched}")
        life = await stack.enter_async_context(
            of_own_store(settings, report)
            if target.embedded
            else _of_cluster(target, report, reads_past=app.reads_past)
        )
        await life.loading.index()  # the first request must not wait for it
        built = await app.build(life, allowed, health.metrics)
        at = getattr(settings, app.setting)
        served = serving(
            built,
            at.host,
            at.port,
            what=f"the {app.name}",
            named=f"{app.setting}.host and {app.setting}.port",
        )
        report(f"{app.name} on port {await stack.enter_async_context(served)}")
        health.life = life
        await stop
        report("stopping")


class _Health:
    """The health of the process: ready while the memories can be read."""

    def __init__(self) -> None:
        self.metrics = ApiMetrics()
        self.life: Lifecycle | None = None

    def served(self, settings: Settings) -> AbstractAsyncContextManager[int]:
        return endpoints(
            settings.service.host,
            settings.service.port,
            is_live=lambda: True,
            waits_for=self._waits_for,
            registry=self.metrics.registry,
            collect=lambda: None,
        )

    async def _waits_for(self) -> Mapping[str, str]:
        if self.life is None:
            return {"service": "its start"}
        try:
            await self.life.loading.index()
        except Exception as error:  # noqa: BLE001 - any error means that no request can be answered
            return {"memories": str(error)}
        return {}


@asynccontextmanager
async def of_own_store(
    settings: Settings, report: Callable[[str], None]
) -> AsyncGenerator[Lifecycle]:
    """Yield the operations on memories over an embedded store, held for writing."""
    chosen = embedding.for_store(settings, report)
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(
            holding(chosen.settings, chosen, report, forgets=True)
        )
        found = await stack.enter_async_context(
            loading(LogTarget(settings, embedded=True), embedder=chosen.embedder)
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
