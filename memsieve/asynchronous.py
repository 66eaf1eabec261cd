"""The same store for programs with an event loop."""

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Self, Unpack, cast

from memsieve.errors import InvalidRequest, StoreError, checked, translated, valid
from memsieve.fields import AboutText, EventFields
from memsieve.operations import BUDGET, LASTING, LIMIT, RECENT, require_several, row_of
from memsieve.progress import Progress, counted
from memsieve.results import (
    Decision,
    Forgotten,
    Review,
    SearchResult,
    Verdict,
    Version,
    decision_of,
    forgotten_of,
    result_of,
    review_of,
    version_of,
)
from schemas.base import Label, MemoryId, Record, Scope
from schemas.events import Ended, Remember
from streams.api.app.records import Rating, Retiring
from streams.forget.app.forgetting import ForgetTarget, Wish
from streams.memory.app.memory_store import MemoryStore
from streams.memory.app.opening import open_memories
from streams.recall.app import loading, recalling
from streams.store.app import settings as configuration
from streams.store.app.conflicts import KeptMemory as MemoryRecord
from streams.store.app.reading import LogTarget, only_in

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
            [told] = await store.add([event])
        return decision_of(told)

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
        store = await self._opened()
        identity = await _meant(store, memory_id, scope)
        with translated(), checked():
            return decision_of(await store.update(identity, {**fields, "text": text}))

    async def search(
        self,
        query: str,
        *,
        scope: str | None = None,
        limit: int = LIMIT,
        deduplicate: bool = True,
    ) -> list[SearchResult]:
        """Return the facts nearest to a query. See `Memory.search`."""
        store = await self._opened()
        named = await _only(store) if scope is None else scope
        fields = {"query": query, "scope": named, "limit": limit, "deduplicate": deduplicate}
        asked = valid(loading.SearchRequest, fields)
        with translated():
            found = await store.search(asked)
            hint = None if found.entries else await store.hint(asked.scope)
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
        store = await self._opened()
        fields = {
            "query": query,
            "scope": await _only(store) if scope is None else scope,
            "budget": budget,
            "lasting": lasting,
            "recent": recent,
            "across": across,
            "patterns": patterns,
        }
        if patterns and (not across or query is not None):
            raise InvalidRequest("patterns: goes with across, and without a query", "patterns")
        asked = valid(recalling.RecallRequest, fields)
        with translated():
            block, nothing = await store.recall(asked)
        if nothing is not None:
            self._note(nothing)
        return block.text

    async def get(self, memory_id: str, *, scope: str | None = None) -> MemoryRecord:
        """Return a memory as it is now. See `Memory.get`."""
        store = await self._opened()
        identity = await _meant(store, memory_id, scope)
        with translated():
            return await store.memory(identity)

    async def memories(
        self, scope: str | None = None, *, across: bool = False, retired: bool = False
    ) -> list[MemoryRecord]:
        """Return the memories of a scope, or of all. See `Memory.memories`."""
        store = await self._opened()
        named = valid(_Place, {"scope": scope}).scope
        with translated():
            found = await store.memories(named, across=across)
        return [memory for memory in found if retired or memory.live]

    async def explain(self, id: str, *, scope: str | None = None) -> list[str]:  # noqa: A002 - what it is
        """Explain a decision, an event or a memory. See `Memory.explain`."""
        exact = valid(_Place, {"scope": scope}).scope
        store = await self._opened()
        with translated():
            return await store.explain(_id(id, "id"), only_in(exact))

    async def history(self, memory_id: str, *, scope: str | None = None) -> list[Version]:
        """Return the versions of a memory. See `Memory.history`."""
        store = await self._opened()
        identity = await _meant(store, memory_id, scope)
        with translated():
            told = await store.history(identity)
        return [version_of(version) for version in told]

    async def undo(
        self, decision_id: str, *, author: str | None = None, note: str = ""
    ) -> Decision:
        """Undo a decision. See `Memory.undo`."""
        store = await self._opened()
        wish = _wish(store, author, note)
        with translated():
            return decision_of(*await store.undo(_id(decision_id, "decision_id"), wish))

    async def pin(
        self, memory_id: str, *, scope: str | None = None, author: str | None = None, note: str = ""
    ) -> Decision:
        """Pin a memory. See `Memory.pin`."""
        return await self._pin(memory_id, scope, author, note, pinned=True)

    async def unpin(
        self, memory_id: str, *, scope: str | None = None, author: str | None = None, note: str = ""
    ) -> Decision:
        """Unpin a memory. See `Memory.unpin`."""
        return await self._pin(memory_id, scope, author, note, pinned=False)

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
        retiring = valid(Retiring, {"reason": reason})
        store = await self._opened()
        identity, wish = await _meant(store, memory_id, scope), _wish(store, author, note)
        with translated():
            return decision_of(await store.retire(identity, wish, retiring.reason))

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
        store = await self._opened()
        one = await _meant(store, memory_id, scope)
        other = await _meant(store, other_id, scope, "other_id")
        wish = _wish(store, author, note)
        with translated():
            return decision_of(await store.distinct(one, other, wish))

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
        rating = valid(Rating, counts)
        store = await self._opened()
        identity, wish = await _meant(store, memory_id, scope), _wish(store, author, note)
        with translated():
            return decision_of(await store.rate(identity, wish, rating.counts))

    async def reviews(self, scope: str | None = None, *, every: bool = False) -> list[Review]:
        """Return the open questions, newest first. See `Memory.reviews`."""
        exact = valid(_Place, {"scope": scope}).scope
        store = await self._opened()
        with translated():
            asked = map(review_of, await store.questions())
        here = [one for one in asked if exact is None or one.scope == exact]
        return [one for one in here if every or one.state == "open"]

    async def answer(
        self, review_id: str, verdict: Verdict, *, author: str | None = None, note: str = ""
    ) -> Decision:
        """Answer a question. See `Memory.answer`."""
        settling = valid(_Settling, {"review_id": review_id, "verdict": verdict})
        store = await self._opened()
        wish = _wish(store, author, note)
        with translated():
            return decision_of(await store.answer(settling.review_id, settling.verdict, wish))

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
        store = await self._opened()
        wish = _wish(store, author, note)
        with translated():
            return forgotten_of(await store.forget(wanted, wish, later=later))

    async def _pin(
        self,
        memory_id: str,
        scope: str | None,
        author: str | None,
        note: str,
        *,
        pinned: bool,
    ) -> Decision:
        store = await self._opened()
        identity, wish = await _meant(store, memory_id, scope), _wish(store, author, note)
        with translated():
            return decision_of(await store.pin(identity, wish, pinned=pinned))

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


class _By(Record):
    author: str | None
    note: str


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


async def _only(store: MemoryStore) -> str:
    with translated():
        return await store.only_scope()


def _wish(store: MemoryStore, author: str | None, note: str) -> Wish:
    by = valid(_By, {"author": author, "note": note})
    with translated(), checked():
        return store.wish(by.author, by.note)


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
    store: MemoryStore, given: object, scope: str | None, field: str = "memory_id"
) -> str:
    """Return an id, or the beginning of one; in full if the scope is named."""
    identity, exact = _id(given, field), valid(_Place, {"scope": scope}).scope
    if exact is None:
        return identity
    with translated():
        return await store.memory_id(identity, only_in(exact))


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
