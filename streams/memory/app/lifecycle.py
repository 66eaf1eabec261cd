"""Every operation on memories, for servers: add, read, correct, undo, forget.

Authorization is not checked here: the caller has checked the scope of each request.
"""

import base64
import binascii
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Literal, TypeVar

from schemas.base import DecisionId, MemoryId, ScopeName
from schemas.decisions import Decision, Marker, Reinforce, Reject
from schemas.events import Ended, Event, Pin, Rate, Remember, Retire
from schemas.memories import Memory, Standing
from streams.changes.app.lineages import IncompleteUndo, MemoryLineage, history, planned
from streams.changes.app.updating import addressing, says_already, settling, stands
from streams.changes.core.history import not_live
from streams.forget.app.forgetting import (
    ForgetPlans,
    ForgetTarget,
    PlanningDependencies,
    UnknownTarget,
    plans,
)
from streams.inspect.app import explained, story
from streams.memory.app.queueing import Deciding, EventResult
from streams.model.identity import decision_id, memory_id
from streams.model.ports import Clock, Unusable
from streams.recall.app.loading import Loading, hint_of
from streams.recall.app.recalling import SUGGESTED_FROM_MAX, RecallRequest, nothing, recalled
from streams.recall.core.recall import CountTokens, PromptBlock
from streams.reviews.app import answer_to, questions
from streams.stage.core.decide import target_of
from streams.stage.core.ledger import touched
from streams.stage.core.lineage import CannotUndo, UndoPlan, Wish
from streams.stage.core.reviewing import ReviewQuestion
from streams.stage.flow.decisions import CountedDecision
from streams.store.app.client import is_out_of_date
from streams.store.app.conflicts import (
    Contradictions,
    KeptMemory,
    among,
    conflicts_of,
    contradicted_by,
    kept,
)
from streams.store.app.failures import UsageError
from streams.store.app.reading import AmbiguousPrefix, StoreReader, everywhere
from streams.store.app.requests import distinct, request

_ID_LENGTH = 36
"""The characters of an id: a UUID."""

_Request = TypeVar("_Request", Pin, Rate, Retire)


class DeclineReason(Enum):
    """Why a request is declined."""

    UNKNOWN = "unknown"
    FORGOTTEN = "forgotten"
    CONFLICT = "conflict"
    UNFIT = "unfit"
    NOT_HERE = "not-here"


class DeclinedRequest(Exception):
    """A declined request: one line that says why, and what to do instead."""

    def __init__(self, why: DeclineReason, message: str, field: str | None = None) -> None:
        """`field` names the field of the request at fault."""
        super().__init__(message)
        self.why = why
        self.field = field


@dataclass(frozen=True)
class UndoResult:
    """An undo and its decisions; no plan if only the rest of an earlier undo was decided on."""

    plan: UndoPlan | None
    told: Sequence[EventResult]


@dataclass(frozen=True)
class ForgetDecisions(ForgetPlans):
    """The plans of forgetting, and their decisions."""

    told: Sequence[EventResult]


@dataclass(frozen=True)
class Lifecycle:
    """Carries out requests about memories. For one event loop.

    `reader` reads the log: a store's at once, that of a cluster from its beginning. It is None where
    nothing is done that takes reading the log. `means` are to forget with; only the one who writes
    a store has them at hand.
    """

    loading: Loading
    deciding: Deciding
    count: CountTokens
    clock: Clock
    reader: StoreReader | None = None
    means: PlanningDependencies | None = None

    async def memory(
        self,
        identity: str,
        within: Callable[[ScopeName], bool] = everywhere,
        field: str = "memory_id",
    ) -> Memory:
        """Return the memory that an id means, live or retired; a forgotten one has no text.

        Where the log is read, what is not a whole id is resolved in the scopes `within`, as
        `StoreReader.memory_id` does.
        """
        index, known = await self.loading.index(), MemoryId(identity)
        held = await index.get([known])
        if not held and self.reader is not None:
            with _unambiguous(field):
                known = await self.reader.memory_id(identity, within) or known
            held = await index.get([known])
        if not held and self.reader is None and len(identity) != _ID_LENGTH:
            said = f"no memory has the whole id {identity}; beside a cluster give the whole id"
            raise DeclinedRequest(DeclineReason.UNKNOWN, said, field)
        if not held:
            raise unknown("memory", identity, field)
        return held[known].memory

    async def kept(self, memory: Memory) -> KeptMemory:
        """Return a memory with what it is in conflict with."""
        return kept(memory, await conflicts_of(await self.loading.index(), [memory.id]))

    async def contradicted(self, decisions: Iterable[Decision]) -> Contradictions:
        """Return what decisions found contradicted."""
        return await contradicted_by(self.loading.index, decisions)

    async def listed(
        self,
        scope: ScopeName | None,
        limit: int,
        after: str | None,
        *,
        retired: bool,
        within: Callable[[ScopeName], bool] = everywhere,
    ) -> tuple[list[KeptMemory], str | None]:
        """Return a page of a scope's memories, oldest first; the next is behind `after`.

        Without a scope, those of all scopes `within`.
        """
        start = None if after is None else _place_of(after)
        index = await self.loading.index()
        stored = [one async for one in index.scan(scope) if within(one.memory.scope)]
        known, every = among(stored), [one.memory for one in stored]
        shown = [one for one in every if one.live or (retired and not is_forgotten(one))]
        behind = sorted((one for one in shown if start is None or _place(one) > start), key=_place)
        part = [kept(memory, known) for memory in behind[:limit]]
        return part, _written(part[-1]) if len(part) < len(behind) else None

    async def hint(
        self,
        scope: ScopeName,
        has: Callable[[ScopeName], bool],
        named: Callable[[ScopeName], bool],
    ) -> str | None:
        """Return what `hint_of` says where nothing was found."""
        return await hint_of(await self.loading.index(), scope, has, named, SUGGESTED_FROM_MAX)

    async def recall(
        self, asked: RecallRequest, named: Callable[[ScopeName], bool]
    ) -> tuple[PromptBlock, str | None]:
        """Return a block for a prompt, and what `nothing` says of it."""
        index = await self.loading.index()
        try:
            block = await recalled(index, asked, self.loading.vector_of, self.count)
        except Unusable as error:
            raise DeclinedRequest(DeclineReason.UNFIT, f"{error}", "scope") from error
        if not block.text:
            least = block.tokens_min
            said = f"is {asked.budget}, and a block takes {least} tokens; give {least} or more"
            raise DeclinedRequest(DeclineReason.UNFIT, said, "budget")
        most = SUGGESTED_FROM_MAX
        return block, await nothing(index, block, asked, named=named, most=most)

    async def decision(
        self, identity: str, within: Callable[[ScopeName], bool] = everywhere
    ) -> Decision:
        """Return the decision that an id means.

        What is not a whole id is resolved in the scopes `within`, as `StoreReader.decision_id` does.
        """
        reader, known = self.past("explain a decision"), DecisionId(identity)
        found = await reader.on_events([known])
        if not found:
            with _unambiguous("decision_id"):
                known = await reader.decision_id(identity, within) or known
            found = await reader.on_events([known])
        if not found:
            raise unknown("decision", identity)
        return found[known]

    async def decisions(
        self, scope: ScopeName, kind: str | None, limit: int, after: int | None
    ) -> tuple[list[CountedDecision], int | None]:
        """Return a page of the decisions on a scope, the newest first; the next is behind `after`."""
        reader = self.past("list decisions")
        found = await reader.newest_of(scope, kind, after, limit + 1)
        part = found[:limit]
        return part, part[-1].position.offset if len(found) > limit else None

    async def story(self, decision: Decision) -> list[str]:
        """Tell a decision in plain words, line by line."""
        return await story(self.past("explain a decision"), decision)

    async def explain(
        self, identity: str, within: Callable[[ScopeName], bool] = everywhere
    ) -> list[str]:
        """Explain a decision, an event or a memory in the scopes `within`, line by line."""
        reader = self.past("explain a decision or a memory")
        with _unambiguous("id"):
            found = await reader.about(identity, within)
        if found is None:
            raise unknown("decision, event or memory", identity)
        return await explained(reader, found)

    async def history(self, identity: MemoryId) -> MemoryLineage:
        """Return the life of a memory."""
        return await history(self.past("show a memory's history"), identity)

    async def addressing(self, memory: Memory) -> dict[str, object]:
        """Return the fields by which an event gives a memory a new text.

        Where the log is not read, its name is not known, and a new memory takes its place.
        """
        if self.reader is None:
            return {"memory_id": None, "supersedes": (memory.id,)}
        return await addressing(self.reader, memory)

    async def update(self, memory: Memory, event: Remember, author: str) -> list[EventResult]:
        """Give a memory the text of an event that addresses it, without comparing the two.

        An event supersedes a memory that has no name; for policies under which it may not, an
        answer says that the new memory stands.
        """
        if event.memory_id is not None:
            return await self._rename(memory, event, author)
        made = memory_id(decision_id(event.scope, event.event_id))
        if memory.superseded is None or memory.superseded.by != made:  # else it is a retry
            require_free(memory)
        first, second = await self.deciding.decide([event, stands(event, memory, author)])
        decision = first.decision
        if first.refused or isinstance(decision, Marker) or _changes(decision, memory):
            return [first]
        if isinstance(decision, Reinforce) and decision.memory.id != made:  # the text is known
            answer = stands(event, memory, author, decision.memory)
            [second] = await self.deciding.decide([answer])
        if second.decision is not None and not _changes(second.decision, memory):
            raise changed(memory.id)
        return [first, second]

    async def _rename(self, memory: Memory, event: Remember, author: str) -> list[EventResult]:
        require_free(memory)
        [told] = await self.deciding.decide([event])
        decided = [] if told.decision is None else [told.decision]
        answers = await settling(self.loading.index, event, memory, decided, lambda: author)
        return [told, *(await self.deciding.decide(answers) if answers else ())]

    async def pin(
        self, memory: Memory, author: str, note: str, *, pinned: bool
    ) -> list[EventResult]:
        """Pin or unpin a memory: a pinned one is not merged, replaced or ended."""
        require_live(memory)
        return await self._ask(Pin, memory, author, note, memory_id=memory.id, pinned=pinned)

    async def retire(
        self, memory: Memory, author: str, note: str, reason: Ended
    ) -> list[EventResult]:
        """Retire a memory without a successor."""
        require_free(memory)
        targets = (target_of(memory),)
        return await self._ask(Retire, memory, author, note, memories=targets, reason=reason)

    async def distinct(
        self, memory: Memory, other: Memory, author: str, note: str
    ) -> list[EventResult]:
        """Keep two live memories of a scope: both are right."""
        require_live(memory)
        require_live(other, "other_id")
        try:
            event = distinct(memory, other, author=author, note=note)
        except UsageError as error:
            raise DeclinedRequest(DeclineReason.UNFIT, f"{error}", error.field) from error
        return await self._decided(event, memory)

    async def rate(
        self, memory: Memory, author: str, note: str, counts: Mapping[str, int]
    ) -> list[EventResult]:
        """Add to how often a memory was accessed, helpful or harmful."""
        require_live(memory)
        return await self._ask(Rate, memory, author, note, memory_id=memory.id, **counts)

    async def undo(self, identity: DecisionId, author: str, note: str) -> UndoResult:
        """Take a decision back, with what rests on it."""
        reader = self.past("undo a decision")
        async with self.deciding.alone() as decide:
            try:
                plan = await planned(reader, identity, Wish(author, self.clock.now(), note))
            except IncompleteUndo as cut:
                return UndoResult(None, await decide(cut.events))
            except CannotUndo as error:
                raise DeclinedRequest(DeclineReason.CONFLICT, f"{error}", "decision_id") from error
            if plan is None:
                raise unknown("decision", identity)
            told = await decide(plan.events)
        if is_out_of_date(told[0].decision):
            said = "its memories have changed meanwhile; ask again"
            raise DeclinedRequest(DeclineReason.CONFLICT, said, "decision_id")
        return UndoResult(plan, told)

    async def forget(self, identity: MemoryId, author: str, note: str) -> ForgetDecisions:
        """Let nothing that is kept say any more what a memory said."""
        past, means = self.past("forget a memory"), self.means
        if means is None:
            raise _not_here("forget a memory")
        wish, wanted = Wish(author, self.clock.now(), note), ForgetTarget(memory=identity)
        async with self.deciding.alone() as decide:
            try:
                found = await plans(past.log, wanted, means, wish)
            except UnknownTarget as error:
                raise unknown("memory", identity) from error
            asked: list[Event] = [one for plan in found for one in plan.requests]
            return ForgetDecisions(found, await decide(asked))

    async def questions(self) -> list[ReviewQuestion]:
        """Return every question to a person, the newest first."""
        return (await questions(self.past("list reviews"))).all()

    async def answer(
        self, question: ReviewQuestion, verdict: str, author: str, note: str
    ) -> list[EventResult]:
        """Settle a question."""
        if not question.answerable:
            said = f"question {question.review.id} is closed: {question.state}"
            raise DeclinedRequest(DeclineReason.CONFLICT, said, "review_id")
        event = answer_to(
            question.review,
            verdict,
            author=author,
            note=note,
            clock=self.clock,
            reopened_by=question.reopened_by,
        )
        return await self.deciding.decide([event])

    async def _ask(
        self, kind: type[_Request], memory: Memory, author: str, note: str, **fields: object
    ) -> list[EventResult]:
        event = request(kind, memory.scope, memory.id, author=author, note=note, **fields)
        return await self._decided(event, memory)

    async def _decided(self, event: Event, memory: Memory) -> list[EventResult]:
        told = await self.deciding.decide([event])
        if is_out_of_date(told[0].decision):
            raise changed(memory.id)
        return told

    def past(self, what: str) -> StoreReader:
        """Return the reader of the log, which `what` takes. Raises DeclinedRequest without one."""
        if self.reader is None:
            raise _not_here(what)
        return self.reader


def _not_here(what: str) -> DeclinedRequest:
    return DeclinedRequest(
        DeclineReason.NOT_HERE,
        f"to {what} requires reading the cluster's log: use the command of memsieve with "
        "--kafka, or serve the API on its own store with --store",
    )


_FIELDS = {
    "memory": "memory_id",
    "decision": "decision_id",
    "question": "review_id",
    "decision, event or memory": "id",
}


def unknown(
    what: Literal["memory", "decision", "question", "decision, event or memory"],
    identity: str,
    field: str | None = None,
) -> DeclinedRequest:
    """Return that nothing has an id; also used for what the caller may not see."""
    said = f"no {what} in your scopes has the id {identity}"
    return DeclinedRequest(DeclineReason.UNKNOWN, said, field or _FIELDS[what])


@contextmanager
def _unambiguous(field: str) -> Generator[None]:
    """Decline a request whose id means several things."""
    try:
        yield
    except AmbiguousPrefix as error:
        raise DeclinedRequest(DeclineReason.UNFIT, f"{error}", field) from error


def changed(identity: MemoryId) -> DeclinedRequest:
    """Return that a memory has changed since the request was made."""
    return DeclinedRequest(
        DeclineReason.CONFLICT,
        f"memory {identity} has changed meanwhile; check it and ask again",
        "memory_id",
    )


def is_forgotten(memory: Memory) -> bool:
    return memory.status is Standing.FORGOTTEN


def require_told(memory: Memory, field: str = "memory_id") -> None:
    """Raise DeclinedRequest if a memory is forgotten; `field` of the request names it."""
    if is_forgotten(memory):
        raise DeclinedRequest(DeclineReason.FORGOTTEN, f"memory {memory.id} is forgotten", field)


def require_live(memory: Memory, field: str = "memory_id") -> None:
    """Raise DeclinedRequest if a memory is not live; `field` of the request names it."""
    require_told(memory, field)
    if not memory.live:
        ended = memory.superseded is None or memory.superseded.by is None
        remedy = "; undo its retirement first" if ended else ""
        raise DeclinedRequest(DeclineReason.CONFLICT, not_live(memory) + remedy, field)


def require_free(memory: Memory) -> None:
    """Raise DeclinedRequest if a memory is not live or is pinned."""
    require_live(memory)
    if memory.pinned:
        raise DeclinedRequest(
            DeclineReason.CONFLICT, f"memory {memory.id} is pinned; unpin it first", "memory_id"
        )


def require_news(memory: Memory, text: str, others: Collection[str]) -> None:
    """Raise DeclinedRequest if an update would change nothing; `others` are its other fields."""
    if same := says_already(memory, text, others):
        said = f"text: {same}; nothing was changed"
        raise DeclinedRequest(DeclineReason.CONFLICT, said, "text")


def scope_of(decision: Decision) -> ScopeName | None:
    """Return the scope of a decision; None for a reject, whose record could not be read."""
    if isinstance(decision, Reject):
        return None
    return decision.scope if isinstance(decision, Marker) else decision.event.scope


def _changes(decision: Decision | None, memory: Memory) -> bool:
    return decision is not None and memory.id in touched(decision)


def _place(memory: Memory) -> tuple[str, str]:
    return memory.created_at.isoformat(timespec="microseconds"), memory.id


def _written(memory: Memory) -> str:
    """Return a memory's position as a URL-safe cursor."""
    return base64.urlsafe_b64encode("\n".join(_place(memory)).encode()).decode()


def _place_of(after: str) -> tuple[str, str]:
    try:
        at, identity = base64.urlsafe_b64decode(after).decode().split("\n")
    except (ValueError, binascii.Error) as error:
        said = "after is not a place in this list; give `after` of the last answer, or leave it out"
        raise DeclinedRequest(DeclineReason.UNFIT, said, "after") from error
    return at, identity
