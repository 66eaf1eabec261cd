"""An embedded store that this process holds for writing: it decides at once."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Self

from streams.embedding.remembering import RememberingEmbedder
from streams.forget.app.scrubbing import scrub
from streams.log.threads import abandonable
from streams.memory.app.memory_store import MemoryStore, Resources
from streams.recall.app.loading import Loading, require_judge
from streams.stage.core.tombstones import Key
from streams.store.app import wiring
from streams.store.app.embedding import Chosen, for_store
from streams.store.app.processes import StoreClient, as_made, embedded
from streams.store.app.reading import LogTarget, opened, reader_of
from streams.store.app.settings import Settings
from streams.store.world.store_directory import StoreDirectory

_KEPT_EVERY = 256
"""Decisions after which the index is flushed to disk. A flush takes 0.2 s and a decision 0.02 s, so
flushes cost less than a tenth of the total."""


@asynccontextmanager
async def holding(
    target: LogTarget, chosen: Chosen, note: Callable[[str], None], *, forgets: bool = False
) -> AsyncGenerator[Resources]:
    """Hold a store for writing, create it if it does not exist, and finish its pending events.

    `note` and `forgets` are as for `embedded`. Raises NoStore if another process writes the store.
    """
    settings, policy, embedder = target.settings, chosen.policy, chosen.embedder
    async with embedded(
        settings, policy, embedder, note, forgets=forgets, kept_every=_KEPT_EVERY
    ) as pipeline:
        await pipeline.recover()
        try:
            async with opened(target) as log:
                reader, judging = reader_of(log, target), pipeline.judging
                client, remembering = StoreClient(pipeline, reader), RememberingEmbedder(embedder)
                yield Resources(
                    lambda: client,
                    log,
                    reader,
                    Loading(client.index, remembering, judging, policy, settings.load),
                    judging,
                    wiring.token_counter(settings.embedder, note),
                )
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

    def _opening(self) -> AbstractAsyncContextManager[Resources]:
        return holding(self._target, self._chosen, self._note)

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
