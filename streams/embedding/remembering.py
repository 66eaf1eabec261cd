"""Caches recent embeddings, and starts to encode expected texts early."""

import asyncio
from collections.abc import Iterable, Sequence

from streams.model.embedding import TextVector
from streams.model.ports.models import Embedder
from streams.model.wrapping import WrappedEmbedder

TEXTS_MAX = 16_384
"""The default cache size in texts: 25 MiB at 384 dimensions, plus the texts themselves."""

_CHARACTERS_MAX = 16_777_216
"""The maximum of cached characters in all, if the number of texts is limited."""


class RememberingEmbedder(WrappedEmbedder):
    """Implements ports.Embedder and ports.PrefetchingEmbedder over an embedder.

    A cached text keeps its first vector. For one event loop.
    """

    def __init__(self, embedder: Embedder, *, texts_max: int | None = TEXTS_MAX) -> None:
        """Cache the newest `texts_max` texts; all of them if it is None."""
        super().__init__(embedder)
        self._texts_max = texts_max
        self._known: dict[str, TextVector] = {}
        self._characters = 0
        self._coming: dict[str, asyncio.Task[None]] = {}

    def is_known(self, text: str) -> bool:
        return text in self._known or text in self._coming

    def expect(self, texts: Iterable[str]) -> None:
        missing = [text for text in dict.fromkeys(texts) if not self.is_known(text)]
        if missing:
            task = asyncio.create_task(self._encode_ahead(missing))
            self._coming.update(dict.fromkeys(missing, task))

    async def embed(self, texts: Sequence[str]) -> list[TextVector]:
        wanted = dict.fromkeys(texts)
        if coming := {self._coming[text] for text in wanted if text in self._coming}:
            await asyncio.wait(coming)
        found = {text: self._known[text] for text in wanted if text in self._known}
        if missing := [text for text in wanted if text not in found]:
            made = await self._embedder.embed(missing)
            found.update(zip(missing, made, strict=True))
            self._remember(missing, made)
        return [found[text] for text in texts]

    async def _encode_ahead(self, texts: Sequence[str]) -> None:
        try:
            self._remember(texts, await self._embedder.embed(texts))
        except Exception:  # noqa: BLE001, S110 - the caller of embed will meet it
            pass
        finally:
            for text in texts:
                del self._coming[text]

    def _remember(self, texts: Sequence[str], made: Sequence[TextVector]) -> None:
        for text, one in zip(texts, made, strict=True):
            if text not in self._known:
                self._known[text] = one
                self._characters += len(text)
        while self._texts_max is not None and (
            len(self._known) > self._texts_max or self._characters > _CHARACTERS_MAX
        ):
            oldest = next(iter(self._known))
            del self._known[oldest]
            self._characters -= len(oldest)
