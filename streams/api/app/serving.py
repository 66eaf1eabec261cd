"""Serves an app over HTTP, on a store that this process writes, or next to services on Kafka."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

from starlette.types import ASGIApp

from streams.api.app import access
from streams.memory.app.lifecycle import Lifecycle
from streams.memory.app.opening import open_lifecycle
from streams.services.world.health import endpoints, readiness_watched, without_answer
from streams.services.world.serving import serving
from streams.store.app.reading import LogTarget
from streams.store.app.settings import Settings
from streams.store.world.metrics import ApiMetrics
from streams.store.world.signals import stop_signal

Build: TypeAlias = Callable[[Lifecycle, access.Access, ApiMetrics], Awaitable[ASGIApp]]
"""Makes an app that asks whoever comes for a token, and counts what it answers."""


@dataclass(frozen=True)
class ServedApp:
    """An app to be served: `name` for people, `setting` is the group that has its host and port.

    `reads_past`: beside a cluster it reads its log as well, which takes as long as that is.
    """

    name: str
    setting: Literal["api", "web"]
    build: Build
    reads_past: bool = False


async def serve(
    target: LogTarget,
    app: ServedApp,
    *,
    report: Callable[[str], None],
    warn: Callable[[str], None],
) -> None:
    """Serve an app, and health and metrics on the port of `service`, until SIGTERM or SIGINT.

    This process alone writes an embedded store, and events are decided on before they are
    acknowledged. To a cluster they are published. Raises errors that a retry cannot fix.
    """
    settings = target.settings
    allowed = access.load(settings.api.tokens)
    health = _Health()
    health.metrics.identify(log=target.decisions_topic)
    async with AsyncExitStack() as stack:
        stop = stack.enter_context(stop_signal())
        watched = await stack.enter_async_context(health.served(settings))
        report(f"health and metrics on port {watched}")
        life = await stack.enter_async_context(
            open_lifecycle(target, report, reads_past=app.reads_past)
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
        async with readiness_watched(health.waits_for, report=report, warn=warn):
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
            waits_for=self.waits_for,
            metrics=self.metrics,
        )

    async def waits_for(self) -> Mapping[str, str]:
        """Return what keeps the process from answering, by part."""
        if self.life is None:
            return {"service": "its start"}
        return await without_answer({"memories": partial(_read, self.life)})


async def _read(life: Lifecycle) -> None:
    """Read what every request reads. Raises where none can be answered."""
    index = await life.loading.index()
    await index.level()
