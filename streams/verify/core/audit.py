"""Checks of the invariants of a log and of the copies that follow it.

The caller passes in decisions, events and memories in log order; nothing is read here. An audit
continues past a finding as far as possible, and does not report consequences of one damage as
another.
"""

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from typing import TypeAlias

from schemas.base import DecisionId, MemoryId, Position, ScopeName
from schemas.decisions import (
    Change,
    Decision,
    Erase,
    Fence,
    Forward,
    NoChange,
    Reject,
    Revision,
    event_of,
    targets_of,
)
from schemas.events import Forget
from schemas.memories import Memory, Target
from schemas.topics import DEAD_LETTERS, DECISIONS, EVENTS
from streams.model.identity import content_key, decision_id, forwarding_id, rejection_id
from streams.model.neighbours import StoredMemory
from streams.model.scope import partition_of
from streams.model.screening import was_screened
from streams.model.wordings import lost, texts_of
from streams.stage.core.ledger import MissingTarget, fold, stated, touched
from streams.verify.core.copies import Copy
from streams.verify.core.findings import AuditFindings, Violation
from streams.verify.core.pairing import Pairing

_Wrong: TypeAlias = tuple[Violation, str]
"""What is wrong with a memory's chain of successors: the problem, and where the chain leads."""


class Audit:
    """Folds the decisions of a log, each partition in order, and records what is wrong.

    A partition is folded up to the first record that cannot be applied, since nothing after it can
    be either.
    """

    def __init__(self, partitions: int, committed: Mapping[int, int]) -> None:
        """Start empty; `committed` has the deduplicator group's committed offset per partition."""
        self.partitions = partitions
        self._numbers_in_doubt = False
        self._places: dict[DecisionId, str] = {}
        self._copies: list[Copy] = []
        self.log, self.numbers, self.events, self.fold = (AuditFindings() for _ in range(4))
        self.wordings, self.letters, self.forwards = (AuditFindings() for _ in range(3))
        self.pairings = {
            partition: Pairing(partition, committed.get(partition, 0), self.events)
            for partition in range(partitions)
        }
        self.state: dict[MemoryId, StoredMemory] = {}
        self._skipped: dict[MemoryId, str] = {}
        self._holes: dict[int, set[int]] = {}
        self.stopped: dict[int, int] = {}
        """Where folding stopped, by partition: the offset of the first record not applicable."""
        self.kinds = Counter[str]()
        self.fences = 0
        self._rejects: dict[str, str] = {}
        self._rejected: dict[str, tuple[Position, Position]] = {}
        self._forwards: dict[tuple[int, str], str] = {}

    def copy(
        self, levels: Mapping[int, int], holds: Callable[[Memory], bool] = lambda _: True
    ) -> Copy:
        """Return a checker that compares a copy with the fold of the decisions that follow."""
        copy = Copy(levels, self.state, holds)
        self._copies.append(copy)
        return copy

    def topic(self, name: str, partitions: int) -> None:
        """Check that a topic has as many partitions as the decisions topic."""
        if partitions != self.partitions:
            what = f"has {partitions} partition(s), but {DECISIONS.name} has {self.partitions}"
            self._misnumbered(Violation.PARTITIONS_DIFFER, name, what)

    def pairing(self, partition: int) -> Pairing:
        """Return the pairing of a partition's events with their decisions."""
        return self.pairings.setdefault(partition, Pairing(partition, 0, self.events))

    def fence(self, fence: Fence, position: Position) -> None:
        self.fences += 1
        if fence.partitions != self.partitions:
            what = f"is a fence of one among {fence.partitions} partition(s), not {self.partitions}"
            self._misnumbered(Violation.PARTITIONS_DIFFER, position.place, what)
        if fence.partition != position.partition:
            what = f"is a fence of partition {fence.partition}"
            self.numbers.add(Violation.FENCE_MISPLACED, position.place, what)

    def unread(
        self, problem: Violation, position: Position, what: str, *, is_fence: bool = False
    ) -> None:
        """Record that a record which counts is unreadable, or gone: a decision, or else a fence."""
        self.log.add(problem, position.place, what)
        if not is_fence:
            self.pairings[position.partition].doubt()
        self._stop(position)

    def untold(self, position: Position) -> None:
        """Register a record that may or may not count, because its fence is unreadable."""
        self.pairings[position.partition].doubt()

    def hole(self, position: Position) -> None:
        """Register an offset without a record in a log that should have no gaps."""
        self._holes.setdefault(position.partition, set()).add(position.offset)

    def close_holes(self) -> None:
        """Report gaps that no erasure explains, and changes whose base never appeared."""
        for partition, offsets in self._holes.items():
            for offset in sorted(offsets):
                place = f"{DECISIONS.name}/{partition}/{offset}"
                self.log.add(Violation.RECORD_LOST, place, "is not there")
            if offsets:
                self.stopped.setdefault(partition, min(offsets))
        for identity, place in self._skipped.items():
            what = f"memory {identity} should be changed, but differs from what the decision saw"
            self.fold.add(Violation.DOES_NOT_BUILD, place, what)

    def decision(self, decision: Decision, position: Position, *, holed: bool = False) -> None:
        """Check a decision that counts; `holed` if a record before it is missing."""
        self.kinds[decision.kind] += 1
        pairing, place = self.pairings[position.partition], position.place
        pairing.decided(decision, position.offset)
        if was_screened(decision):
            pairing.erase(decision.source.offset, position.offset, stays=False)
        self._require_source(decision, position)
        self._require_id(decision, place)
        match decision:
            case Reject():
                self._rejects.setdefault(decision.dead_letter_id, place)
                self._rejected.setdefault(decision.dead_letter_id, (decision.source, position))
            case Forward():
                self._forwards[decision.partition, decision.source.place] = place
                self._require_partition(decision.scope, decision.partition, place)
            case _:
                self._require_partition(event_of(decision).scope, position.partition, place)
        if not isinstance(decision, NoChange):
            self._require_once(decision, place)
            self._require_own_words(decision, place)
            if isinstance(decision, Erase):
                self._erase(decision, position)
            self._fold(decision, position, holed=holed)

    def letter(self, identity: str) -> None:
        """Register a dead letter."""
        self._rejects.pop(identity, None)

    def dropped(self, identity: str) -> None:
        """Register a dropped dead letter: its event may be gone from the events topic."""
        if identity in self._rejected:
            source, position = self._rejected[identity]
            pairing = self.pairings[position.partition]
            pairing.erase(source.offset, position.offset, stays=False)

    def close_letters(self, *, expired: bool) -> int:
        """Report rejects without a dead letter; return how many cannot be checked.

        `expired`: the topic has lost records or has unreadable ones.
        """
        if expired:
            return len(self._rejects)
        for identity, place in self._rejects.items():
            what = f"is a reject, but {DEAD_LETTERS.name} has no letter {identity}"
            self.letters.add(Violation.NO_DEAD_LETTER, place, what)
        return 0

    def forwarded(self, partition: int, origin: str) -> None:
        """Register a republished event; `origin` is its previous position."""
        self._forwards.pop((partition, origin), None)

    def close_forwards(self, expired: Container[int]) -> int:
        """Report forwards without a republished event; return how many cannot be checked.

        `expired`: the partitions of the events topic that have lost their first records.
        """
        untold = 0
        for (partition, origin), place in self._forwards.items():
            if partition in expired:
                untold += 1
            else:
                what = f"says that {origin} was sent on to partition {partition}: it is not there"
                self.forwards.add(Violation.NOT_FORWARDED, place, what)
        return untold

    def blind(self, copy: Copy) -> dict[int, int]:
        """Return the partitions where a copy cannot be compared, and where their folding ended."""
        levels = copy.levels
        return {p: end for p, end in self.stopped.items() if levels.get(p, 0) > end}

    def compared(self, copy: Copy) -> AuditFindings:
        """Return the differences between a copy and the log."""
        blind = self.blind(copy)
        if blind and self._numbers_in_doubt:
            return AuditFindings()
        return copy.findings(lambda scope: not blind or self._home(scope) not in blind)

    def _home(self, scope: ScopeName) -> int:
        return partition_of(scope, self.partitions)

    def _require_source(self, decision: Decision, position: Position) -> None:
        source = decision.source
        if (source.topic, source.partition) != (EVENTS.name, position.partition):
            what = f"is a decision on {source.place}, which lies in another partition"
            self.events.add(Violation.OTHER_EVENT, position.place, what)

    def _require_id(self, decision: Decision, place: str) -> None:
        if decision.decision_id != _derived_id(decision):
            what = f"has the id {decision.decision_id}, which is not that of its event"
            self.fold.add(Violation.OTHER_ID, place, what)

    def _require_partition(self, scope: ScopeName, partition: int, place: str) -> None:
        if not self._numbers_in_doubt and (own := self._home(scope)) != partition:
            what = f"is on scope {scope}, which belongs to partition {own}"
            self.fold.add(Violation.OTHER_PARTITION, place, what)

    def _require_once(self, decision: Change | Revision, place: str) -> None:
        before = self._places.setdefault(decision.decision_id, place)
        if before != place:
            what = f"changes memories for event {decision.event.event_id}, as {before} did before"
            self.events.add(Violation.DECIDED_TWICE, place, what)

    def _require_own_words(self, decision: Change | Revision, place: str) -> None:
        for memory in stated(decision):
            keys = tuple(content_key(memory.scope, text) for text in texts_of(memory))
            if memory.content_keys != keys:
                what = f"gives memory {memory.id} a content key that is not that of its words"
                self.fold.add(Violation.OTHER_WORDS, place, what)

    def _erase(self, decision: Erase, position: Position) -> None:
        """Register the records that an erasure removes and the memories that it restates."""
        pairing, holes = self.pairings[position.partition], self._holes.get(position.partition)
        for one in decision.erased:
            gone = pairing.erase(one.event, position.offset, stays=one.event_stays)
            self.kinds["erased"] += gone
            if holes is not None:
                holes.discard(one.decision)
        for identity in touched(decision):
            self._skipped.pop(identity, None)

    def _fold(self, decision: Change | Revision, position: Position, *, holed: bool) -> None:
        if position.partition in self.stopped:
            return
        before = {identity: self.state.get(identity) for identity in touched(decision)}
        self._require_scope(decision, before, position.place)
        wrong = None if holed else _misbuilt(decision, before)
        try:
            changed = fold(self.state, decision, holed=holed)
        except MissingTarget as damage:
            wrong = str(damage)
            self._stop(position)
            kept = {identity: stored for identity, stored in before.items() if stored is not None}
            for identity in before:
                self.state.pop(identity, None)
            self.state |= kept
        else:
            for identity in changed:
                for copy in self._copies:
                    copy.changed(position, before[identity], self.state[identity])
            self._require_wordings(decision, before, changed, position.place)
            left = [identity for identity in before if identity not in changed]
            if holed:
                self._skipped.update(dict.fromkeys(left, position.place))
            elif left:
                wrong = wrong or "changes a memory to what it was already"
        if wrong:
            self.fold.add(Violation.DOES_NOT_BUILD, position.place, wrong)

    def _require_wordings(
        self,
        decision: Change | Revision,
        before: Mapping[MemoryId, StoredMemory | None],
        changed: Container[MemoryId],
        place: str,
    ) -> None:
        """Require that every earlier wording of a memory is kept or counted as folded."""
        if not isinstance(decision, Change) or decision.memory.id not in changed:
            return
        known = {i: stored.memory for i, stored in before.items() if stored is not None}
        if count := lost(decision, known):
            what = f"leaves {count} wording(s) out of memory {decision.memory.id}, uncounted"
            self.wordings.add(Violation.WORDING_LOST, place, what)

    def _require_scope(
        self,
        decision: Change | Revision,
        before: Mapping[MemoryId, StoredMemory | None],
        place: str,
    ) -> None:
        scope = decision.event.scope
        known = [stored.memory for stored in before.values() if stored is not None]
        for memory in (*stated(decision), *known):
            if memory.scope != scope:
                what = f"is on scope {scope}, and changes memory {memory.id} of {memory.scope}"
                self.fold.add(Violation.OTHER_SCOPE, place, what)

    def _stop(self, position: Position) -> None:
        self.stopped.setdefault(position.partition, position.offset)

    def _misnumbered(self, problem: Violation, place: str, what: str) -> None:
        """Record a wrong partition count, which makes the partition of every scope uncertain."""
        self._numbers_in_doubt = True
        self.numbers.add(problem, place, what)


def _misbuilt(
    decision: Change | Revision, before: Mapping[MemoryId, StoredMemory | None]
) -> str | None:
    """Return how a target's version differs from the one the decision saw; None if none does."""
    for target in _targets(decision):
        stored = before.get(target.memory_id)
        if stored is not None and stored.memory.version != target.version:
            return (
                f"saw memory {target.memory_id} at version {target.version}, but it was at "
                f"{stored.memory.version}"
            )
    return None


def _targets(decision: Change | Revision) -> Sequence[Target]:
    if isinstance(decision, Revision):
        return decision.event.targets if isinstance(decision.event, Forget) else ()
    return targets_of(decision)


def _derived_id(decision: Decision) -> DecisionId:
    source = decision.source
    match decision:
        case Reject():
            return rejection_id(source.topic, source.partition, source.offset)
        case Forward():
            return forwarding_id(source.topic, source.partition, source.offset)
        case _:
            event = event_of(decision)
            return decision_id(event.scope, event.event_id)


def successors(state: Mapping[MemoryId, StoredMemory]) -> AuditFindings:
    """Return the superseded memories whose chain of successors is broken or has a cycle."""
    found = AuditFindings()
    settled: dict[MemoryId, _Wrong | None] = {}
    for identity in state:
        way, wrong = _follow(state, identity, settled)
        settled.update(dict.fromkeys(way, wrong))
    for identity, wrong in settled.items():
        if wrong is not None:
            problem, what = wrong
            found.add(problem, identity, what)
    return found


def _follow(
    state: Mapping[MemoryId, StoredMemory],
    identity: MemoryId,
    settled: Mapping[MemoryId, _Wrong | None],
) -> tuple[list[MemoryId], _Wrong | None]:
    """Return the memories along the chain, and what is wrong at its end; None if nothing is."""
    way: dict[MemoryId, None] = {}
    at = identity
    while at not in way:
        if at in settled:
            return list(way), settled[at]
        way[at] = None
        memory = state[at].memory
        if memory.superseded is None or memory.superseded.by is None:
            return list(way), None
        after = state.get(memory.superseded.by)
        if after is None or after.memory.scope != memory.scope:
            what = f"leads to memory {memory.superseded.by}, which its scope does not have"
            return list(way), (Violation.NO_SUCCESSOR, what)
        at = after.memory.id
    return list(way), (Violation.SUCCESSOR_CYCLE, f"leads back to memory {at}")
