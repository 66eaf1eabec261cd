"""The transport of the HTTP clients: sends and repeats requests, reads answers, raises errors."""

import asyncio
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Self, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError, to_json

from memsieve.errors import (
    Busy,
    ConflictError,
    InvalidRequest,
    MemsieveError,
    NotAllowed,
    NotFound,
    ServerError,
    valid,
)
from streams.api.app.records import Problem

TIMEOUT = 60.0
PATIENCE = 30.0

_PORT_MAX = 65_535

_Answer = TypeVar("_Answer", bound=BaseModel)
_Given = Mapping[str, object]


class _Server(BaseModel):
    """What names a server, of the types that httpx takes."""

    url: str
    token: str
    timeout: float


def segment(**named: str) -> str:
    """Return an id as a part of a path. Raises InvalidRequest or NotFound for what can be none."""
    [(name, value)] = named.items()
    if not value:
        raise InvalidRequest(f"{name}: is empty; give a value", name)
    if "/" in value:  # servers and proxies take it for a step of the path, however it is written
        raise NotFound(f"nothing has the id {value}")
    return quote(value, safe="")


class Caller:
    """Asks an API, for one event loop."""

    def __init__(
        self, url: str, *, token: str, timeout: float = TIMEOUT, patience: float = PATIENCE
    ) -> None:
        """Take the arguments of `HttpMemory`."""
        self._client = httpx.AsyncClient(**_options(url, token, timeout))
        self._patience = patience

    async def close(self) -> None:
        """Close the connections. May be called again."""
        await self._client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _post(self, answer: type[_Answer], path: str, body: _Given) -> _Answer:
        return await self._ask(answer, "POST", path, body=body)

    async def _ask(
        self,
        answer: type[_Answer],
        method: str,
        path: str,
        *,
        query: _Given | None = None,
        body: _Given | None = None,
    ) -> _Answer:
        left = self._patience
        while True:
            with _reached(self._client.base_url):
                response = await self._client.request(method, path, **_sent(query, body))
            pause = _pause(response)
            if pause is None or pause > left:
                return _read(answer, response, pause)
            await asyncio.sleep(pause)
            left -= pause


def _options(url: str, token: str, timeout: float) -> dict[str, Any]:
    valid(_Server, {"url": url, "token": token, "timeout": timeout})
    try:
        at = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise InvalidRequest(f"url: is not valid: {error}", "url") from None
    if at.scheme not in {"http", "https"} or not at.host:
        raise InvalidRequest("url: write http://HOST:PORT, or https://", "url")
    if at.port is not None and at.port > _PORT_MAX:
        raise InvalidRequest(f"url: is not valid: a port is at most {_PORT_MAX}", "url")
    if not (token.isascii() and token.isprintable() and token.strip()):
        raise InvalidRequest("token: is not valid; give one that the API accepts", "token")
    return {"base_url": at, "headers": {"authorization": f"Bearer {token}"}, "timeout": timeout}


def _sent(query: _Given | None, body: _Given | None) -> dict[str, Any]:
    """Return what httpx is to send, without what was not given. Raises InvalidRequest."""
    sent = dict[str, Any]()
    if query is not None:
        sent["params"] = {name: value for name, value in query.items() if value is not None}
    if body is not None:
        try:
            sent["content"] = to_json(body)
        except (PydanticSerializationError, UnicodeEncodeError) as error:
            raise InvalidRequest(f"cannot be sent as JSON: {error}") from None
        sent["headers"] = {"content-type": "application/json"}
    return sent


@contextmanager
def _reached(url: httpx.URL) -> Generator[None]:
    try:
        yield
    except httpx.TimeoutException as error:
        raise ServerError(f"{url} has not answered in time") from error
    except httpx.TransportError as error:
        raise ServerError(f"{url} does not answer: {error}") from error
    except RuntimeError as error:  # what httpx raises where its client is closed
        raise ServerError("the connection was closed: make another one") from error


def _pause(response: httpx.Response) -> float | None:
    """Return after how many seconds a request may come again; None where nothing asks for that."""
    if response.status_code not in {429, 503} or "retry-after" not in response.headers:
        return None
    after = response.headers["retry-after"]
    return float(after) if after.isdecimal() else 1.0  # a date: whoever sends it is no API of ours


def _read(answer: type[_Answer], response: httpx.Response, pause: float | None) -> _Answer:
    """Return what an answer says. Raises one of the family where it is an error."""
    if not response.is_success:
        raise _error(response, pause)
    try:
        return answer.model_validate_json(response.content, extra="ignore")
    except ValidationError as error:
        said = (
            "gave an answer that this version of memsieve does not know; install the API's version"
        )
        raise ServerError(f"{response.url.copy_with(query=None)} {said}") from error


def _error(response: httpx.Response, pause: float | None) -> MemsieveError:
    problem = _problem(response)
    return error_of(problem) if pause is None else Busy(problem.detail, pause)


def error_of(problem: Problem) -> MemsieveError:
    """Return the exception of an error that the API tells."""
    said, status = problem.detail, problem.status
    match status:
        case 401 | 403:
            return NotAllowed(said)
        case 404 | 410:
            return NotFound(said)
        case 409:
            return ConflictError(said, problem.field)
        case 501:
            return InvalidRequest(said, problem.field)
        case _ if 400 <= status < 500:  # noqa: PLR2004 - HTTP's
            return InvalidRequest(said, problem.field)
        case _:
            return ServerError(said)


def _problem(response: httpx.Response) -> Problem:
    """Return what an error says; something before the API may have answered instead."""
    try:
        return Problem.model_validate_json(response.content, extra="ignore")
    except ValidationError:
        status, phrase = response.status_code, response.reason_phrase
        said = f"{response.url.copy_with(query=None)} answered {status} {phrase}".rstrip()
        return Problem(title=phrase, status=status, detail=said)
