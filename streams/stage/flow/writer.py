"""The writer as a process on the decisions topic: index and sinks follow the log."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field

from pydantic import BaseModel, ValidationError

from schemas.codec import APPLIED
from schemas.outcomes import Applied
from schemas.topics import CHANGES, DECISIONS
from streams.model.fences import BEGINNING, Epoch, ReadPosition
from streams.model.ports.failures import Fatal, Transient
from streams.model.ports.index import UNFOLLOWED, Index, PartitionLevel, Sink
from streams.model.ports.log import CommittedOffset, HandledBatch, Log, LogRecord, OutgoingRecord
from streams.stage.flow.apply import Mismatch, apply
from streams.stage.flow.decisions import CountedDecision, DecisionsReader, epoch_at
from streams.stage.flow.forgetting import erase, erased
from streams.stage.flow.takeover import applied, require_log

WRITER_GROUP = "memsieve-writer"
_WINDOW = 1_000
_KEPT_EVERY = 10_000
"""Records applied between two durable writes while catching up: a durable write is slow."""


class Note(BaseModel):
    """The metadata of the writer's commit: the state needed to continue reading from there.

    Later versions may add fields; a reader uses those it knows.
    """

    epoch: Epoch | None
    next_event: int


@dataclass
class _Follower:
    """Brings index and sinks level with a partition, window by window.

    `since` is the index, and the level that was last made durable in it; `done` is the level up to
    which index and sinks are applied: a window that failed is not counted.
    """

    partition: int
    reader: DecisionsReader
    index: Index
    since: PartitionLevel
    sinks: Sequence[Sink]
    done: ReadPosition = field(init=False)

    def __post_init__(self) -> None:
        self.done = self.reader.reached

    @property
    def pending(self) -> int:
        """How many applied records the index would lose in a power failure."""
        return self.done.offset - self.since.reached.offset

    async def follow(
        self, records: Sequence[LogRecord]
    ) -> tuple[list[CountedDecision], list[Applied]]:
        """Bring index and sinks level with a window of records.

        Returns the decisions that count, and their changes. The index is durable only after `keep`.
        """
        window = self.reader.window(records)
        try:
            changes = await apply(window, index=self.index)
        except Mismatch:
            await self.require_index()
            raise
        for sink in self.sinks:
            await sink.write(self.partition, changes, self.reader.reached)
        self.done = self.reader.reached
        return window, changes

    async def keep(self) -> None:
        """Make the index durable up to the applied level."""
        self.since = await self.index.keep_level(self.partition, self.done, since=self.since)

    async def require_index(self) -> None:
        """Raise Transient if the index was replaced or set back in the meantime."""
        there = await applied(self.index, self.partition)
        if there.index != self.since.index or there.reached.offset < self.since.reached.offset:
            raise Transient(
                f"the index was rebuilt, replaced or reset: what it lacks of {DECISIONS.name}/"
                f"{self.partition} is applied first"
            )


@dataclass(eq=False)
class Writer:
    """Implements ports.Process for memory.decisions.

    `report` gets the progress of a copy that is being rebuilt. The index is made durable every
    `kept_every` records, and when `settle` is called: that takes as long as applying a hundred
    records. What it lacks after a power failure is still in the log. `observe` gets the changes
    that the log has acknowledged, `refused` how many records of a batch did not count.
    """

    topic = DECISIONS.name
    group = WRITER_GROUP

    index: Index
    log: Log
    report: Callable[[str], None]
    _: KW_ONLY
    sinks: Sequence[Sink] = ()
    kept_every: int = 1
    observe: Callable[[Sequence[Applied]], None] = lambda _: None
    refused: Callable[[int], None] = lambda _: None
    _followers: dict[int, _Follower] = field(default_factory=dict[int, _Follower], init=False)
    _changes_partitions: int = field(default=1, init=False)

    async def claim(self, partition: int) -> int:
        """Bring index and sinks to the group's committed offset: either may be new or behind."""
        place = await written(self.log, partition)
        reached = _telling(self.report, partition, place.offset)
        since = await catch_up(
            self.log, partition, place.offset, self.index, self.sinks, reached=reached
        )
        reader = DecisionsReader(place)
        self._followers[partition] = _Follower(partition, reader, self.index, since, self.sinks)
        self._changes_partitions = await self.log.partitions(CHANGES.name)
        return place.offset

    def release(self, partition: int) -> None:
        self._followers.pop(partition, None)

    async def settle(self, partition: int) -> None:
        """Make applied changes durable, and check that the index still has them.

        Otherwise a loss after the last decision would go unnoticed until the next one, and an owner
        that waits for the missing memories decides nothing.
        """
        follower = self._followers[partition]
        if follower.pending:
            await follower.keep()
        else:
            await follower.require_index()

    async def keep(self) -> None:
        """Make the applied changes of all partitions durable."""
        for follower in self._followers.values():
            if follower.pending:
                await follower.keep()

    async def handle(self, partition: int, records: Sequence[LogRecord]) -> HandledBatch:
        follower = self._followers[partition]
        reader = follower.reader
        before = reader.refused
        window, changes = await follower.follow(records)
        gone = erased(window)
        if follower.pending >= self.kept_every:
            await follower.keep()
        await erase(self.log, gone)
        refused = reader.refused - before
        # A memory belongs to one scope and so to one partition: its changes stay in order.
        place = partition % self._changes_partitions
        outgoing = [_change(change, place) for change in changes]

        async def appended(_: list[int]) -> None:
            self.observe(changes)
            self.refused(refused)

        reached = reader.reached
        note = Note(epoch=reached.epoch, next_event=reached.next_event)
        return HandledBatch(outgoing, appended, note.model_dump_json())


async def written(log: Log, partition: int) -> ReadPosition:
    """Return the position from which the writer's group continues.

    If it never committed, or its commit has expired, that is the beginning: the published changes
    are unknown, and repeating them is harmless. A commit without metadata was made by a person;
    then the fence in force there is looked up.
    """
    committed = await log.committed(WRITER_GROUP, DECISIONS.name, partition)
    if committed is None:
        return BEGINNING
    if not committed.metadata:
        epoch = await epoch_at(log, partition, committed.offset)
        return ReadPosition(committed.offset, epoch)
    note = _note_of(committed)
    return ReadPosition(committed.offset, note.epoch, note.next_event)


async def restore(index: Index, log: Log, report: Callable[[str], None]) -> None:
    """Bring the index to the writer's committed position, from the decisions alone.

    The index may be behind: new, lost, or not fully on disk when the power failed. If it holds
    what the log does not, because the log was restored from a copy, it is rebuilt. Nothing is
    committed or published: all of that happened before. Once level, the writer keeps it so.
    `report` gets the progress.
    """
    if not await _agrees(index, log):
        for partition in range(await log.partitions(DECISIONS.name)):
            await require_log(log, BEGINNING, partition)  # else the index is the last copy
        await index.clear()
    for partition in range(await log.partitions(DECISIONS.name)):
        place = await written(log, partition)
        reached = _telling(report, partition, place.offset)
        await catch_up(log, partition, place.offset, index, reached=reached)


async def is_level(index: Index, log: Log) -> bool:
    """Return whether `restore` would have nothing to do."""
    for partition in range(await log.partitions(DECISIONS.name)):
        place = await written(log, partition)
        if (await applied(index, partition)).reached.offset < place.offset:
            return False
    return await _agrees(index, log)


async def catch_up(
    log: Log,
    partition: int,
    goal: int,
    index: Index,
    sinks: Sequence[Sink] = (),
    *,
    reached: Callable[[int], None],
) -> PartitionLevel:
    """Bring index and sinks to offset `goal`, starting from the one that is furthest behind.

    Publishes and commits nothing. `reached` gets each offset that is reached. Returns the level
    of the index.
    """
    followed = await applied(index, partition)
    await require_log(log, followed.reached, partition)
    if not followed.index:  # give it an identity before anything is written
        followed = await index.keep_level(partition, BEGINNING, since=UNFOLLOWED)
    start = followed.reached
    for sink in sinks:
        level = await sink.level(partition) or BEGINNING
        await require_log(log, level, partition, who=sink.name)
        start = min(start, level, key=lambda reached: reached.offset)
    follower = _Follower(partition, DecisionsReader(start), index, followed, sinks)
    while (offset := follower.reader.reached.offset) < goal:
        records = await log.read(DECISIONS.name, partition, offset, min(_WINDOW, goal - offset))
        if not records:
            raise Fatal(f"{DECISIONS.name}/{partition} ends before {goal}: restore the log")
        await follower.follow(records)
        done = follower.reader.reached.offset
        if done >= goal or done - follower.since.reached.offset >= _KEPT_EVERY:
            await follower.keep()
        reached(done)
    return follower.since


def _telling(report: Callable[[str], None], partition: int, goal: int) -> Callable[[int], None]:
    place = f"{DECISIONS.name}/{partition}"
    return lambda offset: report(f"building from the log: {offset:,} of {goal:,} of {place}")


async def _agrees(index: Index, log: Log) -> bool:
    """Return whether the index still has all it held, and nothing that the log lacks."""
    level = await index.level()
    if level is None:
        return await index.count() == 0
    try:
        for partition, followed in level.partitions.items():
            if partition < await log.partitions(DECISIONS.name):
                await require_log(log, followed.reached, partition)
    except Fatal:
        return False
    return await index.count() >= level.memories


def _note_of(committed: CommittedOffset) -> Note:
    """Read the writer's note. Raises Fatal if another program committed for its group."""
    try:
        return Note.model_validate_json(committed.metadata)
    except ValidationError as error:
        raise Fatal(
            f"group {WRITER_GROUP} has a commit that memsieve did not make: "
            f"{committed.metadata!r}; reset its offset without metadata"
        ) from error


def _change(change: Applied, partition: int) -> OutgoingRecord:
    return OutgoingRecord(
        topic=CHANGES.name,
        partition=partition,
        key=change.memory_id.encode(),
        value=APPLIED.encode(change),
        cause=change.decided.offset,
    )
