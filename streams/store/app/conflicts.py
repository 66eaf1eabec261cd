"""The conflicts of memories, for people and programs."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Self

from schemas.base import DecisionId, MemoryId, Record, Unit
from schemas.decisions import Change, Compared, Decision, Verdict
from schemas.memories import Memory
from streams.model.neighbours import StoredMemory
from streams.model.ports.index import Index
from streams.store.core.conflicts import conflicts
from streams.store.flow.conflicts import conflicting


class Conflict(Record):
    """A live memory that says otherwise: its id, what it says, and when that was last seen."""

    memory_id: MemoryId
    text: str
    last_seen_at: datetime

    @classmethod
    def of(cls, memory: Memory) -> Self:
        return cls(memory_id=memory.id, text=memory.text, last_seen_at=memory.last_seen_at)


class Contradicted(Record):
    """A memory that a decision found contradicted: its id, what it said, and how sure the judge was.

    `text` is None if the memory says something else by now, and `probability` if no judge gave one.
    """

    memory_id: MemoryId
    text: str | None
    probability: Unit | None


class KeptMemory(Memory):
    """A memory as it is, with the live memories that contradict it, the last seen first."""

    conflicts: tuple[Conflict, ...] = ()


Conflicts = Mapping[MemoryId, tuple[Conflict, ...]]
Contradictions = Mapping[DecisionId, tuple[Contradicted, ...]]


def among(stored: Iterable[StoredMemory]) -> Conflicts:
    """Return the conflicts among memories that are all at hand."""
    return told(conflicts(stored))


async def conflicts_of(index: Index, ids: Sequence[MemoryId]) -> Conflicts:
    """Return the conflicts of some memories of an index with any others."""
    return told(await conflicting(index, ids))


def told(known: Mapping[MemoryId, Iterable[Memory]]) -> Conflicts:
    """Return the conflicts as records, for readers."""
    return {identity: tuple(map(Conflict.of, others)) for identity, others in known.items()}


async def contradicted_by(
    index: Callable[[], Awaitable[Index]], decisions: Iterable[Decision]
) -> Contradictions:
    """Return what decisions found contradicted, the most similar first, replaced or not.

    `index` is opened only if there is something to look up: that may read a whole log.
    """
    found = {
        one.decision_id: near
        for one in decisions
        if isinstance(one, Change)
        if (near := [n for n in one.evidence.neighbours if n.verdict is Verdict.CONTRADICTS])
    }
    ids = sorted({one.memory_id for near in found.values() for one in near})
    held = await (await index()).get(ids) if ids else {}
    return {
        identity: tuple(_contradicted(one, held.get(one.memory_id)) for one in near)
        for identity, near in found.items()
    }


def _contradicted(near: Compared, now: StoredMemory | None) -> Contradicted:
    told = near.probabilities
    return Contradicted(
        memory_id=near.memory_id,
        text=now.memory.text if now is not None and now.worded_at <= near.version else None,
        probability=None if told is None else told.get(Verdict.CONTRADICTS),
    )


def kept(memory: Memory, known: Conflicts) -> KeptMemory:
    """Return a memory with its conflicts."""
    return KeptMemory.trusted(**dict(memory), conflicts=known.get(memory.id, ()))
