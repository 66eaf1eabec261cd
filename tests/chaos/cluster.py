"""A cluster's topics, read whole, and how far its groups have got."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from aiokafka import AIOKafkaConsumer, TopicPartition

from schemas.topics import DECISIONS, EVENTS
from streams.log.kafka.connection import Connection
from streams.log.kafka.log import KafkaLog, record_of
from streams.model.ports.failures import Transient
from streams.model.ports.log import Log, LogRecord, OutgoingRecord
from streams.stage.flow.takeover import DEDUPLICATOR_GROUP
from streams.stage.flow.writer import WRITER_GROUP

_GROUPS = {EVENTS.name: DEDUPLICATOR_GROUP, DECISIONS.name: WRITER_GROUP}
_POLL_MILLISECONDS = 500
_PAUSE_SECONDS = 0.2


@dataclass(frozen=True)
class Progress:
    """How far it has got: events published and decided, records of decisions and applied ones."""

    events: int
    decided: int
    decisions: int
    applied: int

    @property
    def settled(self) -> bool:
        return self.events == self.decided and self.decisions == self.applied

    def __str__(self) -> str:
        return (
            f"{self.events:,} events, {self.decided:,} decided; {self.decisions:,} records of "
            f"decisions, {self.applied:,} applied"
        )


async def whole(connection: Connection, topic: str, partitions: int) -> list[list[LogRecord]]:
    """Return every record of a topic, partition by partition, each with its time."""
    found: list[list[LogRecord]] = [[] for _ in range(partitions)]
    places = [connection.place(topic, partition) for partition in range(partitions)]
    consumer: AIOKafkaConsumer[bytes, bytes] = AIOKafkaConsumer(
        enable_auto_commit=False, auto_offset_reset="earliest", **connection.options()
    )
    await consumer.start()
    try:
        consumer.assign(places)
        ends = await consumer.end_offsets(places)
        while await _behind(consumer, ends):
            for records in (await consumer.getmany(timeout_ms=_POLL_MILLISECONDS)).values():
                for one in records:
                    at = datetime.fromtimestamp(one.timestamp / 1_000, UTC)
                    timed = replace(record_of(one, topic), appended_at=at)
                    found[one.partition].append(timed)
    finally:
        await consumer.stop()
    return found


async def _behind(
    consumer: "AIOKafkaConsumer[bytes, bytes]", ends: Mapping[TopicPartition, int]
) -> bool:
    return any([await consumer.position(place) < end for place, end in ends.items()])


async def progress(log: Log) -> Progress:
    """Return how far the groups have got. Transient where the cluster does not say."""
    events, decided = await _followed(log, EVENTS.name)
    decisions, applied = await _followed(log, DECISIONS.name)
    return Progress(events, decided, decisions, applied)


async def _followed(log: Log, topic: str) -> tuple[int, int]:
    """Return how many records a topic has, and how many of them its group has committed."""
    ends = committed = 0
    for partition in range(await log.partitions(topic)):
        place = await log.committed(_GROUPS[topic], topic, partition)
        committed += 0 if place is None else place.offset
        ends += await log.end(topic, partition)
    return ends, committed


async def settled(
    connection: Connection, seconds: float, meanwhile: Callable[[Progress], None]
) -> Progress:
    """Wait until all is decided and applied; return how far it has got, at the latest then.

    Twice in a row: an event that is sent on is there again before it is done with.
    """
    end = time.monotonic() + seconds
    before: Progress | None = None
    log = KafkaLog(connection)
    try:
        while True:
            with suppress(Transient):
                now = await progress(log)
                if (now.settled and now == before) or time.monotonic() > end:
                    return now
                before = now
                meanwhile(now)
            await asyncio.sleep(_PAUSE_SECONDS)
    finally:
        await log.close()


async def publish(log: Log, records: Sequence[OutgoingRecord]) -> int:
    """Append, again where that fails, as a producer does; return how often it failed.

    What failed may be there nevertheless: then it is there twice.
    """
    failed = 0
    while True:
        try:
            await log.append(records)
        except Transient:
            failed += 1
            await asyncio.sleep(_PAUSE_SECONDS)
        else:
            return failed
