"""Every operation on memories, for every surface: add, read, correct, undo, forget.

Authorization is not checked here: the caller has checked the scope of each request.
"""

import base64
import binascii
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, TypeVar

from pydantic import ValidationError

from schemas.base import DecisionId, MemoryId, ScopeName
from schemas.decisions import Decision, Ignore, Marker, Reject
from schemas.events import Ended, Event, Pin, Rate, Remember, Retire
from schemas.memories import Memory, Standing
from streams.changes.app.lineages import (
    IncompleteUndo,
    MemoryLineage,
    history,
    standing_for,
    undo,
)
from streams.changes.app.updating import addressing, renewed, says_already
from streams.changes.core.history import not_live
from streams.forget.app.forgetting import (
    ForgetResponses,
    ForgetTarget,
    PlanningDependencies,
    UnknownTarget,
    forget_with,
    in_full,
)
from streams.inspect.app import explained, story
from streams.memory.app.outcomes import Outcome, outcome_of
from streams.memory.app.problems import first_problem
from streams.memory.app.queueing import Deciding
from streams.memory.app.writing import Correction, correcting, event_of
from streams.model.identity import decision_id, memory_id
from streams.model.neighbours import StoredMemory
from streams.model.ports.clock import Clock
from streams.model.ports.failures import Poison, Unusable
from streams.recall.app.loading import Loading, hint_of
from streams.recall.app.recalling import SUGGESTED_FROM_MAX, RecallRequest, nothing, recalled
from streams.recall.core.recall import CountTokens, PromptBlock
from streams.reviews.app import answer_to, questions
from streams.stage.core.decide import target_of
from streams.stage.core.explain import why
from streams.stage.core.lineage import CannotUndo, UndoPlan, Wish
from streams.stage.core.reviewing import ReviewQuestion
from streams.stage.flow.decisions import CountedDecision
from streams.store.app.client import Client, Response, is_out_of_date, may_retry
from streams.store.app.conflicts import (
    Contradictions,
    KeptMemory,
    among,
    conflicts_of,
    contradicted_by,
    kept,
)
from streams.store.app.failures import DeclinedRequest, DeclineReason, UsageError
from streams.store.app.reading import AmbiguousPrefix, StoreReader, everywhere
from streams.store.app.requests import distinct, request
from streams.store.core.conflicts import are_both_right

_ID_LENGTH = 36
"""The characters of an id: a UUID."""

_Request = TypeVar("_Request", Pin, Rate, Retire)


@dataclass(frozen=True)
class UndoResult:
    """An undo and the responses; no plan if only the rest of an earlier undo was decided on."""

    plan: UndoPlan | None
    responses: Sequence[Response]


@dataclass(frozen=True)
class Lifecycle:
    """Carries out requests about memories. For one event loop.

    `reader` reads the log: a store's at once, that of a cluster from its beginning. It is None where
    nothing is done that takes reading the log. `means` returns what to forget with, or is None where
    that is not at hand. `place` is where memories are looked for, as the caller is told; `note`
    receives a line when a request that came too late is made again.

    Every method raises DeclinedRequest for what cannot be done.
    """

    loading: Loading
    deciding: Deciding
    count: CountTokens
    clock: Clock
    reader: StoreReader | None = None
    means: Callable[[], PlanningDependencies] | None = None
    place: str = "your scopes"
    note: Callable[[str], None] = lambda _: None

    async def memory(
        self,
        identity: str,
        within: Callable[[ScopeName], bool] = everywhere,
        field: str = "memory_id",
        *,
        now: bool = False,
    ) -> Memory:
        """Return the memory that an id means in the scopes `within`, live or retired.

        `field` of the request names it; `now` is as for `any_memory`.
        """
        memory = await self.any_memory(identity, within, field, now=now)
        if not within(memory.scope):
            raise self.unknown("memory", identity, field)
        require_told(memory, field)
        return memory

    async def any_memory(
        self,
        identity: str,
        within: Callable[[ScopeName], bool],
        field: str,
        *,
        now: bool = False,
    ) -> Memory:
        """Return the memory that an id means, if it is a whole id wherever its scope is.

        Where the log is read, anything else is resolved in the scopes `within`, as
        `StoreReader.memory_id` does. A forgotten memory has no text. `now` is to change it: the id
        of an event, or a name, then means the memory that stands for it by now.
        """
        index, known = await self.loading.index(), MemoryId(identity)
        held = await index.get([known])
        if not held and self.reader is not None:
            with _declining(field):
                known = await self.reader.memory_id(identity, within) or known
            held = await index.get([known])
        if not held and self.reader is None and len(identity) != _ID_LENGTH:
            said = f"no memory has the whole id {identity}; beside a cluster give the whole id"
            raise DeclinedRequest(DeclineReason.UNKNOWN, said, field)
        if not held:
            raise self.unknown("memory", identity, field)
        meant = held[known]
        return (await standing_for(identity, meant, self._state) if now else meant).memory

    async def _state(self, identity: MemoryId) -> StoredMemory | None:
        return (await (await self.loading.index()).get([identity])).get(identity)

    async def kept(self, memory: Memory) -> KeptMemory:
        """Return a memory with what it is in conflict with."""
        return kept(memory, await conflicts_of(await self.loading.index(), [memory.id]))

    async def listed(
        self,
        scope: ScopeName | None,
        limit: int | None = None,
        after: str | None = None,
        *,
        retired: bool,
        within: Callable[[ScopeName], bool] = everywhere,
    ) -> tuple[list[KeptMemory], str | None]:
        """Return a page of a scope's memories, oldest first; the next is behind `after`.

        Without a scope, those of all scopes `within`; without a limit, all of them.
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
        named: Callable[[ScopeName], bool] = everywhere,
    ) -> str | None:
        """Return what `hint_of` says where nothing was found."""
        return await hint_of(await self.loading.index(), scope, has, named, SUGGESTED_FROM_MAX)

    async def recall(
        self, asked: RecallRequest, named: Callable[[ScopeName], bool] = everywhere
    ) -> tuple[PromptBlock, str | None]:
        """Return a block for a prompt, and what `nothing` says of it."""
        index, most = await self.loading.index(), SUGGESTED_FROM_MAX
        with _declining("scope"):
            block = await recalled(index, asked, self.loading.vector_of, self.count)
        return block, await nothing(index, block, asked, named=named, most=most)

    async def decision(
        self, identity: str, within: Callable[[ScopeName], bool] = everywhere
    ) -> Decision:
        """Return the decision that an id means, if it is a whole id wherever its scope is.

        Anything else is resolved in the scopes `within`, as `StoreReader.decision_id` does.
        """
        reader, known = self.past("explain a decision"), DecisionId(identity)
        found = await reader.on_events([known])
        if not found:
            with _declining("decision_id"):
                known = await reader.decision_id(identity, within) or known
            found = await reader.on_events([known])
        if not found:
            raise self.unknown("decision", identity)
        return found[known]

    async def decisions(
        self, scope: ScopeName, kind: str | None, limit: int, after: int | None
    ) -> tuple[list[CountedDecision], int | None]:
        """Return a page of the decisions on a scope, the newest first; the next is behind `after`."""
        reader = self.past("list decisions")
        found = await reader.newest_of(scope, kind, after, limit + 1)
        part = found[:limit]
        return part, part[-1].position.offset if len(found) > limit else None

    async def contradicted(self, decisions: Iterable[Decision]) -> Contradictions:
        """Return what decisions found contradicted."""
        return await contradicted_by(self.loading.index, decisions)

    async def outcomes(self, responses: Sequence[Response]) -> tuple[Outcome, ...]:
        """Return the outcomes of events, in order, if none is refused."""
        for one in responses:
            if one.refused is not None:
                raise refusal(one.refused)
        known = await self.contradicted(one.decision for one in responses if one.decision)
        return tuple(outcome_of(one, known) for one in responses)

    async def story(self, decision: Decision) -> list[str]:
        """Tell a decision in plain words, line by line."""
        return await story(self.past("explain a decision"), decision)

    async def explain(
        self, identity: str, within: Callable[[ScopeName], bool] = everywhere
    ) -> list[str]:
        """Explain a decision, an event or a memory in the scopes `within`, line by line."""
        reader = self.past("explain a decision or a memory")
        with _declining("id"):
            found = await reader.about(identity, within)
        if found is None:
            raise self.unknown("decision, event or memory", identity)
        return await explained(reader, found)

    async def history(self, identity: MemoryId) -> MemoryLineage:
        """Return the life of a memory."""
        return await history(self.past("show a memory's history"), identity)

    async def update(
        self, memory: Memory, correction: Correction, author: Callable[[], str]
    ) -> list[Response]:
        """Give a memory a new text, without comparing the two; the last response settles it.

        `author` names who asks, if an answer is needed so that one memory stands in the end.
        """
        async with self.deciding.alone() as client:
            [now] = await _held(client, await self._corrected_before(memory, correction) or memory)
            event = await self._corrected(now.memory, correction)
            responses = await renewed(client, event, now.memory, author)
        if is_out_of_date(responses[-1].decision):
            raise _changed(memory)
        return responses

    async def _corrected_before(self, memory: Memory, correction: Correction) -> Memory | None:
        """Return the memory that a correction replaced when it came the first time, if it did.

        An event's id then means what stands for that by now.
        """
        if correction.event_id is None or self.reader is None:
            return None
        known = decision_id(memory.scope, correction.event_id)
        decision = (await self.reader.on_events([known])).get(known)
        event = None if decision is None or isinstance(decision, Marker) else decision.event
        replaced = event.supersedes if isinstance(event, Remember) else ()
        found = await self._state(MemoryId(replaced[0])) if replaced else None
        return None if found is None else found.memory

    async def _corrected(self, memory: Memory, correction: Correction) -> Remember:
        """Return the event that corrects a memory; the one that did so already may come again."""
        now, address = self.clock.now(), await self._address(memory, correction)
        try:
            fresh = correcting(memory, correction, address, now)
        except ValidationError as error:
            field, said = first_problem(error, "is not a field of a memory")
            message = f"{field}: {said}" if field else said
            raise DeclinedRequest(DeclineReason.UNFIT, message, field or None) from None
        event = event_of(fresh, memory.id, now)
        if isinstance(event, Poison):
            raise refusal(event)
        made = memory_id(decision_id(event.scope, event.event_id))
        if memory.superseded is None or memory.superseded.by != made:
            require_free(memory)
        if same := says_already(memory, event.text, correction.model_fields_set - {"text"}):
            said = f"text: {same}; nothing was changed"
            raise DeclinedRequest(DeclineReason.CONFLICT, said, "text")
        return event

    async def _address(self, memory: Memory, correction: Correction) -> Mapping[str, object]:
        """Return the fields by which an event gives a memory a new text.

        A new memory takes its place where the log is not read, so that its name is not known, and
        where the text is from before the memory was seen: by name, that would be its history.
        """
        at = correction.occurred_at
        if self.reader is None or (at is not None and at < memory.last_seen_at):
            return {"memory_id": None, "supersedes": (memory.id,)}
        return await addressing(self.reader, memory)

    async def pin(self, memory: Memory, author: str, note: str, *, pinned: bool) -> list[Response]:
        """Pin or unpin a memory: a pinned one is not merged, replaced or ended."""

        def ask(now: StoredMemory) -> Event:
            require_live(now.memory)
            if self._is_level and now.memory.pinned == pinned:
                how = "is pinned already" if pinned else "is not pinned"
                raise _in_vain(f"memory {memory.id} {how}")
            return _asked(Pin, now.memory, author, note, memory_id=memory.id, pinned=pinned)

        return await self._ask(ask, memory)

    async def retire(self, memory: Memory, author: str, note: str, reason: Ended) -> list[Response]:
        """Retire a memory without a successor."""

        def ask(now: StoredMemory) -> Event:
            require_free(now.memory)
            targets = (target_of(now.memory),)
            return _asked(Retire, now.memory, author, note, memories=targets, reason=reason)

        return await self._ask(ask, memory)

    async def distinct(
        self, memory: Memory, other: Memory, author: str, note: str
    ) -> list[Response]:
        """Keep two live memories of a scope: both are right."""

        def ask(one: StoredMemory, two: StoredMemory) -> Event:
            require_live(one.memory)
            require_live(two.memory, "other_id")
            if self._is_level and memory.id != other.id and are_both_right(one, two):
                raise _in_vain(f"memories {memory.id} and {other.id} are kept as distinct already")
            return distinct(one.memory, two.memory, author=author, note=note)

        return await self._ask(ask, memory, other)

    async def rate(
        self, memory: Memory, author: str, note: str, counts: Mapping[str, int]
    ) -> list[Response]:
        """Add to how often a memory was accessed, helpful or harmful."""

        def ask(now: StoredMemory) -> Event:
            require_live(now.memory)
            return _asked(Rate, now.memory, author, note, memory_id=memory.id, **counts)

        return await self._ask(ask, memory)

    @property
    def _is_level(self) -> bool:
        """Whether memories are read with all that was decided; else a request may be on its way."""
        return self.reader is not None

    async def _ask(self, ask: Callable[..., Event], *memories: Memory) -> list[Response]:
        """Have a request about memories decided on; again if they change before its turn.

        `ask` returns its event for the memories as they are now.
        """
        async with self.deciding.alone() as client:
            while True:
                with _declining("memory_id"):
                    event = ask(*await _held(client, *memories))
                responses = await client.submit([event])
                if not may_retry(client, responses, self.note):
                    break
        if is_out_of_date(responses[0].decision):
            raise _changed(memories[0])
        return responses

    async def undo(self, identity: str, author: str, note: str) -> UndoResult:
        """Take a decision back, with what rests on it; again if memories change meanwhile."""
        reader, wish = self.past("undo a decision"), Wish(author, self.clock.now(), note)
        async with self.deciding.alone() as client:
            try:
                with _declining("decision_id"):
                    made = await undo(client, reader, identity, wish, self.note)
            except IncompleteUndo as cut:
                return UndoResult(None, await client.submit(cut.events))
        if made is None:
            raise self.unknown("decision", identity)
        plan, responses = made
        decision = responses[0].decision
        if isinstance(decision, Ignore):
            said = f"nothing was undone: {why(decision)}"
            raise DeclinedRequest(DeclineReason.CONFLICT, said, "decision_id")
        return UndoResult(plan, responses)

    async def forget(self, wanted: ForgetTarget, author: str, note: str) -> ForgetResponses:
        """Let nothing that is kept say any more what a memory, or those of a scope, said."""
        past = self.past("forget a memory")
        if self.means is None:
            raise _not_here("forget a memory")
        means, wish = self.means(), Wish(author, self.clock.now(), note)
        async with self.deciding.alone() as client:
            with _declining("memory_id" if wanted.memory else "scope"):
                meant = await in_full(wanted, past)
                return await forget_with(client, past.log, means, meant, wish, self.note)

    async def questions(self) -> list[ReviewQuestion]:
        """Return every question to a person, the newest first."""
        return (await questions(self.past("list reviews"))).all()

    async def question(self, identity: str) -> ReviewQuestion:
        """Return a question to a person."""
        every = {one.review.id: one for one in await self.questions()}
        if identity not in every:
            raise self.unknown("question", identity)
        return every[identity]

    async def answer(
        self, question: ReviewQuestion, verdict: str, author: str, note: str
    ) -> list[Response]:
        """Settle a question."""
        identity = question.review.id
        if not question.answerable:
            said = f"question {identity} is closed: {question.state}"
            raise DeclinedRequest(DeclineReason.CONFLICT, said, "review_id")
        event = answer_to(
            question.review,
            verdict,
            author=author,
            note=note,
            clock=self.clock,
            reopened_by=question.reopened_by,
        )
        [response] = await self.deciding.decide([event])
        if response.decision is not None and is_out_of_date(response.decision):
            said = f"question {identity}: nothing was changed: {why(response.decision)}"
            raise DeclinedRequest(DeclineReason.CONFLICT, said, "review_id")
        return [response]

    def past(self, what: str) -> StoreReader:
        """Return the reader of the log, which `what` takes. Raises DeclinedRequest without one."""
        if self.reader is None:
            raise _not_here(what)
        return self.reader

    def unknown(
        self,
        what: Literal["memory", "decision", "question", "decision, event or memory"],
        identity: str,
        field: str | None = None,
    ) -> DeclinedRequest:
        """Return that nothing has an id; also used for what the caller may not see."""
        said = f"no {what} in {self.place} has the id {identity}"
        return DeclinedRequest(DeclineReason.UNKNOWN, said, field or _FIELDS[what])


_FIELDS = {
    "memory": "memory_id",
    "decision": "decision_id",
    "question": "review_id",
    "decision, event or memory": "id",
}


async def _held(client: Client, *memories: Memory) -> list[StoredMemory]:
    """Return memories as they are now."""
    held = await (await client.index()).get([one.id for one in memories])
    return [held[one.id] for one in memories]


def _asked(
    kind: type[_Request], memory: Memory, author: str, note: str, **fields: object
) -> _Request:
    return request(kind, memory.scope, memory.id, author=author, note=note, **fields)


@contextmanager
def _declining(field: str) -> Generator[None]:
    """Decline what cannot be done, and name the field of the request at fault."""
    try:
        yield
    except UnknownTarget as error:
        raise DeclinedRequest(DeclineReason.UNKNOWN, f"{error}", field) from error
    except IncompleteUndo:
        raise
    except CannotUndo as error:
        raise DeclinedRequest(DeclineReason.CONFLICT, f"{error}", field) from error
    except UsageError as error:
        raise DeclinedRequest(DeclineReason.UNFIT, f"{error}", error.field or field) from error
    except (AmbiguousPrefix, Unusable) as error:
        raise DeclinedRequest(DeclineReason.UNFIT, f"{error}", field) from error


def refusal(poison: Poison, within: str | None = None) -> DeclinedRequest:
    """Return why an event can never be decided on; `within` is where in the request it is."""
    why = DeclineReason.CONFLICT if poison.field == "event_id" else DeclineReason.UNFIT
    field = ".".join(part for part in (within, poison.field) if part) or None
    said = f"{poison}".removeprefix(f"{poison.field} ")
    return DeclinedRequest(why, f"{field or 'the event'} {said}", field)


def _not_here(what: str) -> DeclinedRequest:
    return DeclinedRequest(
        DeclineReason.NOT_HERE,
        f"to {what} requires reading the cluster's log: use the command of memsieve with "
        "--kafka, or serve the API on its own store with --store",
    )


def _changed(memory: Memory) -> DeclinedRequest:
    said = f"memory {memory.id} has changed meanwhile; check it and ask again"
    return DeclinedRequest(DeclineReason.CONFLICT, said, "memory_id")


def _in_vain(said: str) -> DeclinedRequest:
    return DeclinedRequest(DeclineReason.CONFLICT, f"{said}; nothing was changed", "memory_id")


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
        said = f"memory {memory.id} is pinned; unpin it first"
        raise DeclinedRequest(DeclineReason.CONFLICT, said, "memory_id")


def require_block(block: PromptBlock, budget: int) -> None:
    """Raise DeclinedRequest if nothing fits into a budget of tokens."""
    if not block.text:
        least = block.tokens_min
        said = f"budget: is {budget}, and a block takes {least} tokens; give {least} or more"
        raise DeclinedRequest(DeclineReason.UNFIT, said, "budget")


def scope_of(decision: Decision) -> ScopeName | None:
    """Return the scope of a decision; None for a reject, whose record could not be read."""
    if isinstance(decision, Reject):
        return None
    return decision.scope if isinstance(decision, Marker) else decision.event.scope


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
