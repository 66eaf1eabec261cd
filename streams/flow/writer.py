"""The writer as a process on the decisions topic."""

from collections.abc import Callable, Mapping, Sequence

from schemas.codec import APPLIED
from schemas.outcomes import Applied
from schemas.topics import CHANGES, DECISIONS
from streams.flow.apply import Logged, apply
from streams.flow.takeover import WRITER_GROUP, Note, read_decision
from streams.ports import Fatal, Handled, Index, Level, Log, Outgoing, Record

_RESTORE_WINDOW = 500


class Writer:
    """Implements ports.Process for memory.decisions."""

    topic = DECISIONS.name
    group = WRITER_GROUP

    def __init__(self, index: Index, log: Log) -> None:
        self._index = index
        self._log = log

    async def claim(self, partition: int) -> int:
        written = await self._log.committed(WRITER_GROUP, DECISIONS.name, partition)
        return 0 if written is None else written.offset

    async def handle(self, partition: int, records: Sequence[Record]) -> Handled:
        window = _window(records)
        changes = await apply(window, index=self._index)
        await _keep_level(self._index, partition, records[-1].offset + 1)
        note = Note(next_event=window[-1].decision.source.offset + 1)
        outgoing = [_change(change, partition) for change in changes]
        return Handled(outgoing, lambda _: None, metadata=note.model_dump_json())


async def restore(index: Index, log: Log, report: Callable[[str], None]) -> None:
    """Bring the index to where the writer has committed, from the decisions alone.

    It may be behind: new, lost, or not all on disk when the power went. It may hold what the log
    does not: the log was restored from a copy. Then it is built anew. Commits and publishes
    nothing: all of it happened before. Once level, the two go on together. `report` is told how
    far it has got.
    """
    if not await _agrees(index, log):
        await index.clear()
    for partition, (reached, goal) in enumerate(await _ways(index, log)):
        offset = reached
        while offset < goal:
            limit = min(_RESTORE_WINDOW, goal - offset)
            records = await log.read(DECISIONS.name, partition, offset, limit)
            if not records:
                raise Fatal(f"{DECISIONS.name}/{partition} ends before {goal}: restore the log")
            await apply(_window(records), index=index)
            offset = records[-1].offset + 1
            await _keep_level(index, partition, offset)
            report(f"building the index from the log: {offset:,} of {goal:,} decisions")


async def is_level(index: Index, log: Log) -> bool:
    """Tell whether `restore` would find nothing to do."""
    behind = any(reached < goal for reached, goal in await _ways(index, log))
    return not behind and await _agrees(index, log)


async def _ways(index: Index, log: Log) -> list[tuple[int, int]]:
    """Return per partition how far the index has followed it, and how far the writer committed."""
    level = await index.level()
    reached: Mapping[int, int] = {} if level is None else level.offsets
    partitions = range(await log.partitions(DECISIONS.name))
    committed = [await log.committed(WRITER_GROUP, DECISIONS.name, p) for p in partitions]
    goals = [0 if written is None else written.offset for written in committed]
    return [(reached.get(partition, 0), goals[partition]) for partition in partitions]


async def _agrees(index: Index, log: Log) -> bool:
    """Tell whether the index still holds what it held, and nothing that the log does not have."""
    level = await index.level()
    if level is None:
        return await index.count() == 0
    partitions = range(await log.partitions(DECISIONS.name))
    ends = [await log.end(DECISIONS.name, partition) for partition in partitions]
    known = all(offset <= ends[p] for p, offset in level.offsets.items() if p < len(ends))
    return known and await index.count() >= level.memories


async def _keep_level(index: Index, partition: int, offset: int) -> None:
    before = await index.level()
    offsets = {} if before is None else dict(before.offsets)
    await index.keep_level(Level({**offsets, partition: offset}, await index.count()))


def _window(records: Sequence[Record]) -> list[Logged]:
    return [Logged(read_decision(record), record.position) for record in records]


def _change(change: Applied, partition: int) -> Outgoing:
    return Outgoing(
        topic=CHANGES.name,
        partition=partition,
        key=change.memory_id.encode(),
        value=APPLIED.encode(change),
    )
