"""Vectors made of a text's spelling alone."""

import hashlib

import numpy as np
import pytest

from streams.embedding.hashing import CHARACTERS_MAX, DIMENSION, HashingEmbedder
from streams.model.embedding import Vector, similarity

TEXTS = (
    "Ana likes coffee in the morning.",
    "ANA LIKES COFFEE IN THE MORNING",
    "In the morning, Ana likes coffee.",
    "Bo works in Lisbon.",
    "Käse & 寿司 🧀",
)


async def vectors(*texts: str) -> list[Vector]:
    return [one.vector for one in await HashingEmbedder().embed(texts)]


async def test_vectors_never_change_under_the_same_name() -> None:
    """Whoever changes what a text becomes gives the model another name: stores hold its vectors."""
    assert HashingEmbedder().model == "memsieve/hashing-ngrams-v1"
    rounded = np.round(np.array(await vectors(*TEXTS), np.float64), 4) + 0.0
    assert hashlib.sha256(rounded.tobytes()).hexdigest()[:16] == "e214a770bcc67b9e"


async def test_what_shares_words_is_near_and_what_does_not_is_far() -> None:
    coffee, loud, turned, lisbon, _ = await vectors(*TEXTS)
    assert similarity(coffee, loud) > 0.97
    assert similarity(coffee, turned) > 0.97
    assert similarity(coffee, lisbon) < 0.2


async def test_words_that_begin_alike_are_near() -> None:
    climbing, climbers, sewing = await vectors("climbing", "climbers", "sewing")
    assert similarity(climbing, climbers) > similarity(climbing, sewing) + 0.2


@pytest.mark.parametrize(
    "text", ["", "a", "!", "🧀", "\u200b", "e\u0301", "of the and", "x" * 70_000]
)
async def test_every_text_has_a_vector_of_length_one(text: str) -> None:
    [vector] = await vectors(text)
    assert vector.shape == (DIMENSION,)
    assert float(np.linalg.norm(vector.astype(np.float64))) == pytest.approx(1.0, abs=1e-6)


async def test_one_letter_is_one_letter_however_it_is_composed() -> None:
    composed, decomposed = await vectors("caf\u00e9", "cafe\u0301")
    assert np.array_equal(composed, decomposed)


async def test_a_text_that_is_not_read_to_its_end_is_said_to_be() -> None:
    whole, cut = await HashingEmbedder().embed(["x" * CHARACTERS_MAX, "x" * CHARACTERS_MAX + " y"])
    assert (whole.truncated, cut.truncated) == (False, True)
