"""All memories of a log in an in-memory index, which catches up with the log at every request."""

import asyncio

from schemas.topics import DECISIONS
from streams.index.exact import ExactIndex
from streams.model.ports import Log, NoStore
from streams.stage.flow.apply import Mismatch
from streams.stage.flow.writer import catch_up


class Following:
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
            await catch_up(self._log, partition, end, self._index, reached=_quiet)
        except Mismatch as damage:
            raise NoStore(
                f"{DECISIONS.name}/{partition}: {damage.__cause__}; restore the log from a copy"
            ) from damage


def _quiet(_: int) -> None:
    """Discard a progress report."""
