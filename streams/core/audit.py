"""What must hold of a log and of the copies that follow it, and what is found where it does not.

Decisions, events and memories are handed in, in the order of the log; nothing is read here. An
audit goes on behind what it finds, as far as that can be judged: what follows from one damage is
not told as another.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from pydantic_core import from_json

from schemas.base import DecisionId, MemoryId, Position, ScopeName
from schemas.codec import EVENT, Unreadable
from schemas.decisions import (
    Block,
    Change,
    Decision,
    Erase,
    Fence,
    Forward,
    Ignore,
    Insert,
    Marker,
    Reinforce,
    Reject,
    Revise,
    Revision,
)
from schemas.events import Event, Forget
from schemas.memories import Memory, Target
from schemas.topics import DEAD_LETTERS, DECISIONS, EVENTS
from streams.core.identity import content_key, decision_id, forwarding_id, rejection_id
from streams.core.ledger import MissingTarget, fold, stated, touched
from streams.core.neighbours import Stored
from streams.core.scope import partition_of
from streams.core.screening import was_screened

SHOWN_MAX = 20
"""How many findings of one problem are shown; all are counted."""


class Problem(StrEnum):
    """What must not be, by the name that programs see."""

    BEGINNING_LOST = "beginning-lost"
    RECORD_LOST = "record-lost"
    CUT_SHORT = "cut-short"
    DAMAGED = "damaged"
    NEWER = "newer"
    MISLABELLED = "mislabelled"
    FENCE_DAMAGED = "fence-damaged"
    FENCE_WITHOUT_OWNER = "fence-without-owner"
    PARTITIONS_DIFFER = "partitions-differ"
    FENCE_MISPLACED = "fence-misplaced"
    UNDECIDED = "undecided"
    NO_EVENT = "no-event"
    BEYOND_EVENTS = "beyond-events"
    OTHER_EVENT = "other-event"
    DECIDED_TWICE = "decided-twice"
    DOES_NOT_BUILD = "does-not-build"
    OTHER_ID = "other-id"
    OTHER_WORDS = "other-words"
    OTHER_SCOPE = "other-scope"
    OTHER_PARTITION = "other-partition"
    NO_SUCCESSOR = "no-successor"
    SUCCESSOR_CYCLE = "successor-cycle"
    NO_DEAD_LETTER = "no-dead-letter"
    DEAD_LETTER_DAMAGED = "dead-letter-damaged"
    NOT_FORWARDED = "not-forwarded"
    OTHER_LOG = "other-log"
    UNUSABLE = "unusable"
    LACKING = "lacking"
    EXTRA = "extra"
    DIFFERING = "differing"
    UNEQUAL = "unequal"


_RESTORE = "restore the log from a copy"
_PARTITIONS = "restore the topics from a copy, or begin anew under another kafka.prefix"
_REPORT = f"{_RESTORE}; where no copy is better, please report this, with the log"
REMEDIES: Mapping[Problem, str] = {
    Problem.BEGINNING_LOST: f"{_RESTORE}, and keep {DECISIONS.name} forever",
    Problem.RECORD_LOST: f"{_RESTORE}; nobody has asked for it to be erased",
    Problem.CUT_SHORT: _RESTORE,
    Problem.DAMAGED: _RESTORE,
    Problem.NEWER: f"upgrade this memsieve; where no newer one wrote it, {_RESTORE}",
    Problem.MISLABELLED: _RESTORE,
    Problem.FENCE_DAMAGED: _RESTORE,
    Problem.FENCE_WITHOUT_OWNER: _RESTORE,
    Problem.PARTITIONS_DIFFER: _PARTITIONS,
    Problem.FENCE_MISPLACED: _PARTITIONS,
    Problem.UNDECIDED: f"{_RESTORE}; where it never was decided on, publish the event again",
    Problem.NO_EVENT: _RESTORE,
    Problem.BEYOND_EVENTS: f"{_RESTORE}: {EVENTS.name} was made anew or has lost records",
    Problem.OTHER_EVENT: _RESTORE,
    Problem.DECIDED_TWICE: _REPORT,
    Problem.DOES_NOT_BUILD: _RESTORE,
    Problem.OTHER_ID: _RESTORE,
    Problem.OTHER_WORDS: _RESTORE,
    Problem.OTHER_SCOPE: _REPORT,
    Problem.OTHER_PARTITION: _REPORT,
    Problem.NO_SUCCESSOR: _REPORT,
    Problem.SUCCESSOR_CYCLE: _REPORT,
    Problem.NO_DEAD_LETTER: "restore the log from a copy, or mend the event and publish it again",
    Problem.DEAD_LETTER_DAMAGED: _RESTORE,
    Problem.NOT_FORWARDED: "publish the event again, keyed by its scope",
    Problem.OTHER_LOG: "restore the copy of the log that goes furthest; where there is none, "
    "delete what follows it, and what the log lacks is lost",
    Problem.UNEQUAL: "mend what the other checks have found",
}
"""What to do, where that does not depend on whose problem it is."""


@dataclass(frozen=True)
class Finding:
    """What must not be, where, and in words."""

    problem: Problem
    place: str
    what: str


class Findings:
    """What was found: the first of each problem, and how many there are."""

    def __init__(self) -> None:
        self.counts = Counter[Problem]()
        self._shown: dict[Problem, list[Finding]] = {}

    def add(self, problem: Problem, place: str, what: str) -> None:
        self.counts[problem] += 1
        if self.counts[problem] <= SHOWN_MAX:
            self._shown.setdefault(problem, []).append(Finding(problem, place, what))

    @property
    def shown(self) -> list[Finding]:
        return [finding for findings in self._shown.values() for finding in findings]


def place_of(position: Position) -> str:
    """Return where a person finds a record: topic/partition/offset."""
    return f"{position.topic}/{position.partition}/{position.offset}"


def unreadable(value: bytes | None, error: Unreadable | None) -> Problem:
    """Tell what became of a decision that cannot be read; `error` says why, None for a fence."""
    if not value or "EOF while parsing" in str(error):
        return Problem.CUT_SHORT
    if error is not None and error.field in {"kind", "schema_version"}:
        named: object = from_json(value).get(error.field)
        if type(named) in {str, int}:
            return Problem.NEWER
    return Problem.DAMAGED


class Pairing:
    """One partition's decisions, and the event records that they are on.

    All decisions come first, then all events that the topic still holds, then `close`.
    """

    def __init__(self, partition: int, committed: int, found: Findings) -> None:
        """Begin with nothing decided on; `committed` is where the deduplicators' group goes on."""
        self._partition = partition
        self._committed = committed
        self._found = found
        self._decided: dict[int, _Made] = {}
        self._doubts: list[range] = []
        self._doubt: int | None = None
        self._next = 0
        self.events = 0
        """How many records the topic still holds."""
        self.waiting = 0
        """How many of them lie behind the last that was decided on."""
        self.in_doubt = 0
        """How many of them may have the decision that cannot be read."""
        self.expired = 0
        """How many decisions are on events that the topic no longer holds."""
        self.untold = 0
        """How many offsets of these have no decision: perhaps there was no event."""
        self.erased = 0
        """How many events were erased, because what they say is forgotten."""
        self._gone: set[int] = set()

    def decided(self, decision: Decision, place: int) -> None:
        """Take a decision that counts, and the offset where it lies."""
        offset = decision.source.offset
        if self._doubt is not None:
            self._doubts.append(range(self._doubt, offset))
            self._doubt = None
        self._decided[offset] = _Made(place, _said(decision))
        self._next = offset + 1

    def erase(self, offset: int, place: int, *, stays: bool) -> bool:
        """Take the event of a decision that was to be erased; tell whether that is gone."""
        if not stays:
            self._gone.add(offset)
        if offset in self._decided:
            return False
        self._decided[offset] = _Made(place, b"")
        return True

    def doubt(self) -> None:
        """Note a record that cannot be read: it may be the decision on what comes next."""
        if self._doubt is None:
            self._doubt = self._next

    @property
    def end(self) -> int:
        """The offset behind the last event that must have a decision."""
        behind_doubt = 0 if self._doubt is None else self._doubt + 1
        return max(self._next, self._committed, behind_doubt)

    def event(self, offset: int, read: Callable[[], Event | None]) -> None:
        """Take an event record; `read` returns what it says, None where it cannot be read."""
        self.events += 1
        if offset >= self.end:
            self.waiting += 1
            return
        made = self._decided.pop(offset, None)
        if made is None:
            self._undecided(offset)
        elif made.said and ((event := read()) is None or made.said != _digest(event)):
            what = f"decides on {self._event(offset)}, and on another event than that record holds"
            self._found.add(Problem.OTHER_EVENT, self._decision(made), what)

    def close(self, beginning: int, end: int) -> None:
        """Judge the decisions whose events were not met."""
        for offset, made in self._decided.items():
            if offset in self._gone:
                self.erased += 1
            elif offset < beginning:
                self.expired += 1
            elif offset >= end:
                what = f"decides on {self._event(offset)}, but the events end at {end:,}"
                self._found.add(Problem.BEYOND_EVENTS, self._decision(made), what)
            else:
                what = f"decides on {self._event(offset)}, but there is no such record"
                self._found.add(Problem.NO_EVENT, self._decision(made), what)
        erased = sum(offset < beginning for offset in self._gone)
        self.untold = max(0, beginning - self.expired - erased)

    def _undecided(self, offset: int) -> None:
        open_doubt = range(0) if self._doubt is None else range(self._doubt, self.end)
        if any(offset in doubt for doubt in (*self._doubts, open_doubt)):
            self.in_doubt += 1
        else:
            what = f"has no decision, although events up to {self.end:,} were decided on"
            self._found.add(Problem.UNDECIDED, self._event(offset), what)

    def _event(self, offset: int) -> str:
        return f"{EVENTS.name}/{self._partition}/{offset}"

    def _decision(self, made: "_Made") -> str:
        return f"{DECISIONS.name}/{self._partition}/{made.offset}"


class _Made(NamedTuple):
    """Where a decision lies, and the digest of the event that it repeats, if any."""

    offset: int
    said: bytes


def _said(decision: Decision) -> bytes:
    """Return the digest of the event that a decision repeats; nothing where it repeats none."""
    if isinstance(decision, Marker) or was_screened(decision):
        return b""
    return _digest(decision.event)


def _digest(event: Event) -> bytes:
    return hashlib.blake2b(EVENT.encode(event), digest_size=16).digest()


@dataclass(frozen=True)
class Told:
    """What a copy for people holds of a memory.

    `live` is None where people have edited it, or taken it out; `text` also where it is retired.
    """

    identity: MemoryId
    version: int
    text: str | None
    live: bool | None


Holding: TypeAlias = Callable[[Memory], bool]
"""Tells whether a copy has to hold a memory."""


def every(_: Memory) -> bool:
    """Return True: what a copy that leaves nothing out has to hold."""
    return True


class Copy:
    """What a copy of the memories holds, against what the log says up to the copy's level.

    It may hold a later state of a memory: what is written comes before the level is raised.
    """

    def __init__(
        self,
        levels: Mapping[int, int],
        state: Mapping[MemoryId, Stored],
        *,
        whole: bool,
        holds: Holding = every,
    ) -> None:
        """`state` is that of the log, as it grows. `whole`: vectors and decisions are compared."""
        self._levels = levels
        self._state = state
        self._whole = whole
        self._holds = holds
        self._before: dict[MemoryId, Stored | None] = {}
        self._later: dict[MemoryId, list[Stored]] = {}
        self._seen: dict[MemoryId, int] = {}
        self._suspects: dict[MemoryId, Stored | Told] = {}
        self._flawed: dict[MemoryId, str] = {}
        self._by_people: set[MemoryId] = set()

    @property
    def levels(self) -> Mapping[int, int]:
        return self._levels

    @property
    def count(self) -> int:
        """How many memories it holds."""
        return len(self._seen)

    @property
    def by_people(self) -> int:
        """How many of them people have edited or taken out."""
        return len(self._by_people)

    @property
    def is_in_doubt(self) -> bool:
        """Whether it holds what the log as far as it is read does not explain."""
        return bool(self._suspects)

    def changed(self, position: Position, before: Stored | None, after: Stored) -> None:
        """Learn what a decision made of a memory."""
        if position.offset >= self._levels.get(position.partition, 0):
            self._before.setdefault(after.memory.id, before)
            self._later.setdefault(after.memory.id, []).append(after)

    def found(self, held: Stored | Told) -> None:
        """Take what it holds of a memory; of several states the latest counts."""
        identity, version = _named(held)
        if version < self._seen.get(identity, 0):
            return
        self._seen[identity] = version
        self._suspects[identity] = held
        if self._explains(held):
            del self._suspects[identity]
        if isinstance(held, Told) and held.live is None:
            self._by_people.add(identity)

    def flawed(self, identity: MemoryId, flaw: str) -> None:
        """Take note of a memory that it holds in a way that cannot be right."""
        self._seen[identity] = 0
        self._flawed[identity] = flaw

    def findings(self, is_compared: Callable[[ScopeName], bool]) -> Findings:
        """Return what differs, in the scopes that can be compared."""
        found = Findings()
        for identity, stored in self._state.items():
            if identity not in self._seen and self._lacks(identity, stored, is_compared):
                found.add(Problem.LACKING, identity, "the log has it, the copy has not")
        for identity, flaw in self._flawed.items():
            found.add(Problem.DIFFERING, identity, flaw)
        for identity, held in self._suspects.items():
            scope = self._scope(held)
            if (scope is None or is_compared(scope)) and not self._explains(held):
                self._add_unexplained(found, identity, held)
        return found

    def _lacks(
        self, identity: MemoryId, stored: Stored, is_compared: Callable[[ScopeName], bool]
    ) -> bool:
        expected = self._expected(identity)
        wanted = expected is not None and self._holds(expected.memory)
        return wanted and is_compared(stored.memory.scope)

    def _scope(self, held: Stored | Told) -> ScopeName | None:
        """Return the scope of what it holds; None where only the log could tell, and does not."""
        known = held if isinstance(held, Stored) else self._state.get(held.identity)
        return None if known is None else known.memory.scope

    def _add_unexplained(self, found: Findings, identity: MemoryId, held: Stored | Told) -> None:
        known = self._expected(identity) or self._state.get(identity)
        if known is None:
            found.add(Problem.EXTRA, identity, "the copy has it, the log knows no such memory")
        else:
            found.add(Problem.DIFFERING, identity, self._difference(known, held))

    def _explains(self, held: Stored | Told) -> bool:
        """Tell whether the log says this, at the copy's level or behind it."""
        identity, _ = _named(held)
        states = (self._expected(identity), *self._later.get(identity, ()))
        return any(state is not None and self._same(state, held) for state in states)

    def _expected(self, identity: MemoryId) -> Stored | None:
        """Return the memory as the decisions up to the level made it."""
        if identity in self._before:
            return self._before[identity]
        return self._state.get(identity)

    def _same(self, expected: Stored, found: Stored | Told) -> bool:
        if isinstance(found, Told):
            same_version = expected.memory.version == found.version
            return same_version and not _differing(expected.memory, found)
        if not self._whole:
            return expected.memory == found.memory
        return (
            expected.memory == found.memory
            and _bits(expected) == _bits(found)
            and expected.decided == found.decided
        )

    def _difference(self, expected: Stored, found: Stored | Told) -> str:
        """Say in which way a memory differs, without its text."""
        known, (_, version) = expected.memory, _named(found)
        if known.version != version:
            return f"is at version {version}, and at {known.version} by the log"
        names = _differing(known, found if isinstance(found, Told) else found.memory)
        if self._whole and isinstance(found, Stored):
            names += ["vector"] if _bits(expected) != _bits(found) else []
            names += ["decisions"] if expected.decided != found.decided else []
        return f"is not what the log says in: {', '.join(names)}"


def _named(held: Stored | Told) -> tuple[MemoryId, int]:
    """Return which memory, and which version of it, a copy holds."""
    if isinstance(held, Told):
        return held.identity, held.version
    return held.memory.id, held.memory.version


def _differing(known: Memory, seen: Memory | Told) -> list[str]:
    """Return the names of what is not the same."""
    if isinstance(seen, Memory):
        return [n for n in Memory.model_fields if getattr(known, n) != getattr(seen, n)]
    told = {"text": seen.text, "live": seen.live}
    return [n for n, value in told.items() if value is not None and getattr(known, n) != value]


def _bits(stored: Stored) -> bytes | None:
    return None if stored.vector is None else stored.vector.tobytes()


class Audit:
    """Follows the decisions of a log, each partition in order: what they add up to, what is wrong.

    A partition is folded up to the first record that cannot be: nobody can apply what lies behind.
    """

    def __init__(self, partitions: int, committed: Mapping[int, int]) -> None:
        """Begin with nothing; `committed` is, by partition, where the deduplicators' group goes on."""
        self.partitions = partitions
        self._numbers_in_doubt = False
        self._places: dict[DecisionId, str] = {}
        self._copies: list[Copy] = []
        self.log, self.numbers, self.events, self.fold = (Findings() for _ in range(4))
        self.letters, self.forwards = Findings(), Findings()
        self.pairings = {
            partition: Pairing(partition, committed.get(partition, 0), self.events)
            for partition in range(partitions)
        }
        self.state: dict[MemoryId, Stored] = {}
        self._skipped: dict[MemoryId, str] = {}
        self._holes: dict[int, set[int]] = {}
        self.stopped: dict[int, int] = {}
        """Where partitions stopped being folded: the offset of the first record that cannot be."""
        self.kinds = Counter[str]()
        self.fences = 0
        self._rejects: dict[str, str] = {}
        self._forwards: dict[tuple[int, str], str] = {}

    def copy(self, levels: Mapping[int, int], *, whole: bool, holds: Holding = every) -> Copy:
        """Return what tells whether a copy holds what the decisions to come add up to."""
        copy = Copy(levels, self.state, whole=whole, holds=holds)
        self._copies.append(copy)
        return copy

    def topic(self, name: str, partitions: int) -> None:
        """Take a topic that must have as many partitions as the decisions."""
        if partitions != self.partitions:
            what = f"has {partitions} partition(s), but {DECISIONS.name} has {self.partitions}"
            self._misnumbered(Problem.PARTITIONS_DIFFER, name, what)

    def pairing(self, partition: int) -> Pairing:
        """Return what pairs the events of a partition with their decisions."""
        return self.pairings.setdefault(partition, Pairing(partition, 0, self.events))

    def fence(self, fence: Fence, position: Position) -> None:
        self.fences += 1
        if fence.partitions != self.partitions:
            what = f"is a fence of one among {fence.partitions} partition(s), not {self.partitions}"
            self._misnumbered(Problem.PARTITIONS_DIFFER, place_of(position), what)
        if fence.partition != position.partition:
            what = f"is a fence of partition {fence.partition}"
            self.numbers.add(Problem.FENCE_MISPLACED, place_of(position), what)

    def beginning_lost(self, position: Position) -> None:
        """Learn that a partition begins behind the first record that it ever had."""
        what = "is where the decisions begin: what lay before is gone"
        self.log.add(Problem.BEGINNING_LOST, place_of(position), what)
        self.pairings[position.partition].doubt()
        self._stop(position)

    def unread_fence(self, problem: Problem, position: Position, what: str) -> None:
        """Take a fence that cannot be read."""
        self.log.add(problem, place_of(position), what)
        self._stop(position)

    def unread_decision(self, problem: Problem, position: Position, what: str) -> None:
        """Take a decision that counts and cannot be read."""
        self.log.add(problem, place_of(position), what)
        self.pairings[position.partition].doubt()
        self._stop(position)

    def untold(self, position: Position) -> None:
        """Take a record of which nobody can tell whether it counts: its fence cannot be read."""
        self.pairings[position.partition].doubt()

    def hole(self, position: Position) -> None:
        """Take an offset of a log that leaves none out, where there is no record."""
        self._holes.setdefault(position.partition, set()).add(position.offset)

    def close_holes(self) -> None:
        """Judge what is not there and nobody has asked to erase, and what lacks a base for ever."""
        for partition, offsets in self._holes.items():
            for offset in sorted(offsets):
                place = f"{DECISIONS.name}/{partition}/{offset}"
                self.log.add(Problem.RECORD_LOST, place, "is not there")
            if offsets:
                self.stopped.setdefault(partition, min(offsets))
        for identity, place in self._skipped.items():
            what = f"memory {identity} is to be changed, but is not what it was for the decision"
            self.fold.add(Problem.DOES_NOT_BUILD, place, what)

    def decision(self, decision: Decision, position: Position, *, holed: bool = False) -> None:
        """Take a decision that counts; `holed` where a record before it is not there."""
        self.kinds[decision.kind] += 1
        pairing, place = self.pairings[position.partition], place_of(position)
        pairing.decided(decision, position.offset)
        if was_screened(decision):
            pairing.erase(decision.source.offset, position.offset, stays=False)
        self._require_source(decision, position)
        self._require_id(decision, place)
        match decision:
            case Reject():
                self._rejects.setdefault(decision.dead_letter_id, place)
            case Forward():
                self._forwards[decision.partition, place_of(decision.source)] = place
                self._require_partition(decision.scope, decision.partition, place)
            case Block():
                self._require_partition(decision.scope, position.partition, place)
            case Ignore():
                self._require_partition(decision.event.scope, position.partition, place)
            case _:
                self._require_partition(decision.event.scope, position.partition, place)
                self._require_once(decision, place)
                self._require_own_words(decision, place)
                if isinstance(decision, Erase):
                    self._erase(decision, position)
                self._fold(decision, position, holed=holed)

    def letter(self, identity: str) -> None:
        """Take a dead letter."""
        self._rejects.pop(identity, None)

    def close_letters(self, *, expired: bool) -> int:
        """Judge the rejects whose letters were not met; return how many cannot be judged.

        `expired`: the topic has lost records, or holds some that cannot be read.
        """
        if expired:
            return len(self._rejects)
        for identity, place in self._rejects.items():
            what = f"is a reject, but {DEAD_LETTERS.name} has no letter {identity}"
            self.letters.add(Problem.NO_DEAD_LETTER, place, what)
        return 0

    def forwarded(self, partition: int, origin: str) -> None:
        """Take an event that was published anew; `origin` is where it lay before."""
        self._forwards.pop((partition, origin), None)

    def close_forwards(self, expired: Container[int]) -> int:
        """Judge the forwards whose events were not met; return how many cannot be judged.

        `expired`: the partitions of events that have lost their first records.
        """
        untold = 0
        for (partition, origin), place in self._forwards.items():
            if partition in expired:
                untold += 1
            else:
                what = f"says that {origin} was sent on to partition {partition}: it is not there"
                self.forwards.add(Problem.NOT_FORWARDED, place, what)
        return untold

    def blind(self, copy: Copy) -> dict[int, int]:
        """Return the partitions in which a copy cannot be compared, and where their fold ended."""
        levels = copy.levels
        return {p: end for p, end in self.stopped.items() if levels.get(p, 0) > end}

    def compared(self, copy: Copy) -> Findings:
        """Return in what a copy is not what the log says."""
        blind = self.blind(copy)
        if blind and self._numbers_in_doubt:
            return Findings()
        return copy.findings(lambda scope: not blind or self._home(scope) not in blind)

    def _home(self, scope: ScopeName) -> int:
        return partition_of(scope, self.partitions)

    def _require_source(self, decision: Decision, position: Position) -> None:
        source = decision.source
        if (source.topic, source.partition) != (EVENTS.name, position.partition):
            what = f"is a decision on {place_of(source)}, which lies in another partition"
            self.events.add(Problem.OTHER_EVENT, place_of(position), what)

    def _require_id(self, decision: Decision, place: str) -> None:
        if decision.decision_id != _derived_id(decision):
            what = f"has the id {decision.decision_id}, which is not that of its event"
            self.fold.add(Problem.OTHER_ID, place, what)

    def _require_partition(self, scope: ScopeName, partition: int, place: str) -> None:
        if not self._numbers_in_doubt and (own := self._home(scope)) != partition:
            what = f"is on scope {scope}, which belongs to partition {own}"
            self.fold.add(Problem.OTHER_PARTITION, place, what)

    def _require_once(self, decision: Change | Revision, place: str) -> None:
        before = self._places.setdefault(decision.decision_id, place)
        if before != place:
            what = f"changes memories for event {decision.event.event_id}, as {before} did before"
            self.events.add(Problem.DECIDED_TWICE, place, what)

    def _require_own_words(self, decision: Change | Revision, place: str) -> None:
        for memory in stated(decision):
            if memory.content_key != content_key(memory.scope, memory.text):
                what = f"gives memory {memory.id} a content key that is not that of its words"
                self.fold.add(Problem.OTHER_WORDS, place, what)

    def _erase(self, decision: Erase, position: Position) -> None:
        """Learn which records may be gone, and which memories are told anew."""
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
        self._require_scope(decision, before, place_of(position))
        wrong = None if holed else _misbuilt(decision, before)
        try:
            changed = fold(self.state, decision, holed=holed)
        except MissingTarget as damage:
            wrong = str(damage)
            self._stop(position)
            self._restore(before)
        else:
            self._tell_copies(position, {identity: before[identity] for identity in changed})
            left = [identity for identity in before if identity not in changed]
            if holed:
                self._skipped.update(dict.fromkeys(left, place_of(position)))
            elif left:
                wrong = wrong or "changes a memory to what it was already"
        if wrong:
            self.fold.add(Problem.DOES_NOT_BUILD, place_of(position), wrong)

    def _tell_copies(self, position: Position, before: Mapping[MemoryId, Stored | None]) -> None:
        for copy in self._copies:
            for identity, stored in before.items():
                copy.changed(position, stored, self.state[identity])

    def _require_scope(
        self, decision: Change | Revision, before: Mapping[MemoryId, Stored | None], place: str
    ) -> None:
        scope = decision.event.scope
        known = [stored.memory for stored in before.values() if stored is not None]
        for memory in (*stated(decision), *known):
            if memory.scope != scope:
                what = f"is on scope {scope}, and changes memory {memory.id} of {memory.scope}"
                self.fold.add(Problem.OTHER_SCOPE, place, what)

    def _restore(self, before: Mapping[MemoryId, Stored | None]) -> None:
        for identity, stored in before.items():
            if stored is not None:
                self.state[identity] = stored
            else:
                self.state.pop(identity, None)

    def _stop(self, position: Position) -> None:
        self.stopped.setdefault(position.partition, position.offset)

    def _misnumbered(self, problem: Problem, place: str, what: str) -> None:
        """Find a number of partitions wrong: which one a scope belongs to cannot be told then."""
        self._numbers_in_doubt = True
        self.numbers.add(problem, place, what)


def _misbuilt(decision: Change | Revision, before: Mapping[MemoryId, Stored | None]) -> str | None:
    """Say which of a decision's targets it has not seen as they were, if any."""
    for target in _targets(decision):
        stored = before.get(target.memory_id)
        if stored is not None and stored.memory.version != target.version:
            return (
                f"saw memory {target.memory_id} at version {target.version}, but it was at "
                f"{stored.memory.version}"
            )
    return None


def _targets(decision: Change | Revision) -> Sequence[Target]:
    match decision:
        case Insert() | Revise():
            return ()
        case Erase():
            return decision.event.targets if isinstance(decision.event, Forget) else ()
        case Reinforce():
            return (decision.target,)
        case _:
            return decision.targets


def _derived_id(decision: Decision) -> DecisionId:
    source = decision.source
    match decision:
        case Reject():
            return rejection_id(source.topic, source.partition, source.offset)
        case Block():
            return decision_id(decision.scope, decision.event_id)
        case Forward():
            return forwarding_id(source.topic, source.partition, source.offset)
        case _:
            return decision_id(decision.event.scope, decision.event.event_id)


def successors(state: Mapping[MemoryId, Stored]) -> Findings:
    """Follow each superseded memory to the one live memory that stands for it, or to its end."""
    found = Findings()
    settled: dict[MemoryId, _Wrong | None] = {}
    for identity in state:
        way, wrong = _follow(state, identity, settled)
        settled.update(dict.fromkeys(way, wrong))
    for identity, wrong in settled.items():
        if wrong is not None:
            found.add(wrong.problem, identity, wrong.what)
    return found


@dataclass(frozen=True)
class _Wrong:
    """Why a memory's successors lead to no live memory."""

    problem: Problem
    what: str


def _follow(
    state: Mapping[MemoryId, Stored],
    identity: MemoryId,
    settled: Mapping[MemoryId, _Wrong | None],
) -> tuple[list[MemoryId], _Wrong | None]:
    """Return the memories on the way to the end, and what is wrong there."""
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
            return list(way), _Wrong(Problem.NO_SUCCESSOR, what)
        at = after.memory.id
    return list(way), _Wrong(Problem.SUCCESSOR_CYCLE, f"leads back to memory {at}")
