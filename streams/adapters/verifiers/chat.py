"""Questions to an OpenAI-compatible endpoint: the text of its answer, or why there is none.

What is not surely a whole answer is none. Reasons are short and stable, and never quote a memory,
an answer or the key.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

import httpx
from pydantic import BaseModel, JsonValue, ValidationError

from schemas.base import ScopeName
from streams.adapters.verifiers.budget import Budget, tenant_of
from streams.ports import Clock, NoAnswer, Unusable

_SEED = 1
_FORMS = ("json_schema", "json_object", "text")
"""How an answer's form can be asked for, strictest first."""

_FORM_REFUSED = {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY}
_OUTAGE_FAILURES = 3
_OUTAGE_SECONDS = 10.0
"""So many questions in a row that met nobody are an outage; for so long nobody else is kept
waiting for the time-out, of which a batch would otherwise pay one per pair."""


@dataclass(frozen=True)
class Endpoint:
    """A server and a model, and what may be asked of them.

    `timeout_seconds` is for one question with all its attempts and the pauses between them, which
    double from `backoff_seconds`. `requests_per_minute` counts every attempt.
    """

    base_url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    timeout_seconds: float = 20.0
    attempts_max: int = 3
    concurrency_max: int = 4
    requests_per_minute: int = 120
    requests_per_minute_tenant: int = 60
    cache_entries: int = 10_000
    response_bytes_max: int = 1_048_576
    backoff_seconds: float = 0.25

    def url(self) -> httpx.URL:
        """Return where questions go. Raises Unusable where that is no address."""
        try:
            url = httpx.URL(f"{self.base_url.rstrip('/')}/chat/completions")
            url.host.encode("idna")  # as the system's resolver does, which raises otherwise
        except (httpx.InvalidURL, UnicodeError) as error:
            raise Unusable(f"llm.base_url {self.base_url} is no address: {error}") from error
        return url

    def headers(self) -> dict[str, str]:
        """Return what every request carries. Raises Unusable for a key that no header can hold.

        The client would name it in its own error. The answer is to come as it is: what unpacks
        could be of any size.
        """
        if self.api_key is None:
            return {"accept-encoding": "identity"}
        if not (self.api_key.isascii() and self.api_key.isprintable() and self.api_key.strip()):
            raise Unusable("llm.api_key is empty or has characters that no HTTP header can hold")
        return {"accept-encoding": "identity", "authorization": f"Bearer {self.api_key}"}


@dataclass(frozen=True)
class Question:
    """What a model is asked: instructions, data, and the JSON Schema of the answer.

    `temperature` 0 asks for the likeliest words; more leaves some to chance.
    """

    scope: ScopeName
    instructions: str
    data: str
    schema: Mapping[str, JsonValue]
    tokens_max: int
    temperature: float = 0.0


@dataclass(frozen=True)
class _Failed:
    """A request that brought nothing: why, and whether and when the same may succeed."""

    reason: str
    again: bool = False
    pause_seconds: float | None = None
    form_refused: bool = False


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Completion(BaseModel):
    choices: list[_Choice]


class Chat:
    """A client of one endpoint. Follows no redirect: the key is for nobody else."""

    def __init__(self, endpoint: Endpoint, clock: Clock) -> None:
        self.endpoint = endpoint
        self._clock = clock
        self._url = endpoint.url()
        self._client = httpx.AsyncClient(
            headers=endpoint.headers(),
            timeout=None,  # noqa: S113 -- one limit for the whole question, in `ask`
            limits=httpx.Limits(max_connections=endpoint.concurrency_max),
            trust_env=False,  # only apps/settings.py reads the environment
        )
        self._slots = asyncio.Semaphore(endpoint.concurrency_max)
        self._budget = Budget(
            endpoint.requests_per_minute, endpoint.requests_per_minute_tenant, clock
        )
        self._form = _FORMS[0]
        self._form_is_known = False
        self._outage = _Outage(clock)

    async def ask(self, question: Question) -> str | NoAnswer:
        """Return the answer's text; untrusted. Never waits for the budget, nor in an outage."""
        if self._outage.lasts:
            return NoAnswer("unreachable")
        if not self._affords(question):
            return NoAnswer("over budget")
        async with self._slots:
            if self._outage.lasts:  # it began while others were asked
                return NoAnswer("unreachable")
            answer = await self._in_time(question)
        self._outage.learn(answer)
        return answer

    async def close(self) -> None:
        await self._client.aclose()

    def _affords(self, question: Question) -> bool:
        """Take a request out of the budget: there must be one for each that is sent."""
        return self._budget.take(tenant_of(question.scope))

    async def _in_time(self, question: Question) -> str | NoAnswer:
        try:
            async with asyncio.timeout(self.endpoint.timeout_seconds) as limit:
                answer = await self._in_some_form(question, limit)
        except TimeoutError:
            return NoAnswer("timeout")
        return NoAnswer(answer.reason) if isinstance(answer, _Failed) else answer

    async def _in_some_form(self, question: Question, limit: asyncio.Timeout) -> str | _Failed:
        """Ask for the strictest form that the server knows; remember which that is.

        Only a form that was answered in is remembered: what is wrong with one question tells
        nothing about the next. Until one was, an internal error may mean the form, too: so
        llama-cpp-python's server refuses one that it does not know.
        """
        first, *laxer = _FORMS[_FORMS.index(self._form) :]
        answer = await self._repeatedly(question, first, limit)
        for form in laxer:
            if isinstance(answer, str) or not answer.form_refused:
                break
            if not self._affords(question):
                return _Failed("over budget")
            answer = await self._repeatedly(question, form, limit)
            if isinstance(answer, str):
                self._form = form
        self._form_is_known |= isinstance(answer, str)
        return answer

    async def _repeatedly(
        self, question: Question, form: str, limit: asyncio.Timeout
    ) -> str | _Failed:
        """Send the request until it succeeds, as long as that may still be, and in time."""
        body = self._body(question, form)
        answer = await self._sent(body)
        for attempt in range(1, self.endpoint.attempts_max):
            if isinstance(answer, str) or not answer.again:
                break
            if not (await self._paused(answer, attempt, limit) and self._affords(question)):
                break
            answer = await self._sent(body)
        return answer

    async def _paused(self, failed: _Failed, attempt: int, limit: asyncio.Timeout) -> bool:
        """Wait for the next attempt; not at all where it would come too late."""
        pause = self.endpoint.backoff_seconds * 2 ** (attempt - 1)
        if failed.pause_seconds is not None:
            pause = max(pause, failed.pause_seconds)
        end = limit.when()
        if end is not None and asyncio.get_running_loop().time() + pause >= end:
            return False
        await asyncio.sleep(pause)
        return True

    def _body(self, question: Question, form: str) -> dict[str, Any]:
        schema = {"name": "answer", "strict": True, "schema": question.schema}
        forms = {
            "json_schema": {"response_format": {"type": form, "json_schema": schema}},
            "json_object": {"response_format": {"type": form}},
            "text": {},
        }
        return {
            "model": self.endpoint.model,
            "messages": [
                {"role": "system", "content": question.instructions},
                {"role": "user", "content": question.data},
            ],
            "temperature": question.temperature,
            "seed": _SEED,
            "max_tokens": question.tokens_max,
            **forms[form],
        }

    async def _sent(self, body: dict[str, Any]) -> str | _Failed:
        try:
            async with self._client.stream("POST", self._url, json=body) as response:
                if not response.is_success:
                    return self._refusal(response)
                content = await self._content(response)
        except httpx.HTTPError:
            return _Failed("unreachable", again=True)
        return _Failed("too long") if content is None else _text(content)

    async def _content(self, response: httpx.Response) -> bytes | None:
        """Return the body; None where it is longer than allowed, without reading on."""
        content = bytearray()
        async for chunk in response.aiter_raw():
            content += chunk
            if len(content) > self.endpoint.response_bytes_max:
                return None
        return bytes(content)

    def _refusal(self, response: httpx.Response) -> _Failed:
        limited = response.status_code == HTTPStatus.TOO_MANY_REQUESTS
        internal = response.status_code == HTTPStatus.INTERNAL_SERVER_ERROR
        return _Failed(
            "rate limited" if limited else f"http {response.status_code}",
            again=limited or response.is_server_error,
            pause_seconds=_pause(response.headers.get("retry-after", ""), self._clock.now()),
            form_refused=response.status_code in _FORM_REFUSED
            or (internal and not self._form_is_known),
        )


class _Outage:
    """Whether there is any use in asking."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures = 0
        self._since = clock.now()

    @property
    def lasts(self) -> bool:
        passed = (self._clock.now() - self._since).total_seconds()
        return self._failures >= _OUTAGE_FAILURES and 0 <= passed < _OUTAGE_SECONDS

    def learn(self, answer: str | NoAnswer) -> None:
        if isinstance(answer, NoAnswer) and answer.reason in {"unreachable", "timeout"}:
            self._failures += 1
            self._since = self._clock.now()
        else:
            self._failures = 0


def _text(content: bytes) -> str | _Failed:
    """Return what the model said, where that is all of it."""
    try:
        completion = _Completion.model_validate_json(content)
    except ValidationError:
        return _Failed("not JSON")
    if not completion.choices:
        return _Failed("empty")
    if len(completion.choices) > 1:  # one was asked for: which is meant?
        return _Failed("contradicts itself")
    choice = completion.choices[0]
    if choice.finish_reason == "length":
        return _Failed("cut off")
    if choice.message.refusal or choice.finish_reason == "content_filter":
        return _Failed("refused")
    return choice.message.content or _Failed("empty")


def _pause(retry_after: str, now: datetime) -> float | None:
    """Read how long a server wants to be left alone: seconds, or a date."""
    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after)
    try:
        until = parsedate_to_datetime(retry_after)
        return max(0.0, (until - now).total_seconds())
    except (TypeError, ValueError):  # no date, or one without a zone
        return None
