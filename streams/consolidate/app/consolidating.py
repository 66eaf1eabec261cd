"""Consolidation: finds memories of a scope that are one fact, and proposes them to the owner.

A pass takes the scopes that are due, in batches. Each round reads their memories and proposes
groups; the next round reads what the owner decided, until nothing more is found. A pass may stop
anywhere: each proposal was decided on or it was not, and the next pass continues.
"""

import hashlib
from collections.abc import (
    AsyncGenerator,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from schemas.base import EventId, MemoryId, ScopeName
from schemas.decisions import Ignore, Marker, OnEvent, Reason, Supersession
from schemas.events import Consolidate, Event
from schemas.memories import Memory
from streams.clock.stopwatch import time_limit, timed
from streams.clock.system import SystemClock
from streams.consolidate.app.consolidated import ConsolidationPass, DecidedProposal, ScopePass, Why
from streams.consolidate.core.redundancy import supersession
from streams.consolidate.flow import CandidateGeneration, Known, PassBudget
from streams.consolidate.world import LastPass, Passes
from streams.model.identity import decision_id
from streams.model.neighbours import StoredMemory
from streams.model.policy import Policy
from streams.model.ports.clock import Clock
from streams.model.ports.index import Index
from streams.model.scope import lies_in
from streams.stage.core.consolidation import listed_bytes, proposed
from streams.stage.core.ledger import touched
from streams.stage.flow.judging import Judging
from streams.store.app import wiring
from streams.store.app.client import Client, Response
from streams.store.app.cluster_client import Waiting
from streams.store.app.embedding import policy_of
from streams.store.app.product_settings import ConsolidateSettings
from streams.store.app.reading import LogTarget, StoreReader, opened, reader_of
from streams.store.app.requests import open_client, open_dry_run

_NEVER = datetime.min.replace(tzinfo=UTC)

_TOGETHER = 2_000
"""Memories per batch of scopes whose proposals are decided on together: about 8 MB."""


_ANSWER_SECONDS = 30.0
"""How long the services may take to decide on a batch of proposals."""


@dataclass(frozen=True)
class ScopeSelection:
    """Which scopes to examine: one and those below it, or all.

    `now` includes scopes that are not due; `force` includes those from which more memories would
    be removed than the policy's brake allows.
    """

    scope: str | None = None
    now: bool = False
    force: bool = False

    def has(self, scope: ScopeName) -> bool:
        return self.scope is None or lies_in(scope, self.scope.rstrip("/"))


@dataclass
class _Census:
    """How many live memories a scope has, how many unchecked, and when one was seen last."""

    newest: datetime
    live: int = 0
    unchecked: int = 0

    def add(self, memory: Memory) -> None:
        self.live += 1
        self.unchecked += memory.unchecked is not None
        self.newest = max(self.newest, memory.last_seen_at)


@dataclass
class _Scope:
    """The state of one scope during a pass."""

    name: ScopeName
    last: LastPass | None
    memories: list[StoredMemory]
    asked: set[EventId] = field(default_factory=set[EventId])
    known: Known = field(default_factory=Known)
    joined: list[DecidedProposal] = field(default_factory=list[DecidedProposal])
    checked: int = 0
    before: int = 0
    bytes_before: int = 0
    judged: int = 0
    rounds: int = 0
    why: Why = "done"
    goes_on: bool = True
    changed: set[MemoryId] = field(default_factory=set[MemoryId])
    stale: bool = False

    def __post_init__(self) -> None:
        self.before, self.bytes_before = len(self.live), listed_bytes(self.live)

    @property
    def live(self) -> list[Memory]:
        return [one.memory for one in self.memories if one.memory.live]

    async def renew(self, index: Index) -> None:
        """Re-read the memories that decisions changed; all if another writer changed some."""
        if self.stale:
            self.memories = await _of(index, self.name)
        else:
            known = {one.memory.id: one for one in self.memories}
            self.memories = list((known | await index.get(sorted(self.changed))).values())
        self.changed, self.stale = set(), False


class Consolidation:
    """Passes over the scopes of a store or a cluster."""

    def __init__(
        self,
        client: Client,
        policy: Policy,
        judging: Judging,
        settings: ConsolidateSettings,
        passes: Passes,
        clock: Clock,
    ) -> None:
        self._client = client
        self._policy = policy
        self._settings = settings
        self._passes = passes
        self._clock = clock
        self._began = clock.now()
        self._nominating = CandidateGeneration(
            judging, policy, settings.neighbours_max, settings.members_max
        )

    async def run(
        self, asked: ScopeSelection, done: Callable[[int, int], None] = lambda _, __: None
    ) -> ConsolidationPass:
        """Make one pass within the budget; scopes left out stay due.

        `done` receives the number of memories examined since its last call, and the total.
        """
        self._began = self._clock.now()
        budget = PassBudget(
            time_limit(self._settings.seconds_max), self._settings.llm_questions_max
        )
        took, passes, skipped = list[float](), list[ScopePass](), dict[ScopeName, Why]()
        with timed(took.append):
            census = await self._census(asked)
            due = self._due(census, asked, skipped)
            total = sum(census[scope].live for scope in due)
            for some in _together(due, census):
                if budget.is_over():
                    skipped |= dict.fromkeys(some, "no-time")
                    continue
                passes += await self._pass(some, budget, asked)
                done(sum(census[scope].live for scope in some), total)
        return ConsolidationPass(self._policy.id, tuple(passes), skipped, seconds=sum(took))

    @property
    def _author(self) -> str:
        """The proposals' author: a policy proposes the same memories once, whoever runs it."""
        return f"consolidation by {self._policy.id}"

    @property
    def _author_now(self) -> str:
        """Who asks to make up for what a memory lacks: what was in vain is asked for another time."""
        return f"{self._author} since {self._began.isoformat()}"

    async def _census(self, asked: ScopeSelection) -> dict[ScopeName, _Census]:
        census: dict[ScopeName, _Census] = {}
        async for stored in (await self._client.index()).scan():
            memory = stored.memory
            if memory.live and asked.has(memory.scope):
                census.setdefault(memory.scope, _Census(memory.last_seen_at)).add(memory)
        return census

    def _due(
        self,
        census: Mapping[ScopeName, _Census],
        asked: ScopeSelection,
        skipped: dict[ScopeName, Why],
    ) -> list[ScopeName]:
        """Return the scopes to examine, those with the oldest last pass first."""
        due: list[tuple[datetime, ScopeName]] = []
        for scope, counted in census.items():
            last = self._passes.last(scope)
            why = None if asked.now else self._not_due(counted, last)
            if why is None:
                due.append((_NEVER if last is None else last.at, scope))
            else:
                skipped[scope] = why
        return [scope for _, scope in sorted(due)]

    def _not_due(self, counted: _Census, last: LastPass | None) -> Why | None:
        """Return why a scope is not due; None if it is. A time in the future is disregarded."""
        settings, now = self._settings, self._clock.now()
        if counted.live <= settings.memories_min and not counted.unchecked:
            return "few"
        if last is not None and _since(last.at, now) < timedelta(hours=settings.hours_min):
            return "recent"
        if _since(counted.newest, now) < timedelta(minutes=settings.quiet_minutes):
            return "busy"
        return None

    async def _pass(
        self, scopes: Sequence[ScopeName], budget: PassBudget, asked: ScopeSelection
    ) -> list[ScopePass]:
        index = await self._client.index()
        works = [_Scope(name, self._passes.last(name), await _of(index, name)) for name in scopes]
        for work in works:
            is_known = work.last is not None and work.last.found == self._found(work)
            if is_known and not (asked.now or any(memory.unchecked for memory in work.live)):
                work.why, work.goes_on = "unchanged", False
        while open_ := [work for work in works if work.goes_on]:
            await self._round(open_, budget, asked)
        return [self._ended(work) for work in works]

    async def _round(
        self, works: Sequence[_Scope], budget: PassBudget, asked: ScopeSelection
    ) -> None:
        """Propose the groups found now; continue with the scopes that this changed."""
        wanted = [
            (work, one) for work in works for one in await self._nominate(work, budget, asked)
        ]
        for work in works:
            work.goes_on = False
        decided = await self._client.submit([event for _, (event, _) in wanted])
        for (work, (event, members)), response in zip(wanted, decided, strict=True):
            decision = response.decision
            if decision is None or isinstance(decision, Marker):
                work.why = "no-answer"
                continue
            if len(members) > 1:
                work.joined.append(DecidedProposal(event, members, decision))
            work.checked += decision.evidence.reason is Reason.CHECKED
            work.goes_on |= _changes(decision) or _leaves_unchecked(decision, members)
            work.changed |= set(touched(decision))
            work.stale |= decision.evidence.reason is Reason.OUT_OF_DATE
        index = await self._client.index()
        for work in {id(work): work for work, _ in wanted}.values():
            await work.renew(index)
            work.rounds += 1
            if work.goes_on and work.rounds >= self._settings.rounds_max:
                work.why, work.goes_on = "unfinished", False

    async def _nominate(
        self, work: _Scope, budget: PassBudget, asked: ScopeSelection
    ) -> list[tuple[Consolidate, tuple[Memory, ...]]]:
        """Return new proposals with their memories; each is made only once per pass."""
        found = await self._nominating.nominate(work.name, work.memories, budget, work.known)
        work.judged += found.judged
        if not found.complete:
            work.why = "budget"
        elif found.degraded:
            work.why = "degraded"
        if not asked.force and self._too_many(work, found.groups):
            work.why = "too-many"
            return []
        groups = self._new(work, self._author, found.groups)
        waiting = {memory.id for _, group in groups for memory in group}
        alone = _unchecked(work.live, waiting, compared=found.complete)
        return groups + self._new(work, self._author_now, alone)

    def _new(
        self, work: _Scope, author: str, groups: Iterable[tuple[Memory, ...]]
    ) -> list[tuple[Consolidate, tuple[Memory, ...]]]:
        """Return the proposals of groups that were not made in this pass."""
        made = [(proposed(work.name, author, group), group) for group in groups]
        new = [(event, group) for event, group in made if event.event_id not in work.asked]
        work.asked |= {event.event_id for event, _ in new}
        return new

    def _too_many(self, work: _Scope, groups: Sequence[Sequence[Memory]]) -> bool:
        """Return whether this pass would remove more of a scope than the policy's brake allows."""
        brake = self._policy.rules(work.name).brake
        going = work.before - len(work.live) + sum(len(group) - 1 for group in groups)
        enough = brake.enabled and work.before >= brake.decisions_min
        return enough and going > brake.removals_max * work.before

    def _ended(self, work: _Scope) -> ScopePass:
        """Record the pass, unless something was left out only for lack of time."""
        last, now = work.last, self._clock.now()
        if work.why not in {"budget", "no-answer", "unfinished"}:
            complete = work.why in {"done", "unchanged"}
            self._passes.keep(work.name, LastPass(now, self._found(work) if complete else None))
        chains = supersession({one.memory.id: one.memory for one in work.memories})
        return ScopePass(
            scope=work.name,
            last_at=None if last is None else last.at,
            at=now,
            why=work.why,
            before=work.before,
            after=len(work.live),
            bytes_before=work.bytes_before,
            bytes_after=listed_bytes(work.live),
            judged=work.judged,
            rounds=work.rounds,
            checked=work.checked,
            depth_max=chains.depth_max,
            without_live_successor=len(chains.without_live_successor),
            groups=tuple(work.joined),
        )

    def _found(self, work: _Scope) -> str:
        """Return a digest that changes with the policy or with the scope's live memories."""
        versions = sorted(f"{memory.id} {memory.version}" for memory in work.live)
        return hashlib.sha256("\n".join([self._policy.id, *versions]).encode()).hexdigest()


@asynccontextmanager
async def consolidation(
    target: LogTarget, *, dry_run: bool, report: Callable[[str], None]
) -> AsyncGenerator[Consolidation]:
    """Open a store or a cluster for consolidation by the settings' policy.

    With `dry_run`, decisions are made on a copy of the memories in this process and discarded.
    """
    policy, settings = policy_of(target), target.settings
    async with AsyncExitStack() as stack:
        judging = await stack.enter_async_context(wiring.judging(settings, SystemClock()))
        judging.keep_judgements()
        client = await stack.enter_async_context(
            open_dry_run(target, report, judging)
            if dry_run
            else _open_client(target, report, judging)
        )
        passes = Passes(_state(target), read_only=dry_run)
        stack.callback(passes.close)
        yield Consolidation(client, policy, judging, settings.consolidate, passes, SystemClock())


@asynccontextmanager
async def _open_client(
    target: LogTarget, report: Callable[[str], None], judging: Judging
) -> AsyncGenerator[Client]:
    waiting = Waiting(lambda: _ANSWER_SECONDS)
    async with (
        open_client(target, report, waiting, judging=judging) as client,
        opened(target) as log,
    ):
        yield _OnceClient(client, reader_of(log, target)) if log.is_indexed else client


@dataclass(frozen=True)
class _OnceClient:
    """Implements Client: an event that was decided on before is not submitted again."""

    client: Client
    reader: StoreReader
    attempts_left = 0

    async def index(self) -> Index:
        return await self.client.index()

    async def submit(self, events: Sequence[Event]) -> list[Response]:
        ids = [decision_id(one.scope, one.event_id) for one in events]
        known = await self.reader.on_events(ids)
        new = [one for identity, one in zip(ids, events, strict=True) if identity not in known]
        made = {one.event.event_id: one for one in await self.client.submit(new)}
        return [
            made.get(event.event_id) or Response(event, known[identity])
            for identity, event in zip(ids, events, strict=True)
        ]


def _state(target: LogTarget) -> Path | None:
    wanted, directory = target.settings.consolidate.state, target.directory
    return directory.passes if wanted is None and directory is not None else wanted


async def _of(index: Index, scope: ScopeName) -> list[StoredMemory]:
    return [stored async for stored in index.scan(scope)]


def _together(
    scopes: Sequence[ScopeName], census: Mapping[ScopeName, _Census]
) -> Iterator[list[ScopeName]]:
    """Yield batches of scopes: at least one scope each, and limited by their memories."""
    some: list[ScopeName] = []
    memories = 0
    for scope in scopes:
        if some and memories + census[scope].live > _TOGETHER:
            yield some
            some, memories = [], 0
        some.append(scope)
        memories += census[scope].live
    if some:
        yield some


def _unchecked(
    memories: Sequence[Memory], waiting: Collection[MemoryId], *, compared: bool
) -> Iterator[tuple[Memory]]:
    """Yield the memories, each by itself, that need a vector, or none of what they lacked any more.

    `compared` tells whether all were. Those that are `waiting` may be joined with others first.
    """
    for memory in memories:
        is_done = memory.unchecked == "not-compared" and compared and memory.id not in waiting
        if memory.unchecked == "not-embedded" or is_done:
            yield (memory,)


def _changes(decision: OnEvent) -> bool:
    """Tell whether it is worth looking again: something was joined, or has changed meanwhile."""
    again = {Reason.OUT_OF_DATE, Reason.EMBEDDED}
    return isinstance(decision, Supersession) or decision.evidence.reason in again


def _leaves_unchecked(decision: OnEvent, members: Sequence[Memory]) -> bool:
    """Tell whether a group was kept apart that has memories which count as compared by that."""
    apart = isinstance(decision, Ignore) and len(members) > 1
    return apart and any(memory.unchecked for memory in members)


def _since(then: datetime, now: datetime) -> timedelta:
    return now - then if then <= now else timedelta.max
