"""The writer as a process on the decisions topic."""

from collections.abc import Callable, Sequence

from schemas.codec import APPLIED
from schemas.outcomes import Applied
from schemas.topics import CHANGES, DECISIONS
from streams.flow.apply import Logged, apply
from streams.flow.takeover import WRITER_GROUP, Note, applied, read_decision
from streams.ports import Fatal, Handled, Index, Log, Outgoing, Record

_RESTORE_WINDOW = 500


class Writer:
    """Implements ports.Process for memory.decisions."""

    topic = DECISIONS.name
    group = WRITER_GROUP

    def __init__(
        self,
        index: Index,
        log: Log,
        report: Callable[[str], None],
        observe: Callable[[Sequence[Applied]], None] = lambda _: None,
    ) -> None:
        """`report` is told how far an index has got that is built anew.

        `observe` is told the changes that the log has acknowledged.
        """
        self._index = index
        self._log = log
        self._report = report
        self._observe = observe
        self._changes_partitions = 1

    async def claim(self, partition: int) -> int:
        """Bring the index to where the group has committed: it may be new, or an older copy."""
        reached, goal = await _way(self._index, self._log, partition)
        await require_log(self._index, self._log, partition)
        await _catch_up(self._index, self._log, partition, reached, goal, self._report)
        self._changes_partitions = await self._log.partitions(CHANGES.name)
        return goal

    def release(self, partition: int) -> None:
        pass

    async def handle(self, partition: int, records: Sequence[Record]) -> Handled:
        window = _window(records)
        changes = await apply(window, index=self._index)
        await self._index.keep_level(partition, records[-1].offset + 1)
        # What was decided twice may stand behind later ones.
        note = Note(next_event=max(one.decision.source.offset for one in window) + 1)
        # A memory is of one scope, so of one partition: its changes stay in order.
        place = partition % self._changes_partitions
        outgoing = [_change(change, place) for change in changes]
        return Handled(outgoing, lambda _: self._observe(changes), note.model_dump_json())


async def require_log(index: Index, log: Log, partition: int) -> None:
    """Raise Fatal where the index knows decisions that the log does not have.

    It may be the last copy of them, so it is not touched.
    """
    reached = await applied(index, partition)
    end = await log.end(DECISIONS.name, partition)
    if reached > end:
        raise Fatal(
            f"the index has followed {DECISIONS.name}/{partition} to {reached:,}, but it ends at "
            f"{end:,}: the log has lost decisions, or the index belongs to another one; restore "
            "the log, or begin anew with another index"
        )


async def restore(index: Index, log: Log, report: Callable[[str], None]) -> None:
    """Bring the index to where the writer has committed, from the decisions alone.

    It may be behind: new, lost, or not all on disk when the power went. It may hold what the log
    does not: the log was restored from a copy. Then it is built anew. Commits and publishes
    nothing: all of it happened before. Once level, the two go on together. `report` is told how
    far it has got.
    """
    if not await _agrees(index, log):
        await index.clear()
    for partition in range(await log.partitions(DECISIONS.name)):
        reached, goal = await _way(index, log, partition)
        await _catch_up(index, log, partition, reached, goal, report)


async def is_level(index: Index, log: Log) -> bool:
    """Tell whether `restore` would find nothing to do."""
    partitions = range(await log.partitions(DECISIONS.name))
    ways = [await _way(index, log, partition) for partition in partitions]
    return all(reached >= goal for reached, goal in ways) and await _agrees(index, log)


async def _way(index: Index, log: Log, partition: int) -> tuple[int, int]:
    """Return how far the index has followed a partition, and how far the writer has committed."""
    written = await log.committed(WRITER_GROUP, DECISIONS.name, partition)
    return await applied(index, partition), 0 if written is None else written.offset


async def _catch_up(
    index: Index,
    log: Log,
    partition: int,
    reached: int,
    goal: int,
    report: Callable[[str], None],
) -> None:
    """Apply what the writer applied before; publish and commit nothing."""
    offset = reached
    while offset < goal:
        limit = min(_RESTORE_WINDOW, goal - offset)
        records = await log.read(DECISIONS.name, partition, offset, limit)
        if not records:
            raise Fatal(f"{DECISIONS.name}/{partition} ends before {goal}: restore the log")
        await apply(_window(records), index=index)
        offset = records[-1].offset + 1
        await index.keep_level(partition, offset)
        report(f"building the index from the log: {offset:,} of {goal:,} decisions")


async def _agrees(index: Index, log: Log) -> bool:
    """Tell whether the index still holds what it held, and nothing that the log does not have."""
    level = await index.level()
    if level is None:
        return await index.count() == 0
    partitions = range(await log.partitions(DECISIONS.name))
    ends = [await log.end(DECISIONS.name, partition) for partition in partitions]
    known = all(offset <= ends[p] for p, offset in level.offsets.items() if p < len(ends))
    return known and await index.count() >= level.memories


def _window(records: Sequence[Record]) -> list[Logged]:
    return [Logged(read_decision(record), record.position) for record in records]


def _change(change: Applied, partition: int) -> Outgoing:
    return Outgoing(
        topic=CHANGES.name,
        partition=partition,
        key=change.memory_id.encode(),
        value=APPLIED.encode(change),
    )
