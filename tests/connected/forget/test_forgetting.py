"""Forgetting in a cluster: decided by a service, and gone from the broker's own files."""

import json
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from schemas.base import ScopeName
from schemas.codec import EVENT
from streams.log.kafka.connection import Connection
from streams.log.kafka.log import KafkaLog
from streams.model.ports.log import OutgoingRecord
from tests.builders import event, later
from tests.commands.forget.test_forget import MEETING, TEA, VAULT, WORD, files_with
from tests.support.machine.waiting import wait_until
from tests.support.servers.brokers import required
from tests.support.servers.kafka import NativeKafka
from tests.support.servers.kafka_topics import administered
from tests.support.servers.services import Installation

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
    await log.append([OutgoingRecord("memory.events", 0, key, EVENT.encode(one)) for one in said])
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
    return {one["text"]: one["id"] for one in installation.json("memory", "list")}


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
        installation.memsieve("service", "topics", "create", "--partitions", "1", "--replicas", "1")
        with installation.running("serve") as service:
            service.wait_until_ready()
            await publish(connection, VAULT, TEA, MEETING)
            wait_until(lambda: len(live(installation)) == 3, "all is decided on", seconds=60)
            gone = live(installation)[VAULT]
            assert files_with(tmp_path / "kafka", [WORD])

            told = installation.memsieve("forget", gone)
            assert "published as memory.events/0/3; waiting up to 30 s" in told
            assert f"\nerase: memory {gone} is forgotten, because a request" in told
            assert set(live(installation)) == {TEA, MEETING}
            await publish(connection, VAULT, first=3)
            wait_until(lambda: "block" in kinds(installation), "it is not learnt again")

            await set_fleeting(connection)
            for number in range(200):
                await publish(connection, f"Bob has {number} goats.", first=10 + number)
                if not files_with(tmp_path / "kafka", [WORD]):
                    break
            held = partial(files_with, tmp_path / "kafka", [WORD])
            wait_until(lambda: held() == [], "the broker has deleted its old files", seconds=90)
            service.stop()
        with installation.running("serve") as service:
            service.wait_until_ready()
            assert {TEA, MEETING} <= set(live(installation))
            assert VAULT not in live(installation)
            installation.memsieve("check", "--full")


@pytest.mark.timeout(300)  # a dozen commands, each a process of its own
@pytest.mark.covers("B135", "D41")
async def test_what_has_changed_since_it_was_planned_is_forgotten_all_the_same(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    """Between plan and turn the memory was seen again: that repeats its words, and goes as well."""
    installation = Installation.on(
        tmp_path, kafka_bootstrap, topic_prefix, index__kind="exact", forget__key=KEY
    )
    connection = Connection(kafka_bootstrap, topic_prefix)
    installation.memsieve("service", "topics", "create", "--partitions", "1")
    with installation.running("serve") as service:
        service.wait_until_ready()
        await publish(connection, VAULT, TEA)
        wait_until(lambda: len(live(installation)) == 2, "all is decided on", seconds=60)
        assert service.stop() == 0
    gone = live(installation)[VAULT]
    await publish(connection, VAULT, first=2)
    unheard = installation.memsieve("forget", gone, "--wait", "1", code=7)
    assert "\npublished as memory.events/0/3; for the result: memsieve explain " in unheard
    assert "no owner has decided on 1 of 1 requests within 1 s" in unheard
    with installation.asking("forget", gone, "--wait", "90", "--json") as asking:
        wait_until(lambda: published(asking), "it is published")
        with installation.running("serve") as service:
            told, said = asking.communicate(timeout=100)
            assert asking.returncode == 0, said
            assert service.stop() == 0
    assert "1 of 1 refused: its memories have changed since it was planned" in said
    done = json.loads(told)
    assert (done["memory_ids"], done["undecided"]) == ([gone], [])
    assert len(done["decision_ids"]) == len(done["published"]) == 1
    assert set(live(installation)) == {TEA}
    assert [kinds(installation).count(one) for one in ("erase", "ignore")] == [1, 2]
    assert "every reject has its dead letter" in installation.memsieve("check", "--full")


@pytest.mark.timeout(300)  # a dozen commands, each a process of its own
@pytest.mark.covers("B135")
async def test_what_comes_again_while_it_is_asked_for_is_asked_for_too(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    """An event that is delivered again changes no version, and its record has the words."""
    installation = Installation.on(
        tmp_path, kafka_bootstrap, topic_prefix, index__kind="exact", forget__key=KEY
    )
    connection = Connection(kafka_bootstrap, topic_prefix)
    installation.memsieve("service", "topics", "create", "--partitions", "1")
    with installation.running("serve") as service:
        service.wait_until_ready()
        await publish(connection, VAULT, TEA)
        wait_until(lambda: len(live(installation)) == 2, "all is decided on", seconds=60)
        assert service.stop() == 0
    gone = live(installation)[VAULT]
    await publish(connection, VAULT)
    with installation.asking("forget", gone, "--wait", "90", "--json") as asking:
        wait_until(lambda: published(asking), "it is published")
        with installation.running("serve") as service:
            told, said = asking.communicate(timeout=100)
            assert asking.returncode == 0, said
            assert "forgotten already" in installation.memsieve("forget", gone)
            assert service.stop() == 0
    done = json.loads(told)
    assert (done["memory_ids"], done["undecided"]) == ([gone], [])
    assert [kinds(installation).count(one) for one in ("ignore", "erase")] == [1, 2]
    assert set(live(installation)) == {TEA}
    installation.memsieve("check", "--full")


def published(asking: subprocess.Popen[str]) -> bool:
    """Read what a command says until it tells that it has published."""
    assert asking.stderr is not None
    return "waiting up to" in asking.stderr.readline()
