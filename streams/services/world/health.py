"""What a process serves over HTTP: health and metrics (/live, /ready, /metrics), or an app."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import uvicorn
from faststream.asgi import AsgiFastStream, AsgiResponse, get
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from streams.model.ports import Unusable

_STOP_SECONDS = 5


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

    @get(include_in_schema=False)
    async def live(_scope: Any) -> AsgiResponse:  # noqa: ANN401 - FastStream's own type is private
        return _answer(200 if is_live() else 503, {"live": is_live()})

    @get(include_in_schema=False)
    async def ready(_scope: Any) -> AsgiResponse:  # noqa: ANN401
        missing = await waits_for()
        return _answer(503 if missing else 200, {"ready": not missing, "waits_for": dict(missing)})

    @get(include_in_schema=False)
    async def metrics(_scope: Any) -> AsgiResponse:  # noqa: ANN401
        collect()
        return AsgiResponse(
            generate_latest(registry), 200, headers={"content-type": CONTENT_TYPE_LATEST}
        )

    app = AsgiFastStream(
        asgi_routes=[("/live", live), ("/ready", ready), ("/metrics", metrics)], logger=None
    )
    async with serving(
        app, host, port, what="health and metrics", named="service.host and service.port"
    ) as bound:
        yield bound


@asynccontextmanager
async def serving(
    app: Callable[..., Awaitable[None]], host: str, port: int, *, what: str, named: str
) -> AsyncGenerator[int]:
    """Serve an ASGI app meanwhile; give the port.

    Raises Unusable where the port is taken, saying `what` is served and how host and port are
    `named`.
    """
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=_STOP_SECONDS,
    )
    server = _Server(config)
    with _bound(host, port, what, named) as listener:
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            await task


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave the signals to the service: it stops its work before this server."""
        yield


def _bound(host: str, port: int, what: str, named: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen()  # whoever comes before the server is up waits for it
    except (OSError, OverflowError) as error:
        listener.close()
        raise Unusable(
            f"{host}:{port} cannot be used for {what}: {error}; name another with {named}"
        ) from error
    return listener


def _answer(status: int, body: Mapping[str, Any]) -> AsgiResponse:
    return AsgiResponse(
        json.dumps(body).encode(), status, headers={"content-type": "application/json"}
    )
