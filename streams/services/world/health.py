"""The health and metrics of a process over HTTP: /live, /ready, /metrics."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from streams.services.world.serving import serving


@asynccontextmanager
async def endpoints(
    host: str,
    port: int,
    *,
    is_live: Callable[[], bool],
    waits_for: Callable[[], Awaitable[Mapping[str, str]]],
    registry: CollectorRegistry,
    collect: Callable[[], None],
) -> AsyncGenerator[int]:
    """Serve health and metrics meanwhile; give the port.

    /live answers 200 as long as the process can do its work at all, else 503: restart it.
    /ready answers 200 where `waits_for` is empty, else 503 with what is waited for, by part.
    `collect` is called before metrics are shown. Raises Unusable where the port is taken.
    """

    async def live(_request: Request) -> Response:
        return JSONResponse({"live": is_live()}, 200 if is_live() else 503)

    async def ready(_request: Request) -> Response:
        missing = dict(await waits_for())
        return JSONResponse({"ready": not missing, "waits_for": missing}, 503 if missing else 200)

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
