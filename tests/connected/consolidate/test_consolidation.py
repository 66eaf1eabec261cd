"""Consolidation beside the services: proposed on a real broker, decided by the partition's owner."""

import asyncio
import json
from pathlib import Path

import pytest

from schemas.topics import EVENTS
from streams.log.kafka.log import KafkaLog
from tests.connected.services.test_services import log_of, on_qdrant
from tests.support.machine.waiting import wait_until
from tests.support.servers.services import Installation

ORDER = (
    "Ana usually orders a flat white.",
    "A flat white is what Ana usually orders.",
    "Ana usually orders a flat white. She takes it without sugar.",
)
SET = (
    "Ana's pour-over set broke last week.",
    "Last week Ana's pour-over set broke.",
    "Last week, Ana's pour-over set broke.",
    "Ana's pour-over set broke last week. She is looking for a new one.",
)
TWO = {ORDER[2], SET[3]}


def write(path: Path) -> str:
    rows = (
        {"text": text, "scope": "cafe/ana", "occurred_at": f"2026-03-0{day}T09:00:00Z"}
        for day, text in enumerate((*ORDER, *SET), 1)
    )
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


async def until_proposed(installation: Installation) -> None:
    """Wait until there are more events than were published."""
    log = log_of(installation)
    try:
        async with asyncio.timeout(60):
            while True:
                if await events(log) > len((*ORDER, *SET)):
                    return
                await asyncio.sleep(0.1)
    finally:
        await log.close()


async def events(log: KafkaLog) -> int:
    topic = EVENTS.name
    return sum([await log.end(topic, p) for p in range(await log.partitions(topic))])


def texts(installation: Installation) -> set[str]:
    return {one["text"] for one in installation.json("memory", "list")}


@pytest.mark.timeout(300)
@pytest.mark.covers("B87", "S2.22", "S2.27")
async def test_the_service_joins_what_is_one_fact_though_it_is_killed_meanwhile(
    tmp_path: Path,
    kafka_bootstrap: str,
    topic_prefix: str,
    qdrant_url: str,
    collection_prefix: str,
) -> None:
    served = on_qdrant(tmp_path, kafka_bootstrap, topic_prefix, qdrant_url, collection_prefix)
    served = Installation(
        tmp_path,
        {
            **served.variables,
            "MEMSIEVE_CONSOLIDATE__MEMORIES_MIN": "6",
            "MEMSIEVE_CONSOLIDATE__MINUTES": "0.05",
            "MEMSIEVE_CONSOLIDATE__HOURS_MIN": "0",
        },
    )
    served.memsieve("service", "topics", "create", "--partitions", "3")
    with served.running("writer") as writer:
        with served.running("deduplicator", "--policy", "keep-both") as keeping:
            keeping.wait_until_ready()
            writer.wait_until_ready()
            served.memsieve("publish", write(tmp_path / "seven.jsonl"))
            wait_until(lambda: len(texts(served)) == 7, "all are kept", seconds=60)
        with served.running("consolidator") as unheard:
            await until_proposed(served)
            unheard.kill()  # nobody has decided on that yet
        with served.running("deduplicator") as deciding, served.running("consolidator") as service:
            deciding.wait_until_ready()
            service.wait_until_ready()
            wait_until(lambda: texts(served) == TWO, "two facts are left", seconds=90)
            passes = service.metric("memsieve_consolidation_passes_total")
            wait_until(
                lambda: service.metric("memsieve_consolidation_passes_total") > passes + 1,
                "it goes on",
            )
            assert texts(served) == TWO
            assert service.metric("memsieve_consolidation_removed_memories_total") <= 5
            assert service.stop() == 0
        assert any("scopes consolidated" in line for line in service.events)
        assert not any(text in service.said for text in (*ORDER, *SET))
    assert "every reject has its dead letter" in served.memsieve("check", "--full")


@pytest.mark.timeout(200)
def test_the_command_asks_the_services_and_tells_what_they_did(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    served = Installation.on(tmp_path, kafka_bootstrap, topic_prefix)
    served.memsieve("service", "topics", "create", "--partitions", "2")
    with served.running("serve", "--policy", "keep-both") as keeping:
        keeping.wait_until_ready()
        served.memsieve("publish", write(tmp_path / "seven.jsonl"))
        wait_until(lambda: len(texts(served)) == 7, "all are kept", seconds=60)
        assert keeping.stop() == 0
    tried = served.json("consolidate", "--now", "--dry-run")
    assert (tried["dry_run"], tried["memories_after"], len(texts(served))) == (True, 2, 7)
    with served.running("serve") as service:
        service.wait_until_ready()
        done = served.json("consolidate", "--now")
        assert (done["memories_before"], done["memories_after"], done["groups"]) == (7, 2, 2)
        assert {group["text_after"] for group in done["scopes"][0]["groups"]} == TWO
        again = served.json("consolidate", "--now")
        assert (again["groups"], again["memories_after"], again["scopes"][0]["groups"]) == (
            0,
            2,
            [],
        )
        assert texts(served) == TWO
        assert service.stop() == 0
