"""Logins: sessions in memory, with a cookie for each."""

import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from http import HTTPStatus
from urllib.parse import quote, urlsplit

from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Scope

from streams.api.app.access import Grant
from streams.api.app.problems import Refused
from streams.model.ports.clock import Clock

COOKIE = "memsieve-session"
LOGIN, STATIC = "/login", "/static/"
"""What everybody may see."""

SESSIONS_MAX = 10_000
"""Logins that hold at once; beyond, the oldest ends."""

_AGAIN = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>memsieve</title>'
    '<meta http-equiv="refresh" content="0"><p>One moment.</p></html>'
)
"""Asks for the same address once more, from here: only then does the browser send the cookie."""


@dataclass(frozen=True)
class TrailStep:
    """A pair that somebody has answered, or skipped: then without a verdict."""

    review_id: str
    verdict: str | None


@dataclass
class WebSession:
    """A login: whose, until when, and what was done since. `csrf` is in each of its forms."""

    grant: Grant
    csrf: str
    until: datetime
    trail: list[TrailStep] = field(default_factory=list[TrailStep])
    notice: str = ""

    @property
    def seen(self) -> set[str]:
        """The pairs that need not come again."""
        return {step.review_id for step in self.trail}

    @property
    def answered(self) -> int:
        return sum(step.verdict is not None for step in self.trail)

    def noticed(self) -> str:
        """Return what is to be told, once."""
        told, self.notice = self.notice, ""
        return told


class WebSessions:
    """Knows the logins of this process. They end with it."""

    def __init__(self, clock: Clock, minutes: int) -> None:
        self._clock = clock
        self._lasts = timedelta(minutes=minutes)
        self._open: OrderedDict[str, WebSession] = OrderedDict()

    def begin(self, grant: Grant) -> str:
        """Return the key of a new session."""
        if len(self._open) >= SESSIONS_MAX:
            self._open.popitem(last=False)
        key = secrets.token_urlsafe(32)
        until = self._clock.now() + self._lasts
        self._open[key] = WebSession(grant, secrets.token_urlsafe(32), until)
        return key

    def find(self, key: str) -> WebSession | None:
        session = self._open.get(key)
        if session is None or session.until <= self._clock.now():
            self.end(key)
            return None
        return session

    def end(self, key: str) -> None:
        self._open.pop(key, None)


class SessionAuthenticator:
    """Implements Authenticator by a cookie: who has none is sent to log in."""

    def __init__(self, sessions: WebSessions, page: Callable[[Scope, Refused], Response]) -> None:
        """`page` makes a page of a refusal."""
        self._sessions = sessions
        self._page = page

    def enter(self, scope: Scope) -> Grant | None:
        if scope["path"] == LOGIN or scope["path"].startswith(STATIC):
            return None
        session = self._sessions.find(HTTPConnection(scope).cookies.get(COOKIE, ""))
        if session is None:
            raise Refused(HTTPStatus.UNAUTHORIZED, "log in first, with a valid token")
        scope.setdefault("state", {})["session"] = session
        return session.grant

    def refuse(self, scope: Scope, refused: Refused) -> ASGIApp:
        if refused.status is not HTTPStatus.UNAUTHORIZED or scope["method"] != "GET":
            return self._page(scope, refused)
        asked = HTTPConnection(scope)
        if asked.headers.get("sec-fetch-site") == "cross-site":  # SameSite=Strict keeps the cookie
            return HTMLResponse(_AGAIN)
        target = asked.url.path + (f"?{asked.url.query}" if asked.url.query else "")
        return RedirectResponse(f"/login?next={quote(target, safe='')}", HTTPStatus.SEE_OTHER)


def place_here(target: str) -> str:
    """Return an address within the page; its start for any other."""
    parts = urlsplit(target)
    begins = target.startswith("/") and not target.startswith(("//", "/\\"))
    plain = target.isprintable() and not parts.scheme and not parts.netloc
    return target if begins and plain else "/"
