"""The health and metrics of a process over HTTP: /live, /ready, /metrics."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from streams.services.world.serving import serving
from streams.store.world.metrics import ProcessMetrics

WaitsFor: TypeAlias = Callable[[], Awaitable[Mapping[str, str]]]
"""Returns what keeps a process from being ready, by part."""

_WATCH_SECONDS = 10.0
_PROBE_SECONDS = 2.0


async def without_answer(
    servers: Mapping[str, Callable[[], Awaitable[object]]],
) -> Mapping[str, str]:
    """Ask each server once; return why those that do not answer in time give no answer."""
    silent: dict[str, str] = {}
    for name, ask in servers.items():
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                await ask()
        except TimeoutError:
            silent[name] = f"no answer in {_PROBE_SECONDS:.0f} s"
        except Exception as error:  # noqa: BLE001 - any error counts as no answer
            silent[name] = str(error)
    return silent


@asynccontextmanager
async def endpoints(
    host: str,
    port: int,
    *,
    waits_for: WaitsFor,
    metrics: ProcessMetrics,
    is_live: Callable[[], bool] = lambda: True,
    collect: Callable[[], None] = lambda: None,
) -> AsyncGenerator[int]:
    """Serve health and metrics meanwhile; give the port.

    /live answers 200 as long as the process can do its work at all, else 503: restart it.
    /ready answers 200 where `waits_for` is empty, else 503 with what is waited for, by part.
    `collect` is called before metrics are shown. Raises Unusable where the port is taken.
    """

    async def live(_request: Request) -> Response:
        return _answer(200 if is_live() else 503, {"live": is_live()})

    async def ready(_request: Request) -> Response:
        missing = dict(await waits_for())
        return _answer(503 if missing else 200, {"ready": not missing, "waits_for": missing})

    async def exposed(_request: Request) -> Response:
        collect()
        metrics.ready.set(not await waits_for())
        return Response(metrics.exposed(), media_type=CONTENT_TYPE_LATEST)

    app = Starlette(
        routes=[Route("/live", live), Route("/ready", ready), Route("/metrics", exposed)]
    )
    async with serving(
        app, host, port, what="health and metrics", named="service.host and service.port"
    ) as bound:
        yield bound


@asynccontextmanager
async def readiness_watched(
    waits_for: WaitsFor, *, report: Callable[[str], None], warn: Callable[[str], None]
) -> AsyncGenerator[None]:
    """Meanwhile tell once that the process is ready, and once that it is not any more."""
    watching = asyncio.create_task(_watch(waits_for, report, warn))
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.wait({watching})


async def _watch(
    waits_for: WaitsFor, report: Callable[[str], None], warn: Callable[[str], None]
) -> None:
    ready = False
    while True:
        missing = await waits_for()
        if ready and missing:
            warn(f"not ready: {_reasons(missing)}")
        if not (ready or missing):
            report("ready")
        ready = not missing
        await asyncio.sleep(_WATCH_SECONDS)


def _reasons(missing: Mapping[str, str]) -> str:
    """Return each reason once, after the parts that it holds up."""
    parts = {why: [part for part in missing if missing[part] == why] for why in missing.values()}
    return "; ".join(f"{', '.join(those)}: {why}" for why, those in parts.items())


def _answer(status: int, body: Mapping[str, Any]) -> Response:
    return Response(json.dumps(body), status, media_type="application/json")
