"""Embeds texts with a model behind an OpenAI-compatible endpoint.

Every answer is validated: one vector per text, all of one dimension, finite, not zero.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import ClassVar, Never

import httpx
import numpy as np
from pydantic import BaseModel, ValidationError

from schemas.base import ModelId
from streams.embedding import ENDPOINT
from streams.endpoint.openai_endpoint import FailedRequest, Server, post, repeatedly
from streams.model.embedding import TextVector, Vector, units
from streams.model.ports.clock import Clock
from streams.model.ports.failures import NoServer, Unreachable

_PROBE = "probe"
_SMALLER = "lower embedder.endpoint.batch_texts"
_REMEDIES: Mapping[int | None, str] = {
    None: _SMALLER,  # the answer is too long
    HTTPStatus.BAD_REQUEST: f"{_SMALLER} or tokens_max",
    HTTPStatus.UNAUTHORIZED: "set embedder.endpoint.api_key",
    HTTPStatus.FORBIDDEN: "set embedder.endpoint.api_key",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: _SMALLER,
    HTTPStatus.UNPROCESSABLE_ENTITY: f"{_SMALLER} or tokens_max",
}
_REMEDY = "set embedder.endpoint.base_url, which usually ends in /v1, and the model's name"


@dataclass(frozen=True)
class EmbeddingEndpoint(Server):
    """A server with its embedding model and request limits.

    `batch_texts` per request, `tokens_max` bytes per text: a token is hardly ever shorter than a
    byte, so the model reads all that is sent.
    """

    group: ClassVar[str] = "embedder.endpoint"
    response_bytes_max: int = 67_108_864
    batch_texts: int = 64
    tokens_max: int = 510


class EndpointEmbedder:
    """An Embedder over an endpoint. Its calls raise Unreachable or NoServer.

    Each call has its own client, whose connections its requests share: nothing stays open between
    calls, and any event loop may call. Safe to share between tasks and threads.
    """

    def __init__(self, endpoint: EmbeddingEndpoint, clock: Clock, dimension: int) -> None:
        """Wrap an endpoint that gives vectors of this dimension; `connect` finds it out."""
        self._endpoint = endpoint
        self._clock = clock
        self._dimension = dimension

    @property
    def model(self) -> ModelId:
        return ModelId(f"{ENDPOINT}{self._endpoint.model}")

    @property
    def dimension(self) -> int:
        return self._dimension

    async def embed(self, texts: Sequence[str]) -> list[TextVector]:
        """Return one result per text, in order; equal texts share one."""
        different = list(dict.fromkeys(texts))
        sent = [_readable(text, self._endpoint.tokens_max) for text in different]
        vectors = await _vectors(self._endpoint, self._clock, sent)
        if vectors and (given := vectors[0].shape[0]) != self._dimension:
            raise NoServer(
                f"{_place(self._endpoint)} gives {given} dimensions now, and gave "
                f"{self._dimension} before: it serves another model under this name; restore it"
            )
        embedded = {
            text: TextVector(vector, truncated=read != text.strip())
            for text, read, vector in zip(different, sent, vectors, strict=True)
        }
        return [embedded[text] for text in texts]


async def connect(endpoint: EmbeddingEndpoint, clock: Clock) -> EndpointEmbedder:
    """Return the embedder of an endpoint; a first vector shows its dimension.

    Raises Unreachable if it does not answer, NoServer if it refuses or gives no vectors.
    """
    [vector] = await _vectors(endpoint, clock, [_PROBE])
    return EndpointEmbedder(endpoint, clock, vector.shape[0])


async def _vectors(endpoint: EmbeddingEndpoint, clock: Clock, texts: Sequence[str]) -> list[Vector]:
    """Return the vectors of texts in order, all of one dimension."""
    size = endpoint.batch_texts
    batches = [texts[at : at + size] for at in range(0, len(texts), size)]
    slots = asyncio.Semaphore(endpoint.concurrency_max)
    async with endpoint.client() as client:

        async def answered(batch: Sequence[str]) -> list[Vector]:
            async with slots:
                return _read(endpoint, await _ask(endpoint, clock, client, batch), len(batch))

        made = await asyncio.gather(*map(answered, batches), return_exceptions=True)
    vectors: list[Vector] = []
    for batch in made:
        if isinstance(batch, BaseException):
            raise batch
        vectors += batch
    if len({vector.shape for vector in vectors}) > 1:
        raise NoServer(f"{_place(endpoint)} gives vectors of several dimensions: {_REMEDY}")
    return vectors


async def _ask(
    endpoint: EmbeddingEndpoint, clock: Clock, client: httpx.AsyncClient, texts: Sequence[str]
) -> bytes:
    """Return the untrusted answer to a batch."""
    body = {"model": endpoint.model, "input": list(texts), "encoding_format": "float"}
    url = endpoint.url("embeddings")
    send = partial(post, client, url, body, endpoint.response_bytes_max, clock)
    try:
        async with asyncio.timeout(endpoint.timeout_seconds) as limit:
            answer = await repeatedly(send, endpoint, limit)
    except TimeoutError as error:
        raise Unreachable(
            f"{_place(endpoint)} returned no vectors within {endpoint.timeout_seconds:g} s"
        ) from error
    if isinstance(answer, FailedRequest):
        _raise(endpoint, answer)
    return answer


def _raise(endpoint: EmbeddingEndpoint, failed: FailedRequest) -> Never:
    """Raise Unreachable if a retry may help, NoServer if a person must act."""
    if failed.again:
        raise Unreachable(f"{_place(endpoint)} returns no vectors now: {failed.reason}")
    remedy = _REMEDIES.get(failed.status, _REMEDY)
    raise NoServer(f"{_place(endpoint)} returns no vectors: {failed.reason}; {remedy}")


class _Item(BaseModel):
    index: int
    embedding: list[float]


class _Answer(BaseModel):
    data: list[_Item]


def _read(endpoint: EmbeddingEndpoint, content: bytes, count: int) -> list[Vector]:
    """Return the normalized vectors of a complete answer."""
    try:
        items = sorted(_Answer.model_validate_json(content).data, key=lambda item: item.index)
    except ValidationError as error:
        raise NoServer(
            f"{_place(endpoint)} answers with something other than vectors: {_REMEDY}"
        ) from error
    if [item.index for item in items] != list(range(count)):
        raise NoServer(
            f"{_place(endpoint)} gives {len(items)} vectors for {count} texts, or numbers them "
            "wrongly: check the server"
        )
    return [_unit(endpoint, item.embedding) for item in items]


def _unit(endpoint: EmbeddingEndpoint, values: list[float]) -> Vector:
    exact = np.array(values, np.float64)
    if not (exact.any() and np.isfinite(exact).all()):
        raise NoServer(
            f"{_place(endpoint)} gives a vector that is zero, empty or not finite: check the server"
        )
    [vector] = units(exact[np.newaxis] / np.abs(exact).max())  # else its square may overflow
    vector.flags.writeable = False
    return vector


def _readable(text: str, bytes_max: int) -> str:
    """Return the beginning of a text that the model reads in full."""
    return text.strip().encode()[:bytes_max].decode(errors="ignore")


def _place(endpoint: EmbeddingEndpoint) -> str:
    return f"{endpoint.base_url}, model {endpoint.model},"
