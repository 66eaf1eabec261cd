"""The conflicts of memories, for people and programs."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from schemas.base import MemoryId, Record
from schemas.memories import Memory
from streams.model.neighbours import StoredMemory
from streams.model.ports import Index
from streams.store.core.conflicts import conflicts


class Conflict(Record):
    """A live memory that says otherwise: its id, what it says, and when that was last seen."""

    memory_id: MemoryId
    text: str
    last_seen_at: datetime


class KeptMemory(Memory):
    """A memory as it is, with the live memories that contradict it, the last seen first."""

    conflicts: tuple[Conflict, ...] = ()


Conflicts = Mapping[MemoryId, tuple[Conflict, ...]]


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


def kept(memory: Memory, known: Conflicts) -> KeptMemory:
    """Return a memory with its conflicts."""
    return KeptMemory.trusted(**dict(memory), conflicts=known.get(memory.id, ()))
