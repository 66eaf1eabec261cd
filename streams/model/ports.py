"""The outside world as the flow sees it, and what its failures mean.

Each Protocol has one contract suite under tests/contract that every implementation passes.
"""

from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from schemas.base import ContentKey, DecisionId, MemoryId, ModelId, Position, ScopeName
from schemas.outcomes import Applied
from streams.model.embedding import TextVector, Vector
from streams.model.fences import BEGINNING, ReadPosition
from streams.model.merge import MergePart
from streams.model.neighbours import KnownEvent, StoredMemory
from streams.model.screening import SensitiveSpan
from streams.model.verdict import Opinion, Pair


class Poison(Exception):
    """This record can never succeed: dead-letter it and continue. `field` names what is wrong."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class Transient(Exception):
    """The same call may succeed later: retry with backoff and skip nothing."""


class NotYet(Transient):
    """Something else must catch up first: keep what was built and retry the same records."""


class Fatal(Exception):
    """Nothing can succeed here until a person acts: stop and commit nothing. One clear line."""


class NoModel(Fatal):
    """The embedding model is missing, damaged or unknown."""


class NoStore(Fatal):
    """The store is busy, damaged, full, unwritable, or was made for something else."""


class Unreachable(Transient):
    """A server does not answer; it may be restarting."""


class Unusable(Fatal):
    """A setting cannot be used on this machine."""


class NoServer(Fatal):
    """A server refuses the request or cannot do what is needed."""


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


@dataclass(frozen=True)
class SourceMark:
    """How far a source has been read: lines, and the digest of their bytes.

    `complete` is true if the source ended there.
    """

    line: int
    digest: str
    complete: bool


@dataclass(frozen=True)
class SourceLine:
    """One row of a source: its number from 1, its bytes, and the row or why there is none."""

    number: int
    content: bytes
    row: Mapping[str, Any] | Poison


class Source(Protocol):
    """Rows that come from outside the log, in their own order."""

    @property
    def name(self) -> str:
        """The source's name in event ids and marks."""
        ...

    @property
    def place(self) -> str:
        """The source's location as shown to a person."""
        ...

    @property
    def resumable(self) -> bool:
        """Whether reading can restart from the beginning."""
        ...

    def lines(self, after: SourceMark | None) -> Iterator[SourceLine]:
        """Yield the lines after the mark, or all of them if the content before it has changed.

        Raises Fatal if reading breaks off.
        """
        ...

    def mark(self, line: int, *, complete: bool) -> SourceMark:
        """Return the mark for everything up to the line that was yielded last."""
        ...


class SearchableLog(Log, Lookup, Protocol):
    """A log that can also look records up by header."""


@dataclass(frozen=True)
class NoAnswer:
    """Why a judge gives no answer: a short reason without any memory's text, like "timeout"."""

    reason: str


NOT_CONFIGURED = NoAnswer("not configured")
"""The answer of a judge or writer that a policy names and this process lacks."""


@dataclass(frozen=True)
class WordingRequest:
    """The texts to merge into one, oldest first, each with when it was last said and by whom.

    `missing` is what an earlier attempt left out, `invented` what it added: it asks for one repair.
    """

    scope: ScopeName
    parts: tuple[MergePart, ...]
    characters_max: int
    attempt: str | None = None
    missing: tuple[str, ...] = ()
    invented: tuple[str, ...] = ()


class Embedder(Protocol):
    """Turns texts into unit vectors of one model.

    Deterministic: a text always has the same vector, within about 1e-7 across batches.
    """

    @property
    def model(self) -> ModelId:
        """The identity of the vector space; two embedders with equal `model` may be mixed."""
        ...

    @property
    def dimension(self) -> int: ...

    async def embed(self, texts: Sequence[str]) -> list[TextVector]:
        """Return one result per text, in order. Texts are not blank; any length."""
        ...


class PrefetchingEmbedder(Protocol):
    """An embedder that accepts hints about upcoming texts."""

    def is_known(self, text: str) -> bool:
        """Return whether a text needs no encoding: its vector is cached or being computed."""
        ...

    def expect(self, texts: Iterable[str]) -> None:
        """Start to encode texts in the background. Harmless if they are never requested."""
        ...


class Verifier(Protocol):
    """Judges pairs of an event and a memory that similarity nominated and no guard kept apart.

    Its answer is advice: the guards decide as well, whatever it says.
    """

    @property
    def name(self) -> str:
        """The name of the judge in policies and evidence."""
        ...

    async def verify(self, pairs: Sequence[Pair]) -> list[Opinion | NoAnswer]:
        """Return one answer per pair, in order. Never raises because of a pair's content."""
        ...

    async def close(self) -> None: ...


class Screener(Protocol):
    """Finds secrets and personal data in texts. Pure: the same text gives the same findings."""

    def spot(self, text: str, region: str | None) -> Sequence[SensitiveSpan]:
        """Return the findings in any order; `region` is the region of local telephone numbers."""
        ...


class Wording(Protocol):
    """Words one text for several that each state part of the same fact."""

    async def word(self, request: WordingRequest) -> str | NoAnswer:
        """Return the text, untrusted and unchecked. Never raises because of the parts' content."""
        ...


FLOAT32_SLACK = 1e-6
"""The error bound of a cosine computed in float32: indexes compare with this slack."""


@dataclass(frozen=True)
class Query:
    """A query for the live memories of one scope that are nearest to a vector.

    `limit` is the maximum count, `floor` the minimum cosine (inclusive, to float32 accuracy).
    """

    scope: ScopeName
    vector: Vector
    limit: int
    floor: float


@dataclass(frozen=True)
class PartitionLevel:
    """How far an index has followed a partition of decisions, and which index that is.

    `index` is a token unique to that index, whatever its name; "" if nothing is followed yet.
    """

    reached: ReadPosition = BEGINNING
    index: str = ""


UNFOLLOWED = PartitionLevel()


@dataclass(frozen=True)
class IndexLevel:
    """How far an index has followed the log.

    `memories` is at least how many it held when the level was kept; 0 if it does not count them.
    """

    partitions: Mapping[int, PartitionLevel]
    memories: int


class DecidedEvents(Protocol):
    """Knows which events have already been decided."""

    async def decided(self, ids: Sequence[DecisionId]) -> Mapping[DecisionId, KnownEvent]:
        """Return what is known of each decided event; ids without a decision are left out."""
        ...


class Index(DecidedEvents, Protocol):
    """The searchable copy of the memories. It nominates; model/embedding.py measures.

    It can be rebuilt from the decisions at any time. Calls may raise Transient or Fatal. It knows
    the newest decisions of each memory, as many as StoredMemory keeps.
    """

    async def search(self, queries: Sequence[Query]) -> list[list[StoredMemory]]:
        """Return, per query, the nearest live memories of the scope, nearest first.

        A memory is as near as its nearest wording. Vectors, of unit length, come back bit-equal.
        """
        ...

    async def get(self, ids: Sequence[MemoryId]) -> dict[MemoryId, StoredMemory]:
        """Return what is stored under these ids, live or not, with their vectors.

        Absent ids are left out; the caller owns the dict.
        """
        ...

    async def with_content(
        self, keys: Sequence[ContentKey]
    ) -> dict[ContentKey, list[StoredMemory]]:
        """Return, per content key, the live memories with such a wording, by id, without vectors.

        Keys that no live memory has are left out.
        """
        ...

    async def contradicting(self, ids: Sequence[MemoryId]) -> dict[MemoryId, list[StoredMemory]]:
        """Return, per id, the live memories that were found to contradict it, without vectors.

        By id; an id that none contradicts is left out.
        """
        ...

    async def forgotten(self, scopes: Sequence[ScopeName]) -> dict[ScopeName, list[StoredMemory]]:
        """Return, per scope, its forgotten memories, by id, with their vectors.

        Scopes that have none are left out; if no scope has one, the call costs next to nothing.
        """
        ...

    async def write(self, changes: Sequence[StoredMemory]) -> None:
        """Store these states with the vector of each wording, each id at most once.

        On return they are searchable; `keep_level` makes them durable. A crash before may lose
        them: the level is then as far behind as before. A state is skipped if the index has that version of the memory or a
        later one: a late writer cannot set a memory back. If it raises, any state may be stored.
        """
        ...

    async def count(self) -> int:
        """Return how many memories are stored, live or not; cheap."""
        ...

    async def level(self) -> IndexLevel | None:
        """Return the kept levels; None if none was kept."""
        ...

    async def keep_level(
        self, partition: int, reached: ReadPosition, *, since: PartitionLevel
    ) -> PartitionLevel:
        """Make all writes durable, then record the log position that they reach.

        `since` is the index, and the level in it, that the writes build on. Raises Transient if
        this is a different index now or its level is lower. Returns what is kept: never less.
        """
        ...

    async def clear(self) -> None:
        """Delete everything, the level first."""
        ...

    def scan(self, scope: ScopeName | None = None) -> AsyncIterator[StoredMemory]:
        """Yield every memory, of `scope` or of all, live or not, with its vector, by id."""
        ...

    async def close(self) -> None: ...


class Sink(Protocol):
    """A copy of the memories for other programs; the writer maintains it along with the index.

    Calls may raise Transient, if it cannot be reached, or NoStore.
    """

    @property
    def name(self) -> str:
        """The sink's name in messages and metrics."""
        ...

    async def level(self, partition: int) -> ReadPosition | None:
        """Return how far it has followed a partition of decisions; None if it has not begun."""
        ...

    async def write(
        self, partition: int, changes: Sequence[Applied], reached: ReadPosition
    ) -> None:
        """Write the changes, then the log position that they reach; durable on return.

        A change is skipped if the sink has that version of the memory or a later one, so any window
        may be repeated. A level is never lowered.
        """
        ...

    async def close(self) -> None: ...


class Clock(Protocol):
    def now(self) -> datetime:
        """Return the wall-clock time, timezone-aware, in UTC."""
        ...
