"""What every Log and Lookup keeps, and what LocalBroker promises beyond them."""

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from streams.log.kafka.connection import Connection
from streams.log.kafka.log import KafkaLog
from streams.log.local_broker import LocalBroker
from streams.model.ports.failures import Fatal, NoStore, Transient
from streams.model.ports.log import CommittedOffset, Log, LogRecord, Lookup, OutgoingRecord
from streams.model.ports.sources import SourceMark
from tests.support.machine.small_disk import on_small_disk
from tests.support.servers.kafka_topics import make_topics

ROOT = Path(__file__).parents[2]

WHO, ALSO = "who", "also"
"""The headers that a Lookup under test is asked to index."""

AWKWARD: Sequence[OutgoingRecord] = (
    OutgoingRecord("", 0, None, b""),
    OutgoingRecord("", 0, b"", b"{}"),
    OutgoingRecord("", 0, b"\x00\xff", bytes(range(256))),
    OutgoingRecord("", 0, "Käse 🧀".encode(), b"x" * 100_000),
    OutgoingRecord("", 0, b"k", b"v", (("empty", b""), ("none", None))),
    OutgoingRecord("", 0, b"k", b"v", (("raw", b"\xff\x00\xfe"), ("raw", b"again"), ("ä", b"1"))),
)
"""Records that a careless log changes; the topic is filled in by the test."""


class SearchableLog(Log, Lookup, Protocol):
    pass


Make = Callable[[pytest.FixtureRequest, Path, Mapping[str, int]], AbstractAsyncContextManager[Any]]


@asynccontextmanager
async def local_broker(
    _: pytest.FixtureRequest, path: Path, topics: Mapping[str, int]
) -> AsyncGenerator[LocalBroker]:
    indexed = {topic: frozenset({WHO, ALSO}) for topic in topics}
    broker = LocalBroker(path / "log", indexed=indexed)
    for topic, partitions in topics.items():
        broker.create(topic, partitions)
    yield broker
    broker.close()


@asynccontextmanager
async def memory(
    _: pytest.FixtureRequest, __: Path, topics: Mapping[str, int]
) -> AsyncGenerator[LocalBroker]:
    log = LocalBroker(indexed={topic: frozenset({WHO, ALSO}) for topic in topics})
    for topic, partitions in topics.items():
        log.create(topic, partitions)
    yield log


@asynccontextmanager
async def kafka(
    request: pytest.FixtureRequest, _: Path, topics: Mapping[str, int]
) -> AsyncGenerator[KafkaLog]:
    prefix: str = request.getfixturevalue("topic_prefix")
    connection = Connection(request.getfixturevalue("kafka_bootstrap"), prefix)
    await make_topics(connection, topics)
    log = KafkaLog(connection)
    yield log
    await log.close()


LOGS: Mapping[str, Make] = {"local": local_broker, "memory": memory, "kafka": kafka}
LOOKUPS: Mapping[str, Make] = {"local": local_broker, "memory": memory, "kafka": kafka}
INTAKES: Mapping[str, Make] = {"local": local_broker, "memory": memory}


@pytest.fixture
def one(tmp_path: Path) -> str:
    """Name a topic of one partition; no other test of this run has it."""
    return f"{tmp_path.name}.one"


@pytest.fixture
def many(tmp_path: Path) -> str:
    """Name a topic of three partitions; no other test of this run has it."""
    return f"{tmp_path.name}.many"


def out(topic: str, value: str, partition: int = 0, **headers: str) -> OutgoingRecord:
    pairs = tuple((name, text.encode()) for name, text in headers.items())
    return OutgoingRecord(topic, partition, None, value.encode(), pairs)


def as_read(record: OutgoingRecord, offset: int) -> LogRecord:
    return LogRecord(
        record.topic, record.partition, offset, record.key, record.value, record.headers
    )


async def values(log: Log, topic: str, partition: int = 0, offset: int = 0) -> list[str]:
    records = await log.read(topic, partition, offset, 1_000)
    return [(record.value or b"").decode() for record in records]


class TestLog:
    @pytest.fixture(params=LOGS.values(), ids=list(LOGS))
    async def log(
        self, request: pytest.FixtureRequest, tmp_path: Path, one: str, many: str
    ) -> AsyncGenerator[Log]:
        async with request.param(request, tmp_path, {one: 1, many: 3}) as log:
            yield log

    async def test_tells_how_many_partitions_a_topic_has(
        self, log: Log, one: str, many: str
    ) -> None:
        assert await log.partitions(one) == 1
        assert await log.partitions(many) == 3

    async def test_asking_for_an_unknown_topic_is_fatal(self, log: Log) -> None:
        with pytest.raises(Fatal, match=r"unheard\.of"):
            await log.partitions("unheard.of")

    async def test_a_new_partition_is_empty(self, log: Log, many: str) -> None:
        for partition in range(3):
            assert await log.end(many, partition) == 0
            assert await log.read(many, partition, 0, 10) == []

    async def test_offsets_are_those_of_the_records_given(self, log: Log, one: str) -> None:
        given = [out(one, f"value {n}") for n in range(10)]
        offsets = await log.append(given[:7]) + await log.append(given[7:])
        assert offsets == sorted(set(offsets))
        assert await log.read(one, 0, 0, 100) == [
            as_read(record, offset) for record, offset in zip(given, offsets, strict=True)
        ]

    async def test_one_append_may_mix_topics_and_partitions(
        self, log: Log, one: str, many: str
    ) -> None:
        given = [
            out(many, "a", 2),
            out(one, "b"),
            out(many, "c", 0),
            out(many, "d", 2),
            out(one, "e"),
            out(many, "f", 2),
        ]
        offsets = await log.append(given)
        for record, offset in zip(given, offsets, strict=True):
            (found,) = await log.read(record.topic, record.partition, offset, 1)
            assert found == as_read(record, offset)
        assert await values(log, many, 2) == ["a", "d", "f"]
        assert await values(log, many, 1) == []
        assert await values(log, one) == ["b", "e"]

    async def test_what_is_erased_is_not_read_any_more_and_the_rest_is(
        self, log: Log, one: str
    ) -> None:
        if isinstance(log, KafkaLog):
            pytest.skip("compaction takes records when it gets round to it: see test_forgetting")
        offsets = await log.append([out(one, f"{n}", who=f"w{n}") for n in range(6)])
        await log.erase(one, 0, [offsets[0], offsets[3], offsets[5]])
        assert await values(log, one) == ["1", "2", "4"]
        assert [r.offset for r in await log.read(one, 0, offsets[3], 1)] == [offsets[4]]
        assert await log.beginning(one, 0) == offsets[1]
        assert await log.end(one, 0) == 6
        await log.erase(one, 0, [offsets[3], 99])
        assert await log.append([out(one, "6")]) == [6]
        assert await values(log, one) == ["1", "2", "4", "6"]

    async def test_appending_nothing_changes_nothing(self, log: Log, one: str) -> None:
        assert await log.append([]) == []
        assert await log.end(one, 0) == 0

    async def test_reads_from_an_offset_up_to_a_limit(self, log: Log, one: str) -> None:
        offsets = await log.append([out(one, f"{n}") for n in range(6)])
        page = await log.read(one, 0, offsets[2], 3)
        assert [record.offset for record in page] == offsets[2:5]
        assert [record.offset for record in await log.read(one, 0, offsets[5], 3)] == offsets[5:]

    async def test_large_records_come_in_smaller_batches(self, log: Log, one: str) -> None:
        """However many are asked for: a batch is held in memory whole."""
        large = "x" * 9_000_000
        await log.append([out(one, large), out(one, large), out(one, large)])
        first = await log.read(one, 0, 0, 3)
        assert 1 <= len(first) < 3
        found = list(first)
        while page := await log.read(one, 0, found[-1].offset + 1, 3):
            found += page
        assert [len(record.value or b"") for record in found] == [9_000_000] * 3

    async def test_there_is_nothing_past_the_end(self, log: Log, one: str) -> None:
        await log.append([out(one, "a"), out(one, "b")])
        end = await log.end(one, 0)
        assert await log.read(one, 0, end, 10) == []
        assert await log.read(one, 0, end + 1_000, 10) == []

    async def test_the_end_is_the_next_records_offset(self, log: Log, many: str) -> None:
        for value in "abc":
            end = await log.end(many, 1)
            assert await log.append([out(many, value, 1)]) == [end]
        assert await log.end(many, 0) == 0

    async def test_a_read_while_others_append_has_no_holes(self, log: Log, one: str) -> None:
        answers = await asyncio.gather(*(log.append([out(one, f"{n}")]) for n in range(20)))
        offsets = [offset for (offset,) in answers]
        assert len(set(offsets)) == 20
        found = {record.offset: record.value for record in await log.read(one, 0, 0, 100)}
        assert found == {offset: f"{n}".encode() for n, offset in enumerate(offsets)}

    async def test_bytes_come_back_as_they_were(self, log: Log, one: str) -> None:
        given = [OutgoingRecord(one, 0, r.key, r.value, r.headers) for r in AWKWARD]
        offsets = await log.append(given)
        assert await log.read(one, 0, 0, 100) == [
            as_read(record, offset) for record, offset in zip(given, offsets, strict=True)
        ]

    async def test_a_group_that_never_committed_has_no_place(self, log: Log, one: str) -> None:
        await log.append([out(one, "a")])
        assert await log.committed("group", one, 0) is None

    async def test_a_commit_comes_back_with_its_metadata(self, log: Log, one: str) -> None:
        for place in (
            CommittedOffset(0),
            CommittedOffset(7, "Käse\n" * 50),
            CommittedOffset(3, "back again"),
        ):
            await log.commit("group", one, 0, place)
            assert await log.committed("group", one, 0) == place

    async def test_groups_and_partitions_have_places_of_their_own(
        self, log: Log, one: str, many: str
    ) -> None:
        await log.commit("reader", many, 1, CommittedOffset(4, "reader"))
        await log.commit("writer", many, 1, CommittedOffset(9, "writer"))
        assert await log.committed("reader", many, 1) == CommittedOffset(4, "reader")
        assert await log.committed("writer", many, 1) == CommittedOffset(9, "writer")
        assert await log.committed("reader", many, 0) is None
        assert await log.committed("reader", one, 0) is None


class TestLookup:
    @pytest.fixture(params=LOOKUPS.values(), ids=list(LOOKUPS))
    async def log(
        self, request: pytest.FixtureRequest, tmp_path: Path, one: str, many: str
    ) -> AsyncGenerator[SearchableLog]:
        async with request.param(request, tmp_path, {one: 1, many: 3}) as log:
            yield log

    async def test_finds_the_records_that_carry_a_value(self, log: SearchableLog, one: str) -> None:
        given = [out(one, "a", who="ana"), out(one, "b", who="bob"), out(one, "c", who="ana")]
        offsets = await log.append(given)
        assert await log.find(one, WHO, ["ana"]) == [
            as_read(given[0], offsets[0]),
            as_read(given[2], offsets[2]),
        ]
        assert await log.find(one, WHO, ["an"]) == []
        assert await log.find(one, WHO, []) == []

    async def test_asks_for_many_values_at_once(self, log: SearchableLog, one: str) -> None:
        await log.append([out(one, f"{n}", who=f"id {n}") for n in range(3_000)])
        wanted = [f"id {n}" for n in range(0, 3_000, 2)]
        found = await log.find(one, WHO, [*reversed(wanted), "id 0", "nobody"])
        assert [(r.value or b"").decode() for r in found] == [f"{n}" for n in range(0, 3_000, 2)]

    async def test_a_record_is_found_once_and_by_each_of_its_values(
        self, log: SearchableLog, one: str
    ) -> None:
        twice = OutgoingRecord(one, 0, None, b"v", ((WHO, b"ana"), (WHO, b"bob"), (WHO, b"ana")))
        (offset,) = await log.append([twice])
        for values_asked in (["ana"], ["bob"], ["bob", "ana"]):
            assert await log.find(one, WHO, values_asked) == [as_read(twice, offset)]

    async def test_headers_and_topics_are_kept_apart(
        self, log: SearchableLog, one: str, many: str
    ) -> None:
        await log.append([out(one, "a", who="ana"), out(one, "b", also="ana")])
        await log.append([out(many, "c", 1, who="ana")])
        assert [r.value for r in await log.find(one, WHO, ["ana"])] == [b"a"]
        assert [r.value for r in await log.find(one, ALSO, ["ana"])] == [b"b"]
        assert [r.value for r in await log.find(many, WHO, ["ana"])] == [b"c"]

    async def test_finds_by_the_beginning_of_a_value(self, log: SearchableLog, one: str) -> None:
        names = ["ana", "anastasia", "an", "Ana", "bana", "ana%", "ana_", "anä"]
        await log.append([out(one, name, who=name) for name in names])
        found = [(r.value or b"").decode() for r in await log.find_beginning(one, [WHO], "ana")]
        assert found == ["ana", "anastasia", "ana%", "ana_"]
        assert await log.find_beginning(one, [WHO], "nobody") == []

    async def test_values_are_found_whatever_characters_they_hold(
        self, log: SearchableLog, one: str
    ) -> None:
        names = ["Käse 🧀", 'a "quoted" name', "back\\slash", "", "it's", "[1, 2]", "a/b c"]
        await log.append([out(one, name, who=name) for name in names])
        for name in names:
            (found,) = await log.find(one, WHO, [name])
            assert found.value == name.encode()

    async def test_a_beginning_may_be_followed_by_the_last_character_of_all(
        self, log: SearchableLog, one: str
    ) -> None:
        await log.append([out(one, "a", who="ana\U0010ffff!")])
        assert len(await log.find_beginning(one, [WHO], "ana")) == 1

    async def test_nothing_begins_with_what_no_text_holds(
        self, log: SearchableLog, one: str
    ) -> None:
        await log.append([out(one, "a", who="ana")])
        assert await log.find(one, WHO, ["\udcff"]) == []
        assert await log.find_beginning(one, [WHO], "\udcff") == []

    async def test_records_come_in_the_order_of_their_offsets(
        self, log: SearchableLog, many: str
    ) -> None:
        await log.append([out(many, f"{n}", n % 3, who=f"{9 - n}") for n in range(9)])
        found = await log.find(many, WHO, [f"{n}" for n in range(1, 10)])
        assert [(r.partition, r.offset) for r in found] == [
            (partition, offset) for partition in range(3) for offset in range(3)
        ]
        assert await log.find_beginning(many, [WHO], "") == found

    async def test_a_header_without_text_is_no_reason_to_fail(
        self, log: SearchableLog, one: str
    ) -> None:
        await log.append([OutgoingRecord(one, 0, None, b"v", ((WHO, None), (WHO, b"\xff\xfe")))])
        assert await log.find(one, WHO, ["ana"]) == []

    async def test_asking_in_an_unknown_topic_is_fatal(self, log: SearchableLog) -> None:
        with pytest.raises(Fatal, match=r"unheard\.of"):
            await log.find("unheard.of", WHO, ["ana"])


class TestIntake:
    @pytest.fixture(params=INTAKES.values(), ids=list(INTAKES))
    async def log(
        self, request: pytest.FixtureRequest, tmp_path: Path, one: str, many: str
    ) -> AsyncGenerator[LocalBroker]:
        async with request.param(request, tmp_path, {one: 1, many: 3}) as log:
            yield log

    async def test_a_source_never_read_has_no_mark(self, log: LocalBroker) -> None:
        assert await log.mark("chat.jsonl") is None

    async def test_sets_the_mark_with_the_records(self, log: LocalBroker, one: str) -> None:
        first, second = (
            SourceMark(2, "d1", complete=False),
            SourceMark(3, "d2", complete=True),
        )
        await log.ingest([out(one, "a"), out(one, "b")], "Käse.jsonl", first)
        assert await log.mark("Käse.jsonl") == first
        await log.ingest([out(one, "c")], "Käse.jsonl", second)
        assert await log.mark("Käse.jsonl") == second
        assert await log.mark("other.jsonl") is None
        assert await values(log, one) == ["a", "b", "c"]

    async def test_a_mark_may_move_without_records(self, log: LocalBroker, one: str) -> None:
        await log.ingest([], "empty.jsonl", SourceMark(0, "", complete=True))
        assert await log.mark("empty.jsonl") == SourceMark(0, "", complete=True)
        assert await log.end(one, 0) == 0

    @pytest.mark.parametrize("broken", [0, 1, 2])
    async def test_takes_in_records_and_mark_or_neither(
        self, log: LocalBroker, one: str, broken: int
    ) -> None:
        before = SourceMark(1, "before", complete=False)
        await log.ingest([out(one, "kept")], "chat.jsonl", before)
        records = [out(one, "lost"), out(one, "lost too")]
        records.insert(broken, out("unheard.of", "fails"))
        with pytest.raises(Fatal, match=r"unheard\.of"):
            await log.ingest(records, "chat.jsonl", SourceMark(4, "after", complete=True))
        assert await log.mark("chat.jsonl") == before
        assert await values(log, one) == ["kept"]
        assert await log.append([out(one, "next")]) == [1]


def open_broker(path: Path, *, read_only: bool = False) -> LocalBroker:
    return LocalBroker(path, indexed={"t": frozenset({WHO})}, read_only=read_only)


def python(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )


PRELUDE = """
import asyncio, json, os, signal, sys
from pathlib import Path
from streams.log.kafka.connection import Connection
from streams.log.kafka.log import KafkaLog
from streams.log.local_broker import LocalBroker
from streams.model.ports.failures import NoStore
from streams.model.ports.log import CommittedOffset, OutgoingRecord
from streams.model.ports.sources import SourceMark
path = Path(sys.argv[1])
"""

KILLED_AFTER_THREE_WRITES = f"""{PRELUDE}
broker = LocalBroker(path, indexed={{}})
broker.create("t", 1)
asyncio.run(broker.append([OutgoingRecord("t", 0, None, b"appended")]))
asyncio.run(broker.commit("g", "t", 0, CommittedOffset(1, "noted")))
asyncio.run(broker.ingest([OutgoingRecord("t", 0, None, b"taken")], "s", SourceMark(1, "d", True)))
os.kill(os.getpid(), signal.SIGKILL)
"""

READ_ALL = f"""{PRELUDE}
broker = LocalBroker(path, indexed={{}}, read_only=True)
records = asyncio.run(broker.read("t", 0, 0, 100))
print(json.dumps([record.value.decode() for record in records]))
"""

WRITE_UNTIL_REFUSED = f"""{PRELUDE}
if len(sys.argv) > 2:
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
broker = LocalBroker(path, indexed={{}})
broker.create("t", 1)
acknowledged = 0
try:
    while acknowledged < 3000:
        offsets = asyncio.run(broker.append([OutgoingRecord("t", 0, None, b"x" * 5000)] * 3))
        acknowledged += len(offsets)
except NoStore as error:
    message = str(error)
broker.close()
broker = LocalBroker(path, indexed={{}}, read_only=True)
kept = asyncio.run(broker.read("t", 0, 0, 10000))
end = asyncio.run(broker.end("t", 0))
print(json.dumps([acknowledged, len(kept), end, message]))
"""


class TestLocalBroker:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "log"

    async def test_offsets_of_a_partition_have_no_gaps(self, path: Path) -> None:
        broker = open_broker(path)
        broker.create("t", 2)
        assert await broker.append([out("t", "a", n % 2) for n in range(5)]) == [0, 0, 1, 1, 2]
        assert await broker.append([out("t", "a", 1), out("t", "a", 0)]) == [2, 3]
        broker.close()

    async def test_asking_for_what_is_not_indexed_is_fatal(self, path: Path) -> None:
        broker = open_broker(path)
        broker.create("t", 1)
        with pytest.raises(Fatal, match="colour"):
            await broker.find("t", "colour", ["red"])
        with pytest.raises(Fatal, match="colour"):
            await broker.find_beginning("t", [WHO, "colour"], "r")
        broker.close()

    @pytest.mark.parametrize(
        "bad", [out("unheard.of", "x"), out("t", "x", 2)], ids=["topic", "partition"]
    )
    async def test_an_append_is_done_whole_or_not_at_all(
        self, path: Path, bad: OutgoingRecord
    ) -> None:
        broker = open_broker(path)
        broker.create("t", 2)
        with pytest.raises(Fatal, match=bad.topic):
            await broker.append([out("t", "a", who="ana"), out("t", "b", 1), bad, out("t", "c")])
        assert await broker.read("t", 0, 0, 10) == []
        assert await broker.find("t", WHO, ["ana"]) == []
        assert await broker.append([out("t", "d", 1)]) == [0]
        broker.close()

    async def test_a_reopened_file_has_everything(self, path: Path) -> None:
        broker = open_broker(path)
        broker.create("t", 2)
        given = [OutgoingRecord("t", 1, r.key, r.value, r.headers) for r in AWKWARD]
        await broker.append([*given, out("t", "b", who="ana")])
        await broker.commit("g", "t", 1, CommittedOffset(3, "noted"))
        await broker.ingest([out("t", "c")], "chat.jsonl", SourceMark(1, "d", complete=True))
        broker.close()

        again = open_broker(path)
        assert await again.partitions("t") == 2
        assert await again.read("t", 1, 0, 100) == [as_read(r, n) for n, r in enumerate(given)]
        assert await values(again, "t") == ["b", "c"]
        assert await again.committed("g", "t", 1) == CommittedOffset(3, "noted")
        assert await again.mark("chat.jsonl") == SourceMark(1, "d", complete=True)
        assert [r.value for r in await again.find("t", WHO, ["ana"])] == [b"b"]
        assert await again.append([out("t", "d")]) == [2]
        again.close()

    async def test_what_was_acknowledged_survives_a_kill(self, path: Path) -> None:
        killed = python(KILLED_AFTER_THREE_WRITES, path)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        broker = open_broker(path)
        assert await values(broker, "t") == ["appended", "taken"]
        assert await broker.committed("g", "t", 0) == CommittedOffset(1, "noted")
        assert await broker.mark("s") == SourceMark(1, "d", complete=True)
        assert await broker.append([out("t", "next")]) == [2]
        broker.close()

    async def test_creating_a_topic_again_changes_nothing(self, path: Path) -> None:
        broker = open_broker(path)
        broker.create("t", 2)
        await broker.append([out("t", "a", 1)])
        broker.create("t", 2)
        assert await broker.end("t", 1) == 1
        for partitions in (1, 3):
            with pytest.raises(Fatal, match=f"t has 2 partitions, not {partitions}"):
                broker.create("t", partitions)
        assert await broker.partitions("t") == 2
        broker.close()

    @pytest.mark.parametrize("call", ["read", "end", "append"])
    async def test_a_partition_that_is_not_there_is_never_made_up(
        self, path: Path, call: str
    ) -> None:
        broker = open_broker(path)
        broker.create("t", 1)
        if call == "read":
            assert await broker.read("t", 1, 0, 10) == []
        elif call == "end":
            with pytest.raises(Fatal, match="t has no partition 1"):
                await broker.end("t", 1)
        else:
            with pytest.raises(Fatal, match="t has no partition 1"):
                await broker.append([out("t", "a", 1)])
        assert await broker.partitions("t") == 1
        broker.close()

    async def test_another_process_reads_while_one_writes(self, path: Path) -> None:
        broker = open_broker(path)
        broker.create("t", 1)
        await broker.append([out("t", "settled")])
        writing = sqlite3.connect(path, isolation_level=None)
        writing.execute("BEGIN IMMEDIATE")
        writing.execute("UPDATE records SET value = x'00'")
        read = python(READ_ALL, path)
        writing.execute("ROLLBACK")
        writing.close()
        assert json.loads(read.stdout) == ["settled"], read.stderr
        broker.close()

    async def test_a_reader_sees_what_is_written_after_it_opened(self, path: Path) -> None:
        broker = open_broker(path)
        broker.create("t", 1)
        reader = open_broker(path, read_only=True)
        for value in ("a", "b"):
            await broker.append([out("t", value, who=value)])
            assert [r.value for r in await reader.find("t", WHO, [value])] == [value.encode()]
        assert await values(reader, "t") == ["a", "b"]
        reader.close()
        broker.close()

    async def test_a_second_writer_is_told_to_try_again(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # The wait is tested, its length is not: nobody needs to sit through ten seconds.
        monkeypatch.setattr("streams.log.local_broker._BUSY_SECONDS", 0.01)
        broker = open_broker(path)
        broker.create("t", 1)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Transient, match="locked by another process"):
            await broker.append([out("t", "a")])
        other.execute("COMMIT")
        other.close()
        assert await broker.append([out("t", "a")]) == [0]
        broker.close()

    async def test_a_reader_cannot_write(self, path: Path) -> None:
        broker = open_broker(path)
        broker.create("t", 1)
        reader = open_broker(path, read_only=True)
        with refused("cannot be written", path):
            await reader.append([out("t", "a")])
        with refused("cannot be written", path):
            await reader.commit("g", "t", 0, CommittedOffset(1))
        with refused("cannot be written", path):
            reader.create("u", 1)
        reader.close()
        assert await broker.end("t", 0) == 0
        broker.close()

    def test_a_reader_makes_no_file(self, path: Path) -> None:
        with refused("cannot be opened", path):
            open_broker(path, read_only=True)
        assert not path.exists()

    def test_says_that_its_directory_is_missing(self, tmp_path: Path) -> None:
        with refused("check that its directory is there", tmp_path / "no" / "log"):
            open_broker(tmp_path / "no" / "log")

    def test_says_that_a_directory_lies_in_its_place(self, path: Path) -> None:
        path.mkdir()
        with refused("cannot be opened", path):
            open_broker(path)

    def test_says_that_a_file_is_no_log(self, path: Path) -> None:
        write(path, b"these are no records\n" * 500)
        with refused("damaged or not a log", path):
            open_broker(path)
        with refused("damaged or not a log", path):
            open_broker(path, read_only=True)

    def test_says_that_an_empty_file_is_no_log(self, path: Path) -> None:
        write(path, b"")
        with refused("not a log", path):
            open_broker(path, read_only=True)

    async def test_an_empty_file_is_what_a_killed_start_leaves_and_becomes_a_log(
        self, path: Path
    ) -> None:
        write(path, b"")
        broker = open_broker(path)
        broker.create("t", 1)
        assert await broker.end("t", 0) == 0
        broker.close()

    def test_says_that_the_database_of_another_program_is_no_log(self, path: Path) -> None:
        foreign = sqlite3.connect(path)
        foreign.execute("CREATE TABLE notes (text)")
        foreign.commit()
        foreign.close()
        with refused("not a log", path):
            open_broker(path)

    async def test_says_that_pages_are_overwritten(self, path: Path) -> None:
        await fill(path)
        # Behind the first page, which SQLite checks when it opens the file.
        write(path, contents(path)[:4096].ljust(len(contents(path)), b"\xab"))
        broker = open_broker(path)
        with refused("damaged", path):
            await broker.read("t", 0, 0, 500)
        with refused("damaged", path):
            await broker.append([out("t", "a")])
        broker.close()

    async def test_says_that_a_file_is_cut_off(self, path: Path) -> None:
        await fill(path)
        write(path, contents(path)[:8192])
        with refused("damaged", path):
            open_broker(path)

    def test_a_write_that_the_disk_refuses_keeps_what_was_acknowledged(self, path: Path) -> None:
        """A limit on the size of files stands for any disk that refuses to write."""
        written = python(WRITE_UNTIL_REFUSED, path, 1_000_000)
        acknowledged, kept, end, message = json.loads(written.stdout)
        assert 0 < acknowledged < 3000
        assert kept == end == acknowledged
        assert message.startswith(f"{path}: the disk reports an error")
        assert "\n" not in message

    def test_a_full_disk_keeps_what_was_acknowledged(self, tmp_path: Path) -> None:
        disk = tmp_path / "disk"
        written = on_small_disk(WRITE_UNTIL_REFUSED, disk / "log", "1m")
        acknowledged, kept, end, message = json.loads(written.stdout)
        assert 0 < acknowledged < 3000
        assert kept == end == acknowledged
        assert message.startswith(f"{disk}/log: the disk is full: free some space")
        assert "\n" not in message


def refused(meaning: str, path: Path) -> pytest.RaisesExc[NoStore]:
    """Expect one line that names the file and says what is wrong with it."""
    return pytest.RaisesExc(
        NoStore,
        check=lambda error: (
            meaning in str(error) and str(error).startswith(f"{path}: ") and "\n" not in str(error)
        ),
    )


async def fill(path: Path) -> None:
    """Write a log of many pages and close it."""
    broker = open_broker(path)
    broker.create("t", 1)
    await broker.append([out("t", "x" * 2_000, who=f"{n}") for n in range(200)])
    broker.close()


def write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def contents(path: Path) -> bytes:
    return path.read_bytes()


PARTITIONS = {"t": 2, "u": 1}
PLACES = st.sampled_from([("t", 0), ("t", 1), ("u", 0)])
WORDS = st.sampled_from(["", "a", "ab", "abc", "b", "Käse", "%", "\U0001f9c0"])
PAIRS = st.tuples(
    st.sampled_from([WHO, "free"]), st.none() | WORDS.map(str.encode) | st.binary(max_size=4)
)


@st.composite
def records(draw: st.DrawFn) -> OutgoingRecord:
    topic, partition = draw(PLACES)
    key, value = draw(st.none() | st.binary(max_size=4)), draw(st.binary(max_size=8))
    return OutgoingRecord(topic, partition, key, value, tuple(draw(st.lists(PAIRS, max_size=3))))


BATCHES = st.lists(records(), max_size=6)
GROUPS = st.sampled_from(["reader", "writer"])
SOURCES = st.sampled_from(["first", "second"])


@dataclass
class Model:
    """A log as one would explain it: a list per partition and a dict of places."""

    records: dict[tuple[str, int], list[LogRecord]] = field(
        default_factory=lambda: {("t", 0): [], ("t", 1): [], ("u", 0): []}
    )
    groups: dict[tuple[str, str, int], CommittedOffset] = field(
        default_factory=dict[tuple[str, str, int], CommittedOffset]
    )
    marks: dict[str, SourceMark] = field(default_factory=dict[str, SourceMark])

    def append(self, batch: Sequence[OutgoingRecord]) -> list[int]:
        offsets: list[int] = []
        for record in batch:
            partition = self.records[record.topic, record.partition]
            offsets.append(len(partition))
            partition.append(as_read(record, len(partition)))
        return offsets

    def find(self, topic: str, accepts: Callable[[str], bool]) -> list[LogRecord]:
        return [
            record
            for partition in range(PARTITIONS[topic])
            for record in self.records[topic, partition]
            if any(
                name == WHO and value is not None and accepts(value.decode("utf-8", "replace"))
                for name, value in record.headers
            )
        ]


class LocalBrokerAgainstModel(RuleBasedStateMachine):
    """Any sequence of calls, restarts among them, answers as the model does."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.model = Model()
        self.broker: LocalBroker

    @initialize()
    def start(self) -> None:
        self.open()
        for topic, partitions in PARTITIONS.items():
            self.broker.create(topic, partitions)

    def open(self) -> None:
        indexed = {topic: frozenset({WHO}) for topic in PARTITIONS}
        self.broker = LocalBroker(Path(self.directory.name) / "log", indexed=indexed)

    def teardown(self) -> None:
        self.broker.close()
        self.directory.cleanup()

    @rule()
    def restart(self) -> None:
        self.broker.close()
        self.open()

    @rule(batch=BATCHES)
    def append(self, batch: list[OutgoingRecord]) -> None:
        assert asyncio.run(self.broker.append(batch)) == self.model.append(batch)

    @rule(batch=BATCHES)
    def fail_to_append(self, batch: list[OutgoingRecord]) -> None:
        with pytest.raises(Fatal, match=r"unheard\.of"):
            asyncio.run(self.broker.append([*batch, out("unheard.of", "x")]))

    @rule(batch=BATCHES, source=SOURCES, line=st.integers(0, 9), complete=st.booleans())
    def ingest(
        self, batch: list[OutgoingRecord], source: str, line: int, *, complete: bool
    ) -> None:
        mark = SourceMark(line, f"digest {line}", complete)
        asyncio.run(self.broker.ingest(batch, source, mark))
        self.model.append(batch)
        self.model.marks[source] = mark

    @rule(group=GROUPS, place=PLACES, offset=st.integers(0, 50), metadata=WORDS)
    def commit(self, group: str, place: tuple[str, int], offset: int, metadata: str) -> None:
        committed = CommittedOffset(offset, metadata)
        asyncio.run(self.broker.commit(group, *place, committed))
        self.model.groups[group, *place] = committed

    @rule(place=PLACES, offset=st.integers(0, 20), limit=st.integers(0, 20))
    def read(self, place: tuple[str, int], offset: int, limit: int) -> None:
        expected = self.model.records[place][offset : offset + limit]
        assert asyncio.run(self.broker.read(*place, offset, limit)) == expected

    @rule(topic=st.sampled_from(["t", "u"]), asked=st.lists(WORDS, max_size=3))
    def find(self, topic: str, asked: list[str]) -> None:
        expected = self.model.find(topic, lambda value: value in asked)
        assert asyncio.run(self.broker.find(topic, WHO, asked)) == expected

    @rule(topic=st.sampled_from(["t", "u"]), beginning=WORDS)
    def find_beginning(self, topic: str, beginning: str) -> None:
        expected = self.model.find(topic, lambda value: value.startswith(beginning))
        assert asyncio.run(self.broker.find_beginning(topic, [WHO], beginning)) == expected

    @invariant()
    def knows_its_ends_and_places(self) -> None:
        for place, records in self.model.records.items():
            assert asyncio.run(self.broker.end(*place)) == len(records)
            for group in ("reader", "writer"):
                expected = self.model.groups.get((group, *place))
                assert asyncio.run(self.broker.committed(group, *place)) == expected
        for source in ("first", "second"):
            assert asyncio.run(self.broker.mark(source)) == self.model.marks.get(source)


TestLocalBrokerAgainstModel = LocalBrokerAgainstModel.TestCase
TestLocalBrokerAgainstModel.settings = settings(
    max_examples=40, stateful_step_count=25, deadline=None
)
