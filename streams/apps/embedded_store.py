"""One embedded store, held open: events decided on, memories searched, explained and changed."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import count
from typing import Annotated, Any, Self, TypeVar

from pydantic import Field

from schemas.base import Label, MemoryId, Record, ScopeName
from schemas.codec import EVENT
from schemas.decisions import Decision, Ignore, Marker, Reject
from schemas.events import Remember
from schemas.memories import Memory
from streams.adapters.clock import SystemClock
from streams.adapters.embedders.remembering import RememberingEmbedder
from streams.adapters.store_directory import StoreDirectory
from streams.apps import loading, recalling, wiring
from streams.apps.conflicts import KeptMemory, among, conflicts_of, kept
from streams.apps.dead_letters import why_set_aside
from streams.apps.embedding import Chosen, for_store
from streams.apps.explaining import Told, ToldVersion, explained, told, told_version
from streams.apps.failures import NotFound, UsageError
from streams.apps.forgetting import Forgot, Means, Unknown, Wanted, forget_with, in_full
from streams.apps.lineages import history, undo_with
from streams.apps.loading import Loading, SearchResult
from streams.apps.processes import EmbeddedPipeline, embedded
from streams.apps.reading import StoreReader, in_order, opened, reader_of
from streams.apps.requests import as_made, author_of, taken_by
from streams.apps.scrubbing import scrub
from streams.apps.settings import Settings
from streams.core.history import standing
from streams.core.identity import named_memory_id
from streams.core.lineage import Wish
from streams.core.observed import believed
from streams.core.recall import Block, CountTokens
from streams.core.tombstones import Key
from streams.flow.dead_letters import oversized
from streams.ports import Index, NoStore, SearchableLog
from streams.runtime.threads import abandonable

_T = TypeVar("_T")

_KEPT_EVERY = 256
"""Decisions after which the index is made durable. That takes a fifth of a second, and deciding on
one event a tenth of that: this makes it less than a tenth of the whole."""


@dataclass(frozen=True)
class Held:
    """A store that this process alone writes: what decides in it, its log, and who reads that."""

    pipeline: EmbeddedPipeline
    log: SearchableLog
    reader: StoreReader


@asynccontextmanager
async def holding(
    settings: Settings, chosen: Chosen, note: Callable[[str], None], *, forgets: bool = False
) -> AsyncGenerator[Held]:
    """Hold a store for writing, and make it where there is none; finish what waits in it.

    `note` and `forgets` are as for `embedded`. Raises NoStore where another process writes it.
    """
    async with embedded(
        settings, chosen.policy, chosen.embedder, note, forgets=forgets, kept_every=_KEPT_EVERY
    ) as pipeline:
        await pipeline.recover()
        try:
            async with opened(settings, embedded=True) as log:
                yield Held(pipeline, log, reader_of(log, settings, embedded=True))
        finally:
            await pipeline.settle()


@dataclass(frozen=True)
class _Open(Held):
    """What is open while the store is held; `close` lets go of all of it."""

    loading: Loading
    count: CountTokens
    close: AsyncExitStack


class EmbeddedStore:
    """An embedded store that this process alone writes until it is closed.

    For one event loop; calls may overlap. What changes the store is done to its end, also where
    whoever asked is cancelled: one change after the other.
    """

    def __init__(self, settings: Settings, chosen: Chosen, note: Callable[[str], None]) -> None:
        """Take what `open` has chosen."""
        self._settings = settings
        self._chosen = chosen
        self._note = note
        self._open: _Open | None = None
        self._gate = _Gate()
        self._writing = asyncio.Lock()
        self._changes = set[asyncio.Task[Any]]()
        self._token, self._numbers = wiring.owner_token(), count(1)

    @classmethod
    async def open(
        cls, settings: Settings, report: Callable[[str], None], note: Callable[[str], None]
    ) -> Self:
        """Open the store of the settings for writing; make it where there is none.

        `report` is told, in a line, of a model that is fetched or chosen, `note` of what the store
        itself waits for. Raises NoStore where another process writes it.
        """
        loading.require_judge(settings)
        chosen = await abandonable(partial(for_store, settings, report))
        store = cls(as_made(chosen.settings), chosen, note)
        await store._take_hold()
        return store

    async def close(self) -> None:
        """Let the store go, after what is under way. May be called again."""
        await self._change(self._close())

    def event(self, said: Mapping[str, object]) -> Remember:
        """Return the event of these fields; what it needs beside them is filled in.

        Raises ValidationError, and UsageError for one that is too long. A memory that is given no
        name of its own is named after its event: only by its name can it get new words later.
        """
        made = {"event_id": f"{self._token}-{next(self._numbers)}"}
        fields = {**made, "occurred_at": SystemClock().now(), **said}
        event = Remember.model_validate({"memory_id": fields["event_id"], **fields})
        if too_long := oversized(EVENT.encode(event)):
            raise UsageError(f"the event {too_long}")
        return event

    async def add(
        self, events: Sequence[Remember], done: Callable[[int], None] = lambda _: None
    ) -> list[Told]:
        """Have events decided on, in their order, and that applied.

        `done` is told the events that are decided since it was last told. Raises UsageError where
        one was set aside instead.
        """
        made, size = list[Told](), self._settings.run.batch_records
        for start in range(0, len(events), size):
            batch = events[start : start + size]
            made += await self._change(self._add(batch))
            done(len(batch))
        return made

    async def update(self, identity: str, said: Mapping[str, object]) -> Told:
        """Give a live memory the text of an event, as its producer would.

        Raises NotFound, ValidationError, and UsageError where no event may do that.
        """
        return await self._change(self._update(identity, said))

    async def undo(self, identity: str, wish: Wish) -> list[Told]:
        """Take back a decision, or that on an event; return what was decided: the undo comes first.

        Raises NotFound, and CannotUndo or Ambiguous.
        """
        return await self._change(self._undo(identity, wish))

    async def forget(self, wanted: Wanted, wish: Wish, *, later: bool) -> Forgot:
        """Forget what is wanted, and take it from the files at once, unless that is left for later.

        Raises NotFound, and Ambiguous. Nothing else is done meanwhile.
        """
        return await self._change(self._forget(wanted, wish, later=later))

    async def search(self, asked: loading.Asked) -> SearchResult:
        """Return what is nearest to a query, as one entry what is one fact."""
        async with self._gate.shared():
            return await self._held.loading.search(asked)

    async def recall(self, asked: recalling.Asked) -> Block:
        """Return the block of a scope for a prompt."""
        async with self._gate.shared():
            held = self._held
            index, vector_of = held.pipeline.index, held.loading.vector_of
            return await recalling.recalled(index, asked, vector_of, held.count)

    async def explain(self, identity: str) -> list[str]:
        """Tell the story of a decision, an event or a memory. Raises NotFound, and Ambiguous."""
        async with self._gate.shared():
            reader = self._held.reader
            what, entries = await reader.about(identity) if identity else ("", [])
            if not entries:
                raise NotFound(
                    f"no decision, event or memory in {reader.place} has the id {identity}"
                )
            return await explained(reader, identity, what, entries)

    async def history(self, identity: str) -> list[ToldVersion]:
        """Return the versions of a memory, oldest first. Raises NotFound, and Ambiguous."""
        async with self._gate.shared():
            life = await history(self._held.reader, await self._in_full(identity))
        return [told_version(version) for version in life.versions]

    async def memory(self, identity: str) -> KeptMemory:
        """Return a memory as it is now, live or not. Raises NotFound, and Ambiguous."""
        async with self._gate.shared():
            memory = await self._memory(identity)
            return kept(memory, await conflicts_of(self._held.pipeline.index, [memory.id]))

    async def memories(self, scope: ScopeName | None) -> list[KeptMemory]:
        """Return the memories of a scope, or of all, live or not: by scope, oldest first."""
        async with self._gate.shared():
            found = {one.memory.id: one async for one in self._held.pipeline.index.scan(scope)}
        known = among(found.values())
        return [kept(memory, known) for memory in in_order(found)]

    def wish(self, author: str | None, note: str) -> Wish:
        """Return who asks for a change, now. Raises ValidationError for what cannot be published.

        InvalidSettings where nobody is named or logged in.
        """
        asking = _Asking(author=author_of(self._settings, author), note=note)
        return Wish(asking.author, SystemClock().now(), asking.note)

    @property
    def _held(self) -> _Open:
        if self._open is None:
            raise NoStore(f"{self._settings.store} was closed: open it again")
        return self._open

    async def _change(self, work: Coroutine[Any, Any, _T]) -> _T:
        task = asyncio.create_task(work)
        self._changes.add(task)  # the loop itself does not keep it
        task.add_done_callback(self._changes.discard)
        return await asyncio.shield(task)

    async def _close(self) -> None:
        async with self._gate.alone():
            await self._let_go()

    async def _add(self, events: Sequence[Remember]) -> list[Told]:
        async with self._gate.shared(), self._writing:
            return await self._decided(events)

    async def _decided(self, events: Sequence[Remember]) -> list[Told]:
        return [await self._told(one) for one in await taken_by(self._held.pipeline, events)]

    async def _told(self, decision: Decision) -> Told:
        """Tell a decision on an event. Raises UsageError where the event was set aside."""
        if isinstance(decision, Ignore):
            before = await self._held.reader.on_events([decision.decision_id])
            return told(decision, before.get(decision.decision_id))
        if isinstance(decision, Reject):
            raise UsageError(f"{await why_set_aside(self._held.log, decision)}")
        return told(decision)

    async def _update(self, identity: str, said: Mapping[str, object]) -> Told:
        async with self._gate.shared(), self._writing:
            memory = await self._memory(identity)
            if not memory.live:
                raise UsageError(f"memory {memory.id} is not live: {standing(memory)}")
            addressed = await self._addressed(memory)
            now = SystemClock().now()
            now = max(now, believed(memory.last_seen_at, now))
            event = self.event({"occurred_at": now, **said, **addressed, "scope": memory.scope})
            [decided] = await self._decided([event])
            return decided

    async def _addressed(self, memory: Memory) -> dict[str, object]:
        """Return the fields by which an event gives a memory new words, or takes its place.

        Raises UsageError where the policy lets none do either.
        """
        for decision in await self._held.reader.on_memories([memory.id]):
            event = None if isinstance(decision, Marker) else decision.event
            name = event.memory_id if isinstance(event, Remember) else None
            if name is not None and named_memory_id(memory.scope, name) == memory.id:
                return {"memory_id": name}
        policy = self._chosen.policy
        if not policy.rules(memory.scope).supersede.named_max:
            raise UsageError(
                f"memory {memory.id} has no name of its producer's, and policy {policy.name} lets "
                "no event take its place: undo its decision and add the new text, or use a policy "
                "with supersede.named_max = 1"
            )
        return {"supersedes": [memory.id]}

    async def _undo(self, identity: str, wish: Wish) -> list[Told]:
        async with self._gate.shared(), self._writing:
            held = self._held
            undone = None
            if identity:
                undone = await undo_with(held.pipeline, held.reader, identity, wish)
            if undone is None:
                raise NotFound(f"no decision in {held.reader.place} has the id {identity}")
            _, decided = undone
            if isinstance(decided[0], Ignore):
                raise UsageError(f"nothing was undone: {told(decided[0]).reason}")
            return [told(one) for one in decided]

    async def _forget(self, wanted: Wanted, wish: Wish, *, later: bool) -> Forgot:
        async with self._gate.alone():
            try:
                meant = await in_full(wanted, self._held.reader)
                key = await self._key()
                held, chosen = self._held, self._chosen
                means = Means(key, chosen.policy, chosen.embedder, held.pipeline.judging)
                forgot = await forget_with(held.pipeline, held.log, means, meant, wish)
            except Unknown as error:
                raise NotFound(str(error)) from error
            if not later:
                await self._let_go()
                await scrub(self._settings, _quiet)
                await self._take_hold()
            return forgot

    async def _key(self) -> Key:
        """Return the key of tombstones; a store gets its own where it has none, and is reopened."""
        directory = StoreDirectory(self._settings.store)
        key = wiring.forget_key(self._settings.forget, directory)
        if key is not None:
            return key
        wiring.new_key(directory)
        await self._let_go()
        await self._take_hold()
        return await self._key()

    async def _memory(self, identity: str) -> Memory:
        full = await self._in_full(identity)
        memory = await self._held.reader.memory(full)
        if memory is None:
            raise NotFound(f"no memory in {self._held.reader.place} has the id {identity}")
        return memory

    async def _in_full(self, identity: str) -> MemoryId:
        """Return the id of the one memory whose id this is, or begins so."""
        reader = self._held.reader
        full = await reader.memory_id(identity) if identity else None
        if full is None:
            raise NotFound(f"no memory in {reader.place} has the id {identity}")
        return full

    async def _take_hold(self) -> None:
        chosen = self._chosen
        async with AsyncExitStack() as stack:
            own = await stack.enter_async_context(holding(self._settings, chosen, self._note))

            async def index() -> Index:
                return own.pipeline.index

            self._open = _Open(
                own.pipeline,
                own.log,
                own.reader,
                Loading(
                    index,
                    RememberingEmbedder(chosen.embedder),
                    own.pipeline.judging,
                    chosen.policy,
                    self._settings.load,
                ),
                self._count_tokens,
                stack.pop_all(),
            )

    async def _let_go(self) -> None:
        held, self._open = self._open, None
        if held is not None:
            await held.close.aclose()

    @cached_property
    def _count_tokens(self) -> CountTokens:
        return wiring.token_counter(self._chosen.settings.embedder, self._note)


class _Asking(Record):
    """Who asks for a change, and why: as a request may say it."""

    author: Label
    note: Annotated[str, Field(max_length=2_000)]


class _Gate:
    """Lets calls through side by side; one that must be alone waits for all others."""

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
        while not self._open.is_set():  # whoever waited before may have closed it again
            await self._open.wait()


def _quiet(_: str) -> None:
    """Tell nobody what is waited for."""
