"""Questions to an OpenAI-compatible endpoint: the answer, or why there is none.

An answer that may be incomplete is rejected. Reasons are short and stable, and never quote a
memory, an answer or the key.
"""

import asyncio
import json
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, ClassVar

from pydantic import BaseModel, JsonValue, ValidationError

from schemas.base import ScopeName
from streams.endpoint.openai_endpoint import FailedRequest, Server, post, repeatedly
from streams.judges.budget import RequestBudget
from streams.model.ports.clock import Clock
from streams.model.ports.models import NoAnswer
from streams.model.scope import tenant

_SEED = 1
_FORMS = ("json_schema", "json_object", "text")
"""The ways to request an answer's format, strictest first."""

_FORM_REFUSED = {HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY}
_OUTAGE_FAILURES = 3
_OUTAGE_SECONDS = 10.0
"""After so many unanswered questions in a row the endpoint counts as down; for so long no further
question waits for the time-out, which a batch would otherwise pay once per pair."""


@dataclass(frozen=True)
class Endpoint(Server):
    """A server and a model, with request limits.

    `requests_per_minute` counts every attempt.
    """

    group: ClassVar[str] = "llm"
    requests_per_minute: int = 120
    requests_per_minute_tenant: int = 60
    cache_entries: int = 10_000


@dataclass(frozen=True)
class ModelQuestion:
    """A question to a model: instructions, data, and the JSON Schema of the answer.

    `temperature` 0 asks for the likeliest words; a higher one adds randomness.
    """

    scope: ScopeName
    instructions: str
    data: str
    schema: Mapping[str, JsonValue]
    tokens_max: int
    temperature: float = 0.0


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None


class _Completion(BaseModel):
    choices: list[_Choice]


class Chat:
    """A client of one endpoint."""

    def __init__(self, endpoint: Endpoint, clock: Clock) -> None:
        self.endpoint = endpoint
        self._clock = clock
        self._url = endpoint.url("chat/completions")
        self._client = endpoint.client()
        self._slots = asyncio.Semaphore(endpoint.concurrency_max)
        self._budget = RequestBudget(
            endpoint.requests_per_minute, endpoint.requests_per_minute_tenant, clock
        )
        self._form = _FORMS[0]
        self._form_is_known = False
        self._outage = _Outage(clock)

    async def ask(self, question: ModelQuestion) -> str | NoAnswer:
        """Return the answer's untrusted text. Never waits for the budget, nor in an outage."""
        if self._outage.lasts:
            return NoAnswer("unreachable")
        if not self._affords(question):
            return NoAnswer("over budget")
        async with self._slots:
            if self._outage.lasts:  # it began while this question waited for a slot
                return NoAnswer("unreachable")
            answer = await self._in_time(question)
        self._outage.learn(answer)
        return answer

    async def close(self) -> None:
        await self._client.aclose()

    def _affords(self, question: ModelQuestion) -> bool:
        """Take a request out of the budget: every request that is sent needs one."""
        return self._budget.take(tenant(question.scope))

    async def _in_time(self, question: ModelQuestion) -> str | NoAnswer:
        try:
            async with asyncio.timeout(self.endpoint.timeout_seconds) as limit:
                answer = await self._in_some_form(question, limit)
        except TimeoutError:
            return NoAnswer("timeout")
        return NoAnswer(answer.reason) if isinstance(answer, FailedRequest) else answer

    async def _in_some_form(
        self, question: ModelQuestion, limit: asyncio.Timeout
    ) -> str | FailedRequest:
        """Ask in the strictest format that the server supports; remember which one that is.

        Only a format that was answered is remembered: a failure on one question says nothing about
        the next. Until then an internal error may also mean the format: llama-cpp-python's server
        reports an unknown one that way.
        """
        first, *laxer = _FORMS[_FORMS.index(self._form) :]
        answer = await self._repeatedly(question, first, limit)
        for form in laxer:
            if isinstance(answer, str) or not self._refuses_the_form(answer):
                break
            if not self._affords(question):
                return FailedRequest("over budget")
            answer = await self._repeatedly(question, form, limit)
            if isinstance(answer, str):
                self._form = form
        self._form_is_known |= isinstance(answer, str)
        return answer

    async def _repeatedly(
        self, question: ModelQuestion, form: str, limit: asyncio.Timeout
    ) -> str | FailedRequest:
        send = partial(self._sent, self._body(question, form))
        return await repeatedly(send, self.endpoint, limit, lambda: self._affords(question))

    def _body(self, question: ModelQuestion, form: str) -> dict[str, Any]:
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

    async def _sent(self, body: dict[str, Any]) -> str | FailedRequest:
        endpoint = self.endpoint
        content = await post(
            self._client, self._url, body, endpoint.response_bytes_max, self._clock
        )
        return content if isinstance(content, FailedRequest) else _text(content)

    def _refuses_the_form(self, failed: FailedRequest) -> bool:
        internal = failed.status == HTTPStatus.INTERNAL_SERVER_ERROR
        return failed.status in _FORM_REFUSED or (internal and not self._form_is_known)


class _Outage:
    """Detects an outage, in which asking is useless."""

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


def _text(content: bytes) -> str | FailedRequest:
    """Return the model's text if it is complete; FailedRequest otherwise."""
    try:
        completion = _Completion.model_validate_json(content)
    except ValidationError:
        return FailedRequest("not JSON")
    if not completion.choices:
        return FailedRequest("empty")
    if len(completion.choices) > 1:  # one was requested: ambiguous
        return FailedRequest("contradicts itself")
    choice = completion.choices[0]
    if choice.finish_reason == "length":
        return FailedRequest("cut off")
    if choice.message.refusal or choice.finish_reason == "content_filter":
        return FailedRequest("refused")
    return choice.message.content or FailedRequest("empty")


class _Repeated(ValueError):
    """An object has the same field twice."""


def object_of(
    content: str, *, required: AbstractSet[str], optional: AbstractSet[str] = frozenset()
) -> dict[str, JsonValue] | NoAnswer:
    """Read an object with these fields, each once, and no others."""
    try:
        value: JsonValue = json.loads(content, object_pairs_hook=_each_once)
    except _Repeated:
        return NoAnswer("contradicts itself")
    except (ValueError, RecursionError):
        return NoAnswer("not JSON")
    if not isinstance(value, dict):
        return NoAnswer("not JSON")
    if not required <= value.keys() <= required | optional:
        return NoAnswer("wrong fields")
    return value


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise _Repeated
    return fields
