"""The views to log in and out."""

import secrets
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse, Response

from streams.api.app.access import Access
from streams.web.app.forms import OwnForm, fields_of, require_own
from streams.web.app.pages import page
from streams.web.app.sessions import COOKIE, WebSessions, place_here

_BEFORE = "memsieve-login"
"""The cookie of who is not logged in yet: the form has to say the same."""


def add_routes(app: FastAPI, access: Access, sessions: WebSessions) -> None:
    @app.get("/login")
    async def ask(request: Request, next: str = "/") -> Response:  # noqa: A002 - as it is in the address
        return _asked(request, place_here(next))

    @app.post("/login")
    async def log_in(request: Request) -> Response:
        fields = await fields_of(request)
        before = request.cookies.get(_BEFORE, "")
        require_own(fields.get("csrf", ""), before or secrets.token_urlsafe())
        target = place_here(fields.get("next", "/"))
        grant = access.grant(fields.get("token", "").strip())
        if grant is None:
            return _asked(request, target, HTTPStatus.UNAUTHORIZED)
        answer = RedirectResponse(target, HTTPStatus.SEE_OTHER)
        _set(request, answer, COOKIE, sessions.begin(grant))
        answer.delete_cookie(_BEFORE)
        return answer

    @app.post("/logout")
    async def log_out(request: Request, _: OwnForm) -> Response:
        sessions.end(request.cookies.get(COOKIE, ""))
        answer = RedirectResponse("/login", HTTPStatus.SEE_OTHER)
        answer.delete_cookie(COOKIE)
        return answer


def _asked(request: Request, target: str, status: HTTPStatus = HTTPStatus.OK) -> Response:
    """Return the form to log in; with a status of failure it says that the token is not known."""
    csrf = secrets.token_urlsafe(32)
    failed = status is not HTTPStatus.OK
    answer = page(request, "login.html", "Log in", csrf=csrf, next=target, failed=failed)
    answer.status_code = status
    _set(request, answer, _BEFORE, csrf)
    return answer


def _set(request: Request, answer: Response, name: str, value: str) -> None:
    """Set a cookie that no script reads and no other site sends."""
    secure = request.url.scheme == "https"
    answer.set_cookie(name, value, httponly=True, samesite="strict", secure=secure)
