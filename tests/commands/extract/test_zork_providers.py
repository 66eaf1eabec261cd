"""The tests of providers and cache that the location-memory document names, on the real parts.

Its providers are our embedders, its cache of vectors is the index. What it asks of a provider holds
for each of them; the contract suite has more.
"""

import asyncio
import json
import shutil
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from schemas.base import ScopeName
from streams.embedding import DEFAULT_MODEL, HASHING
from streams.embedding.hashing import HashingEmbedder
from streams.embedding.remembering import RememberingEmbedder
from streams.index.edge import EdgeIndex
from streams.model.embedding import Vector, similarity
from streams.model.ports.failures import NoModel, NoServer, Unreachable
from streams.model.ports.index import Query
from streams.model.ports.models import Embedder
from streams.store.app import wiring
from streams.store.app.setting_groups import EmbedderSettings, EndpointSettings
from tests.commands.conftest import Memsieve
from tests.standin.llm import LlmServer, Reply, embedding, embeddings, in_turn
from tests.support.encoding.models import default_embedder, models_dir

BARS = "Trap door bars when descending from the living room to the cellar."
AGAIN = "Trap door bars when descending from the living room into the cellar."
FULLER = f"{BARS} From the cellar the trap door cannot be opened again."
WINDOW = "The window of the kitchen is slightly ajar."
MODELS = (DEFAULT_MODEL, HASHING, "endpoint:minilm")


def vector_of(text: str) -> Sequence[float]:
    [made] = asyncio.run(default_embedder().embed([text]))
    return made.vector.tolist()


@pytest.fixture
def server() -> Iterator[LlmServer]:
    with LlmServer(embedding(vector_of)) as started:
        yield started


@pytest.fixture(params=MODELS)
def provider(request: pytest.FixtureRequest, server: LlmServer) -> Embedder:
    return made(request.param, server.url)


def made(model: str, url: str, **endpoint: Any) -> Embedder:
    settings = EmbedderSettings(
        model=model,
        cache_dir=models_dir(),
        endpoint=EndpointSettings(base_url=url, **endpoint),
    )
    return wiring.embedder(settings, print)


async def vectors(provider: Embedder, *texts: str) -> list[Vector]:
    return [one.vector for one in await provider.embed(texts)]


# Providers, 8


@pytest.mark.covers("S0.44", "S0.17")
def test_provider_init(provider: Embedder) -> None:
    assert provider.model in MODELS
    assert provider.dimension in {384, 512}


@pytest.mark.covers("S0.44")
async def test_provider_single(provider: Embedder) -> None:
    [vector] = await vectors(provider, BARS)
    assert vector.shape == (provider.dimension,)


@pytest.mark.covers("S0.44")
async def test_provider_batch(provider: Embedder) -> None:
    bars, again, window = await vectors(provider, BARS, AGAIN, WINDOW)
    assert similarity(bars, again) >= 0.85
    assert similarity(bars, window) < 0.5


@pytest.mark.covers("S0.44", "S0.51")
def test_provider_llm_fallback(memsieve: Memsieve, server: LlmServer) -> None:
    Path("file").touch()
    configure(server.url, cache_dir="file/models", fallback=["endpoint:minilm"])
    assert remember(memsieve, BARS).code == 0
    assert json.loads(Path("store/memsieve.json").read_bytes())["model"] == "endpoint:minilm"


@pytest.mark.covers("S0.44")
async def test_provider_dimension_consistency(provider: Embedder) -> None:
    for texts in ([BARS], [BARS, WINDOW], ["a", "x" * 5_000]):
        assert {vector.shape for vector in await vectors(provider, *texts)} == {
            (provider.dimension,)
        }


@pytest.mark.covers("S0.44")
@pytest.mark.parametrize(
    ("reply", "error"), [(Reply(status=503), Unreachable), (Reply(status=401), NoServer)]
)
async def test_provider_error_handling(reply: Reply, error: type[Exception]) -> None:
    with LlmServer(in_turn(embeddings([[1.0, 0.0]]), reply)) as failing:
        provider = made("endpoint:minilm", failing.url, attempts_max=1)
        with pytest.raises(error):
            await provider.embed([BARS])
    with pytest.raises(NoModel):
        made("no/such-model", "http://127.0.0.1:9")


@pytest.mark.covers("S0.44")
async def test_provider_batch_equals_single(provider: Embedder) -> None:
    among = await vectors(provider, BARS, AGAIN, WINDOW)
    for text, vector in zip((BARS, AGAIN, WINDOW), among, strict=True):
        [alone] = await vectors(provider, text)
        np.testing.assert_allclose(alone, vector, atol=1e-6)


@pytest.mark.covers("S0.44")
async def test_provider_determinism(provider: Embedder) -> None:
    [first], [second] = await vectors(provider, BARS), await vectors(provider, BARS)
    assert similarity(first, second) == 1.0


# The cache of vectors, 10: the index


def configure(url: str, **embedder: Any) -> None:
    lines = [f"{name} = {json.dumps(value)}" for name, value in embedder.items()]
    endpoint = ["[embedder.endpoint]", f"base_url = {json.dumps(url)}"]
    Path("memsieve.toml").write_text("\n".join(["[embedder]", *lines, *endpoint]), "utf-8")


@pytest.fixture
def store(memsieve: Memsieve, server: LlmServer) -> str:
    """Begin a store whose vectors come from the endpoint, which notes what it is asked for."""
    rule = memsieve("policy", "show", "zork-semantic").out
    Path("zork.toml").write_text(rule.replace(DEFAULT_MODEL, "endpoint:minilm"), "utf-8")
    configure(server.url, model="endpoint:minilm")
    assert remember(memsieve, BARS, session="1").code == 0
    server.asked.clear()
    return "store"


def remember(memsieve: Memsieve, text: str, scope: str = "zork/193", **fields: Any) -> Any:
    policy = "zork.toml" if Path("zork.toml").exists() else "default"
    row = {"text": text, "scope": scope, "occurred_at": "2026-03-01T09:00:00Z", **fields}
    Path("row.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    return memsieve("run", "row.jsonl", "--store", "store", "--policy", policy)


def cached(scope: str = "zork/193") -> list[str]:
    """Return the texts that a search of a place can find, nearest to BARS first."""

    async def searched() -> list[str]:
        [wanted] = await vectors(default_embedder(), BARS)
        index = EdgeIndex(Path("store/index"), 384)
        try:
            [found] = await index.search([Query(ScopeName(scope), wanted, 10, -1.0)])
            return [stored.memory.text for stored in found]
        finally:
            await index.close()

    return asyncio.run(searched())


def embedded(server: LlmServer) -> list[str]:
    """Return what the endpoint was asked to embed, without the probe of each start."""
    return [text for asked in server.asked for text in asked.texts if text != "probe"]


@pytest.mark.usefixtures("store")
@pytest.mark.covers("S0.46", "S0.27")
def test_cache_built_on_load(memsieve: Memsieve, server: LlmServer) -> None:
    shutil.rmtree("store/index")
    assert remember(memsieve, WINDOW).code == 0
    assert set(cached()) == {BARS, WINDOW}
    assert embedded(server) == [WINDOW], "what was embedded before is in the log"


@pytest.mark.usefixtures("store")
@pytest.mark.covers("S0.46", "S0.86", "S0.25")
def test_cache_new_memory(memsieve: Memsieve, server: LlmServer) -> None:
    remember(memsieve, WINDOW)
    assert set(cached()) == {BARS, WINDOW}
    assert embedded(server) == [WINDOW], "the index is kept from one start to the next"


@pytest.mark.usefixtures("store")
@pytest.mark.covers("S0.46", "S0.29")
def test_cache_supersession(memsieve: Memsieve) -> None:
    remember(memsieve, FULLER)
    assert cached() == [FULLER]


@pytest.mark.usefixtures("store")
@pytest.mark.covers("S0.46")
def test_cache_survives_episode_reset(memsieve: Memsieve) -> None:
    remember(memsieve, WINDOW, session="2")
    assert set(cached()) == {BARS, WINDOW}


@pytest.mark.usefixtures("store")
@pytest.mark.covers("S0.46", "S0.31")
def test_cache_rebuild(memsieve: Memsieve) -> None:
    remember(memsieve, WINDOW)
    before = cached()
    assert "2 memories" in memsieve("store", "replay", "rematerialise", "--store", "store").out
    assert cached() == before


@pytest.mark.usefixtures("store")
@pytest.mark.covers("S0.46", "S0.31")
def test_cache_excludes_superseded(memsieve: Memsieve) -> None:
    remember(memsieve, FULLER)
    memsieve("store", "replay", "rematerialise", "--store", "store")
    assert cached() == [FULLER]
    everything = memsieve("memory", "list", "--store", "store", "--json", "--retired").json()
    assert BARS in [one["text"] for one in everything], "kept, and found by name alone"


@pytest.mark.usefixtures("store")
@pytest.mark.covers("S0.46", "S0.38")
def test_cache_batch_on_rebuild(memsieve: Memsieve, server: LlmServer) -> None:
    rows = [{"text": f"There is a key under mat {n}.", "scope": f"zork/{n}"} for n in range(40)]
    Path("rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    memsieve("run", "rows.jsonl", "--store", "store", "--policy", "zork.toml")
    assert len(embedded(server)) == 40
    assert len(server.asked) == 1 + 1, "one probe, and one request for all of them"
    server.asked.clear()
    memsieve("store", "replay", "rematerialise", "--store", "store")
    assert embedded(server) == [], "a rebuild takes the vectors from the log"


@pytest.mark.usefixtures("store")
@pytest.mark.covers("S0.46")
def test_cache_corruption_recovery(memsieve: Memsieve, server: LlmServer) -> None:
    Path("store/index/edge_config.json").write_text("damaged", "utf-8")
    refused = remember(memsieve, WINDOW)
    assert refused.code == 3
    assert "delete this directory" in refused.err
    shutil.rmtree("store/index")
    assert remember(memsieve, WINDOW).code == 0
    assert set(cached()) == {BARS, WINDOW}
    assert BARS not in embedded(server)


@pytest.mark.covers("S0.46", "S0.32", "B80")
async def test_cache_footprint() -> None:
    remembering = RememberingEmbedder(HashingEmbedder())
    texts = [f"Room {n // 10} has a thing of the kind {n}." for n in range(2_000)]
    await HashingEmbedder().embed(texts)  # what the embedder itself keeps
    tracemalloc.start()
    try:
        await remembering.embed(texts)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 2_000 * (512 * 4 + 700), "vectors, and little beside"


# The manager's operations, on one store


@pytest.mark.usefixtures("store")
@pytest.mark.covers("S0.16")
def test_every_operation_of_the_manager(memsieve: Memsieve) -> None:
    def last() -> dict[str, Any]:
        return memsieve("decisions", "--store", "store", "--json").json()[-1]

    loud = BARS.replace(".", "!")
    remember(memsieve, loud)  # embed, find the most similar, check, handle exact
    decided = last()
    assert decided["kind"] == "reinforce"
    [nearest] = decided["evidence"]["neighbours"]
    bars, again = (np.array(vector_of(text), np.float32) for text in (BARS, loud))
    assert nearest["similarity"] == similarity(bars, again) >= 0.95
    [memory] = memsieve("memory", "list", "--store", "store", "--json").json()
    assert memory["observation_count"] == 2, "its metadata are brought up to date"

    remember(memsieve, FULLER)  # handle near, compare the quality, remove the vector
    assert last()["kind"] == "replace"
    assert cached() == [FULLER], "the vectors of a place"
    memsieve("store", "replay", "rematerialise", "--store", "store")
    assert cached() == [FULLER], "rebuilt"
