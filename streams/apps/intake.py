"""Rows of a source, batch by batch, as the records that they become."""

from collections.abc import AsyncGenerator, Iterator

from streams.core.mapping import FieldMapping
from streams.flow.take_in import records_of
from streams.ports import Clock, Line, Outgoing, Source
from streams.runtime.threads import abandonable

_BATCH_BYTES = 4_194_304


async def batches(
    source: Source,
    rows: Iterator[Line],
    mapping: FieldMapping | None,
    *,
    records_max: int,
    partitions: int,
    clock: Clock,
) -> AsyncGenerator[tuple[list[Line], list[Outgoing]]]:
    """Yield a source's rows with what they publish. Waiting for a row may be abandoned."""
    while lines := await abandonable(lambda: _next(rows, records_max)):
        records = records_of(
            lines, source=source, mapping=mapping, partitions=partitions, clock=clock
        )
        yield lines, records


def _next(rows: Iterator[Line], count: int) -> list[Line]:
    """Take so many rows, fewer where they are large: a batch is held in memory whole."""
    batch: list[Line] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += len(row.content)
        if len(batch) == count or size >= _BATCH_BYTES:
            break
    return batch
