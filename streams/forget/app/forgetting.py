"""Forgetting: plans from the log what to erase, requests it, and removes it from every copy."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from schemas.base import EventId, MemoryId, ScopeName
from schemas.decisions import Change, Merge, OnEvent, Verdict
from schemas.events import Forgotten
from schemas.memories import Standing
from schemas.topics import DECISIONS
from streams.clock.system import SystemClock
from streams.forget.core import (
    DecisionRecord,
    Doubt,
    FactMentions,
    ForgetPlan,
    Kin,
    States,
    doubts,
    kin_of,
    on_event,
    planned,
    repeating,
    states,
    still_told,
    texts_of,
    to_look_up,
)
from streams.model.embedding import Vector, pack, unpack
from streams.model.neighbours import StoredMemory, rank
from streams.model.policy import Policy
from streams.model.ports import Embedder, Fatal, LogRecord, SearchableLog
from streams.model.scope import tenant
from streams.stage.core.lineage import Wish
from streams.stage.core.tombstones import Texts, TombstoneKey, cleared, tombstone, tombstone_of
from streams.stage.flow.decisions import (
    DECISION_ID_HEADER,
    FENCE_HEADER,
    MEMORY_ID_HEADER,
    QUOTED_ID_HEADER,
    Fences,
    is_decision,
    read_decision,
    scope_of,
)
from streams.stage.flow.judging import CandidatePair, Judging
from streams.store.app import wiring
from streams.store.app.client import Client, Response, is_out_of_date, may_retry, undecided
from streams.store.app.cluster_client import watched
from streams.store.app.embedding import ChosenModel, chosen_for
from streams.store.app.reading import LogTarget, StoreReader, opened, records
from streams.store.app.requests import open_client
from streams.store.app.settings import InvalidSettings

_SAYS_IT = {Verdict.SAME, Verdict.REFINED_BY, Verdict.UNSURE}
"""Verdicts on a later event that make it go with a forgotten text, even when in doubt."""


class UnknownTarget(Exception):
    """Nothing has the requested id, scope or tenant."""


@dataclass(frozen=True)
class PlanningDependencies:
    """The dependencies of planning."""

    key: TombstoneKey
    policy: Policy
    embedder: Embedder
    judging: Judging


@dataclass
class _Gathered:
    """The decision records of one scope found so far, by partition and offset."""

    records: dict[tuple[int, int], LogRecord] = field(
        default_factory=dict[tuple[int, int], LogRecord]
    )

    def add(self, found: Sequence[LogRecord]) -> None:
        self.records |= {(one.partition, one.offset): one for one in found}

    def read(self, fences: Fences) -> list[DecisionRecord]:
        """Return the decisions in log order."""
        found: list[DecisionRecord] = []
        for (_, offset), record in sorted(self.records.items()):
            decision = _decision(record, fences)
            if decision is not None:
                found.append(DecisionRecord(offset, decision, fences.admit(record)))
        return found


@dataclass(frozen=True)
class ForgetTarget:
    """What is to be forgotten: one memory by its id, a whole scope, or a whole tenant."""

    memory: MemoryId | None = None
    scope: ScopeName | None = None
    tenant: str | None = None

    def holds(self, scope: ScopeName) -> bool:
        """Return whether the whole of a scope is to be forgotten."""
        return scope == self.scope or (self.tenant is not None and tenant(scope) == self.tenant)


async def in_full(wanted: ForgetTarget, reader: StoreReader) -> ForgetTarget:
    """Return `wanted` with the full id of the memory that it means.

    Raises UnknownTarget if no memory matches, and AmbiguousPrefix if several do.
    """
    if wanted.memory is None:
        return wanted
    named = await reader.memory_id(wanted.memory, erased=True)
    if named is None:
        raise UnknownTarget(f"no memory in {reader.place} has the id {wanted.memory}")
    return ForgetTarget(memory=named)


async def plans(
    log: SearchableLog, wanted: ForgetTarget, means: PlanningDependencies, wish: Wish
) -> list[ForgetPlan]:
    """Plan how to forget what is wanted; return no plan for what is already forgotten.

    Raises UnknownTarget if it does not exist.
    """
    fences = await _fences(log)
    if wanted.memory is not None:
        return await _plans_of_memory(log, wanted.memory, fences, means, wish)
    by_scope = await _by_scope(log, fences, wanted.holds)
    if not by_scope:
        raise UnknownTarget(f"there is no scope {wanted.scope or f'of tenant {wanted.tenant}'}")
    found: list[ForgetPlan] = []
    for decisions in by_scope.values():
        state = states(decisions)
        told = still_told(decisions, state, means.key)
        again = set(told.values())
        if left := [i for i, stored in state.items() if _has_text(stored) or i in again]:
            found.append(await _planned(decisions, left, state, told, means, wish))
    return found


async def left_over(
    log: SearchableLog, forgotten: Sequence[ForgetPlan], means: PlanningDependencies, wish: Wish
) -> list[ForgetPlan]:
    """Plan how to forget what still repeats text that these plans have forgotten.

    It entered the log between a plan and the decision on it.
    """
    scopes = {plan.requests[0].scope for plan in forgotten}
    gone = {identity for plan in forgotten for identity in plan.kin.gone}
    found: list[ForgetPlan] = []
    for decisions in (await _by_scope(log, await _fences(log), scopes.__contains__)).values():
        state = states(decisions)
        told = still_told(decisions, state, means.key)
        if left := sorted(gone.intersection(told.values())):
            found.append(await _planned(decisions, left, state, told, means, wish))
    return found


async def _plans_of_memory(
    log: SearchableLog,
    named: MemoryId,
    fences: Fences,
    means: PlanningDependencies,
    wish: Wish,
) -> list[ForgetPlan]:
    first = await log.find(DECISIONS.name, MEMORY_ID_HEADER, [named])
    decisions = (_decision(record, fences) for record in first)
    scopes = {one.event.scope for one in decisions if one is not None}
    if not scopes:
        raise UnknownTarget(f"no memory has the id {named}")
    found = await _related(log, named, fences) if log.is_indexed else []
    state = states(found)
    if named not in state or not _has_text(state[named]):  # no header finds what repeats it
        [found] = (await _by_scope(log, fences, scopes.__contains__)).values()
        state = states(found)
    if named not in state:
        raise UnknownTarget(f"no memory has the id {named}")
    told = still_told(found, state, means.key)
    plan = await _planned(found, [named], state, told, means, wish)
    return [plan] if _has_text(state[named]) or plan.decisions else []


def _has_text(stored: StoredMemory) -> bool:
    return stored.memory.status is not Standing.FORGOTTEN


async def _planned(
    found: Sequence[DecisionRecord],
    named: Sequence[MemoryId],
    state: States,
    told: Mapping[int, MemoryId],
    means: PlanningDependencies,
    wish: Wish,
) -> ForgetPlan:
    kin = kin_of(found, named, state)
    texts = texts_of(found, kin.gone)
    cut = repeating(found, kin, [text for said in texts.values() for text in said])
    own = await _own(doubts(found, kin), kin, state, means)
    own |= {offset for offset, text in cut.items() if not text}
    said = FactMentions(own, cut, {offset for offset, gone in told.items() if gone in kin.gone})
    repeated = [one.decision.event.text for one in found if one.offset in cut]
    left = [
        _left(
            state[identity], Texts(texts[identity], repeated) if identity in texts else None, means
        )
        for identity in kin.every
        if identity in state
    ]
    return planned(found, kin, state, said, left, wish)


def _left(stored: StoredMemory, texts: Texts | None, means: PlanningDependencies) -> Forgotten:
    """Return what is kept of a memory: a tombstone, or nothing if its facts may be said again."""
    memory, vector, model = stored.memory, _vector(stored), means.embedder.model
    if memory.status is Standing.FORGOTTEN:
        return Forgotten(
            memory_id=memory.id,
            version=memory.version,
            tombstone=tombstone_of(memory),
            embedding=pack(vector, model),
        )
    if texts is None:
        return cleared(memory, vector.shape[0], model)
    reading = means.judging.readings.of(memory.text)
    return tombstone(means.key, memory, vector, texts, reading, model)


def _vector(stored: StoredMemory) -> Vector:
    if stored.vector is None:
        raise TypeError(f"memory {stored.memory.id} has no vector in the log")
    return stored.vector


async def _own(
    doubtful: Sequence[Doubt], kin: Kin, state: States, means: PlanningDependencies
) -> set[int]:
    """Return the offsets of doubtful decisions whose events say what a forgotten memory says."""
    gone = [state[identity] for identity in sorted(kin.gone)]
    asked: list[tuple[int, CandidatePair]] = []
    for doubt in doubtful:
        vector = await _vector_of(doubt, means.embedder)
        rules = means.policy.rules(doubt.event.scope)
        near = rank(vector, gone, bands=rules.bands, floor=-1.0, limit=len(gone))
        asked += [(doubt.found.offset, CandidatePair(doubt.event, one, rules)) for one in near]
    judged = await means.judging.judge([pair for _, pair in asked])
    found = zip(asked, judged, strict=True)
    return {offset for (offset, _), one in found if one.verdict in _SAYS_IT}


async def _vector_of(doubt: Doubt, embedder: Embedder) -> Vector:
    """Return the vector of an event's text, taken from its decision if that holds it."""
    decision = doubt.found.decision
    made = decision.event_embedding if isinstance(decision, Merge) else None
    if isinstance(decision, Change) and not isinstance(decision, Merge):
        made = decision.embedding
    if made is not None and made.model == embedder.model:
        return unpack(made)
    [embedded] = await embedder.embed([doubt.event.text])
    return embedded.vector


async def _related(log: SearchableLog, named: MemoryId, fences: Fences) -> list[DecisionRecord]:
    """Return all decisions related to a memory, found by following ids until none is new."""
    gathered, looked_up, ahead = _Gathered(), set[MemoryId](), {named}
    while ahead:
        for header in (MEMORY_ID_HEADER, QUOTED_ID_HEADER):
            gathered.add(await log.find(DECISIONS.name, header, sorted(ahead)))
        looked_up |= ahead
        found = gathered.read(fences)
        kin = kin_of(found, [named], states(found))
        ahead = to_look_up(found, kin) - looked_up
    ids = [one.decision.decision_id for one in gathered.read(fences)]
    gathered.add(await log.find(DECISIONS.name, DECISION_ID_HEADER, ids))
    return gathered.read(fences)


async def _fences(log: SearchableLog) -> Fences:
    return Fences(await log.find_beginning(DECISIONS.name, [FENCE_HEADER], ""))


async def _by_scope(
    log: SearchableLog, fences: Fences, holds: Callable[[ScopeName], bool]
) -> dict[ScopeName, list[DecisionRecord]]:
    """Return the decisions of the scopes that `holds` selects, by a scan of the whole log."""
    gathered: dict[ScopeName, _Gathered] = {}
    async for record in records(log, DECISIONS.name):
        if is_decision(record) and holds(scope := scope_of(record)):
            gathered.setdefault(scope, _Gathered()).add([record])
    return {scope: one.read(fences) for scope, one in gathered.items()}


def _decision(record: LogRecord, fences: Fences) -> OnEvent | None:
    """Return a record's decision on an event. Raises Fatal if it counts but cannot be read."""
    if not is_decision(record):
        return None
    try:
        return on_event(read_decision(record))
    except Fatal:
        if fences.admit(record):
            raise
        return None


@dataclass(frozen=True)
class ForgetPlans:
    """The plans of one request to forget; none if that was done before."""

    plans: Sequence[ForgetPlan]

    @property
    def memory_ids(self) -> tuple[MemoryId, ...]:
        """The memories that are forgotten."""
        return tuple(sorted({one for plan in self.plans for one in plan.kin.gone}))

    @property
    def decided_again(self) -> tuple[EventId, ...]:
        """The events that are decided on again without them."""
        return tuple(event.event_id for plan in self.plans for event in plan.again)

    @property
    def records(self) -> int:
        """How many records of the log are erased."""
        return sum(plan.decisions for plan in self.plans)


@dataclass(frozen=True)
class ForgetResponses(ForgetPlans):
    """The plans, and the responses to what they ask for."""

    responses: Sequence[Response] = ()


async def foreseen(
    target: LogTarget, wanted: ForgetTarget, wish: Wish, report: Callable[[str], None]
) -> ForgetResponses:
    """Return how something would be forgotten; change nothing."""
    chosen = chosen_for(target, report)
    async with _means(target, chosen, for_show=True) as means, opened(target) as log:
        return ForgetResponses(await plans(log, wanted, means, wish))


async def forget(
    target: LogTarget,
    wanted: ForgetTarget,
    wish: Wish,
    seconds: float,
    report: Callable[[str], None],
) -> ForgetResponses:
    """Forget something; a cluster is waited for `seconds`.

    Raises UnknownTarget, and NoStore if another process writes the store.
    """
    chosen = chosen_for(target, report)
    async with (
        _means(target, chosen) as means,
        open_client(target, report, watched(seconds, report), chosen=lambda: chosen) as client,
        opened(target) as log,
    ):
        return await forget_with(client, log, means, wanted, wish, report)


async def forget_with(
    client: Client,
    log: SearchableLog,
    means: PlanningDependencies,
    wanted: ForgetTarget,
    wish: Wish,
    report: Callable[[str], None] = lambda _: None,
) -> ForgetResponses:
    """Do as `forget` with a client that is open, of a log with the key of `means`.

    Requests refused because their memories changed after planning are planned and sent again;
    later records that repeat the forgotten text are requested too.
    """
    made: list[ForgetPlan] = []
    responses: list[Response] = []
    found = await plans(log, wanted, means, wish)
    while found:
        new = await client.submit([request for plan in found for request in plan.requests])
        again = may_retry(client, new, report)
        if again:
            found, new = _heeded(found, new)
        made += found
        responses += new
        wish = replace(wish, at=SystemClock().now())
        if again:
            found = await plans(log, wanted, means, wish)
        elif client.attempts_left and not undecided(new):
            found = await left_over(log, found, means, wish)
        else:
            break
    return ForgetResponses(made, responses)


def _heeded(
    found: Sequence[ForgetPlan], responses: Sequence[Response]
) -> tuple[list[ForgetPlan], list[Response]]:
    """Leave out plans and responses that were refused as out of date."""
    refused = {one.event.event_id for one in responses if is_out_of_date(one.decision)}
    plans_made = [
        plan for plan in found if refused.isdisjoint(one.event_id for one in plan.requests)
    ]
    return plans_made, [one for one in responses if one.event.event_id not in refused]


@asynccontextmanager
async def _means(
    target: LogTarget, chosen: ChosenModel, *, for_show: bool = False
) -> AsyncGenerator[PlanningDependencies]:
    key = _any_key(target) if for_show else key_of(target)
    async with wiring.judging(target.settings, SystemClock()) as judging:
        yield PlanningDependencies(key, chosen.policy, chosen.embedder, judging)


def key_of(target: LogTarget) -> TombstoneKey:
    """Return the key of a log; create a store's own if it has none.

    Raises InvalidSettings for a cluster without one.
    """
    settings, directory = target.settings, target.directory
    key = wiring.forget_key(settings.forget, directory)
    if key is None and directory is not None:
        wiring.new_key(directory)
        key = wiring.forget_key(settings.forget, directory)
    if key is None:
        raise InvalidSettings(
            "forget.key is not set: set it to a secret of 32 characters or more, the same for all "
            "services and commands"
        )
    return key


def _any_key(target: LogTarget) -> TombstoneKey:
    """Return a key to plan with where nothing is written."""
    return wiring.forget_key(target.settings.forget, target.directory) or TombstoneKey(b"")
