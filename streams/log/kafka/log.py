"""The topics of a cluster as a log: read from any offset, append, commit, look up."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Final, Literal, TypeAlias, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import GroupCoordinatorNotAvailableError, KafkaError, for_code

from schemas.topics import TOPICS
from streams.log.kafka.connection import STOP_SECONDS, Connection, bounded, require_permitted
from streams.log.pages import page
from streams.model.ports.failures import Fatal, NoStore, Unreachable
from streams.model.ports.log import CommittedOffset, LogRecord, OutgoingRecord, records

REQUEST_BYTES_MAX: Final = 16_777_216
"""The largest record that is sent: `topics create` makes topics that accept it."""

_POLL_MILLISECONDS = 200
_FETCH_WAIT_MILLISECONDS = 10
"""Reads do not wait for more data: that would delay the next read, of another partition."""
_COORDINATOR_ATTEMPTS = 20
_COORDINATOR_PAUSE = 0.25
_LOG_APPEND_TIME = 1
_COMPACTED = frozenset(topic.name for topic in TOPICS if topic.compacted)

Answer = TypeVar("Answer")
Reader: TypeAlias = "AIOKafkaConsumer[bytes, bytes]"
Client = TypeVar("Client", "AIOKafkaConsumer[bytes, bytes]", AIOKafkaProducer, AIOKafkaAdminClient)


@dataclass(frozen=True)
class Sending:
    """How records are batched before they are sent.

    The settings of the same names document the reasons.
    """

    linger_milliseconds: int = 5
    batch_bytes: int = 524_288
    compression: Literal["lz4", "gzip", "none"] = "lz4"


class KafkaLog:
    """Implements ports.Log and ports.Lookup over a cluster.

    Names and positions are memsieve's own: the connection's prefix does not leave this class. A
    group's commits go through its member if this process has one, else through a reader that is not
    a member. Every call may raise Unreachable, NoServer or Fatal.
    """

    is_indexed = False

    def __init__(self, connection: Connection, sending: Sending = Sending()) -> None:
        self._connection = connection
        self._sending = sending
        self._members: dict[str, Reader] = {}
        self._readers: dict[str, Reader] = {}
        self._producer: AIOKafkaProducer | None = None
        self._consumer: Reader | None = None
        self._admin: AIOKafkaAdminClient | None = None
        self._endings: dict[AIOKafkaProducer, asyncio.Task[None]] = {}
        self._next: tuple[TopicPartition, int] | None = None
        self._reading = asyncio.Lock()
        self._opening = asyncio.Lock()

    def member(self, group: str, consumer: Reader) -> None:
        """Send a group's commits through its member, which alone may make them."""
        self._members[group] = consumer

    async def close(self) -> None:
        """Flush what was appended; drop the rest. Bounded in time."""
        for consumer in (self._consumer, *self._readers.values()):
            if consumer is not None:
                await bounded(consumer.stop())
                await bounded(consumer._client.close())  # noqa: SLF001 - a stop cut short leaves it
        if self._admin is not None:
            await bounded(self._admin.close())
        if self._producer is not None:
            await _discard(self._producer)

    async def partitions(self, topic: str) -> int:
        async with self._connection.meanings():
            admin = await self._opened_admin()
            [found] = await admin.describe_topics([self._connection.named(topic)])
            require_permitted(found["topic"], found["error_code"])
        if found["error_code"] != 0 or not found["partitions"]:
            raise NoStore(
                f"topic {self._connection.named(topic)} does not exist at "
                f"{self._connection.bootstrap}: make it with memsieve service topics create"
            )
        return len(found["partitions"])

    async def append(self, records: Sequence[OutgoingRecord]) -> list[int]:
        if not records:
            return []
        async with self._producing() as producer:
            return await self._send(producer, records)

    @asynccontextmanager
    async def _producing(self) -> AsyncGenerator[AIOKafkaProducer]:
        """Lend the producer; if what is done with it fails, it is done with."""
        async with self._connection.meanings():
            producer = await self._opened_producer()
        try:
            async with self._connection.meanings():
                yield producer
        except BaseException:
            await self._retire(producer)
            raise

    async def _send(
        self, producer: AIOKafkaProducer, records: Sequence[OutgoingRecord]
    ) -> list[int]:
        places = {(self._connection.named(one.topic), one.partition) for one in records}
        for name, partition in places:
            if partition not in await producer.partitions_for(name):
                raise Fatal(
                    f"topic {name} has no partition {partition}: memsieve service topics check"
                )
        offsets: list[int] = []
        for name, run in groupby(records, key=lambda record: self._connection.named(record.topic)):
            sent = [
                await producer.send(
                    name,
                    record.value,
                    record.key,
                    record.partition,
                    headers=list(record.headers),
                )
                for record in run
            ]
            # The next topic's records may refer to these, and must not exist without them.
            offsets += [place.offset for place in await asyncio.gather(*sent)]
        return offsets

    async def _retire(self, producer: AIOKafkaProducer) -> None:
        """Stop a producer that failed: what it buffers must not follow newer decisions.

        Concurrent senders on it fail as well, and wait for the same stop.
        """
        if self._producer is producer:
            self._producer = None
            ending = self._endings[producer] = asyncio.create_task(_discard(producer))
            ending.add_done_callback(lambda _: self._endings.pop(producer))
        if producer in self._endings:
            await asyncio.shield(self._endings[producer])

    async def read(self, topic: str, partition: int, offset: int, limit: int) -> list[LogRecord]:
        place = self._connection.place(topic, partition)
        async with self._reading, self._connection.meanings():
            end = await self._end(place)
            if offset >= end:
                return []
            consumer = await self._seek(place, offset)
            while True:
                got = await consumer.getmany(
                    place, timeout_ms=_POLL_MILLISECONDS, max_records=limit
                )
                if found := got.get(place):
                    records = page(record_of(one, topic) for one in found)
                    is_all = len(records) == len(found)
                    self._next = (place, records[-1].offset + 1) if is_all else None
                    return records
                if await consumer.position(place) >= end:
                    return []  # only transaction markers were left

    async def _seek(self, place: TopicPartition, offset: int) -> Reader:
        consumer = await self._opened_consumer()
        if self._next is None or self._next[0] != place:
            consumer.assign([place])
        if self._next != (place, offset):
            consumer.seek(place, offset)
            self._next = (place, offset)
        return consumer

    async def beginning(self, topic: str, partition: int) -> int:
        place = self._connection.place(topic, partition)
        async with self._connection.meanings():
            consumer = await self._opened_consumer()
            beginnings = await consumer.beginning_offsets([place])
        return beginnings[place]

    async def end(self, topic: str, partition: int) -> int:
        async with self._connection.meanings():
            return await self._end(self._connection.place(topic, partition))

    async def erase(self, topic: str, partition: int, offsets: Sequence[int]) -> None:
        """Mark records of a compacted topic for compaction; those of other topics expire.

        For each it appends a tombstone: a record with the same key and no value.
        """
        if topic not in _COMPACTED or not offsets:
            return
        found = [one for offset in offsets for one in await self.read(topic, partition, offset, 1)]
        keys = [one.key for one in found if one.offset in set(offsets) and one.value is not None]
        name = self._connection.named(topic)
        async with self._producing() as producer:
            sent = [await producer.send(name, None, key, partition) for key in keys]
            await asyncio.gather(*sent)

    async def _end(self, place: TopicPartition) -> int:
        consumer = await self._opened_consumer()
        ends = await consumer.end_offsets([place])
        return ends[place]

    async def commit(
        self, group: str, topic: str, partition: int, position: CommittedOffset
    ) -> None:
        place = self._connection.place(topic, partition)
        async with self._connection.meanings():
            consumer = self._members.get(group) or await self._opened_reader(group, place)
            await consumer.commit({place: (position.offset, position.metadata)})

    async def committed(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        """Return the group's committed offset, as its coordinator reports it.

        Kafka reports -1 if nothing was committed. An answer without the partition means unknown: a
        coordinator that is still loading gives it.
        """
        place = self._connection.place(topic, partition)
        name = self._connection.named(group)
        async with self._connection.meanings():
            admin = await self._opened_admin()
            answer = await _coordinated(
                lambda: admin.list_consumer_group_offsets(name, partitions=[place])
            )
        found = answer.get(place)
        if found is None:
            raise Unreachable(f"Kafka does not say what group {name} has committed")
        return None if found.offset < 0 else CommittedOffset(found.offset, found.metadata)

    async def has_members(self, group: str) -> bool:
        """Return whether any process consumes as this group."""
        name = self._connection.named(group)
        async with self._connection.meanings():
            admin = await self._opened_admin()
            [answer] = await _coordinated(lambda: admin.describe_consumer_groups([name]))
            [(code, _, _, _, _, members, *_)] = answer.groups
            if code:
                raise for_code(code)(f"group {name}")
        return bool(members)

    async def find(self, topic: str, header: str, values: Sequence[str]) -> list[LogRecord]:
        wanted = {value.encode("utf-8", "surrogatepass") for value in values}
        return await self._having(topic, [header], wanted.__contains__)

    async def find_beginning(
        self, topic: str, headers: Sequence[str], beginning: str
    ) -> list[LogRecord]:
        wanted = beginning.encode("utf-8", "surrogatepass")
        return await self._having(topic, headers, lambda value: value.startswith(wanted))

    async def _having(
        self, topic: str, headers: Sequence[str], accepts: Callable[[bytes], bool]
    ) -> list[LogRecord]:
        """Scan the whole topic: Kafka has no index of headers."""
        return [
            record
            async for record in records(self, topic)
            if any(
                name in headers and value is not None and accepts(value)
                for name, value in record.headers
            )
        ]

    async def _opened_consumer(self) -> Reader:
        async with self._opening:
            if self._consumer is None:
                consumer = self._make_consumer(None)
                self._consumer = await _started(consumer, consumer.stop)
            return self._consumer

    async def _opened_reader(self, group: str, place: TopicPartition) -> Reader:
        """Return a consumer that commits for a group without being its member."""
        async with self._opening:
            if group not in self._readers:
                reader = self._make_consumer(self._connection.named(group))
                self._readers[group] = await _started(reader, reader.stop)
            reader = self._readers[group]
            if place not in reader.assignment():
                reader.assign([*reader.assignment(), place])
            return reader

    async def _opened_producer(self) -> AIOKafkaProducer:
        async with self._opening:
            if self._producer is None:
                compression = self._sending.compression
                producer = AIOKafkaProducer(
                    enable_idempotence=True,
                    compression_type=None if compression == "none" else compression,
                    linger_ms=self._sending.linger_milliseconds,
                    max_batch_size=self._sending.batch_bytes,
                    max_request_size=REQUEST_BYTES_MAX,
                    **self._connection.options(),
                )
                self._producer = await _started(producer, producer.stop)
            return self._producer

    async def _opened_admin(self) -> AIOKafkaAdminClient:
        async with self._opening:
            if self._admin is None:
                admin = AIOKafkaAdminClient(**self._connection.options())
                self._admin = await _started(admin, admin.close)
            return self._admin

    def _make_consumer(self, group: str | None) -> Reader:
        return AIOKafkaConsumer(
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            fetch_max_wait_ms=_FETCH_WAIT_MILLISECONDS,
            **self._connection.options(),
        )


async def _started(client: Client, stop: Callable[[], Awaitable[None]]) -> Client:
    try:
        await client.start()
    except BaseException:
        await bounded(stop())
        raise
    return client


async def _discard(producer: AIOKafkaProducer) -> None:
    """Stop a producer so that it sends nothing afterwards."""
    try:
        await asyncio.wait_for(producer.stop(), STOP_SECONDS)
    except (TimeoutError, OSError, KafkaError):
        await producer._sender.close()  # noqa: SLF001 - stop() would wait until all is sent
        await producer.client.close()


async def _coordinated(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """Query a group's coordinator; the first query ever makes the cluster choose one."""
    for _ in range(_COORDINATOR_ATTEMPTS):
        with suppress(GroupCoordinatorNotAvailableError):
            return await ask()
        await asyncio.sleep(_COORDINATOR_PAUSE)
    return await ask()


def record_of(found: "ConsumerRecord[bytes, bytes]", topic: str) -> LogRecord:
    """Return a record as the flow sees it, under memsieve's own name of its topic."""
    appended_at = None
    if found.timestamp_type == _LOG_APPEND_TIME:
        appended_at = datetime.fromtimestamp(found.timestamp / 1_000, UTC)
    return LogRecord(
        topic=topic,
        partition=found.partition,
        offset=found.offset,
        key=found.key,
        value=found.value,
        headers=tuple(found.headers),
        appended_at=appended_at,
    )
