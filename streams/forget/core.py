"""What must be erased to forget a memory, and what remains without it.

A fact lives on in the memories that superseded it. So all of those go with it, and their other
events are decided again without it.
"""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, zip_longest
from typing import TypeAlias

from schemas.base import DecisionId, MemoryId
from schemas.decisions import Change, Decision, Erase, Fence, Ignore, Marker, OnEvent, Supersession
from schemas.events import (
    ERASURES_MAX,
    MEMBERS_MAX,
    STATED_MAX,
    Contradiction,
    DecidedEvent,
    Erasure,
    Forget,
    Forgotten,
    MemoryHistory,
    Remember,
    Stated,
)
from schemas.memories import Memory, Standing
from streams.model import wordings
from streams.model.identity import request_id
from streams.model.neighbours import StoredMemory
from streams.stage.core.ledger import advance, effects, memory_of, quoted, touched
from streams.stage.core.lineage import Wish
from streams.stage.core.tombstones import (
    TombstoneKey,
    recognisable,
    tombstone_of,
    without,
    words_of,
)

_TOMBSTONE_BYTES = 4_096
_MEMORIES_BYTES = 524_288
"""Half of an event's maximum size is for tombstones with their vectors."""
_DECIDED_MAX = 2_048
"""The most earlier decisions that one request may restate: about a fifth of an event's size."""

States: TypeAlias = Mapping[MemoryId, StoredMemory]


@dataclass(frozen=True)
class DecisionRecord:
    """A record of the decisions topic; `counts` if its owner held the partition's fence."""

    offset: int
    decision: OnEvent
    counts: bool


@dataclass(frozen=True)
class Past:
    """The records of one scope's decisions that were found, in log order."""

    found: Sequence[DecisionRecord]

    @cached_property
    def state(self) -> dict[MemoryId, StoredMemory]:
        """The memories that the decisions touch, after applying them in order."""
        state: dict[MemoryId, StoredMemory] = {}
        for one in self.found:
            for effect in effects(one.decision) if one.counts else ():
                identity = memory_of(effect)
                after = advance(state.get(identity), effect, holed=True)
                if after is not None:
                    state[identity] = after
        return state

    @cached_property
    def erased(self) -> set[int]:
        """The offsets of erased decisions: until compaction, the log still shows them."""
        return {
            erasure.decision
            for one in self.found
            if one.counts and isinstance(one.decision, Erase)
            for erasure in one.decision.erased
        }


@dataclass(frozen=True)
class Kin:
    """Memories related to what is to be forgotten.

    `gone` are the named memories and all that they superseded. `standing` are their successors, and
    `others` is what those superseded as well. `products` were once made from gone memories but no
    longer supersede them.
    """

    gone: frozenset[MemoryId]
    standing: frozenset[MemoryId]
    others: frozenset[MemoryId]
    products: frozenset[MemoryId]

    @property
    def every(self) -> list[MemoryId]:
        """All related memories, the forgotten ones first."""
        groups = (self.gone, self.standing, self.products, self.others)
        return list(dict.fromkeys(i for group in groups for i in sorted(group)))

    @property
    def telling(self) -> frozenset[MemoryId]:
        """The memories whose texts may say what is to be forgotten."""
        return self.gone | self.standing | self.products


@dataclass(frozen=True)
class FactMentions:
    """What records say about the fact to be forgotten, by their offsets.

    `texts`: what each forgotten memory ever said. `own`: their events say nothing else. `cut`: the
    rest of their events' texts. `told`: they arrived while it was being forgotten and mention it.
    """

    texts: Mapping[MemoryId, Sequence[str]]
    own: Collection[int]
    cut: Mapping[int, str]
    told: Collection[int]


@dataclass(frozen=True)
class ForgetPlan:
    """A plan to forget memories.

    `memories` has all that the plan changes, in their current state; those in `stated` are only
    restated. The events in `again` are decided again; those in `own`, which repeat the
    memories in other words, are erased with them. `wordings` has all texts that no memory shows.
    """

    requests: tuple[Forget, ...]
    kin: Kin
    memories: Mapping[MemoryId, Memory]
    stated: tuple[MemoryId, ...]
    again: tuple[Remember, ...]
    own: tuple[Remember, ...]
    wordings: tuple[str, ...]
    decisions: int


def on_event(decision: Decision | Fence) -> OnEvent | None:
    """Return a decision that contains its event; None for any other record."""
    return None if isinstance(decision, Fence | Marker) else decision


def kin_of(past: Past, named: Collection[MemoryId]) -> Kin:
    """Return the memories related to the named ones, as far as the decisions show."""
    superseded = [stored.memory.superseded for stored in past.state.values()]
    steps = [
        (identity, one.by)
        for identity, one in zip(past.state, superseded, strict=True)
        if one is not None and one.by is not None
    ]
    before, behind = [(by, identity) for identity, by in steps], steps
    made_of = [
        (target.memory_id, one.decision.memory.id)
        for one in past.found
        if isinstance(one.decision, Supersession)
        for target in one.decision.targets
    ]
    gone = _reached(named, before)
    standing = _reached(gone, behind) - gone
    others = _reached(standing, before) - standing - gone
    return Kin(gone, standing, others, _reached(gone, made_of) - gone - standing - others)


def to_look_up(past: Past, kin: Kin) -> set[MemoryId]:
    """Return the memories whose decisions are needed: the kin, and those changed with them."""
    beside = {i for one in _to_erase(past, kin) for i in touched(one.decision)}
    return {*kin.every, *beside}


def doubts(past: Past, kin: Kin) -> list[tuple[int, Remember]]:
    """Return the events that may repeat the forgotten fact, by the offsets of their decisions.

    They reached a forgotten memory's successor after it had superseded that.
    """
    joined = min((one.offset for one in past.found if _joins(one.decision, kin)), default=None)
    if joined is None:
        return []
    return [
        (one.offset, one.decision.event)
        for one in past.found
        if one.counts
        and one.offset >= joined
        and isinstance(one.decision.event, Remember)
        and isinstance(one.decision, Change)
        and one.decision.memory.id in kin.standing
    ]


def texts_of(past: Past, gone: Collection[MemoryId]) -> dict[MemoryId, list[str]]:
    """Return all texts of the given memories, and the texts of the events that changed them."""
    texts: dict[MemoryId, list[str]] = {identity: [] for identity in gone}
    for one in past.found:
        for effect in effects(one.decision):
            if isinstance(effect, StoredMemory) and effect.memory.id in texts:
                texts[effect.memory.id] += wordings.texts_of(effect.memory)
        event, decision = one.decision.event, one.decision
        if isinstance(event, Remember) and isinstance(decision, Change):
            texts.get(decision.memory.id, []).append(event.text)
    return texts


def repeating(past: Past, kin: Kin, gone: Iterable[str]) -> dict[int, str]:
    """Return the remaining text of each event that repeats a sentence of the `gone` texts.

    Keyed by the offset of its decision; only events of memories that stay are included.
    """
    words = {words_of(one) for text in gone for one in recognisable(text)}
    stays = kin.standing | kin.others
    left: dict[int, str] = {}
    for one in past.found:
        event, decision = one.decision.event, one.decision
        concerns = isinstance(decision, Change) and decision.memory.id in stays
        if concerns and isinstance(event, Remember):
            text = without(event.text, lambda said: words_of(said) in words)
            if text != event.text:
                left[one.offset] = text
    return left


def still_told(past: Past, key: TombstoneKey) -> dict[int, MemoryId]:
    """Return the forgotten memory that each remaining record mentions, by the record's offset.

    Such records arrived while the request to forget was in progress: a repeated event that changed
    nothing, a late write of a fenced-out owner, or a decision that quotes the memory. The first two
    can be found only by their words.
    """
    forgotten = ((identity, tombstone_of(stored.memory)) for identity, stored in past.state.items())
    graves = {identity: left for identity, left in forgotten if left is not None}
    words = {code: identity for identity, left in graves.items() for code in left.fingerprints}
    told = dict[int, MemoryId]()
    for one in past.found if graves else ():
        if one.offset not in past.erased and (gone := _tells(one, graves, words, key)) is not None:
            told[one.offset] = gone
    return told


def planned(
    past: Past, kin: Kin, said: FactMentions, left: Sequence[Forgotten], wish: Wish
) -> ForgetPlan:
    """Return the plan to forget; `left` is what remains of each of the kin, in their order."""
    state = past.state
    decided = _to_erase(past, kin, said.told)
    again = {one.offset for one in decided if _is_said_again(one, kin, state, said.own)}
    every = set(kin.every)
    erasures = [_Lost(_erasure(one, every, again), _beside(one, every, state)) for one in decided]
    erasures += [_Lost(before, ()) for one in decided for before in _erased_before(one, every)]
    stated = {identity for one in erasures for identity in one.beside}
    on = [(one.offset, one.decision.event) for one in decided if one.counts]
    events = [(offset, event) for offset, event in on if isinstance(event, Remember)]
    shown = {state[i].memory.text for i in kin.gone}
    changing = {one.offset for one in decided if _changes(one, kin.gone)}
    own = [
        event
        for offset, event in events
        if offset in said.own or (offset in changing and event.text not in shown)
    ]
    texts = (*chain.from_iterable(said.texts.values()), *(event.text for event in own))
    return ForgetPlan(
        requests=tuple(_requests(left, erasures, _with_events(decided, erasures), state, wish)),
        kin=kin,
        memories={i: state[i].memory for i in (*kin.every, *sorted(stated)) if i in state},
        stated=tuple(sorted(stated)),
        again=tuple(
            event.model_copy(update={"text": said.cut.get(offset, event.text)})
            for offset, event in events
            if offset in again
        ),
        own=tuple(own),
        wordings=tuple(dict.fromkeys(text for text in texts if text not in shown)),
        decisions=len(decided),
    )


def _changes(one: DecisionRecord, memories: Collection[MemoryId]) -> bool:
    return isinstance(one.decision, Change) and one.decision.memory.id in memories


@dataclass(frozen=True)
class _Lost:
    """A record to be erased, and the memories outside the kin that must be restated for it."""

    erasure: Erasure
    beside: tuple[MemoryId, ...]


def _with_events(decided: Sequence[DecisionRecord], erasures: Sequence[_Lost]) -> set[DecisionId]:
    """Return the decisions whose events are erased as well: nothing may tell what they said."""
    gone = {one.erasure.decision for one in erasures if not one.erasure.event_stays}
    return {one.decision.decision_id for one in decided if one.offset in gone}


def _erasure(one: DecisionRecord, every: Collection[MemoryId], again: Collection[int]) -> Erasure:
    ids = touched(one.decision)
    only_quotes = bool(ids) and not set(every) & set(ids)
    return Erasure(
        decision=one.offset,
        event=one.decision.source.offset,
        stays_for=tuple(ids) if only_quotes and isinstance(one.decision.event, Remember) else (),
        again=one.offset in again,
    )


def _erased_before(one: DecisionRecord, every: Collection[MemoryId]) -> list[Erasure]:
    """Return the erasures listed in a record that is to be erased: they must stay accounted for.

    An event that had stayed for a memory that goes now is erased as well.
    """
    before = one.decision.erased if isinstance(one.decision, Erase) else ()
    return [
        erasure.model_copy(
            update={
                "again": False,
                "stays_for": () if set(erasure.stays_for) & set(every) else erasure.stays_for,
            }
        )
        for erasure in before
    ]


def _beside(
    one: DecisionRecord, every: Collection[MemoryId], state: States
) -> tuple[MemoryId, ...]:
    return tuple(i for i in touched(one.decision) if i not in every and i in state)


def _reached(
    start: Collection[MemoryId], steps: Iterable[tuple[MemoryId, MemoryId]]
) -> frozenset[MemoryId]:
    """Return memories and all that steps lead to from them."""
    ways: dict[MemoryId, list[MemoryId]] = {}
    for one, other in steps:
        ways.setdefault(one, []).append(other)
    reached, ahead = set(start), list(start)
    while ahead:
        new = [identity for identity in ways.get(ahead.pop(), ()) if identity not in reached]
        reached.update(new)
        ahead += new
    return frozenset(reached)


def _joins(decision: OnEvent, kin: Kin) -> bool:
    """Return whether a decision let another memory supersede a forgotten one."""
    if not isinstance(decision, Supersession) or decision.memory.id not in kin.standing:
        return False
    targets = {target.memory_id for target in decision.targets}
    return bool(targets & kin.gone)


def _to_erase(past: Past, kin: Kin, beside: Collection[int] = ()) -> list[DecisionRecord]:
    """Return the records that mention what is to be forgotten or share a decision id with one.

    Include the records at the offsets `beside`; exclude those that an earlier request erased.
    """
    every = set(kin.every)
    of_kin = {one.decision.decision_id for one in past.found if every & _told(one.decision)}
    return [
        one
        for one in past.found
        if one.offset not in past.erased
        and (
            one.offset in beside
            or one.decision.decision_id in of_kin
            or kin.telling & set(quoted(one.decision))
        )
    ]


def _tells(
    one: DecisionRecord,
    graves: Container[MemoryId],
    words: Mapping[str, MemoryId],
    key: TombstoneKey,
) -> MemoryId | None:
    """Return the forgotten memory that a record quotes, or repeats without effect; None if none."""
    event, unheeded = one.decision.event, not one.counts or isinstance(one.decision, Ignore)
    said = recognisable(event.text) if isinstance(event, Remember) and unheeded else ()
    codes = (key.fingerprint(event.scope, text) for text in said)
    found = (
        *(identity for identity in quoted(one.decision) if identity in graves),
        *(words[code] for code in codes if code in words),
    )
    return next(iter(found), None)


def _told(decision: OnEvent) -> set[MemoryId]:
    """Return the memories that a decision touches, except those that it forgets."""
    if not isinstance(decision, Erase):
        return set(touched(decision))
    left = (one.memory for one in decision.memories)
    return {memory.id for memory in left if memory.status is not Standing.FORGOTTEN}


def _is_said_again(one: DecisionRecord, kin: Kin, state: States, own: Collection[int]) -> bool:
    """Return whether a record's event is decided again: it says something live, not forgotten."""
    decision = one.decision
    if not one.counts or one.offset in own or not isinstance(decision, Change):
        return False
    if not isinstance(decision.event, Remember) or decision.memory.id in kin.gone | kin.products:
        return False
    stands = {i for i in kin.standing if state[i].memory.live}
    return bool(stands) and decision.memory.id in kin.standing | kin.others


def _requests(
    left: Sequence[Forgotten],
    lost: Sequence[_Lost],
    erased: Collection[DecisionId],
    state: States,
    wish: Wish,
) -> Iterator[Forget]:
    """Yield the requests, each within the size limits; the first ones have memories and records."""
    memories, records = _few_memories(left), _few_records(lost, state)
    histories = {i: _history(state[i], left, erased) for one in lost for i in one.beside}
    versions = {i: state[i].memory.version for i in histories}
    scope = state[left[0].memory_id].memory.scope
    for number, (gone, going) in enumerate(zip_longest(memories, records, fillvalue=())):
        beside = sorted({identity for one in going for identity in one.beside})
        named = gone or [left[0].model_copy(update={"version": left[0].version + number})]
        about = [f"{one.memory_id}/{one.version}" for one in named]
        yield Forget(
            event_id=request_id(scope, "forget", wish.author, wish.at, *about),
            scope=scope,
            author=wish.author,
            occurred_at=wish.at,
            note=wish.note,
            memories=tuple(named),
            stated=tuple(
                Stated(memory_id=i, version=versions[i], history=histories[i]) for i in beside
            ),
            erased=tuple(one.erasure for one in going),
        )
        versions |= {identity: versions[identity] + 1 for identity in beside}


def _history(
    stays: StoredMemory, left: Sequence[Forgotten], erased: Collection[DecisionId]
) -> MemoryHistory:
    """Return what a memory that stays still knows of its past: nothing of what is forgotten."""
    gone = {one.memory_id for one in left}
    return MemoryHistory(
        decided=tuple(
            DecidedEvent(decision_id=identity, content_key=key)
            for identity, key in stays.decided
            if identity not in erased
        ),
        contradicted=tuple(
            Contradiction(memory_id=identity, version=version)
            for identity, version in stays.contradicted
            if identity not in gone
        ),
        worded_at=stays.worded_at,
    )


def _few_memories(left: Sequence[Forgotten]) -> list[Sequence[Forgotten]]:
    each = len(left[0].embedding.values) + _TOMBSTONE_BYTES
    few = max(1, min(MEMBERS_MAX, _MEMORIES_BYTES // each))
    return [left[at : at + few] for at in range(0, len(left), few)]


def _few_records(lost: Sequence[_Lost], state: States) -> list[Sequence[_Lost]]:
    parts: list[list[_Lost]] = []
    beside = set[MemoryId]()
    for one in lost:
        wider = beside | set(one.beside)
        known = sum(len(state[identity].decided) for identity in wider)
        too_many = len(wider) > STATED_MAX or known > _DECIDED_MAX
        if not parts or len(parts[-1]) == ERASURES_MAX or too_many:
            parts.append([])
            wider = set(one.beside)
        parts[-1].append(one)
        beside = wider
    return list(parts)
