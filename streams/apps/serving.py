"""The HTTP API as a process: over a store that it writes itself, or beside the services on Kafka."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from streams.adapters.clock import SystemClock
from streams.adapters.health import endpoints, serving
from streams.adapters.telemetry import ApiMetrics
from streams.apps import access, embedding, wiring
from streams.apps.api import Log, Publish, build
from streams.apps.loading import Loading, loading
from streams.apps.processes import embedded
from streams.apps.services import signals_to
from streams.apps.settings import Settings
from streams.ports import Embedder, Outgoing


@dataclass(frozen=True)
class _Events:
    """Where events go, and the embedder that decides on them, where this process does."""

    publish: Publish
    partitions: int
    embedder: Embedder | None = None


async def serve(
    settings: Settings, *, own_store: bool, report: Callable[[str], None], log: Log
) -> None:
    """Serve the API, and health and metrics on the port of `service`, until SIGTERM or SIGINT.

    With `own_store` this is the one process that writes the embedded store: events are decided on
    before they are acknowledged. Otherwise they are published to Kafka. Raises what cannot be
    mended.
    """
    allowed = access.load(settings.api.tokens)
    stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    health = _Health()
    async with AsyncExitStack() as stack:
        stack.enter_context(signals_to(stop))
        watched = await stack.enter_async_context(health.served(settings))
        report(f"health and metrics on port {watched}")
        events = _of_own_store(settings, report) if own_store else _to_kafka(settings)
        to = await stack.enter_async_context(events)
        opened = await stack.enter_async_context(
            loading(settings, embedded=own_store, report=report, embedder=to.embedder)
        )
        await opened.level()  # the first request must not wait for it
        api = build(
            opened,
            to.publish,
            to.partitions,
            allowed,
            settings.api,
            health.metrics,
            SystemClock(),
            log,
        )
        host, port = settings.api.host, settings.api.port
        served = serving(api, host, port, what="the API", setting="api")
        report(f"API on port {await stack.enter_async_context(served)}")
        health.opened = opened
        await stop
        report("stopping")


class _Health:
    """What the process tells of itself: ready while the memories can be read."""

    def __init__(self) -> None:
        self.metrics = ApiMetrics()
        self.opened: Loading | None = None

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
        if self.opened is None:
            return {"service": "its start"}
        try:
            await self.opened.level()
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing can be answered
            return {"memories": str(error)}
        return {}


@asynccontextmanager
async def _of_own_store(
    settings: Settings, report: Callable[[str], None]
) -> AsyncGenerator[_Events]:
    """Hold the embedded store for writing; one request's events are decided on after the other's."""
    chosen = embedding.for_store(settings, report)
    one_by_one = asyncio.Lock()
    async with embedded(chosen.settings, chosen.policy, chosen.embedder, report) as pipeline:
        await pipeline.recover()

        async def publish(records: Sequence[Outgoing]) -> None:
            async with one_by_one:
                await pipeline.take(records)

        yield _Events(publish, await pipeline.partitions(), chosen.embedder)


@asynccontextmanager
async def _to_kafka(settings: Settings) -> AsyncGenerator[_Events]:
    partitions = await wiring.partitions(settings.kafka)
    cluster = wiring.kafka_log(settings)

    async def publish(records: Sequence[Outgoing]) -> None:
        await cluster.append(records)

    try:
        yield _Events(publish, partitions)
    finally:
        await cluster.close()
