"""The current memories of a log: all of them in memory, or the index server of a cluster."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from schemas.base import ModelId
from schemas.topics import DECISIONS
from streams.index.exact import ExactIndex
from streams.model.ports.failures import NoStore
from streams.model.ports.index import Index
from streams.model.ports.log import Log
from streams.stage.flow.apply import Mismatch
from streams.stage.flow.takeover import require_model
from streams.stage.flow.writer import catch_up
from streams.store.app import wiring
from streams.store.app.reading import LogTarget


class LogProjection:
    """An in-memory projection that reads new decisions on each request. For one event loop."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._index = ExactIndex()
        self._catching_up = asyncio.Lock()

    async def index(self) -> ExactIndex:
        """Return the current memories. Raises NoStore if the decisions do not add up."""
        async with self._catching_up:
            for partition in range(await self._log.partitions(DECISIONS.name)):
                await self._catch_up(partition)
        return self._index

    async def _catch_up(self, partition: int) -> None:
        end = await self._log.end(DECISIONS.name, partition)
        try:
            await catch_up(self._log, partition, end, self._index, reached=lambda _: None)
        except Mismatch as damage:
            raise NoStore(
                f"{DECISIONS.name}/{partition}: {damage.__cause__}; restore the log from a copy"
            ) from damage


@asynccontextmanager
async def memories(
    target: LogTarget, log: Log, model: ModelId | None = None
) -> AsyncGenerator[Callable[[], Awaitable[Index]]]:
    """Yield a function that returns a log's current memories: from its index server, if it has one.

    The server is connected to when it is first asked. Raises NoStore if the decisions in the log do
    not add up, and Fatal if `model` is given and the log's vectors are of another one.
    """
    if target.embedded or not target.settings.index.kind.shared:
        if model is not None:
            await require_model(log, model)
        yield LogProjection(log).index
        return
    async with AsyncExitStack() as stack:
        opened = list[Index]()

        async def collection() -> Index:
            if not opened:
                found = await wiring.open_collection(target.settings)
                stack.push_async_callback(found.close)
                opened.append(found)
            return opened[0]

        yield collection
