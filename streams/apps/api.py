"""The HTTP API: agents in any language search memories, and publish events.

Every request names one scope, or events that each name theirs, and its token must be for all of
them. An error is one line of JSON (RFC 9457) that names the field; none repeats a memory's text.
"""

import asyncio
import html
import time
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from importlib import metadata
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from fastapi.security import HTTPBearer
from pydantic import Field
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from schemas.base import EventName, Record, ScopeName
from schemas.codec import EVENT
from schemas.events import Remember
from streams.adapters.telemetry import ApiMetrics
from streams.adapters.verifiers.budget import Budget
from streams.apps.access import Access, Grant, Right
from streams.apps.loading import Asked, Given, Grouping, Loading, SearchResult, Unknown
from streams.apps.problems import first_problem
from streams.apps.settings import ApiSettings
from streams.flow.dead_letters import oversized
from streams.flow.incoming import addressed
from streams.ports import Clock, Fatal, Outgoing, Transient

EVENTS_MAX = 256
"""Events of one request: a batch."""

_OPEN = frozenset({"/", "/openapi.json"})
"""What everybody may see: it is the same for all."""

_BODY_SECONDS = 10.0
"""How long a body may take to come: who sends it slower holds up others."""

Publish = Callable[[Sequence[Outgoing]], Awaitable[None]]
"""Makes events durable, so that they are decided on in their order."""

Log = Callable[..., object]
"""Takes a line and its fields, as structlog's loggers do."""


class Published(Record):
    """Events to be decided on."""

    events: Annotated[tuple[Remember, ...], Field(min_length=1, max_length=EVENTS_MAX)]


class Accepted(Record):
    """The events that are in the log, by their ids; what becomes of them is decided in its order."""

    event_ids: tuple[EventName, ...]


class Problem(Record):
    """An error, as RFC 9457 has it; `field` names what of the request is wrong."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    field: str | None = None


class Refused(Exception):
    """A request that is not answered as wished."""

    def __init__(
        self, status: HTTPStatus, detail: str, *, field: str | None = None, retry: int | None = None
    ) -> None:
        """`retry`: after how many seconds it may come again."""
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.field = field
        self.retry = retry

    def response(self) -> JSONResponse:
        problem = Problem(
            title=self.status.phrase, status=self.status, detail=self.detail, field=self.field
        )
        headers = {} if self.retry is None else {"retry-after": str(self.retry)}
        if self.status is HTTPStatus.UNAUTHORIZED:
            headers["www-authenticate"] = "Bearer"
        return JSONResponse(
            problem.model_dump(exclude_none=True),
            self.status,
            headers,
            media_type="application/problem+json",
        )


def build(
    loading: Loading,
    publish: Publish,
    partitions: int,
    access: Access,
    settings: ApiSettings,
    metrics: ApiMetrics,
    clock: Clock,
    log: Log,
) -> ASGIApp:
    """Return the API. `log` is told a line for each request, with nothing of what it says."""
    app = FastAPI(
        title="memsieve",
        version=metadata.version("memsieve"),
        description="Search the memories of a scope, and publish what was learnt.",
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(HTTPBearer(auto_error=False))],
        responses={code: {"model": Problem} for code in (401, 403, 413, 422, 429, 503)},
    )

    def permit(request: Request, right: Right, scope: ScopeName, field: str) -> None:
        grant: Grant = request.state.grant
        if not grant.covers(scope):
            metrics.foreign_scopes.labels(grant.name).inc()
        if not grant.allows(right, scope):
            raise Refused(
                HTTPStatus.FORBIDDEN, f"the token may not {right} this scope", field=field
            )

    @app.post("/v1/memories/search", summary="Search a scope")
    async def search(asked: Asked, request: Request) -> SearchResult:
        """Return what is nearest to the query; memories that are one fact come as one entry."""
        permit(request, "read", asked.scope, "scope")
        return await loading.search(asked)

    @app.post("/v1/memories:deduplicate", summary="Put together what is one fact")
    async def deduplicate(given: Given, request: Request) -> Grouping:
        """Group memories of the scope, or texts that are stored nowhere. Nothing is changed."""
        permit(request, "read", given.scope, "scope")
        try:
            return await loading.deduplicate(given)
        except Unknown as error:
            raise Refused(HTTPStatus.NOT_FOUND, str(error), field="ids") from error

    @app.post("/v1/events", summary="Publish events", status_code=HTTPStatus.ACCEPTED)
    async def events(published: Published, request: Request) -> Accepted:
        """Publish what was learnt. An event that comes again, with its id, is ignored."""
        for at, event in enumerate(published.events):
            permit(request, "write", event.scope, f"events[{at}].scope")
        await publish([_record(at, one, partitions) for at, one in enumerate(published.events)])
        return Accepted(event_ids=tuple(event.event_id for event in published.events))

    @app.get("/", include_in_schema=False)
    async def page() -> HTMLResponse:
        return HTMLResponse(_page(app.openapi()))

    _tell_problems(app, log)
    budget = Budget(
        settings.requests_per_minute * access.holders, settings.requests_per_minute, clock
    )
    return _Guard(app, access, budget, settings, metrics, log)


def _record(at: int, event: Remember, partitions: int) -> Outgoing:
    value = EVENT.encode(event)
    if too_long := oversized(value):
        raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, str(too_long), field=f"events[{at}]")
    return addressed(event.scope, value, partitions)


def _tell_problems(app: FastAPI, log: Log) -> None:
    """Answer every failure in one form."""

    @app.exception_handler(Refused)
    async def refused(_: Request, error: Refused) -> JSONResponse:
        return error.response()

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        field, said = _first_problem(error)
        return Refused(HTTPStatus.UNPROCESSABLE_ENTITY, said, field=field).response()

    @app.exception_handler(HTTPException)
    async def unknown(_: Request, error: HTTPException) -> JSONResponse:
        return Refused(HTTPStatus(error.status_code), error.detail).response()

    @app.exception_handler(Exception)
    async def ours(_: Request, __: Exception) -> JSONResponse:
        return Refused(HTTPStatus.INTERNAL_SERVER_ERROR, "an error in memsieve itself").response()

    @app.exception_handler(Transient)
    async def later(_: Request, error: Transient) -> JSONResponse:
        log("cannot answer now", reason=str(error))
        return Refused(HTTPStatus.SERVICE_UNAVAILABLE, "a server is away", retry=1).response()

    @app.exception_handler(Fatal)
    async def broken(_: Request, error: Fatal) -> JSONResponse:
        log("cannot answer until a person acts", reason=str(error))
        return Refused(HTTPStatus.SERVICE_UNAVAILABLE, "the service is out of order").response()


def _first_problem(error: RequestValidationError) -> tuple[str, str]:
    """Return the field and what is wrong with it; never its value."""
    first: dict[str, Any] = error.errors()[0]
    if first["type"] == "json_invalid":
        return "body", f"is no JSON: {first['ctx']['error']} at character {first['loc'][-1]}"
    field, said = first_problem([first], skip=1)
    return field or "body", said


class _Guard:
    """Stands before the API: who asks, how often, how much at once, and how long a body is."""

    def __init__(
        self,
        app: FastAPI,
        access: Access,
        budget: Budget,
        settings: ApiSettings,
        metrics: ApiMetrics,
        log: Log,
    ) -> None:
        self._app = app
        self._routes = {route.path for route in app.routes if isinstance(route, Route)}
        self._access = access
        self._budget = budget
        self._settings = settings
        self._metrics = metrics
        self._log = log
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
            await refused.response()(scope, receive, noting)
        except Exception as error:  # noqa: BLE001 - it was answered; only its kind may be told
            self._log("an error in memsieve itself", error=type(error).__name__)
        finally:
            self._under_way -= 1
            self._note(scope, status, time.perf_counter() - started)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._under_way > self._settings.concurrency_max:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests at once", retry=1)
        if scope["path"] not in _OPEN:
            scope.setdefault("state", {})["grant"] = self._granted(scope)
        body = await _body(receive, self._settings.body_bytes_max)
        await self._app(scope, _replayed(body, receive), send)

    def _granted(self, scope: Scope) -> Grant:
        """Return what the request's token allows. Raises Refused for none, or one too busy."""
        given = Headers(scope=scope).get("authorization", "")
        kind, _, token = given.partition(" ")
        grant = self._access.grant(token.strip()) if kind.casefold() == "bearer" else None
        if grant is None:
            raise Refused(
                HTTPStatus.UNAUTHORIZED,
                "send a token that is known here: Authorization: Bearer TOKEN",
                field="authorization",
            )
        if not self._budget.take(grant.name):
            most = self._settings.requests_per_minute
            raise Refused(
                HTTPStatus.TOO_MANY_REQUESTS, f"more than {most} requests in a minute", retry=1
            )
        return grant

    def _note(self, scope: Scope, status: HTTPStatus, seconds: float) -> None:
        route = scope["path"] if scope["path"] in self._routes else "other"
        grant: Grant | None = scope.get("state", {}).get("grant")
        self._metrics.answered(route, status, seconds)
        self._log(
            "answered",
            route=route,
            status=int(status),
            token=None if grant is None else grant.name,
            milliseconds=round(seconds * 1_000, 1),
        )


async def _body(receive: Receive, bytes_max: int) -> bytes:
    """Return a whole body. Raises Refused where it is too long, or takes too long to come."""
    parts: list[bytes] = []
    length, more = 0, True
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refused(HTTPStatus.BAD_REQUEST, "the body broke off", field="body")
                parts.append(message.get("body", b""))
                length += len(parts[-1])
                if length > bytes_max:
                    raise Refused(
                        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                        f"longer than {bytes_max:,} bytes (api.body_bytes_max)",
                        field="body",
                    )
                more = message.get("more_body", False)
    except TimeoutError as late:
        raise Refused(
            HTTPStatus.REQUEST_TIMEOUT, f"not whole within {_BODY_SECONDS:.0f} s", field="body"
        ) from late
    return b"".join(parts)


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Hand out a body that was read, then whatever comes next."""
    left = [body]

    async def again() -> Message:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        return await receive()

    return again


def _page(described: dict[str, Any]) -> str:
    """Return what the API can do as a page that needs nothing from elsewhere."""
    routes = "".join(
        f"<h2><code>{method.upper()} {html.escape(path)}</code></h2>"
        f"<p>{html.escape(operation.get('description', ''))}</p>"
        for path, operations in described["paths"].items()
        for method, operation in operations.items()
    )
    return (
        f"<!doctype html><title>memsieve</title><h1>memsieve {html.escape(described['info']['version'])}"
        f"</h1><p>{html.escape(described['info']['description'])} Fields and answers: "
        f'<a href="openapi.json">openapi.json</a>.</p>{routes}'
    )
