"""What a schedule came to, and what it must have come to."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest
from typing import TypeGuard

from schemas.base import ContentKey, DecisionId, MemoryId, Position, ScopeName
from schemas.codec import APPLIED, DECISION
from schemas.decisions import (
    Change,
    Decision,
    Erase,
    Fence,
    Forward,
    Ignore,
    Insert,
    Marker,
    OnEvent,
    Reason,
    Replace,
    Revise,
)
from schemas.events import Forget, Remember
from schemas.memories import Memory, Standing
from schemas.topics import CHANGES, DEAD_LETTERS, DECISIONS, EVENTS, TOPICS
from streams.index.exact import ExactIndex
from streams.log.consumer import work
from streams.log.local_broker import LocalBroker
from streams.model.identity import event_key
from streams.model.merge import contains, sentences
from streams.model.neighbours import StoredMemory
from streams.model.ports.failures import Transient
from streams.model.ports.log import Log, LogRecord, OutgoingRecord
from streams.model.wordings import lost, texts_of
from streams.stage.core.ledger import SupersededMemory, effects, fold, memory_of, touched
from streams.stage.core.tombstones import recognisable
from streams.stage.flow.decisions import EPOCH_HEADER, FENCE_HEADER
from streams.stage.flow.deduplicate import Deduplicator
from streams.stage.flow.incoming import FORWARDED_HEADER
from streams.stage.flow.partition_owner import PartitionOwner
from streams.stage.flow.writer import Writer
from tests.builders import judging
from tests.fakes.clock import StandingClock
from tests.simulation.cluster import Divergence, at_once
from tests.simulation.remembering import RememberingLog
from tests.simulation.silence import ALL_ANSWER, Silence, SilentEmbedder, SilentIndex, silence
from tests.simulation.stream import KEY, STRICT, Rule, embedder
from tests.support.stage.decisions import buried, kind_of, learnt_again

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
    """The decisions that count, per partition; the store; and what was published beside.

    `erased` are those of the decisions that the log has lost since.
    """

    decisions: list[list[Counted]]
    erased: frozenset[DecisionId]
    store: Store
    changes: frozenset[bytes]
    letters: frozenset[bytes]

    @property
    def decided(self) -> list[Counted]:
        return [one for partition in self.decisions for one in partition]


def check(
    log: RememberingLog, index: ExactIndex, rule: Rule = STRICT, *, fenced: bool = True
) -> Counter[str]:
    """Compare with what one undisturbed process makes of the same events.

    Returns how many decisions of each kind there are. Where it is not `fenced`, the decisions of
    all owners count.
    """
    events = [_ever(log, EVENTS.name, p) for p in _partitions(log)]
    found = _outcome(log, index, fenced=fenced)
    silences = _silences(found) if rule.is_lenient else frozenset[Silenced]()
    expected = undisturbed(tuple(map(tuple, events)), _places(log, found), rule, silences)
    _require_one_decision_each(found, events)
    _require_equal("decision", *(_values(one) for one in (found, expected)))
    _require_equal("memory", *(sorted(one.store.items()) for one in (found, expected)))
    _require_equal("memory", sorted(found.store.items()), sorted(_added_up(found).items()))
    _require_equal("dead letter", *(sorted(one.letters) for one in (found, expected)))
    _require_changes(found, expected)
    _require_places(found)
    _require_forwarded(found, events)
    _require_successors(found.store)
    _require_checked(found.store)
    _require_forgotten(log, found)
    _require_said(found)
    return Counter(kind_of(one.decision) for one in found.decided)


def _require_one_decision_each(found: Outcome, events: Sequence[Sequence[LogRecord]]) -> None:
    for partition, decisions in enumerate(found.decisions):
        sources = [one.decision.source.offset for one in decisions]
        if sources != list(range(len(events[partition]))):
            raise Divergence(f"of partition {partition}, it was decided on events {sources}")


def _require_equal(what: str, found: Sequence[object], expected: Sequence[object]) -> None:
    for number, (one, other) in enumerate(zip_longest(found, expected)):
        if one != other:
            raise Divergence(f"{what} {number} is\n{one}\nand should be\n{other}")


def _require_changes(found: Outcome, expected: Outcome) -> None:
    """All changes were published but those that nobody could tell any more, and no others."""
    gone = found.erased | expected.erased
    told, all_ = (_placeless(one, gone) for one in (found, expected))
    retired = {
        (one.decision.decision_id, memory_of(effect))
        for one in expected.decided
        for effect in effects(one.decision)
        if isinstance(effect, SupersededMemory)
    }
    untold = set(all_) - set(told)
    for change in map(APPLIED.decode, untold):
        later = expected.store[change.memory_id][0].version > change.memory.version
        if not later or (change.decision_id, change.memory_id) not in retired:
            raise Divergence(f"nobody was told of {change}")
    _require_equal("change", told, [one for one in all_ if one not in untold])


def _require_places(found: Outcome) -> None:
    """Every change names the decision that made it, where the log holds it."""
    places = {(one.decision.decision_id, one.position) for one in found.decided}
    for change in map(APPLIED.decode, found.changes):
        if (change.decision_id, change.decided) not in places:
            raise Divergence(f"a change is said to come from {change.decided}")


def _require_forwarded(found: Outcome, events: Sequence[Sequence[LogRecord]]) -> None:
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


def _require_checked(store: Store) -> None:
    """Nothing stays unchecked: a pass of consolidation was made in the end."""
    for memory, _, _ in store.values():
        if memory.live and memory.unchecked is not None:
            raise Divergence(f"memory {memory.id} is {memory.unchecked} for ever")


def _require_forgotten(log: RememberingLog, found: Outcome) -> None:
    """No record that is left says anything of a forgotten memory, and nobody learns it again."""
    memories = [memory for memory, _, _ in found.store.values()]
    gone = {memory.id for memory in memories if memory.status is Standing.FORGOTTEN}
    graves = buried(memories)
    for partition in _partitions(log) if gone else ():
        events = _ever(log, EVENTS.name, partition)
        decided = [r for r in _ever(log, DECISIONS.name, partition) if not _is_fence(r)]
        decisions = [_decision(record) for record in decided]
        telling = {_said(one) for one in decisions if _tells(one, gone)}
        for record, decision in zip(decided, decisions, strict=True):
            if isinstance(decision, Erase | Marker) or _said(decision) not in telling:
                continue
            event = events[decision.source.offset]
            asked = decision.event
            said = recognisable(asked.text)
            says_so = any(_is_forgotten(asked.scope, one, graves) for one in said)
            if isinstance(decision, Ignore) and not says_so:
                continue
            for left in (record, *([event] if says_so else ())):
                if not log.has_erased(left):
                    raise Divergence(f"{left.place} says what was forgotten")
    for decisions in found.decisions:
        for again in learnt_again((one.decision for one in decisions), KEY):
            raise Divergence(again)


def _tells(decision: Decision, gone: set[MemoryId]) -> TypeGuard[Change | Revise]:
    return not isinstance(decision, Erase) and not gone.isdisjoint(touched(decision))


def _said(decision: OnEvent) -> tuple[DecisionId, ContentKey]:
    """Return what a decision was made on. The id of a forgotten event is free for other words."""
    return decision.decision_id, event_key(decision.event)


def _is_forgotten(scope: ScopeName, said: str, graves: Collection[tuple[ScopeName, str]]) -> bool:
    return (scope, KEY.fingerprint(scope, said)) in graves


def _require_said(found: Outcome) -> None:
    """Whatever was accepted is said by a live memory, or forgotten, or was taken back by somebody.

    Or it was out of date when it came: then it is history from the beginning.
    Scopes in which somebody took something back, by a request or by a name, are left alone, and
    events that came to a memory which took a forgotten one's place: in doubt they go with it.
    """
    doubtful = {
        (erased.source.partition, gone.event)
        for erased in (one.decision for one in found.decided)
        if isinstance(erased, Erase)
        for gone in erased.erased
        if not gone.again
    }
    decisions = [one.decision for one in found.decided]
    taken_back = {one.event.scope for one in decisions if _takes_back(one)}
    memories = [memory for memory, _, _ in found.store.values()]
    graves = buried(memories)
    for decision in decisions:
        if not isinstance(decision, Change) or not isinstance(decision.event, Remember):
            continue
        event = decision.event
        place = (decision.source.partition, decision.source.offset)
        joined = not isinstance(decision, Insert) and place in doubtful
        history = isinstance(decision, Insert) and not decision.memory.live
        if event.scope in taken_back or joined or history:
            continue
        here = [m for m in memories if m.live and m.scope == event.scope]
        if any(m.folded for m in here):
            continue
        worded = [text for memory in here for text in texts_of(memory)]
        for said in sentences(event.text):
            gone = _is_forgotten(event.scope, said, graves)
            if not gone and not any(contains(text, said) for text in worded):
                raise Divergence(f"nothing says {said!r} any more")


def _takes_back(decision: Decision) -> TypeGuard[Revise | Replace]:
    named = isinstance(decision, Replace) and decision.evidence.reason is Reason.SAME_MEMORY_ID
    return isinstance(decision, Revise) or named


def _added_up(found: Outcome) -> Store:
    state: dict[MemoryId, StoredMemory] = {}
    for one in found.decided:
        known = {identity: stored.memory for identity, stored in state.items()}
        if isinstance(one.decision, Change) and (count := lost(one.decision, known)):
            raise Divergence(f"decision {one.decision.decision_id} has lost {count} wordings")
        fold(state, one.decision)
    return {identity: _frozen(stored) for identity, stored in state.items()}


Places = tuple[tuple[LogRecord, ...], ...]


def _places(log: RememberingLog, found: Outcome) -> Places:
    """Return the records of decisions, where requests name them by where they lie."""
    asked = (one.decision for one in found.decided if not isinstance(one.decision, Marker))
    if not any(isinstance(one.event, Forget) for one in asked):
        return ()
    return tuple(tuple(_ever(log, DECISIONS.name, p)) for p in _partitions(log))


class _Rehearsal(RememberingLog):
    """Has all events from the beginning, those that were sent on among them.

    Where `places` are given, each decision lies where it lies there, behind the same records that
    do not count.
    """

    def __init__(self, places: Places) -> None:
        super().__init__()
        self._as_there = places

    async def append(self, records: Sequence[OutgoingRecord]) -> list[int]:
        offsets: list[int] = []
        for record in records:
            if record.topic == DECISIONS.name and self._as_there:
                await self._fill(record, self._as_there[record.partition])
            offsets += [0] if record.topic == EVENTS.name else await super().append([record])
        return offsets

    async def _fill(self, record: OutgoingRecord, there: Sequence[LogRecord]) -> None:
        """Append what lies before a decision; of a fence, nothing but its place."""
        made = DECISION.decode(record.value)
        if isinstance(made, Fence):
            return
        place = _first_on(made.source.offset, there)
        for other in there[await self.end(DECISIONS.name, record.partition) : place]:
            value, headers = (b"", ()) if _is_fence(other) else (other.value or b"", other.headers)
            held = OutgoingRecord(other.topic, other.partition, other.key, value, headers)
            await super().append([held])


def _first_on(event: int, records: Sequence[LogRecord]) -> int:
    """Return where the decision that counts on an event lies; 0 where there is none."""
    made = _counting(records, fenced=True)
    return next((o.position.offset for o in made if o.decision.source.offset == event), 0)


Silenced = tuple[int, int, Silence]


def _silences(found: Outcome) -> frozenset[Silenced]:
    """Return by partition and event who was silent, or told less than there is."""
    made = ((one.decision.source, silence(one.decision)) for one in found.decided)
    return frozenset((at.partition, at.offset, who) for at, who in made if who != ALL_ANSWER)


@lru_cache(maxsize=64)
def undisturbed(
    events: tuple[tuple[LogRecord, ...], ...],
    places: Places = (),
    rule: Rule = STRICT,
    silences: frozenset[Silenced] = frozenset(),
) -> Outcome:
    """Let one owner decide on event after event, and one writer follow each decision."""
    log, index = _Rehearsal(places), SilentIndex()
    for topic in TOPICS:
        log.create(topic.name, len(events))
    for records in events:
        given = [
            OutgoingRecord(r.topic, r.partition, r.key, r.value or b"", r.headers) for r in records
        ]
        at_once(LocalBroker.append(log, given))
    at_once(_one_by_one(log, index, rule, silences))
    return _outcome(log, index, fenced=True)


async def _one_by_one(
    log: Log, index: SilentIndex, rule: Rule, silences: frozenset[Silenced]
) -> None:
    silent = {(partition, offset): who for partition, offset, who in silences}
    reader = SilentEmbedder(embedder())
    owner = PartitionOwner(
        Deduplicator(reader, index, index, rule.policy, judging(), rule.key),
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
            await owner.settle(partition)
            index.silence = reader.silence = silent.get((partition, event.offset), ALL_ANSWER)
            await _patiently(owner, log, event, rule.policy.fail_open.attempts)
            index.silence = reader.silence = ALL_ANSWER
            at = await work(writer, log, await log.read(DECISIONS.name, partition, at, _ALL))


async def _patiently(owner: PartitionOwner, log: Log, event: LogRecord, attempts: int) -> None:
    """Decide on an event, where somebody is silent after so many attempts in vain."""
    for _ in range(attempts):
        with suppress(Transient):
            await work(owner, log, [event])
            return
    try:
        await work(owner, log, [event])
    except Transient as error:
        raise Divergence(f"event {event.offset} could not be decided on: {error}") from error


def _outcome(log: RememberingLog, index: ExactIndex, *, fenced: bool) -> Outcome:
    decided = [_ever(log, DECISIONS.name, p) for p in _partitions(log)]
    lost = (record for records in decided for record in records if log.has_erased(record))
    return Outcome(
        decisions=[_counting(records, fenced=fenced) for records in decided],
        erased=frozenset(_decision(record).decision_id for record in lost),
        store=at_once(_store(index)),
        changes=_published(log, CHANGES.name),
        letters=_published(log, DEAD_LETTERS.name),
    )


def _counting(records: Sequence[LogRecord], *, fenced: bool) -> list[Counted]:
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


def _is_fence(record: LogRecord) -> bool:
    return FENCE_HEADER in dict(record.headers)


def _decision(record: LogRecord) -> Decision:
    decision = DECISION.decode(record.value or b"")
    if isinstance(decision, Fence):
        raise Divergence("a fence says that it is a decision")
    return decision


async def _store(index: ExactIndex) -> Store:
    return {stored.memory.id: _frozen(stored) async for stored in index.scan()}


def _frozen(stored: StoredMemory) -> Frozen:
    vectors = b"".join(vector.tobytes() for vector in stored.wordings.values())
    return stored.memory, vectors, stored.decided


def _values(outcome: Outcome) -> list[bytes]:
    return [one.value for one in outcome.decided]


def _placeless(outcome: Outcome, gone: Collection[DecisionId]) -> list[bytes]:
    """Leave out where the log holds the decisions: that differs from run to run.

    Of decisions that were erased, the changes may never have been published.
    """
    changes = (c for c in map(APPLIED.decode, outcome.changes) if c.decision_id not in gone)
    return sorted({APPLIED.encode(c.model_copy(update={"decided": _NOWHERE})) for c in changes})


def _partitions(log: LocalBroker) -> range:
    return range(at_once(log.partitions(EVENTS.name)))


def _published(log: LocalBroker, topic: str) -> frozenset[bytes]:
    return frozenset(r.value or b"" for p in _partitions(log) for r in _records(log, topic, p))


def _ever(log: RememberingLog, topic: str, partition: int) -> list[LogRecord]:
    return at_once(log.ever(topic, partition))


def _records(log: LocalBroker, topic: str, partition: int) -> list[LogRecord]:
    return at_once(log.read(topic, partition, 0, _ALL))
