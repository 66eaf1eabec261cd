"""A group's member on a real broker: what comes, in what portions, and who has what when."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer

from streams.log.kafka.connection import Connection
from streams.log.kafka.log import KafkaLog
from streams.log.kafka.subscribe import Membership, Subscription
from streams.model.ports.failures import Unreachable
from streams.model.ports.log import CommittedOffset, LogRecord, OutgoingRecord
from tests.support.servers.kafka import free_port
from tests.support.servers.kafka_topics import make_topics

TOPIC, OTHER, GROUP = "events", "other", "group"
PARTITIONS = 3
PATIENCE_SECONDS = 30.0
SESSION_SECONDS = 6
"""The shortest that a broker allows; heartbeats tell of a rebalance ten times as often."""


class Taking:
    """Implements ports.Assignee: keeps what it gets, and lets go of it at once."""

    def __init__(self, name: str = "one", journal: list[str] | None = None) -> None:
        self._name = name
        self.journal: list[str] = [] if journal is None else journal
        self.owned: set[int] = set()
        self.batches: list[list[LogRecord]] = []
        self._changed = asyncio.Event()

    @property
    def records(self) -> list[LogRecord]:
        return [record for batch in self.batches for record in batch]

    def offsets(self, partition: int) -> list[int]:
        return [record.offset for record in self.records if record.partition == partition]

    def assigned(self, partitions: Sequence[int]) -> None:
        self.owned = set(partitions)
        self.journal.append(f"{self._name} has {sorted(partitions)}")
        self._changed.set()

    async def revoked(self, partitions: Sequence[int]) -> None:
        self.owned -= set(partitions)
        if partitions:
            self.journal.append(f"{self._name} lets go of {sorted(partitions)}")
        self._changed.set()

    async def handle(self, records: Sequence[LogRecord]) -> None:
        self.batches.append(list(records))
        self._changed.set()

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until it is true; only what is told to us can make it so."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not true():
                self._changed.clear()
                await self._changed.wait()


class Raising(Taking):
    """Does what no assignee may."""

    async def handle(self, records: Sequence[LogRecord]) -> None:
        await super().handle(records)
        raise ValueError("a mistake")


class Finishing(Taking):
    """Finishes what is under way before it lets go: appends, and commits as the member it is."""

    def __init__(self, log: KafkaLog, name: str, journal: list[str]) -> None:
        super().__init__(name, journal)
        self._log = log

    async def revoked(self, partitions: Sequence[int]) -> None:
        for number in range(20 if partitions else 0):
            await self._log.append([OutgoingRecord(OTHER, 0, None, str(number).encode())])
        for partition in partitions:
            await self._log.commit(GROUP, TOPIC, partition, CommittedOffset(20, "let go of"))
        await super().revoked(partitions)


@dataclass(frozen=True)
class Cluster:
    """A broker with our topic, a log on it, and somebody who publishes."""

    connection: Connection
    log: KafkaLog

    async def publish(self, partition: int, *records: Mapping[str, Any]) -> None:
        """Append records as others may: nothing of what they say is ours."""
        topic = self.connection.named(TOPIC)
        async with AIOKafkaProducer(**self.connection.options()) as producer:
            for record in records:
                await producer.send_and_wait(topic, partition=partition, **record)

    async def publish_numbers(self, partition: int, numbers: int) -> None:
        await self.publish(partition, *({"value": str(n).encode()} for n in range(numbers)))

    async def committed(self) -> list[CommittedOffset | None]:
        return [await self.log.committed(GROUP, TOPIC, p) for p in range(PARTITIONS)]

    @asynccontextmanager
    async def member(
        self, assignee: Taking, *, records_max: int = 100
    ) -> AsyncGenerator[Subscription]:
        """Let an assignee be a member of the group meanwhile; it has its partitions."""
        membership = Membership(self.connection, session_seconds=SESSION_SECONDS, drain_seconds=5.0)
        subscription = membership.subscribe(TOPIC, GROUP, records_max=records_max)
        subscription.give_to(assignee, self.log)
        assert not subscription.polling
        try:
            await membership.start()
            await assignee.until(lambda: bool(assignee.owned))
            yield subscription
        finally:
            await membership.stop()
        assert not subscription.polling


@pytest.fixture
async def cluster(kafka_bootstrap: str, topic_prefix: str) -> AsyncGenerator[Cluster]:
    connection = Connection(kafka_bootstrap, topic_prefix, request_seconds=10.0)
    await make_topics(connection, {TOPIC: PARTITIONS, OTHER: 1})
    log = KafkaLog(connection)
    yield Cluster(connection, log)
    await log.close()


HOSTILE: dict[str, dict[str, Any]] = {
    "a null value": {"value": None, "key": b"acme/ana"},
    "an empty value": {"value": b""},
    "a value that is not UTF-8": {"value": b"\xff\x00"},
    "a key that is not UTF-8": {"value": b"{}", "key": b"\xff"},
    "a header that is not UTF-8": {"value": b"{}", "headers": [("who", b"\xff\xfe")]},
    "a null header": {"value": b"{}", "headers": [("who", None)]},
    "no JSON, said to be": {
        "value": b"{Ana",
        "headers": [("content-type", b"application/json")],
    },
    "a content type that is none": {"value": b"{}", "headers": [("content-type", b"\xff")]},
    "a correlation that is not UTF-8": {
        "value": b"{}",
        "headers": [("correlation_id", b"\xff"), ("message_id", b"\xff")],
    },
}


class TestRecords:
    @pytest.mark.parametrize("hostile", HOSTILE.values(), ids=list(HOSTILE))
    async def test_nothing_is_decoded_on_the_way_and_the_next_record_comes_as_well(
        self, cluster: Cluster, hostile: Mapping[str, Any]
    ) -> None:
        """A parser that raises would lose its whole batch, and nobody would hear of it."""
        await cluster.publish(1, {"value": b"before"}, hostile, {"value": b"after"})
        taking = Taking()
        async with cluster.member(taking) as subscription:
            await taking.until(lambda: len(taking.records) == 3)
            assert subscription.polling
            assert subscription.trouble is None
        before, found, after = taking.records
        assert (before.value, after.value) == (b"before", b"after")
        headers = tuple(hostile.get("headers", ()))
        assert found == LogRecord(TOPIC, 1, 1, hostile.get("key"), hostile["value"], headers)

    async def test_one_of_the_named_brokers_is_enough(self, cluster: Cluster) -> None:
        servers = f"127.0.0.1:{free_port()}, {cluster.connection.bootstrap}"
        named = replace(cluster, connection=replace(cluster.connection, bootstrap=servers))
        await named.publish(0, {"value": b"{}"})
        taking = Taking()
        async with named.member(taking):
            await taking.until(lambda: len(taking.records) == 1)

    async def test_nobody_is_answered_though_they_ask_for_it(self, cluster: Cluster) -> None:
        """Whoever may publish could else have our process write into any topic."""
        reply = ("reply_to", cluster.connection.named(OTHER).encode())
        await cluster.publish(0, {"value": b"{}", "headers": [reply]})
        taking = Taking()
        async with cluster.member(taking):
            await taking.until(lambda: len(taking.records) == 1)
            await cluster.publish(0, {"value": b"next"})
            await taking.until(lambda: len(taking.records) == 2)
        assert taking.records[0].headers == (reply,)
        assert await cluster.log.end(OTHER, 0) == 0

    async def test_records_of_aborted_transactions_are_left_out(self, cluster: Cluster) -> None:
        topic, options = cluster.connection.named(TOPIC), cluster.connection.options()
        name = f"{cluster.connection.prefix}transactions"
        async with AIOKafkaProducer(transactional_id=name, **options) as producer:
            for value in (b"void", b"valid"):
                await producer.begin_transaction()
                await producer.send_and_wait(topic, value, partition=0)
                await (
                    producer.commit_transaction()
                    if value == b"valid"
                    else producer.abort_transaction()
                )
        taking = Taking()
        async with cluster.member(taking):
            await taking.until(lambda: bool(taking.records))
        assert [record.value for record in taking.records] == [b"valid"]

    async def test_batches_are_in_order_and_have_no_more_records_than_were_asked_for(
        self, cluster: Cluster
    ) -> None:
        for partition in range(PARTITIONS):
            await cluster.publish_numbers(partition, 50)
        taking = Taking()
        async with cluster.member(taking, records_max=7):
            await taking.until(lambda: len(taking.records) == 150)
        assert max(len(batch) for batch in taking.batches) == 7
        for partition in range(PARTITIONS):
            assert taking.offsets(partition) == list(range(50))


class Standing(Taking):
    """Stands still over its first batch of partition 0 until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = asyncio.Event()

    async def handle(self, records: Sequence[LogRecord]) -> None:
        await super().handle(records)
        if records[0].offset == 0 and records[0].partition == 0:
            await self.goes_on.wait()


class TestDelivery:
    async def test_a_partition_waits_for_no_other_and_gets_what_came_meanwhile_at_once(
        self, cluster: Cluster
    ) -> None:
        standing = Standing()
        async with cluster.member(standing):
            await cluster.publish_numbers(0, 1)
            await standing.until(lambda: standing.offsets(0) == [0])
            await cluster.publish_numbers(0, 3)
            await cluster.publish_numbers(1, 5)
            await standing.until(lambda: len(standing.offsets(1)) == 5)
            assert standing.offsets(0) == [0]
            standing.goes_on.set()
            await standing.until(lambda: len(standing.offsets(0)) == 4)
        assert [one.offset for one in standing.batches[-1]] == [1, 2, 3]

    async def test_no_more_than_a_batch_waits(self, cluster: Cluster) -> None:
        """The member is dropped from its group where it has not fetched for too long."""
        standing = Standing()
        async with cluster.member(standing, records_max=2):
            await cluster.publish_numbers(0, 10)
            await standing.until(lambda: bool(standing.batches))
            await cluster.publish_numbers(1, 1)
            await asyncio.sleep(0.5)
            assert standing.offsets(1) == []
            standing.goes_on.set()
            await standing.until(lambda: len(standing.records) == 11)
        assert standing.offsets(0) == list(range(10))

    async def test_a_pause_drops_what_waits(self, cluster: Cluster) -> None:
        standing = Standing()
        async with cluster.member(standing) as subscription:
            await cluster.publish_numbers(0, 1)
            await standing.until(lambda: bool(standing.batches))
            await cluster.publish_numbers(0, 3)
            await cluster.publish_numbers(1, 1)
            await standing.until(lambda: len(standing.offsets(1)) == 1)
            subscription.pause(0)
            standing.goes_on.set()
            subscription.resume(0, 2)
            await standing.until(lambda: len(standing.offsets(0)) == 3)
        assert standing.offsets(0) == [0, 2, 3]


class TestCommits:
    @pytest.mark.parametrize("assignee", [Taking, Raising])
    async def test_nothing_is_committed_but_by_us(
        self, cluster: Cluster, assignee: type[Taking]
    ) -> None:
        """A batch that was handed over is not one that is done, least of all one that failed."""
        for partition in range(PARTITIONS):
            await cluster.publish_numbers(partition, 5)
        taking = assignee()
        async with cluster.member(taking) as subscription:
            await taking.until(lambda: len(taking.records) == 15)
            assert await cluster.committed() == [None] * PARTITIONS
            await cluster.publish_numbers(0, 1)
            await taking.until(lambda: len(taking.records) == 16)
            assert subscription.polling
            assert await cluster.committed() == [None] * PARTITIONS
        assert await cluster.committed() == [None] * PARTITIONS

    async def test_whoever_comes_next_begins_where_we_have_committed(
        self, cluster: Cluster
    ) -> None:
        await cluster.publish_numbers(0, 5)
        first, second = Taking(), Taking()
        async with cluster.member(first):
            await first.until(lambda: len(first.records) == 5)
            await cluster.log.commit(GROUP, TOPIC, 0, CommittedOffset(3, "noted"))
        async with cluster.member(second):
            await second.until(lambda: len(second.records) == 2)
        assert second.offsets(0) == [3, 4]


class TestPause:
    async def test_a_paused_partition_hands_over_nothing_until_it_goes_on_where_it_is_told(
        self, cluster: Cluster
    ) -> None:
        taking = Taking()
        async with cluster.member(taking) as subscription:
            subscription.pause(0)
            for partition in (0, 1):
                await cluster.publish_numbers(partition, 10)
            await taking.until(lambda: len(taking.offsets(1)) == 10)
            assert taking.offsets(0) == []
            subscription.resume(0, 4)
            await taking.until(lambda: len(taking.offsets(0)) == 6)
            subscription.pause(0)
            subscription.resume(0, 7)
            await taking.until(lambda: len(taking.offsets(0)) == 9)
        assert taking.offsets(0) == [4, 5, 6, 7, 8, 9, 7, 8, 9]
        assert taking.offsets(1) == list(range(10))

    async def test_what_was_fetched_before_a_pause_is_not_handed_over_behind_it(
        self, cluster: Cluster
    ) -> None:
        """Two hundred records are fetched at once; the pause comes with the first of them."""

        class Pausing(Taking):
            async def handle(self, records: Sequence[LogRecord]) -> None:
                if not self.batches:
                    subscription.pause(0)
                await super().handle(records)

        await cluster.publish_numbers(0, 200)
        taking = Pausing()
        async with cluster.member(taking, records_max=1) as subscription:
            await taking.until(lambda: len(taking.records) == 1)
            await cluster.publish_numbers(1, 5)
            await taking.until(lambda: len(taking.offsets(1)) == 5)
            assert taking.offsets(0) == [0]
            subscription.resume(0, 198)
            await taking.until(lambda: len(taking.offsets(0)) == 3)
        assert taking.offsets(0) == [0, 198, 199]

    async def test_a_partition_that_is_not_ours_is_left_alone(self, cluster: Cluster) -> None:
        """It may have been lost since whoever says so has looked."""
        taking = Taking()
        async with cluster.member(taking) as subscription:
            subscription.pause(PARTITIONS)
            subscription.resume(PARTITIONS, 5)
            assert subscription.behind(PARTITIONS, 5) == 0
            await cluster.publish_numbers(0, 1)
            await taking.until(lambda: len(taking.records) == 1)

    async def test_it_tells_how_many_records_are_still_to_come(self, cluster: Cluster) -> None:
        await cluster.publish_numbers(0, 10)
        taking = Taking()
        async with cluster.member(taking) as subscription:
            await taking.until(lambda: len(taking.records) == 10)
            assert subscription.behind(0, 4) == 6
            assert subscription.behind(0, 10) == 0
            assert subscription.behind(0, 11) == 0


class TestRebalance:
    async def test_members_share_the_partitions_and_the_last_takes_all(
        self, cluster: Cluster
    ) -> None:
        """In ranges: a process that is in two groups has the same partitions of both topics."""
        one, other = Taking("one"), Taking("other")
        async with cluster.member(one):
            assert one.owned == {0, 1, 2}
            async with cluster.member(other):
                await one.until(lambda: len(one.owned) in {1, 2})
                assert sorted([sorted(one.owned), sorted(other.owned)]) == [[0, 1], [2]]
                for partition in range(PARTITIONS):
                    await cluster.publish_numbers(partition, 3)
                count = 3 * len(one.owned)
                await one.until(lambda: len(one.records) == count)
                await other.until(lambda: len(other.records) == 9 - count)
            await one.until(lambda: len(one.owned) == PARTITIONS)
        for partition in range(PARTITIONS):
            assert sorted({*one.offsets(partition), *other.offsets(partition)}) == [0, 1, 2]

    async def test_nobody_gets_a_partition_before_its_last_owner_has_finished(
        self, cluster: Cluster
    ) -> None:
        """And until then the owner can commit: what it has done is not done again."""
        journal: list[str] = []
        finishing = Finishing(cluster.log, "one", journal)
        other = Taking("other", journal)
        async with cluster.member(finishing), cluster.member(other):
            await finishing.until(lambda: len(finishing.owned) in {1, 2})
            assert journal[:2] == ["one has [0, 1, 2]", "one lets go of [0, 1, 2]"]
            assert sorted(line.partition(" has ")[0] for line in journal[2:4]) == ["one", "other"]
            assert await cluster.log.end(OTHER, 0) == 20
            assert await cluster.committed() == [CommittedOffset(20, "let go of")] * PARTITIONS


class TestStart:
    async def test_where_nobody_answers_it_can_be_tried_again(self) -> None:
        membership = Membership(
            Connection("127.0.0.1:1"), session_seconds=SESSION_SECONDS, drain_seconds=1.0
        )
        subscription = membership.subscribe(TOPIC, GROUP, records_max=1)
        for _ in range(2):
            with pytest.raises(Unreachable, match="cannot be reached"):
                await membership.start()
        assert not subscription.polling
        await membership.stop()
