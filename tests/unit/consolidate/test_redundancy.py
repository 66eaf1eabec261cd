import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.memories import Superseded
from streams.consolidate.core.redundancy import THRESHOLDS, Crowding, Removal, supersession
from streams.model.embedding import Vector, similarity
from tests.builders import START, at_cosine, identity, memory, unit


@pytest.mark.covers("S1.1", "S1.7")
def test_pairs_are_counted_by_threshold_and_at_a_threshold_counts() -> None:
    crowding = Crowding.of(
        [[unit(1), at_cosine(0.95), at_cosine(0.9, axis=2), unit(0, 0, 0, 0, 1)]]
    )
    # the second and third are at .95 * .9 = .855
    assert [crowding.pairs[t] for t in THRESHOLDS] == [0, 1, 2, 3, 3, 3]
    assert [crowding.near[t] for t in THRESHOLDS] == [0, 2, 3, 3, 3, 3]
    assert crowding.memories == 4


@given(st.lists(st.tuples(*[st.integers(-3, 3)] * 3).filter(any), max_size=12))
def test_blocks_count_what_one_by_one_counts(points: list[tuple[int, int, int]]) -> None:
    vectors = [unit(*point) for point in points]
    crowding = Crowding.of([vectors])
    for threshold in THRESHOLDS:
        assert crowding.pairs[threshold] == sum(
            similarity(one, other) >= threshold
            for at, one in enumerate(vectors)
            for other in vectors[at + 1 :]
        )


def test_ten_thousand_memories_of_a_scope_take_seconds() -> None:
    turned = np.arange(10_000 * 64, dtype=np.float32).reshape(10_000, 64)
    matrix = np.sin(turned * 12.9898)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    vectors: list[Vector] = [*matrix, matrix[0], matrix[700]]
    started = time.process_time()
    crowding = Crowding.of([vectors])
    assert crowding.pairs[0.98] >= 2
    assert time.process_time() - started < 30


def test_pairs_of_two_blocks_are_counted_once() -> None:
    vectors = [unit(1, n / 50) for n in range(1_100)]
    cosines = np.stack(vectors).astype(np.float64) @ np.stack(vectors).astype(np.float64).T
    crowding = Crowding.of([vectors])
    above = np.round(cosines, 5) >= 0.98
    assert crowding.pairs[0.98] == (np.count_nonzero(above) - len(vectors)) // 2
    assert crowding.near[0.98] == np.count_nonzero(above.sum(axis=1) > 1)


@pytest.mark.covers("S2.28", "S2.30", "B115")
@pytest.mark.parametrize(
    ("live", "status"),
    [(96, "low"), (95, "healthy"), (80, "healthy"), (79, "high"), (50, "high"), (49, "alert")],
)
def test_health_follows_from_what_was_removed(live: int, status: str) -> None:
    assert Removal(events=100, live=live).status == status


def test_of_no_event_there_is_no_rate() -> None:
    assert (Removal().removal_rate, Removal().merge_rate, Removal().status) == (
        None,
        None,
        "unknown",
    )


def retired(number: int, by: int) -> dict[str, Any]:
    superseded = Superseded(by=memory(id=identity(by)).id, at=START, reason="same-fact")
    return {"id": identity(number), "status": "superseded", "superseded": superseded}


def test_chains_are_followed_to_the_live_memory() -> None:
    memories = [
        memory(id=identity(1)),
        memory(**retired(2, by=1)),
        memory(**retired(3, by=2)),
        memory(**retired(4, by=9)),
        memory(**retired(5, by=6)),
        memory(**retired(6, by=5)),
    ]
    found = supersession({one.id: one for one in memories})
    assert (found.superseded, found.depth_max, found.depth_mean) == (5, 2, 1.5)
    assert found.without_live_successor == tuple(memory(id=identity(n)).id for n in (4, 5, 6))
