"""The loop, and the policy that it obeys: together, since either alone proves nothing."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from schemas.topics import EVENTS
from streams.log.consumer import Consumer
from streams.log.failures import RetryPolicy
from streams.log.local_broker import LocalBroker
from streams.model.ports.failures import Fatal, Poison, Transient
from streams.model.ports.log import CommittedOffset, HandledBatch, LogRecord, OutgoingRecord


class Failing:
    """A process that fails so many times before it works, and remembers what it was asked."""

    topic = EVENTS.name
    group = "test"

    def __init__(self, failure: Exception, times: int) -> None:
        self._failure = failure
        self._left = times
        self.claims = 0
        self.seen: list[int] = []

    async def claim(self, partition: int) -> int:
        del partition
        self.claims += 1
        return 0

    async def handle(self, partition: int, records: Sequence[LogRecord]) -> HandledBatch:
        del partition
        if self._left:
            self._left -= 1
            raise self._failure
        self.seen += [record.offset for record in records]
        return HandledBatch([], _acknowledged, metadata="noted")

    async def settle(self, partition: int) -> None:
        raise AssertionError(f"nobody looks after partition {partition} between two batches")

    def release(self, partition: int) -> None:
        raise AssertionError(f"nobody else takes partition {partition}")


async def _acknowledged(offsets: list[int]) -> None:
    del offsets


class Waits:
    """A clock moved by hand: it says how long it was asked to wait."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[LocalBroker]:
    """Make a log with three events."""
    made = LocalBroker(tmp_path / "log.sqlite3", indexed={})
    made.create(EVENTS.name, 1)
    await made.append([OutgoingRecord(EVENTS.name, 0, None, b"event")] * 3)
    yield made
    made.close()


def consumer(process: Failing, broker: LocalBroker, waits: Waits, lines: list[str]) -> Consumer:
    """Build a consumer of that log."""
    retry = RetryPolicy(attempts_max=4, delay_max_seconds=0.3)
    return Consumer(process, broker, 0, retry=retry, sleep=waits.sleep, report=lines.append)


@pytest.mark.covers("B125")
async def test_a_transient_failure_is_tried_again_with_growing_waits_and_loses_nothing(
    broker: LocalBroker,
) -> None:
    process, waits, lines = Failing(Transient("the log is locked"), times=3), Waits(), list[str]()
    loop = consumer(process, broker, waits, lines)
    assert await loop.step(10) == 3
    assert process.seen == [0, 1, 2]
    assert waits.seconds == [0.1, 0.2, 0.3]
    assert lines[0] == "the log is locked; trying again in 0.1 s"
    assert process.claims == 4  # whatever was in memory may be wrong after a failure
    assert await broker.committed("test", EVENTS.name, 0) == CommittedOffset(3, "noted")


async def test_a_failure_that_stays_becomes_fatal_and_commits_nothing(broker: LocalBroker) -> None:
    process, waits, lines = Failing(Transient("the log is locked"), times=99), Waits(), list[str]()
    loop = consumer(process, broker, waits, lines)
    with pytest.raises(Fatal, match="the log is locked; gave up after 4 attempts"):
        await loop.step(10)
    assert await broker.committed("test", EVENTS.name, 0) is None


async def test_a_fatal_failure_is_not_tried_again(broker: LocalBroker) -> None:
    process, waits, lines = Failing(Fatal("the log is damaged"), times=1), Waits(), list[str]()
    loop = consumer(process, broker, waits, lines)
    with pytest.raises(Fatal, match="the log is damaged"):
        await loop.step(10)
    assert (waits.seconds, process.claims) == ([], 1)
    assert await broker.committed("test", EVENTS.name, 0) is None


async def test_a_batch_is_claimed_once_and_read_on_from_there(broker: LocalBroker) -> None:
    process, waits, lines = Failing(Fatal("never"), times=0), Waits(), list[str]()
    loop = consumer(process, broker, waits, lines)
    await loop.drain(2)
    assert (process.seen, process.claims) == ([0, 1, 2], 1)


async def test_poison_that_a_process_did_not_set_aside_stops_it(broker: LocalBroker) -> None:
    process, waits, lines = Failing(Poison("no event"), times=1), Waits(), list[str]()
    loop = consumer(process, broker, waits, lines)
    with pytest.raises(Fatal, match=r"a poisoned record of memory\.events was not set aside"):
        await loop.step(10)
    assert await broker.committed("test", EVENTS.name, 0) is None
