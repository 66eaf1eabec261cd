"""Forgetting: plans from the log what to erase, requests it, and removes it from every copy."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Self

from schemas.base import EventId, MemoryId, ScopeName
from schemas.decisions import Change, Erase, Merge, OnEvent, Verdict
from schemas.events import Forgotten, Remember
from schemas.memories import Standing
from schemas.topics import DECISIONS
from streams.clock.system import SystemClock
from streams.forget.core import (
    DecisionRecord,
    FactMentions,
    ForgetPlan,
    Kin,
    Past,
    doubts,
    kin_of,
    on_event,
    planned,
    repeating,
    still_told,
    texts_of,
    to_look_up,
)
from streams.model.embedding import Vector, pack, unpack
from streams.model.identity import decision_id, memory_id, named_memory_id
from streams.model.neighbours import StoredMemory, rank
from streams.model.policy import Policy
from streams.model.ports.failures import Fatal
from streams.model.ports.log import LogRecord, SearchableLog, records
from streams.model.ports.models import Embedder
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
from streams.store.app.reading import LogTarget, StoreReader, opened
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
        named = await _forgotten_before(wanted.memory, reader)
    if named is None:
        raise UnknownTarget(f"no memory in {reader.place} has the id {wanted.memory}")
    return ForgetTarget(memory=named)


async def _forgotten_before(identity: str, reader: StoreReader) -> MemoryId | None:
    """Return the forgotten memory that an event, or a producer's name, once made.

    The log has lost both, but the memory's id is derived from either.
    """
    async for entry in reader.decisions():
        for one in entry.decision.memories if isinstance(entry.decision, Erase) else ():
            scope = one.memory.scope
            ids = {
                memory_id(decision_id(scope, EventId(identity))),
                named_memory_id(scope, identity),
            }
            if one.memory.id in ids:
                return one.memory.id
    return None


async def plans(
    log: SearchableLog, wanted: ForgetTarget, means: PlanningDependencies, wish: Wish
) -> list[ForgetPlan]:
    """Plan how to forget what is wanted; return no plan for what is already forgotten.

    Raises UnknownTarget if it does not exist.
    """
    planning = await _Planning.of(log, means, wish)
    if wanted.memory is not None:
        return await planning.of_memory(wanted.memory)
    by_scope = await planning.by_scope(wanted.holds)
    if not by_scope:
        raise UnknownTarget(f"there is no scope {wanted.scope or f'of tenant {wanted.tenant}'}")
    found: list[ForgetPlan] = []
    for past in by_scope:
        told = still_told(past, means.key)
        again = set(told.values())
        if left := [i for i, stored in past.state.items() if _has_text(stored) or i in again]:
            found.append(await planning.plan(past, left, told))
    return found


async def left_over(
    log: SearchableLog, forgotten: Sequence[ForgetPlan], means: PlanningDependencies, wish: Wish
) -> list[ForgetPlan]:
    """Plan how to forget what still repeats text that these plans have forgotten.

    It entered the log between a plan and the decision on it.
    """
    scopes = {plan.requests[0].scope for plan in forgotten}
    gone = {identity for plan in forgotten for identity in plan.kin.gone}
    planning = await _Planning.of(log, means, wish)
    found: list[ForgetPlan] = []
    for past in await planning.by_scope(scopes.__contains__):
        told = still_told(past, means.key)
        if left := sorted(gone.intersection(told.values())):
            found.append(await planning.plan(past, left, told))
    return found


@dataclass(frozen=True)
class _Planning:
    """Plans how to fulfil one wish to forget, from what the log has now."""

    log: SearchableLog
    means: PlanningDependencies
    wish: Wish
    fences: Fences

    @classmethod
    async def of(cls, log: SearchableLog, means: PlanningDependencies, wish: Wish) -> Self:
        fences = Fences(await log.find_beginning(DECISIONS.name, [FENCE_HEADER], ""))
        return cls(log, means, wish, fences)

    async def of_memory(self, named: MemoryId) -> list[ForgetPlan]:
        """Plan how to forget a memory. Raises UnknownTarget if there is none."""
        first = await self.log.find(DECISIONS.name, MEMORY_ID_HEADER, [named])
        scopes = {one.decision.event.scope for one in self._past(first).found}
        if not scopes:
            raise UnknownTarget(f"no memory has the id {named}")
        past = await self._related(named) if self.log.is_indexed else Past(())
        if named not in past.state or not _has_text(past.state[named]):
            [past] = await self.by_scope(scopes.__contains__)  # no header finds what repeats it
        if named not in past.state:
            raise UnknownTarget(f"no memory has the id {named}")
        plan = await self.plan(past, [named], still_told(past, self.means.key))
        return [plan] if _has_text(past.state[named]) or plan.decisions else []

    async def by_scope(self, holds: Callable[[ScopeName], bool]) -> list[Past]:
        """Return the decisions of each scope that `holds` selects, by a scan of the whole log."""
        gathered: dict[ScopeName, list[LogRecord]] = {}
        async for record in records(self.log, DECISIONS.name):
            if is_decision(record) and holds(scope := scope_of(record)):
                gathered.setdefault(scope, []).append(record)
        return [self._past(found) for found in gathered.values()]

    async def plan(
        self, past: Past, named: Sequence[MemoryId], told: Mapping[int, MemoryId]
    ) -> ForgetPlan:
        """Plan how to forget memories of one scope; `told` is what still tells of forgotten ones."""
        kin = kin_of(past, named)
        texts = texts_of(past, kin.gone)
        cut = repeating(past, kin, (text for said in texts.values() for text in said))
        own = await self._own(past, kin)
        own |= {offset for offset, text in cut.items() if not text}
        said = FactMentions(
            texts, own, cut, {offset for offset, gone in told.items() if gone in kin.gone}
        )
        repeated = [one.decision.event.text for one in past.found if one.offset in cut]
        kept = {identity: Texts(own_texts, repeated) for identity, own_texts in texts.items()}
        left = [
            self._left(past.state[identity], kept.get(identity))
            for identity in kin.every
            if identity in past.state
        ]
        return planned(past, kin, said, left, self.wish)

    def _left(self, stored: StoredMemory, texts: Texts | None) -> Forgotten:
        """Return what is kept of a memory: a tombstone, or nothing if its facts may be said again."""
        memory, model = stored.memory, self.means.embedder.model
        vector = stored.vector
        if vector is None:
            raise TypeError(f"memory {memory.id} has no vector in the log")
        if memory.status is Standing.FORGOTTEN:
            return Forgotten(
                memory_id=memory.id,
                version=memory.version,
                tombstone=tombstone_of(memory),
                embedding=pack(vector, model),
            )
        if texts is None:
            return cleared(memory, vector.shape[0], model)
        reading = self.means.judging.readings.of(memory.text)
        return tombstone(self.means.key, memory, vector, texts, reading, model)

    async def _own(self, past: Past, kin: Kin) -> set[int]:
        """Return the offsets of doubtful decisions whose events say what a forgotten memory says."""
        gone = [past.state[identity] for identity in sorted(kin.gone)]
        made = {one.offset: one.decision for one in past.found}
        asked: list[tuple[int, CandidatePair]] = []
        for offset, event in doubts(past, kin):
            vector = await self._vector_of(made[offset], event)
            rules = self.means.policy.rules(event.scope)
            near = rank(vector, gone, bands=rules.bands, floor=-1.0, limit=len(gone))
            asked += [(offset, CandidatePair(event, one, rules)) for one in near]
        judged = await self.means.judging.judge([pair for _, pair in asked])
        found = zip(asked, judged, strict=True)
        return {offset for (offset, _), one in found if one.verdict in _SAYS_IT}

    async def _vector_of(self, decision: OnEvent, event: Remember) -> Vector:
        """Return the vector of an event's text, taken from its decision if that holds it."""
        made = decision.event_embedding if isinstance(decision, Merge) else None
        if isinstance(decision, Change) and not isinstance(decision, Merge):
            made = decision.embedding
        if made is not None and made.model == self.means.embedder.model:
            return unpack(made)
        [embedded] = await self.means.embedder.embed([event.text])
        return embedded.vector

    async def _related(self, named: MemoryId) -> Past:
        """Return all decisions related to a memory, found by following ids until none is new."""
        found, looked_up, ahead = list[LogRecord](), set[MemoryId](), {named}
        past = Past(())
        while ahead:
            for header in (MEMORY_ID_HEADER, QUOTED_ID_HEADER):
                found += await self.log.find(DECISIONS.name, header, sorted(ahead))
            looked_up |= ahead
            past = self._past(found)
            ahead = to_look_up(past, kin_of(past, [named])) - looked_up
        ids = [one.decision.decision_id for one in past.found]
        return self._past([*found, *await self.log.find(DECISIONS.name, DECISION_ID_HEADER, ids)])

    def _past(self, found: Sequence[LogRecord]) -> Past:
        """Return the decisions on events in records of one scope, each once, in log order.

        Raises Fatal if one counts but cannot be read.
        """
        by_place = {(one.partition, one.offset): one for one in found if is_decision(one)}
        past: list[DecisionRecord] = []
        for (_, offset), record in sorted(by_place.items()):
            counts = self.fences.admit(record)
            try:
                decision = on_event(read_decision(record))
            except Fatal:
                if counts:
                    raise
                continue
            if decision is not None:
                past.append(DecisionRecord(offset, decision, counts))
        return Past(past)


def _has_text(stored: StoredMemory) -> bool:
    return stored.memory.status is not Standing.FORGOTTEN


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
    kept = wiring.forget_key(target.settings.forget, target.directory)
    key = (kept or TombstoneKey(b"")) if for_show else key_of(target)
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
