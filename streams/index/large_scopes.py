"""Copies of the vectors of large scopes, in which they are searched exactly and at once.

The engine reads the vectors of a scope from all over its files and looks up the status of each:
0.5 µs per memory in a store of a million. As rows of one matrix they take a tenth of that.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from schemas.base import MemoryId, ScopeName
from streams.index.payload import vectors_of
from streams.model.embedding import Vector
from streams.model.neighbours import StoredMemory
from streams.model.ports.index import FLOAT32_SLACK, Query

Rows: TypeAlias = Sequence[Vector] | NDArray[np.float32]
"""The vectors of a memory's wordings."""

_FEW = 32
"""How many rows are ranked at first, so that a search need not sort all that are near enough."""


class LiveVectors(Protocol):
    """An index, as far as copies are made from it."""

    def live_count(self, scope: ScopeName) -> int:
        """Return how many live memories a scope has."""
        ...

    def live_vectors(self, scope: ScopeName, page: int) -> Iterator[list[tuple[MemoryId, Rows]]]:
        """Yield the live memories of a scope by id, in pages, each as it is stored by then."""
        ...


@dataclass(frozen=True)
class CopyLimits:
    """When the vectors of a scope are copied.

    A copy costs as much as 10 to 20 searches without one, so it begins after `searches_min`, if the
    scope then has `memories_min`. Each search copies a `page` of memories, in some 40 ms. All
    copies together take at most `bytes_max`, enough for 150,000 vectors of 384 numbers.
    """

    searches_min: int = 16
    memories_min: int = 1_000
    page: int = 4_096
    bytes_max: int = 256 * 2**20
    scopes_max: int = 2_048
    """How many scopes without a copy are observed."""


class LargeScopes:
    """The copies of the scopes that are searched most.

    Only for an index that no other process writes, and that passes on every change.
    """

    def __init__(self, index: LiveVectors, dimension: int, limits: CopyLimits) -> None:
        self._index = index
        self._dimension = dimension
        self._limits = limits
        self._searches = 0
        self._observed: dict[ScopeName, _Observed] = {}
        self._copies: OrderedDict[ScopeName, _Copy] = OrderedDict()

    def copy(self, scope: ScopeName) -> "ScopeVectors | None":
        """Return the vectors of a scope to search in; None if they are not, or not all, copied."""
        self._searches += 1
        copy = self._copies.get(scope)
        if copy is None:
            return None
        copy.searched = self._searches
        self._copies.move_to_end(scope)
        return None if copy.remaining else copy.vectors

    def observe(self, scope: ScopeName) -> None:
        """Copy a part of a scope that was searched without a copy, if it is worth one."""
        if scope in self._copies or self._is_worth_it(scope):
            self._continue(scope)

    def update(self, changes: Iterable[StoredMemory]) -> None:
        """Follow what was written."""
        for change in changes:
            if copy := self._copies.get(change.memory.scope):
                rows = vectors_of(change) if change.memory.live else ()
                copy.vectors.put(change.memory.id, rows)
        self._drop_until(self._limits.bytes_max)

    def clear(self) -> None:
        self._observed.clear()
        self._copies.clear()

    @property
    def _bytes(self) -> int:
        return sum(copy.vectors.bytes for copy in self._copies.values())

    def _is_worth_it(self, scope: ScopeName) -> bool:
        """Return whether a copy was begun."""
        if len(self._observed) >= self._limits.scopes_max:
            self._observed.clear()
        seen = self._observed.setdefault(scope, _Observed(since=self._searches))
        seen.searches += 1
        if seen.searches < self._limits.searches_min:
            return False
        del self._observed[scope]
        count = self._index.live_count(scope)
        wanted = _with_spare(count) * self._dimension * np.dtype(np.float32).itemsize
        if count < self._limits.memories_min or not self._has_room(wanted, seen.since):
            return False
        vectors = ScopeVectors(self._dimension, count)
        pages = self._index.live_vectors(scope, self._limits.page)
        self._copies[scope] = _Copy(vectors, pages, self._searches)
        return True

    def _has_room(self, wanted: int, since: int) -> bool:
        """Drop copies for one of `wanted` bytes, unless they were searched since a time."""
        room = self._limits.bytes_max - wanted
        idle = [scope for scope, copy in self._copies.items() if copy.searched < since]
        if self._bytes - sum(self._copies[scope].vectors.bytes for scope in idle) > room:
            return False
        self._drop_until(room)
        return True

    def _drop_until(self, room: int) -> None:
        while self._bytes > room:
            self._copies.popitem(last=False)

    def _continue(self, scope: ScopeName) -> None:
        copy = self._copies[scope]
        page = next(copy.remaining, None) if copy.remaining else None
        for identity, rows in page or ():
            copy.vectors.put(identity, rows)
        if page is None:
            copy.remaining = None
        self._drop_until(self._limits.bytes_max)  # a memory may have many vectors


class ScopeVectors:
    """The vectors of all wordings of a scope's live memories, one per row."""

    def __init__(self, dimension: int, count: int) -> None:
        """Start empty, with room for `count` vectors."""
        self._matrix = np.zeros((_with_spare(count), dimension), np.float32)
        self._owners: list[MemoryId | None] = []
        self._rows: dict[MemoryId, list[int]] = {}
        self._free: list[int] = []

    @property
    def bytes(self) -> int:
        return self._matrix.nbytes

    def put(self, identity: MemoryId, vectors: Rows) -> None:
        """Store the vectors of a memory instead of those that it had; without any, remove it."""
        before = self._rows.pop(identity, [])
        self._matrix[before] = 0.0
        for row in before:
            self._owners[row] = None
        self._free += before
        rows = [self._free.pop() if self._free else self._new_row() for _ in vectors]
        for row, vector in zip(rows, vectors, strict=True):
            self._matrix[row] = vector
            self._owners[row] = identity
        if rows:
            self._rows[identity] = rows

    def nearest(self, query: Query) -> list[MemoryId]:
        """Return the memories that are nearest, nearest first: each as near as its nearest row."""
        rows = self._matrix[: len(self._owners)]
        # In one thread: `@` takes several, and 16 ms for 2,000 rows where others need the cores.
        scores: NDArray[np.float32] = np.einsum("ij,j->i", rows, query.vector)
        near = np.flatnonzero(scores >= query.floor - FLOAT32_SLACK)
        ranked = min(len(near), max(_FEW, query.limit))
        while True:
            found = self._owners_of(near, scores[near], ranked)
            if len(found) >= query.limit or ranked == len(near):
                return found[: query.limit]
            ranked = min(len(near), ranked * 4)  # several wordings of one memory, or free rows

    def _owners_of(
        self, near: NDArray[np.intp], scores: NDArray[np.float32], ranked: int
    ) -> list[MemoryId]:
        """Return the owners of the highest of these rows, highest first, each once."""
        highest = np.argpartition(-scores, ranked - 1)[:ranked] if ranked else near
        order = highest[np.argsort(-scores[highest], kind="stable")]
        rows: list[int] = near[order].tolist()
        owners = dict.fromkeys(self._owners[row] for row in rows)
        return [owner for owner in owners if owner is not None]

    def _new_row(self) -> int:
        self._owners.append(None)
        if len(self._owners) > len(self._matrix):
            full, dimension = self._matrix.shape
            grown = np.zeros((_with_spare(full), dimension), np.float32)
            grown[:full] = self._matrix
            self._matrix = grown
        return len(self._owners) - 1


def _with_spare(rows: int) -> int:
    """Return for how many rows to allocate memory, so that new ones rarely need another matrix."""
    return rows + rows // 8 + 1


@dataclass
class _Observed:
    """A scope without a copy: how often it was searched, and since which search."""

    since: int
    searches: int = 0


@dataclass
class _Copy:
    """A copy: what remains to be copied, if anything does, and the search that last used it."""

    vectors: ScopeVectors
    remaining: Iterator[list[tuple[MemoryId, Rows]]] | None
    searched: int
