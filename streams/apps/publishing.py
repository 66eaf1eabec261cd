"""Rows of files, published as events for the services to decide on."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from schemas.topics import EVENTS
from streams.adapters.clock import SystemClock
from streams.apps import wiring
from streams.apps.intake import batches
from streams.apps.settings import Settings
from streams.core.mapping import FieldMapping
from streams.ports import Clock, Log, Source


@dataclass
class Published:
    """What has been acknowledged: `line` is the last line of the source at hand."""

    events: int = 0
    dead_letters: int = 0
    line: int = 0


class Publisher:
    """Publishes sources, batch by batch; what was counted is in the log."""

    def __init__(self, log: Log, partitions: int, clock: Clock, *, batch_records: int) -> None:
        self._log = log
        self._partitions = partitions
        self._clock = clock
        self._batch_records = batch_records
        self.published = Published()

    async def publish(
        self,
        source: Source,
        mapping: FieldMapping | None,
        after: int,
        progress: Callable[[int], None],
    ) -> None:
        """Publish the rows behind line `after`. `progress` is told the rows done since last."""
        self.published.line = after
        rows = (line for line in source.lines(None) if line.number > after)
        async for batch, records in batches(
            source,
            rows,
            mapping,
            records_max=self._batch_records,
            partitions=self._partitions,
            clock=self._clock,
        ):
            await self._log.append(records)
            events = sum(record.topic == EVENTS.name for record in records)
            self.published.events += events
            self.published.dead_letters += len(records) - events
            self.published.line = batch[-1].number
            progress(len(batch))


@asynccontextmanager
async def publisher(settings: Settings) -> AsyncGenerator[Publisher]:
    """Connect to the cluster, check its topics, and give a publisher."""
    partitions = await wiring.partitions(settings.kafka)
    log = wiring.kafka_log(settings)
    try:
        yield Publisher(log, partitions, SystemClock(), batch_records=settings.run.batch_records)
    finally:
        await log.close()
