"""The decisions topic: how decisions and fences are encoded, and which of its records count.

Every reader of decisions uses this module: the owner that takes a partition, the writer, replays
and audits. So all of them see the same decisions.
"""

import re
from bisect import bisect_left
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from schemas.base import Position, ScopeName
from schemas.codec import DECISION, Unreadable
from schemas.decisions import Block, Decision, Fence, Forward, Marker, Reject
from schemas.events import Remember
from schemas.outcomes import DeadLetter, Stage
from schemas.topics import DECISIONS
from streams.model.fences import BEGINNING, Epoch, ReadPosition, admits
from streams.model.identity import event_key
from streams.model.ports.failures import Fatal, Poison
from streams.model.ports.log import PAGE, Log, LogRecord, OutgoingRecord, pages
from streams.stage.core.ledger import quoted, restated, touched
from streams.stage.flow.dead_letters import dead_letter

DECISION_ID_HEADER = "memsieve-decision-id"
CONTENT_KEY_HEADER = "memsieve-content-key"
EVENT_ID_HEADER = "memsieve-event-id"
MEMORY_ID_HEADER = "memsieve-memory-id"
MEMORY_NAME_HEADER = "memsieve-memory-name"
"""The name that the event's producer gave the memory, if it is not the event's id."""
QUOTED_ID_HEADER = "memsieve-quoted-id"
"""A memory whose words the decision repeats without changing it."""
RESTATED_ID_HEADER = "memsieve-restated-id"
"""An earlier decision that an erasure restates: its own record may be erased."""
KIND_HEADER = "memsieve-kind"
EPOCH_HEADER = "memsieve-epoch"
"""The fence under which the owner decided: `OFFSET/TOKEN`."""
FENCE_HEADER = "memsieve-fence"
"""The owner's token; only fences have it."""

INDEXED = {
    DECISIONS.name: frozenset(
        {
            DECISION_ID_HEADER,
            EVENT_ID_HEADER,
            MEMORY_ID_HEADER,
            MEMORY_NAME_HEADER,
            QUOTED_ID_HEADER,
            RESTATED_ID_HEADER,
            FENCE_HEADER,
        }
    ),
}
"""The headers that a log with lookup should index."""

_SEPARATOR = "\x1f"
_EPOCH = re.compile(r"([0-9]{1,19})/(.+)")


def fence_record(owner: str, partition: int, partitions: int, end: int = 0) -> OutgoingRecord:
    """Return the record with which an owner takes a partition, out of `partitions`.

    `end` is the partition's end at that time. It makes the key unique when an owner takes the
    partition again: with one key, compacting the topic would drop the earlier fences and void all
    decisions made under them.
    """
    fence = Fence(owner=owner, partition=partition, partitions=partitions)
    headers = ((KIND_HEADER, fence.kind.encode()), (FENCE_HEADER, owner.encode()))
    key = _SEPARATOR.join((fence.kind, owner, str(end))).encode()
    return OutgoingRecord(DECISIONS.name, partition, key, DECISION.encode(fence), headers)


def decision_record(
    decision: Decision, value: bytes, partition: int, epoch: Epoch
) -> OutgoingRecord:
    """Return the record of an encoded decision, with headers to find it by.

    Its key is unique: erasing it in a compacted topic removes nothing else.
    """
    headers = [
        (KIND_HEADER, decision.kind),
        (EPOCH_HEADER, f"{epoch.offset}/{epoch.owner}"),
        (DECISION_ID_HEADER, decision.decision_id),
        *((MEMORY_ID_HEADER, identity) for identity in touched(decision)),
        *((QUOTED_ID_HEADER, identity) for identity in quoted(decision)),
        *((RESTATED_ID_HEADER, identity) for identity in restated(decision)),
    ]
    if isinstance(decision, Forward | Block):
        headers.append((EVENT_ID_HEADER, decision.event_id))
    elif not isinstance(decision, Reject):
        headers.append((EVENT_ID_HEADER, decision.event.event_id))
        headers.append((CONTENT_KEY_HEADER, event_key(decision.event)))
        name = decision.event.memory_id if isinstance(decision.event, Remember) else None
        if name is not None and name != decision.event.event_id:
            headers.append((MEMORY_NAME_HEADER, name))
    place = (str(decision.source.offset), str(epoch.offset))  # a redelivered event keeps its id
    key = (_scope_of(decision), decision.decision_id, *place)
    return OutgoingRecord(
        topic=DECISIONS.name,
        partition=partition,
        key=_SEPARATOR.join(key).encode(),
        value=value,
        headers=tuple((name, value.encode()) for name, value in headers),
        cause=decision.source.offset,
    )


def _scope_of(decision: Decision) -> str:
    if isinstance(decision, Reject):
        return ""
    return decision.scope if isinstance(decision, Marker) else decision.event.scope


@dataclass(frozen=True)
class CountedDecision:
    """A decision that counts, and its position in the log.

    `holed`: the log has gaps before it, so what it builds on may have been erased.
    """

    decision: Decision
    position: Position
    holed: bool = False


@dataclass(frozen=True)
class LoggedFence:
    """A fence, and its position in the log."""

    fence: Fence
    position: Position


class UncountedReason(StrEnum):
    """Why a record does not count."""

    FOREIGN = "it names no epoch: memsieve did not write it"
    STALE = "its owner had been fenced out"
    AGAIN = "its event had been decided on before"
    ERASED = "it only says that another record is erased"


@dataclass(frozen=True)
class UncountedRecord:
    """A record that does not count, and its position in the log."""

    why: UncountedReason
    position: Position


class DecisionsReader:
    """Says, record by record in log order, which decisions of a partition count.

    A decision counts if its epoch is the newest fence before it and it is the first on its event's
    record. The content of a record that does not count is not read.
    """

    def __init__(self, reached: ReadPosition = BEGINNING) -> None:
        """Start from a position that was reached before."""
        self._offset = reached.offset
        self._epoch = reached.epoch
        self._next_event = reached.next_event
        self.refused = 0
        """How many records did not count."""
        self._holed = False

    @property
    def reached(self) -> ReadPosition:
        return ReadPosition(self._offset, self._epoch, self._next_event)

    def sort(self, record: LogRecord) -> CountedDecision | LoggedFence | UncountedRecord:
        """Classify one record. Raises Fatal if it counts, or is a fence, and cannot be read."""
        self._holed = self._holed or record.offset > self._offset
        self._offset = record.offset + 1
        if record.value is None and not record.headers:
            return UncountedRecord(UncountedReason.ERASED, record.position)
        headers = dict(record.headers)
        if FENCE_HEADER in headers:
            fence = _read_fence(record, headers[FENCE_HEADER])
            self._epoch = Epoch(record.offset, fence.owner)
            return LoggedFence(fence, record.position)
        if not admits(self._epoch, _claimed(headers)):
            foreign = EPOCH_HEADER not in headers
            return self._refuse(
                record, UncountedReason.FOREIGN if foreign else UncountedReason.STALE
            )
        decision = read_decision(record)
        if decision.source.offset < self._next_event:
            return self._refuse(record, UncountedReason.AGAIN)
        self._next_event = decision.source.offset + 1
        return CountedDecision(decision, record.position, self._holed)

    def window(self, records: Sequence[LogRecord]) -> list[CountedDecision]:
        """Return the records that are decisions and count."""
        return [
            entry for record in records if isinstance(entry := self.sort(record), CountedDecision)
        ]

    def _refuse(self, record: LogRecord, why: UncountedReason) -> UncountedRecord:
        self.refused += 1
        return UncountedRecord(why, record.position)


class Fences:
    """All fences of a log: says whether a single record picked out of it counts."""

    def __init__(self, fences: Sequence[LogRecord]) -> None:
        """Take every record that has FENCE_HEADER, partition by partition in order."""
        self._epochs: dict[int, list[Epoch]] = {}
        for record in fences:
            reader = DecisionsReader()
            reader.sort(record)
            if (epoch := reader.reached.epoch) is not None:
                self._epochs.setdefault(record.partition, []).append(epoch)

    def admit(self, record: LogRecord) -> bool:
        epochs = self._epochs.get(record.partition, [])
        before = bisect_left(epochs, record.offset, key=lambda epoch: epoch.offset)
        newest = epochs[before - 1] if before else None
        return admits(newest, _claimed(dict(record.headers)))


def scope_of(record: LogRecord | OutgoingRecord) -> ScopeName:
    """Return the scope of the event that a decision record belongs to, from its key alone."""
    scope = (record.key or b"").split(_SEPARATOR.encode(), 1)[0]
    return ScopeName(scope.decode("utf-8", "replace"))


def is_decision(record: LogRecord) -> bool:
    """Return whether a record's headers mark it as a decision, whether or not it counts."""
    return record.value is not None and DECISION_ID_HEADER in dict(record.headers)


def read_decision(record: LogRecord) -> Decision:
    """Read a decision that counts. Raises Fatal if it is none: the log is damaged."""
    kind = (dict(record.headers).get(KIND_HEADER) or b"").decode("utf-8", "replace")
    try:
        decision = DECISION.decode(record.value or b"", likely=kind)
    except Unreadable as error:
        raise Fatal(
            f"{record.place} is not a decision: {error}; nothing after it can be applied"
        ) from error
    if isinstance(decision, Fence):
        raise Fatal(f"{record.place} is a fence and says it is a decision: the log is damaged")
    return decision


async def epoch_at(log: Log, partition: int, offset: int) -> Epoch | None:
    """Return the newest fence before an offset; None if there is none."""
    async for records in backwards(log, partition, offset):
        reader = DecisionsReader()
        for record in records:
            if FENCE_HEADER in dict(record.headers):
                reader.sort(record)
        if reader.reached.epoch is not None:
            return reader.reached.epoch
    return None


async def backwards(log: Log, partition: int, end: int) -> AsyncIterator[list[LogRecord]]:
    """Yield the records of a partition of decisions before `end`, the last page first."""
    beginning = await log.beginning(DECISIONS.name, partition)
    while end > beginning:
        start = max(beginning, end - PAGE)
        found = pages(log, DECISIONS.name, partition, start, end)
        yield [record async for records in found for record in records]
        end = start


def _read_fence(record: LogRecord, owner: bytes | None) -> Fence:
    try:
        fence = DECISION.decode(record.value or b"")
    except Unreadable as error:
        raise Fatal(
            f"{record.place} is a fence that cannot be read: {error}; whose decisions count after "
            "it cannot be told"
        ) from error
    if not isinstance(fence, Fence) or fence.owner.encode() != owner:
        raise Fatal(
            f"{record.place} is a fence without its owner's token; whose decisions count after it "
            "cannot be told"
        )
    return fence


def _claimed(headers: Mapping[str, bytes | None]) -> Epoch | None:
    """Read the epoch that a record claims; None if it claims no valid one."""
    found = _EPOCH.fullmatch((headers.get(EPOCH_HEADER) or b"").decode("utf-8", "replace"))
    return None if found is None else Epoch(int(found[1]), found[2])


DECISION_BYTES_MAX = 14_680_064
"""A longer decision, with its headers, would not fit into a record."""


def fitting(
    record: LogRecord, outcome: Decision | DeadLetter
) -> tuple[Decision | DeadLetter, bytes | None]:
    """Encode a decision; refuse one too long for any topic, before anything builds on it."""
    if isinstance(outcome, DeadLetter):
        return outcome, None
    encoded = DECISION.encode(outcome)
    if len(encoded) <= DECISION_BYTES_MAX:
        return outcome, encoded
    poison = Poison(
        f"the decision would be {len(encoded):,} bytes long, and {DECISION_BYTES_MAX:,} can be "
        "published: the memory has gathered too much metadata; publish less with the event",
        "metadata",
    )
    return dead_letter(record, Stage.DECIDE, poison), None
