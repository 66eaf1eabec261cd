"""The same store for programs with an event loop."""

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Self, Unpack, cast

from memsieve.errors import InvalidRequest, StoreError, checked, translated, valid
from memsieve.fields import AboutText, EventFields
from memsieve.progress import Progress, counted
from memsieve.results import (
    Decision,
    Forgotten,
    Review,
    SearchResult,
    Verdict,
    Version,
    decision_of,
    in_order,
    result_of,
    told_as,
)
from memsieve.rows import BUDGET, LASTING, LIMIT, RECENT, require_several, row_of
from schemas.base import Label, MemoryId, Record, Scope
from schemas.events import Ended, Remember
from schemas.memories import Memory
from streams.api.app.records import (
    Listed,
    Noted,
    Rating,
    Retiring,
    question_told,
    version_told,
)
from streams.forget.app.forgetting import ForgetTarget
from streams.memory.app.lifecycle import Lifecycle
from streams.memory.app.memory_store import MemoryStore
from streams.memory.app.opening import open_memories
from streams.memory.app.writing import Correction
from streams.recall.app import loading, recalling
from streams.store.app import settings as configuration
from streams.store.app.client import Response
from streams.store.app.conflicts import KeptMemory as MemoryRecord
from streams.store.app.reading import LogTarget, only_in
from streams.store.app.requests import author_of

WAIT = 30.0


class AsyncMemory:
    """A store or a cluster, as `Memory`, for one event loop: every method is awaited.

    `async with`, `open` or the first call opens it. Calls may overlap. A change that has begun
    completes even if its call is cancelled.
    """

    def __init__(
        self,
        store: Path | str | None = None,
        *,
        kafka: str | None = None,
        index: str | None = None,
        wait: float = WAIT,
        policy: str | None = None,
        settings: Mapping[str, object] | None = None,
        config: Path | str | None = None,
        report: Callable[[str], None] | None = None,
    ) -> None:
        """Take the arguments of `Memory`. Raises InvalidRequest for settings that cannot be used."""
        if kafka is None and index is not None:
            raise InvalidRequest("index: is a cluster's; give kafka as well", "index")
        if kafka is not None and store is not None:
            raise InvalidRequest("give store or kafka, not both: they name two places", "kafka")
        if not 0 < wait < math.inf:
            raise InvalidRequest("wait: give the seconds that a decision may take", "wait")
        given = {**(settings or {}), **_where(settings or {}, store, kafka, index)}
        if policy is not None:
            given["policy"] = policy
        if config is not None and not Path(config).is_file():
            raise InvalidRequest(f"config {config}: there is no such file", "config")
        with translated():
            made = configuration.load(given, None if config is None else Path(config))
        self._target = LogTarget.of_store(made) if kafka is None else LogTarget.of_cluster(made)
        self._wait = wait
        logger = logging.getLogger("memsieve")
        self._report, self._note = report or logger.warning, report or logger.info
        self._opening = asyncio.Lock()
        self._store: MemoryStore | None = None
        self._closed = False

    async def open(self) -> Self:
        """Open the store and load its embedding model, if that is not done yet."""
        await self._opened()
        return self

    async def close(self) -> None:
        """Close the store, after calls in progress. May be called again."""
        self._closed = True
        async with self._opening:
            if self._store is not None:
                with translated():
                    await self._store.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def add(self, text: str, *, scope: str, **fields: Unpack[EventFields]) -> Decision:
        """Add a fact, and return the decision. See `Memory.add`."""
        store = await self._opened()
        event = _event(store, {**fields, "text": text, "scope": scope})
        with translated():
            return decision_of(*await store.add([event]))

    async def add_many(
        self,
        rows: Iterable[str | Mapping[str, object]],
        *,
        scope: str | None = None,
        progress: Progress = False,
    ) -> list[Decision]:
        """Add facts in order. See `Memory.add_many`."""
        require_several(rows)
        store = await self._opened()
        events = [
            _event(store, row_of(row, scope, f"rows[{at}]"), f"rows[{at}].")
            for at, row in enumerate(rows)
        ]
        with counted(len(events), progress) as done, translated():
            made = await store.add(events, done)
        return [decision_of(told) for told in made]

    async def update(
        self, memory_id: str, text: str, *, scope: str | None = None, **fields: Unpack[AboutText]
    ) -> Decision:
        """Give a memory a new text. See `Memory.update`."""
        correction = valid(Correction, {**fields, "text": text})
        store = await self._opened()
        author = partial(author_of, store.settings, None)

        async def updated(life: Lifecycle) -> list[Response]:
            memory = await _meant(life, memory_id, scope, now=True)
            return await life.update(memory, correction, author)

        with translated():
            return decision_of((await store.change(updated))[-1])

    async def search(
        self,
        query: str,
        *,
        scope: str | None = None,
        limit: int = LIMIT,
        deduplicate: bool = True,
    ) -> list[SearchResult]:
        """Return the facts nearest to a query. See `Memory.search`."""
        async with self._reading() as life:
            named = await loading.only_scope(life.loading.scopes) if scope is None else scope
            fields = {"query": query, "scope": named, "limit": limit, "deduplicate": deduplicate}
            asked = valid(loading.SearchRequest, fields)
            found = await life.loading.search(asked)
            hint = None if found.entries else await life.hint(asked.scope, asked.scope.__eq__)
        if hint is not None:
            self._note(hint)
        return [result_of(entry) for entry in found.entries]

    async def recall(
        self,
        query: str | None = None,
        *,
        scope: str | None = None,
        budget: int = BUDGET,
        lasting: int = LASTING,
        recent: int = RECENT,
        across: bool = False,
        patterns: bool = False,
    ) -> str:
        """Return the block of a scope for a prompt. See `Memory.recall`."""
        if patterns and (not across or query is not None):
            raise InvalidRequest("patterns: goes with across, and without a query", "patterns")
        async with self._reading() as life:
            fields = {
                "query": query,
                "scope": await loading.only_scope(life.loading.scopes) if scope is None else scope,
                "budget": budget,
                "lasting": lasting,
                "recent": recent,
                "across": across,
                "patterns": patterns,
            }
            block, hint = await life.recall(valid(recalling.RecallRequest, fields))
        if hint is not None:
            self._note(hint)
        return block.text

    async def get(self, memory_id: str, *, scope: str | None = None) -> MemoryRecord:
        """Return a memory as it is now. See `Memory.get`."""
        async with self._reading() as life:
            return await life.kept(await _meant(life, memory_id, scope))

    async def memories(
        self, scope: str | None = None, *, across: bool = False, retired: bool = False
    ) -> list[MemoryRecord]:
        """Return the memories of a scope, or of all. See `Memory.memories`."""
        asked = valid(Listed, {"scope": scope, "across": across, "retired": retired})
        async with self._reading() as life:
            found, _ = await life.listed(asked.only, retired=asked.retired, within=asked.has)
        return in_order(found)

    async def explain(self, id: str, *, scope: str | None = None) -> list[str]:  # noqa: A002 - what it is
        """Explain a decision, an event or a memory. See `Memory.explain`."""
        exact = valid(_Place, {"scope": scope}).scope
        async with self._reading() as life:
            return await life.explain(_id(id, "id"), only_in(exact))

    async def history(self, memory_id: str, *, scope: str | None = None) -> list[Version]:
        """Return the versions of a memory. See `Memory.history`."""
        async with self._reading() as life:
            told = await life.history((await _meant(life, memory_id, scope)).id)
        return [told_as(Version, version_told(one)) for one in told.versions]

    async def undo(
        self, decision_id: str, *, author: str | None = None, note: str = ""
    ) -> Decision:
        """Undo a decision. See `Memory.undo`."""
        identity = _id(decision_id, "decision_id")
        store, by = await self._asked_by(author, note)

        async def undone(life: Lifecycle) -> Sequence[Response]:
            return (await life.undo(identity, by, note)).responses

        with translated():
            return decision_of(*await store.change(undone))

    async def pin(
        self, memory_id: str, *, scope: str | None = None, author: str | None = None, note: str = ""
    ) -> Decision:
        """Pin a memory. See `Memory.pin`."""
        asked = partial(Lifecycle.pin, pinned=True)
        return await self._changed(memory_id, scope, author, note, asked)

    async def unpin(
        self, memory_id: str, *, scope: str | None = None, author: str | None = None, note: str = ""
    ) -> Decision:
        """Unpin a memory. See `Memory.unpin`."""
        asked = partial(Lifecycle.pin, pinned=False)
        return await self._changed(memory_id, scope, author, note, asked)

    async def retire(
        self,
        memory_id: str,
        *,
        scope: str | None = None,
        reason: Ended = "invalid",
        author: str | None = None,
        note: str = "",
    ) -> Decision:
        """Retire a memory without a successor. See `Memory.retire`."""
        why = valid(Retiring, {"reason": reason})
        asked = partial(Lifecycle.retire, reason=why.reason)
        return await self._changed(memory_id, scope, author, note, asked)

    async def distinct(
        self,
        memory_id: str,
        other_id: str,
        *,
        scope: str | None = None,
        author: str | None = None,
        note: str = "",
    ) -> Decision:
        """Keep two memories that are in conflict. See `Memory.distinct`."""

        async def asked(life: Lifecycle, memory: Memory, by: str, note: str) -> list[Response]:
            other = await _meant(life, other_id, scope, "other_id", now=True)
            return await life.distinct(memory, other, by, note)

        return await self._changed(memory_id, scope, author, note, asked)

    async def rate(
        self,
        memory_id: str,
        *,
        scope: str | None = None,
        helpful: int = 0,
        harmful: int = 0,
        accessed: int = 0,
        author: str | None = None,
        note: str = "",
    ) -> Decision:
        """Record how often a memory helped, misled or was read. See `Memory.rate`."""
        counts = {"helpful": helpful, "harmful": harmful, "accessed": accessed}
        asked = partial(Lifecycle.rate, counts=valid(Rating, counts).counts)
        return await self._changed(memory_id, scope, author, note, asked)

    async def reviews(self, scope: str | None = None, *, every: bool = False) -> list[Review]:
        """Return the open questions, newest first. See `Memory.reviews`."""
        exact = valid(_Place, {"scope": scope}).scope
        async with self._reading() as life:
            every_one = [told_as(Review, question_told(one)) for one in await life.questions()]
        here = [one for one in every_one if exact is None or one.scope == exact]
        return [one for one in here if every or one.state == "open"]

    async def answer(
        self, review_id: str, verdict: Verdict, *, author: str | None = None, note: str = ""
    ) -> Decision:
        """Answer a question. See `Memory.answer`."""
        settling = valid(_Settling, {"review_id": review_id, "verdict": verdict})
        store, by = await self._asked_by(author, note)

        async def answered(life: Lifecycle) -> list[Response]:
            question = await life.question(settling.review_id)
            return await life.answer(question, settling.verdict, by, note)

        with translated():
            return decision_of(*await store.change(answered))

    async def forget(
        self,
        memory_id: str | None = None,
        *,
        scope: str | None = None,
        tenant: str | None = None,
        later: bool = False,
        author: str | None = None,
        note: str = "",
    ) -> Forgotten:
        """Forget a memory, a scope or a tenant. See `Memory.forget`."""
        wanted = _wanted(memory_id, scope, tenant)
        store, by = await self._asked_by(author, note)
        with translated():
            return told_as(Forgotten, await store.forget(wanted, by, note, later=later))

    async def _changed(
        self,
        memory_id: str,
        scope: str | None,
        author: str | None,
        note: str,
        asked: Callable[[Lifecycle, Memory, str, str], Awaitable[list[Response]]],
    ) -> Decision:
        """Have a change of a memory decided on, that is `asked` in somebody's name."""
        store, by = await self._asked_by(author, note)

        async def changed(life: Lifecycle) -> list[Response]:
            memory = await _meant(life, memory_id, scope, now=True)
            return await asked(life, memory, by, note)

        with translated():
            return decision_of(*await store.change(changed))

    async def _asked_by(self, author: str | None, note: str) -> tuple[MemoryStore, str]:
        """Return the open store, and who asks for a change of it."""
        named = valid(_By, {"author": author, "note": note}).author
        store = await self._opened()
        with translated():
            return store, author_of(store.settings, named)

    @asynccontextmanager
    async def _reading(self) -> AsyncGenerator[Lifecycle]:
        store = await self._opened()
        with translated():
            async with store.reading() as life:
                yield life

    async def _opened(self) -> MemoryStore:
        if self._closed:
            raise StoreError(f"{self._target.place} was closed: open another Memory for it")
        async with self._opening:
            if self._store is None:
                with translated():
                    self._store = await open_memories(
                        self._target, self._report, self._note, self._wait
                    )
            return self._store


class _Place(Record):
    scope: Scope | None


class _By(Noted):
    author: Label | None


class _Settling(Record):
    review_id: Label
    verdict: Verdict


def _where(
    settings: Mapping[str, object], store: Path | str | None, kafka: str | None, index: str | None
) -> dict[str, object]:
    """Return the settings of where the memories are, with the others of their groups."""
    if kafka is None:
        return {} if store is None else {"store": Path(store)}
    named = {"kafka": {"bootstrap": kafka}}
    if index is not None:
        named |= {"index": {"kind": "qdrant"}, "qdrant": {"url": index}}
    return {name: {**_group(settings, name), **own} for name, own in named.items()}


def _group(settings: Mapping[str, object], name: str) -> Mapping[str, object]:
    group = settings.get(name, {})
    if not isinstance(group, Mapping):
        raise InvalidRequest(f"settings: {name} is a group; give a mapping", "settings")
    return cast("Mapping[str, object]", group)


def _event(store: MemoryStore, fields: Mapping[str, object], place: str = "") -> Remember:
    with translated(), checked(place):
        return store.event(fields)


def _id(given: object, field: str = "memory_id") -> str:
    """Return an id, or the beginning of one. Raises InvalidRequest for what can be none."""
    if not isinstance(given, str):
        raise InvalidRequest(
            f"{field}: is of type {type(given).__name__}; give an id as a string", field
        )
    if not given.isprintable():
        raise InvalidRequest(f"{field}: has a line break or control character; remove it", field)
    return given


async def _meant(
    life: Lifecycle,
    given: object,
    scope: str | None,
    field: str = "memory_id",
    *,
    now: bool = False,
) -> Memory:
    """Return the memory that an id, its beginning or a name means; in one scope if it is named.

    `now` is as for `Lifecycle.any_memory`.
    """
    identity, exact = _id(given, field), valid(_Place, {"scope": scope}).scope
    return await life.memory(identity, only_in(exact), field, now=now)


def _wanted(memory_id: str | None, scope: str | None, tenant: str | None) -> ForgetTarget:
    given = {"memory_id": memory_id, "scope": scope, "tenant": tenant}
    named = {name: value for name, value in given.items() if value is not None}
    if len(named) != 1:
        raise InvalidRequest("give exactly one of memory_id, scope and tenant")
    [(name, value)] = named.items()
    if not value:
        raise InvalidRequest(f"{name}: is empty; say what to forget", name)
    exact = valid(_Place, {"scope": scope}).scope
    memory = None if memory_id is None else MemoryId(_id(memory_id))
    return ForgetTarget(memory=memory, scope=exact, tenant=tenant)
