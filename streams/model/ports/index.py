"""The searchable copy of the memories, and the copies that others read."""

from collections.abc import (
    AsyncIterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from typing import Protocol

from schemas.base import ContentKey, DecisionId, MemoryId, ScopeName
from schemas.outcomes import Applied
from streams.model.embedding import Vector
from streams.model.fences import BEGINNING, ReadPosition
from streams.model.neighbours import KnownEvent, StoredMemory

FLOAT32_SLACK = 1e-6
"""The error bound of a cosine computed in float32: indexes compare with this slack."""


@dataclass(frozen=True)
class Query:
    """A query for the live memories of one scope that are nearest to a vector.

    `limit` is the maximum count, `floor` the minimum cosine (inclusive, to float32 accuracy).
    """

    scope: ScopeName
    vector: Vector
    limit: int
    floor: float


@dataclass(frozen=True)
class PartitionLevel:
    """How far an index has followed a partition of decisions, and which index that is.

    `index` is a token unique to that index, whatever its name; "" if nothing is followed yet.
    """

    reached: ReadPosition = BEGINNING
    index: str = ""


UNFOLLOWED = PartitionLevel()


@dataclass(frozen=True)
class IndexLevel:
    """How far an index has followed the log.

    `memories` is at least how many it held when the level was kept; 0 if it does not count them.
    """

    partitions: Mapping[int, PartitionLevel]
    memories: int


class DecidedEvents(Protocol):
    """Knows which events have already been decided."""

    async def decided(self, ids: Sequence[DecisionId]) -> Mapping[DecisionId, KnownEvent]:
        """Return what is known of each decided event; ids without a decision are left out."""
        ...


class Index(DecidedEvents, Protocol):
    """The searchable copy of the memories. It nominates; model/embedding.py measures.

    It can be rebuilt from the decisions at any time. Calls may raise Transient or Fatal. It knows
    the newest decisions of each memory, as many as StoredMemory keeps.
    """

    async def search(self, queries: Sequence[Query]) -> list[list[StoredMemory]]:
        """Return, per query, the nearest live memories of the scope, nearest first.

        A memory is as near as its nearest wording. Vectors, of unit length, come back bit-equal.
        """
        ...

    async def get(self, ids: Sequence[MemoryId]) -> dict[MemoryId, StoredMemory]:
        """Return what is stored under these ids, live or not, with their vectors.

        Absent ids are left out; the caller owns the dict.
        """
        ...

    async def with_content(
        self, keys: Sequence[ContentKey]
    ) -> dict[ContentKey, list[StoredMemory]]:
        """Return, per content key, the live memories with such a wording, by id, without vectors.

        Keys that no live memory has are left out.
        """
        ...

    async def contradicting(self, ids: Sequence[MemoryId]) -> dict[MemoryId, list[StoredMemory]]:
        """Return, per id, the live memories that were found to contradict it, without vectors.

        By id; an id that none contradicts is left out.
        """
        ...

    async def forgotten(self, scopes: Sequence[ScopeName]) -> dict[ScopeName, list[StoredMemory]]:
        """Return, per scope, its forgotten memories, by id, with their vectors.

        Scopes that have none are left out; if no scope has one, the call costs next to nothing.
        """
        ...

    async def write(self, changes: Sequence[StoredMemory]) -> None:
        """Store these states with the vector of each wording, each id at most once.

        On return they are searchable; `keep_level` makes them durable. A crash before may lose
        them: the level is then as far behind as before. A state is skipped if the index has that version of the memory or a
        later one: a late writer cannot set a memory back. If it raises, any state may be stored.
        """
        ...

    async def count(self) -> int:
        """Return how many memories are stored, live or not; cheap."""
        ...

    async def level(self) -> IndexLevel | None:
        """Return the kept levels; None if none was kept."""
        ...

    async def keep_level(
        self, partition: int, reached: ReadPosition, *, since: PartitionLevel
    ) -> PartitionLevel:
        """Make all writes durable, then record the log position that they reach.

        `since` is the index, and the level in it, that the writes build on. Raises Transient if
        this is a different index now or its level is lower. Returns what is kept: never less.
        """
        ...

    async def clear(self) -> None:
        """Delete everything, the level first."""
        ...

    def scan(self, scope: ScopeName | None = None) -> AsyncIterator[StoredMemory]:
        """Yield every memory, of `scope` or of all, live or not, with its vector, by id."""
        ...

    async def close(self) -> None: ...


class Sink(Protocol):
    """A copy of the memories for other programs; the writer maintains it along with the index.

    Calls may raise Transient, if it cannot be reached, or NoStore.
    """

    @property
    def name(self) -> str:
        """The sink's name in messages and metrics."""
        ...

    async def level(self, partition: int) -> ReadPosition | None:
        """Return how far it has followed a partition of decisions; None if it has not begun."""
        ...

    async def write(
        self, partition: int, changes: Sequence[Applied], reached: ReadPosition
    ) -> None:
        """Write the changes, then the log position that they reach; durable on return.

        A change is skipped if the sink has that version of the memory or a later one, so any window
        may be repeated. A level is never lowered.
        """
        ...

    async def close(self) -> None: ...
