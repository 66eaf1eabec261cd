"""Steps of traces: which records have one, what they carry on, and what untrusted headers do."""

import asyncio
from collections.abc import Sequence

import pytest

from schemas.topics import DEAD_LETTERS, EVENTS, TURNS
from streams.model.ports.log import HandledBatch, LogRecord, OutgoingRecord
from streams.tracing.flow import Messaging, TracedProcess
from streams.tracing.port import Headers
from streams.tracing.world import OpenTelemetry
from tests.support.servers.otlp import Collector

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
VALID = f"00-{TRACE}-{SPAN}-01".encode()


class Sentences:
    """Implements ports.Process: makes the events and the letter that a test names."""

    topic, group = TURNS.name, "group"

    def __init__(self, outgoing: Sequence[OutgoingRecord]) -> None:
        self._outgoing = list(outgoing)
        self.told: list[int] = []

    async def claim(self, partition: int) -> int:
        return partition

    async def handle(self, partition: int, records: Sequence[LogRecord]) -> HandledBatch:
        del partition, records

        async def appended(offsets: list[int]) -> None:
            self.told = offsets

        return HandledBatch(self._outgoing, appended, "note")

    async def settle(self, partition: int) -> None: ...

    def release(self, partition: int) -> None: ...


def made(cause: int | None, topic: str = EVENTS.name, headers: Headers = ()) -> OutgoingRecord:
    return OutgoingRecord(topic, 0, b"acme/ana", b"words", headers, cause)


def turn(offset: int, headers: Headers = ()) -> LogRecord:
    return LogRecord(TURNS.name, 0, offset, b"acme/ana", b"words", headers)


async def handled(
    collector: Collector, records: Sequence[LogRecord], outgoing: Sequence[OutgoingRecord]
) -> HandledBatch:
    """Have records handled, and what is made of them acknowledged, until the spans are sent."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
        tracing = OpenTelemetry("memsieve-test", pytest.fail)
    process = Sentences(outgoing)
    traced = TracedProcess(process, tracing, Messaging("memsieve", str), "extract")
    done = await traced.handle(0, records)
    await done.appended(list(range(len(outgoing))))
    assert process.told == list(range(len(outgoing)))
    await tracing.close()
    return done


def parent_of(one: OutgoingRecord) -> str:
    return (dict(one.headers).get("traceparent") or b"").decode()


async def test_a_record_has_a_step_if_something_was_made_of_it() -> None:
    records = [turn(7), turn(8), turn(9)]
    outgoing = [made(9, DEAD_LETTERS.name), made(7), made(7), made(None)]
    with Collector() as collector:
        done = await handled(collector, records, outgoing)
    steps = {one.attributes["messaging.kafka.offset"]: one for one in collector.spans}
    assert steps.keys() == {7, 9}
    letter, first, second, other = done.outgoing
    assert parent_of(first) == parent_of(second)
    assert parent_of(first).startswith(f"00-{steps[7].trace}-{steps[7].span}-")
    assert parent_of(letter).startswith(f"00-{steps[9].trace}-{steps[9].span}-")
    assert parent_of(other) == ""
    assert steps[7].attributes["memsieve.events"] == 2
    assert steps[7].attributes["messaging.batch.message_count"] == 3
    assert [one.value for one in done.outgoing] == [b"words"] * 4
    assert done.metadata == "note"


async def test_the_context_of_a_step_takes_the_place_of_the_one_that_came() -> None:
    came = (("theirs", b"1"), ("traceparent", VALID), ("tracestate", b"a=1"))
    with Collector() as collector:
        done = await handled(collector, [turn(0, came)], [made(0, headers=came)])
    [step] = collector.spans
    assert (step.trace, step.parent) == (TRACE, SPAN)
    assert done.outgoing[0].headers == (
        ("theirs", b"1"),
        ("traceparent", f"00-{TRACE}-{step.span}-01".encode()),
        ("tracestate", b"a=1"),
    )


async def test_what_a_producer_does_not_sample_is_not_sent_and_still_carried_on() -> None:
    came = (("traceparent", f"00-{TRACE}-{SPAN}-00".encode()),)
    with Collector() as collector:
        done = await handled(collector, [turn(0, came)], [made(0)])
    assert collector.spans == []
    assert parent_of(done.outgoing[0]).startswith(f"00-{TRACE}-")
    assert parent_of(done.outgoing[0]).endswith("-00")


@pytest.mark.parametrize(
    "value", [None, b"", b"\xff\xfe", b"x" * 100_000, VALID + b"-more", f"00-{TRACE}-0-01".encode()]
)
async def test_a_context_that_cannot_be_read_begins_a_trace(value: bytes | None) -> None:
    with Collector() as collector:
        await handled(collector, [turn(0, (("traceparent", value),))], [made(0)])
    [step] = collector.spans
    assert step.parent == ""
    assert step.trace != TRACE


async def test_a_state_that_is_too_long_is_not_carried_on() -> None:
    came = (("traceparent", VALID), ("tracestate", b"a=" + b"1" * 600))
    with Collector() as collector:
        done = await handled(collector, [turn(0, came)], [made(0)])
    assert [name for name, _ in done.outgoing[0].headers] == ["traceparent"]
    assert collector.spans[0].trace == TRACE


async def test_a_batch_that_was_not_acknowledged_leaves_no_span() -> None:
    with Collector() as collector:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.address)
            tracing = OpenTelemetry("memsieve-test", pytest.fail)
        process = Sentences([made(0)])
        traced = TracedProcess(process, tracing, Messaging("memsieve", str), "extract")
        await traced.handle(0, [turn(0)])
        await tracing.close()
    assert collector.spans == []


async def test_a_collector_that_does_not_answer_holds_nothing_up_for_long() -> None:
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
        tracing = OpenTelemetry("memsieve-test", said.append)
    tracing.step("extract", (), tracing.now(), dict).end()
    async with asyncio.timeout(10):
        await tracing.close()
    assert said == ["tracing: the last spans are lost, the collector did not take them in 5 s"]
