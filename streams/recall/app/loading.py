"""Search in a scope with one entry per fact, and the same grouping for any given memories."""

import hashlib
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, Self

from pydantic import Field, model_validator

from schemas.base import Count, MemoryId, Record, Scope, ScopeName, Text, Unit
from schemas.events import MEMBERS_MAX, Consolidate
from schemas.memories import Memory
from streams.clock.system import SystemClock
from streams.embedding.remembering import RememberingEmbedder
from streams.log.threads import abandonable
from streams.model.embedding import Vector
from streams.model.identity import content_key
from streams.model.neighbours import StoredMemory
from streams.model.policy import Policy
from streams.model.ports.index import Index
from streams.model.ports.models import Embedder
from streams.model.wordings import texts_of
from streams.recall.core.loading import Candidate, FactEntry, Way
from streams.recall.flow import Bounds, CombiningOptions, Loader, ScopeSearch, Verify
from streams.stage.core.consolidation import proposed
from streams.stage.flow.judging import Judging
from streams.store.app import embedding, policies, wiring
from streams.store.app.conflicts import Conflict, Conflicts, told
from streams.store.app.failures import UsageError
from streams.store.app.product_settings import LoadSettings
from streams.store.app.projection import memories
from streams.store.app.reading import LogTarget, opened
from streams.store.app.settings import InvalidSettings, Settings
from streams.store.core.counts import number
from streams.store.core.suggestions import nothing_in

LIMIT = 10
LIMIT_MAX = 100
GIVEN_MAX = 100
"""Memories that may be grouped at once: the number of pairs grows quadratically."""

_EVERY_PAIR = 100_000
"""The limit for one-off searches that can wait: all pairs of the candidates."""

_SCOPES_SHOWN = 3
_AUTHOR = "memsieve search"

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
"""The time of texts without one: each is one second later than the text before it."""


class UnknownMemory(ValueError):
    """No live memory of the scope has the id."""


class Overrides(Record):
    """What one request wants otherwise than the settings say; None leaves it as it is."""

    deduplicate: bool | None = None
    threshold: Unit | None = None
    verify: Verify | None = None

    def how(self, settings: LoadSettings) -> CombiningOptions:
        return CombiningOptions(
            deduplicate=settings.enabled if self.deduplicate is None else self.deduplicate,
            similarity_min=settings.threshold if self.threshold is None else self.threshold,
            verify=self.verify or settings.verify,
        )


class SearchRequest(Overrides):
    """A search of one scope: what is nearest to a query, as at most `limit` entries."""

    scope: Scope
    query: Text
    limit: Annotated[int, Field(ge=1, le=LIMIT_MAX)] = LIMIT
    lexical_weight: Unit | None = None


class Given(Overrides):
    """Memories of one scope, by their ids, or texts that are stored nowhere: one of the two."""

    scope: Scope
    ids: Annotated[tuple[MemoryId, ...], Field(max_length=GIVEN_MAX)] = ()
    texts: Annotated[tuple[Text, ...], Field(max_length=GIVEN_MAX)] = ()

    @model_validator(mode="after")
    def _one_of_the_two(self) -> Self:
        if bool(self.ids) == bool(self.texts):
            raise ValueError("give either ids or texts")
        if len(set(self.ids)) < len(self.ids):
            raise ValueError("ids names a memory twice")
        return self


class ShownMemory(Record):
    """A stored memory as it is, and how similar it is to the query.

    `wording` is the one of its variants that is that similar; None where it is the shown text.
    `conflicts` are the live memories that say otherwise, the last seen first.
    """

    memory: Memory
    similarity: float | None
    wording: str | None
    conflicts: tuple[Conflict, ...] = ()


class ShownEntry(Record):
    """One fact: a text that says all of it, how it was made, and the memories that it stands for."""

    text: str
    way: Way
    score: float
    members: tuple[ShownMemory, ...]

    @property
    def memory_ids(self) -> tuple[MemoryId, ...]:
        """The ids of its memories, the nearest first."""
        return tuple(one.memory.id for one in self.members)

    @property
    def wordings(self) -> tuple[str, ...]:
        """The wordings of its memories, except its own text, each once."""
        texts = (text for one in self.members for text in texts_of(one.memory))
        return tuple(text for text in dict.fromkeys(texts) if text != self.text)

    @property
    def last_seen_at(self) -> datetime:
        """When one of its memories was last seen."""
        return max(one.memory.last_seen_at for one in self.members)


class ShownEntries(Record):
    """The entries, best first; of entries in conflict, the newer first.

    `found` memories were looked at; `beyond` of them are in entries beyond the limit. `unjudged`
    pairs were near and are not asked about yet. `degraded` says who should have judged or worded
    and did not.
    """

    entries: tuple[ShownEntry, ...]
    found: Count
    beyond: Count
    unjudged: Count
    degraded: tuple[str, ...]


class Group(Record):
    """What of the given is one fact: their places, counted from 0, and one text for them."""

    text: str
    way: Way
    members: tuple[Count, ...]


class Grouping(Record):
    """Each of the given in exactly one group, in the order of the first of each."""

    groups: tuple[Group, ...]
    unjudged: Count
    degraded: tuple[str, ...]


class Loading:
    """Answers repeated searches; writes nothing. For one event loop."""

    def __init__(
        self,
        index: Callable[[], Awaitable[Index]],
        embedder: Embedder,
        judging: Judging,
        policy: Policy,
        settings: LoadSettings,
    ) -> None:
        """`index` returns the current memories, or raises if they cannot be read."""
        self.index = index
        self._embedder = embedder
        self._settings = settings
        bounds = Bounds(settings.candidates_max, settings.pairs_max, settings.cache_entries)
        self._loader = Loader(judging, policy, bounds)

    async def search(self, asked: SearchRequest) -> ShownEntries:
        """Return the memories nearest to a query, with those of one fact in one entry."""
        weight = asked.lexical_weight
        wanted = ScopeSearch(
            scope=asked.scope,
            query=asked.query,
            limit=asked.limit,
            how=asked.how(self._settings),
            now=SystemClock().now(),
            lexical_weight=self._settings.lexical_weight if weight is None else weight,
        )
        loaded = await self._loader.load(await self.index(), self._embedder, wanted)
        known = told(loaded.conflicts)
        return ShownEntries(
            entries=tuple(_shown(entry, known) for entry in loaded.entries),
            found=loaded.found,
            beyond=loaded.beyond,
            unjudged=loaded.unjudged,
            degraded=loaded.degraded,
        )

    async def scopes(self) -> Counter[ScopeName]:
        """Count the live memories of each scope. Reads every memory."""
        return await live_scopes(await self.index())

    async def deduplicate(self, given: Given) -> Grouping:
        """Group what is given by fact. Raises UnknownMemory for an id that the scope lacks."""
        found = await (self._stored(given) if given.ids else self._said(given))
        how = given.how(self._settings)
        loaded = await self._loader.group(found, given.scope, how)
        place = {one.memory.id: at for at, one in enumerate(found)}
        return Grouping(
            groups=tuple(
                Group(
                    text=entry.told.text,
                    way=entry.told.way,
                    members=tuple(place[one.memory.id] for one in entry.members),
                )
                for entry in loaded.entries
            ),
            unjudged=loaded.unjudged,
            degraded=loaded.degraded,
        )

    async def vector_of(self, query: str) -> Vector:
        """Return the vector of a query, embedded with the memories' model."""
        [embedded] = await self._embedder.embed([query])
        return embedded.vector

    async def _stored(self, given: Given) -> list[Candidate]:
        held = await (await self.index()).get(given.ids)
        return [_live(identity, held.get(identity), given.scope) for identity in given.ids]

    async def _said(self, given: Given) -> list[Candidate]:
        """Return texts as memories, each later than the one before, with ids derived from them."""
        before = Counter[str]()
        found: list[Candidate] = []
        embedded = await self._embedder.embed(given.texts)
        for at, (text, one) in enumerate(zip(given.texts, embedded, strict=True)):
            digest = hashlib.sha256(text.encode()).hexdigest()
            said_at = _BEGINNING + timedelta(seconds=at)
            memory = Memory(
                id=MemoryId(f"{digest}-{before[digest]}"),
                scope=given.scope,
                text=text,
                content_key=content_key(given.scope, text),
                version=1,
                created_at=said_at,
                last_seen_at=said_at,
                truncated=one.truncated,
            )
            found.append(Candidate(memory, one.vector))
            before[digest] += 1
        return found


async def live_scopes(index: Index) -> Counter[ScopeName]:
    """Count the live memories of each scope. Reads every memory."""
    return Counter([one.memory.scope async for one in index.scan() if one.memory.live])


async def only_scope(
    scopes: Callable[[], Awaitable[Mapping[ScopeName, int]]], named: str = "scope="
) -> ScopeName:
    """Return the only scope that has memories. Raises UsageError if there are several, or none.

    `scopes` counts the memories of each; `named` is the option or argument that names a scope.
    """
    known = await scopes()
    if len(known) == 1:
        return next(iter(known))
    if not known:
        raise UsageError("no scope has memories yet: add some first", "scope")
    largest = ", ".join(sorted(known, key=lambda name: (-known[name], name))[:_SCOPES_SHOWN])
    several = number(len(known), "scope")
    raise UsageError(f"name one of {several} with {named}, such as {largest}", "scope")


async def hint_of(
    index: Index,
    scope: ScopeName,
    has: Callable[[ScopeName], bool],
    named: Callable[[ScopeName], bool] = lambda _: True,
    most: int | None = None,
) -> str | None:
    """Return one line that says that no scope that one `has` has a live memory; None if one has.

    It suggests scopes that have some, of those that may be `named`, unless there are more memories
    than `most`: it would read them all.
    """
    if most is not None and await index.count() > most:
        return None
    known = await live_scopes(index)
    if any(map(has, known)):
        return None
    fit = {name: count for name, count in known.items() if named(name)}
    return nothing_in(scope, fit)


@asynccontextmanager
async def loading(
    target: LogTarget, *, report: Callable[[str], None] = lambda _: None
) -> AsyncGenerator[Loading]:
    """Open the memories of a store or a cluster for searching.

    A cluster's memories are read from its Qdrant server, or with another index from its log.
    Others may write meanwhile. Raises NoStore if there is none. `report` receives a line when a
    model has to be downloaded.
    """
    chosen = embedding.settings_of(target)
    require_judge(chosen)
    policy = policies.load(chosen.policy)
    async with opened(target) as log, wiring.judging(chosen, SystemClock()) as judging:
        embedder = await abandonable(partial(wiring.embedder, chosen.embedder, report))
        async with memories(target, log, embedder.model) as index:
            yield Loading(index, RememberingEmbedder(embedder), judging, policy, chosen.load)


def require_judge(settings: Settings) -> None:
    """Raise InvalidSettings if searches are judged by a language model but none is configured."""
    if settings.load.verify == "llm" and settings.llm.base_url is None:
        raise InvalidSettings(
            "load.verify is llm, but llm.base_url is not set: set it and llm.model, or take "
            "load.verify built-in"
        )


def thorough(settings: Settings) -> Settings:
    """Return the settings for a one-off search: every pair of the results is judged."""
    load = settings.load.model_copy(update={"pairs_max": _EVERY_PAIR})
    return settings.model_copy(update={"load": load})


def hints(scope: ScopeName, result: ShownEntries) -> list[Consolidate]:
    """Return a proposal to the scope's owner for each entry of several memories.

    A proposal reports a search result and decides nothing. The same memories at the same versions
    give the same event.
    """
    return [
        proposed(scope, _AUTHOR, [one.memory for one in entry.members])
        for entry in result.entries
        if 1 < len(entry.members) <= MEMBERS_MAX
    ]


def _live(identity: MemoryId, stored: StoredMemory | None, scope: ScopeName) -> Candidate:
    """Return a live memory of a scope. Raises UnknownMemory otherwise, also for another scope's."""
    known = stored is not None and stored.memory.scope == scope and stored.memory.live
    if stored is None or stored.vector is None or not known:
        raise UnknownMemory(f"no live memory of scope {scope} has the id {identity}")
    return Candidate(stored.memory, stored.vector)


def _shown(entry: FactEntry, known: Conflicts) -> ShownEntry:
    return ShownEntry(
        text=entry.told.text,
        way=entry.told.way,
        score=entry.members[0].score,
        members=tuple(
            ShownMemory(
                memory=one.memory,
                similarity=one.similarity,
                wording=one.wording,
                conflicts=known.get(one.memory.id, ()),
            )
            for one in entry.members
        ),
    )
