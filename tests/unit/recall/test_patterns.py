"""Which memories are one pattern: every pair of them is near, and no chain leads further."""

from itertools import permutations

import pytest

from streams.model.embedding import Vector
from streams.recall.core.patterns import alike
from tests.builders import at_cosine, identity, memory, unit


def grouped(*vectors: Vector, similarity_min: float = 0.8) -> list[list[int]]:
    """Return the groups by the numbers of their members."""
    memories = [memory(id=identity(number)) for number in range(len(vectors))]
    groups = alike(memories, vectors, similarity_min=similarity_min)
    return [[int(one.id[-3:]) for one in group] for group in groups]


@pytest.mark.covers("S0.77")
def test_what_is_near_is_one_group_and_the_rest_is_in_none() -> None:
    assert grouped(unit(1), unit(0, 1), at_cosine(0.9)) == [[0, 2]]
    assert grouped(unit(1), unit(0, 1)) == []
    assert grouped(unit(1)) == []
    assert grouped() == []


@pytest.mark.covers("S0.77")
def test_a_chain_is_no_group() -> None:
    """The first is near the second and the second the third, but not the first the third."""
    chain = (unit(1), unit(0.8, 0.6), unit(0.28, 0.96))
    assert grouped(*chain, similarity_min=0.79) == [[0, 1]]


@pytest.mark.covers("S0.77")
def test_the_one_in_the_middle_stands_for_all() -> None:
    assert grouped(unit(0.8, 0.6), unit(1), unit(0.8, -0.6), similarity_min=0.2) == [[1, 0, 2]]


def test_the_order_does_not_matter() -> None:
    vectors = (unit(1), unit(0.8, 0.6), unit(0.28, 0.96), unit(0, 1))
    memories = [memory(id=identity(number)) for number in range(4)]
    found = [
        alike([memories[at] for at in order], [vectors[at] for at in order], similarity_min=0.79)
        for order in permutations(range(4))
    ]
    assert all(one == found[0] for one in found)
