"""An embedded store that this process holds for writing: it decides at once."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Self

from streams.embedding.remembering import RememberingEmbedder
from streams.forget.app.scrubbing import scrub
from streams.log.threads import abandonable
from streams.memory.app.memory_store import MemoryStore, Resources
from streams.model.ports import SearchableLog
from streams.recall.app.loading import Loading, require_judge
from streams.stage.core.tombstones import Key
from streams.store.app import wiring
from streams.store.app.embedding import Chosen, for_store
from streams.store.app.processes import EmbeddedPipeline, StoreClient, as_made, embedded
from streams.store.app.reading import LogTarget, StoreReader, opened, reader_of
from streams.store.app.settings import Settings
from streams.store.world.store_directory import StoreDirectory

_KEPT_EVERY = 256
"""Decisions after which the index is flushed to disk. A flush takes 0.2 s and a decision 0.02 s, so
flushes cost less than a tenth of the total."""


@dataclass(frozen=True)
class Held:
    """A store that only this process writes: its pipeline, its log and the log's reader."""

    pipeline: EmbeddedPipeline
    log: SearchableLog
    reader: StoreReader

    @property
    def client(self) -> StoreClient:
        """The client that decides at once."""
        return StoreClient(self.pipeline, self.reader)


@asynccontextmanager
async def holding(
    settings: Settings, chosen: Chosen, note: Callable[[str], None], *, forgets: bool = False
) -> AsyncGenerator[Held]:
    """Hold a store for writing, create it if it does not exist, and finish its pending events.

    `note` and `forgets` are as for `embedded`. Raises NoStore if another process writes the store.
    """
    target = LogTarget.of_store(settings)
    async with embedded(
        settings, chosen.policy, chosen.embedder, note, forgets=forgets, kept_every=_KEPT_EVERY
    ) as pipeline:
        await pipeline.recover()
        try:
            async with opened(target) as log:
                yield Held(pipeline, log, reader_of(log, target))
        finally:
            await pipeline.settle()


class EmbeddedStore(MemoryStore):
    """An embedded store that only this process writes until it is closed; one change at a time."""

    @classmethod
    async def open(
        cls, settings: Settings, report: Callable[[str], None], note: Callable[[str], None]
    ) -> Self:
        """Open the configured store for writing; create it if it does not exist.

        `report` receives a line when a model is fetched or chosen, `note` when the store itself
        waits for something. Raises NoStore if another process writes the store.
        """
        require_judge(settings)
        chosen = await abandonable(partial(for_store, settings, report))
        target = LogTarget.of_store(as_made(chosen.settings))
        store = cls(target, chosen, note, turn=asyncio.Lock())
        await store._take_hold()
        return store

    @asynccontextmanager
    async def _opening(self) -> AsyncGenerator[Resources]:
        settings, chosen = self._target.settings, self._chosen
        async with holding(settings, chosen, self._note) as held:
            embedder, judging = RememberingEmbedder(chosen.embedder), held.pipeline.judging
            yield Resources(
                lambda: held.client,
                held.log,
                held.reader,
                Loading(held.client.index, embedder, judging, chosen.policy, settings.load),
                judging,
                wiring.token_counter(settings.embedder, self._note),
            )

    async def _key(self) -> Key:
        """Return the key of tombstones; if there is none, make one and reopen the store with it."""
        settings = self._target.settings
        directory = StoreDirectory(settings.store)
        key = wiring.forget_key(settings.forget, directory)
        if key is not None:
            return key
        wiring.new_key(directory)
        await self._let_go()
        await self._take_hold()
        return await self._key()

    async def _scrub(self) -> None:
        await self._let_go()
        await scrub(self._target, _quiet)
        await self._take_hold()


def _quiet(_: str) -> None:
    """Discard a progress report."""
