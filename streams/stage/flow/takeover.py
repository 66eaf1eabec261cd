"""Partition takeover: what the owner must read from the log before its first decision."""

from dataclasses import dataclass

from schemas.base import ModelId
from schemas.decisions import Change
from schemas.topics import DECISIONS, EVENTS
from streams.model.fences import Epoch, ReadPosition
from streams.model.ports.failures import Fatal, Transient
from streams.model.ports.index import UNFOLLOWED, Index, PartitionLevel
from streams.model.ports.log import PAGE, CommittedOffset, Log, pages
from streams.stage.core.brake import WINDOW, counts
from streams.stage.core.ledger import embeddings
from streams.stage.core.overlay import Overlay
from streams.stage.flow.decisions import (
    DecisionsReader,
    LoggedFence,
    backwards,
    epoch_at,
    fence_record,
    is_decision,
    read_decision,
)

DEDUPLICATOR_GROUP = "memsieve-deduplicator"


@dataclass(frozen=True)
class Claim:
    """A claimed partition: its fence, its unapplied decisions, and the next event.

    `records` were read for it, of which `refused` did not count.
    """

    epoch: Epoch
    overlay: Overlay
    next_event: int
    records: int
    refused: int


async def take_over(log: Log, level: ReadPosition, partition: int, owner: str) -> Claim:
    """Fence the partition, and rebuild the overlay from the decisions that the index lacks.

    `level` is how far the index has followed the log, at least.

    The fence comes first: whatever an earlier owner appends after it does not count, so the
    decisions before it are complete. The next event follows from the decisions themselves; the
    group's commit is used only if it is ahead, because a person moved it past a record. If it is
    behind, an owner died between its decisions and its commit, and the commit is made now.
    """
    await require_log(log, level, partition)
    committed = await log.committed(DEDUPLICATOR_GROUP, EVENTS.name, partition)
    position = 0 if committed is None else committed.offset
    await _require_decisions(log, partition, position)
    partitions = await log.partitions(EVENTS.name)
    await _require_partitions(log, partitions)
    end = await log.end(DECISIONS.name, partition)
    [offset] = await log.append([fence_record(owner, partition, partitions, end)])
    epoch = Epoch(offset, owner)
    overlay = Overlay()
    await _recall(log, partition, overlay, level.offset)
    reader = DecisionsReader(level)
    await _follow(log, partition, reader, overlay, epoch)
    overlay.settle(level.offset)
    next_event = max(position, reader.reached.next_event)
    await _require_events(log, partition, next_event)
    if next_event > position:  # else monitoring shows a lag until the next event
        committed = CommittedOffset(next_event)
        await log.commit(DEDUPLICATOR_GROUP, EVENTS.name, partition, committed)
    records = offset + 1 - level.offset
    return Claim(epoch, overlay, next_event, records, reader.refused)


async def applied(index: Index, partition: int) -> PartitionLevel:
    """Return how far the index has followed a partition of decisions."""
    level = await index.level()
    return UNFOLLOWED if level is None else level.partitions.get(partition, UNFOLLOWED)


async def require_log(
    log: Log, reached: ReadPosition, partition: int, *, who: str = "the index"
) -> None:
    """Raise Fatal if this is not the log that `who` has followed so far."""
    place = f"{DECISIONS.name}/{partition}"
    end = await log.end(DECISIONS.name, partition)
    if reached.offset > end:
        raise Fatal(
            f"{who} has followed {place} to {reached.offset:,}, but it ends at {end:,}: the log "
            f"has lost decisions, or {who} belongs to another one; restore the log, or start over "
            "with another index"
        )
    beginning = await log.beginning(DECISIONS.name, partition)
    if reached.offset < beginning:
        raise Fatal(
            f"{place} begins at {beginning:,}, but {who} has followed it only to "
            f"{reached.offset:,}: decisions that it lacks were deleted; restore them, or a copy "
            "that is more complete"
        )
    if reached.epoch is not None and reached.epoch.offset >= beginning:
        await _require_fence(log, reached.epoch, partition, who)


async def require_model(log: Log, model: ModelId) -> None:
    """Raise Fatal if the newest vectors in the log are another model's.

    An index built from it would hold vectors of both, which cannot be compared.
    """
    for partition in range(await log.partitions(DECISIONS.name)):
        made = await _newest_model(log, partition)
        if made is not None and made != model:
            raise Fatal(
                f"{DECISIONS.name}/{partition} holds vectors of {made}, and this process makes "
                f"those of {model}: set embedder.model and embedder.precision back, or decide "
                "again on the same events in parallel, with kafka.run"
            )


async def _newest_model(log: Log, partition: int) -> ModelId | None:
    """Return the model of the newest vector in the decisions; None if they have none."""
    async for records in backwards(log, partition, await log.end(DECISIONS.name, partition)):
        for record in filter(is_decision, reversed(records)):
            if made := embeddings(read_decision(record)):
                return made[-1].model
    return None


async def _require_fence(log: Log, epoch: Epoch, partition: int, who: str) -> None:
    """Raise Fatal if the log does not have the fence that `who` saw there."""
    records = await log.read(DECISIONS.name, partition, epoch.offset, 1)
    found = [DecisionsReader().sort(record) for record in records]
    if not any(isinstance(f, LoggedFence) and f.fence.owner == epoch.owner for f in found):
        raise Fatal(
            f"{DECISIONS.name}/{partition}/{epoch.offset} is not the fence that {who} has "
            f"followed: {who} belongs to another log, or the log was restored from an older copy; "
            "start over with another index"
        )


async def _require_partitions(log: Log, partitions: int) -> None:
    """Raise Fatal if the number has changed: a scope's decisions would be in two partitions."""
    beginning = await log.beginning(DECISIONS.name, 0)
    records = await log.read(DECISIONS.name, 0, beginning, 1)
    fences = [e.fence for e in map(DecisionsReader().sort, records) if isinstance(e, LoggedFence)]
    if any(fence.partitions != partitions for fence in fences):
        raise Fatal(
            f"{DECISIONS.name} was begun with {fences[0].partitions} partitions, and {EVENTS.name} "
            f"has {partitions}: a scope's partition follows from their number; start over under "
            "another kafka.prefix"
        )


async def _require_decisions(log: Log, partition: int, position: int) -> None:
    if position and not await log.end(DECISIONS.name, partition):
        raise Fatal(
            f"{DECISIONS.name}/{partition} is empty, but events up to {position:,} were decided "
            "on: the source of truth is gone; restore it, or start over under another kafka.prefix"
        )


async def _require_events(log: Log, partition: int, next_event: int) -> None:
    end = await log.end(EVENTS.name, partition)
    if next_event > end:
        raise Fatal(
            f"{EVENTS.name}/{partition} ends at {end:,}, but events up to {next_event:,} were "
            "decided on: it was recreated or has lost records; recreate the other topics with "
            "it, under another kafka.prefix"
        )


async def _recall(log: Log, partition: int, overlay: Overlay, until: int) -> None:
    """Read the recent decisions that the index already has: the brake counts them."""
    beginning = await log.beginning(DECISIONS.name, partition)
    back = WINDOW
    while True:
        start = max(beginning, until - back)
        changes = await _changes(log, partition, start, until)
        if len(changes) >= WINDOW or start == beginning:
            break
        back *= 2  # the other records there changed nothing: redelivered events, fences
    overlay.recall(changes[-WINDOW:])


async def _changes(log: Log, partition: int, start: int, until: int) -> list[Change]:
    """Return the changes between two offsets that count and that the brake considers."""
    reader = DecisionsReader(ReadPosition(start, await epoch_at(log, partition, start)))
    changes: list[Change] = []
    async for records in pages(log, DECISIONS.name, partition, start, until):
        decisions = [one.decision for one in reader.window(records)]
        changes += [one for one in decisions if isinstance(one, Change) and counts(one)]
    return changes


async def _follow(
    log: Log, partition: int, reader: DecisionsReader, overlay: Overlay, until: Epoch
) -> None:
    """Read up to this owner's fence. The first append shows what comes after it."""
    while reader.reached.offset <= until.offset:
        start = reader.reached.offset
        records = await log.read(DECISIONS.name, partition, start, PAGE)
        if not records:
            raise Transient(f"{DECISIONS.name}/{partition} does not show what was appended yet")
        window = reader.window([record for record in records if record.offset <= until.offset])
        overlay.join([one.decision for one in window], [one.position.offset for one in window])
        if reader.reached.offset == start:
            raise Fatal(f"{DECISIONS.name}/{partition} has lost its record {until.offset}")
