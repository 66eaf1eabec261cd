"""The assembled page: its login, its security headers, its views."""

from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus

from fastapi import FastAPI, HTTPException
from fastapi.responses import RedirectResponse, Response
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streams.api.app.access import Access
from streams.api.app.desk import Desk
from streams.api.app.guard import AccessMiddleware
from streams.api.app.problems import Log, tell_problems
from streams.api.app.serving import ServedApp
from streams.clock.system import SystemClock
from streams.maintain.app.diagnosis import Diagnosis, examine
from streams.memory.app.lifecycle import Lifecycle
from streams.model.policy import Policy
from streams.model.ports.clock import Clock
from streams.store.app import policies
from streams.store.app.reading import LogTarget
from streams.store.app.settings import Settings
from streams.store.world.metrics import ApiMetrics
from streams.web.app import exploring, logins, quality, reviewing
from streams.web.app.chronicle import Chronicle
from streams.web.app.doubts import Doubts
from streams.web.app.pages import STATIC, refusal
from streams.web.app.sessions import SessionAuthenticator, WebSessions

HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
"""What every answer tells browsers: nothing from elsewhere, nothing inline, nothing kept."""

Examine = Callable[[], Awaitable[list[Diagnosis]]]


def views(
    desk: Desk,
    chronicle: Chronicle,
    access: Access,
    sessions: WebSessions,
    policy: Policy,
    examined: Examine,
    log: Log,
) -> FastAPI:
    """Return the page as FastAPI has it, before anybody is kept out of it."""
    app = FastAPI(title="memsieve", openapi_url=None)
    doubts = Doubts(desk.life, chronicle)
    logins.add_routes(app, access, sessions)
    reviewing.add_routes(app, desk, doubts)
    exploring.add_routes(app, desk, chronicle, doubts)
    quality.add_routes(app, desk, chronicle, policy, examined)

    @app.get("/")
    async def start() -> Response:
        return RedirectResponse("/review", HTTPStatus.SEE_OTHER)

    @app.get("/static/{name}")
    async def static(name: str) -> Response:
        if name not in STATIC:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        media_type, content = STATIC[name]
        return Response(content, media_type=media_type)

    tell_problems(app, log, lambda request, refused: refusal(request.scope, refused))
    return app


async def build(
    life: Lifecycle,
    access: Access,
    settings: Settings,
    policy: Policy,
    examined: Examine,
    metrics: ApiMetrics,
    clock: Clock,
    log: Log,
) -> ASGIApp:
    """Return the page. `examined` tells how the process's parts are."""
    chronicle = await Chronicle(life.past("show what was decided")).level()
    sessions = WebSessions(clock, settings.web.session_minutes)
    door = SessionAuthenticator(sessions, refusal)
    app = views(Desk(life, metrics), chronicle, access, sessions, policy, examined, log)
    return _sealed(AccessMiddleware(app, door, access, clock, settings.api, metrics, log))


def served(target: LogTarget, log: Log) -> ServedApp:
    """Return the page as what can be served."""

    async def made(life: Lifecycle, access: Access, metrics: ApiMetrics) -> ASGIApp:
        settings = target.settings
        policy, examined = policies.load(settings.policy), partial(examine, target)
        return await build(life, access, settings, policy, examined, metrics, SystemClock(), log)

    return ServedApp("page", "web", made, reads_past=True)


def _sealed(app: ASGIApp) -> ASGIApp:
    """Return an app whose every answer carries HEADERS."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await app(scope, receive, sealed)

    return answer
