"""The memories of a cluster: its services decide, and its shared index and log answer."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from typing import Self

from streams.clock.stopwatch import countdown
from streams.clock.system import SystemClock
from streams.embedding.remembering import RememberingEmbedder
from streams.forget.app.forgetting import key_of
from streams.log.threads import abandonable
from streams.memory.app.memory_store import MemoryStore, Resources
from streams.recall.app.loading import Loading, require_judge
from streams.stage.core.tombstones import Key
from streams.store.app import wiring
from streams.store.app.cluster_client import ClusterClient, Waiting
from streams.store.app.embedding import chosen_for
from streams.store.app.projection import memories
from streams.store.app.reading import LogTarget, opened, reader_of


class ClusterStore(MemoryStore):
    """A cluster that others write, too; changes overlap, and are decided on in their turn."""

    @classmethod
    async def open(
        cls,
        target: LogTarget,
        report: Callable[[str], None],
        note: Callable[[str], None],
        wait: float,
    ) -> Self:
        """Connect to the configured cluster; its decisions are waited for `wait` seconds.

        `report` and `note` are as for an embedded store. Raises NoServer or Unreachable for a
        server that does not answer, and NoStore where the topics or the index do not exist.
        """
        require_judge(target.settings)
        chosen = await abandonable(partial(chosen_for, target, report))
        store = cls(target, chosen, note, turn=nullcontext(), wait=wait)
        await store._take_hold()
        return store

    @asynccontextmanager
    async def _opening(self) -> AsyncGenerator[Resources]:
        target, chosen = self._target, self._chosen
        settings, reached = target.settings, dict[int, int]()
        async with (
            opened(target) as log,
            memories(target, log, chosen.embedder.model) as index,
            wiring.judging(settings, SystemClock()) as judging,
        ):

            def client() -> ClusterClient:
                return ClusterClient(log, index, Waiting(countdown(self._wait)), reached)

            await wiring.partitions(settings.kafka)  # raises if the topics are not valid
            await index()
            embedder = RememberingEmbedder(chosen.embedder)
            yield Resources(
                client,
                log,
                reader_of(log, target),
                Loading(client().index, embedder, judging, chosen.policy, settings.load),
                judging,
                wiring.token_counter(settings.embedder, self._note),
            )

    async def _key(self) -> Key:
        return key_of(self._target)

    async def _scrub(self) -> None:
        """Do nothing: Kafka's compaction removes the records."""
