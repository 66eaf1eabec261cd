"""Every vector compared with every other, in numpy: the reference, and right for small jobs.

Lives in memory only: whoever opens it applies the decisions to it from the first.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from schemas.base import ContentKey, DecisionId, MemoryId, ScopeName
from streams.core.neighbours import Stored
from streams.ports import FLOAT32_SLACK, Level, Query


class ExactIndex:
    """Implements ports.Index."""

    def __init__(self) -> None:
        self._stored: dict[MemoryId, Stored] = {}
        self._scopes: dict[ScopeName, set[MemoryId]] = {}
        self._decided: dict[DecisionId, ContentKey] = {}
        self._level: Level | None = None

    async def search(self, queries: Sequence[Query]) -> list[list[Stored]]:
        return [self._nearest(query) for query in queries]

    async def get(self, ids: Sequence[MemoryId]) -> dict[MemoryId, Stored]:
        return {i: replace(self._stored[i], vector=None) for i in ids if i in self._stored}

    async def with_content(self, keys: Sequence[ContentKey]) -> dict[ContentKey, list[Stored]]:
        wanted = set(keys)
        found: dict[ContentKey, list[Stored]] = {}
        for _, stored in sorted(self._stored.items()):
            key = stored.memory.content_key
            if stored.memory.live and key in wanted:
                found.setdefault(key, []).append(replace(stored, vector=None))
        return found

    async def decided(self, ids: Sequence[DecisionId]) -> Mapping[DecisionId, ContentKey]:
        return {i: self._decided[i] for i in ids if i in self._decided}

    async def write(self, changes: Sequence[Stored]) -> None:
        for change in changes:
            memory = change.memory
            vector = self._stored[memory.id].vector if change.vector is None else change.vector
            before = self._stored.get(memory.id)
            for identity, _ in () if before is None else before.decided:
                self._decided.pop(identity, None)
            self._decided.update(change.decided)
            self._stored[memory.id] = replace(change, vector=vector)
            self._scopes.setdefault(memory.scope, set()).add(memory.id)

    async def scan(self, scope: ScopeName | None = None) -> AsyncIterator[Stored]:
        for identity in sorted(self._stored if scope is None else self._scopes.get(scope, ())):
            yield self._stored[identity]

    async def count(self) -> int:
        return len(self._stored)

    async def level(self) -> Level | None:
        return self._level

    async def keep_level(self, partition: int, offset: int) -> None:
        offsets = dict[int, int]() if self._level is None else self._level.offsets
        self._level = Level({**offsets, partition: offset}, len(self._stored))

    async def clear(self) -> None:
        self._level = None
        self._stored.clear()
        self._scopes.clear()
        self._decided.clear()

    async def close(self) -> None:
        pass

    def _nearest(self, query: Query) -> list[Stored]:
        ids = sorted(self._scopes.get(query.scope, ()))
        live = [s for s in (self._stored[i] for i in ids) if s.memory.live and s.vector is not None]
        if not live:
            return []
        scores = np.stack([s.vector for s in live if s.vector is not None]) @ query.vector
        order = np.argsort(-scores, kind="stable")[: query.limit]
        return [live[i] for i in order if scores[i] >= query.floor - FLOAT32_SLACK]
