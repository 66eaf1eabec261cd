"""Which live memories contradict each other, according to the judge's earlier verdicts."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from schemas.base import DecisionId, MemoryId
from schemas.memories import Memory
from streams.model.neighbours import StoredMemory
from streams.model.observed import believed
from streams.stage.core.decide import is_stronger

Result = TypeVar("Result")
"""What is ranked: one memory, or several that are one fact."""


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


def newer_first(
    ranked: Sequence[Result],
    memories: Callable[[Result], Sequence[Memory]],
    known: Mapping[MemoryId, Sequence[Memory]],
    now: datetime,
) -> list[Result]:
    """Return results in their order, but each after the newer ones that it is in conflict with.

    A newer one moves up to where the older one stood: whoever reads the first result alone reads
    what holds now. What a newer memory could not replace does not yield: a pinned memory, or one
    that `is_stronger`. A time after `now` is not believed.
    """
    place = {memory.id: at for at, one in enumerate(ranked) for memory in memories(one)}
    seen_at = [max(believed(m.last_seen_at, now) for m in memories(one)) for one in ranked]

    def before(at: int) -> set[int]:
        """Return the places of the newer ones that a result yields to."""
        return {
            place[other.id]
            for memory in memories(ranked[at])
            for other in known.get(memory.id, ())
            if other.id in place and seen_at[place[other.id]] > seen_at[at]
            if not (memory.pinned or is_stronger(memory, other))
        }

    order: list[int] = []
    for at in range(len(ranked)):
        group = [] if at in order else [at]
        for one in group:  # which grows
            group += sorted(before(one).difference(group, order))
        order += sorted(group, key=lambda one: seen_at[one], reverse=True)
    return [ranked[at] for at in order]


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
