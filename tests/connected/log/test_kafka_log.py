"""What KafkaLog promises beyond what every log keeps: what only a cluster can do to it."""

import asyncio
import os
import signal
import time
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC
from pathlib import Path
from typing import TypeVar

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import NewTopic, RecordsToDelete

from schemas.base import Position
from streams.log.kafka.connection import Connection, Mechanism
from streams.log.kafka.log import REQUEST_BYTES_MAX, KafkaLog
from streams.model.ports.failures import Fatal, NoServer, Unreachable
from streams.model.ports.log import CommittedOffset, Log, LogRecord, OutgoingRecord
from tests.support.servers.brokers import required
from tests.support.servers.kafka import NativeKafka
from tests.support.servers.kafka_topics import administered, make_topics

Answer = TypeVar("Answer")

ONE, MANY = "one", "many"
REQUEST_SECONDS = 2.0
AWAY_SECONDS = 30.0
"""How long anything may take without its broker: a request, and then ending what waits for it.

Much more than it takes on a busy machine, and less than the 40 s of a client that is told nothing.
"""
PATIENCE_SECONDS = 30.0
"""How long a client may need to find out that its broker is back."""


@pytest.fixture
async def connection(kafka_bootstrap: str, topic_prefix: str) -> Connection:
    """Describe the shared broker, with a topic of one partition and one of three."""
    made = Connection(kafka_bootstrap, topic_prefix, request_seconds=10.0)
    await make_topics(made, {ONE: 1, MANY: 3})
    return made


@pytest.fixture
async def log(connection: Connection) -> AsyncGenerator[KafkaLog]:
    """Open the log that these tests are about."""
    async with opened(connection) as made:
        yield made


@asynccontextmanager
async def opened(connection: Connection) -> AsyncGenerator[KafkaLog]:
    log = KafkaLog(connection)
    try:
        yield log
    finally:
        await log.close()


@asynccontextmanager
async def transactional(connection: Connection) -> AsyncGenerator[AIOKafkaProducer]:
    """Be somebody else who writes to our topics, in transactions."""
    name = f"{connection.prefix}transactions"
    async with AIOKafkaProducer(transactional_id=name, **connection.options()) as producer:
        yield producer


def out(value: str, topic: str = ONE, partition: int = 0) -> OutgoingRecord:
    return OutgoingRecord(topic, partition, b"key", value.encode())


def values(records: Sequence[LogRecord]) -> list[str]:
    return [(record.value or b"").decode() for record in records]


async def all_values(log: Log, topic: str = ONE, partition: int = 0) -> list[str]:
    return values(await log.read(topic, partition, 0, 10_000))


async def answered(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """Ask until there is an answer, as whoever uses a log does."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return await ask()
        except Unreachable:
            assert time.monotonic() < end, "the broker is back and nobody noticed"


async def failures(*questions: Awaitable[object]) -> list[str]:
    """Return by name what each question raises."""
    answers = await asyncio.gather(*questions, return_exceptions=True)
    return [type(answer).__name__ for answer in answers]


def questions(log: KafkaLog) -> list[Awaitable[object]]:
    """Ask everything that a log can be asked."""
    return [
        log.append([out("lost")]),
        log.read(ONE, 0, 0, 10),
        log.end(ONE, 0),
        log.partitions(ONE),
        log.committed("group", ONE, 0),
        log.commit("group", ONE, 0, CommittedOffset(1)),
    ]


class TestNames:
    async def test_installations_with_other_prefixes_do_not_see_each_other(
        self, kafka_bootstrap: str, topic_prefix: str
    ) -> None:
        ours = Connection(kafka_bootstrap, f"{topic_prefix}ours.")
        theirs = Connection(kafka_bootstrap, f"{topic_prefix}theirs.")
        await make_topics(ours, {ONE: 1})
        await make_topics(theirs, {ONE: 2})
        async with opened(ours) as mine, opened(theirs) as other:
            await mine.append([out("mine")])
            await mine.commit("group", ONE, 0, CommittedOffset(1, "mine"))
            assert (await all_values(mine), await all_values(other)) == (["mine"], [])
            assert await other.committed("group", ONE, 0) is None
            assert (await mine.partitions(ONE), await other.partitions(ONE)) == (1, 2)

    async def test_records_carry_our_name_of_their_topic(self, log: KafkaLog) -> None:
        await log.append([out("a", MANY, 2)])
        [record] = await log.read(MANY, 2, 0, 10)
        assert record.position == Position(topic=MANY, partition=2, offset=0)
        assert record.place == "many/2/0"

    async def test_in_the_cluster_topics_and_groups_have_the_prefix(
        self, log: KafkaLog, connection: Connection
    ) -> None:
        """An operator finds them, and access rules can be made for them."""
        await log.append([out("a")])
        await log.commit("group", ONE, 0, CommittedOffset(1, "noted"))
        place = TopicPartition(f"{connection.prefix}{ONE}", 0)
        async with administered(connection) as admin:
            group = f"{connection.prefix}group"
            places = await admin.list_consumer_group_offsets(group, partitions=[place])
        assert (places[place].offset, places[place].metadata) == (1, "noted")
        consumer: AIOKafkaConsumer[bytes, bytes] = AIOKafkaConsumer(
            place.topic, auto_offset_reset="earliest", **connection.options()
        )
        async with consumer:
            assert (await consumer.getone()).value == b"a"


class TestRecords:
    async def test_when_a_record_was_taken_in_is_told_only_by_the_logs_own_clock(
        self, log: KafkaLog, connection: Connection
    ) -> None:
        """A producer's clock may say anything; it must not pass for the log's."""
        settings = {"message.timestamp.type": "LogAppendTime"}
        stamped = NewTopic(connection.named("stamped"), 1, 1, topic_configs=settings)
        async with administered(connection) as admin:
            await admin.create_topics([stamped])
        async with AIOKafkaProducer(**connection.options()) as producer:
            for topic in ("stamped", ONE):
                await producer.send_and_wait(connection.named(topic), b"a", timestamp_ms=1_000)
        [with_ingestion_time] = await log.read("stamped", 0, 0, 10)
        [unknown] = await log.read(ONE, 0, 0, 10)
        assert with_ingestion_time.appended_at is not None
        assert with_ingestion_time.appended_at.tzinfo is UTC
        assert with_ingestion_time.appended_at.year > 2024
        assert unknown.appended_at is None

    async def test_records_stay_in_order_in_the_partition_that_was_said(
        self, log: KafkaLog
    ) -> None:
        """Whatever their key; it would put them all into one."""
        numbers = range(900)
        given = [out(str(n), MANY, n % 3) for n in numbers]
        pages = [given[:500], given[500:510], given[510:]]
        offsets = [offset for page in pages for offset in await log.append(page)]
        assert offsets == [n // 3 for n in numbers]
        for partition in range(3):
            expected = [str(n) for n in numbers if n % 3 == partition]
            assert await all_values(log, MANY, partition) == expected

    async def test_a_topic_that_is_not_there_is_named_with_the_remedy(
        self, log: KafkaLog, connection: Connection
    ) -> None:
        with pytest.raises(Fatal) as error:
            await log.partitions("unheard.of")
        assert str(error.value) == (
            f"topic {connection.prefix}unheard.of does not exist at {connection.bootstrap}: "
            "make it with memsieve service topics create"
        )

    async def test_a_partition_that_is_not_there_is_fatal(self, log: KafkaLog) -> None:
        with pytest.raises(Fatal, match="has no partition 7"):
            await log.append([out("a", ONE, 7)])

    async def test_a_record_that_is_larger_than_the_topic_takes_is_fatal(
        self, log: KafkaLog, connection: Connection
    ) -> None:
        """Whether the client refuses it or the cluster; and the next append is none the worse."""
        small = NewTopic(connection.named("small"), 1, 1, topic_configs={"max.message.bytes": "99"})
        async with administered(connection) as admin:
            await admin.create_topics([small])
        for topic, size in (("small", 1_000), (ONE, REQUEST_BYTES_MAX + 1)):
            large = OutgoingRecord(topic, 0, None, os.urandom(size))
            with pytest.raises(Fatal, match=r"too large: raise max\.message\.bytes of the topic"):
                await log.append([large])
        await log.append([out("fits")])
        assert await all_values(log) == ["fits"]
        assert await log.end("small", 0) == 0

    async def test_no_record_is_there_without_those_of_other_topics_before_it(
        self, log: KafkaLog, connection: Connection
    ) -> None:
        """As a decision that refers to a dead letter is not: it would be lost for good."""
        async with administered(connection) as admin:
            small = {"max.message.bytes": "200"}
            await admin.create_topics(
                [NewTopic(connection.named("small"), 1, 1, topic_configs=small)]
            )
        incompressible = bytes((n * n * 7 + n // 3) % 251 for n in range(5_000))
        refused = OutgoingRecord("small", 0, None, incompressible)
        with pytest.raises(Fatal, match="too large"):
            await log.append([refused, out("refers to it")])
        assert await log.end(ONE, 0) == 0

    async def test_those_who_append_beside_one_that_fails_are_told_to_try_again_or_the_offsets(
        self, log: KafkaLog
    ) -> None:
        """All send by one client, and it ends with what failed; that is not their fault."""
        large = OutgoingRecord(ONE, 0, None, bytes(REQUEST_BYTES_MAX + 1))
        many = [out(str(n), MANY) for n in range(2_000)]
        beside, failed = await asyncio.gather(
            log.append(many), log.append([large]), return_exceptions=True
        )
        assert isinstance(failed, Fatal)
        found = await all_values(log, MANY)
        if isinstance(beside, BaseException):
            assert isinstance(beside, Unreachable)
            assert found == [str(n) for n in range(len(found))]
        else:
            assert beside == list(range(2_000))
        [offset] = await log.append([out("next", MANY)])
        assert offset == len(found)


class TestGaps:
    async def test_records_of_aborted_transactions_are_passed_over(
        self, log: KafkaLog, connection: Connection
    ) -> None:
        async with transactional(connection) as producer:
            await transaction(producer, connection, "void", commit=False)
            await reaches(log, 3)
            assert await log.read(ONE, 0, 0, 10) == []
            await transaction(producer, connection, "valid", commit=True)
            await transaction(producer, connection, "void", commit=False)
        await reaches(log, 9)
        first = await log.read(ONE, 0, 0, 1)
        assert (values(first), first[0].offset) == (["valid"], 3)
        assert [one.offset for one in await log.read(ONE, 0, 4, 10)] == [4]
        assert await all_values(log) == ["valid", "valid"]

    async def test_behind_the_last_record_a_partition_ends_empty_for_all_its_markers(
        self, log: KafkaLog, connection: Connection
    ) -> None:
        """Whoever catches up asks until nothing comes, and must not wait for what never comes."""
        async with transactional(connection) as producer:
            await transaction(producer, connection, "valid", commit=True)
            await transaction(producer, connection, "void", commit=False)
        await reaches(log, 6)
        for offset in range(2, 7):
            assert await log.read(ONE, 0, offset, 10) == []
        [offset] = await log.append([out("next")])
        for start in (2, 5, offset):
            assert values(await log.read(ONE, 0, start, 10)) == ["next"]

    async def test_what_is_in_an_open_transaction_is_not_there_yet(
        self, log: KafkaLog, connection: Connection
    ) -> None:
        async with transactional(connection) as producer:
            await producer.begin_transaction()
            await producer.send_and_wait(connection.named(ONE), b"later", partition=0)
            await log.append([out("behind it")])
            assert (await log.end(ONE, 0), await all_values(log)) == (0, [])
            await producer.commit_transaction()
        await reaches(log, 3)
        assert await all_values(log) == ["later", "behind it"]

    async def test_where_the_head_was_deleted_reading_begins_behind_it(
        self, log: KafkaLog, connection: Connection
    ) -> None:
        """As retention does: the events of last month are gone, and their offsets are skipped."""
        await log.append([out(str(n)) for n in range(10)])
        assert values(await log.read(ONE, 0, 0, 3)) == ["0", "1", "2"]
        await delete_before(connection, 6)
        found = await log.read(ONE, 0, 0, 3)
        assert [one.offset for one in found] == [6, 7, 8]
        await delete_before(connection, 10)
        assert await log.read(ONE, 0, 0, 3) == []
        assert await log.append([out("next")]) == [10]
        assert await all_values(log) == ["next"]


async def reaches(log: Log, end: int) -> None:
    """Wait for the markers of transactions: the cluster sets them after it has answered."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await log.end(ONE, 0) < end:  # noqa: ASYNC110 - the cluster does it
            await asyncio.sleep(0.01)


async def transaction(
    producer: AIOKafkaProducer, connection: Connection, value: str, *, commit: bool
) -> None:
    """Send two records and a marker behind them."""
    await producer.begin_transaction()
    for _ in range(2):
        await producer.send_and_wait(connection.named(ONE), value.encode(), partition=0)
    await (producer.commit_transaction() if commit else producer.abort_transaction())


async def delete_before(connection: Connection, offset: int) -> None:
    place = TopicPartition(connection.named(ONE), 0)
    async with administered(connection) as admin:
        assert await admin.delete_records({place: RecordsToDelete(offset)}) == {place: offset}


class TestCommits:
    async def test_only_its_member_can_commit_for_a_group_that_has_one(
        self, log: KafkaLog, connection: Connection
    ) -> None:
        """A commit beside it would come from nobody, and could pass what the member has not done."""
        await log.append([out("a")])
        async with member(connection, ONE) as consumer:
            with pytest.raises(Unreachable, match="is moving partitions"):
                await log.commit("group", ONE, 0, CommittedOffset(1, "from outside"))
            assert await log.committed("group", ONE, 0) is None
            log.member("group", consumer)
            await log.commit("group", ONE, 0, CommittedOffset(1, "by its member"))
            await log.commit("another group", ONE, 0, CommittedOffset(0, "that has no member"))
        assert await log.committed("group", ONE, 0) == CommittedOffset(1, "by its member")
        expected = CommittedOffset(0, "that has no member")
        assert await log.committed("another group", ONE, 0) == expected

    async def test_a_member_cannot_commit_for_what_it_has_lost(
        self, log: KafkaLog, connection: Connection
    ) -> None:
        """It may still believe that the partition is its own, and be about to finish a batch."""
        async with member(connection, MANY) as one, member(connection, MANY) as other:
            await has_partitions(one, fewer_than=3)
            log.member("group", one)
            [lost, *_] = other.assignment()
            with pytest.raises(Unreachable, match="is moving partitions"):
                await log.commit("group", MANY, lost.partition, CommittedOffset(1))
            mine = next(iter(one.assignment())).partition
            await log.commit("group", MANY, mine, CommittedOffset(2, "still its own"))
        assert await log.committed("group", MANY, mine) == CommittedOffset(2, "still its own")
        assert await log.committed("group", MANY, lost.partition) is None


@asynccontextmanager
async def member(
    connection: Connection, topic: str
) -> "AsyncGenerator[AIOKafkaConsumer[bytes, bytes]]":
    """Be a member of the group meanwhile, and have partitions of the topic."""
    consumer: AIOKafkaConsumer[bytes, bytes] = AIOKafkaConsumer(
        connection.named(topic),
        group_id=connection.named("group"),
        enable_auto_commit=False,
        heartbeat_interval_ms=200,
        **connection.options(),
    )
    async with consumer:
        await has_partitions(consumer)
        yield consumer


async def has_partitions(
    consumer: "AIOKafkaConsumer[bytes, bytes]", fewer_than: int | None = None
) -> None:
    """Wait until a member has partitions, and so many of them that others have some as well."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not 0 < len(consumer.assignment()) < (fewer_than or 1_000):
            await consumer.getmany(timeout_ms=20)


@contextmanager
def silenced(broker: NativeKafka) -> Generator[None]:
    """Let a broker do nothing meanwhile: its machine still takes connections."""
    pid = broker.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


class TestBrokerThatIsAway:
    async def test_nothing_is_answered_meanwhile_and_all_goes_on_afterwards(
        self, own_broker: NativeKafka
    ) -> None:
        """Whether it is silent, as a machine without power is, or refuses, or restarts."""
        connection = Connection(own_broker.bootstrap, request_seconds=REQUEST_SECONDS)
        await make_topics(connection, {ONE: 1})
        async with opened(connection) as log:
            await log.append([out("before")])
            await log.commit("group", ONE, 0, CommittedOffset(1, "before"))
            assert await all_values(log) == ["before"]
            with silenced(own_broker):
                began = time.monotonic()
                answers = await failures(log.read(ONE, 0, 0, 10), log.partitions(ONE))
                assert answers == ["Unreachable", "Unreachable"]
                assert time.monotonic() - began < AWAY_SECONDS
            assert await answered(lambda: all_values(log)) == ["before"]
            assert await answered(lambda: log.partitions(ONE)) == 1
            await asyncio.to_thread(own_broker.kill)
            began = time.monotonic()
            assert set(await failures(*questions(log))) == {"Unreachable"}
            assert time.monotonic() - began < AWAY_SECONDS
            await asyncio.to_thread(own_broker.restart)
            await answered(lambda: log.append([out("after")]))
            # An append without an answer may have arrived, and is made again.
            first, *rest = await answered(lambda: all_values(log))
            assert (first, set(rest)) == ("before", {"after"})
            place = await answered(lambda: log.committed("group", ONE, 0))
            assert place == CommittedOffset(1, "before")
            await answered(lambda: log.commit("group", ONE, 0, CommittedOffset(2, "after")))
            assert await log.committed("group", ONE, 0) == CommittedOffset(2, "after")

    @pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
    async def test_closing_raises_nothing_and_is_bounded(
        self, own_broker: NativeKafka, how: signal.Signals
    ) -> None:
        connection = Connection(own_broker.bootstrap, request_seconds=REQUEST_SECONDS)
        await make_topics(connection, {ONE: 1})
        log = KafkaLog(connection)
        await log.append([out("before")])
        assert await all_values(log) == ["before"]
        assert own_broker.pid is not None
        os.kill(own_broker.pid, how)
        try:
            with pytest.raises(Unreachable):
                await log.read(ONE, 0, 0, 10)
            started = time.monotonic()
            await log.close()
            assert time.monotonic() - started < PATIENCE_SECONDS
        finally:
            if how == signal.SIGSTOP:
                os.kill(own_broker.pid, signal.SIGCONT)

    async def test_where_nobody_listens_it_says_so(self) -> None:
        async with opened(Connection("127.0.0.1:1")) as log:
            for question in questions(log):
                with pytest.raises(Unreachable, match=r"^Kafka at 127\.0\.0\.1:1 cannot be reache"):
                    await question


class Wire:
    """A line to a broker on which the answer to the next records that are sent gets lost."""

    def __init__(self) -> None:
        self.broker = ""
        self.loses_next = False

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry requests and answers in turn, until one side hangs up or an answer is lost."""
        host, _, port = self.broker.rpartition(":")
        answers, requests = await asyncio.open_connection(host, int(port))
        with suppress(asyncio.IncompleteReadError, OSError):
            while True:
                request = await frame(reader)
                requests.write(request)
                answer = await frame(answers)
                if self.loses_next and request[4:6] == PRODUCE:
                    self.loses_next = False
                    break
                writer.write(answer)
        requests.close()
        writer.close()


PRODUCE = b"\x00\x00"
"""What a request to append begins with, behind its length."""


async def frame(reader: asyncio.StreamReader) -> bytes:
    length = await reader.readexactly(4)
    return length + await reader.readexactly(int.from_bytes(length, "big"))


@asynccontextmanager
async def behind_a_wire(path: Path) -> AsyncGenerator[tuple[Wire, str]]:
    """Start a broker that is reached over a wire only: it says that it lives at its other end."""
    wire = Wire()
    async with await asyncio.start_server(wire.carry, "127.0.0.1", 0) as server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        broker = NativeKafka(path, {"advertised.listeners": f"PLAINTEXT://{address}"})
        wire.broker = broker.bootstrap
        await asyncio.to_thread(required, broker.start)
        try:
            yield wire, address
        finally:
            await asyncio.to_thread(broker.stop)


async def test_a_record_whose_acknowledgement_gets_lost_is_in_the_log_once(tmp_path: Path) -> None:
    """The client sends it again; the cluster knows that it has it."""
    async with behind_a_wire(tmp_path / "kafka") as (wire, address):
        connection = Connection(address, request_seconds=10.0)
        await make_topics(connection, {ONE: 1})
        async with opened(connection) as log:
            assert await log.append([out("first")]) == [0]
            wire.loses_next = True
            assert await log.append([out("second"), out("third")]) == [1, 2]
            assert not wire.loses_next
            assert await log.append([out("fourth")]) == [3]
            assert await all_values(log) == ["first", "second", "third", "fourth"]


PASSWORD = "open sesame"  # noqa: S105 - of a broker that lives as long as these tests


class GuardedKafka(NativeKafka):
    """A broker with a second listener, which asks for a name and a password."""

    def __init__(self, directory: Path, users: Mapping[str, str]) -> None:
        super().__init__(directory)
        self._users = users
        self.guarded = NativeKafka(directory / "unused").bootstrap  # a port that nobody else gets

    def _properties(self) -> dict[str, str]:
        properties = super()._properties()
        users = "".join(f' user_{name}="{word}"' for name, word in self._users.items())
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        protocols = ("PLAINTEXT:PLAINTEXT", "CONTROLLER:PLAINTEXT", "GUARDED:SASL_PLAINTEXT")
        return properties | {
            "listeners": f"{properties['listeners']},GUARDED://{self.guarded}",
            "listener.security.protocol.map": ",".join(protocols),
            "listener.name.guarded.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.guarded.plain.sasl.jaas.config": f"{module} required{users};",
        }


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give the address of a broker that knows Ana."""
    broker = GuardedKafka(tmp_path_factory.mktemp("guarded") / "kafka", {"ana": PASSWORD})
    required(broker.start)
    try:
        yield broker.guarded
    finally:
        broker.stop()


class TestCredentials:
    async def test_with_the_right_ones_it_works(self, guarded: str, topic_prefix: str) -> None:
        connection = Connection(
            guarded,
            topic_prefix,
            mechanism="PLAIN",
            username="ana",
            password=PASSWORD,
        )
        await make_topics(connection, {ONE: 1})
        async with opened(connection) as log:
            await log.append([out("a")])
            await log.commit("group", ONE, 0, CommittedOffset(1))
            assert await all_values(log) == ["a"]
            assert await log.committed("group", ONE, 0) == CommittedOffset(1)

    @pytest.mark.parametrize(
        ("mechanism", "username", "password"),
        [
            ("PLAIN", "ana", "open barley"),
            ("PLAIN", "ben", PASSWORD),
            ("SCRAM-SHA-256", "ana", PASSWORD),
        ],
    )
    async def test_with_wrong_ones_it_is_refused_and_the_settings_are_named(
        self, guarded: str, mechanism: Mechanism, username: str, password: str
    ) -> None:
        """Trying again would help nobody, and might lock the account."""
        connection = Connection(
            guarded, mechanism=mechanism, username=username, password=password, request_seconds=5.0
        )
        async with opened(connection) as log:
            asked = log.append([out("a")]), log.read(ONE, 0, 0, 10), log.partitions(ONE)
            for error in await asyncio.gather(*asked, return_exceptions=True):
                assert isinstance(error, NoServer)
                for name in ("username", "password", "mechanism", "tls"):
                    assert f"kafka.{name}" in str(error)
                assert password not in str(error)
                assert "\n" not in str(error)

    async def test_without_any_it_cannot_be_used(self, guarded: str) -> None:
        """The cluster hangs up; it does not say that it wants a password."""
        async with opened(Connection(guarded, request_seconds=REQUEST_SECONDS)) as log:
            with pytest.raises(Unreachable, match="cannot be reached"):
                await log.partitions(ONE)
