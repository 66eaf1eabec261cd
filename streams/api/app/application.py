"""The HTTP API, through which agents in any language keep, search and correct memories.

Every request names one scope, or something in one, and its token must be valid for that scope. An
error is one line of JSON (RFC 9457) that names the field and never repeats a memory's text.
"""

from importlib import metadata
from operator import attrgetter

from fastapi import Depends, FastAPI
from fastapi.responses import HTMLResponse
from fastapi.security import HTTPBearer
from starlette.types import ASGIApp

from streams.api.app import decisions, memories
from streams.api.app.access import Access
from streams.api.app.desk import Desk
from streams.api.app.guard import AccessMiddleware, BearerAuthenticator
from streams.api.app.page import page
from streams.api.app.problems import Log, responses, tell_problems
from streams.api.app.serving import ServedApp
from streams.clock.system import SystemClock
from streams.memory.app.lifecycle import Lifecycle
from streams.model.ports.clock import Clock
from streams.store.app.product_settings import ApiSettings
from streams.store.app.settings import Settings
from streams.store.world.metrics import ApiMetrics


def described(life: Lifecycle, metrics: ApiMetrics, log: Log) -> FastAPI:
    """Return the FastAPI app, without access control."""
    app = FastAPI(
        title="memsieve",
        version=metadata.version("memsieve"),
        description="Keep, search and correct the memories of a scope.",
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(HTTPBearer(auto_error=False))],
        responses=responses(401, 403, 413, 422, 429, 503),
        generate_unique_id_function=attrgetter("name"),  # clients are generated with it as method
    )
    desk = Desk(life, metrics)
    memories.add_routes(app, desk)
    decisions.add_routes(app, desk)

    @app.get("/", include_in_schema=False)
    @app.get("/docs", include_in_schema=False)
    async def overview() -> HTMLResponse:
        return HTMLResponse(page(app.openapi()))

    tell_problems(app, log)
    return app


def build(
    life: Lifecycle,
    access: Access,
    settings: ApiSettings,
    metrics: ApiMetrics,
    clock: Clock,
    log: Log,
) -> ASGIApp:
    """Return the API with access control. `log` receives a line per request, without its content."""
    app, door = described(life, metrics, log), BearerAuthenticator(access)
    return AccessMiddleware(app, door, access, clock, settings, metrics, log)


def served(settings: Settings, log: Log) -> ServedApp:
    """Return the API as what can be served."""

    async def made(life: Lifecycle, access: Access, metrics: ApiMetrics) -> ASGIApp:
        return build(life, access, settings.api, metrics, SystemClock(), log)

    return ServedApp("API", "api", made)
