"""Publishing of rows for the services: events to decide on, or turns to extract from."""

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from pydantic import Field

from schemas.base import Record, Scope
from schemas.topics import DEAD_LETTERS, EVENTS, TURNS
from streams.clock.system import SystemClock
from streams.extract.flow.turn_rows import turn_records
from streams.model.ports.clock import Clock
from streams.model.ports.log import Log, OutgoingRecord
from streams.model.ports.sources import Source, SourceLine
from streams.model.scope import partition_of
from streams.stage.core.mapping import FieldMapping
from streams.stage.flow.ingest import records_of
from streams.store.app import wiring
from streams.store.app.batches import batches
from streams.store.app.settings import Settings


@dataclass
class PublishProgress:
    """What has been acknowledged; `line` is the last line of the current source."""

    events: int = 0
    turns: int = 0
    dead_letters: int = 0
    line: int = 0


class Publisher:
    """Publishes sources, batch by batch; what `published` counts is in the log."""

    def __init__(self, log: Log, partitions: int, clock: Clock, *, batch_records: int) -> None:
        self._log = log
        self._partitions = partitions
        self._clock = clock
        self._batch_records = batch_records
        self.published = PublishProgress()

    async def publish(
        self,
        source: Source,
        mapping: FieldMapping | None,
        after: int,
        progress: Callable[[int], None],
    ) -> None:
        """Publish the rows behind line `after`. `progress` receives the rows since its last call."""
        published = partial(
            records_of,
            source=source,
            mapping=mapping,
            partitions=self._partitions,
            clock=self._clock,
        )
        await self._publish(source, published, after, progress)

    async def publish_turns(
        self, source: Source, scope: str | None, after: int, progress: Callable[[int], None]
    ) -> None:
        """Do as `publish` for turns; `scope` applies to turns that name none."""
        published = partial(turn_records, source=source, scope=scope, partitions=self._partitions)
        await self._publish(source, published, after, progress)

    async def _publish(
        self,
        source: Source,
        records_of: Callable[[Sequence[SourceLine]], list[OutgoingRecord]],
        after: int,
        progress: Callable[[int], None],
    ) -> None:
        self.published.line = after
        rows = (line for line in source.lines(None) if line.number > after)
        async for batch, records in batches(rows, records_of, records_max=self._batch_records):
            await self._log.append(records)
            by_topic = Counter(record.topic for record in records)
            self.published.events += by_topic[EVENTS.name]
            self.published.turns += by_topic[TURNS.name]
            self.published.dead_letters += by_topic[DEAD_LETTERS.name]
            self.published.line = batch[-1].number
            progress(len(batch))


@asynccontextmanager
async def publisher(settings: Settings) -> AsyncGenerator[Publisher]:
    """Connect to the cluster, check its topics, and yield a publisher."""
    partitions = await wiring.partitions(settings.kafka)
    log = wiring.kafka_log(settings)
    try:
        yield Publisher(log, partitions, SystemClock(), batch_records=settings.run.batch_records)
    finally:
        await log.close()


class _Placed(Record):
    scope: Scope
    partitions: Annotated[int, Field(ge=1)]


def partition_for(scope: str, partitions: int) -> int:
    """Return where a scope's events belong in a topic of so many partitions.

    Raises ValidationError for a scope, or a number of partitions, that cannot be.
    """
    asked = _Placed.model_validate({"scope": scope, "partitions": partitions})
    return partition_of(asked.scope, asked.partitions)
