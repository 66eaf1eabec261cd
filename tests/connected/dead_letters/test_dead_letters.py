"""Dead letters in a cluster: requeued, mended and dropped while the services run."""

import json
from pathlib import Path
from typing import Any

import pytest

from schemas.base import ScopeName
from schemas.events import Remember
from streams.log.kafka.connection import Connection
from streams.log.kafka.log import KafkaLog
from streams.model.ports.log import LogRecord, OutgoingRecord
from streams.model.scope import partition_of
from tests.builders import event
from tests.support.machine.waiting import wait_until
from tests.support.servers.services import Installation

PARTITIONS = 3
SCOPE = ScopeName("acme/ana")
HERE = partition_of(SCOPE, PARTITIONS)
ELSEWHERE = ScopeName("acme/ben")


@pytest.fixture
def served(tmp_path: Path, kafka_bootstrap: str, topic_prefix: str) -> Installation:
    """Describe an installation with topics of three partitions, whose index is its own."""
    installation = Installation.on(tmp_path, kafka_bootstrap, topic_prefix)
    installation.memsieve("service", "topics", "create", "--partitions", str(PARTITIONS))
    return installation


def log_of(installation: Installation) -> KafkaLog:
    variables = installation.variables
    return KafkaLog(
        Connection(variables["MEMSIEVE_KAFKA__BOOTSTRAP"], variables["MEMSIEVE_KAFKA__PREFIX"])
    )


async def publish(installation: Installation, *values: str) -> None:
    """Publish records as a producer of the scope would."""
    log = log_of(installation)
    await log.append(
        [OutgoingRecord("memory.events", HERE, SCOPE.encode(), value.encode()) for value in values]
    )
    await log.close()


async def newest(installation: Installation, partition: int) -> LogRecord:
    """Return the last event of a partition."""
    log = log_of(installation)
    [*_, record] = await log.read("memory.events", partition, 0, 100)
    await log.close()
    return record


def said(fact: Remember, **fields: object) -> str:
    return json.dumps({**fact.model_dump(mode="json"), **fields})


def wait_for(installation: Installation, *letters: tuple[str, int]) -> list[Any]:
    """Wait until these letters are open, told by where they failed and how often."""

    def there() -> bool:
        found = installation.json("dead-letters", "list")
        return sorted((one["stage"], one["attempts"]) for one in found) == sorted(letters)

    wait_until(there, f"open dead letters: {letters}")
    return sorted(installation.json("dead-letters", "list"), key=lambda one: one["stage"])


@pytest.mark.timeout(300)  # a dozen commands, each a process of its own
@pytest.mark.covers("B125")
async def test_dead_letters_are_requeued_mended_and_dropped_while_the_service_decides(
    served: Installation, tmp_path: Path
) -> None:
    fact = event("Ana keeps bees.", event_id="bees", scope=SCOPE)
    wild = said(fact, scope="acme/*", event_id="goats")
    with served.running("serve") as service:
        service.wait_until_ready()
        await publish(served, said(fact), wild, said(fact, text="Ana keeps goats."))
        [reused, unreadable] = wait_for(served, ("decide", 1), ("decode", 1))

        printed = served.memsieve("dead-letters", "requeue", "--all-open")
        assert f"requeued  {reused['id']}  memory.events/{HERE}/2\n" in printed
        assert "would fail again: scope holds the wildcard *" in printed
        [again, _] = wait_for(served, ("decide", 2), ("decode", 1))
        assert (again["id"], again["position"]["offset"]) == (reused["id"], 3)

        shown = served.memsieve("dead-letters", "show", unreadable["id"], "--value")
        assert shown == wild
        (tmp_path / "event.json").write_text(shown.replace("acme/*", ELSEWHERE), "utf-8")
        mended = ("--with", "event.json")
        served.memsieve("dead-letters", "requeue", unreadable["id"], *mended)
        wait_for(served, ("decide", 2))
        wait_until(lambda: len(served.json("memory", "list")) == 2, "the mended event is a memory")
        assert served.json("memory", "list", "--scope", ELSEWHERE)[0]["text"] == "Ana keeps bees."

        served.memsieve("dead-letters", "drop", reused["id"])
        wait_for(served)
        assert service.stop() == 0
    states = {one["id"]: one["state"] for one in served.json("dead-letters", "list", "--all")}
    assert states == {reused["id"]: "dropped", unreadable["id"]: "requeued"}
    record = await newest(served, partition_of(ELSEWHERE, PARTITIONS))
    assert record.key == ELSEWHERE.encode()
    assert dict(record.headers) == {
        "memsieve-origin": f"memory.events/{HERE}/1".encode(),
        "memsieve-attempts": b"1",
    }
