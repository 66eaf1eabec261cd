"""The health and metrics of a process over HTTP: /live, /ready, /metrics."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from streams.services.world.serving import serving


@asynccontextmanager
async def endpoints(
    host: str,
    port: int,
    *,
    waits_for: Callable[[], Awaitable[Mapping[str, str]]],
    registry: CollectorRegistry,
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

    async def metrics(_request: Request) -> Response:
        collect()
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    app = Starlette(
        routes=[Route("/live", live), Route("/ready", ready), Route("/metrics", metrics)]
    )
    async with serving(
        app, host, port, what="health and metrics", named="service.host and service.port"
    ) as bound:
        yield bound


def _answer(status: int, body: Mapping[str, Any]) -> Response:
    return Response(json.dumps(body), status, media_type="application/json")
