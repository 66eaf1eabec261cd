"""Vectors from a real server of a real model: llama.cpp, as people run it."""

from collections.abc import Iterator

import pytest

from streams.embedding.openai_compatible import (
    EmbeddingEndpoint,
    EndpointEmbedder,
    connect,
)
from streams.model.embedding import similarity
from streams.model.ports.failures import NoServer, Unreachable
from tests.fakes.clock import StandingClock
from tests.support.servers.llama import KEY, Llama, llama

TEXTS = ("Ana likes tea.", "Ana loves drinking tea.", "The boat sank in the harbour.")


@pytest.fixture(scope="module")
def server() -> Iterator[Llama]:
    with llama(embeds=True) as started:
        yield started


async def connected(server: Llama, key: str = KEY) -> EndpointEmbedder:
    endpoint = EmbeddingEndpoint(
        server.url, "gemma", key, timeout_seconds=100.0, attempts_max=1, batch_texts=2
    )
    return await connect(endpoint, StandingClock())


@pytest.mark.covers("S0.19", "S0.44")
async def test_a_real_server_gives_vectors_that_tell_likeness(server: Llama) -> None:
    embedder = await connected(server)
    likes, loves, boat = [one.vector for one in await embedder.embed(TEXTS)]
    assert likes.shape == (embedder.dimension,) == (640,)
    assert similarity(likes, loves) > similarity(likes, boat) + 0.1


@pytest.mark.covers("S0.44")
async def test_the_same_text_has_the_same_vector_in_any_batch(server: Llama) -> None:
    embedder = await connected(server)
    [alone] = await embedder.embed(TEXTS[2:])
    *_, among = await embedder.embed(TEXTS)
    assert similarity(alone.vector, among.vector) == pytest.approx(1.0, abs=2e-5)


@pytest.mark.covers("B81")
async def test_a_text_that_the_server_would_refuse_is_cut(server: Llama) -> None:
    [made] = await (await connected(server)).embed(["x y " * 4_000])
    assert made.truncated


async def test_a_wrong_key_is_for_a_person_to_mend(server: Llama) -> None:
    with pytest.raises(NoServer, match=r"http 401; set embedder\.endpoint\.api_key"):
        await connected(server, "sk-wrong")


async def test_a_server_that_died_is_waited_for_and_used_again() -> None:
    with llama(embeds=True) as server:
        embedder = await connected(server)
        server.kill()
        with pytest.raises(Unreachable):
            await embedder.embed(TEXTS)
        server.start()
        assert len(await embedder.embed(TEXTS)) == 3
