"""`memsieve service web` as a process: over a store of its own, and beside the services on Kafka."""

import hashlib
import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.support.encoding.models import models_dir
from tests.support.machine.waiting import wait_until
from tests.support.servers.services import Installation, Running, over_rest
from tests.support.servers.web import REVIEW, csrf_of, said_by
from tests.support.stage.asking import asking

EVENTS = (
    '{"event_id": "1", "scope": "acme/ana", "occurred_at": "2026-03-01T09:00:00Z", "text": "The garden has red roses."}\n'
    '{"event_id": "2", "scope": "acme/ana", "occurred_at": "2026-03-02T09:00:00Z", "text": "The garden has red roses and tulips."}\n'
)


def tokens(directory: Path) -> str:
    """Write a file with one token, for one scope; return its path."""
    digest = hashlib.sha256(b"of ana").hexdigest()
    rows = ('name = "ana"', f'sha256 = "{digest}"', 'scopes = ["acme"]')
    path = directory / "tokens.toml"
    path.write_text("\n".join(["[[tokens]]", *rows, 'rights = ["read", "write"]']))
    return str(path)


@contextmanager
def logged_in(web: Running) -> Generator[httpx.Client]:
    port = re.findall(r"page on port (\d+)", web.said)[0]
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=30) as http:
        fields = {"csrf": csrf_of(http.get("/login")), "token": "of ana"}
        assert http.post("/login", data=fields).status_code == 303
        yield http


def answer(http: httpx.Client, verdict: str) -> str:
    """Answer the pair that is shown; return its id."""
    page = http.get("/review")
    [asked] = REVIEW.findall(page.text)
    sent = http.post(f"/review/{asked}", data={"csrf": csrf_of(page), "verdict": verdict})
    assert sent.status_code == 303
    return asked


@pytest.mark.timeout(240)
def test_it_writes_a_store_of_its_own_and_tells_nobody_what_memories_say(tmp_path: Path) -> None:
    store, events = str(tmp_path / "store"), tmp_path / "events.jsonl"
    events.write_text(EVENTS)
    variables = {
        "MEMSIEVE_WEB__PORT": "0",
        "MEMSIEVE_SERVICE__PORT": "0",
        "MEMSIEVE_API__TOKENS": tokens(tmp_path),
        "MEMSIEVE_POLICY": str(asking(tmp_path)),
        "MEMSIEVE_EMBEDDER__MODEL": "memsieve/hashing-ngrams-v1",
    }
    here = Installation(tmp_path, variables)
    here.memsieve("run", str(events), "--store", store)
    with here.running("web", "--store", store) as web:
        web.wait_until_ready()
        with logged_in(web) as http:
            answer(http, "refines")
            assert "1 answered, 0 open" in said_by(http.get("/review").text)
            assert "in order" in said_by(http.get("/health").text)
        assert web.metric("memsieve_api_requests_total", route="/review", status="200") == 2
        assert web.stop() == 0
        assert "roses" not in web.said
    [memory] = here.json("memory", "list", "--store", store)
    assert memory["text"] == "The garden has red roses and tulips."


@pytest.mark.timeout(300)
def test_beside_the_services_answers_are_published_and_their_log_is_read(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str, qdrant_url: str, collection_prefix: str
) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text(EVENTS)
    here = Installation.on(
        tmp_path,
        kafka_bootstrap,
        topic_prefix,
        **over_rest(qdrant_url, collection_prefix),
        api__tokens=tokens(tmp_path),
        web__port="0",
        policy=str(asking(tmp_path)),
        embedder__model="memsieve/hashing-ngrams-v1",
    )
    here.memsieve("service", "topics", "create", "--partitions", "2")
    with here.running("serve") as service:
        service.wait_until_ready()
        here.memsieve("publish", str(events))
        wait_until(lambda: len(here.json("memory", "list")) == 2, "the events are decided on")
        with here.running("web") as web:
            web.wait_until_ready()
            with logged_in(web) as http:
                asked = answer(http, "same")
                told = lambda: said_by(http.get(f"/review/{asked}").text)  # noqa: E731
                wait_until(lambda: "answered: same by ana" in told(), "the answer is decided on")
                csrf = csrf_of(http.get("/review"))
                assert http.post("/undo", data={"csrf": csrf}).status_code == 303
                assert "both memories are restored" in told()
                wait_until(lambda: 'value="same"' in http.get("/review").text, "it is asked again")
                [decision] = [one for one in here.json("decisions") if one["kind"] == "revise"]
                text = said_by(http.get(f"/decisions/{decision['decision_id']}").text)
                assert "an earlier decision was undone" in text
                assert "The garden has red roses." in said_by(http.get("/decisions").text)
            assert web.stop() == 0
        assert service.stop() == 0


def test_without_tokens_it_does_not_start(tmp_path: Path) -> None:
    here = Installation(tmp_path, {"MEMSIEVE_EMBEDDER__CACHE_DIR": str(models_dir())})
    said = here.memsieve("service", "web", "--store", str(tmp_path / "store"), code=2)
    assert "api.tokens is not set: name a TOML file of tokens with --tokens FILE" in said
    assert not (tmp_path / "store").exists()
