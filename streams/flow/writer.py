"""The writer as a process on the decisions topic."""

from collections.abc import Callable, Sequence

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
    partitions = range(await log.partitions(DECISIONS.name))
    committed = [await log.committed(WRITER_GROUP, DECISIONS.name, p) for p in partitions]
    goals = [0 if written is None else written.offset for written in committed]
    ends = [await log.end(DECISIONS.name, partition) for partition in partitions]
    if not await _agrees(index, ends):
        await index.clear()
    level = await index.level()
    for partition, goal in zip(partitions, goals, strict=True):
        offset = 0 if level is None else level.offsets.get(partition, 0)
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
    level = await index.level()
    for partition in range(await log.partitions(DECISIONS.name)):
        written = await log.committed(WRITER_GROUP, DECISIONS.name, partition)
        reached = 0 if level is None else level.offsets.get(partition, 0)
        if written is not None and reached < written.offset:
            return False
    ends = [
        await log.end(DECISIONS.name, partition)
        for partition in range(await log.partitions(DECISIONS.name))
    ]
    return await _agrees(index, ends)


async def _agrees(index: Index, ends: Sequence[int]) -> bool:
    """Tell whether the index still holds what it held, and nothing that the log does not have."""
    level = await index.level()
    if level is None:
        return await index.count() == 0
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
