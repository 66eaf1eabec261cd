"""The decisions topic: how decisions and fences travel, and which of its records count.

Whoever reads decisions reads them here: the owner that takes a partition, the writer, replays and
audits. So all of them see the same decisions.
"""

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from schemas.base import Position, ScopeName
from schemas.codec import DECISION, Unreadable
from schemas.decisions import Block, Decision, Fence, Forward, Marker, Reject
from schemas.topics import DECISIONS
from streams.core.fences import BEGINNING, Epoch, Reached, admits
from streams.core.identity import event_key
from streams.core.ledger import quoted, touched
from streams.ports import Fatal, Log, Outgoing, Record

DECISION_ID_HEADER = "memsieve-decision-id"
CONTENT_KEY_HEADER = "memsieve-content-key"
EVENT_ID_HEADER = "memsieve-event-id"
MEMORY_ID_HEADER = "memsieve-memory-id"
QUOTED_ID_HEADER = "memsieve-quoted-id"
"""A memory whose words the decision repeats, without changing it."""
KIND_HEADER = "memsieve-kind"
EPOCH_HEADER = "memsieve-epoch"
"""The fence that its owner decided under: `OFFSET/TOKEN`."""
FENCE_HEADER = "memsieve-fence"
"""Only fences have it: the token of the owner."""

INDEXED = {
    DECISIONS.name: frozenset(
        {DECISION_ID_HEADER, EVENT_ID_HEADER, MEMORY_ID_HEADER, QUOTED_ID_HEADER, FENCE_HEADER}
    ),
}
"""The headers by which a log that can look records up should do so."""

_PAGE = 500
_SEPARATOR = "\x1f"
_EPOCH = re.compile(r"([0-9]{1,19})/(.+)")


def fence_record(owner: str, partition: int, partitions: int, end: int = 0) -> Outgoing:
    """Return the record by which an owner takes a partition, of so many.

    `end` is where the partition ends then. An owner may take it again: without that its fences
    would have one key, and where the topic is compacted all decisions under the earlier ones were
    void.
    """
    fence = Fence(owner=owner, partition=partition, partitions=partitions)
    headers = ((KIND_HEADER, fence.kind.encode()), (FENCE_HEADER, owner.encode()))
    key = _SEPARATOR.join((fence.kind, owner, str(end))).encode()
    return Outgoing(DECISIONS.name, partition, key, DECISION.encode(fence), headers)


def decision_record(decision: Decision, value: bytes, partition: int, epoch: Epoch) -> Outgoing:
    """Give an encoded decision its record, with headers to find it by.

    Its key is no other record's: where it is erased in a compacted topic, nothing else goes.
    """
    headers = [
        (KIND_HEADER, decision.kind),
        (EPOCH_HEADER, f"{epoch.offset}/{epoch.owner}"),
        (DECISION_ID_HEADER, decision.decision_id),
        *((MEMORY_ID_HEADER, identity) for identity in touched(decision)),
        *((QUOTED_ID_HEADER, identity) for identity in quoted(decision)),
    ]
    if isinstance(decision, Forward | Block):
        headers.append((EVENT_ID_HEADER, decision.event_id))
    elif not isinstance(decision, Reject):
        headers.append((EVENT_ID_HEADER, decision.event.event_id))
        headers.append((CONTENT_KEY_HEADER, event_key(decision.event)))
    place = (str(decision.source.offset), str(epoch.offset))  # an event that came again has its id
    key = (_scope_of(decision), decision.decision_id, *place)
    return Outgoing(
        topic=DECISIONS.name,
        partition=partition,
        key=_SEPARATOR.join(key).encode(),
        value=value,
        headers=tuple((name, value.encode()) for name, value in headers),
    )


def _scope_of(decision: Decision) -> str:
    if isinstance(decision, Reject):
        return ""
    return decision.scope if isinstance(decision, Marker) else decision.event.scope


@dataclass(frozen=True)
class Logged:
    """A decision that counts, and where the log holds it.

    `holed`: offsets before it hold nothing, so what it builds on may have been erased.
    """

    decision: Decision
    position: Position
    holed: bool = False


@dataclass(frozen=True)
class Fenced:
    """A fence, and where the log holds it."""

    fence: Fence
    position: Position


class Why(StrEnum):
    """Why a record does not count."""

    FOREIGN = "it names no epoch: memsieve did not write it"
    STALE = "its owner had been fenced out"
    AGAIN = "its event had been decided on before"
    ERASED = "it only says that another record is erased"


@dataclass(frozen=True)
class Refused:
    """A record that does not count, and where the log holds it."""

    why: Why
    position: Position


class DecisionsReader:
    """Tells, record by record in the order of the log, which decisions of a partition count.

    A decision counts where its epoch is the newest fence before it, and it is the first on its
    event's record. Nothing of a record that does not count is read.
    """

    def __init__(self, reached: Reached = BEGINNING) -> None:
        """Begin where somebody has got to before."""
        self._offset = reached.offset
        self._epoch = reached.epoch
        self._next_event = reached.next_event
        self._refused = 0
        self._holed = False

    @property
    def reached(self) -> Reached:
        return Reached(self._offset, self._epoch, self._next_event)

    @property
    def refused(self) -> int:
        """How many records did not count."""
        return self._refused

    def sort(self, record: Record) -> Logged | Fenced | Refused:
        """Read one record. Fatal where it counts, or fences, and cannot be read."""
        self._holed = self._holed or record.offset > self._offset
        self._offset = record.offset + 1
        if record.value is None and not record.headers:
            return Refused(Why.ERASED, record.position)
        headers = dict(record.headers)
        if FENCE_HEADER in headers:
            fence = _read_fence(record, headers[FENCE_HEADER])
            self._epoch = Epoch(record.offset, fence.owner)
            return Fenced(fence, record.position)
        if not admits(self._epoch, _claimed(headers)):
            foreign = EPOCH_HEADER not in headers
            return self._refuse(record, Why.FOREIGN if foreign else Why.STALE)
        decision = read_decision(record)
        if decision.source.offset < self._next_event:
            return self._refuse(record, Why.AGAIN)
        self._next_event = decision.source.offset + 1
        return Logged(decision, record.position, self._holed)

    def window(self, records: Sequence[Record]) -> list[Logged]:
        """Return those of the records that are decisions and count."""
        return [entry for record in records if isinstance(entry := self.sort(record), Logged)]

    def _refuse(self, record: Record, why: Why) -> Refused:
        self._refused += 1
        return Refused(why, record.position)


class Fences:
    """All fences of a log: tells of single records, picked out of it, whether they count."""

    def __init__(self, fences: Sequence[Record]) -> None:
        """Know the fences: every record that has FENCE_HEADER, partition by partition in order."""
        self._epochs: dict[int, list[Epoch]] = {}
        for record in fences:
            reader = DecisionsReader()
            reader.sort(record)
            if (epoch := reader.reached.epoch) is not None:
                self._epochs.setdefault(record.partition, []).append(epoch)

    def admit(self, record: Record) -> bool:
        epochs = self._epochs.get(record.partition, [])
        before = bisect_left(epochs, record.offset, key=lambda epoch: epoch.offset)
        newest = epochs[before - 1] if before else None
        return admits(newest, _claimed(dict(record.headers)))


def scope_of(record: Record) -> ScopeName:
    """Return the scope of the event that a record is a decision on, by its key alone."""
    scope = (record.key or b"").split(_SEPARATOR.encode(), 1)[0]
    return ScopeName(scope.decode("utf-8", "replace"))


def is_decision(record: Record) -> bool:
    """Tell whether a record says that it is a decision: by its headers, whether or not it counts."""
    return record.value is not None and DECISION_ID_HEADER in dict(record.headers)


def read_decision(record: Record) -> Decision:
    """Read a decision that counts. Fatal where it is none: the log is damaged."""
    kind = (dict(record.headers).get(KIND_HEADER) or b"").decode("utf-8", "replace")
    try:
        decision = DECISION.decode(record.value or b"", likely=kind)
    except Unreadable as error:
        raise Fatal(
            f"{record.place} is no decision: {error}; nothing after it can be applied"
        ) from error
    if isinstance(decision, Fence):
        raise Fatal(f"{record.place} is a fence and says it is a decision: the log is damaged")
    return decision


async def epoch_at(log: Log, partition: int, offset: int) -> Epoch | None:
    """Return the newest fence before an offset, reading back to it; None where there is none."""
    beginning = await log.beginning(DECISIONS.name, partition)
    end = offset
    while end > beginning:
        start = max(beginning, end - _PAGE)
        reader = DecisionsReader(Reached(start))
        while start < end and (records := await _before(log, partition, start, end)):
            for record in records:
                if FENCE_HEADER in dict(record.headers):
                    reader.sort(record)
            start = records[-1].offset + 1
        if reader.reached.epoch is not None:
            return reader.reached.epoch
        end = max(beginning, end - _PAGE)
    return None


async def _before(log: Log, partition: int, start: int, end: int) -> list[Record]:
    records = await log.read(DECISIONS.name, partition, start, end - start)
    return [record for record in records if record.offset < end]


def _read_fence(record: Record, owner: bytes | None) -> Fence:
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
    """Read the epoch that a record claims; None where it claims none that could be one."""
    found = _EPOCH.fullmatch((headers.get(EPOCH_HEADER) or b"").decode("utf-8", "replace"))
    return None if found is None else Epoch(int(found[1]), found[2])
