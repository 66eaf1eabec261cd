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
from schemas.events import Remember
from schemas.outcomes import Applied
from streams.core.embedding import Embedded, Vector
from streams.core.extraction.synthesis import Declined, Material, Refused
from streams.core.fences import BEGINNING, Reached
from streams.core.merge import Part
from streams.core.neighbours import Known, Stored
from streams.core.screening import Spotted
from streams.core.verdict import Opinion, Pair


class Poison(Exception):
    """This record can never succeed: dead-letter it and go on. `field` names what is wrong."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class Transient(Exception):
    """The same call may succeed later: try again with backoff, skip nothing."""


class NotYet(Transient):
    """Somebody else must catch up first: what was built stands, try the same records again."""


class Fatal(Exception):
    """Nothing here can succeed until a person acts: stop, commit nothing. One clear line."""


class NoModel(Fatal):
    """The embedding model is missing, damaged or unknown."""


class NoStore(Fatal):
    """The store is busy, damaged, full, unwritable, or was made for something else."""


class Unreachable(Transient):
    """A server does not answer; it may be restarting."""


class Unusable(Fatal):
    """A setting cannot be used on this machine."""


class NoServer(Fatal):
    """A server refuses us, or cannot do what is needed."""


@dataclass(frozen=True)
class Record:
    """One record as the log holds it. Bytes are untrusted until a codec has read them.

    `appended_at` is when the log took it in, where the log tells by a clock of its own.
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
        """Where a person finds the record: topic/partition/offset."""
        return f"{self.topic}/{self.partition}/{self.offset}"


@dataclass(frozen=True)
class Outgoing:
    """A record to be appended; `partition` is always explicit."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True)
class Committed:
    """A consumer group's place: the next offset to read, and what the group noted with it."""

    offset: int
    metadata: str = ""


class Log(Protocol):
    """Topics of partitions of records, in the order of their offsets; what Kafka is.

    Offsets start at 0 and grow by at least one per record of a partition. Every call may raise
    Transient or Fatal.
    """

    async def partitions(self, topic: str) -> int:
        """Return the number of partitions. Fatal when the topic does not exist."""
        ...

    async def append(self, records: Sequence[Outgoing]) -> list[int]:
        """Append durably, in order; return each record's offset.

        On return every record survives a crash of this process. When it raises, any part of the
        records may be in the log: only the log knows. But none is there without those of other
        topics that were given before it.
        """
        ...

    async def read(self, topic: str, partition: int, offset: int, limit: int) -> list[Record]:
        """Return up to `limit` records from `offset` on; empty only at the end.

        Skips gaps: the first record may lie after `offset`. Large records come in smaller batches.
        """
        ...

    async def beginning(self, topic: str, partition: int) -> int:
        """Return the offset of the first record that is still kept, or `end` where none is."""
        ...

    async def end(self, topic: str, partition: int) -> int:
        """Return the offset that the next record will get."""
        ...

    async def erase(self, topic: str, partition: int, offsets: Sequence[int]) -> None:
        """Let records go, so that nothing that is kept has their bytes; where one is gone, nothing.

        At once, or as soon as the log gets round to it: until then it may still be read. A log
        that forgets the topic's records after a time anyway may leave it at that.
        """
        ...

    async def commit(self, group: str, topic: str, partition: int, position: Committed) -> None:
        """Set the group's place, durably."""
        ...

    async def committed(self, group: str, topic: str, partition: int) -> Committed | None:
        """Return the group's place; None when it never committed one.

        An answer that the log could not give is Transient, never None.
        """
        ...


@dataclass(frozen=True)
class Handled:
    """What handling a batch of records came to, before anything is committed.

    `outgoing` is to be appended; `appended` is then told the offsets, in the same order, and
    raises where the batch must not be committed; `metadata` is noted with the commit.
    """

    outgoing: list[Outgoing]
    appended: Callable[[list[int]], Awaitable[None]]
    metadata: str = ""


class Process(Protocol):
    """What a consumer group does with the records of its topic, partition by partition."""

    @property
    def topic(self) -> str: ...

    @property
    def group(self) -> str: ...

    async def claim(self, partition: int) -> int:
        """Build what the partition's state is from the log; return the offset to go on from.

        Called before the first batch, and again after any failure: whatever was in memory may be
        wrong then, only the log knows what happened.
        """
        ...

    async def handle(self, partition: int, records: Sequence[Record]) -> Handled:
        """Do the work of a batch, in offset order. Repeating a batch repeats its result."""
        ...

    async def settle(self, partition: int) -> None:
        """Look after a claimed partition between two batches, also where no record comes.

        Raises Transient where it must be claimed again.
        """
        ...

    def release(self, partition: int) -> None:
        """Forget the partition: somebody else has it now. It may come back, with a claim."""
        ...


class Member(Protocol):
    """This process as a member of a consumer group that hands it records unasked."""

    def pause(self, partition: int) -> None:
        """Hand over no more records of the partition; stay its owner."""
        ...

    def resume(self, partition: int, offset: int) -> None:
        """Hand the partition's records over again, from the offset on."""
        ...


class Assignee(Protocol):
    """Whoever gets the records of the partitions that a group assigns to its member."""

    def assigned(self, partitions: Sequence[int]) -> None:
        """Take these partitions on: all that the member has now. Returns at once."""
        ...

    async def revoked(self, partitions: Sequence[int]) -> None:
        """Let these partitions go: on return nothing is done to them any more."""
        ...

    async def handle(self, records: Sequence[Record]) -> None:
        """Work on a batch of any of the partitions, in the order of each. Never raises."""
        ...


class Lookup(Protocol):
    """Finds records by a header value."""

    async def find(self, topic: str, header: str, values: Sequence[str]) -> list[Record]:
        """Return the records that carry one of the values in that header, in offset order."""
        ...

    async def find_beginning(
        self, topic: str, headers: Sequence[str], beginning: str
    ) -> list[Record]:
        """Return the records where a value of one of the headers begins so, in offset order."""
        ...


@dataclass(frozen=True)
class Mark:
    """How far a source has been read: lines, and the digest of their bytes.

    `complete` where the source had ended there.
    """

    line: int
    digest: str
    complete: bool


@dataclass(frozen=True)
class Line:
    """One row of a source: its number from 1, its bytes, and the row or why there is none."""

    number: int
    content: bytes
    row: Mapping[str, Any] | Poison


class Source(Protocol):
    """Rows that come from somewhere else than the log, in an order of their own."""

    @property
    def name(self) -> str:
        """What the source is called in event ids and marks."""
        ...

    @property
    def place(self) -> str:
        """Where a person finds the source."""
        ...

    @property
    def resumable(self) -> bool:
        """Whether reading can begin again from the start."""
        ...

    def lines(self, after: Mark | None) -> Iterator[Line]:
        """Yield the lines behind the mark; all of them where what lay before it has changed.

        Raises Fatal where reading breaks off.
        """
        ...

    def mark(self, line: int, *, complete: bool) -> Mark:
        """Return the mark for having read up to the line that was yielded last."""
        ...


class Intake(Protocol):
    """Takes records in from a source that is not a log, and remembers how far it has read."""

    async def mark(self, source: str) -> Mark | None:
        """Return the last mark of the source."""
        ...

    async def take_in(self, records: Sequence[Outgoing], source: str, mark: Mark) -> None:
        """Append the records and set the mark: both or neither."""
        ...


class Mirror(Protocol):
    """Takes over records of another log."""

    async def mirror(self, records: Sequence[Record]) -> None:
        """Append records at the offsets that they have, in order; offsets left out stay empty.

        All or none. Fatal where a partition has passed such an offset.
        """
        ...


class IntakeLog(Log, Intake, Mirror, Protocol):
    """A log that also takes in sources, and records of other logs."""


class SearchableLog(Log, Lookup, Protocol):
    """A log that also finds records by header."""


@dataclass(frozen=True)
class NoAnswer:
    """Why a judge has nothing to say: a short reason without any memory's text, like "timeout"."""

    reason: str


@dataclass(frozen=True)
class ToWord:
    """The texts to be made one, oldest first, each with when it was last said and by whom.

    `missing` is what an earlier attempt left out, `invented` what it added: one repair is asked for.
    """

    scope: ScopeName
    parts: tuple[Part, ...]
    characters_max: int
    attempt: str | None = None
    missing: tuple[str, ...] = ()
    invented: tuple[str, ...] = ()


class Embedder(Protocol):
    """Turns texts into unit vectors of one model.

    Deterministic: the same text has the same vector, up to about 1e-7 with the batch it is in.
    """

    @property
    def model(self) -> ModelId:
        """The identity of the vector space; two embedders with equal `model` may be mixed."""
        ...

    @property
    def dimension(self) -> int: ...

    async def embed(self, texts: Sequence[str]) -> list[Embedded]:
        """Return one result per text, in order. Texts are not blank; any length."""
        ...


class Foreseeing(Protocol):
    """An embedder that can be told what it will be asked for."""

    def is_known(self, text: str) -> bool:
        """Tell whether a text costs no encoding: its vector is there, or on its way."""
        ...

    def expect(self, texts: Iterable[str]) -> None:
        """Begin to encode texts, beside whatever else goes on. Harmless where nobody asks."""
        ...


class Verifier(Protocol):
    """Judges pairs of an event and a memory that similarity has nominated and no guard parts.

    Its answer is advice: whatever it says, guards have their say too.
    """

    @property
    def name(self) -> str:
        """What policies and evidence call it."""
        ...

    async def verify(self, pairs: Sequence[Pair]) -> list[Opinion | NoAnswer]:
        """Return one answer per pair, in order. Never raises for what a pair says."""
        ...

    async def close(self) -> None: ...


class Screener(Protocol):
    """Finds secrets and personal data in texts. Pure: the same text is told the same of."""

    def spot(self, text: str, region: str | None) -> Sequence[Spotted]:
        """Return what was found, in any order; `region` is where local telephone numbers are from."""
        ...


class Wording(Protocol):
    """Words one text for several that say parts of the same fact."""

    async def word(self, request: ToWord) -> str | NoAnswer:
        """Return the text; untrusted, to be checked. Never raises for what the parts say."""
        ...


class Extracting(Protocol):
    """Takes a memory from a turn, in words of its own."""

    async def extract(
        self, material: Material, refused: str | None = None
    ) -> Remember | Declined | Refused | NoAnswer:
        """Return the event that it makes of a turn, or why there is none.

        `refused` says why an answer before could not be taken. Never raises for what a turn says.
        """
        ...

    async def close(self) -> None: ...


FLOAT32_SLACK = 1e-6
"""How far a cosine computed in float32 may lie from its value: indexes compare with this slack."""


@dataclass(frozen=True)
class Query:
    """Ask for the live memories of one scope that are nearest to a vector.

    `limit` at most this many, `floor` none less similar (cosine, inclusive, to float32 accuracy).
    """

    scope: ScopeName
    vector: Vector
    limit: int
    floor: float


@dataclass(frozen=True)
class Followed:
    """How far an index has followed a partition of decisions, and which index that is.

    `index` is a token that another index, even one of the same name, does not have; "" where
    nothing was followed yet.
    """

    reached: Reached = BEGINNING
    index: str = ""


UNFOLLOWED = Followed()


@dataclass(frozen=True)
class Level:
    """How far an index has followed the log.

    `memories`: how many it held when the level was kept, at least; 0 where it does not count them.
    """

    partitions: Mapping[int, Followed]
    memories: int


class Decided(Protocol):
    """Knows which events were decided before."""

    async def decided(self, ids: Sequence[DecisionId]) -> Mapping[DecisionId, Known]:
        """Return, for the ids that have a decision, what is known of the event decided on."""
        ...


class Index(Decided, Protocol):
    """The searchable copy of the memories. It nominates; core/embedding.py measures.

    A copy: it can be rebuilt from the decisions at any time. Calls may raise Transient or Fatal.
    Of each memory's decisions it knows the newest, as many as Stored keeps.
    """

    async def search(self, queries: Sequence[Query]) -> list[list[Stored]]:
        """Return, per query, the nearest live memories of the scope, nearest first.

        A memory is as near as the nearest of its wordings. Vectors come back bit-equal to what was
        written (unit vectors).
        """
        ...

    async def get(self, ids: Sequence[MemoryId]) -> dict[MemoryId, Stored]:
        """Return what is stored under these ids, live or not, with their vectors.

        Absent ids are left out; the caller owns the dict.
        """
        ...

    async def with_content(self, keys: Sequence[ContentKey]) -> dict[ContentKey, list[Stored]]:
        """Return, per content key, the live memories with such a wording, by id, without vectors.

        Keys that no live memory has are left out.
        """
        ...

    async def contradicting(self, ids: Sequence[MemoryId]) -> dict[MemoryId, list[Stored]]:
        """Return, per id, the live memories that were found to contradict it, without vectors.

        By id; an id that none contradicts is left out.
        """
        ...

    async def forgotten(self, scopes: Sequence[ScopeName]) -> dict[ScopeName, list[Stored]]:
        """Return, per scope, its memories that were forgotten, by id, with their vectors.

        Scopes that have none are left out; where no scope has one, that costs next to nothing.
        """
        ...

    async def write(self, changes: Sequence[Stored]) -> None:
        """Store these states with the vector of each wording, each id at most once.

        On return they are searchable and survive a crash of this process; `keep_level` makes
        them survive more. A state is left out where the index has that version of the memory, or
        a later one: who writes late cannot set a memory back. Where it raises, any part may be
        stored.
        """
        ...

    async def count(self) -> int:
        """Return how many memories are stored, live or not; cheap."""
        ...

    async def level(self) -> Level | None:
        """Return how far the kept levels go; None where none was kept."""
        ...

    async def keep_level(self, partition: int, reached: Reached, *, since: Followed) -> Followed:
        """Make all that was written durable, then remember how far in the log that goes.

        `since` says how far, and in which index, all that lies before what was written had been
        applied: Transient where this is another index now, or goes less far. A level is never
        lowered. Returns what is kept.
        """
        ...

    async def clear(self) -> None:
        """Forget everything, the level first."""
        ...

    def scan(self, scope: ScopeName | None = None) -> AsyncIterator[Stored]:
        """Yield every memory with its vector, of the scope or of all, live or not, by id."""
        ...

    async def close(self) -> None: ...


class Sink(Protocol):
    """A copy of the memories that other programs read, kept by the writer beside the index.

    Calls may raise Transient, while it cannot be reached, or NoStore.
    """

    @property
    def name(self) -> str:
        """What messages and metrics call it."""
        ...

    async def level(self, partition: int) -> Reached | None:
        """Return how far it has followed a partition of decisions; None where it has not begun."""
        ...

    async def write(self, partition: int, changes: Sequence[Applied], reached: Reached) -> None:
        """Take over the changes, then how far in the log that goes; durable on return.

        A change is left out where the sink has that version of the memory, or a later one, so
        any window may come again. A level is never lowered.
        """
        ...

    async def close(self) -> None: ...


class Clock(Protocol):
    def now(self) -> datetime:
        """Return the wall clock, aware, in UTC."""
        ...
