"""The operations on memories of an open store or cluster: decide, search, explain, change."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import count
from typing import Annotated, Any, TypeVar

from pydantic import Field

from schemas.base import DecisionId, Label, MemoryId, Record, ScopeName
from schemas.codec import EVENT
from schemas.decisions import Decision, Ignore, Reject
from schemas.events import Ended, Event, Pin, Rate, Remember, Retire
from schemas.memories import Memory
from streams.changes.app.lineages import history, undo
from streams.changes.app.updating import renewed, renewing, says_already, told_after, unpinned
from streams.changes.core.history import not_live
from streams.clock.system import SystemClock
from streams.dead_letters.app import why_set_aside
from streams.forget.app.forgetting import (
    ForgetResponses,
    ForgetTarget,
    PlanningDependencies,
    UnknownTarget,
    forget_with,
    in_full,
    key_of,
)
from streams.forget.app.scrubbing import clear
from streams.inspect.app import ExplainedDecision, ExplainedVersion, explained, told, told_version
from streams.memory.app.holding import Resources
from streams.memory.app.lifecycle import is_forgotten
from streams.model.observed import is_ahead
from streams.model.ports import Index, NoStore
from streams.model.scope import lies_in
from streams.recall.app import loading, recalling
from streams.recall.app.loading import SearchResult
from streams.recall.core.recall import PromptBlock
from streams.reviews.app import answer_to, questions
from streams.stage.core.decide import target_of
from streams.stage.core.lineage import Wish
from streams.stage.core.reviewing import ReviewQuestion
from streams.stage.core.tombstones import TombstoneKey
from streams.stage.flow.dead_letters import oversized
from streams.store.app import wiring
from streams.store.app.client import (
    Response,
    is_again,
    is_out_of_date,
    may_retry,
    require_decided,
    settled,
)
from streams.store.app.conflicts import KeptMemory, among, conflicts_of, contradicted_by, kept
from streams.store.app.embedding import ChosenModel
from streams.store.app.failures import UnknownId, UsageError
from streams.store.app.reading import LogTarget, StoreReader, everywhere, in_order
from streams.store.app.requests import author_of, distinct, request

_T = TypeVar("_T")
_Request = TypeVar("_Request", Pin, Rate, Retire)


class MemoryStore:
    """Memories that are open until they are closed.

    A store only this process writes, one change at a time. A cluster others write, too; changes
    overlap there, and are decided on in their turn.

    For one event loop; calls may overlap. A change runs to its end even if its caller is cancelled.
    """

    def __init__(
        self,
        target: LogTarget,
        chosen: ChosenModel,
        opening: Callable[[], AbstractAsyncContextManager[Resources]],
        note: Callable[[str], None],
        wait: float,
    ) -> None:
        """Use what `opening` opens, once `take_hold` is called.

        `note` receives a line when something is waited for, and the decisions of a cluster are
        waited for `wait` seconds.
        """
        self._target = target
        self._chosen = chosen
        self._opening = opening
        self._note = note
        self._wait = wait
        self._open: Resources | None = None
        self._resources = AsyncExitStack()
        self._gate = _Gate()
        self._changes = set[asyncio.Task[Any]]()
        self._token, self._numbers = wiring.owner_token(), count(1)

    async def take_hold(self) -> None:
        """Open what the operations need."""
        async with AsyncExitStack() as stack:
            self._open = await stack.enter_async_context(self._opening())
            self._resources = stack.pop_all()

    async def close(self) -> None:
        """Release everything after calls in progress have ended. May be called again."""
        await self._change(self._close())

    def event(self, said: Mapping[str, object]) -> Remember:
        """Return the event of these fields, with the other required fields filled in.

        Raises ValidationError, and UsageError if the event is too long or still to come. A memory
        without a name is named after its event: an update finds it by its name only.
        """
        now = SystemClock().now()
        made = {"event_id": f"{self._token}-{next(self._numbers)}"}
        fields = {**made, "occurred_at": now, **said}
        event = Remember.model_validate({"memory_id": fields["event_id"], **fields})
        if is_ahead(event.occurred_at, now):
            raise UsageError(
                f"occurred_at is {event.occurred_at:%Y-%m-%d %H:%M:%S} UTC, in the future; give the "
                "time at which it was observed, and valid_from for when it begins"
            )
        if too_long := oversized(EVENT.encode(event)):
            raise UsageError(f"the event {too_long}")
        return event

    async def add(
        self, events: Sequence[Remember], done: Callable[[int], None] = lambda _: None
    ) -> list[ExplainedDecision]:
        """Decide on events in order, and apply the decisions.

        `done` receives the number of events decided on since its last call. Raises UsageError if an
        event became a dead letter instead.
        """
        made, size = list[ExplainedDecision](), self._target.settings.run.batch_records
        for start in range(0, len(events), size):
            batch = events[start : start + size]
            made += await self._change(self._add(batch))
            done(len(batch))
        return made

    async def update(self, identity: str, said: Mapping[str, object]) -> ExplainedDecision:
        """Give a live memory the text of an event, as its producer would.

        Raises UnknownId, ValidationError, and UsageError if no event may do that.
        """
        return await self._change(self._update(identity, said))

    async def undo(self, identity: str, wish: Wish) -> list[ExplainedDecision]:
        """Undo a decision, or the decision on an event; return the new decisions, the undo first.

        Raises UnknownId, CannotUndo and AmbiguousPrefix.
        """
        return await self._change(self._undo(identity, wish))

    async def forget(self, wanted: ForgetTarget, wish: Wish, *, later: bool) -> ForgetResponses:
        """Forget what is wanted, and unless `later` scrub it from the files at once.

        Raises UnknownId and AmbiguousPrefix. All other calls wait meanwhile.
        """
        return await self._change(self._forget(wanted, wish, later=later))

    async def pin(self, identity: str, wish: Wish, *, pinned: bool) -> ExplainedDecision:
        """Keep a live memory as it is, or let it go again. Raises UnknownId, and UsageError."""

        def asked(memory: Memory) -> Event:
            return _asked(Pin, memory, wish, memory_id=memory.id, pinned=pinned)

        return await self._change(self._ask(asked, identity))

    async def retire(self, identity: str, wish: Wish, reason: Ended) -> ExplainedDecision:
        """End a live memory that is not pinned; none takes its place. Raises as `pin` does."""

        def asked(memory: Memory) -> Event:
            return _asked(
                Retire, unpinned(memory), wish, memories=(target_of(memory),), reason=reason
            )

        return await self._change(self._ask(asked, identity))

    async def distinct(self, identity: str, other: str, wish: Wish) -> ExplainedDecision:
        """Keep two live memories of a scope: both are right. Raises as `pin` does."""

        def asked(one: Memory, two: Memory) -> Event:
            return distinct(one, two, author=wish.author, note=wish.note)

        return await self._change(self._ask(asked, identity, other))

    async def rate(self, identity: str, wish: Wish, counts: Mapping[str, int]) -> ExplainedDecision:
        """Add to how often a live memory was accessed, was helpful or harmful. Raises as `pin`."""

        def asked(memory: Memory) -> Event:
            return _asked(Rate, memory, wish, memory_id=memory.id, **counts)

        return await self._change(self._ask(asked, identity))

    async def questions(self) -> list[ReviewQuestion]:
        """Return every question to a person, the newest first."""
        async with self._gate.shared():
            return (await questions(self._held.reader)).all()

    async def answer(self, identity: str, verdict: str, wish: Wish) -> ExplainedDecision:
        """Settle an open question. Raises UnknownId, and UsageError where that is too late."""
        return await self._change(self._answer(identity, verdict, wish))

    async def search(self, asked: loading.SearchRequest) -> SearchResult:
        """Return the memories nearest to a query, with those of one fact in one entry."""
        async with self._gate.shared():
            return await self._held.loading.search(asked)

    async def only_scope(self) -> ScopeName:
        """Return the only scope that has memories. Raises UsageError if there are several, or none."""
        async with self._gate.shared():
            return loading.only_scope(await self._held.loading.scopes(), loading.SCOPE_ARGUMENT)

    async def hint(self, scope: ScopeName) -> str | None:
        """Return what `hint_of` says where a search found nothing."""
        async with self._gate.shared():
            most = recalling.SUGGESTED_FROM_MAX
            return await loading.hint_of(await self._index(), scope, scope.__eq__, most=most)

    async def recall(self, asked: recalling.RecallRequest) -> tuple[PromptBlock, str | None]:
        """Return a scope's block of memories for a prompt, and what `recalling.nothing` says."""
        async with self._gate.shared():
            held = self._held
            index, vector_of = await held.loading.index(), held.loading.vector_of
            block = await recalling.recalled(index, asked, vector_of, held.count)
            most = recalling.SUGGESTED_FROM_MAX
            return block, await recalling.nothing(index, block, asked, most=most)

    async def explain(
        self, identity: str, within: Callable[[ScopeName], bool] = everywhere
    ) -> list[str]:
        """Explain a decision, an event or a memory in the scopes `within`.

        Raises UnknownId and AmbiguousPrefix.
        """
        async with self._gate.shared():
            reader = self._held.reader
            found = await reader.about(identity, within)
            what = "decision, event or memory"
            return await explained(reader, _known(found, what, reader, identity))

    async def memory_id(self, identity: str, within: Callable[[ScopeName], bool]) -> MemoryId:
        """Return what `StoreReader.memory_id` does. Raises UnknownId and AmbiguousPrefix."""
        async with self._gate.shared():
            reader = self._held.reader
            return _known(await reader.memory_id(identity, within), "memory", reader, identity)

    async def decision_id(self, identity: str, within: Callable[[ScopeName], bool]) -> DecisionId:
        """Return what `StoreReader.decision_id` does. Raises UnknownId and AmbiguousPrefix."""
        async with self._gate.shared():
            reader = self._held.reader
            return _known(await reader.decision_id(identity, within), "decision", reader, identity)

    async def history(self, identity: str) -> list[ExplainedVersion]:
        """Return the versions of a memory, oldest first. Raises UnknownId and AmbiguousPrefix."""
        async with self._gate.shared():
            life = await history(self._held.reader, await self._in_full(identity))
        return [told_version(version) for version in life.versions]

    async def memory(self, identity: str) -> KeptMemory:
        """Return a memory's current version, live or retired.

        Raises UnknownId, also for a forgotten one, and AmbiguousPrefix.
        """
        async with self._gate.shared():
            memory = await self._memory(identity)
            if is_forgotten(memory):
                raise UnknownId(f"memory {memory.id} is forgotten")
            return kept(memory, await conflicts_of(await self._index(), [memory.id]))

    async def memories(self, scope: ScopeName | None, *, across: bool = False) -> list[KeptMemory]:
        """Return the memories of a scope or of all, live or retired, by scope and oldest first.

        `across` includes those of the scopes below it.
        """
        async with self._gate.shared():
            stored = (await self._index()).scan(None if across else scope)
            found = {
                one.memory.id: one
                async for one in stored
                if scope is None or lies_in(one.memory.scope, scope)
            }
        known = among(found.values())
        return [kept(one, known) for one in in_order(found) if not is_forgotten(one)]

    def wish(self, author: str | None, note: str) -> Wish:
        """Return a request for a change made now: its author, time and note.

        Raises ValidationError if it cannot be published, and InvalidSettings if no author is named
        or logged in.
        """
        asking = _Asking(author=author_of(self._target.settings, author), note=note)
        return Wish(asking.author, SystemClock().now(), asking.note)

    @property
    def _held(self) -> Resources:
        if self._open is None:
            raise NoStore(f"{self._target.place} was closed: open it again")
        return self._open

    async def _let_go(self) -> None:
        self._open = None
        await self._resources.aclose()

    async def _key(self) -> TombstoneKey:
        """Return the key of tombstones; if a store has none, make one and reopen the store with it."""
        target = self._target
        is_new = wiring.forget_key(target.settings.forget, target.directory) is None
        key = key_of(target)
        if is_new:
            await self._let_go()
            await self.take_hold()
        return key

    async def _clear(self, wanted: ForgetTarget, *, later: bool) -> None:
        """Remove what was forgotten from a store's files; a cluster leaves that to Kafka."""
        if self._target.directory is not None and not (later and wanted.memory is not None):
            await self._let_go()
            await clear(self._target, wanted, lambda _: None, later=later)
            await self.take_hold()

    @asynccontextmanager
    async def _changing(self) -> AsyncGenerator[Resources]:
        async with self._gate.shared(), self._held.turn:
            yield self._held

    async def _change(self, work: Coroutine[Any, Any, _T]) -> _T:
        task = asyncio.create_task(work)
        self._changes.add(task)  # the event loop keeps only a weak reference
        task.add_done_callback(self._changes.discard)
        return await asyncio.shield(task)

    async def _close(self) -> None:
        async with self._gate.alone():
            await self._let_go()

    async def _add(self, events: Sequence[Remember]) -> list[ExplainedDecision]:
        async with self._changing() as held:
            return await self._told(await held.client().submit(events))

    async def _told(self, responses: Sequence[Response]) -> list[ExplainedDecision]:
        """Describe the decisions on events.

        Raises DecisionTimeout if one was not decided on in time, and UsageError if one became a
        dead letter or came too late.
        """
        require_decided(responses, self._wait)
        made = [await self._made(one) for one in responses]
        return await self._explained(made)

    async def _explained(
        self, made: Sequence[tuple[Decision, Decision | None]]
    ) -> list[ExplainedDecision]:
        """Describe decisions, each with the original one if its event was decided on before."""
        known = await contradicted_by(self._index, [first or own for own, first in made])
        return [told(own, first, known.get(own.decision_id, ())) for own, first in made]

    async def _made(self, response: Response) -> tuple[Decision, Decision | None]:
        own, first = response.own, response.first
        if own is None:
            raise TypeError("an event has no decision")
        if isinstance(own, Reject):
            why = await why_set_aside(self._held.reader.log, own)
            raise UsageError(f"{why}", why.field)
        if is_out_of_date(own):
            raise UsageError(f"nothing was changed: {told(own).why}")
        if is_again(own) and first is None:
            found = await self._held.reader.on_events([own.decision_id])
            first = found.get(own.decision_id)
        return own, first

    async def _update(self, identity: str, said: Mapping[str, object]) -> ExplainedDecision:
        async with self._changing() as held:
            memory = await self._live(identity)
            if same := says_already(memory, said["text"], said.keys() - {"text"}):
                raise UsageError(f"text: {same}; nothing was changed", "text")
            at = {"occurred_at": told_after(memory, SystemClock().now())}
            dated = {} if "occurred_at" in said else at

            def event(fields: Mapping[str, object]) -> Remember:
                made = self.event({**said, **fields, "scope": memory.scope})
                return made.model_copy(update=dated)

            asked = await renewing(self._held.reader, memory, event)
            author = partial(author_of, self._target.settings, None)
            responses = await renewed(held.client(), asked, memory, author)
            return (await self._told(responses))[-1]

    async def _ask(self, asked: Callable[..., Event], *identities: str) -> ExplainedDecision:
        """Have a request decided on that is about live memories; again if they have changed."""

        async def event() -> Event:
            return asked(*[await self._live(identity) for identity in identities])

        async with self._changing() as held:
            client = held.client()
            responses = await client.submit([await event()])
            while may_retry(client, responses, self._note):
                responses = await client.submit([await event()])
            [decided] = await self._told(responses)
            return decided

    async def _answer(self, identity: str, verdict: str, wish: Wish) -> ExplainedDecision:
        async with self._changing() as held:
            every = {one.review.id: one for one in (await questions(held.reader)).all()}
            if identity not in every:
                raise UnknownId(f"no question in {held.reader.place} has the id {identity}")
            question = every[identity]
            if question.state != "open":
                raise UsageError(f"question {identity} is closed: {question.state}")
            event = answer_to(question.review, verdict, author=wish.author, note=wish.note)
            [decided] = await self._told(await held.client().submit([event]))
            return decided

    async def _undo(self, identity: str, wish: Wish) -> list[ExplainedDecision]:
        async with self._changing() as held:
            made = await undo(held.client(), held.reader, identity, wish, self._note)
            undone = _known(made, "decision", held.reader, identity)
            require_decided(undone[1], self._wait)
            decided = settled(undone[1])
            if isinstance(decided[0], Ignore):
                raise UsageError(f"nothing was undone: {told(decided[0]).why}")
            return await self._explained([(one, None) for one in decided])

    async def _forget(self, wanted: ForgetTarget, wish: Wish, *, later: bool) -> ForgetResponses:
        async with self._gate.alone():
            try:
                meant, key = await in_full(wanted, self._held.reader), await self._key()
                held, chosen = self._held, self._chosen
                means = PlanningDependencies(key, chosen.policy, chosen.embedder, held.judging)
                forgot = await forget_with(
                    held.client(), held.reader.log, means, meant, wish, self._note
                )
            except UnknownTarget as error:
                raise UnknownId(str(error)) from error
            require_decided(forgot.responses, self._wait)
            settled(forgot.responses)
            await self._clear(meant, later=later)
            return forgot

    async def _memory(self, identity: str) -> Memory:
        full = await self._in_full(identity)
        return (await (await self._index()).get([full]))[full].memory

    async def _live(self, identity: str) -> Memory:
        memory = await self._memory(identity)
        if not memory.live:
            raise UsageError(not_live(memory))
        return memory

    async def _in_full(self, identity: str) -> MemoryId:
        """Return the id of the memory that an id, its beginning, an event's id or a name means."""
        reader, known = self._held.reader, MemoryId(identity)
        if known in await (await self._index()).get([known]):
            return known
        return _known(await reader.memory_id(identity), "memory", reader, identity)

    async def _index(self) -> Index:
        return await self._held.loading.index()


class _Asking(Record):
    """Who asks for a change and why, in the form that a request may carry."""

    author: Label
    note: Annotated[str, Field(max_length=2_000)]


class _Gate:
    """A readers-writer lock: `shared` calls overlap, an `alone` call waits for all others."""

    def __init__(self) -> None:
        self._open, self._idle = asyncio.Event(), asyncio.Event()
        self._open.set()
        self._idle.set()
        self._inside = 0

    @asynccontextmanager
    async def shared(self) -> AsyncGenerator[None]:
        await self._passed()
        self._inside += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._inside -= 1
            if not self._inside:
                self._idle.set()

    @asynccontextmanager
    async def alone(self) -> AsyncGenerator[None]:
        await self._passed()
        self._open.clear()
        try:
            await self._idle.wait()
            yield
        finally:
            self._open.set()

    async def _passed(self) -> None:
        while not self._open.is_set():  # another waiting call may have closed it again
            await self._open.wait()


def _known(found: _T | None, what: str, reader: StoreReader, identity: str) -> _T:
    """Return what was found. Raises UnknownId if nothing was."""
    if found is None:
        raise UnknownId(f"no {what} in {reader.place} has the id {identity}")
    return found


def _asked(kind: type[_Request], memory: Memory, wish: Wish, **fields: object) -> _Request:
    """Return the event by which somebody asks for a change of a memory."""
    return request(kind, memory.scope, memory.id, author=wish.author, note=wish.note, **fields)
