"""What every Embedder keeps, whoever implements it."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
import pytest

from streams.embedding.hashing import HashingEmbedder
from streams.embedding.remembering import RememberingEmbedder
from streams.model.embedding import Vector
from streams.model.ports.models import Embedder
from streams.store.app import wiring
from streams.store.app.setting_groups import EmbedderSettings, EndpointSettings
from tests.fakes.embedder import FakeEmbedder
from tests.standin.llm import LlmServer, embedding
from tests.support.encoding.bf16_models import fast_embedder, has_bf16
from tests.support.encoding.models import default_embedder

LONG = "every word of this is read again and again " * 200

TABLE = {
    "User likes hiking": [3.0, 4.0, 0.0],
    "The user enjoys hiking": [3.0, 4.0, 0.1],
    "Käse & 寿司 🧀": [0.0, 0.0, -2.5],
    "a": [1e-6, 0.0, 0.0],
    LONG: [1.0, 1.0, 1.0],
    **{f"the user keeps {n} " + "old " * (n % 7) + "books": [n, 1.0, -n] for n in range(40)},
}
TEXTS = list(TABLE)

BYTES = 510
"""Of a text that the endpoint is sent."""

SAME = 1e-6
"""How far one text's vector may move with its batch."""


class EmbedderContract(ABC):
    @abstractmethod
    def make(self) -> Embedder:
        """Return an embedder that knows TEXTS."""

    async def vectors(self, *texts: str) -> list[Vector]:
        return [embedded.vector for embedded in await self.make().embed(texts)]

    def test_names_its_model(self) -> None:
        assert self.make().model.strip()
        assert self.make().model == self.make().model

    @pytest.mark.covers("S0.17")
    async def test_vectors_are_float32_of_the_dimension_it_reports(self) -> None:
        for vector in await self.vectors(*TEXTS):
            assert vector.dtype == np.float32
            assert vector.shape == (self.make().dimension,)

    async def test_vectors_have_length_one(self) -> None:
        for vector in await self.vectors(*TEXTS):
            assert float(np.linalg.norm(vector.astype(np.float64))) == pytest.approx(1.0, abs=SAME)

    async def test_no_texts_give_no_results(self) -> None:
        assert await self.make().embed([]) == []

    @pytest.mark.covers("S0.17")
    async def test_results_come_in_the_order_of_the_texts(self) -> None:
        forwards = await self.vectors(*TEXTS)
        backwards = await self.vectors(*reversed(TEXTS))
        for first, second in zip(forwards, reversed(backwards), strict=True):
            np.testing.assert_allclose(first, second, atol=SAME)
        assert not np.allclose(forwards[0], forwards[2], atol=0.1)

    @pytest.mark.covers("S0.17")
    async def test_a_text_alone_has_the_vector_it_has_among_others(self) -> None:
        for text, vector in zip(TEXTS, await self.vectors(*TEXTS), strict=True):
            (alone,) = await self.vectors(text)
            np.testing.assert_allclose(alone, vector, atol=SAME)

    async def test_equal_texts_in_one_call_have_equal_vectors(self) -> None:
        first, other, again = await self.vectors(TEXTS[0], TEXTS[1], TEXTS[0])
        assert np.array_equal(first, again)
        assert not np.array_equal(first, other)

    async def test_the_same_call_gives_the_same_answer(self) -> None:
        for first, second in zip(
            await self.vectors(*TEXTS), await self.vectors(*TEXTS), strict=True
        ):
            np.testing.assert_allclose(first, second, atol=SAME)

    async def test_calls_at_the_same_time_do_not_disturb_each_other(self) -> None:
        expected = await self.vectors(*TEXTS)
        answers = await asyncio.gather(*(self.vectors(*TEXTS) for _ in range(4)))
        for answer in answers:
            for vector, right in zip(answer, expected, strict=True):
                np.testing.assert_allclose(vector, right, atol=SAME)

    async def test_says_which_texts_it_did_not_read_to_the_end(self) -> None:
        answers = await self.make().embed(TEXTS)
        assert [answer.truncated for answer in answers] == [text == LONG for text in TEXTS]


class TestFastembed(EmbedderContract):
    def make(self) -> Embedder:
        return default_embedder()


@has_bf16
class TestFastembedInBf16(EmbedderContract):
    def make(self) -> Embedder:
        return fast_embedder()


class TestHashing(EmbedderContract):
    def make(self) -> Embedder:
        return HashingEmbedder()


class TestEndpoint(EmbedderContract):
    """Over real sockets; a batch takes several requests."""

    @pytest.fixture(autouse=True)
    def _served(self) -> Iterator[None]:
        cut = {LONG[:BYTES]: TABLE[LONG], "probe": [0.0, 1.0, 0.0]}
        with LlmServer(embedding(lambda text: (TABLE | cut)[text])) as server:
            self.url = server.url
            yield

    def make(self) -> Embedder:
        endpoint = EndpointSettings(base_url=self.url, batch_texts=7, tokens_max=BYTES)
        return wiring.embedder(EmbedderSettings(model="endpoint:table", endpoint=endpoint), print)


class TestRemembering(EmbedderContract):
    def make(self) -> Embedder:
        return RememberingEmbedder(FakeEmbedder(TABLE, truncated={LONG}), texts_max=10)


class TestFake(EmbedderContract):
    def make(self) -> Embedder:
        return FakeEmbedder(TABLE, truncated={LONG})

    async def test_refuses_a_text_that_no_test_gave_it(self) -> None:
        with pytest.raises(KeyError, match="unheard of"):
            await self.make().embed(["User likes hiking", "unheard of"])
