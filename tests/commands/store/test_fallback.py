"""One embedding model per store: how a new one gets it, and that it keeps it."""

import asyncio
import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from streams.embedding import DEFAULT_MODEL, HASHING
from tests.commands.conftest import Memsieve, write_events
from tests.standin.llm import LlmServer, Reply, embedding
from tests.support.encoding.models import default_embedder

NEAR = ("Ana likes coffee in the morning.", "In the morning, Ana likes coffee.")
TEXTS = (*NEAR, "Bo works in Lisbon.")
AWAY = {"base_url": "http://127.0.0.1:9/v1", "attempts_max": 1}
"""Where nobody listens."""

MINILM = "endpoint:minilm"


def minilm(text: str) -> Sequence[float]:
    [made] = asyncio.run(default_embedder().embed([text]))
    return made.vector.tolist()


@pytest.fixture
def server() -> Iterator[LlmServer]:
    """Serve vectors that have the dimension of the default model's: they are the same ones."""
    with LlmServer(embedding(minilm)) as started:
        yield started


@pytest.fixture(autouse=True)
def _facts(tmp_path: Path) -> None:
    write_events(tmp_path / "facts.jsonl", *TEXTS)
    (tmp_path / "no-directory").write_text("a cache cannot be here", encoding="utf-8")


def configure(**embedder: Any) -> None:
    """Write memsieve.toml; `broken` is a cache that no model can be installed into."""
    if embedder.pop("broken", False):
        embedder["cache_dir"] = "no-directory/models"
    endpoint = embedder.pop("endpoint", {})
    lines = [
        "[embedder]",
        *(f"{name} = {json.dumps(value)}" for name, value in embedder.items()),
        "[embedder.endpoint]",
        *(f"{name} = {json.dumps(value)}" for name, value in endpoint.items()),
    ]
    Path("memsieve.toml").write_text("\n".join(lines), encoding="utf-8")


def model_of(store: str = "store") -> str:
    return json.loads((Path(store) / "memsieve.json").read_bytes())["model"]


def models_in(memsieve: Memsieve, store: str = "store") -> set[str]:
    """Return whose vectors the decisions of a store carry."""
    decided = memsieve("decisions", "--store", store, "--json").json()
    vectors = [one.get("embedding") or one.get("event_embedding") for one in decided]
    return {vector["model"] for vector in vectors if vector}


def texts(memsieve: Memsieve, store: str = "store") -> list[str]:
    return [one["text"] for one in memsieve("memory", "list", "--store", store, "--json").json()]


# A new store


@pytest.mark.covers("B110", "S0.44", "S0.51")
def test_a_new_store_gets_the_first_model_that_can_be_had(memsieve: Memsieve) -> None:
    configure(broken=True, fallback=["endpoint:gone", HASHING], endpoint=AWAY)
    done = memsieve("run", "facts.jsonl", "--store", "store")
    assert done.code == 0
    assert f"{DEFAULT_MODEL} is unavailable; trying the next model: cannot install" in done.err
    assert "endpoint:gone is unavailable; trying the next model: http://127" in done.err
    assert f"the policy for {HASHING} is default-hashing, not default" in done.err
    assert model_of() == HASHING
    assert models_in(memsieve) == {HASHING}


@pytest.mark.covers("S0.19", "S0.23", "S0.24", "S0.51")
def test_the_endpoint_serves_where_the_local_model_is_missing(
    memsieve: Memsieve, server: LlmServer
) -> None:
    configure(broken=True, fallback=[MINILM, HASHING], endpoint={"base_url": server.url})
    assert memsieve("run", "facts.jsonl", "--store", "store").code == 0
    assert model_of() == MINILM
    assert models_in(memsieve) == {MINILM}


def test_the_first_model_is_taken_where_it_can_be_had(memsieve: Memsieve) -> None:
    configure(fallback=[HASHING])
    done = memsieve("run", "facts.jsonl", "--store", "store")
    assert "cannot be had" not in done.err
    assert model_of() == DEFAULT_MODEL


@pytest.mark.covers("S0.51")
def test_without_a_policy_for_it_nothing_is_merged_on_similarity(
    memsieve: Memsieve, server: LlmServer
) -> None:
    configure(broken=True, fallback=[MINILM], endpoint={"base_url": server.url})
    done = memsieve("run", "facts.jsonl", "facts.jsonl", "--store", "store")
    assert f"the policy for {MINILM} is keep-both, not default" in done.err
    assert sorted(texts(memsieve)) == sorted(TEXTS)
    assert "similarity alone merges nothing" in memsieve("policy", "list").out
    again = write_events(Path("again.jsonl"), TEXTS[0])
    assert memsieve("run", again, "--store", "store", "--json").json()["decisions"]["reinforce"]
    assert sorted(texts(memsieve)) == sorted(TEXTS), "the very same words are counted"


def test_the_hashing_policy_merges_what_its_judge_is_sure_of(memsieve: Memsieve) -> None:
    configure(model=HASHING)
    ran = memsieve("run", "facts.jsonl", "--store", "store", "--policy", "default-hashing")
    assert ran.code == 0, ran.err
    assert len(texts(memsieve)) == 2


def test_one_of_the_policies_named_is_taken_by_its_model(
    memsieve: Memsieve, server: LlmServer
) -> None:
    mine = memsieve("policy", "show", "default").out.replace(DEFAULT_MODEL, MINILM)
    Path("mine.toml").write_text(mine, encoding="utf-8")
    configure(
        broken=True,
        fallback=[MINILM],
        fallback_policies=["default-hashing", "mine.toml"],
        endpoint={"base_url": server.url},
    )
    done = memsieve("run", "facts.jsonl", "--store", "store")
    assert f"the policy for {MINILM} is mine.toml, not default" in done.err
    assert len(texts(memsieve)) == 2


@pytest.mark.parametrize(
    ("embedder", "code", "told"),
    [
        ({"fallback": ["BAAI/bge-smal-en-v1.5"]}, 4, "fastembed knows no embedding model 'BAAI"),
        ({"fallback": [MINILM]}, 2, "endpoint:minilm requires an endpoint: set embedder.endpoint."),
        ({"model": "endpoint:", "endpoint": AWAY}, 2, "write the endpoint's name of the model"),
    ],
)
def test_a_name_written_wrongly_is_told_at_once(
    memsieve: Memsieve, embedder: dict[str, Any], code: int, told: str
) -> None:
    configure(broken=True, **embedder)
    done = memsieve("run", "facts.jsonl", "--store", "store")
    assert done.code == code
    assert told in done.err
    assert not Path("store").exists()


def test_an_endpoint_that_refuses_is_not_passed_over(memsieve: Memsieve) -> None:
    with LlmServer(lambda _: Reply(status=401)) as refusing:
        configure(broken=True, fallback=[MINILM, HASHING], endpoint={"base_url": refusing.url})
        done = memsieve("run", "facts.jsonl", "--store", "store")
    assert done.code == 7
    assert "http 401; set embedder.endpoint.api_key" in done.err
    assert not Path("store").exists()


# A store that is there


@pytest.mark.covers("B131", "S0.86")
def test_a_store_keeps_its_model_when_a_better_one_is_back(memsieve: Memsieve) -> None:
    configure(broken=True, fallback=[HASHING])
    memsieve("run", "facts.jsonl", "--store", "store")
    configure(fallback=[HASHING])
    write_events(Path("more.jsonl"), "Bo lives in Lisbon.")
    assert memsieve("run", "more.jsonl", "--store", "store").code == 0
    assert models_in(memsieve) == {HASHING}
    examined = memsieve("check", "--store", "store")
    assert examined.code == 0, examined.out
    assert "default-hashing" in examined.out
    recalled = memsieve("search", "--block", "--store", "store", "--scope", "acme/ana", "Lisbon")
    assert recalled.code == 0, recalled.err
    assert "Bo lives in Lisbon." in recalled.out


@pytest.mark.covers("B131", "C16", "D39")
def test_a_store_never_gets_vectors_of_a_second_model(
    memsieve: Memsieve, server: LlmServer
) -> None:
    configure(fallback=[MINILM, HASHING], endpoint={"base_url": server.url})
    memsieve("run", "facts.jsonl", "--store", "store")
    decided = memsieve("decisions", "--store", "store", "--json").out
    write_events(Path("more.jsonl"), "Bo lives in Lisbon.")

    configure(broken=True, fallback=[MINILM, HASHING], endpoint={"base_url": server.url})
    missing = memsieve("run", "more.jsonl", "--store", "store")
    assert missing.code == 4
    assert "store keeps the model it was made with" in missing.err

    configure(model=MINILM, endpoint={"base_url": server.url})
    policy = ("--policy", "keep-both")
    other = memsieve("run", "more.jsonl", "--store", "store", *policy)
    assert other.code == 3, "its vectors have the same dimension, and no other check would tell"
    assert f"was made with model {DEFAULT_MODEL}, not {MINILM}" in other.err
    assert memsieve("decisions", "--store", "store", "--json").out == decided


@pytest.mark.covers("C16")
def test_a_model_gets_every_text_in_the_same_words_whatever_it_is_for(
    memsieve: Memsieve, server: LlmServer
) -> None:
    """A prefix for queries, or one for documents, would shift what a policy's bands are for."""
    configure(model=MINILM, endpoint={"base_url": server.url})
    memsieve("run", "facts.jsonl", "--store", "store", "--policy", "keep-both")
    asked = ("--store", "store", "--scope", "acme/ana", TEXTS[2], "--json")
    started = len(server.asked)
    found = memsieve("search", "--block", *asked).json()["memories"]
    sent = [text for one in server.asked[started:] for text in one.texts]
    assert TEXTS[2] in sent
    known = {text for one in server.asked[:started] for text in one.texts}
    assert set(sent) <= known, "an event and a query of these words are one text to the model"
    assert {one["text"]: one["similarity"] for one in found}[TEXTS[2]] == pytest.approx(1.0)


def test_while_the_endpoint_is_away_nothing_is_decided_and_nothing_lost(
    memsieve: Memsieve,
) -> None:
    with LlmServer(embedding(minilm)) as server:
        configure(model=MINILM, fallback=[HASHING], endpoint={"base_url": server.url})
        memsieve("run", "facts.jsonl", "--store", "store", "--policy", "keep-both")
    write_events(Path("more.jsonl"), "Bo lives in Lisbon.")
    configure(model=MINILM, fallback=[HASHING], endpoint=AWAY)
    away = memsieve("run", "more.jsonl", "--store", "store", "--policy", "keep-both")
    assert away.code == 7
    assert "unreachable; store keeps the model it was made with" in away.err
    assert sorted(texts(memsieve)) == sorted(TEXTS), "what is there can be read meanwhile"
    with LlmServer(embedding(minilm)) as server:
        configure(model=MINILM, endpoint={"base_url": server.url})
        memsieve("run", "more.jsonl", "--store", "store", "--policy", "keep-both")
    assert sorted(texts(memsieve)) == sorted([*TEXTS, "Bo lives in Lisbon."])


# Another model


@pytest.mark.covers("B131", "B132", "D39", "S0.31")
def test_another_model_is_a_new_store_from_the_log(memsieve: Memsieve) -> None:
    configure(broken=True, fallback=[HASHING])
    memsieve("run", "facts.jsonl", "--store", "store")
    before = memsieve("decisions", "--store", "store", "--json").out

    configure()
    redecide = ("store", "replay", "redecide", "--store", "store", "--into", "new")
    assert memsieve(*redecide).code == 0
    assert models_in(memsieve, "new") == {DEFAULT_MODEL}
    assert models_in(memsieve, "store") == {HASHING}, "each decision keeps its model"
    assert memsieve("decisions", "--store", "store", "--json").out == before

    configure(fallback=[HASHING])
    write_events(Path("meanwhile.jsonl"), "Cy plays chess.")
    memsieve("run", "meanwhile.jsonl", "--store", "store")
    configure()
    assert memsieve(*redecide).code == 0
    assert {"Bo works in Lisbon.", "Cy plays chess."} < set(texts(memsieve, "new"))
    assert memsieve("check", "--full", "--store", "new").code == 0

    shutil.move("store", "before")
    shutil.move("new", "store")
    write_events(Path("more.jsonl"), "Bo lives in Lisbon.")
    assert memsieve("run", "more.jsonl", "--store", "store").code == 0
    assert models_in(memsieve) == {DEFAULT_MODEL}
