"""Memories that say nearly the same in many scopes: what a tenant or a world has learnt as a whole.

Complete linkage: in a group each is near to every other, so that no chain of small steps joins what
is far apart. Nothing is decided here and nothing kept: a pattern is a hint for who asks for it.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from schemas.memories import Memory
from streams.core.embedding import SIMILARITY_DECIMALS, Vector

SCOPES_MIN = 5
"""Scopes from which on what they say alike is a pattern of the whole."""

SIMILARITY_MIN = 0.5
"""Cosine from which on two memories may be of one pattern.

With the default model "Open the window, then enter through the window", said of a window, a trap
door, a gate and a hatch, lies at .51 to .68 to each other, and other notes of such places at most
at .36 to most of them (2026-11-22). Far too low to decide anything by.
"""

MEMORIES_MAX = 10_000
"""Each is compared with each other: 100 MB of marks, and 1.6 GB in all where all are alike."""

_ROWS = 512
_AT_ONCE = 65_536
"""Pairs that are taken into Python's own numbers: of 10,000 memories there may be 50 million."""


def alike(
    memories: Sequence[Memory], vectors: Sequence[Vector], *, similarity_min: float = SIMILARITY_MIN
) -> list[list[Memory]]:
    """Return the groups of memories in which each is as near as that to every other.

    `vectors` are theirs, of length one. The nearest pair is joined first, and two groups only where
    every pair across them is near. Of a group the memory that is nearest to the others comes first.
    The result does not depend on the order of the memories. One that is alone is in no group.
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
    """Return which rows are near each other, and the pairs of them, the nearest first."""
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
