"""Vectors from an OpenAI-compatible endpoint: what is sent, what is believed, what failures mean."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest

from streams.embedding.openai_compatible import (
    EmbeddingEndpoint,
    EndpointEmbedder,
    connect,
)
from streams.model.ports.failures import Fatal, NoServer, Transient, Unreachable, Unusable
from tests.fakes.clock import StandingClock
from tests.standin.llm import Asked, LlmServer, Reply, Script, embedding, embeddings, in_turn

KEY = "sk-very-secret"
SAID = "Ana takes two pills at night"
GOOD = embeddings([[3.0, 4.0]])


@asynccontextmanager
async def served(
    script: Script, **endpoint: Any
) -> AsyncGenerator[tuple[EndpointEmbedder, LlmServer]]:
    """Connect to a server, whose script meets the probe first."""
    with LlmServer(script) as server:
        yield await connect(_endpoint(server, **endpoint), StandingClock()), server


def _endpoint(server: LlmServer, **endpoint: Any) -> EmbeddingEndpoint:
    values: dict[str, Any] = {"base_url": server.url, "model": "tiny", "backoff_seconds": 0.01}
    return EmbeddingEndpoint(**values | endpoint)


def lengths(text: str) -> Sequence[float]:
    return [len(text), 1.0]


# What is asked, and how the answer is taken


@pytest.mark.covers("S0.44")
async def test_connecting_tells_the_dimension() -> None:
    async with served(embedding(lambda _: [1.0, 2.0, 2.0])) as (embedder, _):
        assert embedder.dimension == 3
        assert embedder.model == "endpoint:tiny"


async def test_the_key_and_the_model_are_told_in_every_request() -> None:
    async with served(embedding(lengths), api_key=KEY) as (embedder, server):
        await embedder.embed(["one"])
        for asked in server.asked:
            assert asked.path == "/v1/embeddings"
            assert asked.headers["authorization"] == f"Bearer {KEY}"
            assert asked.body["model"] == "tiny"


@pytest.mark.covers("B79", "S0.25", "S0.44")
async def test_texts_go_in_batches_and_come_back_in_their_order() -> None:
    texts = [f"{'x' * number}" for number in range(1, 24)]
    async with served(embedding(lengths), batch_texts=5, concurrency_max=3) as (embedder, server):
        made = await embedder.embed([*texts, texts[0]])
        asked = sorted(len(one.texts) for one in server.asked[1:])
    assert asked == [3, 5, 5, 5, 5], "each different text once"
    for text, one in zip([*texts, texts[0]], made, strict=True):
        assert one.vector[0] / one.vector[1] == pytest.approx(len(text), rel=1e-5)


async def test_vectors_may_come_in_any_order() -> None:
    data = [{"index": 1, "embedding": [0, 1]}, {"index": 0, "embedding": [1, 0]}]
    swapped = Reply(content=json.dumps({"data": data}).encode())
    async with served(in_turn(GOOD, swapped)) as (embedder, _):
        first, second = await embedder.embed(["a", "b"])
    assert first.vector.tolist() == [1.0, 0.0]
    assert second.vector.tolist() == [0.0, 1.0]


async def test_vectors_of_any_length_become_units() -> None:
    async with served(embedding(lambda _: [3e300, 4e300])) as (embedder, _):
        [made] = await embedder.embed(["a"])
    np.testing.assert_allclose(made.vector, [0.6, 0.8], rtol=1e-6)


@pytest.mark.covers("B81")
async def test_a_text_longer_than_the_model_reads_is_sent_cut_and_said_to_be() -> None:
    texts = ["x" * 30, "x" * 31, "  " + "x" * 30 + "\n", "ä" * 20]
    async with served(embedding(lengths), tokens_max=30) as (embedder, server):
        made = await embedder.embed(texts)
        sent = server.asked[-1].texts
    assert sent == ["x" * 30, "x" * 30, "x" * 30, "ä" * 15], "bytes count, whole letters are sent"
    assert [one.truncated for one in made] == [False, True, False, True]


# What failures mean


@pytest.mark.parametrize("status", [408, 429, 500, 503])
async def test_a_busy_server_is_asked_again(status: int) -> None:
    busy = Reply(status=status)
    async with served(in_turn(GOOD, busy, GOOD)) as (embedder, server):
        [made] = await embedder.embed(["a"])
        assert made.vector.shape == (2,)
        assert len(server.asked) == 3


async def test_a_busy_server_says_when_to_ask_again() -> None:
    busy = Reply(status=429, headers={"retry-after": "1"})
    async with served(in_turn(GOOD, busy, GOOD)) as (embedder, _):
        loop = asyncio.get_running_loop()
        started = loop.time()
        await embedder.embed(["a"])
        assert loop.time() - started >= 1.0


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (Reply(status=429), "rate limited"),
        (Reply(status=503), "http 503"),
        (Reply(hangs_up=True), "unreachable"),
        (Reply(wait_seconds=60.0), "no vectors within 0.5 s"),
        (Reply(trickles=True), "no vectors within 0.5 s"),
    ],
)
@pytest.mark.covers("S0.44")
async def test_a_server_that_does_not_answer_now_is_waited_for(reply: Reply, told: str) -> None:
    async with served(in_turn(GOOD, reply), timeout_seconds=0.5) as (embedder, server):
        with pytest.raises(Unreachable, match=told) as caught:
            await embedder.embed(["a"])
        assert isinstance(caught.value, Transient)
        assert len(server.asked) <= 1 + 3


async def test_nobody_there_is_waited_for() -> None:
    with LlmServer(embedding(lengths)) as server:
        endpoint = _endpoint(server)
    with pytest.raises(Unreachable, match="unreachable"):
        await connect(endpoint, StandingClock())


@pytest.mark.parametrize(
    ("status", "remedy"),
    [
        (400, "batch_texts or tokens_max"),
        (401, r"set embedder\.endpoint\.api_key"),
        (403, r"set embedder\.endpoint\.api_key"),
        (404, r"base_url, which usually ends in /v1"),
        (413, "batch_texts"),
        (302, "base_url"),
    ],
)
async def test_a_server_that_refuses_is_for_a_person_to_mend(status: int, remedy: str) -> None:
    refusal = Reply(status=status, headers={"location": "http://127.0.0.1:9/elsewhere"})
    async with served(in_turn(GOOD, refusal)) as (embedder, server):
        with pytest.raises(NoServer, match=f"http {status}; .*{remedy}") as caught:
            await embedder.embed(["a"])
        assert isinstance(caught.value, Fatal)
        assert len(server.asked) == 2, "the same would only be refused again"


def answered(data: object) -> Reply:
    return Reply(content=json.dumps({"data": data}).encode())


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (Reply(content=b"<html>hello</html>"), "something other than vectors"),
        (
            Reply(content=b'{"data": [{"index": 0, "embedding": "AAAA"}]}'),
            "something other than vectors",
        ),
        (answered([]), "0 vectors for 1 texts"),
        (embeddings([[1.0, 0.0], [0.0, 1.0]]), "2 vectors for 1 texts"),
        (answered([{"index": 1, "embedding": [1.0, 0.0]}]), "numbers them wrongly"),
        (embeddings([[0.0, 0.0]]), "zero, empty or not finite"),
        (embeddings([[]]), "zero, empty or not finite"),
        (embeddings([[float("nan"), 1.0]]), "zero, empty or not finite"),
        (embeddings([[float("inf"), 1.0]]), "zero, empty or not finite"),
        (embeddings([[1.0, 2.0, 2.0]]), "3 dimensions now, and gave 2 before: .*another model"),
    ],
)
async def test_no_answer_is_believed_unseen(reply: Reply, told: str) -> None:
    async with served(in_turn(GOOD, reply)) as (embedder, _):
        with pytest.raises(NoServer, match=told):
            await embedder.embed(["a"])


async def test_vectors_of_several_dimensions_are_refused() -> None:
    replies = in_turn(GOOD, embeddings([[1.0, 0.0]]), embeddings([[1.0, 0.0, 0.0]]))
    async with served(replies, batch_texts=1, concurrency_max=1) as (embedder, _):
        with pytest.raises(NoServer, match="several dimensions"):
            await embedder.embed(["a", "b"])


async def test_an_endless_answer_is_not_read_on() -> None:
    long = Reply(content=b" " * 2_000)
    async with served(in_turn(GOOD, long), response_bytes_max=1_000) as (embedder, _):
        with pytest.raises(NoServer, match=r"too long; lower embedder\.endpoint\.batch_texts"):
            await embedder.embed(["a"])


async def test_one_batch_that_fails_fails_the_call() -> None:
    def reply(asked: Asked) -> Reply:
        return Reply(status=503) if "b" in asked.texts else GOOD

    async with served(reply, batch_texts=1) as (embedder, _):
        with pytest.raises(Unreachable):
            await embedder.embed(["a", "b", "c"])
        assert len(await embedder.embed(["a", "c"])) == 2


@pytest.mark.covers("B139")
async def test_neither_text_nor_key_is_told_to_anybody(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for reply in (Reply(status=400), Reply(status=503), Reply(content=b"[]"), embeddings([[]])):
        async with served(in_turn(GOOD, reply), api_key=KEY) as (embedder, _):
            with pytest.raises((NoServer, Unreachable)) as caught:
                await embedder.embed([SAID])
            for told in (str(caught.value), repr(caught.value.__cause__), caplog.text):
                assert SAID not in told
                assert KEY not in told


@pytest.mark.parametrize("key", ["", "  ", "schlüssel", "two\nlines"])
async def test_a_key_that_no_header_can_hold_is_refused(key: str) -> None:
    with (
        LlmServer(embedding(lengths)) as server,
        pytest.raises(Unusable, match=r"embedder\.endpoint\.api_key"),
    ):
        await connect(_endpoint(server, api_key=key), StandingClock())
