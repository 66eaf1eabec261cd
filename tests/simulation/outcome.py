"""What a schedule came to, and what it must have come to."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest

from schemas.base import MemoryId, Position
from schemas.codec import APPLIED, DECISION
from schemas.decisions import Decision, Fence, Forward
from schemas.memories import Memory
from schemas.topics import CHANGES, DEAD_LETTERS, DECISIONS, EVENTS, TOPICS
from streams.adapters.indexes.exact import ExactIndex
from streams.adapters.memory_log import MemoryLog
from streams.core.ledger import fold
from streams.core.neighbours import Stored
from streams.flow.decisions import EPOCH_HEADER, FENCE_HEADER
from streams.flow.deduplicate import Deduplicator
from streams.flow.incoming import FORWARDED_HEADER
from streams.flow.owner import Owner
from streams.flow.writer import Writer
from streams.ports import Log, Outgoing, Record
from streams.runtime.consumer import work
from tests.builders import judging
from tests.fakes.clock import StandingClock
from tests.simulation.cluster import Divergence, at_once
from tests.simulation.stream import POLICY, embedder

Frozen = tuple[Memory, bytes, tuple[object, ...]]
Store = Mapping[MemoryId, Frozen]

_ALL = 1_000_000
_NOWHERE = Position(topic="nowhere", partition=0, offset=0)


@dataclass(frozen=True)
class Counted:
    """A decision that counts, as it is and as the log has it."""

    decision: Decision
    value: bytes
    position: Position


@dataclass(frozen=True)
class Outcome:
    """The decisions that count, per partition; the store; and what was published beside."""

    decisions: list[list[Counted]]
    store: Store
    changes: frozenset[bytes]
    letters: frozenset[bytes]

    @property
    def decided(self) -> list[Counted]:
        return [one for partition in self.decisions for one in partition]


def check(log: MemoryLog, index: ExactIndex, *, fenced: bool = True) -> Counter[str]:
    """Compare with what one undisturbed process makes of the same events.

    Returns how many decisions of each kind there are. Where it is not `fenced`, the decisions of
    all owners count.
    """
    events = [_records(log, EVENTS.name, p) for p in _partitions(log)]
    found, expected = _outcome(log, index, fenced=fenced), undisturbed(tuple(map(tuple, events)))
    _require_one_decision_each(found, events)
    _require_equal("decision", *(_values(one) for one in (found, expected)))
    _require_equal("memory", *(sorted(one.store.items()) for one in (found, expected)))
    _require_equal("memory", sorted(found.store.items()), sorted(_added_up(found).items()))
    _require_equal("dead letter", *(sorted(one.letters) for one in (found, expected)))
    _require_equal("change", *(_placeless(one) for one in (found, expected)))
    _require_places(found)
    _require_forwarded(found, events)
    _require_successors(found.store)
    return Counter(one.decision.kind for one in found.decided)


def _require_one_decision_each(found: Outcome, events: Sequence[Sequence[Record]]) -> None:
    for partition, decisions in enumerate(found.decisions):
        sources = [one.decision.source.offset for one in decisions]
        if sources != list(range(len(events[partition]))):
            raise Divergence(f"of partition {partition}, it was decided on events {sources}")


def _require_equal(what: str, found: Sequence[object], expected: Sequence[object]) -> None:
    for number, (one, other) in enumerate(zip_longest(found, expected)):
        if one != other:
            raise Divergence(f"{what} {number} is\n{one}\nand should be\n{other}")


def _require_places(found: Outcome) -> None:
    """Every change names the decision that made it, where the log holds it."""
    places = {(one.decision.decision_id, one.position) for one in found.decided}
    for change in map(APPLIED.decode, found.changes):
        if (change.decision_id, change.decided) not in places:
            raise Divergence(f"a change is said to come from {change.decided}")


def _require_forwarded(found: Outcome, events: Sequence[Sequence[Record]]) -> None:
    sent_on = {
        (partition, dict(record.headers).get(FORWARDED_HEADER))
        for partition, records in enumerate(events)
        for record in records
    }
    for decision in (one.decision for one in found.decided):
        if isinstance(decision, Forward):
            source = decision.source
            place = f"{source.topic}/{source.partition}/{source.offset}"
            if (decision.partition, place.encode()) not in sent_on:
                raise Divergence(f"{place} was not sent on")


def _require_successors(store: Store) -> None:
    """Every memory that was superseded leads to a live one, or to its end."""
    for identity in store:
        path = [identity]
        while (superseded := store[path[-1]][0].superseded) is not None:
            if superseded.by is None:
                break
            if superseded.by in path or superseded.by not in store:
                raise Divergence(f"memory {identity} reaches no live one")
            path.append(superseded.by)


def _added_up(found: Outcome) -> Store:
    state: dict[MemoryId, Stored] = {}
    for one in found.decided:
        fold(state, one.decision)
    return {identity: _frozen(stored) for identity, stored in state.items()}


class _Rehearsal(MemoryLog):
    """Has all events from the beginning, those that were sent on among them."""

    async def append(self, records: Sequence[Outgoing]) -> list[int]:
        offsets: list[int] = []
        for record in records:
            offsets += [0] if record.topic == EVENTS.name else await super().append([record])
        return offsets


@lru_cache(maxsize=64)
def undisturbed(events: tuple[tuple[Record, ...], ...]) -> Outcome:
    """Let one owner decide on event after event, and one writer follow each decision."""
    log, index = _Rehearsal(), ExactIndex()
    for topic in TOPICS:
        log.create(topic.name, len(events))
    for records in events:
        given = [Outgoing(r.topic, r.partition, r.key, r.value or b"", r.headers) for r in records]
        at_once(MemoryLog.append(log, given))
    at_once(_one_by_one(log, index))
    return _outcome(log, index, fenced=True)


async def _one_by_one(log: Log, index: ExactIndex) -> None:
    owner = Owner(
        Deduplicator(embedder(), index, index, POLICY, judging()),
        log,
        index,
        lambda _: None,
        token="alone",
        clock=StandingClock(),
    )
    writer = Writer(index, log, lambda _: None)
    for partition in range(await log.partitions(EVENTS.name)):
        await owner.claim(partition)
        at = await writer.claim(partition)
        for event in await log.read(EVENTS.name, partition, 0, _ALL):
            await work(owner, log, [event])
            at = await work(writer, log, await log.read(DECISIONS.name, partition, at, _ALL))


def _outcome(log: MemoryLog, index: ExactIndex, *, fenced: bool) -> Outcome:
    return Outcome(
        decisions=[
            _counting(_records(log, DECISIONS.name, p), fenced=fenced) for p in _partitions(log)
        ],
        store=at_once(_store(index)),
        changes=_published(log, CHANGES.name),
        letters=_published(log, DEAD_LETTERS.name),
    )


def _counting(records: Sequence[Record], *, fenced: bool) -> list[Counted]:
    """Return the decisions that count: in the newest fence's name, and the first on their event.

    The rule is written down here a second time, so that it is under test, too.
    """
    newest, following, counting = b"", 0, list[Counted]()
    for record in records:
        headers = dict(record.headers)
        if (owner := headers.get(FENCE_HEADER)) is not None:
            newest = b"%d/%s" % (record.offset, owner)
        elif headers.get(EPOCH_HEADER) == newest or not fenced:
            one = Counted(_decision(record), record.value or b"", record.position)
            if one.decision.source.offset >= following:
                counting.append(one)
                following = one.decision.source.offset + 1
    return counting


def _decision(record: Record) -> Decision:
    decision = DECISION.decode(record.value or b"")
    if isinstance(decision, Fence):
        raise Divergence("a fence says that it is a decision")
    return decision


async def _store(index: ExactIndex) -> Store:
    return {stored.memory.id: _frozen(stored) async for stored in index.scan()}


def _frozen(stored: Stored) -> Frozen:
    vector = b"" if stored.vector is None else stored.vector.tobytes()
    return stored.memory, vector, stored.decided


def _values(outcome: Outcome) -> list[bytes]:
    return [one.value for one in outcome.decided]


def _placeless(outcome: Outcome) -> list[bytes]:
    """Leave out where the log holds the decisions: that differs from run to run."""
    changes = map(APPLIED.decode, outcome.changes)
    return sorted({APPLIED.encode(c.model_copy(update={"decided": _NOWHERE})) for c in changes})


def _partitions(log: MemoryLog) -> range:
    return range(at_once(log.partitions(EVENTS.name)))


def _published(log: MemoryLog, topic: str) -> frozenset[bytes]:
    return frozenset(r.value or b"" for p in _partitions(log) for r in _records(log, topic, p))


def _records(log: MemoryLog, topic: str, partition: int) -> list[Record]:
    return at_once(log.read(topic, partition, 0, _ALL))
