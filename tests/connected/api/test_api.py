"""`memsieve service api` as a process: over a store of its own, and beside the services on Kafka."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.standin.process import StandIn
from tests.support.encoding.models import models_dir
from tests.support.machine.waiting import wait_until
from tests.support.servers.services import Installation, Running, over_rest

CROWDED = [
    json.loads(line)
    for line in Path("examples/load/crowded.jsonl").read_text(encoding="utf-8").splitlines()
]
SEARCH = {"scope": "cafe/tyler", "query": "What about coffee?"}
APART = "keep-both {judges.words_below = 0.0}"
"""Stores the seven as they come; what is searched is put together by the judge all the same."""
HEADERS = {"authorization": "Bearer of tyler"}


def tokens(directory: Path) -> str:
    """Write a file with one token, for one scope; return its path."""
    digest = hashlib.sha256(b"of tyler").hexdigest()
    rows = ('name = "tyler"', f'sha256 = "{digest}"', 'scopes = ["cafe/tyler"]')
    path = directory / "tokens.toml"
    path.write_text("\n".join(["[[tokens]]", *rows, 'rights = ["read", "write"]']))
    return str(path)


def alone(directory: Path, **variables: str) -> Installation:
    """Describe an installation without a cluster, on any ports."""
    ours = {"MEMSIEVE_API__PORT": "0", "MEMSIEVE_SERVICE__PORT": "0"}
    models = {"MEMSIEVE_EMBEDDER__CACHE_DIR": str(models_dir())}
    return Installation(directory, {**ours, **models, **variables})


def ask(api: Running, path: str, body: dict[str, Any]) -> httpx.Response:
    port = re.findall(r"API on port (\d+)", api.said)[0]
    return httpx.post(
        f"http://127.0.0.1:{port}{path}", json=body, headers=HEADERS, trust_env=False, timeout=30
    )


def entries(api: Running) -> list[set[str]]:
    """Return the texts of each entry's memories."""
    found = ask(api, "/v1/memories/search", SEARCH).json()
    return [{one["memory"]["text"] for one in entry["members"]} for entry in found["entries"]]


def expected() -> list[set[str]]:
    texts = [row["text"] for row in CROWDED]
    about_coffee = {text for text in texts if "pour-over" not in text}
    return [about_coffee, set(texts) - about_coffee]


@pytest.mark.timeout(240)
@pytest.mark.covers("S4.1", "S4.16", "B141")
def test_an_agent_writes_and_reads_and_finds_all_again_after_a_restart(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    here = alone(tmp_path, MEMSIEVE_API__TOKENS=tokens(tmp_path), MEMSIEVE_POLICY=APART)
    with here.running("api", "--store", store) as api:
        api.wait_until_ready()
        assert ask(api, "/v1/events", {"events": CROWDED}).status_code == 202
        assert entries(api) == expected()
        assert ask(api, "/v1/events", {"events": CROWDED}).status_code == 202
        assert ask(api, "/v1/memories/search", {**SEARCH, "scope": "cafe/ana"}).status_code == 403
        assert api.metric("memsieve_api_foreign_scopes_total", token="tyler") == 1
        busy = here.memsieve("run", "/dev/null", "--store", store, code=3)
        assert "is being written by another memsieve" in busy
        assert api.stop() == 0
        assert not any(row["text"] in api.said for row in CROWDED)
    assert len(here.json("memory", "list", "--store", store)) == 7
    assert len(here.json("decisions", "--store", store)) == 14  # the second time: ignored
    with here.running("api", "--store", store) as api:
        api.wait_until_ready()
        assert entries(api) == expected()
        assert api.stop() == 0


@pytest.mark.timeout(300)
@pytest.mark.covers("S4.16")
def test_beside_the_services_it_publishes_to_kafka_and_searches_qdrant(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str, own_qdrant: StandIn
) -> None:
    here = Installation.on(
        tmp_path,
        kafka_bootstrap,
        topic_prefix,
        **over_rest(own_qdrant.url, "test"),
        api__tokens=tokens(tmp_path),
        api__port="0",
        policy=APART,
    )
    here.memsieve("service", "topics", "create", "--partitions", "2")
    with here.running("serve") as service:
        service.wait_until_ready()
        with here.running("api") as api:
            api.wait_until_ready()
            assert ask(api, "/v1/events", {"events": CROWDED}).status_code == 202
            wait_until(lambda: len(here.json("memory", "list")) == 7, "the events are decided on")
            wait_until(lambda: entries(api) == expected(), "the memories can be found")
            loaded = here.json("search", "--scope", "cafe/tyler", SEARCH["query"])
            assert len(loaded["entries"]) == 2
            fact = {"scope": "cafe/tyler", "text": "The cellar has a second door."}
            added = ask(api, "/v1/memories", fact).json()
            assert added["kind"] == "insert"
            pin = f"/v1/memories/{added['memory_id']}/pin"
            wait_until(lambda: ask(api, pin, {}).status_code == 200, "the writer has applied it")
            forget = f"/v1/memories/{added['memory_id']}/forget"
            assert ask(api, forget, {}).status_code == 501
            assert api.metric("memsieve_ready") == 1
            own_qdrant.kill()
            assert "does not answer" in api.waits_for()["memories"]
            assert api.metric("memsieve_ready") == 0
            own_qdrant.restart()
            assert api.stop() == 0
        assert service.stop() == 0


def test_without_tokens_it_does_not_start(tmp_path: Path) -> None:
    here = alone(tmp_path)
    said = here.memsieve("service", "api", "--store", str(tmp_path / "store"), code=2)
    assert "api.tokens is not set: name a TOML file of tokens with --tokens FILE" in said
    assert not (tmp_path / "store").exists()
