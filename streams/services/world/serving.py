"""Serves an ASGI app over HTTP, in a process that controls the order of its shutdown."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager

import uvicorn

from streams.model.ports.failures import Unusable

_STOP_SECONDS = 5


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
