"""Cannot-link constraints: memories that an undo or an answer keeps apart, until it is undone."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from schemas.base import DecisionId
from schemas.memories import SIDES_MAX, Memory, Side


def are_apart(one: Memory, other: Memory) -> bool:
    """Return whether a decision keeps two memories, or any of their parts, apart."""
    return any(
        mine.undo == theirs.undo and mine.side != theirs.side
        for mine in one.kept_apart
        for theirs in other.kept_apart
    )


def right(memory: Memory, answer: DecisionId) -> Memory:
    """Return the next version of a memory that an answer finds right beside another one."""
    version = memory.version + 1
    own = Side(undo=answer, side=memory.id, right_at=version)
    return memory.model_copy(
        update={"version": version, "kept_apart": sides([memory.kept_apart, (own,)])}
    )


def compatible(memories: Iterable[Memory]) -> list[Memory]:
    """Return those that may be joined with the first and with each other, in order."""
    found: list[Memory] = []
    for memory in memories:
        if not any(are_apart(memory, other) for other in found):
            found.append(memory)
    return found


def pairs_apart(memories: Sequence[Memory]) -> Iterator[tuple[int, int]]:
    """Yield the indices of every separated pair, the smaller first; some pairs come twice."""
    places: dict[str, list[int]] = {}
    for place, memory in enumerate(memories):
        for undo in {one.undo for one in memory.kept_apart}:
            places.setdefault(undo, []).append(place)
    for of_one_undo in places.values():
        for first, second in combinations(of_one_undo, 2):
            if are_apart(memories[first], memories[second]):
                yield first, second


def sides(groups: Iterable[Sequence[Side]]) -> tuple[Side, ...]:
    """Return the distinct sides of several memories for a joined one; the last SIDES_MAX."""
    return tuple(dict.fromkeys(side for group in groups for side in group))[-SIDES_MAX:]
