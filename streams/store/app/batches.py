"""Reads a source's rows in batches, and turns them into records."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, suppress

from streams.log.threads import abandonable
from streams.model.ports.failures import Fatal
from streams.model.ports.log import OutgoingRecord
from streams.model.ports.sources import SourceLine

_BATCH_BYTES = 4_194_304

Batch = tuple[list[SourceLine], list[OutgoingRecord]]


async def batches(
    rows: Iterator[SourceLine],
    records_of: Callable[[Sequence[SourceLine]], list[OutgoingRecord]],
    *,
    records_max: int,
) -> AsyncGenerator[Batch]:
    """Yield a source's rows with the records to publish. Waiting for a row may be abandoned.

    Raises Fatal where the source cannot be read on, after the rows before that place.
    """
    broken: Fatal | None = None
    while broken is None:
        lines, broken = await abandonable(lambda: _next(rows, records_max))
        if lines:
            yield lines, records_of(lines)
        elif broken is None:
            return
    raise broken


async def ahead(
    batches: AsyncGenerator[Batch], prefetch: Callable[[Sequence[OutgoingRecord]], Awaitable[None]]
) -> AsyncGenerator[Batch]:
    """Yield batches; prefetch the next one and pass it to `prefetch` while one is worked on."""

    async def following() -> Batch | None:
        batch = await anext(batches, None)
        if batch is not None:
            await prefetch(batch[1])
        return batch

    async with aclosing(batches):
        batch = await anext(batches, None)
        while batch is not None:
            coming = asyncio.create_task(following())
            try:
                yield batch
                batch = await coming
            finally:
                await _end(coming)


async def _end(task: asyncio.Task[Batch | None]) -> None:
    """Cancel a task and wait for its end."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def _next(rows: Iterator[SourceLine], count: int) -> tuple[list[SourceLine], Fatal | None]:
    """Take `count` rows, fewer if they are large, because a whole batch is held in memory."""
    batch: list[SourceLine] = []
    size = 0
    try:
        for row in rows:
            batch.append(row)
            size += len(row.content)
            if len(batch) == count or size >= _BATCH_BYTES:
                break
    except Fatal as error:
        return batch, error
    return batch, None
