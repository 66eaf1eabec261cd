"""Services whose vectors come from an endpoint, which comes and goes."""

import threading
from pathlib import Path

import pytest

from tests.commands.conftest import write_events
from tests.standin.llm import Asked, LlmServer, Reply, embeddings
from tests.support.machine.waiting import wait_until
from tests.support.servers.services import Installation

TEXTS = ["Ana likes tea.", "Bo works in Lisbon.", "The printer is out of toner."]


@pytest.mark.timeout(200)
@pytest.mark.covers("B131", "D39")
async def test_services_wait_for_their_endpoint_and_take_no_other_model(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    here = threading.Event()

    def reply(asked: Asked) -> Reply:
        vectors = [[1.0 + len(text), text.count("e"), 1.0] for text in asked.texts]
        return embeddings(vectors) if here.is_set() else Reply(status=503)

    def publish(*texts: str) -> None:
        write_events(tmp_path / f"{texts[0][:3]}.jsonl", *texts)
        served.memsieve("publish", f"{texts[0][:3]}.jsonl")

    def kept() -> list[str]:
        return sorted(one["text"] for one in served.json("memory", "list"))

    with LlmServer(reply) as server:
        served = Installation.on(
            tmp_path,
            kafka_bootstrap,
            topic_prefix,
            policy="keep-both",
            index__kind="edge",
            embedder__model="endpoint:tiny",
            embedder__endpoint__base_url=server.url,
            embedder__endpoint__attempts_max="1",
            retry__delay_max_seconds="0.2",
        )
        served.memsieve("service", "topics", "create", "--partitions", "1")
        with served.running("serve") as service:
            wait_until(lambda: "http 503" in str(service.waits_for()), "it waits for the endpoint")
            here.set()
            service.wait_until_ready()
            publish(*TEXTS[:1])
            wait_until(lambda: kept() == TEXTS[:1], "the first event is decided on", seconds=60)
            here.clear()
            publish(*TEXTS[1:])
            wait_until(lambda: service.said.count("http 503") >= 2, "it waits for vectors")
            assert kept() == TEXTS[:1], "nothing is stored unchecked"
            here.set()
            wait_until(lambda: kept() == sorted(TEXTS), "all are decided on", seconds=60)
            assert service.stop() == 0

        variables = {**served.variables, "MEMSIEVE_EMBEDDER__MODEL": "memsieve/hashing-ngrams-v1"}
        refused = Installation(tmp_path, variables).memsieve("service", "serve", code=6)
        assert "holds vectors of endpoint:tiny, and this process makes those of memsieve" in refused
        variables = {**served.variables, "MEMSIEVE_EMBEDDER__FALLBACK": '["endpoint:other"]'}
        refused = Installation(tmp_path, variables).memsieve("service", "serve", code=2)
        assert "embedder.fallback would give the services of one log different models" in refused
