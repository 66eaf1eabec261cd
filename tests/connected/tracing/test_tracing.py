"""Traces through a real broker, as a collector gets them: event, decision, applied change."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from schemas.events import Remember
from streams.log.kafka.connection import Connection
from streams.log.kafka.log import KafkaLog
from streams.model.ports.log import LogRecord
from tests.builders import event
from tests.support.machine.waiting import wait_until
from tests.support.servers.otlp import Collector, Sent
from tests.support.servers.services import Installation, over_rest

TURNS = Path(__file__).parents[3] / "examples" / "lighthouse-turns.jsonl"
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CONTEXT = [("traceparent", f"00-{TRACE}-{SPAN}-01".encode()), ("tracestate", b"theirs=t61rcWkgMzE")]
SAID = (
    "Ana keeps the blue box on shelf seven.",
    "Ana keeps the blue box on shelf seven.",
    "The lamp oil is in the cellar.",
)
SCOPE = "acme/ana"

pytestmark = pytest.mark.timeout(240)  # each starts a service or two


def facts() -> list[Remember]:
    return [event(text, event_id=f"said-{n}", scope=SCOPE) for n, text in enumerate(SAID)]


async def published(installation: Installation, events: Sequence[Remember]) -> None:
    """Publish events as a producer does that traces the first of them."""
    topic = f"{installation.variables['MEMSIEVE_KAFKA__PREFIX']}memory.events"
    async with AIOKafkaProducer(
        bootstrap_servers=installation.variables["MEMSIEVE_KAFKA__BOOTSTRAP"]
    ) as producer:
        for number, one in enumerate(events):
            await producer.send_and_wait(
                topic,
                one.model_dump_json().encode(),
                one.scope.encode(),
                headers=CONTEXT if number == 0 else [],
            )


async def records(installation: Installation, topic: str) -> list[LogRecord]:
    variables = installation.variables
    connection = Connection(
        variables["MEMSIEVE_KAFKA__BOOTSTRAP"], variables["MEMSIEVE_KAFKA__PREFIX"]
    )
    log = KafkaLog(connection)
    try:
        return [
            record
            for partition in range(await log.partitions(topic))
            for record in await log.read(topic, partition, 0, 1_000)
        ]
    finally:
        await log.close()


async def until(installation: Installation, topic: str, count: int) -> list[LogRecord]:
    """Return a topic's records without fences, once there are so many."""
    async with asyncio.timeout(60):
        while True:
            found = await records(installation, topic)
            told = [one for one in found if "memsieve-fence" not in dict(one.headers)]
            if len(told) >= count:
                return told
            await asyncio.sleep(0.05)


def context(record: LogRecord) -> str:
    return (dict(record.headers).get("traceparent") or b"").decode()


def of_event(spans: Sequence[Sent], name: str, event_id: str) -> Sent:
    [found] = [
        one
        for one in spans
        if one.name.startswith(name) and one.attributes.get("memsieve.event.id") == event_id
    ]
    return found


@pytest.fixture
def traced(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str, qdrant_url: str, collection_prefix: str
) -> Installation:
    """Describe an installation that shares a Qdrant server."""
    installation = Installation.on(
        tmp_path,
        kafka_bootstrap,
        topic_prefix,
        **over_rest(qdrant_url, collection_prefix),
    )
    installation.memsieve("service", "topics", "create", "--partitions", "1")
    return installation


def with_variables(installation: Installation, variables: Mapping[str, str]) -> Installation:
    return Installation(installation.directory, {**installation.variables, **variables})


async def test_a_producers_trace_goes_on_to_the_decision_and_to_the_change(
    traced: Installation,
) -> None:
    with Collector() as collector:
        sending = with_variables(traced, collector.variables)
        await published(traced, facts())
        with sending.running("deduplicator") as deduplicator, sending.running("writer") as writer:
            decisions = await until(traced, "memory.decisions", 3)
            changes = await until(traced, "memory.changes", 3)
            assert (deduplicator.stop(), writer.stop()) == (0, 0)
    decide = of_event(collector.spans, "decide", "said-0")
    apply = of_event(collector.spans, "apply", "said-0")
    assert (decide.trace, decide.parent) == (TRACE, SPAN)
    assert (apply.trace, apply.parent) == (TRACE, decide.span)
    assert decide.began < decide.ended
    assert (decide.service, apply.service) == ("memsieve-deduplicator", "memsieve-writer")
    assert context(decisions[0]) == f"00-{TRACE}-{decide.span}-01"
    assert dict(decisions[0].headers)["tracestate"] == b"theirs=t61rcWkgMzE"
    assert context(changes[0]) == f"00-{TRACE}-{apply.span}-01"

    # Without a producer's trace one begins at the decision, for each event its own.
    again = of_event(collector.spans, "decide", "said-1")
    assert again.parent == ""
    assert of_event(collector.spans, "apply", "said-1").trace == again.trace
    assert len({one.trace for one in collector.spans}) == 3
    assert len(collector.spans) == 6

    prefix = traced.variables["MEMSIEVE_KAFKA__PREFIX"]
    told = json.loads(decisions[1].value or b"")
    assert again.name == f"decide {prefix}memory.events"
    assert again.attributes == {
        "messaging.system": "kafka",
        "messaging.operation.name": "decide",
        "messaging.operation.type": "process",
        "messaging.destination.name": f"{prefix}memory.events",
        "messaging.destination.partition.id": "0",
        "messaging.consumer.group.name": f"{prefix}memsieve-deduplicator",
        "messaging.kafka.offset": 1,
        "messaging.batch.message_count": again.attributes["messaging.batch.message_count"],
        "memsieve.scope": SCOPE,
        "memsieve.decision.kind": "reinforce",
        "memsieve.decision.id": told["decision_id"],
        "memsieve.event.id": "said-1",
        "memsieve.memory.ids": [told["memory"]["id"]],
    }
    sent = b"".join(collector.bodies)
    for text in SAID:
        assert text.encode() not in sent


async def test_decisions_are_the_same_bytes_with_tracing_and_without(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    found: list[list[LogRecord]] = []
    with Collector() as collector:
        for name, variables in (("with", collector.variables), ("without", {})):
            (folder := tmp_path / name).mkdir()
            installation = Installation.on(folder, kafka_bootstrap, f"{topic_prefix}{name}.")
            installation.memsieve("service", "topics", "create", "--partitions", "1")
            await published(installation, facts())
            with with_variables(installation, variables).running("serve") as service:
                await until(installation, "memory.changes", 3)
                found.append(await until(installation, "memory.decisions", 3))
                assert service.stop() == 0
    traced, plain = found
    assert [record.value for record in traced] == [record.value for record in plain]
    assert all(map(context, traced))
    assert not any(map(context, plain))


async def test_a_turns_trace_goes_on_to_the_memory_that_is_made_of_it(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    installation = Installation.on(tmp_path, kafka_bootstrap, topic_prefix)
    installation.memsieve("service", "topics", "create", "--partitions", "1")
    *_, turn = TURNS.read_text("utf-8").splitlines()
    (published := tmp_path / "turn.jsonl").write_text(f"{turn}\n", "utf-8")
    installation.memsieve("publish", str(published), "--turns")
    with Collector() as collector:
        sending = with_variables(installation, collector.variables)
        with sending.running("serve", "--extract") as service:
            await until(installation, "memory.changes", 2)
            assert service.stop() == 0
    applied = [one for one in collector.spans if one.name.startswith("apply")]
    assert len({one.attributes["memsieve.event.id"] for one in applied}) == 2
    for last in applied:
        decide = next(one for one in collector.spans if one.span == last.parent)
        extract = next(one for one in collector.spans if one.span == decide.parent)
        assert (extract.name, extract.parent) == (f"extract {topic_prefix}memory.turns", "")
        assert extract.attributes["memsieve.events"] == 2  # two sentences of one turn
        assert extract.attributes["memsieve.scope"] == "island/ana"


async def test_work_goes_on_where_no_collector_is_and_it_is_said_in_a_line(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    installation = Installation.on(tmp_path, kafka_bootstrap, topic_prefix)
    installation.memsieve("service", "topics", "create", "--partitions", "1")
    await published(installation, facts())
    with Collector(status=404) as refusing:
        sending = with_variables(installation, refusing.variables)
        with sending.running("serve") as service:
            await until(installation, "memory.changes", 3)
            wait_until(lambda: bool(told(service.events)), "it says that spans are lost")
            assert service.stop() == 0
            assert len(told(service.events)) == 1
            assert "opentelemetry" not in service.said


def told(lines: Sequence[str]) -> list[str]:
    return [line for line in lines if line.startswith("tracing: the collector takes no spans")]
