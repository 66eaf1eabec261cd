import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from schemas.base import Embedding, ModelId
from streams.model.embedding import Vector, pack, similarity, unpack
from tests.builders import at_cosine, unit

VECTORS = arrays.arrays(np.float32, 6, elements=st.floats(-4, 4, width=32))


@given(arrays.arrays(np.float32, st.integers(1, 20), elements=st.floats(width=32)))
def test_a_vector_travels_bit_for_bit(vector: Vector) -> None:
    packed = pack(vector, ModelId("fake"))
    assert unpack(packed).tobytes() == vector.tobytes()
    assert Embedding.model_validate_json(packed.model_dump_json(), strict=True) == packed
    assert (packed.model, packed.dimension) == ("fake", vector.shape[0])


def test_the_travelling_form_is_little_endian_base64() -> None:
    expected = Embedding(model=ModelId("fake"), dimension=2, values="AACAPwAAAMA=")
    assert pack(np.array([1, -2], np.float32), ModelId("fake")) == expected
    assert pack(np.array([1, -2], ">f4"), ModelId("fake")) == expected
    assert pack(np.array([1, 0, -2, 0], np.float32)[::2], ModelId("fake")) == expected


def test_an_unpacked_vector_cannot_be_written() -> None:
    assert not unpack(pack(unit(1), ModelId("fake"))).flags.writeable


@given(VECTORS, VECTORS)
def test_similarity_is_symmetric_and_a_cosine(first: Vector, second: Vector) -> None:
    score = similarity(first, second)
    assert score == similarity(second, first)
    assert -1.0 <= score <= 1.0
    assert score == round(score, 5)


@given(VECTORS.filter(lambda vector: bool(np.linalg.norm(vector) > 1e-6)))
def test_a_vector_is_wholly_similar_to_itself_and_opposed_to_its_opposite(vector: Vector) -> None:
    assert (similarity(vector, vector), similarity(vector, -vector)) == (1.0, -1.0)
    assert similarity(vector, vector * 2) == 1.0


@pytest.mark.parametrize("cosine", [0.95, 0.8, 0.70001, 0.5, 0.0, -0.3])
def test_similarity_of_two_float32_vectors_is_the_cosine_they_were_made_for(cosine: float) -> None:
    assert similarity(unit(1), at_cosine(cosine)) == cosine


def test_similarity_is_rounded_to_five_decimals() -> None:
    assert similarity(unit(1), at_cosine(0.7999951)) == 0.8
    assert similarity(unit(1), at_cosine(0.799994)) == 0.79999


def test_a_zero_vector_is_similar_to_nothing() -> None:
    zero = np.zeros(8, np.float32)
    assert [similarity(zero, unit(1)), similarity(unit(1), zero), similarity(zero, zero)] == [0] * 3
