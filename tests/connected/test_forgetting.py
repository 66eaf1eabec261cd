"""Forgetting in a cluster: decided by a service, and gone from the broker's own files."""

from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from schemas.base import ScopeName
from schemas.codec import EVENT
from streams.adapters.kafka.connection import Connection
from streams.adapters.kafka.log import KafkaLog
from streams.ports import Outgoing
from tests.builders import event, later
from tests.commands.test_forget import MEETING, TEA, VAULT, WORD, files_with
from tests.support.brokers import required
from tests.support.kafka import NativeKafka
from tests.support.kafka_topics import administered
from tests.support.services import Installation
from tests.support.waiting import wait_until

SCOPE = ScopeName("acme/ana")
KEY = "a secret of more than 32 characters, for tests"
QUICK = {
    "log.cleaner.backoff.ms": "200",
    "log.retention.check.interval.ms": "300",
    "log.initial.task.delay.ms": "100",
    "log.segment.delete.delay.ms": "100",
}
"""What makes a broker look often for what it may delete."""
FLEETING = {
    "segment.ms": "500",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "500",
    "delete.retention.ms": "200",
}


async def publish(connection: Connection, *texts: str, first: int = 0) -> None:
    log = KafkaLog(connection)
    said = [
        event(text, scope=SCOPE, event_id=f"e{first + n}", occurred_at=later(first + n))
        for n, text in enumerate(texts)
    ]
    key = SCOPE.encode()
    await log.append([Outgoing("memory.events", 0, key, EVENT.encode(one)) for one in said])
    await log.close()


async def set_fleeting(connection: Connection) -> None:
    """Let the topics keep what may go for a moment only."""
    kept = {
        "memory.decisions": {**FLEETING, "cleanup.policy": "compact", "retention.ms": "-1"},
        **{
            f"memory.{name}": {"segment.ms": "500", "retention.ms": "1500"}
            for name in ("events", "changes")
        },
    }
    large = {"max.message.bytes": "16777216"}
    resources = [
        ConfigResource(ConfigResourceType.TOPIC, connection.named(name), {**large, **configs})
        for name, configs in kept.items()
    ]
    async with administered(connection) as admin:
        await admin.alter_configs(resources)


def kinds(installation: Installation) -> list[str]:
    return [one["kind"] for one in installation.json("decisions")]


def live(installation: Installation) -> dict[str, Any]:
    return {one["text"]: one["id"] for one in installation.json("memories")}


@pytest.mark.timeout(400)  # a dozen commands, each a process of its own
@pytest.mark.covers("B135", "B136", "D41")
async def test_the_brokers_files_hold_no_forgotten_word_in_the_end(tmp_path: Path) -> None:
    with required(lambda: NativeKafka(tmp_path / "kafka", QUICK)) as broker:
        place = {"kafka": broker.bootstrap, "prefix": "t."}
        installation = Installation.on(
            tmp_path,
            **place,
            index__kind="exact",
            forget__key=KEY,
            producer__compression="none",
            embedder__precision="exact",
        )
        connection = Connection(broker.bootstrap, "t.")
        installation.memsieve("topics", "create", "--partitions", "1", "--replicas", "1")
        with installation.running("serve") as service:
            service.wait_until_ready()
            await publish(connection, VAULT, TEA, MEETING)
            wait_until(lambda: len(live(installation)) == 3, "all is decided on", seconds=60)
            gone = live(installation)[VAULT]
            assert files_with(tmp_path / "kafka", [WORD])

            told = installation.memsieve("forget", gone)
            assert "published as memory.events/0/3" in told
            wait_until(lambda: set(live(installation)) == {TEA, MEETING}, "it is forgotten")
            await publish(connection, VAULT, first=3)
            wait_until(lambda: "block" in kinds(installation), "it is not learnt again")

            await set_fleeting(connection)
            for number in range(200):
                await publish(connection, f"Bob has {number} goats.", first=10 + number)
                if not files_with(tmp_path / "kafka", [WORD]):
                    break
            assert files_with(tmp_path / "kafka", [WORD]) == []
            service.stop()
        with installation.running("serve") as service:
            service.wait_until_ready()
            assert {TEA, MEETING} <= set(live(installation))
            assert VAULT not in live(installation)
            installation.memsieve("verify")
