"""From publish to decision on Kafka at a steady rate, and from a service's start to its first.

Usage: python benchmarks/kafka/latency.py [--seconds N] [--rate N] [--starts N] [--out FILE]

`memsieve service serve` has three partitions; an ordinary producer publishes distinct short texts at their
due times, whatever becomes of those before, and an ordinary consumer reads decisions and events. A
latency is from the time at which an event was due, not that at which it could be sent. Beside it,
for the same events, when the consumer had the event itself: what Kafka alone takes, there and back,
with the same clients on the same cores. The run is cut into windows, whose percentiles are the
spread. A start is from a new process until the consumer has the decision on an event that waited.
"""

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from benchmarks.harness.deciding import event
from benchmarks.harness.material import Texts, short_texts
from benchmarks.harness.measuring import Result, Spread, arguments, percentile, ratio
from benchmarks.harness.through_kafka import PARTITIONS, broker, installed, serving
from schemas.codec import EVENT
from schemas.events import Remember
from schemas.topics import DECISIONS, EVENTS
from streams.model.scope import partition_of

_WARM = 100
"""Warm-up events, not measured, because the first ones trigger lazy loading."""
_WINDOWS = 5
_PATIENCE_SECONDS = 120.0
_POLL_MILLISECONDS = 200


def main() -> None:
    options = _options()
    count = options.rate * options.seconds
    material = short_texts(limit=count + _WARM)
    events = [event(n, f"bench/{n // 70}", text) for n, text in enumerate(material.texts)]
    with broker() as bootstrap:
        if bootstrap is None:
            return
        starts = [_start(bootstrap, f"{os.getpid()}-start-{n}") for n in range(options.starts)]
        with serving(bootstrap, f"{os.getpid()}-latency") as served:
            clients = _Clients(bootstrap, served.prefix)
            seen = asyncio.run(_latencies(clients, events, options.rate))
    _result(material, options.rate, seen, starts).give(options.out)


@dataclass(frozen=True)
class Seen:
    """Milliseconds from when each event was due until it, and its decision, arrived."""

    events: list[float] = field(default_factory=list[float])
    decisions: list[float] = field(default_factory=list[float])

    def windows(self, of: Sequence[float], share: float) -> list[float]:
        size = -(-len(of) // _WINDOWS)
        return [percentile(of[n : n + size], share) for n in range(0, len(of), size)]


@dataclass(frozen=True)
class _Clients:
    """An ordinary producer and consumer of an installation's topics."""

    bootstrap: str
    prefix: str

    @asynccontextmanager
    async def producer(self) -> AsyncGenerator[AIOKafkaProducer]:
        made = AIOKafkaProducer(bootstrap_servers=self.bootstrap, acks="all")
        await made.start()
        try:
            yield made
        finally:
            await made.stop()

    @asynccontextmanager
    async def arrivals(self) -> AsyncGenerator["_Arrivals"]:
        consumer: AIOKafkaConsumer[bytes, bytes] = AIOKafkaConsumer(
            f"{self.prefix}{EVENTS.name}",
            f"{self.prefix}{DECISIONS.name}",
            bootstrap_servers=self.bootstrap,
            auto_offset_reset="earliest",
        )
        await consumer.start()
        try:
            yield _Arrivals(consumer, f"{self.prefix}{EVENTS.name}")
        finally:
            await consumer.stop()

    async def publish(self, producer: AIOKafkaProducer, one: Remember) -> None:
        """Send an event without waiting for the broker's acknowledgement."""
        await producer.send(
            f"{self.prefix}{EVENTS.name}",
            value=EVENT.encode(one),
            key=one.scope.encode(),
            partition=partition_of(one.scope, PARTITIONS),
        )


class _Arrivals:
    """The arrival times of events and decisions, by event id."""

    def __init__(self, consumer: "AIOKafkaConsumer[bytes, bytes]", events: str) -> None:
        self._consumer = consumer
        self._events = events
        self.events: dict[str, float] = {}
        self.decisions: dict[str, float] = {}

    async def until_decided(self, count: int, *, lasting: float = 0.0) -> None:
        """Return once `count` events are decided on; they are published over `lasting` seconds."""
        async with asyncio.timeout(lasting + _PATIENCE_SECONDS):
            while len(self.decisions) < count:
                await self._read()

    async def _read(self) -> None:
        batches = await self._consumer.getmany(timeout_ms=_POLL_MILLISECONDS)
        now = time.perf_counter()
        for records in batches.values():
            for record in records:
                said: dict[str, Any] = json.loads(record.value or b"{}")
                if record.topic == self._events:
                    self.events[said["event_id"]] = now
                elif "event" in said:  # a fence has none
                    self.decisions[said["event"]["event_id"]] = now


async def _latencies(clients: _Clients, events: Sequence[Remember], rate: int) -> Seen:
    warm, measured = events[:_WARM], events[_WARM:]
    async with clients.arrivals() as arrivals, clients.producer() as producer:
        for one in warm:
            await clients.publish(producer, one)
        await arrivals.until_decided(len(warm))
        lasting = len(measured) / rate
        reading = asyncio.create_task(arrivals.until_decided(len(events), lasting=lasting))
        began = time.perf_counter()
        due = [began + n / rate for n in range(len(measured))]
        for one, at in zip(measured, due, strict=True):
            await asyncio.sleep(max(0.0, at - time.perf_counter()))
            await clients.publish(producer, one)
        await reading
    return Seen(
        [(arrivals.events[e.event_id] - at) * 1e3 for e, at in zip(measured, due, strict=True)],
        [(arrivals.decisions[e.event_id] - at) * 1e3 for e, at in zip(measured, due, strict=True)],
    )


def _start(bootstrap: str, name: str) -> float:
    """Return the seconds from a service's start until a waiting event is decided on."""
    with tempfile.TemporaryDirectory() as directory:
        installation, prefix = installed(Path(directory), bootstrap, name)
        clients = _Clients(bootstrap, prefix)
        asyncio.run(_leave(clients))
        started = time.perf_counter()
        with installation.running("serve") as service:
            asyncio.run(_until_decided(clients))
            taken = time.perf_counter() - started
            service.stop()
    return taken


async def _leave(clients: _Clients) -> None:
    async with clients.producer() as producer:
        await clients.publish(producer, event(0, "bench/first", "The hall has a clock."))


async def _until_decided(clients: _Clients) -> None:
    async with clients.arrivals() as arrivals:
        await arrivals.until_decided(1)


def _result(material: Texts, rate: int, seen: Seen, starts: Sequence[float]) -> Result:
    windows = {
        f"{what}_p{round(share * 100)}": seen.windows(of, share)
        for what, of in (("decision", seen.decisions), ("kafka_alone", seen.events))
        for share in (0.5, 0.99)
    }
    return Result(
        benchmark="latency",
        method=str(__doc__),
        material={**material.about(), "events_per_second": rate, "partitions": PARTITIONS},
        figures={
            "decision_p50_over_kafka_alone": ratio(
                windows["decision_p50"], windows["kafka_alone_p50"], "lower"
            ),
            "decision_p50_ms": percentile(seen.decisions, 0.5),
            "decision_p99_ms": percentile(seen.decisions, 0.99),
            "kafka_alone_p50_ms": percentile(seen.events, 0.5),
            "kafka_alone_p99_ms": percentile(seen.events, 0.99),
            "start_to_first_decision_seconds": Spread.of(starts, "lower"),
        },
        rounds={**windows, "starts": starts},
        packages=("aiokafka", "onnxruntime", "qdrant-edge-py"),
    )


def _options() -> argparse.Namespace:
    parser = arguments(__doc__, rounds=None)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--rate", type=int, default=50, help="events per second")
    parser.add_argument("--starts", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    main()
