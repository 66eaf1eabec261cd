"""Nomination of a scope's memory pairs that may be one fact: nearest neighbours, block by block."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from schemas.base import MemoryId
from schemas.decisions import Band
from schemas.memories import Memory
from streams.model.embedding import NEAR_TIE
from streams.model.neighbours import Neighbour
from streams.model.policy import Rules
from streams.stage.core.cannot_link import pairs_apart
from streams.stage.core.consolidation import MergeCandidate, by_time, paired

_ROWS = 512
"""Vectors compared with all others at once: 20 MB of similarities for 10,000 vectors."""

_WORTH_A_LOOK = frozenset({Band.MATCH, Band.REVIEW})


def near_pairs(
    members: Mapping[MemoryId, MergeCandidate], rules: Rules, *, neighbours_max: int
) -> list[tuple[Memory, Neighbour]]:
    """Return the pairs of one scope's memories that may say the same, nearest first.

    Each memory is paired with its `neighbours_max` nearest, if they are in the policy's bands
    `match` or `review`. Pairs that an undo separated are excluded; a pair nominated by both comes
    once. The memory last seen later leads a pair.
    """
    in_time = by_time(members)
    if not in_time:
        return []
    matrix, apart = np.stack([one.vector for one in in_time]), _apart(in_time)
    nominated = set(_nominated(matrix, apart, rules, neighbours_max))
    pairs = [paired(in_time[newer], in_time[older], rules) for older, newer in nominated]
    return sorted(
        (pair for pair in pairs if pair[1].band in _WORTH_A_LOOK),
        key=lambda pair: (-pair[1].similarity, pair[0].id, pair[1].memory.id),
    )


def _apart(members: Sequence[MergeCandidate]) -> dict[int, list[int]]:
    """Return, per row, the rows that an undo separated from it; rows without any are missing."""
    apart: dict[int, list[int]] = {}
    for first, second in pairs_apart([one.memory for one in members]):
        apart.setdefault(first, []).append(second)
        apart.setdefault(second, []).append(first)
    return apart


def _nominated(
    matrix: NDArray[np.float32],
    apart: Mapping[int, Sequence[int]],
    rules: Rules,
    neighbours_max: int,
) -> Iterator[tuple[int, int]]:
    """Yield candidate pairs of rows, the smaller first, with a margin for float32 rounding."""
    titles_count = rules.nominate.same_title
    floor = rules.nominate.similarity_min if titles_count else rules.bands.review
    for start in range(0, len(matrix), _ROWS):
        cosines = matrix[start : start + _ROWS] @ matrix.T
        own = np.arange(len(cosines))
        cosines[own, own + start] = -1.0  # no memory is its own neighbour
        for row, others in apart.items():
            if 0 <= row - start < len(cosines):
                cosines[row - start, others] = -1.0
        is_near = cosines >= floor - NEAR_TIE
        for row in np.flatnonzero(is_near.any(axis=1)).tolist():
            near = np.flatnonzero(is_near[row])
            nearest = near[np.argsort(-cosines[row, near], kind="stable")[:neighbours_max]]
            at = start + row
            yield from ((min(at, other), max(at, other)) for other in nearest.tolist())
