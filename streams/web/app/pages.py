"""Renders pages from templates, which escape all text of memories."""

from collections.abc import Mapping
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.types import Scope

from streams.api.app.problems import Refused
from streams.changes.core.history import said_by, standing
from streams.stage.core.explain import opinions, outcome, why

_HERE = Path(__file__).parent
_MEDIA_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
STATIC = {
    path.name: (media_type, path.read_bytes())
    for suffix, media_type in _MEDIA_TYPES.items()
    for path in (_HERE / "static").glob(f"*{suffix}")
}
"""What pages load besides themselves: the media type and the bytes."""

PLACES = {
    "/review": "Review",
    "/scopes": "Scopes",
    "/memories": "Memories",
    "/conflicts": "Conflicts",
    "/decisions": "Decisions",
    "/quality": "Quality",
    "/health": "Health",
}
"""The views, in the order of the navigation."""


def address(path: str, **query: object) -> str:
    """Return an address with what is asked for; what is empty is left out."""
    given = {name: value for name, value in query.items() if value not in {None, "", False}}
    return f"{path}?{urlencode(given)}" if given else path


def _moment(at: datetime | None) -> str:
    return "" if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"


_templates = Environment(
    loader=FileSystemLoader(_HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_templates.filters["moment"] = _moment
_HELPERS: Mapping[str, object] = {
    "address": address,
    "opinions": opinions,
    "outcome": outcome,
    "places": PLACES,
    "said_by": said_by,
    "standing": standing,
    "why": why,
}
"""What templates may call."""


def page(request: Request, template: str, title: str, **given: Any) -> HTMLResponse:  # noqa: ANN401 - what the template shows
    """Return a page for who is logged in."""
    return _made(template, request.scope, {"title": title, **given})


def refusal(scope: Scope, refused: Refused) -> HTMLResponse:
    """Return a page that says why something is not done, and what to do."""
    told = {"title": refused.status.phrase, "refused": refused}
    answer = _made("refusal.html", scope, told, refused.status)
    if refused.retry is not None:
        answer.headers["retry-after"] = str(refused.retry)
    return answer


def _made(
    template: str, scope: Scope, given: Mapping[str, object], status: HTTPStatus = HTTPStatus.OK
) -> HTMLResponse:
    session = scope.get("state", {}).get("session")
    shown = {**_HELPERS, "session": session, "path": scope["path"], **given}
    return HTMLResponse(_templates.get_template(template).render(shown), status)
