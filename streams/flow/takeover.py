"""Taking a partition: what its owner must know before the first decision, read from the log."""

from dataclasses import dataclass

from pydantic import BaseModel, ValidationError

from schemas.codec import DECISION, Unreadable
from schemas.decisions import Decision, Fence
from schemas.topics import DECISIONS, EVENTS
from streams.core.overlay import Overlay
from streams.ports import Committed, Fatal, Index, Log, Record

DEDUPLICATOR_GROUP = "memsieve-deduplicator"
WRITER_GROUP = "memsieve-writer"
_READ = 500


class Note(BaseModel):
    """What the writer notes with its commit: the offset behind the last event that it applied.

    Later versions may note more; a reader takes what it knows.
    """

    next_event: int


@dataclass(frozen=True)
class Claim:
    """The partition's unapplied decisions, and the event offset to go on from."""

    overlay: Overlay
    next_event: int


async def take_over(log: Log, index: Index, partition: int) -> Claim:
    """Rebuild the overlay from the decisions that the index does not hold.

    The next event is the furthest that any witness saw: the decisions' own sources, the writer's
    note, the group's commit. So a crash between a decision and its commit decides nothing twice.
    """
    committed = await log.committed(DEDUPLICATOR_GROUP, EVENTS.name, partition)
    written = await log.committed(WRITER_GROUP, DECISIONS.name, partition)
    next_event = max(
        0 if committed is None else committed.offset,
        0 if written is None else note_of(written).next_event,
    )
    overlay = Overlay()
    level = await applied(index, partition)
    # A note covers what lies before its commit; where the index is further, its decisions tell.
    offset = 0 if written is None else min(level, written.offset)
    while records := await log.read(DECISIONS.name, partition, offset, _READ):
        for record in records:
            decision = read_decision(record)
            overlay.join([decision], [record.offset])
            next_event = max(next_event, decision.source.offset + 1)
        offset = records[-1].offset + 1
    overlay.settle(level)
    return Claim(overlay, next_event)


async def applied(index: Index, partition: int) -> int:
    """Return the offset behind the partition's last decision that the index holds."""
    level = await index.level()
    return 0 if level is None else level.offsets.get(partition, 0)


def note_of(written: Committed) -> Note:
    """Read the writer's note. Fatal where somebody else committed for its group."""
    try:
        return Note.model_validate_json(written.metadata)
    except ValidationError as error:
        raise Fatal(
            f"group {WRITER_GROUP} has a commit that memsieve did not make: {written.metadata!r}"
        ) from error


def read_decision(record: Record) -> Decision:
    """Read a record of the decisions topic. Fatal where it is none: the log is damaged."""
    try:
        decision = DECISION.decode(record.value or b"")
    except Unreadable as error:
        raise Fatal(
            f"{record.place} is no decision: {error}; nothing after it can be applied"
        ) from error
    if isinstance(decision, Fence):
        raise Fatal(
            f"{record.place} is a fence, which this memsieve does not write; nothing can be applied"
        )
    return decision
