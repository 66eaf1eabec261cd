"""The brokers that tests run against: that they are there, and do what tests rely on."""

import subprocess
import sys
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.support.machine.waiting import wait_until
from tests.support.servers.brokers import required
from tests.support.servers.kafka import BrokerFailed, NativeKafka

ROOT = Path(__file__).parents[3]

ASKS_FOR_BROKERS = """\
def test_shared(kafka_bootstrap): pass
def test_own(own_broker): pass
"""


async def test_a_record_goes_through_the_shared_broker(
    kafka_bootstrap: str, topic_prefix: str
) -> None:
    topic = f"{topic_prefix}events"
    await create(kafka_bootstrap, topic)
    await send(kafka_bootstrap, topic, b"hello")
    assert await first(kafka_bootstrap, topic) == b"hello"


async def test_a_record_outlives_a_restart_and_a_crash(own_broker: NativeKafka) -> None:
    address = own_broker.bootstrap
    await create(address, "events")
    await send(address, "events", b"still here")
    own_broker.restart()
    assert await first(address, "events") == b"still here"
    own_broker.kill()
    own_broker.start()
    assert await first(address, "events") == b"still here"
    assert own_broker.bootstrap == address


def test_a_broker_dies_with_its_owner(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as owner:
        owned = NativeKafka(tmp_path, owner=owner.pid)
        required(owned.start)
        assert owned.pid is not None
        owner.kill()
        owner.wait()
        wait_until(lambda: owned.pid is None, "the broker is gone", seconds=10)


def test_a_broker_that_cannot_start_shows_its_log(tmp_path: Path) -> None:
    broker = NativeKafka(tmp_path, {"num.io.threads": "none"})
    with pytest.raises(BrokerFailed, match=r"(?s)its log:.*num\.io\.threads"):
        required(broker.start)


@pytest.mark.parametrize("_repetition", range(3))
def test_every_test_has_a_prefix_of_its_own(
    topic_prefix: str, seen: set[str], _repetition: int
) -> None:
    assert topic_prefix not in seen
    seen.add(topic_prefix)


@pytest.fixture(scope="module")
def seen() -> set[str]:
    return set()


@pytest.mark.parametrize(("ci", "outcome"), [("", "2 skipped"), ("true", "2 errors")])
def test_without_a_broker_tests_are_skipped_but_not_in_ci(
    ci: str, outcome: str, tmp_path: Path
) -> None:
    (tmp_path / "test_it.py").write_text(ASKS_FOR_BROKERS, encoding="utf-8")
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-rs",
            "-p",
            "tests.support.servers.brokers",
            tmp_path,
        ],
        cwd=ROOT,
        env={"PATH": str(tmp_path), "CI": ci},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome in run.stdout
    assert "java is not on the PATH" in run.stdout


async def create(bootstrap: str, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)])
    finally:
        await admin.close()


async def send(bootstrap: str, topic: str, value: bytes) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap)
    await producer.start()
    try:
        await producer.send_and_wait(topic, value)
    finally:
        await producer.stop()


async def first(bootstrap: str, topic: str) -> bytes | None:
    """Return the value of the topic's first record, read in a group that commits nothing."""
    consumer: AIOKafkaConsumer[bytes, bytes] = AIOKafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=f"{topic}-readers",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await consumer.start()
    try:
        return (await consumer.getone()).value
    finally:
        await consumer.stop()
