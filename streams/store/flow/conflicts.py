"""Looks up the conflicts of memories in an index."""

from collections.abc import Mapping, Sequence

from schemas.base import MemoryId
from schemas.memories import Memory
from streams.model.ports.index import Index
from streams.store.core.conflicts import conflicts


async def conflicting(index: Index, ids: Sequence[MemoryId]) -> Mapping[MemoryId, list[Memory]]:
    """Return what some memories of an index are in conflict with, the last seen first."""
    if not ids:
        return {}
    held = await index.get(ids)
    for others in (await index.contradicting(ids)).values():
        held |= {one.memory.id: one for one in others if one.memory.id not in held}
    named = {identity for i in ids if i in held for identity, _ in held[i].contradicted}
    found = conflicts((held | await index.get(sorted(named - set(held)))).values())
    return {identity: found[identity] for identity in ids if identity in found}
