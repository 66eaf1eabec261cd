"""The error answers of the API: one form, with one line that says what to do."""

import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, TypeAlias

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException

from schemas.codec import complaint, plain
from streams.api.app.access import Grant, Right
from streams.api.app.records import Problem
from streams.memory.app.lifecycle import refusal
from streams.memory.app.problems import dotted
from streams.model.ports.failures import Fatal, Poison, Transient
from streams.store.app.failures import DeclinedRequest, DeclineReason

Log = Callable[..., object]
"""Takes a level, a line and its fields, like `log` of structlog's loggers."""

Described: TypeAlias = dict[int | str, dict[str, Any]]
"""The possible answers of a route by status, in FastAPI's form."""

_STATUS = {
    DeclineReason.UNKNOWN: HTTPStatus.NOT_FOUND,
    DeclineReason.FORGOTTEN: HTTPStatus.GONE,
    DeclineReason.CONFLICT: HTTPStatus.CONFLICT,
    DeclineReason.UNFIT: HTTPStatus.UNPROCESSABLE_ENTITY,
    DeclineReason.NOT_HERE: HTTPStatus.NOT_IMPLEMENTED,
}

_REMEDY = {
    HTTPStatus.NOT_FOUND: "is not a path of the API; the page / lists all",
    HTTPStatus.METHOD_NOT_ALLOWED: "is not a method of this path; the page / lists all",
}


class Refused(Exception):
    """A request that is refused with an error answer."""

    def __init__(
        self, status: HTTPStatus, detail: str, *, field: str | None = None, retry: int | None = None
    ) -> None:
        """`retry`: the seconds after which the request may be sent again."""
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.field = field
        self.retry = retry

    @property
    def problem(self) -> Problem:
        return Problem(
            title=self.status.phrase, status=self.status, detail=self.detail, field=self.field
        )

    def response(self) -> JSONResponse:
        headers = {} if self.retry is None else {"retry-after": str(self.retry)}
        if self.status is HTTPStatus.UNAUTHORIZED:
            headers["www-authenticate"] = "Bearer"
        return JSONResponse(
            self.problem.model_dump(exclude_none=True),
            self.status,
            headers,
            media_type="application/problem+json",
        )

    @classmethod
    def forbidden(cls, grant: Grant, right: Right, field: str) -> "Refused":
        """Return a refusal that names the token's rights, which its holder knows anyway."""
        may = f"it may {' and '.join(sorted(grant.rights))} {', '.join(grant.scopes)}"
        said = f"{field}: the token may not {right} this scope; {may}"
        return cls(HTTPStatus.FORBIDDEN, said, field=field)

    @classmethod
    def declined(cls, error: DeclinedRequest) -> "Refused":
        return cls(_STATUS[error.why], f"{error}", field=error.field)

    @classmethod
    def invalid(
        cls, error: RequestValidationError | ValidationError, within: str = ""
    ) -> "Refused":
        """Return a refusal for the first error: where, what and the remedy, never the value.

        `within` is the place in the body of the validated part.
        """
        first: ErrorDetails = error.errors()[0]
        if isinstance(first["input"], bytes):
            said = "body was not read as JSON; send the header Content-Type: application/json"
            return cls(HTTPStatus.UNPROCESSABLE_ENTITY, said, field="body")
        if first["type"] == "json_invalid":
            said = f"is not JSON: {first.get('ctx', {})['error']} at character {first['loc'][-1]}"
            return cls(HTTPStatus.UNPROCESSABLE_ENTITY, f"body {said}", field="body")
        loc = (within, *first["loc"]) if within else first["loc"][1:]
        place, said = dotted(loc), _said(first)
        if first["type"] != "value_error":
            said = f"{place or 'body'} {said}"
        elif place:  # of several fields, which it names
            said = f"{place}: {said}"
        return cls(HTTPStatus.UNPROCESSABLE_ENTITY, said, field=place or "body")

    @classmethod
    def poison(cls, poison: Poison, within: str = "") -> "Refused":
        """Return a refusal that says why an event can never be decided on.

        `within` is its place in the body.
        """
        whole = None if poison.field else "body"
        return cls.declined(refusal(poison, within or whole))


Answer: TypeAlias = Callable[[Request, Refused], Response]
"""Makes of a request and why it is refused what is answered."""


def tell_problems(
    app: FastAPI, log: Log, answer: Answer = lambda _, refused: refused.response()
) -> None:
    """Answer every failure in one form, by default as a program reads it."""

    @app.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> Response:
        return answer(request, error)

    @app.exception_handler(DeclinedRequest)
    async def declined(request: Request, error: DeclinedRequest) -> Response:
        return answer(request, Refused.declined(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return answer(request, Refused.invalid(error))

    @app.exception_handler(HTTPException)
    async def unknown(request: Request, error: HTTPException) -> Response:
        status = HTTPStatus(error.status_code)
        if status is HTTPStatus.BAD_REQUEST:  # from FastAPI: Python's JSON reader gave up
            said = "body cannot be read: nest it less deeply, and write shorter numbers"
            return answer(request, Refused(HTTPStatus.UNPROCESSABLE_ENTITY, said, field="body"))
        what = request.method if status is HTTPStatus.METHOD_NOT_ALLOWED else "this"
        said = _REMEDY.get(status)
        return answer(request, Refused(status, f"{what} {said}" if said else error.detail))

    @app.exception_handler(Exception)
    async def ours(request: Request, _: Exception) -> Response:
        said = "an internal error in memsieve; please report it"
        return answer(request, Refused(HTTPStatus.INTERNAL_SERVER_ERROR, said))

    @app.exception_handler(Transient)
    async def later(request: Request, error: Transient) -> Response:
        log(logging.WARNING, "cannot answer now", reason=str(error))
        said = "a server is down; send it again"
        return answer(request, Refused(HTTPStatus.SERVICE_UNAVAILABLE, said, retry=1))

    @app.exception_handler(Fatal)
    async def broken(request: Request, error: Fatal) -> Response:
        log(logging.ERROR, "cannot answer until a person acts", reason=str(error))
        said = "the service cannot work; its log says why"
        return answer(request, Refused(HTTPStatus.SERVICE_UNAVAILABLE, said))


_SAID = {
    "extra_forbidden": "is not a known field; leave it out, /openapi.json has all fields",
    "timezone_aware": "has no time zone; write 2026-03-14T09:30:00Z",
}


def _said(problem: ErrorDetails) -> str:
    if said := _SAID.get(problem["type"]):
        return said
    return plain(problem) if problem["type"] == "value_error" else complaint(problem)


def responses(*codes: int) -> Described:
    """Describe the error answers of a route."""
    return {code: {"model": Problem} for code in codes}
