"""Recall from a log: the block of memories of a scope for a prompt."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache
from typing import Annotated, TypeAlias

from pydantic import Field

from schemas.base import MemoryId, Record, Scope, ScopeName, Text
from schemas.memories import Memory
from streams.clock.system import SystemClock
from streams.model.embedding import Vector
from streams.model.neighbours import StoredMemory
from streams.model.ports.failures import Unusable
from streams.model.ports.index import Index, Query
from streams.model.ports.log import Log
from streams.model.ports.models import Embedder
from streams.model.scope import lies_in
from streams.model.wordings import other_than_shown
from streams.recall.app.loading import hint_of, live_scopes
from streams.recall.core.patterns import MEMORIES_MAX, SCOPES_MIN, alike
from streams.recall.core.recall import (
    BUDGET,
    LASTING_MAX,
    RECENT_MAX,
    CountTokens,
    PromptBlock,
    QuerySimilarity,
    RecalledMemory,
    RecallReason,
    block_of_scope,
    block_of_several,
    choose,
    nearest,
    shared,
    together,
)
from streams.stage.flow.takeover import require_model
from streams.store.app import wiring
from streams.store.app.embedding import settings_of
from streams.store.app.projection import LogProjection
from streams.store.app.reading import LogTarget, opened
from streams.store.core.conflicts import conflicts, newer_first
from streams.store.core.suggestions import nothing_in

SUGGESTED_FROM_MAX = 3_000
"""Memories that a server reads to suggest scopes: at 30 µs each (index/edge.py), a tenth of a second."""

VectorOf: TypeAlias = Callable[[str], Awaitable[Vector]]
"""Embeds a query with the model of the searched memories."""


class RecallRequest(Record):
    """What is to be recalled: of a scope, or with `across` of that scope and all below it.

    With a query what is nearest to it; without one what lasts and what is new, or across scopes
    what several of them share; with `patterns` what many of them say in nearly the same words.
    `lasting` and `recent` say how many memories; both together, how many are near, or shared.
    """

    scope: Scope
    across: bool = False
    patterns: bool = False
    query: Text | None = None
    budget: Annotated[int, Field(ge=1)] = BUDGET
    lasting: Annotated[int, Field(ge=0)] = LASTING_MAX
    recent: Annotated[int, Field(ge=0)] = RECENT_MAX

    @property
    def number(self) -> int:
        return self.lasting + self.recent

    def has(self, scope: ScopeName) -> bool:
        """Return whether a scope's memories are asked for."""
        return lies_in(scope, self.scope) if self.across else scope == self.scope


class Recaller:
    """Answers repeated recalls from a log; each recall reads the decisions since the last one.

    Holds all memories with their vectors in RAM; with an index at hand, call `recalled` instead.
    For one event loop.
    """

    def __init__(self, log: Log, load: Callable[[], Embedder], count: CountTokens) -> None:
        """`load` returns the embedder of the log's vectors; the first query calls it."""
        self._log = log
        self._load = cache(load)
        self._count = count
        self._following = LogProjection(log)

    async def recall(self, asked: RecallRequest) -> PromptBlock:
        """Return the block. Raises NoStore if the decisions do not add up."""
        return await recalled(await self._following.index(), asked, self._embedded, self._count)

    async def scopes(self) -> Mapping[ScopeName, int]:
        """Count the live memories of each scope."""
        return await live_scopes(await self._following.index())

    async def nothing(self, block: PromptBlock, asked: RecallRequest) -> str | None:
        """Do as the function `nothing`, however many memories there are."""
        return await nothing(await self._following.index(), block, asked)

    async def _embedded(self, query: str) -> Vector:
        embedder = self._load()
        await require_model(self._log, embedder.model)
        [embedded] = await embedder.embed([query])
        return embedded.vector


async def recalled(
    index: Index, asked: RecallRequest, vector_of: VectorOf, count: CountTokens
) -> PromptBlock:
    """Return a block from an index. Raises Unusable for patterns over too many memories."""
    stored = [
        one
        async for one in index.scan(None if asked.across else asked.scope)
        if asked.has(one.memory.scope)
    ]
    memories, now = [one.memory for one in stored], SystemClock().now()
    if asked.query is not None:
        near = await _similarities(index, asked.query, asked.number, memories, vector_of)
        chosen = nearest(memories, near, number=asked.number, several=asked.across)
    elif asked.patterns:
        chosen = _patterns(stored, asked)
    elif asked.across:
        chosen = shared(memories, number=asked.number)
    else:
        chosen = choose(memories, lasting_max=asked.lasting, recent_max=asked.recent, now=now)
    known = conflicts(stored)
    chosen = [replace(one, conflicts=tuple(known.get(one.memory.id, ()))) for one in chosen]
    shown, others = [one for one in chosen if one.shown], [one for one in chosen if not one.shown]
    chosen = [*newer_first(shown, lambda one: [one.memory], known, now), *others]
    if asked.across:
        return block_of_several(asked.scope, chosen, count=count, budget=asked.budget)
    return block_of_scope(asked.scope, memories, chosen, count=count, budget=asked.budget)


async def nothing(
    index: Index,
    block: PromptBlock,
    asked: RecallRequest,
    *,
    named: Callable[[ScopeName], bool] = lambda _: True,
    most: int | None = None,
) -> str | None:
    """Return one line that says that what is asked for has no live memory; None if it has one.

    It suggests scopes that have some, as `hint_of` does.
    """
    if any(one.memory.live for one in block.recalled):
        return None
    if most is not None and not asked.across and await index.count() > most:
        return nothing_in(asked.scope, ())
    return await hint_of(index, asked.scope, asked.has, named, most)


async def _similarities(
    index: Index, query: str, number: int, memories: Sequence[Memory], vector_of: VectorOf
) -> Mapping[MemoryId, QuerySimilarity]:
    """Return the similarities to the query of the nearest memories of each scope."""
    scopes = sorted({memory.scope for memory in memories if memory.live})
    if not scopes:
        return {}
    vector = await vector_of(query)
    hits = await index.search([Query(scope, vector, number, floor=-1.0) for scope in scopes])
    return {
        stored.memory.id: (found[0], other_than_shown(stored.memory, found[1]))
        for of_scope in hits
        for stored in of_scope
        if (found := stored.nearest(vector)) is not None
    }


def _patterns(stored: Sequence[StoredMemory], asked: RecallRequest) -> list[RecalledMemory]:
    """Return memories that many scopes state in nearly the same words."""
    found = [
        (one.memory, one.vector) for one in stored if one.memory.live and one.vector is not None
    ]
    if len(found) > MEMORIES_MAX:
        raise Unusable(
            f"{asked.scope} and below have {len(found):,} live memories, and patterns are sought "
            f"for among {MEMORIES_MAX:,} at most: name a narrower scope"
        )
    groups = alike([memory for memory, _ in found], [vector for _, vector in found])
    return together(groups, RecallReason.PATTERN, number=asked.number, scopes_min=SCOPES_MIN)


@asynccontextmanager
async def recalling(
    target: LogTarget, *, report: Callable[[str], None] = lambda _: None
) -> AsyncGenerator[Recaller]:
    """Open a log to recall from. Raises NoStore if there is none.

    Others may write it meanwhile. `report` receives a line if a model has to be downloaded.
    """
    kept = settings_of(target).embedder
    async with opened(target) as log:
        yield Recaller(
            log,
            lambda: wiring.embedder(kept, report),
            wiring.token_counter(kept, report),
        )
