"""Checks in front of an app: token, request rate, concurrency and body size."""

import asyncio
import logging
import time
from http import HTTPStatus
from typing import Protocol

from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streams.api.app.access import UNKNOWN_CALLER, Access, Grant
from streams.api.app.problems import Log, Refused
from streams.judges.budget import RequestBudget
from streams.model.ports.clock import Clock
from streams.store.app.product_settings import ApiSettings
from streams.store.world.metrics import ApiMetrics

OPEN = frozenset({"/", "/docs", "/openapi.json"})
"""What everybody may see: it is the same for all."""

_BODY_SECONDS = 10.0
"""How long a body may take to come: who sends it slower holds up others."""


class Authenticator(Protocol):
    """How an app is entered."""

    def enter(self, scope: Scope) -> Grant | None:
        """Return what a request may do; None where everybody may. Raises Refused."""
        ...

    def refuse(self, scope: Scope, refused: Refused) -> ASGIApp:
        """Return what answers a request that is not let in."""
        ...


class BearerAuthenticator:
    """Implements Authenticator by a token in each request."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def enter(self, scope: Scope) -> Grant | None:
        if scope["path"] in OPEN:
            return None
        grant = self._access.bearer(Headers(scope=scope).get("authorization", ""))
        if grant is None:
            raise Refused(HTTPStatus.UNAUTHORIZED, UNKNOWN_CALLER, field="authorization")
        return grant

    def refuse(self, scope: Scope, refused: Refused) -> ASGIApp:
        del scope
        return refused.response()


class AccessMiddleware:
    """An app that lets through to another what it may do.

    So many requests are worked on at once, and so many more wait for their turn.
    """

    def __init__(
        self,
        app: FastAPI,
        door: Authenticator,
        access: Access,
        clock: Clock,
        settings: ApiSettings,
        metrics: ApiMetrics,
        log: Log,
    ) -> None:
        self._app = app
        self._routes = [route for route in app.routes if isinstance(route, Route)]
        self._door = door
        each = settings.requests_per_minute
        self._budget = RequestBudget(each * access.holders, each, clock)
        self._settings = settings
        self._metrics = metrics
        self._log = log
        self._turn = asyncio.Semaphore(settings.concurrency_max)
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        started, status = time.perf_counter(), HTTPStatus.INTERNAL_SERVER_ERROR

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = HTTPStatus(message["status"])
            await send(message)

        self._under_way += 1
        try:
            await self._answer(scope, receive, noting)
        except Refused as refused:
            await self._door.refuse(scope, refused)(scope, receive, noting)
        except Exception as error:  # noqa: BLE001 - it was answered; only its kind may be told
            self._log(logging.ERROR, "an internal error in memsieve", error=type(error).__name__)
        finally:
            self._under_way -= 1
            self._note(scope, status, time.perf_counter() - started)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._under_way > self._settings.concurrency_max + self._settings.waiting_max:
            said = "too many requests wait (api.waiting_max); send it again after Retry-After"
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, said, retry=1)
        grant = self._door.enter(scope)
        if grant is not None:
            self._count(grant)
            scope.setdefault("state", {})["grant"] = grant
        body = await _body(Request(scope, receive), self._settings.body_bytes_max)
        async with self._turn:
            await self._app(scope, _replayed(body, receive), send)

    def _count(self, grant: Grant) -> None:
        """Raise Refused for a token that asks too often."""
        if not self._budget.take(grant.name):
            most = self._settings.requests_per_minute
            said = (
                f"more than {most} requests in a minute (api.requests_per_minute); send it again "
                "after Retry-After"
            )
            raise Refused(HTTPStatus.TOO_MANY_REQUESTS, said, retry=1)

    def _note(self, scope: Scope, status: HTTPStatus, seconds: float) -> None:
        route = self._route(scope)
        grant: Grant | None = scope.get("state", {}).get("grant")
        self._metrics.answered(route, status, seconds)
        self._log(
            logging.INFO,
            "answered",
            route=route,
            status=int(status),
            token=None if grant is None else grant.name,
            duration_ms=round(seconds * 1_000, 1),
        )

    def _route(self, scope: Scope) -> str:
        """Return the path as it is described: an id in it is told nobody."""
        fitting = (one.path for one in self._routes if one.matches(scope)[0] is not Match.NONE)
        return next(fitting, "other")


async def _body(request: Request, bytes_max: int) -> bytes:
    """Return a whole body. Raises Refused where it is too long, or takes too long to come."""
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > bytes_max:
                    raise Refused(
                        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                        f"body is longer than {bytes_max:,} bytes (api.body_bytes_max); send less at once",
                        field="body",
                    )
    except ClientDisconnect as gone:
        said = "body is incomplete; send it again"
        raise Refused(HTTPStatus.BAD_REQUEST, said, field="body") from gone
    except TimeoutError as late:
        raise Refused(
            HTTPStatus.REQUEST_TIMEOUT,
            f"body was not complete within {_BODY_SECONDS:.0f} s; send less at once",
            field="body",
        ) from late
    return bytes(body)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Hand out a body that was read, then whatever comes next."""
    left = [body]

    async def again() -> Message:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        return await receive()

    return again
