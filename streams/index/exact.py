"""Exact search in numpy, comparing all vectors: the reference, and enough for small jobs.

It exists only in memory: its user applies all decisions to it. The live vectors of a scope are
cached as one matrix from a search until the scope changes.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from schemas.base import ContentKey, DecisionId, MemoryId, ScopeName
from schemas.memories import Standing
from streams.index.following import new_token, raised
from streams.index.payload import (
    contradicting,
    remembered,
    vectors_of,
    with_contents,
    without_vectors,
)
from streams.model.embedding import Vector, best_of_each
from streams.model.fences import ReadPosition
from streams.model.neighbours import KnownEvent, StoredMemory
from streams.model.ports.index import FLOAT32_SLACK, IndexLevel, PartitionLevel, Query


@dataclass(frozen=True)
class _Searched:
    """The live memories of a scope, and the vectors of all their wordings, one per row.

    `sizes`: how many rows each memory has, in the same order.
    """

    live: Sequence[StoredMemory]
    matrix: Vector
    sizes: Sequence[int]


class ExactIndex:
    """Implements ports.Index."""

    def __init__(self) -> None:
        self._stored: dict[MemoryId, StoredMemory] = {}
        self._scopes: dict[ScopeName, set[MemoryId]] = {}
        self._searched: dict[ScopeName, _Searched] = {}
        self._gone: dict[ScopeName, set[MemoryId]] = {}
        self._decided: dict[DecisionId, set[MemoryId]] = {}
        self._against: dict[MemoryId, set[MemoryId]] = {}
        self._level: IndexLevel | None = None

    async def search(self, queries: Sequence[Query]) -> list[list[StoredMemory]]:
        return [self._nearest(query) for query in queries]

    async def get(self, ids: Sequence[MemoryId]) -> dict[MemoryId, StoredMemory]:
        return {i: self._stored[i] for i in ids if i in self._stored}

    async def with_content(
        self, keys: Sequence[ContentKey]
    ) -> dict[ContentKey, list[StoredMemory]]:
        by_id = (stored for _, stored in sorted(self._stored.items()))
        live = (without_vectors(one) for one in by_id if one.memory.live)
        return with_contents(live, keys)

    async def contradicting(self, ids: Sequence[MemoryId]) -> dict[MemoryId, list[StoredMemory]]:
        holders = sorted({memory for i in ids for memory in self._against.get(i, ())})
        found = (self._stored[memory] for memory in holders)
        live = (without_vectors(one) for one in found if one.memory.live)
        return contradicting(live, ids)

    async def decided(self, ids: Sequence[DecisionId]) -> Mapping[DecisionId, KnownEvent]:
        holders = {memory for i in ids for memory in self._decided.get(i, ())}
        return remembered((self._stored[memory] for memory in holders), ids)

    async def forgotten(self, scopes: Sequence[ScopeName]) -> dict[ScopeName, list[StoredMemory]]:
        gone = {scope: self._gone[scope] for scope in scopes if scope in self._gone}
        return {scope: [self._stored[i] for i in sorted(ids)] for scope, ids in gone.items()}

    async def write(self, changes: Sequence[StoredMemory]) -> None:
        for change in changes:
            vectors_of(change)  # like the other indexes, refuse a state without vectors
            before = self._stored.get(change.memory.id)
            if before is None or before.memory.version < change.memory.version:
                self._replace(before, change)

    async def scan(self, scope: ScopeName | None = None) -> AsyncIterator[StoredMemory]:
        for identity in sorted(self._stored if scope is None else self._scopes.get(scope, ())):
            yield self._stored[identity]

    async def count(self) -> int:
        return len(self._stored)

    async def level(self) -> IndexLevel | None:
        return self._level

    async def keep_level(
        self, partition: int, reached: ReadPosition, *, since: PartitionLevel
    ) -> PartitionLevel:
        kept = raised(self._level, partition, reached, since, new_token())
        self._level = IndexLevel(kept, len(self._stored))
        return kept[partition]

    async def clear(self) -> None:
        self._level = None
        self._stored.clear()
        self._scopes.clear()
        self._searched.clear()
        self._gone.clear()
        self._decided.clear()
        self._against.clear()

    async def close(self) -> None:
        pass

    def _replace(self, before: StoredMemory | None, change: StoredMemory) -> None:
        memory = change.memory
        for identity, _ in () if before is None else before.decided:
            self._decided[identity].discard(memory.id)
            if not self._decided[identity]:
                del self._decided[identity]
        for identity, _ in change.decided:
            self._decided.setdefault(identity, set()).add(memory.id)
        for identity, _ in () if before is None else before.contradicted:
            self._against[identity].discard(memory.id)
        for identity, _ in change.contradicted:
            self._against.setdefault(identity, set()).add(memory.id)
        self._stored[memory.id] = change
        self._scopes.setdefault(memory.scope, set()).add(memory.id)
        self._searched.pop(memory.scope, None)
        if memory.status is Standing.FORGOTTEN:
            self._gone.setdefault(memory.scope, set()).add(memory.id)

    def _nearest(self, query: Query) -> list[StoredMemory]:
        scope = self._searched.get(query.scope) or self._to_search(query.scope)
        if scope is None:
            return []
        scores = best_of_each(scope.matrix @ query.vector, scope.sizes)
        order = np.argsort(-scores, kind="stable")[: query.limit]
        return [scope.live[i] for i in order if scores[i] >= query.floor - FLOAT32_SLACK]

    def _to_search(self, scope: ScopeName) -> _Searched | None:
        stored = (self._stored[i] for i in sorted(self._scopes.get(scope, ())))
        live = [one for one in stored if one.memory.live]
        if not live:
            return None
        vectors = [vectors_of(one) for one in live]
        matrix = np.stack([row for rows in vectors for row in rows])
        searched = _Searched(live, matrix, [len(rows) for rows in vectors])
        self._searched[scope] = searched
        return searched
