"""What is open while memories are: a store that this process writes, or the connection to a cluster."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass

from streams.clock.stopwatch import countdown
from streams.clock.system import SystemClock
from streams.embedding.remembering import RememberingEmbedder
from streams.recall.app.loading import Loading
from streams.recall.core.recall import CountTokens
from streams.stage.flow.judging import Judging
from streams.store.app import wiring
from streams.store.app.client import Client
from streams.store.app.cluster_client import ClusterClient, Waiting
from streams.store.app.embedding import ChosenModel
from streams.store.app.processes import StoreClient, embedded
from streams.store.app.projection import memories
from streams.store.app.reading import LogTarget, StoreReader, opened, reader_of


@dataclass(frozen=True)
class Resources:
    """What is open while memories are.

    `client` returns the client of one request; `turn` is held during a change.
    """

    client: Callable[[], Client]
    reader: StoreReader
    loading: Loading
    judging: Judging
    count: CountTokens
    turn: AbstractAsyncContextManager[object]


@asynccontextmanager
async def holding(
    target: LogTarget, chosen: ChosenModel, note: Callable[[str], None], *, forgets: bool = False
) -> AsyncGenerator[Resources]:
    """Hold a store for writing, create it if it does not exist, and finish its pending events.

    `note` and `forgets` are as for `embedded`. Raises NoStore if another process writes the store.
    """
    settings, policy, embedder = target.settings, chosen.policy, chosen.embedder
    async with embedded(settings, policy, embedder, note, forgets=forgets) as pipeline:
        await pipeline.recover()
        async with opened(target) as log:
            reader, judging = reader_of(log, target), pipeline.judging
            client, remembering = StoreClient(pipeline, reader), RememberingEmbedder(embedder)
            yield Resources(
                lambda: client,
                reader,
                Loading(client.index, remembering, judging, policy, settings.load),
                judging,
                wiring.token_counter(settings.embedder, note),
                asyncio.Lock(),
            )


@asynccontextmanager
async def connecting(
    target: LogTarget, chosen: ChosenModel, note: Callable[[str], None], wait: float
) -> AsyncGenerator[Resources]:
    """Connect to a cluster; the decisions on a request are waited for `wait` seconds.

    Raises NoServer or Unreachable for a server that does not answer, and NoStore where the topics
    or the index do not exist.
    """
    settings, reached = target.settings, dict[int, int]()
    async with (
        opened(target) as log,
        memories(target, log, chosen.embedder.model) as index,
        wiring.judging(settings, SystemClock()) as judging,
    ):

        def client() -> ClusterClient:
            return ClusterClient(log, index, Waiting(countdown(wait)), reached)

        await wiring.partitions(settings.kafka)  # raises if the topics are not valid
        await index()
        remembering = RememberingEmbedder(chosen.embedder)
        yield Resources(
            client,
            reader_of(log, target),
            Loading(client().index, remembering, judging, chosen.policy, settings.load),
            judging,
            wiring.token_counter(settings.embedder, note),
            nullcontext(),
        )
