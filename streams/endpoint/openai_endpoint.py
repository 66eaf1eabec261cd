"""Requests to an OpenAI-compatible endpoint, with size and time limits and retries.

Error reasons are short and stable, and never quote a memory, an answer or the key.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime
from functools import cache
from http import HTTPStatus
from typing import Any, ClassVar, TypeVar

import httpx

from streams.model.ports.clock import Clock
from streams.model.ports.failures import Unusable

Answer = TypeVar("Answer", str, bytes)

_AGAIN = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}


@dataclass(frozen=True)
class Server:
    """A server and a model, with timeouts and retries.

    `timeout_seconds` covers one request with all its attempts and the pauses between them, which
    double from `backoff_seconds`. `group` is the group of settings that names the server.
    """

    group: ClassVar[str]
    base_url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    timeout_seconds: float = 20.0
    attempts_max: int = 3
    concurrency_max: int = 4
    response_bytes_max: int = 1_048_576
    backoff_seconds: float = 0.25

    def url(self, path: str) -> httpx.URL:
        """Return the address of requests. Raises Unusable if it is not a valid URL."""
        try:
            url = httpx.URL(f"{self.base_url.rstrip('/')}/{path}")
            url.host.encode("idna")  # the system's resolver does the same; raises if invalid
        except (httpx.InvalidURL, UnicodeError) as error:
            raise Unusable(
                f"{self.group}.base_url {self.base_url} is not a valid address: {error}"
            ) from error
        return url

    def client(self) -> httpx.AsyncClient:
        """Return a client that follows no redirect, so that no other host gets the key.

        Raises Unusable for a key that no header can hold.
        """
        return httpx.AsyncClient(
            headers=self._headers(),
            timeout=None,  # noqa: S113 -- one limit for the whole request
            limits=httpx.Limits(max_connections=self.concurrency_max),
            trust_env=False,  # only store/app/settings.py reads the environment
            verify=_authorities(),
        )

    def _headers(self) -> dict[str, str]:
        """Return the headers of every request.

        An invalid key is refused here, because the client would quote it in its own error. Answers
        must come uncompressed: decompressed ones could be of any size.
        """
        if self.api_key is None:
            return {"accept-encoding": "identity"}
        if not (self.api_key.isascii() and self.api_key.isprintable() and self.api_key.strip()):
            raise Unusable(
                f"{self.group}.api_key is empty or has characters that no HTTP header can hold"
            )
        return {"accept-encoding": "identity", "authorization": f"Bearer {self.api_key}"}


@cache
def _authorities() -> ssl.SSLContext:
    """Return the trusted CAs, cached: loading them takes 20 ms per client."""
    return httpx.create_ssl_context(trust_env=False)


@dataclass(frozen=True)
class FailedRequest:
    """A failed request: the reason, and whether and when a retry may succeed.

    `status` is the server's HTTP status, None if it gave none.
    """

    reason: str
    again: bool = False
    pause_seconds: float | None = None
    status: int | None = None


async def post(
    client: httpx.AsyncClient, url: httpx.URL, body: dict[str, Any], bytes_max: int, clock: Clock
) -> bytes | FailedRequest:
    """Send a request once; return the untrusted body of its answer."""
    try:
        async with client.stream("POST", url, json=body) as response:
            if not response.is_success:
                return _refusal(response, clock.now())
            content = await _content(response, bytes_max)
    except httpx.HTTPError:
        return FailedRequest("unreachable", again=True)
    return FailedRequest("too long") if content is None else content


async def repeatedly(
    send: Callable[[], Awaitable[Answer | FailedRequest]],
    server: Server,
    limit: asyncio.Timeout,
    affords: Callable[[], bool] = lambda: True,
) -> Answer | FailedRequest:
    """Send until it succeeds, while retries may help, time is left and `affords` allows them."""
    answer = await send()
    for attempt in range(1, server.attempts_max):
        if not (isinstance(answer, FailedRequest) and answer.again):
            break
        if not (await _paused(answer, attempt, server, limit) and affords()):
            break
        answer = await send()
    return answer


async def _paused(
    failed: FailedRequest, attempt: int, server: Server, limit: asyncio.Timeout
) -> bool:
    """Wait for the next attempt; return False at once if it would be too late."""
    pause = server.backoff_seconds * 2 ** (attempt - 1)
    if failed.pause_seconds is not None:
        pause = max(pause, failed.pause_seconds)
    end = limit.when()
    if end is not None and asyncio.get_running_loop().time() + pause >= end:
        return False
    await asyncio.sleep(pause)
    return True


async def _content(response: httpx.Response, bytes_max: int) -> bytes | None:
    """Return the body; None if it exceeds the limit, without reading the rest."""
    content = bytearray()
    async for chunk in response.aiter_raw():
        content += chunk
        if len(content) > bytes_max:
            return None
    return bytes(content)


def _refusal(response: httpx.Response, now: datetime) -> FailedRequest:
    limited = response.status_code == HTTPStatus.TOO_MANY_REQUESTS
    return FailedRequest(
        "rate limited" if limited else f"http {response.status_code}",
        again=response.status_code in _AGAIN or response.is_server_error,
        pause_seconds=_pause(response.headers.get("retry-after", ""), now),
        status=response.status_code,
    )


def _pause(retry_after: str, now: datetime) -> float | None:
    """Read how long a server asks to wait: seconds, or a date."""
    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after)
    try:
        until = parsedate_to_datetime(retry_after)
        return max(0.0, (until - now).total_seconds())
    except (TypeError, ValueError):  # no date, or one without a zone
        return None
