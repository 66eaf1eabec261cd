"""The decisions topic: how decisions and fences travel, and which of its records count.

Whoever reads decisions reads them here: the owner that takes a partition, the writer, replays and
audits. So all of them see the same decisions.
"""

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from schemas.base import Position
from schemas.codec import DECISION, Unreadable
from schemas.decisions import Decision, Fence, Forward, Marker
from schemas.topics import DECISIONS
from streams.core.fences import BEGINNING, Epoch, Reached, admits
from streams.core.identity import event_key
from streams.core.ledger import touched
from streams.ports import Fatal, Log, Outgoing, Record

DECISION_ID_HEADER = "memsieve-decision-id"
CONTENT_KEY_HEADER = "memsieve-content-key"
EVENT_ID_HEADER = "memsieve-event-id"
MEMORY_ID_HEADER = "memsieve-memory-id"
KIND_HEADER = "memsieve-kind"
EPOCH_HEADER = "memsieve-epoch"
"""The fence that its owner decided under: `OFFSET/TOKEN`."""
FENCE_HEADER = "memsieve-fence"
"""Only fences have it: the token of the owner."""

INDEXED = {
    DECISIONS.name: frozenset(
        {DECISION_ID_HEADER, EVENT_ID_HEADER, MEMORY_ID_HEADER, FENCE_HEADER}
    ),
}
"""The headers by which a log that can look records up should do so."""

_PAGE = 500
_EPOCH = re.compile(r"([0-9]{1,19})/(.+)")


def fence_record(owner: str, partition: int, partitions: int) -> Outgoing:
    """Return the record by which an owner takes a partition, of so many."""
    fence = Fence(owner=owner, partition=partition, partitions=partitions)
    headers = ((KIND_HEADER, fence.kind.encode()), (FENCE_HEADER, owner.encode()))
    return Outgoing(DECISIONS.name, partition, None, DECISION.encode(fence), headers)


def decision_record(decision: Decision, value: bytes, partition: int, epoch: Epoch) -> Outgoing:
    """Give an encoded decision its record: keyed by scope, with headers to find it by."""
    headers = [
        (KIND_HEADER, decision.kind),
        (EPOCH_HEADER, f"{epoch.offset}/{epoch.owner}"),
        (DECISION_ID_HEADER, decision.decision_id),
        *((MEMORY_ID_HEADER, identity) for identity in touched(decision)),
    ]
    scope = None
    if isinstance(decision, Forward):
        scope = decision.scope
        headers.append((EVENT_ID_HEADER, decision.event_id))
    elif not isinstance(decision, Marker):
        scope, event = decision.event.scope, decision.event
        headers.append((EVENT_ID_HEADER, event.event_id))
        headers.append((CONTENT_KEY_HEADER, event_key(event)))
    return Outgoing(
        topic=DECISIONS.name,
        partition=partition,
        key=None if scope is None else scope.encode(),
        value=value,
        headers=tuple((name, value.encode()) for name, value in headers),
    )


@dataclass(frozen=True)
class Logged:
    """A decision that counts, and where the log holds it."""

    decision: Decision
    position: Position


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

    @property
    def reached(self) -> Reached:
        return Reached(self._offset, self._epoch, self._next_event)

    @property
    def refused(self) -> int:
        """How many records did not count."""
        return self._refused

    def sort(self, record: Record) -> Logged | Fenced | Refused:
        """Read one record. Fatal where it counts, or fences, and cannot be read."""
        self._offset = record.offset + 1
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
        return Logged(decision, record.position)

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


def is_decision(record: Record) -> bool:
    """Tell whether a record says that it is a decision: by its headers, whether or not it counts."""
    return DECISION_ID_HEADER in dict(record.headers)


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
