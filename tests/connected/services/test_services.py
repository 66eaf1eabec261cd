"""The services on a real broker: published events become decisions, and decisions memories."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from schemas.base import ScopeName
from schemas.events import Remember
from streams.log.kafka.connection import Connection
from streams.log.kafka.log import REQUEST_BYTES_MAX, KafkaLog
from streams.model.ports.failures import Unreachable
from streams.model.ports.log import CommittedOffset, LogRecord, OutgoingRecord
from streams.model.scope import partition_of
from streams.stage.flow.decisions import FENCE_HEADER
from streams.stage.flow.incoming import FORWARDED_HEADER
from tests.builders import event
from tests.standin.process import StandIn
from tests.support.machine.waiting import wait_until
from tests.support.servers.kafka import NativeKafka, free_port
from tests.support.servers.kafka_topics import administered
from tests.support.servers.qdrant_clients import rest_client
from tests.support.servers.services import Installation, Running, over_rest
from tests.support.stage.stores import run

ROOT = Path(__file__).parents[3]
EXAMPLES = [ROOT / "examples" / name for name in ("coffee.jsonl", "team.jsonl", "trap-door.jsonl")]
GROUPS = {"memory.events": "memsieve-deduplicator", "memory.decisions": "memsieve-writer"}


@pytest.fixture
def served(tmp_path: Path, kafka_bootstrap: str, topic_prefix: str) -> Installation:
    """Describe an installation with topics of three partitions, whose index is its own."""
    installation = Installation.on(tmp_path, kafka_bootstrap, topic_prefix)
    installation.memsieve("service", "topics", "create", "--partitions", "3")
    return installation


@pytest.fixture
def shared(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str, qdrant_url: str, collection_prefix: str
) -> Installation:
    """Describe an installation with topics of three partitions and a Qdrant server."""
    installation = on_qdrant(tmp_path, kafka_bootstrap, topic_prefix, qdrant_url, collection_prefix)
    installation.memsieve("service", "topics", "create", "--partitions", "3")
    return installation


def on_qdrant(path: Path, kafka: str, prefix: str, url: str, collections: str) -> Installation:
    return Installation.on(
        path,
        kafka,
        prefix,
        **over_rest(url, collections),
        service__session_seconds="6",
    )


def connection_of(installation: Installation) -> Connection:
    variables = installation.variables
    return Connection(
        variables["MEMSIEVE_KAFKA__BOOTSTRAP"],
        variables["MEMSIEVE_KAFKA__PREFIX"],
        variables.get("MEMSIEVE_KAFKA__RUN", ""),
    )


def log_of(installation: Installation) -> KafkaLog:
    return KafkaLog(connection_of(installation))


async def left(log: KafkaLog, topic: str) -> int:
    """Return how many records of a topic its group has not committed."""
    count = 0
    for partition in range(await log.partitions(topic)):
        committed = await log.committed(GROUPS[topic], topic, partition)
        count += await log.end(topic, partition) - (0 if committed is None else committed.offset)
    return count


async def settled(installation: Installation, events: int) -> None:
    """Wait until so many events are decided on, and all decisions applied."""
    log = log_of(installation)
    try:
        async with asyncio.timeout(60):
            while not await is_settled(log, events):  # noqa: ASYNC110 - other processes do it
                await asyncio.sleep(0.05)
    finally:
        await log.close()


async def is_settled(log: KafkaLog, events: int) -> bool:
    try:
        return (
            await total(log, "memory.events") >= events
            and await left(log, "memory.events") == 0
            and await left(log, "memory.decisions") == 0
        )
    except Unreachable:
        return False  # a broker that has just started does not know its groups yet


async def total(log: KafkaLog, topic: str) -> int:
    return sum([await log.end(topic, p) for p in range(await log.partitions(topic))])


def write_events(path: Path, events: Sequence[Remember]) -> Path:
    path.write_text("".join(f"{one.model_dump_json()}\n" for one in events), "utf-8")
    return path


def facts(count: int, *, scopes: int = 6, first: int = 0) -> list[Remember]:
    """Make events that say different things in several scopes."""
    return [
        event(
            f"Ana keeps the box with number {n} on shelf {n * 7}.",
            event_id=f"fact-{n}",
            scope=f"acme/room-{n % scopes}",
        )
        for n in range(first, first + count)
    ]


def once(decisions: Sequence[Any]) -> None:
    """Assert that each event has exactly one decision."""
    ids = [one["decision_id"] for one in decisions]
    assert len(ids) == len(set(ids))
    assert [one for one in decisions if one["kind"] == "ignore"] == []


async def memories_of_a_run(files: Sequence[Path], installation: Installation, path: Path) -> Any:
    await asyncio.to_thread(run, files, path / "embedded")
    return installation.json("memory", "list", "--retired", "--store", str(path / "embedded"))


@pytest.mark.covers("B113", "B122")
async def test_serve_comes_to_the_same_memories_as_an_embedded_run(
    served: Installation, tmp_path: Path
) -> None:
    published = served.memsieve("publish", *(str(path) for path in EXAMPLES))
    with served.running("serve") as service:
        service.wait_until_ready()
        await settled(served, 22)
        assert service.metric("memsieve_decisions_total") == 22
        assert service.get("/live") == '{"live": true}'
        assert service.stop() == 0
    assert "published 22 events" in published
    assert served.json("memory", "list", "--retired") == await memories_of_a_run(
        EXAMPLES, served, tmp_path
    )


@pytest.mark.covers("B119", "B122", "C5")
async def test_deduplicator_and_writer_come_to_the_same_memories_as_an_embedded_run(
    shared: Installation, tmp_path: Path
) -> None:
    with shared.running("deduplicator") as deduplicator, shared.running("writer") as writer:
        shared.memsieve("publish", *(str(path) for path in EXAMPLES))
        await settled(shared, 22)
        deduplicator.wait_until_ready()
        writer.wait_until_ready()
        assert deduplicator.metric("memsieve_decisions_total", kind="insert") == 8
        [policy] = [
            line.split()[-1]
            for line in deduplicator.events
            if line.startswith("deciding by policy ")
        ]
        log = connection_of(shared).named("memory.decisions")
        assert deduplicator.metric("memsieve_build_info", policy=policy, log=log) == 1
        assert writer.metric("memsieve_build_info", policy="", log=log) == 1
        samples = [one for one in writer.get("/metrics").splitlines() if not one.startswith("#")]
        assert all(f'log="{log}"' in one for one in samples)
        assert (deduplicator.stop(), writer.stop()) == (0, 0)
    assert shared.json("memory", "list", "--retired") == await memories_of_a_run(
        EXAMPLES, shared, tmp_path
    )
    explained = shared.memsieve("explain", "trap-3")
    assert "merge" in explained
    assert "policy default-" in explained


@pytest.mark.covers("B123")
async def test_events_that_come_again_are_known_by_their_ids(shared: Installation) -> None:
    """Also where the overlay has forgotten them, and other memories stand in their place."""
    files = [str(path) for path in EXAMPLES]
    with shared.running("writer"), shared.running("deduplicator") as deduplicator:
        shared.memsieve("publish", *files)
        await settled(shared, 22)
        shared.memsieve("publish", *files)
        await settled(shared, 44)
        assert deduplicator.metric("memsieve_decisions_total", kind="ignore") == 1 + 21
        assert deduplicator.metric("memsieve_decisions_total", kind="reject") == 2


async def test_a_second_worker_takes_its_share_and_gives_it_back(
    shared: Installation, tmp_path: Path
) -> None:
    first, second, third = (
        write_events(tmp_path / f"{n}.jsonl", facts(150, first=150 * n)) for n in range(3)
    )
    with shared.running("writer"), shared.running("deduplicator") as one:
        one.wait_until_ready()
        shared.memsieve("publish", str(first))
        with shared.running("deduplicator") as other:
            wait_until(lambda: partitions(other) > 0, "the second has partitions", seconds=60)
            wait_until(lambda: partitions(one) + partitions(other) == 3, "all are had")
            shared.memsieve("publish", str(second))
            await settled(shared, 300)
            assert other.metric("memsieve_decisions_total") > 0
            assert other.stop() == 0
        shared.memsieve("publish", str(third))
        await settled(shared, 450)
    decisions = shared.json("decisions")
    assert len(decisions) == 450
    assert "memory.events: has partition(s) 0, 1, 2" in one.events
    assert "memory.events: lets partition(s) 0, 1, 2 go" in one.events
    once(decisions)


async def test_workers_of_one_machine_share_the_partitions_and_stop_together(
    shared: Installation, tmp_path: Path
) -> None:
    path = write_events(tmp_path / "events.jsonl", facts(150))
    port = free_port()
    with shared.running("serve", "--workers", "2", "--port", str(port)) as service:
        wait_until(lambda: sorted(map(len, held(service).values())) == [1, 2], "both have some")
        shared.memsieve("publish", str(path))
        await settled(shared, 150)
        assert service.stop() == 0
    for worker in (1, 2):
        lines = [line["event"] for line in service.lines if line.get("worker") == worker]
        assert f"health and metrics on port {port + worker - 1}" in lines
        assert lines[-2:] == ["stopping", "stopped"]
    once(shared.json("decisions"))
    expected = await memories_of_a_run([path], shared, tmp_path)
    assert shared.json("memory", "list", "--retired") == expected


def held(service: Running) -> dict[int, set[str]]:
    """Return the partitions of events that each worker has."""
    has = "memory.events: has partition(s) "
    told = [line for line in service.lines if line["event"].startswith(has)]
    return {one["worker"]: set(one["event"].removeprefix(has).split(", ")) for one in told}


def test_the_end_of_one_worker_is_the_end_of_all(shared: Installation) -> None:
    with shared.running("serve", "--workers", "2") as service:
        wait_until(lambda: service.events.count("working") == 2, "both work")
        os.kill(service.workers[0], signal.SIGKILL)
        assert service.wait() == 128 + signal.SIGKILL
    assert "worker 1 has ended with signal SIGKILL: stopping the others" in service.events
    assert service.events[-1] == "stopped"


def test_workers_do_not_outlive_who_started_them(shared: Installation) -> None:
    with shared.running("serve", "--workers", "2") as service:
        wait_until(lambda: service.events.count("working") == 2, "both work")
    wait_until(lambda: service.events.count("stopped") == 2, "both have stopped")


async def test_a_flood_from_one_scope_holds_up_no_other_partition(
    served: Installation, tmp_path: Path
) -> None:
    """What waits in one partition is decided on in turns with what comes to the others."""
    flooded, other = ScopeName("acme/room-0"), _scope_elsewhere(ScopeName("acme/room-0"))
    flood = write_events(tmp_path / "flood.jsonl", facts(4_000, scopes=1))
    few = write_events(
        tmp_path / "few.jsonl",
        [event(f"Ben has key {n}.", event_id=f"key-{n}", scope=other) for n in range(20)],
    )
    log = log_of(served)
    waiting, theirs = partition_of(flooded, 3), partition_of(other, 3)
    with served.running("serve") as service:
        service.wait_until_ready()
        served.memsieve("publish", str(flood))
        served.memsieve("publish", str(few))
        async with asyncio.timeout(60):
            while not await decided(log, theirs, 20):  # noqa: ASYNC110 - another process does it
                await asyncio.sleep(0.05)
        assert not await decided(log, waiting, 4_000)
    await log.close()


def _scope_elsewhere(scope: ScopeName) -> ScopeName:
    """Return a scope that lies in another of three partitions."""
    names = (ScopeName(f"acme/hall-{n}") for n in range(100))
    return next(one for one in names if partition_of(one, 3) != partition_of(scope, 3))


async def decided(log: KafkaLog, partition: int, events: int) -> bool:
    """Tell whether the deduplicator has committed so many events of a partition."""
    try:
        committed = await log.committed(GROUPS["memory.events"], "memory.events", partition)
    except Unreachable:
        return False
    return committed is not None and committed.offset >= events


def partitions(service: Running) -> float:
    return service.metric("memsieve_partitions", topic="memory.events", state="ready")


async def test_a_killed_worker_leaves_nothing_undone_and_nothing_done_twice(
    shared: Installation, tmp_path: Path
) -> None:
    path = write_events(tmp_path / "events.jsonl", facts(400))
    with shared.running("writer") as writer, shared.running("deduplicator") as deduplicator:
        deduplicator.wait_until_ready()
        shared.memsieve("publish", str(path))
        wait_until(lambda: deduplicator.metric("memsieve_decisions_total") > 0, "it has begun")
        deduplicator.kill()
        writer.kill()
    with shared.running("writer"), shared.running("deduplicator"):
        await settled(shared, 400)
    decisions = shared.json("decisions")
    assert len(decisions) == 400
    once(decisions)
    expected = await memories_of_a_run([path], shared, tmp_path)
    assert shared.json("memory", "list", "--retired") == expected


async def test_what_is_under_way_at_the_end_is_finished_or_left_whole(
    shared: Installation, tmp_path: Path
) -> None:
    with shared.running("deduplicator") as deduplicator:
        deduplicator.wait_until_ready()
        path = write_events(tmp_path / "events.jsonl", facts(600))
        shared.memsieve("publish", str(path))
        wait_until(lambda: deduplicator.metric("memsieve_decisions_total") > 0, "it has begun")
        assert deduplicator.stop() == 0
        assert deduplicator.events[-2:] == ["stopping", "stopped"]
    log = log_of(shared)
    decided = len(shared.json("decisions"))
    assert decided == 600 - await left(log, "memory.events")  # what it decided on it committed
    await log.close()


async def test_a_broker_that_restarts_is_waited_for(
    tmp_path: Path, own_broker: NativeKafka, topic_prefix: str
) -> None:
    installation = Installation.on(
        tmp_path, own_broker.bootstrap, topic_prefix, kafka__request_seconds="10"
    )
    installation.memsieve("service", "topics", "create", "--partitions", "2")
    first, second = (
        write_events(tmp_path / f"{n}.jsonl", facts(50, first=50 * n)) for n in range(2)
    )
    with installation.running("serve") as service:
        installation.memsieve("publish", str(first))
        await settled(installation, 50)
        wait_until(lambda: "ready" in service.events, "it says that it is ready")
        assert service.metric("memsieve_ready") == 1
        await asyncio.to_thread(own_broker.kill)
        wait_until(lambda: "kafka" in service.waits_for(), "it is not ready without its broker")
        assert service.metric("memsieve_ready") == 0
        assert service.get("/live") == '{"live": true}'
        wait_until(lambda: len(not_ready(service)) == 1, "the loss is logged")
        assert "kafka: Kafka at" in not_ready(service)[0]
        await asyncio.to_thread(own_broker.restart)
        installation.memsieve("publish", str(second))
        await settled(installation, 100)
        wait_until(lambda: service.events.count("ready") == 2, "it says that it is ready again")
        assert service.metric("memsieve_ready") == 1
        assert len(not_ready(service)) == 1  # not once a probe
        assert service.stop() == 0
    decisions = installation.json("decisions")
    assert len(decisions) == 100
    once(decisions)


def not_ready(service: Running) -> list[str]:
    """Return the warnings of a service that it is not ready any more."""
    return [
        line["event"]
        for line in service.lines
        if line["level"] == "warning" and line["event"].startswith("not ready: ")
    ]


async def test_an_index_that_fails_is_waited_for(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str, own_qdrant: StandIn
) -> None:
    installation = on_qdrant(tmp_path, kafka_bootstrap, topic_prefix, own_qdrant.url, "test")
    installation.memsieve("service", "topics", "create", "--partitions", "1")
    path = write_events(tmp_path / "events.jsonl", facts(30))
    with installation.running("writer") as writer, installation.running("deduplicator") as other:
        other.wait_until_ready()
        writer.wait_until_ready()
        await asyncio.to_thread(own_qdrant.kill)
        installation.memsieve("publish", str(path))
        wait_until(lambda: "memory.events/0" in other.waits_for(), "the partition waits")
        assert "does not answer" in other.waits_for()["memory.events/0"]
        await asyncio.to_thread(own_qdrant.restart)
        await settled(installation, 30)
        other.wait_until_ready()
        assert any("memory.events/0 waits: Qdrant at" in line for line in other.events)
        assert other.metric("memsieve_failures_total") > 0
    assert len(installation.json("memory", "list")) == 30


@pytest.mark.timeout(200)
@pytest.mark.covers("S1.33", "B77")
async def test_an_index_that_fails_is_not_waited_for_where_the_policy_says_so(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str, own_qdrant: StandIn
) -> None:
    installation = on_qdrant(tmp_path, kafka_bootstrap, topic_prefix, own_qdrant.url, "test")
    installation.memsieve("service", "topics", "create", "--partitions", "1")
    first = write_events(tmp_path / "first.jsonl", facts(4, scopes=1))
    second = write_events(tmp_path / "second.jsonl", [*facts(4, scopes=1), *facts(4, first=4)])
    lenient = "default {fail_open.enabled = true, fail_open.attempts = 2}"

    def unchecked() -> list[str]:
        return [one["unchecked"] for one in installation.json("memory", "list") if one["unchecked"]]

    with (
        installation.running("writer") as writer,
        installation.running("deduplicator", "--policy", lenient) as other,
    ):
        other.wait_until_ready()
        writer.wait_until_ready()
        installation.memsieve("publish", str(first))
        await settled(installation, 4)
        await asyncio.to_thread(own_qdrant.kill)
        installation.memsieve("publish", str(second))
        wait_until(
            lambda: len(installation.json("decisions")) == 12, "it goes on without it", seconds=60
        )
        reasons = [one["evidence"]["reason"] for one in installation.json("decisions")[4:]]
        assert reasons == ["same-event"] * 4 + ["unchecked"] * 4
        assert any(
            "stored unchecked, as the policy allows: 4 events" in line for line in other.events
        )
        await asyncio.to_thread(own_qdrant.restart)
        await settled(installation, 12)
        other.wait_until_ready()
        assert unchecked() == ["not-compared"] * 4
        installation.memsieve("consolidate", "--policy", lenient)
        assert unchecked() == []
    assert len(installation.json("memory", "list")) == 8
    installation.memsieve("check", "--full")


@pytest.mark.covers("B130")
async def test_an_index_that_was_lost_is_built_anew_before_it_is_relied_on(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str, qdrant_url: str, collection_prefix: str
) -> None:
    before = on_qdrant(tmp_path, kafka_bootstrap, topic_prefix, qdrant_url, collection_prefix)
    before.memsieve("service", "topics", "create", "--partitions", "2")
    files = [str(path) for path in EXAMPLES]
    with before.running("writer"), before.running("deduplicator"):
        before.memsieve("publish", *files)
        await settled(before, 22)
    after = on_qdrant(
        tmp_path, kafka_bootstrap, topic_prefix, qdrant_url, f"{collection_prefix}-new"
    )
    with after.running("deduplicator") as deduplicator:
        deduplicator.wait_until_ready()
        after.memsieve("publish", *files)  # decided against an empty index and the log
        wait_until(lambda: deduplicator.metric("memsieve_decisions_total") == 22, "all again")
        assert deduplicator.metric("memsieve_decisions_total", kind="ignore") == 21
        with after.running("writer") as writer:
            await settled(after, 44)
            assert any("building from the log" in line for line in writer.events)


async def test_a_collection_that_is_deleted_meanwhile_is_refilled(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str, own_qdrant: StandIn
) -> None:
    installation = on_qdrant(tmp_path, kafka_bootstrap, topic_prefix, own_qdrant.url, "test")
    installation.memsieve("service", "topics", "create", "--partitions", "2")
    files = [str(path) for path in EXAMPLES]
    with installation.running("writer") as writer, installation.running("deduplicator") as other:
        installation.memsieve("publish", *files)
        await settled(installation, 22)
        client = rest_client(own_qdrant.url)
        for one in (await client.get_collections()).collections:
            await client.delete_collection(one.name)
        await client.close()
        # Who asks first creates it anew; the writer then finds another index than its own.
        said = ("was gone", "was rebuilt")
        wait_until(lambda: any(one in line for one in said for line in writer.events), "the loss")
        installation.memsieve("publish", *files)
        await settled(installation, 44)
        assert other.metric("memsieve_decisions_total", kind="ignore") == 1 + 21
        wait_until(
            lambda: "all as the log says" in installation.memsieve("check"),
            "the index is full again",
        )
        for service in (writer, other):
            service.wait_until_ready()
            assert service.stop() == 0
    assert "all as the log says" in installation.memsieve("check")


async def test_an_older_copy_of_the_log_is_continued_as_the_runbook_says(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str, own_qdrant: StandIn
) -> None:
    """What was decided after the copy is decided again, once."""
    here = on_qdrant(tmp_path, kafka_bootstrap, topic_prefix, own_qdrant.url, "test")
    here.memsieve("service", "topics", "create", "--partitions", "1")
    connection = connection_of(here)
    decisions = connection.named("memory.decisions")
    with here.running("writer") as writer, here.running("deduplicator") as deduplicator:
        here.memsieve("publish", str(write_events(tmp_path / "1.jsonl", facts(20))))
        await settled(here, 20)
        copy = await records(connection)
        here.memsieve("publish", str(write_events(tmp_path / "2.jsonl", facts(20, first=20))))
        await settled(here, 40)
        assert (deduplicator.stop(), writer.stop()) == (0, 0)
    async with administered(connection) as admin:
        await admin.delete_topics([decisions])
    wait_until(
        lambda: "created" in here.memsieve("service", "topics", "create", "--partitions", "1"),
        "the topic is there again",
    )
    await put_back(connection, copy)
    for service in ("writer", "deduplicator"):
        assert "the log has lost decisions" in here.memsieve("service", service, code=6)
    log = KafkaLog(connection)
    for topic, group in GROUPS.items():
        await log.commit(group, topic, 0, CommittedOffset(0))
    await log.close()
    client = rest_client(own_qdrant.url)
    for one in (await client.get_collections()).collections:
        await client.delete_collection(one.name)
    await client.close()
    with here.running("writer"), here.running("deduplicator"):
        await settled(here, 40)
    once(here.json("decisions"))
    assert len(here.json("memory", "list")) == 40
    here.memsieve("check", "--full")


async def records(connection: Connection) -> list[LogRecord]:
    """Return what is in the one partition of memory.decisions."""
    log = KafkaLog(connection)
    found: list[LogRecord] = []
    while some := await log.read("memory.decisions", 0, len(found), 1_000):
        found += some
    await log.close()
    return found


async def put_back(connection: Connection, copy: Sequence[LogRecord]) -> None:
    """Append a copy of memory.decisions, from its first record on: each gets its own offset."""
    log = KafkaLog(connection)
    again = [OutgoingRecord(one.topic, 0, one.key, one.value or b"", one.headers) for one in copy]
    assert await log.append(again) == [one.offset for one in copy]
    await log.close()


async def publish_raw(
    installation: Installation, partition: int, records: Sequence[dict[str, Any]]
) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=installation.variables["MEMSIEVE_KAFKA__BOOTSTRAP"],
        max_request_size=16_777_216,
    )
    await producer.start()
    topic = f"{installation.variables['MEMSIEVE_KAFKA__PREFIX']}memory.events"
    for record in records:
        await producer.send_and_wait(topic, partition=partition, **record)
    await producer.stop()


def good(number: int, **fields: Any) -> dict[str, Any]:
    made = event(f"Ana keeps cup {number}.", event_id=f"cup-{number}", scope="acme/ana", **fields)
    return {"key": b"acme/ana", "value": made.model_dump_json().encode()}


HOSTILE = ("reply_to", b"memory.decisions")
HERE = partition_of(ScopeName("acme/ana"), 3)
ELSEWHERE = next(
    scope for scope in (ScopeName(f"acme/{n}") for n in range(9)) if partition_of(scope, 3) != HERE
)
TOMORROW = datetime.now(UTC) + timedelta(days=1)  # noqa: TID251 - the broker's clock is the real one
FORWARDED = (FORWARDED_HEADER, b"memory.events/0/0")
POISON: dict[str, tuple[dict[str, Any], str]] = {
    "not JSON": ({"key": b"acme/ana", "value": b"Ana"}, "not JSON"),
    "a null value": ({"key": b"acme/ana", "value": None}, "empty"),
    "an unknown version": (
        {"key": b"acme/ana", "value": good(1)["value"].replace(b'n":1', b'n":99')},
        "schema_version 99",
    ),
    "a header that is not UTF-8": (
        {"key": b"acme/ana", "value": b"{}", "headers": [("who", b"\xff\xfe")]},
        "kind is missing",
    ),
    "a null header": (
        {"key": b"acme/ana", "value": b"[]", "headers": [("who", None)]},
        "JSON array",
    ),
    "another key, sent on before": (
        {**good(2), "key": b"acme/ben", "headers": [FORWARDED]},
        "sent on once and came here",
    ),
    "another partition, sent on before": (
        {
            "key": ELSEWHERE.encode(),
            "value": event("Ana keeps cup 9.", scope=ELSEWHERE).model_dump_json().encode(),
            "headers": [FORWARDED],
        },
        "sent on once and came here",
    ),
    "too large": ({"key": b"acme/ana", "value": b" " * 8_400_000}, "bytes long"),
    "a clock ahead": (good(5, occurred_at=TOMORROW), "correct the producer's clock"),
}


@pytest.mark.covers("B125", "B139")
async def test_poison_is_set_aside_with_all_it_came_with_and_the_partition_moves_on(
    served: Installation,
) -> None:
    bad = [record for record, _ in POISON.values()]
    fine = {**good(6), "headers": [HOSTILE, ("who", b"\xff"), ("none", None)]}
    with served.running("serve") as service:
        service.wait_until_ready()
        await publish_raw(served, HERE, [*bad, fine])
        await settled(served, len(bad) + 1)
        assert service.metric("memsieve_decisions_total", kind="reject") == len(bad)
        assert service.metric("memsieve_decisions_total", kind="insert") == 1
        assert service.stop() == 0
        assert "cup" not in service.said  # no memory's text in the log
    letters = served.json("dead-letters", "list")
    assert len(letters) == len(bad)
    for offset, (letter, (record, reason)) in enumerate(zip(letters, POISON.values(), strict=True)):
        assert reason in letter["error"]
        assert letter["position"] == {
            "topic": "memory.events",
            "partition": HERE,
            "offset": offset,
        }
        assert letter["stage"] == "decode"
        value: bytes = record["value"] or b""
        assert letter["value_size"] == len(value)
    assert letters[3]["headers"] == [["who", "\\xff\\xfe"]]
    assert letters[4]["headers"] == [["who", None]]
    assert [memory["text"] for memory in served.json("memory", "list")] == ["Ana keeps cup 6."]


@pytest.mark.covers("B122")
async def test_misrouted_events_are_sent_on_once_and_decided_where_they_belong(
    served: Installation,
) -> None:
    elsewhere = event("Ana keeps cup 9.", scope=ELSEWHERE).model_dump_json().encode()
    misrouted = [
        {"key": ELSEWHERE.encode(), "value": elsewhere},
        {**good(2), "key": b"acme/ben"},
        {**good(3), "key": None},
        {**good(4), "key": b"\xff"},
    ]
    with served.running("serve") as service:
        service.wait_until_ready()
        await publish_raw(served, HERE, misrouted)
        await settled(served, 2 * len(misrouted))
        assert service.metric("memsieve_decisions_total", kind="forward") == len(misrouted)
        assert service.metric("memsieve_decisions_total", kind="insert") == len(misrouted)
    assert served.json("dead-letters", "list") == []
    made = [one for one in served.json("decisions") if one["kind"] == "insert"]
    assert {one["event"]["text"] for one in made} == {f"Ana keeps cup {n}." for n in (9, 2, 3, 4)}
    [sent_on] = [one for one in made if one["event"]["scope"] == ELSEWHERE]
    assert sent_on["source"]["partition"] != HERE


async def test_a_hostile_reply_to_header_is_answered_nowhere(served: Installation) -> None:
    with served.running("serve") as service:
        service.wait_until_ready()
        name = f"{served.variables['MEMSIEVE_KAFKA__PREFIX']}memory.decisions"
        hostile = {**good(1), "headers": [("reply_to", name.encode())]}
        await publish_raw(served, HERE, [hostile])
        await settled(served, 1)
    log = log_of(served)
    fences = await log.find_beginning("memory.decisions", [FENCE_HEADER], "")
    assert await total(log, "memory.decisions") == len(fences) + 1
    await log.close()


@pytest.mark.covers("D30")
async def test_nothing_is_committed_whose_decision_is_not_on_the_topic(
    served: Installation,
) -> None:
    """The decisions topic refuses what it is sent, until somebody mends it."""
    with served.running("serve") as service:
        service.wait_until_ready()
        await set_size(served, "memory.decisions", 100)
        await publish_raw(served, HERE, [good(number) for number in range(20)])
        assert service.wait() == 6
        assert "refuses a record as too large" in service.said
    log = log_of(served)
    assert await left(log, "memory.events") == 20
    await log.close()
    assert served.json("decisions") == []
    assert "set max.message.bytes=16777216" in served.memsieve("service", "serve", code=3)
    await set_size(served, "memory.decisions", REQUEST_BYTES_MAX)
    with served.running("serve"):
        await settled(served, 20)
    once(served.json("decisions"))


async def set_size(installation: Installation, topic: str, size: int) -> None:
    """Say how large the records of a topic that is kept forever may be.

    What is not said here falls to its default.
    """
    name = f"{installation.variables['MEMSIEVE_KAFKA__PREFIX']}{topic}"
    kept = {"retention.ms": "-1", "cleanup.policy": "compact"}
    settings = {"max.message.bytes": str(size), **kept}
    async with administered(connection_of(installation)) as admin:
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, settings)])


async def test_a_killed_process_can_be_started_again_before_its_session_is_over(
    served: Installation, tmp_path: Path
) -> None:
    """Its group waits for the dead member longer than any other answer may take."""
    variables = {
        **served.variables,
        "MEMSIEVE_KAFKA__REQUEST_SECONDS": "3",
        "MEMSIEVE_SERVICE__SESSION_SECONDS": "9",
    }
    hurried = Installation(served.directory, variables)
    with hurried.running("serve") as service:
        service.wait_until_ready()
        service.kill()
    hurried.memsieve("publish", str(write_events(tmp_path / "events.jsonl", facts(5))))
    with hurried.running("serve") as service:
        await settled(hurried, 5)
        service.wait_until_ready()
        assert service.stop() == 0


async def test_what_an_index_loses_by_a_kill_is_read_from_the_log(
    served: Installation, tmp_path: Path
) -> None:
    hurried = Installation(
        served.directory, {**served.variables, "MEMSIEVE_SERVICE__SESSION_SECONDS": "6"}
    )
    once_more = [
        one.model_copy(update={"event_id": f"again-{n}"}) for n, one in enumerate(facts(5))
    ]
    with hurried.running("serve") as service:
        hurried.memsieve("publish", str(write_events(tmp_path / "events.jsonl", facts(5))))
        await settled(hurried, 5)
        assert service.metric("memsieve_overlay_memories") == 5  # not on disk yet
        service.kill()
    hurried.memsieve("publish", str(write_events(tmp_path / "again.jsonl", once_more)))
    with hurried.running("serve") as service:
        await settled(hurried, 10)
        assert service.stop() == 0
    kinds = [one["kind"] for one in reversed(hurried.json("decisions"))]
    assert sorted(kinds) == ["insert"] * 5 + ["reinforce"] * 5


HEADER_NAME_THAT_IS_NO_UTF8 = """
import asyncio, sys
from aiokafka import AIOKafkaProducer

class Name(str):
    def encode(self, *_):
        return b"\\xff"

async def main(bootstrap, topic, partition):
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap)
    await producer.start()
    await producer.send_and_wait(topic, b"{}", partition=partition, headers=[(Name("x"), b"")])
    await producer.stop()

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


async def test_a_record_that_no_client_can_read_ends_the_service_and_is_named(
    served: Installation,
) -> None:
    """It cannot be set aside: its bytes are never seen. To go on silently would be to stand still."""
    bootstrap, prefix = (
        served.variables[f"MEMSIEVE_KAFKA__{name}"] for name in ("BOOTSTRAP", "PREFIX")
    )
    with served.running("serve") as service:
        service.wait_until_ready()
        await publish_raw(served, HERE, [good(1)])
        await settled(served, 1)
        arguments = [bootstrap, f"{prefix}memory.events", str(HERE)]
        await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-c", HEADER_NAME_THAT_IS_NO_UTF8, *arguments],
            env={**served.environment, "AIOKAFKA_NO_EXTENSIONS": "1"},
            check=True,
        )
        assert service.wait() == 6
        assert "memory.events holds a record that Kafka's client cannot read" in service.said
    assert [memory["text"] for memory in served.json("memory", "list")] == ["Ana keeps cup 1."]


async def test_an_events_topic_that_was_made_anew_is_not_taken_for_the_old_one(
    served: Installation,
) -> None:
    """Its new events lie where others were decided on: they would be passed over."""
    with served.running("serve") as service:
        service.wait_until_ready()
        await publish_raw(served, HERE, [good(number) for number in range(3)])
        await settled(served, 3)
        assert service.stop() == 0
    connection = connection_of(served)
    async with administered(connection) as admin:
        await admin.delete_topics([connection.named("memory.events")])
    wait_until(
        lambda: "created" in served.memsieve("service", "topics", "create", "--partitions", "3"),
        "made",
    )
    assert "events up to 3 were decided on" in served.memsieve("service", "serve", code=6)


async def test_doctor_waits_for_what_is_not_applied_yet_and_says_who_would_do_it(
    shared: Installation, tmp_path: Path
) -> None:
    """Services that are stopped are in order, so it only warns."""
    shared.memsieve("publish", str(write_events(tmp_path / "events.jsonl", facts(7))))
    with shared.running("writer") as writer:
        writer.wait_until_ready()
        said = shared.memsieve("check")
        assert writer.stop() == 0
    assert "!   groups  0 turns to extract from, 7 events to decide, 0 records to apply" in said
    assert "nobody decides on events: start memsieve service deduplicator\n" in said
    with shared.running("deduplicator") as deduplicator:
        wait_until(lambda: deduplicator.metric("memsieve_decisions_total") == 7, "all are decided")
        said = shared.memsieve("check")
        [groups] = [one for one in shared.json("check") if one["subject"] == "groups"]
    assert "0 events to decide, 10 records to apply" in said
    assert groups["healthy"]
    assert groups["warnings"] == ["nobody applies decisions: start memsieve service writer"]
    assert "10 records are still to be applied; not examined meanwhile" in said


def test_a_disk_that_is_nearly_full_is_no_place_for_an_index(served: Installation) -> None:
    more = {"MEMSIEVE_RUN__FREE_DISK_BYTES_MIN": str(10**18)}
    full = Installation(served.directory, {**served.variables, **more})
    said = full.memsieve("service", "serve", code=3)
    assert "memsieve: the disk of memsieve-store is nearly full" in said


def test_a_wrong_layout_is_refused_in_one_line(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    installation = Installation.on(tmp_path, kafka_bootstrap, topic_prefix)
    said = installation.memsieve("service", "serve", code=3)
    assert "memory.events does not exist: memsieve service topics create" in said
    installation.memsieve("service", "topics", "create", "--partitions", "2")
    said = installation.memsieve("service", "topics", "create", "--partitions", "3", code=3)
    assert "has 2 partitions and not 3" in said


@pytest.mark.parametrize("service", ["deduplicator", "writer"])
def test_two_processes_need_an_index_that_both_can_reach(
    served: Installation, service: str
) -> None:
    said = served.memsieve("service", service, code=2)
    assert "index.kind edge is for one process" in said
    logged = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert logged[-1]["level"] == "error"
    assert "index.kind edge is for one process" in logged[-1]["event"]


def test_so_do_two_workers(served: Installation) -> None:
    said = served.memsieve("service", "serve", "--workers", "2", code=2)
    assert said == (
        "memsieve: --workers 2: index.kind edge is for one process; set MEMSIEVE_INDEX__KIND=qdrant, "
        "or leave --workers out\n"
    )


def test_a_service_without_a_broker_is_told_how_to_name_one(tmp_path: Path) -> None:
    said = Installation(tmp_path).memsieve("service", "serve", code=2)
    assert "kafka.bootstrap is not set: name a broker with --kafka HOST:PORT" in said


def test_a_port_that_is_taken_is_named(served: Installation) -> None:
    with served.running("serve") as service:
        port = service.url.rsplit(":", 1)[1]
        said = served.memsieve("service", "serve", "--port", port, code=2)
    assert f"127.0.0.1:{port} cannot be used" in said
    assert json.loads(service.said.splitlines()[0])["service"] == "serve"
