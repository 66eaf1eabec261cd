"""Patterns: memories that say nearly the same in many scopes of a tenant or a world.

Complete linkage: in a group, each memory is near to every other, so no chain joins distant ones.
Nothing is decided or stored here: a pattern is a hint for the caller.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from schemas.memories import Memory
from streams.model.embedding import SIMILARITY_DECIMALS, Vector

SCOPES_MIN = 5
"""Minimum number of scopes that share a pattern."""

SIMILARITY_MIN = 0.5
"""Minimum cosine similarity of two memories in one pattern.

With the default model, "Open the window, then enter through the window", said of a window, a trap
door, a gate and a hatch, has similarities of .51 to .68, and other notes of such places have at
most .36 to most of these (2026-11-22). This is far too low to base a decision on.
"""

MEMORIES_MAX = 10_000
"""All pairs are compared: 100 MB of marks, and 1.6 GB in total if all are alike."""

_ROWS = 512
_AT_ONCE = 65_536
"""Pairs converted to Python integers at a time: 10,000 memories may have 50 million pairs."""


def alike(
    memories: Sequence[Memory], vectors: Sequence[Vector], *, similarity_min: float = SIMILARITY_MIN
) -> list[list[Memory]]:
    """Return the groups of memories in which every pair has at least this similarity.

    `vectors` are theirs, at unit length. The nearest pair is joined first, and two groups only if
    every pair across them is near. In a group, the memory nearest to all others comes first. Single
    memories form no group. The result does not depend on the order of the memories.
    """
    order = sorted(range(len(memories)), key=lambda at: memories[at].id)
    if len(order) < 2:  # noqa: PLR2004 - one alone is near to nothing
        return []
    matrix = np.stack([vectors[at] for at in order])
    groups = _groups(matrix, similarity_min)
    return [[memories[order[at]] for at in _central_first(group, matrix)] for group in groups]


def _groups(matrix: NDArray[np.float32], similarity_min: float) -> list[list[int]]:
    near, pairs = _near(matrix, similarity_min)
    groups: dict[int, list[int]] = {}
    for start in range(0, len(pairs), _AT_ONCE):
        for first, second in pairs[start : start + _AT_ONCE].tolist():
            one, other = groups.get(first, [first]), groups.get(second, [second])
            if one is not other and near[np.ix_(one, other)].all():
                whole = sorted([*one, *other])
                groups.update(dict.fromkeys(whole, whole))
    distinct = {group[0]: group for group in groups.values()}
    return list(distinct.values())


def _near(
    matrix: NDArray[np.float32], similarity_min: float
) -> tuple[NDArray[np.bool_], NDArray[np.int16]]:
    """Return a matrix of which rows are near each other, and the near pairs, nearest first."""
    count = len(matrix)
    near = np.zeros((count, count), np.bool_)
    cosines, pairs = [np.zeros(0, np.float32)], [np.zeros((0, 2), np.int16)]
    for start in range(0, count, _ROWS):
        found = (matrix[start : start + _ROWS] @ matrix.T).round(SIMILARITY_DECIMALS)
        near[start : start + _ROWS] = found >= similarity_min
        rows, columns = np.nonzero(np.triu(near[start : start + _ROWS], start + 1))
        cosines.append(found[rows, columns])
        pairs.append(np.stack([rows + start, columns], axis=1).astype(np.int16))
    order = np.argsort(-np.concatenate(cosines), kind="stable")
    return near, np.concatenate(pairs)[order]


def _central_first(group: Sequence[int], matrix: NDArray[np.float32]) -> list[int]:
    members = matrix[list(group)]
    closeness = (members @ members.T).sum(axis=1).round(SIMILARITY_DECIMALS).tolist()
    return [at for _, at in sorted(zip((-one for one in closeness), group, strict=True))]
