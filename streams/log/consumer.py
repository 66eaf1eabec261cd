"""The loop of every process: read, handle, append, await the acknowledgement, commit."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field

from streams.log.failures import RetryPolicy
from streams.model.ports.failures import Fatal, Poison, Transient
from streams.model.ports.log import CommittedOffset, Log, LogRecord, Process


@dataclass(eq=False)
class Consumer:
    """Runs one process on one partition of a log by polling.

    After any failure it claims the partition again before the next batch. `report` gets one line
    that says what the consumer is waiting for.
    """

    process: Process
    log: Log
    partition: int
    _: KW_ONLY
    retry: RetryPolicy
    sleep: Callable[[float], Awaitable[None]]
    report: Callable[[str], None]
    _next: int | None = field(default=None, init=False)

    async def step(self, records_max: int) -> int:
        """Handle one batch; return its number of records, 0 at the end of the partition."""
        attempt = 0
        while True:
            try:
                return await self._step(records_max)
            except Poison as error:
                raise Fatal(
                    f"a poisoned record of {self.process.topic} was not set aside: {error}"
                ) from error
            except Transient as error:
                attempt += 1
                if attempt >= self.retry.attempts_max:
                    raise Fatal(f"{error}; gave up after {attempt} attempts") from error
                delay = self.retry.delay(attempt)
                self.report(f"{error}; trying again in {delay:.1f} s")
                await self.sleep(delay)

    async def drain(self, records_max: int) -> None:
        """Handle everything up to the end of the partition."""
        while await self.step(records_max):
            pass

    async def _step(self, records_max: int) -> int:
        process, partition = self.process, self.partition
        position = self._next
        self._next = None  # until the commit below, only the log knows the position
        if position is None:
            position = await process.claim(partition)
        records = await self.log.read(process.topic, partition, position, records_max)
        self._next = await work(process, self.log, records) if records else position
        return len(records)


async def work(process: Process, log: Log, records: Sequence[LogRecord]) -> int:
    """Handle a batch of one partition, append, await the acknowledgement, commit.

    Returns the next position.
    """
    done = await acknowledged(process, log, records)
    await commit(process, log, records[0].partition, done)
    return done.offset


async def acknowledged(process: Process, log: Log, records: Sequence[LogRecord]) -> CommittedOffset:
    """Handle a batch of one partition, append, await the acknowledgement.

    Returns what may be committed: it passes no record whose outcome is not in the log.
    """
    handled = await process.handle(records[0].partition, records)
    await handled.appended(await log.append(handled.outgoing))
    return CommittedOffset(records[-1].offset + 1, handled.metadata)


async def commit(process: Process, log: Log, partition: int, done: CommittedOffset) -> None:
    """Commit what is acknowledged, and nothing else: the only place that commits for a group."""
    await log.commit(process.group, process.topic, partition, done)
