"""Topics of records, and the processes that work on their partitions."""

from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Sequence,
)
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from schemas.base import Position


@dataclass(frozen=True)
class LogRecord:
    """One record as the log holds it. Bytes are untrusted until a codec has read them.

    `appended_at` is when the log appended it, by the log's own clock; None if unknown.
    """

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    appended_at: datetime | None = None

    @property
    def position(self) -> Position:
        return Position.trusted(topic=self.topic, partition=self.partition, offset=self.offset)

    @property
    def place(self) -> str:
        """The record's location as shown to a person: topic/partition/offset."""
        return f"{self.topic}/{self.partition}/{self.offset}"


@dataclass(frozen=True)
class OutgoingRecord:
    """A record to be appended; `partition` is always explicit.

    `cause` is the offset of the record that it was made of, in the batch handled; not appended.
    """

    topic: str
    partition: int
    key: bytes | None
    value: bytes
    headers: tuple[tuple[str, bytes | None], ...] = ()
    cause: int | None = None


@dataclass(frozen=True)
class CommittedOffset:
    """A consumer group's committed offset: the next one to read, and the metadata kept with it."""

    offset: int
    metadata: str = ""


class Log(Protocol):
    """Topics made of partitions of records ordered by offset, as in Kafka.

    A partition's offsets grow from 0, by at least one a record. Calls may raise Transient or Fatal.
    """

    async def partitions(self, topic: str) -> int:
        """Return the number of partitions. Raises Fatal if the topic does not exist."""
        ...

    async def append(self, records: Sequence[OutgoingRecord]) -> list[int]:
        """Append durably, in order; return each record's offset.

        On return every record survives a crash of this process. If it raises, any of the records
        may be in the log: only the log knows. But no record is there without the records of other
        topics that precede it in `records`.
        """
        ...

    async def read(self, topic: str, partition: int, offset: int, limit: int) -> list[LogRecord]:
        """Return up to `limit` records from `offset` on; empty only at the end.

        Skips gaps: the first record may lie after `offset`. Large records come in smaller batches.
        """
        ...

    async def beginning(self, topic: str, partition: int) -> int:
        """Return the offset of the first retained record, or `end` if there is none."""
        ...

    async def end(self, topic: str, partition: int) -> int:
        """Return the offset of the next record to be appended."""
        ...

    async def erase(self, topic: str, partition: int, offsets: Sequence[int]) -> None:
        """Delete records so that no retained data has their bytes; ignore those already gone.

        The log deletes them now or when it next compacts; until then they may still be read. A log
        that expires the topic's records anyway may leave it at that.
        """
        ...

    async def commit(
        self, group: str, topic: str, partition: int, position: CommittedOffset
    ) -> None:
        """Commit the group's offset durably."""
        ...

    async def committed(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        """Return the group's committed offset; None if it never committed one.

        Raises Transient if the log could not answer; that is never None.
        """
        ...


PAGE = 500
"""How many records are read at once where all are read."""


async def pages(
    log: Log, topic: str, partition: int, start: int = 0, end: int | None = None
) -> AsyncIterator[list[LogRecord]]:
    """Yield a partition's records from `start` to before `end`, or to the last, page by page."""
    while end is None or start < end:
        limit = PAGE if end is None else min(PAGE, end - start)
        records = await log.read(topic, partition, start, limit)
        if not records:
            return
        yield [record for record in records if end is None or record.offset < end]
        start = records[-1].offset + 1


async def records(log: Log, topic: str) -> AsyncIterator[LogRecord]:
    """Yield all records of a topic, partition by partition."""
    for partition in range(await log.partitions(topic)):
        async for page in pages(log, topic, partition):
            for record in page:
                yield record


@dataclass(frozen=True)
class HandledBatch:
    """The result of handling a batch of records, before anything is committed.

    The caller appends `outgoing`, then passes the offsets to `appended` in the same order;
    `appended` raises if the batch must not be committed. `metadata` is stored with the commit.
    """

    outgoing: list[OutgoingRecord]
    appended: Callable[[list[int]], Awaitable[None]]
    metadata: str = ""


class Process(Protocol):
    """What a consumer group does with the records of its topic, partition by partition."""

    @property
    def topic(self) -> str: ...

    @property
    def group(self) -> str: ...

    async def claim(self, partition: int) -> int:
        """Build the partition's state from the log; return the offset to continue from.

        Called before the first batch and again after any failure, because the state in memory may
        then be wrong: only the log knows what happened.
        """
        ...

    async def handle(self, partition: int, records: Sequence[LogRecord]) -> HandledBatch:
        """Process a batch in offset order. Repeating a batch repeats its result."""
        ...

    async def settle(self, partition: int) -> None:
        """Maintain a claimed partition between two batches, even if no record arrives.

        Raises Transient if the partition must be claimed again.
        """
        ...

    def release(self, partition: int) -> None:
        """Forget the partition, which has another owner now. A later claim may bring it back."""
        ...


class GroupMember(Protocol):
    """This process as a member of a consumer group that pushes records to it."""

    def pause(self, partition: int) -> None:
        """Stop delivering records of the partition; stay its owner."""
        ...

    def resume(self, partition: int, offset: int) -> None:
        """Deliver the partition's records again, starting at `offset`."""
        ...


class Assignee(Protocol):
    """The receiver of the records of the partitions that a group assigns to its member."""

    def assigned(self, partitions: Sequence[int]) -> None:
        """Take on these partitions, which are all that the member has now. Returns at once."""
        ...

    async def revoked(self, partitions: Sequence[int]) -> None:
        """Give up these partitions: after the return nothing more is done to them."""
        ...

    async def handle(self, records: Sequence[LogRecord]) -> None:
        """Process a batch that spans any of the partitions, each in offset order. Never raises."""
        ...


class Lookup(Protocol):
    """Finds records by a header value."""

    @property
    def is_indexed(self) -> bool:
        """Whether it finds them without reading the whole topic."""
        ...

    async def find(self, topic: str, header: str, values: Sequence[str]) -> list[LogRecord]:
        """Return the records that carry one of the values in that header, in offset order."""
        ...

    async def find_beginning(
        self, topic: str, headers: Sequence[str], beginning: str
    ) -> list[LogRecord]:
        """Return the records with a header value that starts with `beginning`, in offset order."""
        ...


class SearchableLog(Log, Lookup, Protocol):
    """A log that can also look records up by header."""
