"""Which live memories contradict each other, according to the judge's earlier verdicts."""

from collections.abc import Iterable, Mapping

from schemas.base import DecisionId, MemoryId
from schemas.memories import Memory
from streams.model.neighbours import StoredMemory


def conflicts(stored: Iterable[StoredMemory]) -> dict[MemoryId, list[Memory]]:
    """Return what each of these memories is in conflict with, the last seen first.

    Both of a pair have to be there. A conflict lasts while both are live, the one that was
    contradicted shows the text that was judged, and no person has found both texts right.
    """
    by_id = {one.memory.id: one for one in stored}
    found: dict[MemoryId, dict[MemoryId, Memory]] = {}
    for one in by_id.values():
        for other in _contradicted(one, by_id):
            found.setdefault(one.memory.id, {})[other.id] = other
            found.setdefault(other.id, {})[one.memory.id] = one.memory
    return {
        identity: sorted(others.values(), key=lambda one: (one.last_seen_at, one.id), reverse=True)
        for identity, others in found.items()
    }


def _contradicted(one: StoredMemory, by_id: Mapping[MemoryId, StoredMemory]) -> Iterable[Memory]:
    """Yield the memories that one was found to contradict, and does still."""
    if not one.memory.live:
        return
    for identity, seen_at in one.contradicted:
        other = by_id.get(identity)
        if other is None or not other.memory.live or other.worded_at > seen_at:
            continue
        if not are_both_right(one, other):
            yield other.memory


def are_both_right(one: StoredMemory, other: StoredMemory) -> bool:
    """Return whether an answer found two memories right beside each other, with their texts."""
    return not _right(one).isdisjoint(_right(other))


def _right(one: StoredMemory) -> set[DecisionId]:
    """Return the answers that found a memory right with the text that it shows, beside another."""
    return {
        side.undo
        for side in one.memory.kept_apart
        if side.side == one.memory.id and side.right_at is not None
        if side.right_at >= one.worded_at
    }
