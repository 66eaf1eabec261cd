"""Rows of a source, batch by batch, as the records that they become."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing, suppress

from streams.ports import Line, Outgoing
from streams.runtime.threads import abandonable

_BATCH_BYTES = 4_194_304

Batch = tuple[list[Line], list[Outgoing]]


async def batches(
    rows: Iterator[Line],
    records_of: Callable[[Sequence[Line]], list[Outgoing]],
    *,
    records_max: int,
) -> AsyncGenerator[Batch]:
    """Yield a source's rows with what they publish. Waiting for a row may be abandoned."""
    while lines := await abandonable(lambda: _next(rows, records_max)):
        yield lines, records_of(lines)


async def ahead(
    batches: AsyncGenerator[Batch], look_at: Callable[[Sequence[Outgoing]], Awaitable[None]]
) -> AsyncGenerator[Batch]:
    """Yield batches; the next one is read, and looked at, while one is worked on."""

    async def following() -> Batch | None:
        batch = await anext(batches, None)
        if batch is not None:
            await look_at(batch[1])
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
    """Let nothing go on that nobody waits for any more."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


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
