"""A consumer group's member on FastStream: it delivers batches and rebalances, and never commits.

No record is decoded before the assignee gets it: a parser that raises would lose its batch.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias, cast

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, ConsumerRecord, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from faststream import AckPolicy
from faststream.kafka import KafkaBroker, KafkaMessage
from faststream.kafka.message import KafkaAckableMessage
from faststream.kafka.schemas import Topic

from streams.log.kafka.connection import Connection, bounded
from streams.log.kafka.log import KafkaLog, record_of
from streams.model.ports.failures import Fatal
from streams.model.ports.log import Assignee, LogRecord

_GRACE_SECONDS = 2.0
"""The current batch has already ended; this covers the little that follows it."""

Raw: TypeAlias = "tuple[ConsumerRecord[bytes, bytes], ...]"


@dataclass(frozen=True)
class Fetching:
    """How a member fetches records and sends heartbeats.

    The settings of the same names document the reasons.
    """

    poll_milliseconds: int = 15
    fetch_bytes_min: int = 1
    fetch_wait_milliseconds: int = 100
    heartbeats_per_session: int = 10
    rebalance_margin_seconds: int = 30
    poll_interval_seconds: int = 300


class Membership:
    """This process in the groups of a cluster: it only consumes; KafkaLog sends."""

    def __init__(
        self,
        connection: Connection,
        *,
        session_seconds: int,
        drain_seconds: float,
        fetching: Fetching = Fetching(),
    ) -> None:
        """Prepare; `start` joins.

        A member that is silent for `session_seconds` loses its partitions; one that drains may
        delay a rebalance by `drain_seconds`.
        """
        self.connection = connection
        self.fetching = fetching
        self.session_milliseconds = session_seconds * 1_000
        self.loops = _Loops()
        margin = fetching.rebalance_margin_seconds
        self.rebalance_milliseconds = round((drain_seconds + margin) * 1_000)
        # Joining a group takes until the slowest member has released its partitions or is expired.
        patience = max(self.session_milliseconds, self.rebalance_milliseconds) + margin * 1_000
        self.broker = KafkaBroker(
            connection.servers,
            client_id="memsieve",
            request_timeout_ms=max(patience, round(connection.request_seconds * 1_000)),
            security=connection.security(),
            consumer_only=True,
            allow_auto_create_topics=False,
            graceful_timeout=_GRACE_SECONDS,
            logger=self.loops,
        )

    def subscribe(self, topic: str, group: str, *, records_max: int) -> "Subscription":
        """Prepare a group's member."""
        return Subscription(self, topic, group, records_max)

    async def start(self) -> None:
        """Join the groups, however long that takes; may be retried after a failure."""
        try:
            async with self.connection.meanings(bounded=False):
                await self.broker.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Leave the groups. Bounded in time."""
        await bounded(self.broker.stop())


class Subscription:
    """Implements ports.GroupMember: one group's member, subscribed to one topic.

    Each partition's records are delivered by a task of their own, one batch after the other: a
    partition waits for no other, and what comes during its batch is its next one. Up to
    `records_max` may wait before no more are fetched.
    """

    def __init__(self, of: Membership, topic: str, group: str, records_max: int) -> None:
        connection, fetching = of.connection, of.fetching
        self._connection = connection
        self._loops = of.loops
        self._topic = topic
        self._group = group
        self._records_max = records_max
        self._waiting: dict[int, list[LogRecord]] = {}
        self._deliveries: dict[int, asyncio.Task[None]] = {}
        self._taken = asyncio.Event()
        self._subscriber = of.broker.subscriber(
            Topic(connection.named(topic), declare=False),
            batch=True,
            max_records=records_max,
            batch_timeout_ms=fetching.poll_milliseconds,
            group_id=connection.named(group),
            ack_policy=AckPolicy.MANUAL,
            no_reply=True,
            auto_offset_reset="earliest",
            partition_assignment_strategy=(RangePartitionAssignor,),
            fetch_min_bytes=fetching.fetch_bytes_min,
            fetch_max_wait_ms=fetching.fetch_wait_milliseconds,
            session_timeout_ms=of.session_milliseconds,
            heartbeat_interval_ms=of.session_milliseconds // fetching.heartbeats_per_session,
            isolation_level="read_committed",
            rebalance_timeout_ms=of.rebalance_milliseconds,
            max_poll_interval_ms=fetching.poll_interval_seconds * 1_000,
            listener=_Listener(self),
            parser=self._parse,
            decoder=_raw,
        )
        self._subscriber(self._handle)

    def give_to(
        self,
        assignee: Assignee,
        log: KafkaLog,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Set the receiver of the records, and send its commits through this member.

        `report` gets the partitions that are assigned and revoked.
        """
        self._assignee = assignee
        self._log = log
        self._report = report

    @property
    def polling(self) -> bool:
        """Whether the loop that fetches records is running."""
        tasks = self._subscriber.tasks
        return self._subscriber.running and any(not task.done() for task in tasks)

    @property
    def trouble(self) -> Fatal | None:
        """Why the loop cannot continue: it is refused, or its client cannot read a record."""
        if (refusal := self._connection.refusal(self._loops.error)) is not None:
            return refusal
        failed = [task.exception() for task in self._subscriber.tasks if _has_failed(task)]
        if not failed:
            return None
        reason = f"{type(failed[0]).__name__} {failed[0]}"
        return Fatal(
            f"{self._topic} holds a record that Kafka's client cannot read ({reason}), behind what "
            f"group {self._connection.named(self._group)} has committed: find it with another "
            "client, and set the group's offset after it"
        )

    def pause(self, partition: int) -> None:
        self._waiting.pop(partition, None)
        self._taken.set()
        place = self._connection.place(self._topic, partition)
        if place in self._consumer.assignment():
            self._consumer.pause(place)

    def resume(self, partition: int, offset: int) -> None:
        place = self._connection.place(self._topic, partition)
        if place in self._consumer.assignment():
            self._consumer.seek(place, offset)
            self._consumer.resume(place)

    def behind(self, partition: int, offset: int) -> int:
        """Return how many records follow from the offset on, by the last known high watermark."""
        place = self._connection.place(self._topic, partition)
        known = place in self._consumer.assignment()
        return max(0, (self._consumer.highwater(place) or 0) - offset) if known else 0

    def assigned(self, places: set[TopicPartition]) -> None:
        self._log.member(self._group, self._consumer)
        self._report(f"{self._topic}: has partition(s) {_listed(places)}")
        self._assignee.assigned([place.partition for place in places])

    async def revoked(self, places: set[TopicPartition]) -> None:
        if places:
            self._report(f"{self._topic}: lets partition(s) {_listed(places)} go")
        await self._assignee.revoked([place.partition for place in places])

    @property
    def _consumer(self) -> "AIOKafkaConsumer[bytes, bytes]":
        consumer = cast("AIOKafkaConsumer[bytes, bytes] | None", self._subscriber.consumer)
        if consumer is None:
            raise Fatal(f"the subscription to {self._topic} has not begun")
        return consumer

    async def _parse(self, batch: Raw) -> KafkaAckableMessage:
        return KafkaAckableMessage(
            body=[record.value or b"" for record in batch],
            headers={},
            raw_message=batch,
            message_id=f"{batch[0].offset}-{batch[-1].offset}",
            consumer=self._consumer,
        )

    async def _handle(self, message: KafkaMessage) -> None:
        """Pass the fetched records on; return when more may be fetched."""
        batch = cast("Raw", message.raw_message)
        records = (record_of(record, self._topic) for record in batch)
        for partition, some in groupby(records, key=lambda record: record.partition):
            self._waiting.setdefault(partition, []).extend(some)
            if partition not in self._deliveries:
                task = asyncio.create_task(self._deliver(partition))
                self._deliveries[partition] = task
        while sum(map(len, self._waiting.values())) >= self._records_max:
            self._taken.clear()
            await self._taken.wait()

    async def _deliver(self, partition: int) -> None:
        """Deliver a partition's records until none wait."""
        while waiting := self._waiting.pop(partition, None):
            batch, later = waiting[: self._records_max], waiting[self._records_max :]
            if later:
                self._waiting[partition] = later
            self._taken.set()
            try:
                await self._assignee.handle(batch)
            except Exception as error:  # noqa: BLE001 - a mistake of ours, and no reason to stop
                self._loops.error = error
        del self._deliveries[partition]


class _Loops:
    """Takes what FastStream's loops would log: they go on after every error of Kafka's client."""

    def __init__(self) -> None:
        self.error: BaseException | None = None

    def log(
        self,
        _level: int,
        _message: object,
        /,
        *,
        exc_info: BaseException | None = None,
        extra: Mapping[str, Any] | None = None,  # noqa: ARG002 - FastStream's signature
    ) -> None:
        self.error = exc_info or self.error


def _listed(places: set[TopicPartition]) -> str:
    return ", ".join(str(place.partition) for place in sorted(places)) or "none"


def _has_failed(task: asyncio.Task[Any]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is not None


async def _raw(message: KafkaMessage) -> Any:  # noqa: ANN401 - whatever came
    """Decode nothing. A coroutine, because FastStream would run a plain function in a thread."""
    return message.raw_message


class _Listener(ConsumerRebalanceListener):
    """Passes rebalances on. A partition is assigned only after its last owner has released it."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        await self._subscription.revoked(revoked)

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self._subscription.assigned(assigned)
