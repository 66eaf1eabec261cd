"""The partitions that a group assigns: claimed, worked on and let go of, with a log that is real."""

import asyncio
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.topics import DECISIONS, EVENTS
from streams.log.failures import RetryPolicy
from streams.log.local_broker import LocalBroker
from streams.log.partitions import Partitions
from streams.model.ports.failures import Fatal, NotYet, Poison, Transient
from streams.model.ports.log import CommittedOffset, HandledBatch, LogRecord, OutgoingRecord
from tests.fakes.member import ReadingMember

GROUP = "test"
EVENTS_EACH = 5
TURNS = 60
"""More than any task here needs to get to its next wait."""

POINTS = ("claim", "handle", "before the append", "append", "before the commit", "commit")
"""Where a failure can strike; "append" and "commit": they succeeded, and nobody was told."""


class Failures:
    """Who fails next, and where."""

    def __init__(self) -> None:
        self._next: dict[tuple[str, int], list[Exception]] = defaultdict(list)

    def at(self, point: str, partition: int, *errors: Exception) -> None:
        self._next[point, partition] += errors

    def strike(self, point: str, partition: int) -> None:
        if self._next[point, partition]:
            raise self._next[point, partition].pop(0)

    def end(self) -> None:
        self._next.clear()


class Gate:
    """A place where work stands still until it is let through."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()

    async def passed(self) -> None:
        self.reached.set()
        await self.opened.wait()


class UnsureBroker(LocalBroker):
    """A log of which it is not always told what it has done."""

    def __init__(self, path: Path, failures: Failures) -> None:
        super().__init__(path, indexed={})
        self._failures = failures
        self.commits: dict[int, Gate] = {}
        """Where commits of a partition stand still."""
        self.committing: list[int] = []

    async def append(self, records: Sequence[OutgoingRecord]) -> list[int]:
        await asyncio.sleep(0)
        partition = records[0].partition
        self._failures.strike("before the append", partition)
        offsets = await super().append(records)
        self._failures.strike("append", partition)
        return offsets

    async def commit(
        self, group: str, topic: str, partition: int, position: CommittedOffset
    ) -> None:
        await asyncio.sleep(0)
        if partition in self.commits:
            await self.commits[partition].passed()
        self._failures.strike("before the commit", partition)
        self.committing.append(position.offset)
        decided = await self.end(DECISIONS.name, partition)
        assert position.offset <= decided, "a commit has passed what is not handled"
        await super().commit(group, topic, partition, position)
        self._failures.strike("commit", partition)


class Deciding:
    """A process that appends a decision per event, and claims as owners do: from what is there."""

    topic = EVENTS.name
    group = GROUP

    def __init__(self, log: LocalBroker, failures: Failures) -> None:
        self._log = log
        self._failures = failures
        self.gates: dict[tuple[str, int], Gate] = {}
        self.turns = 0
        self.lives: dict[int, list[list[int]]] = defaultdict(list)
        """Per partition, for each claim where it began and which offsets were handled then."""
        self.happened: list[str] = []

    async def claim(self, partition: int) -> int:
        await self._step("claim", partition)
        committed = await self._log.committed(GROUP, EVENTS.name, partition)
        decided = await self._log.end(DECISIONS.name, partition)
        position = max(decided, 0 if committed is None else committed.offset)
        self.lives[partition].append([])
        self.happened.append(f"claimed {partition} at {position}")
        return position

    async def handle(self, partition: int, records: Sequence[LogRecord]) -> HandledBatch:
        self.lives[partition][-1] += [record.offset for record in records]
        await self._step("handle", partition)
        self.happened.append(f"handled {partition}")
        decisions = [decision(record.partition, record.offset) for record in records]
        return HandledBatch(decisions, _acknowledged, metadata="noted")

    async def settle(self, partition: int) -> None:
        await self._step("settle", partition)
        self.happened.append(f"settled {partition}")

    def release(self, partition: int) -> None:
        self.happened.append(f"released {partition}")

    async def _step(self, step: str, partition: int) -> None:
        for _ in range(self.turns):
            await asyncio.sleep(0)
        if (step, partition) in self.gates:
            await self.gates[step, partition].passed()
        self._failures.strike(step, partition)


async def _acknowledged(offsets: list[int]) -> None:
    del offsets


class Waits:
    """A clock moved by hand: who waits, waits until `elapse`."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self._elapsed = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        if seconds:
            self.seconds.append(seconds)
            await self._elapsed.wait()

    def elapse(self) -> None:
        self._elapsed.set()
        self._elapsed = asyncio.Event()


class Bench:
    """Partitions between a process, a log and a member, and all that they said and did."""

    def __init__(self, directory: Path, revoke_seconds: float) -> None:
        self.failures = Failures()
        self.log = UnsureBroker(directory / "log.sqlite3", self.failures)
        self.process = Deciding(self.log, self.failures)
        self.member = ReadingMember(self.log, GROUP, EVENTS.name)
        self.waits = Waits()
        self.lines: list[str] = []
        self.stopped: list[Exception] = []
        self.measured: list[tuple[str, int]] = []
        self.partitions = Partitions(
            self.process,
            self.log,
            self.member,
            retry=RetryPolicy(attempts_max=2, delay_max_seconds=0.5),
            revoke_seconds=revoke_seconds,
            sleep=self.waits.sleep,
            report=self.lines.append,
            stop=self.stopped.append,
            measured=self._measure,
            claiming=lambda _: nullcontext(),
        )

    @contextmanager
    def _measure(self, topic: str, records: int) -> Generator[None]:
        self.measured.append((topic, records))
        yield

    async def fill(self, events: int) -> None:
        for topic in (EVENTS.name, DECISIONS.name):
            self.log.create(topic, 2)
        for partition in (0, 1):
            sent = [OutgoingRecord(EVENTS.name, partition, None, b"event")] * events
            await LocalBroker.append(self.log, sent)

    async def publish(self, partition: int) -> None:
        """Append one more event; failures strike those who append decisions."""
        await LocalBroker.append(self.log, [OutgoingRecord(EVENTS.name, partition, None, b"event")])

    async def assign(self, *partitions: int) -> None:
        """Have a group assign these, and wait until nothing more follows from that."""
        await self.member.take(partitions)
        self.partitions.assigned(partitions)
        await quiet()

    async def feed(self, limit: int = 100) -> None:
        await self.partitions.handle(await self.member.fetch(limit))
        await quiet()

    async def let_wait(self) -> None:
        """Let all waits be over that have begun or are about to."""
        await quiet()
        self.waits.elapse()
        await quiet()

    async def committed(self, partition: int) -> CommittedOffset | None:
        return await self.log.committed(GROUP, EVENTS.name, partition)

    async def decided(self, partition: int) -> list[int]:
        """Return which events of a partition have a decision, in the order of the decisions."""
        records = await self.log.read(DECISIONS.name, partition, 0, 1_000)
        return [int(record.value or b"") for record in records]

    async def events(self, partition: int) -> list[LogRecord]:
        return await self.log.read(EVENTS.name, partition, 0, 1_000)

    async def assert_done(self, partition: int, events: int = EVENTS_EACH) -> None:
        """Every event has its one decision, in order, and the group's place is behind them."""
        assert await self.decided(partition) == list(range(events))
        assert await self.committed(partition) == CommittedOffset(events, "noted")


def decision(partition: int, offset: int) -> OutgoingRecord:
    return OutgoingRecord(DECISIONS.name, partition, None, str(offset).encode())


async def quiet() -> None:
    """Let every task go as far as it can: nothing here waits for a clock or a network."""
    for _ in range(TURNS):
        await asyncio.sleep(0)


@pytest.fixture
def revoke_seconds() -> float:
    """Return how long a batch may hold up a rebalance: longer than any test here takes."""
    return 60.0


@pytest.fixture
async def bench(tmp_path: Path, revoke_seconds: float) -> AsyncIterator[Bench]:
    """Make a log with two partitions of five events."""
    made = Bench(tmp_path, revoke_seconds)
    await made.fill(EVENTS_EACH)
    yield made
    await made.partitions.close()
    made.log.close()


class TestClaim:
    async def test_a_partition_is_paused_until_it_is_claimed_and_goes_on_where_the_claim_says(
        self, bench: Bench
    ) -> None:
        await LocalBroker.append(bench.log, [decision(0, 0), decision(0, 1)])
        gate = bench.process.gates["claim", 0] = Gate()
        await bench.assign(0)
        assert bench.member.calls == ["pause 0"]
        assert await bench.member.fetch(10) == []
        gate.opened.set()
        await quiet()
        assert bench.member.calls == ["pause 0", "resume 0 at 2"]
        await bench.feed()
        assert bench.process.lives[0] == [[2, 3, 4]]
        await bench.assert_done(0)

    async def test_records_before_the_claimed_offset_are_left_out(self, bench: Bench) -> None:
        await LocalBroker.append(bench.log, [decision(0, 0), decision(0, 1)])
        await bench.assign(0)
        await bench.partitions.handle(await bench.events(0))
        assert bench.process.lives[0] == [[2, 3, 4]]
        await bench.assert_done(0)

    async def test_records_that_come_again_are_left_out(self, bench: Bench) -> None:
        await bench.assign(0)
        await bench.partitions.handle((await bench.events(0))[:3])
        await bench.partitions.handle(await bench.events(0))
        await bench.partitions.handle(await bench.events(0))
        assert bench.process.lives[0] == [[0, 1, 2, 3, 4]]
        await bench.assert_done(0)

    async def test_records_of_a_partition_that_is_not_ours_are_left_out(self, bench: Bench) -> None:
        await bench.assign(0)
        await bench.partitions.handle(await bench.events(1))
        assert (bench.process.lives[1], await bench.decided(1)) == ([], [])
        assert await bench.committed(1) is None

    async def test_records_of_a_partition_that_is_not_claimed_are_left_out(
        self, bench: Bench
    ) -> None:
        bench.failures.at("claim", 0, Transient("the index is away"))
        await bench.assign(0)
        await bench.partitions.handle(await bench.events(0))
        assert (bench.process.lives[0], await bench.decided(0)) == ([], [])
        assert await bench.committed(0) is None

    async def test_a_partition_that_comes_back_is_claimed_anew(self, bench: Bench) -> None:
        """Somebody else may have worked on it meanwhile: nothing that was known counts."""
        await bench.assign(0)
        await bench.feed(2)
        await bench.partitions.revoked([0])
        await LocalBroker.append(bench.log, [decision(0, 2)])
        await bench.assign(0)
        assert bench.member.calls[-2:] == ["pause 0", "resume 0 at 3"]
        await bench.feed()
        assert bench.process.lives[0] == [[0, 1], [3, 4]]
        await bench.assert_done(0)


class TestSettling:
    """Between two batches a process looks after what it holds, also where no record comes."""

    async def test_what_is_idle_is_looked_after_and_what_is_under_way_is_not(
        self, bench: Bench
    ) -> None:
        gate = bench.process.gates["handle", 0] = Gate()
        bench.failures.at("claim", 1, Transient("the index is away"))
        await bench.assign(0, 1)
        working = asyncio.create_task(bench.feed())
        await gate.reached.wait()
        await bench.partitions.settle()
        assert "settled 0" not in bench.process.happened
        gate.opened.set()
        await working
        await bench.partitions.settle()
        assert bench.process.happened[-1] == "settled 0"
        assert "settled 1" not in bench.process.happened  # it is not claimed
        await bench.let_wait()
        await bench.partitions.settle()
        assert bench.process.happened[-2:] == ["settled 0", "settled 1"]

    async def test_what_is_found_wrong_there_is_claimed_again(self, bench: Bench) -> None:
        await bench.assign(0)
        await bench.feed()
        bench.failures.at("settle", 0, Transient("the index was swapped"))
        await bench.partitions.settle()
        assert bench.partitions.held[0].waits_for == "the index was swapped"
        await bench.let_wait()
        assert bench.process.happened[-1] == f"claimed 0 at {EVENTS_EACH}"
        await bench.publish(0)
        await bench.feed()
        await bench.assert_done(0, EVENTS_EACH + 1)

    async def test_what_cannot_be_mended_there_is_told(self, bench: Bench) -> None:
        await bench.assign(0)
        bench.failures.at("settle", 0, error := Fatal("it belongs to another log"))
        await bench.partitions.settle()
        assert bench.stopped == [error]

    async def test_a_batch_waits_until_it_is_over(self, bench: Bench) -> None:
        gate = bench.process.gates["settle", 0] = Gate()
        await bench.assign(0)
        settling = asyncio.create_task(bench.partitions.settle())
        await gate.reached.wait()
        working = asyncio.create_task(bench.feed())
        await quiet()
        assert bench.process.lives[0] == [[]]
        gate.opened.set()
        await asyncio.gather(settling, working)
        await bench.assert_done(0)

    async def test_at_the_end_the_last_batch_is_settled_or_left_to_the_next_start(
        self, bench: Bench
    ) -> None:
        bench.failures.at("settle", 1, Transient("the index is away"))
        await bench.assign(0, 1)
        await bench.feed()
        await bench.partitions.close()
        assert bench.process.happened[-1] == "settled 0"
        await bench.assert_done(1)


class TestWaiting:
    """Somebody else must catch up first: nothing has failed, so nothing is claimed anew."""

    async def test_the_same_records_are_asked_for_again_and_none_is_passed_over(
        self, bench: Bench
    ) -> None:
        bench.failures.at("handle", 0, *[NotYet("the writer is behind")] * 3)
        await bench.assign(0)
        for _ in range(3):
            await bench.feed(2)
            assert bench.partitions.held[0].waits_for == "the writer is behind"
            assert await bench.member.fetch(10) == []  # it is paused
            await bench.let_wait()
        assert bench.lines == ["memory.events/0 waits: the writer is behind"]
        assert bench.member.calls == ["pause 0", "resume 0 at 0"] * 4
        await bench.feed()
        assert bench.partitions.held[0].waits_for == ""
        assert len(bench.process.lives[0]) == 1
        await bench.assert_done(0)

    async def test_a_partition_that_is_lost_meanwhile_is_not_gone_on_with(
        self, bench: Bench
    ) -> None:
        bench.failures.at("handle", 0, NotYet("the writer is behind"))
        await bench.assign(0)
        await bench.feed()
        await bench.partitions.revoked([0])
        await bench.let_wait()
        assert bench.member.calls == ["pause 0", "resume 0 at 0", "pause 0"]
        assert await bench.decided(0) == []


class TestTransientFailures:
    @pytest.mark.parametrize("point", POINTS)
    async def test_a_failure_is_waited_out_and_nothing_is_lost_or_doubled(
        self, bench: Bench, point: str
    ) -> None:
        bench.failures.at(point, 0, Transient("Kafka is away"))
        await bench.assign(0)
        await bench.feed()
        assert bench.lines == ["memory.events/0 waits: Kafka is away; trying again in 0.1 s"]
        assert bench.partitions.held[0].next is None
        assert bench.partitions.held[0].waits_for == "Kafka is away"
        assert await bench.member.fetch(10) == []  # it is paused
        claims = len(bench.process.lives[0])
        await bench.let_wait()
        assert len(bench.process.lives[0]) == claims + 1
        await bench.feed()
        await bench.partitions.handle(await bench.events(0))
        assert await bench.decided(0) == list(range(EVENTS_EACH))
        await bench.publish(0)
        await bench.feed()
        await bench.assert_done(0, EVENTS_EACH + 1)
        assert bench.stopped == []

    async def test_it_goes_on_from_the_claim_and_not_from_the_batch(self, bench: Bench) -> None:
        """The append came through though nobody was told: only the log knows."""
        bench.failures.at("append", 0, Transient("no answer"))
        await bench.assign(0)
        await bench.feed(3)
        await bench.let_wait()
        assert bench.member.calls == ["pause 0", "resume 0 at 0", "pause 0", "resume 0 at 3"]
        await bench.feed()
        assert bench.process.lives[0] == [[0, 1, 2], [3, 4]]
        await bench.assert_done(0)

    @pytest.mark.parametrize("point", ["claim", "handle"])
    async def test_the_waits_grow_and_it_never_gives_up(self, bench: Bench, point: str) -> None:
        bench.failures.at(point, 0, *[Transient("the index is away")] * 20)
        await bench.assign(0)
        for _ in range(20):
            await bench.feed()
            await bench.let_wait()
        await bench.feed()
        assert bench.waits.seconds == [0.1, 0.2, 0.4, *[0.5] * 17]
        assert bench.lines[-1] == (
            "memory.events/0 waits: the index is away; trying again in 0.5 s"
        )
        assert (bench.stopped, bench.partitions.held[0].next) == ([], EVENTS_EACH)
        await bench.assert_done(0)

    async def test_after_a_batch_that_succeeds_the_waits_are_short_again(
        self, bench: Bench
    ) -> None:
        bench.failures.at("handle", 0, *[Transient("away")] * 3)
        await bench.assign(0)
        for _ in range(4):
            await bench.feed(2)
            await bench.let_wait()
        bench.failures.at("handle", 0, Transient("away"))
        await bench.feed(2)
        assert bench.waits.seconds == [0.1, 0.2, 0.4, 0.1]

    async def test_a_claim_that_succeeds_does_not_shorten_the_waits(self, bench: Bench) -> None:
        """A partition that can be claimed and not worked on would be tried without end."""
        bench.failures.at("before the commit", 0, *[Transient("away")] * 3)
        await bench.assign(0)
        for _ in range(3):
            await bench.partitions.handle(await bench.events(0))
            await bench.publish(0)
            await bench.let_wait()
        assert bench.waits.seconds == [0.1, 0.2, 0.4]

    async def test_the_other_partitions_go_on_while_one_waits(self, bench: Bench) -> None:
        bench.failures.at("handle", 0, Transient("the index is away"))
        await bench.assign(0, 1)
        await bench.feed(2)
        await bench.feed()
        await bench.assert_done(1)
        assert (await bench.decided(0), await bench.committed(0)) == ([], None)
        await bench.let_wait()
        await bench.feed()
        await bench.assert_done(0)

    async def test_a_partition_can_be_claimed_while_another_has_a_batch_under_way(
        self, bench: Bench
    ) -> None:
        bench.failures.at("claim", 1, Transient("the index is away"))
        gate = bench.process.gates["handle", 0] = Gate()
        await bench.assign(0, 1)
        feeding = asyncio.create_task(bench.feed())
        await gate.reached.wait()
        await bench.let_wait()
        assert bench.partitions.held[1].next == 0
        gate.opened.set()
        await feeding
        await bench.feed()
        await bench.assert_done(0)
        await bench.assert_done(1)


Failing: TypeAlias = tuple[Exception, type[Exception], str]

FATAL: dict[str, Failing] = {
    "fatal": (Fatal("the log is damaged"), Fatal, "the log is damaged"),
    "poison": (
        Poison("no event"),
        Fatal,
        "a poisoned record of memory.events was not set aside: no event",
    ),
    "unexpected": (ValueError("a mistake"), ValueError, "a mistake"),
}


class TestWhatCannotBeMended:
    @pytest.mark.parametrize("failing", FATAL.values(), ids=list(FATAL))
    @pytest.mark.parametrize("point", POINTS)
    async def test_it_is_told_once_and_then_nothing_is_done_any_more(
        self, bench: Bench, point: str, failing: Failing
    ) -> None:
        error, kind, line = failing
        bench.failures.at(point, 0, error)
        await bench.assign(0, 1)
        await bench.feed(2)
        claimed = list(bench.process.happened)
        decided = [await bench.decided(partition) for partition in (0, 1)]
        committed = [await bench.committed(partition) for partition in (0, 1)]
        for partition in (0, 1):
            await bench.partitions.handle(await bench.events(partition))
        await bench.let_wait()
        await bench.feed()
        assert [(type(one), str(one)) for one in bench.stopped] == [(kind, line)]
        assert (bench.process.happened, bench.waits.seconds) == (claimed, [])
        assert [await bench.decided(partition) for partition in (0, 1)] == decided
        assert [await bench.committed(partition) for partition in (0, 1)] == committed
        assert bench.partitions.held == {}

    async def test_nothing_is_committed_behind_the_hole(self, bench: Bench) -> None:
        """A later commit of the same partition would pass the record that nobody handled."""
        await bench.assign(0)
        await bench.feed(2)
        bench.failures.at("handle", 0, Fatal("the log is damaged"))
        await bench.feed(1)
        await bench.feed()
        assert await bench.decided(0) == [0, 1]
        assert await bench.committed(0) == CommittedOffset(2, "noted")

    async def test_what_others_do_at_that_time_is_finished_before_the_end(
        self, bench: Bench
    ) -> None:
        """Their decisions may be in the log already: the log must not be closed under them."""
        gate = bench.process.gates["handle", 1] = Gate()
        bench.failures.at("handle", 0, Fatal("the log is damaged"))
        await bench.assign(0, 1)
        feeding = asyncio.create_task(bench.feed())
        await gate.reached.wait()
        await quiet()
        assert [str(error) for error in bench.stopped] == ["the log is damaged"]
        closing = asyncio.create_task(bench.partitions.close())
        await quiet()
        assert not closing.done()
        gate.opened.set()
        await closing
        await bench.assert_done(1)
        await feeding

    async def test_a_partition_that_waits_is_not_claimed_any_more(self, bench: Bench) -> None:
        bench.failures.at("claim", 1, Transient("the index is away"))
        bench.failures.at("handle", 0, Fatal("the log is damaged"))
        await bench.assign(0, 1)
        await bench.feed()
        await bench.let_wait()
        assert bench.process.lives[1] == []
        assert [str(error) for error in bench.stopped] == ["the log is damaged"]

    async def test_a_claim_under_way_comes_to_nothing(self, bench: Bench) -> None:
        gate = bench.process.gates["claim", 1] = Gate()
        bench.failures.at("handle", 0, Fatal("the log is damaged"))
        await bench.assign(0, 1)
        await bench.feed()
        gate.opened.set()
        await quiet()
        assert bench.process.happened == ["claimed 0 at 0"]
        assert bench.member.calls == ["pause 0", "pause 1", "resume 0 at 0"]


class TestSideBySide:
    """What is slow holds up nothing that does not depend on it."""

    async def test_a_partition_works_while_another_is_under_way(self, bench: Bench) -> None:
        gate = bench.process.gates["handle", 0] = Gate()
        await bench.assign(0, 1)
        feeding = asyncio.create_task(bench.feed())
        await gate.reached.wait()
        await quiet()
        await bench.assert_done(1)
        assert await bench.committed(0) is None
        gate.opened.set()
        await feeding
        await bench.assert_done(0)

    async def test_a_batch_does_not_wait_until_the_one_before_it_is_committed(
        self, bench: Bench
    ) -> None:
        gate = bench.log.commits[0] = Gate()
        await bench.assign(0)
        await bench.feed(2)
        await bench.feed(2)
        assert (await bench.decided(0), await bench.committed(0)) == ([0, 1, 2, 3], None)
        gate.opened.set()
        await quiet()
        assert await bench.committed(0) == CommittedOffset(4, "noted")

    async def test_what_was_done_during_a_commit_is_committed_once(self, bench: Bench) -> None:
        gate = bench.log.commits[0] = Gate()
        await bench.assign(0)
        for _ in range(EVENTS_EACH):
            await bench.feed(1)
        gate.opened.set()
        await quiet()
        await bench.assert_done(0)
        assert bench.log.committing == [1, EVENTS_EACH]

    async def test_a_claim_waits_for_the_commit_that_is_under_way(self, bench: Bench) -> None:
        """It reads what was committed: a moment later that would be another place."""
        gate = bench.log.commits[0] = Gate()
        await bench.assign(0)
        await bench.feed(2)
        bench.failures.at("handle", 0, Transient("the index is away"))
        await bench.feed(2)
        await bench.let_wait()
        assert bench.process.happened.count("claimed 0 at 2") == 0
        gate.opened.set()
        await quiet()
        assert bench.process.happened.count("claimed 0 at 2") == 1
        await bench.feed()
        await bench.assert_done(0)

    async def test_commits_that_go_on_failing_are_tried_less_and_less_often(
        self, bench: Bench
    ) -> None:
        bench.failures.at("before the commit", 0, *[Transient("the group moves")] * 3)
        await bench.assign(0)
        for _ in range(3):
            await bench.feed(1)
            await bench.let_wait()
        assert bench.waits.seconds == sorted(set(bench.waits.seconds))
        await bench.feed()
        await bench.assert_done(0)


class TestRevocation:
    async def test_it_waits_for_the_batch_under_way_and_then_lets_go(self, bench: Bench) -> None:
        """Else the next owner and this one would decide on the same events."""
        gate = bench.process.gates["handle", 0] = Gate()
        await bench.assign(0, 1)
        feeding = asyncio.create_task(bench.feed(2))
        await gate.reached.wait()
        revoking = asyncio.create_task(bench.partitions.revoked([0, 1]))
        await quiet()
        assert not revoking.done()
        assert not any(said.startswith("released") for said in bench.process.happened)
        gate.opened.set()
        await revoking
        assert await bench.committed(0) == CommittedOffset(2, "noted")
        assert bench.process.happened[-3:] == ["handled 0", "released 0", "released 1"]
        await feeding
        assert (bench.partitions.held, bench.lines) == ({}, [])

    async def test_after_it_nothing_is_handled_or_committed(self, bench: Bench) -> None:
        await bench.assign(0, 1)
        await bench.feed(2)
        await bench.partitions.revoked([0])
        await bench.partitions.handle([*await bench.events(0), *await bench.events(1)])
        assert bench.process.lives == {0: [[0, 1]], 1: [[0, 1, 2, 3, 4]]}
        assert await bench.committed(0) == CommittedOffset(2, "noted")
        await bench.assert_done(1)

    async def test_a_batch_that_waits_for_its_turn_is_left_out(self, bench: Bench) -> None:
        gate = bench.process.gates["handle", 0] = Gate()
        await bench.assign(0)
        first = asyncio.create_task(bench.feed(2))
        await gate.reached.wait()
        second = asyncio.create_task(bench.feed())
        await quiet()
        revoking = asyncio.create_task(bench.partitions.revoked([0]))
        await quiet()
        gate.opened.set()
        await asyncio.gather(first, second, revoking)
        assert bench.process.lives[0] == [[0, 1]]
        assert await bench.committed(0) == CommittedOffset(2, "noted")

    async def test_it_waits_for_the_commit_of_the_last_batch_too(self, bench: Bench) -> None:
        """Else the next owner would begin with records that are done."""
        gate = bench.log.commits[0] = Gate()
        await bench.assign(0)
        await bench.feed()
        revoking = asyncio.create_task(bench.partitions.revoked([0]))
        await quiet()
        assert not revoking.done()
        gate.opened.set()
        await revoking
        await bench.assert_done(0)
        assert bench.process.happened[-1] == "released 0"

    async def test_a_partition_that_waits_to_be_tried_again_is_not_claimed_again(
        self, bench: Bench
    ) -> None:
        bench.failures.at("handle", 0, Transient("the index is away"))
        await bench.assign(0)
        await bench.feed()
        await bench.partitions.revoked([0])
        await bench.let_wait()
        assert len(bench.process.lives[0]) == 1
        assert bench.member.calls == ["pause 0", "resume 0 at 0", "pause 0"]

    async def test_a_claim_under_way_comes_to_nothing(self, bench: Bench) -> None:
        gate = bench.process.gates["claim", 0] = Gate()
        await bench.assign(0)
        await bench.partitions.revoked([0])
        gate.opened.set()
        await quiet()
        assert bench.process.happened == ["released 0"]
        assert bench.member.calls == ["pause 0"]

    async def test_a_failure_of_the_batch_under_way_is_no_reason_to_claim_again(
        self, bench: Bench
    ) -> None:
        """Another owner has the partition by then, and will meet the failure or not."""
        gate = bench.process.gates["handle", 0] = Gate()
        bench.failures.at("handle", 0, Transient("the index is away"))
        await bench.assign(0)
        feeding = asyncio.create_task(bench.feed())
        await gate.reached.wait()
        revoking = asyncio.create_task(bench.partitions.revoked([0]))
        await quiet()
        gate.opened.set()
        await asyncio.gather(revoking, feeding)
        assert (bench.waits.seconds, bench.lines, bench.stopped) == ([], [], [])
        assert bench.member.calls == ["pause 0", "resume 0 at 0"]
        assert await bench.committed(0) is None

    @pytest.mark.parametrize("revoke_seconds", [0.01])
    async def test_a_batch_that_takes_too_long_is_cut_off_with_a_report(self, bench: Bench) -> None:
        """The group would take the partition away anyhow, with the batch still under way."""
        gate = bench.process.gates["handle", 0] = Gate()
        await bench.assign(0)
        feeding = asyncio.create_task(bench.feed())
        await gate.reached.wait()
        await bench.partitions.revoked([0])
        assert bench.lines == ["memory.events: a batch takes too long and is cut off"]
        assert bench.process.happened == ["claimed 0 at 0", "released 0"]
        gate.opened.set()
        await feeding
        assert (await bench.decided(0), await bench.committed(0)) == ([], None)
        assert (bench.stopped, bench.waits.seconds) == ([], [])

    @pytest.mark.parametrize("revoke_seconds", [0.01])
    async def test_what_was_cut_off_is_done_again_by_whoever_comes_next(self, bench: Bench) -> None:
        """Be it the same process: nothing is left of the batch that could come in between."""
        gate = bench.process.gates["handle", 0] = Gate()
        await bench.assign(0)
        feeding = asyncio.create_task(bench.feed(2))
        await gate.reached.wait()
        await bench.partitions.revoked([0])
        await bench.assign(0)
        gate.opened.set()
        await feeding
        await bench.feed()
        assert bench.process.lives[0] == [[0, 1], [0, 1, 2, 3, 4]]
        await bench.assert_done(0)

    async def test_where_nobody_told_of_it_partitions_that_are_not_named_again_are_lost(
        self, bench: Bench
    ) -> None:
        """A member that the group had given up for dead is told only what it has now."""
        bench.failures.at("claim", 0, Transient("the index is away"))
        await bench.assign(0)
        await bench.assign(1)
        await bench.let_wait()
        await bench.partitions.handle([*await bench.events(0), *await bench.events(1)])
        assert set(bench.partitions.held) == {1}
        assert (bench.process.lives[0], await bench.decided(0)) == ([], [])
        await bench.assert_done(1)

    async def test_letting_go_of_what_was_never_ours_is_no_failure(self, bench: Bench) -> None:
        await bench.partitions.revoked([0, 1])
        await bench.partitions.revoked([])
        assert (bench.partitions.held, bench.stopped) == ({}, [])


class TestClose:
    async def test_it_waits_for_the_batch_under_way_and_nothing_is_handled_after_it(
        self, bench: Bench
    ) -> None:
        gate = bench.process.gates["handle", 0] = Gate()
        await bench.assign(0, 1)
        feeding = asyncio.create_task(bench.feed(2))
        await gate.reached.wait()
        closing = asyncio.create_task(bench.partitions.close())
        await quiet()
        assert not closing.done()
        gate.opened.set()
        await closing
        assert await bench.committed(0) == CommittedOffset(2, "noted")
        await feeding
        await bench.feed()
        await bench.partitions.handle(await bench.events(1))
        assert bench.process.lives == {0: [[0, 1]], 1: [[0, 1]]}
        assert await bench.committed(1) == CommittedOffset(2, "noted")

    @pytest.mark.parametrize("revoke_seconds", [0.01])
    async def test_a_batch_that_takes_too_long_is_cut_off(self, bench: Bench) -> None:
        """A process that is told to stop has only so long until it is killed."""
        gate = bench.process.gates["handle", 0] = Gate()
        await bench.assign(0)
        feeding = asyncio.create_task(bench.feed())
        await gate.reached.wait()
        await bench.partitions.close()
        assert bench.lines == ["memory.events: a batch takes too long and is cut off"]
        gate.opened.set()
        await feeding
        assert (await bench.decided(0), await bench.committed(0)) == ([], None)

    @pytest.mark.parametrize("step", ["handle", "settle"])
    async def test_a_rebalance_meanwhile_lets_go_of_nothing_before_its_end(
        self, bench: Bench, step: str
    ) -> None:
        """What is released cannot be settled any more."""
        await bench.assign(0)
        gate = bench.process.gates[step, 0] = Gate()
        feeding = asyncio.create_task(bench.feed())
        await quiet()
        closing = asyncio.create_task(bench.partitions.close())
        await gate.reached.wait()
        revoking = asyncio.create_task(bench.partitions.revoked([0]))
        await quiet()
        assert "released 0" not in bench.process.happened
        gate.opened.set()
        await asyncio.gather(feeding, closing, revoking)
        assert bench.process.happened[-2:] == ["settled 0", "released 0"]

    async def test_what_waits_is_not_claimed_after_it(self, bench: Bench) -> None:
        bench.failures.at("claim", 0, Transient("the index is away"))
        await bench.assign(0)
        await bench.partitions.close()
        await bench.let_wait()
        assert (bench.process.lives[0], bench.member.calls) == ([], ["pause 0"] * 2)

    async def test_without_partitions_it_ends_at_once(self, bench: Bench) -> None:
        await bench.partitions.close()
        await bench.partitions.close()
        assert bench.partitions.held == {}


class TestWhatItTells:
    async def test_which_partitions_are_ours_and_what_they_wait_for(self, bench: Bench) -> None:
        gate = bench.process.gates["claim", 0] = Gate()
        bench.failures.at("claim", 0, Transient("the index is away"))
        await bench.assign(0, 1)
        assert set(bench.partitions.held) == {0, 1}
        assert bench.partitions.held[0].next is None
        assert bench.partitions.held[0].waits_for == "its claim"
        assert bench.partitions.held[1].next == 0
        gate.opened.set()
        await quiet()
        assert bench.partitions.held[0].waits_for == "the index is away"
        await bench.feed(2)
        assert (bench.partitions.held[0].next, bench.partitions.held[1].next) == (None, 2)
        await bench.let_wait()
        assert bench.partitions.held[0].next == 0
        await bench.partitions.revoked([0])
        assert set(bench.partitions.held) == {1}

    async def test_what_it_tells_cannot_be_used_to_change_it(self, bench: Bench) -> None:
        await bench.assign(0)
        bench.partitions.held.clear()
        assert set(bench.partitions.held) == {0}

    async def test_whether_the_group_has_let_us_in_be_it_without_partitions(
        self, bench: Bench
    ) -> None:
        """A member without partitions is ready: there are more members than partitions."""
        assert not bench.partitions.joined
        await bench.assign()
        assert bench.partitions.joined
        assert bench.partitions.held == {}

    async def test_events_that_the_log_no_longer_has_are_told_of_once(self, bench: Bench) -> None:
        """Retention deleted them before they were decided on: nothing can be done, and it shows."""
        await bench.assign(0)
        await bench.partitions.handle((await bench.events(0))[2:3])
        assert bench.lines == ["memory.events/0 has nothing more from 0 to 1"]
        await bench.partitions.handle((await bench.events(0))[4:])
        assert len(bench.lines) == 1

    async def test_only_what_is_worked_on_is_measured(self, bench: Bench) -> None:
        await LocalBroker.append(bench.log, [decision(0, 0), decision(0, 1)])
        bench.failures.at("claim", 1, Transient("the index is away"))
        await bench.assign(0, 1)
        await bench.partitions.handle([*await bench.events(0), *await bench.events(1)])
        assert bench.measured == [(EVENTS.name, 3)]
        await bench.partitions.handle(await bench.events(0))
        await bench.partitions.revoked([0])
        await bench.partitions.handle(await bench.events(0))
        assert bench.measured == [(EVENTS.name, 3)]


class World:
    """A group that moves partitions about while batches, waits and failures are under way."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._owned: set[int] = set()
        self._loop: asyncio.Task[None] | None = None

    async def rebalance(self, partitions: set[int], early: int | None = None) -> None:
        """Move partitions.

        `early`: their first records are fetched before we are told that they are ours, and handed
        over so many turns later.
        """
        await self._bench.partitions.revoked(sorted(self._owned))
        before = await self._snapshot()
        await quiet()
        assert await self._snapshot() == before, "a partition was worked on that was let go of"
        self._owned = partitions
        await self._bench.member.take(sorted(partitions))
        if early is not None:
            await self.feed(EVENTS_EACH, early)
        self._bench.partitions.assigned(sorted(partitions))

    async def feed(self, limit: int, turns: int = 0) -> None:
        """Hand a batch over, some turns late, as a loop does: not before the last one came back."""
        if self._loop is None or self._loop.done():
            fetched = await self._bench.member.fetch(limit)
            self._loop = asyncio.create_task(self._hand_over(fetched, turns))

    async def _hand_over(self, fetched: Sequence[LogRecord], turns: int) -> None:
        await self.pass_turns(turns)
        await self._bench.partitions.handle(fetched)

    async def wake(self) -> None:
        self._bench.waits.elapse()

    async def pass_turns(self, turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)

    async def slow(self, turns: int) -> None:
        self._bench.process.turns = turns

    async def fail(self, point: str, partition: int) -> None:
        self._bench.failures.at(point, partition, Transient(f"{point} failed"))

    async def somebody_else(self, partition: int, events: int) -> None:
        """Let another owner decide on events of a partition that is not ours, and commit some."""
        bench = self._bench
        if partition not in self._owned:
            decided = await bench.log.end(DECISIONS.name, partition)
            mine = range(decided, min(decided + events, EVENTS_EACH * 2))
            await LocalBroker.append(bench.log, [decision(partition, offset) for offset in mine])
            place = CommittedOffset(decided, "noted")
            await LocalBroker.commit(bench.log, GROUP, EVENTS.name, partition, place)

    async def finish(self) -> None:
        """Let all go well from now on, until everything is handled and nothing under way.

        With one event more: what others have decided on is passed by the commit of what follows.
        """
        self._bench.failures.end()
        for partition in (0, 1):
            await self._bench.publish(partition)
        await self.rebalance({0, 1})
        for _ in range(4 * EVENTS_EACH):
            await self.wake()
            await quiet()
            await self.feed(EVENTS_EACH)
            await quiet()
        await self._bench.partitions.close()

    async def _snapshot(self) -> list[object]:
        bench = self._bench
        return [(await bench.decided(p), await bench.committed(p)) for p in (0, 1)]


PARTITION = st.sampled_from([0, 1])
ACTS = st.one_of(
    st.tuples(st.just("rebalance"), st.tuples(st.sets(PARTITION))),
    st.tuples(st.just("rebalance"), st.tuples(st.sets(PARTITION), st.integers(0, 9))),
    st.tuples(
        st.just("feed"), st.tuples(st.integers(1, 4), st.just(0) | st.integers(0, 4 * TURNS))
    ),
    st.tuples(st.just("wake"), st.just(())),
    st.tuples(st.just("slow"), st.tuples(st.integers(0, 6))),
    st.tuples(st.just("fail"), st.tuples(st.sampled_from(POINTS), PARTITION)),
    st.tuples(st.just("somebody_else"), st.tuples(PARTITION, st.integers(1, 3))),
)


@given(acts=st.lists(st.tuples(ACTS, st.integers(0, 12)), max_size=40))
def test_however_partitions_move_and_fail_every_event_is_decided_on_once_and_in_order(
    acts: list[tuple[tuple[str, tuple[object, ...]], int]],
) -> None:
    """No commit passes what is not handled: the log of the bench refuses one that would."""

    async def play(bench: Bench) -> None:
        await bench.fill(EVENTS_EACH * 2)
        world = World(bench)
        await world.rebalance({0, 1})
        for (name, arguments), turns in acts:
            await getattr(world, name)(*arguments)
            await world.pass_turns(turns)
        await world.finish()
        assert bench.stopped == []
        for partition in (0, 1):
            await bench.assert_done(partition, EVENTS_EACH * 2 + 1)
            for handled in bench.process.lives[partition]:
                assert handled == list(range(*bounds(handled)))

    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(Path(directory), revoke_seconds=60.0)
        asyncio.run(play(bench))
        bench.log.close()


def bounds(handled: Sequence[int]) -> tuple[int, int]:
    return (handled[0], handled[-1] + 1) if handled else (0, 0)


class TestTheEnd:
    async def test_after_close_an_assignment_changes_nothing(self, bench: Bench) -> None:
        await bench.assign(0)
        await bench.partitions.close()
        await bench.assign(0)
        await bench.feed()
        assert await bench.decided(0) == []

    async def test_after_giving_up_an_assignment_changes_nothing(self, bench: Bench) -> None:
        bench.failures.at("handle", 0, Fatal("the log is damaged"))
        await bench.assign(0)
        await bench.feed()
        await bench.partitions.revoked([0])
        await bench.assign(0)
        await bench.feed()
        assert await bench.decided(0) == []

    async def test_the_first_failure_that_stays_is_told_and_no_other(self, bench: Bench) -> None:
        gate = bench.process.gates["handle", 0] = Gate()
        bench.failures.at("claim", 1, Transient("x"), Fatal("claim"))
        bench.failures.at("handle", 0, Fatal("batch"))
        await bench.assign(0, 1)
        feeding = asyncio.create_task(bench.feed())
        await gate.reached.wait()
        await bench.let_wait()
        gate.opened.set()
        await feeding
        assert [str(error) for error in bench.stopped] == ["claim"]
