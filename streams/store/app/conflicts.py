"""The conflicts of memories, for people and programs."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime

from schemas.base import DecisionId, MemoryId, Record, Unit
from schemas.decisions import Change, Compared, Decision, Verdict
from schemas.memories import Memory
from streams.model.neighbours import StoredMemory
from streams.model.ports import Index
from streams.store.core.conflicts import conflicts


class Conflict(Record):
    """A live memory that says otherwise: its id, what it says, and when that was last seen."""

    memory_id: MemoryId
    text: str
    last_seen_at: datetime


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
    return {
        identity: tuple(
            Conflict(memory_id=one.id, text=one.text, last_seen_at=one.last_seen_at)
            for one in others
        )
        for identity, others in conflicts(stored).items()
    }


async def conflicts_of(index: Index, ids: Sequence[MemoryId]) -> Conflicts:
    """Return the conflicts of some memories of an index with any others."""
    if not ids:
        return {}
    held = await index.get(ids)
    for others in (await index.contradicting(ids)).values():
        held |= {one.memory.id: one for one in others if one.memory.id not in held}
    named = {identity for i in ids if i in held for identity, _ in held[i].contradicted}
    found = among((held | await index.get(sorted(named - set(held)))).values())
    return {identity: found[identity] for identity in ids if identity in found}


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
