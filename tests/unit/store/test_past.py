"""What a replay knows of the texts that were decided on before."""

from collections.abc import Sequence

import numpy as np

from schemas.base import ModelId, Position
from schemas.decisions import Decision
from streams.model.embedding import TextVector, pack
from streams.stage.core.case import Case, EncodedVector
from streams.stage.core.decide import add
from streams.store.flow.past import KnownVectors
from tests.builders import event, policy, unit
from tests.fakes.embedder import FakeEmbedder


class Counting(FakeEmbedder):
    """Notes what it is asked to encode."""

    def __init__(self) -> None:
        super().__init__({"tea": (0.0, 1.0), "cake": (1.0, 0.0)}, model="ours")
        self.asked: list[str] = []

    async def embed(self, texts: Sequence[str]) -> list[TextVector]:
        self.asked += texts
        return await super().embed(texts)


async def test_vectors_of_the_same_model_are_not_made_again() -> None:
    inner = Counting()
    known = KnownVectors(inner)
    known.learn([decided("tea", "ours")])
    first, second, third = await known.embed(["tea", "cake", "tea"])
    assert inner.asked == ["cake"]
    np.testing.assert_array_equal(first.vector, unit(1))
    assert (first.truncated, second.truncated) == (True, False)
    assert third == first


async def test_vectors_of_another_model_are_not_taken() -> None:
    inner = Counting()
    known = KnownVectors(inner)
    known.learn([decided("tea", "theirs")])
    await known.embed(["tea"])
    assert inner.asked == ["tea"]


def decided(text: str, model: str) -> Decision:
    source = Position(topic="memory.events", partition=0, offset=0)
    embedding = pack(unit(1), ModelId(model))
    return add(
        Case(event(text), source, policy()), EncodedVector(unit(1), embedding, truncated=True)
    )
