import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.decisions import Band
from streams.model.bands import Bands
from streams.model.neighbours import Neighbour, StoredMemory, rank
from tests.builders import at_cosine, identity, memory, policy, stored, unit, worded

BANDS: Bands = policy().bands


def candidate(number: int, cosine: float) -> StoredMemory:
    return stored(vector=at_cosine(cosine), id=identity(number))


@pytest.mark.covers("B9")
def test_the_nearest_come_first_each_with_its_similarity_and_band() -> None:
    found = [candidate(1, 0.72), candidate(2, 0.97), candidate(3, 0.55), candidate(4, 0.85)]
    assert rank(unit(1), found, bands=BANDS, floor=0.5, limit=8) == [
        Neighbour(memory(id=identity(2)), 0.97, Band.MATCH),
        Neighbour(memory(id=identity(4)), 0.85, Band.REVIEW),
        Neighbour(memory(id=identity(1)), 0.72, Band.LOG),
        Neighbour(memory(id=identity(3)), 0.55, Band.NONE),
    ]


@pytest.mark.parametrize(
    ("cosine", "found"), [(0.50001, [1]), (0.5, [1]), (0.499996, [1]), (0.49999, [])]
)
def test_the_floor_is_inclusive_and_met_by_the_rounded_similarity(
    cosine: float, found: list[int]
) -> None:
    near = rank(unit(1), [candidate(1, cosine)], bands=BANDS, floor=0.5, limit=8)
    assert [neighbour.memory.id for neighbour in near] == [identity(number) for number in found]


def test_a_memory_is_as_near_as_its_nearest_wording_and_tells_how_near_its_shown_text_is() -> None:
    found = worded(candidate(1, 0.72), ("Ana is fond of tea.", at_cosine(0.97)))
    [other] = found.memory.variants
    [near] = rank(unit(1), [found], bands=BANDS, floor=0.5, limit=8)
    assert (near.similarity, near.wording, near.shown_similarity) == (0.97, other.content_key, 0.72)


def test_a_candidate_without_a_vector_is_not_measured() -> None:
    assert rank(unit(1), [StoredMemory(memory(), None)], bands=BANDS, floor=-1, limit=8) == []


@given(
    st.lists(st.sampled_from([0.6, 0.75, 0.75, 0.9]), max_size=12).flatmap(
        lambda cosines: st.permutations([candidate(i, c) for i, c in enumerate(cosines)])
    ),
    st.integers(1, 5),
)
def test_whoever_nominates_in_whatever_order_the_result_is_the_same(
    found: list[StoredMemory], limit: int
) -> None:
    near = rank(unit(1), found, bands=BANDS, floor=0.5, limit=limit)
    everyone = rank(
        unit(1), sorted(found, key=lambda s: s.memory.id), bands=BANDS, floor=0.5, limit=12
    )
    assert near == everyone[:limit]
    assert everyone == sorted(everyone, key=lambda n: (-n.similarity, n.memory.id))
