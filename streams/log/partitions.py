"""The partitions that a group has assigned to this member, from assignment to revocation."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from itertools import groupby
from typing import Any

from streams.log.consumer import acknowledged, commit
from streams.log.failures import RetryPolicy
from streams.model.ports.failures import Fatal, NotYet, Poison, Transient
from streams.model.ports.log import CommittedOffset, GroupMember, Log, LogRecord, Process

_WAIT_SECONDS = 0.5
"""The delay before a partition that waits for another process is retried."""


@dataclass
class AssignedPartition:
    """An assigned partition; `next` is the next offset to process, None until it is claimed.

    `waits_for` says what it waits for, "" while it works; `paused` until it is resumed. `busy` is
    held by the one batch or claim in progress, `step`. `fresh` until the first batch after a
    claim. `done` is what `committing` commits next: the commit of a batch runs concurrently with
    the next batch.
    """

    next: int | None = None
    failures: int = 0
    waits_for: str = "its claim"
    fresh: bool = True
    paused: bool = True
    busy: asyncio.Lock = field(default_factory=asyncio.Lock)
    step: asyncio.Task[None] | None = None
    done: CommittedOffset | None = None
    committing: asyncio.Task[None] | None = None
    cut_off: bool = False

    def cut(self) -> None:
        """Cancel what is in progress."""
        self.cut_off = True
        for task in (self.step, self.committing):
            if task is not None:
                task.cancel()


@dataclass(eq=False)
class Partitions:
    """Implements ports.Assignee: one process on the partitions that a group assigns to its member.

    A partition is paused until it is claimed, and after every transient failure; it is claimed
    again before it continues. A partition is released only between two batches, with their work
    committed. A permanent failure is passed to `stop`, and from then on nothing more is done. A
    batch that takes too long is cut off: it is cancelled and ended before another member may
    begin.

    `revoke_seconds`: how long a batch may delay a rebalance or the shutdown. `report` gets one
    line that says what is waited for. `measured` wraps each batch and gets its topic and number
    of records; `claiming` wraps each claim and gets its topic.
    """

    process: Process
    log: Log
    member: GroupMember
    _: KW_ONLY
    retry: RetryPolicy
    revoke_seconds: float
    sleep: Callable[[float], Awaitable[None]]
    report: Callable[[str], None]
    stop: Callable[[Exception], None]
    measured: Callable[[str, int], AbstractContextManager[None]]
    claiming: Callable[[str], AbstractContextManager[None]]
    _held: dict[int, AssignedPartition] = field(
        default_factory=dict[int, AssignedPartition], init=False
    )
    _gone: list[AssignedPartition] = field(default_factory=list[AssignedPartition], init=False)
    _steps: dict[int, asyncio.Task[None]] = field(
        default_factory=dict[int, asyncio.Task[None]], init=False
    )
    _letting_go: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _joined: bool = field(default=False, init=False)
    _over: bool = field(default=False, init=False)

    @property
    def held(self) -> dict[int, AssignedPartition]:
        """The partitions that are assigned now."""
        return dict(self._held)

    @property
    def joined(self) -> bool:
        """Whether the group has made an assignment, even an empty one."""
        return self._joined

    def assigned(self, partitions: Sequence[int]) -> None:
        if self._over:
            return
        self._joined = True
        self._forget([partition for partition in self._held if partition not in partitions])
        for partition in partitions:
            held = self._held[partition] = AssignedPartition()
            self._pause(partition, held)
            self._later(partition, self._claim(partition, held, 0.0))

    async def revoked(self, partitions: Sequence[int]) -> None:
        self._forget(partitions)
        async with self._letting_go:  # of `close`, which settles what it has finished
            await self._finish()
            for partition in partitions:
                self.process.release(partition)

    async def handle(self, records: Sequence[LogRecord]) -> None:
        """Process the fetched records, partitions concurrently: one waits while another works."""
        batches = groupby(records, key=lambda record: record.partition)
        await asyncio.gather(*[self._batch(partition, list(batch)) for partition, batch in batches])

    async def _batch(self, partition: int, batch: Sequence[LogRecord]) -> None:
        held = self._held.get(partition)
        if held is not None and held.next is not None:
            await self._guarded(partition, held, partial(self._work, partition, held, batch))

    async def settle(self) -> None:
        """Let the process maintain the partitions that have nothing in progress."""
        idle = [(p, held) for p, held in self._held.items() if not held.busy.locked()]
        await asyncio.gather(
            *[self._guarded(p, held, partial(self._settle, p, held)) for p, held in idle]
        )

    async def _settle(self, partition: int, held: AssignedPartition) -> None:
        if held.next is not None:
            await self.process.settle(partition)

    async def close(self) -> None:
        """Wait for the batches in progress and settle their work; do nothing afterwards."""
        self._over = True
        held = dict(self._held)
        self._forget(list(held))
        async with self._letting_go:
            await self._finish()
            with suppress(Transient, TimeoutError):  # the next start catches up
                async with asyncio.timeout(self.revoke_seconds):
                    await self._settle_at_last(held)

    async def _settle_at_last(self, gone: Mapping[int, AssignedPartition]) -> None:
        for partition, held in gone.items():
            if not held.cut_off:
                await self._settle(partition, held)

    def _forget(self, partitions: Sequence[int]) -> None:
        """Start nothing more on these partitions."""
        self._end_steps(partitions)
        self._gone += [held for p in partitions if (held := self._held.pop(p, None)) is not None]

    async def _finish(self) -> None:
        """Return once nothing is in progress on the forgotten partitions."""
        gone, self._gone = self._gone, []
        try:
            async with asyncio.timeout(self.revoke_seconds):
                await _between_batches(gone)
        except TimeoutError:
            self.report(f"{self.process.topic}: a batch takes too long and is cut off")
            for held in gone:
                held.cut()
            await _between_batches(gone)

    async def _work(
        self, partition: int, held: AssignedPartition, batch: Sequence[LogRecord]
    ) -> None:
        """Process the records ahead; skip those fetched before a claim moved the position."""
        if held.next is None or held.paused:
            return
        ahead = [record for record in batch if record.offset >= held.next]
        if not ahead:
            return
        if held.fresh and ahead[0].offset > held.next:
            place = f"{self.process.topic}/{partition}"
            self.report(f"{place} has nothing more from {held.next} to {ahead[0].offset - 1}")
        with self.measured(self.process.topic, len(ahead)):
            held.done = await acknowledged(self.process, self.log, ahead)
        held.next, held.fresh, held.waits_for = held.done.offset, False, ""
        if held.committing is None or held.committing.done():
            held.committing = asyncio.create_task(self._commit(partition, held))

    async def _commit(self, partition: int, held: AssignedPartition) -> None:
        """Commit the newest acknowledged offset, one request at a time."""
        try:
            while held.done is not None:
                done, held.done = held.done, None
                await commit(self.process, self.log, partition, done)
                held.failures = 0
        except Exception as error:  # noqa: BLE001 - else it would go unnoticed
            self._failed(partition, held, error)

    async def _guarded(
        self, partition: int, held: AssignedPartition, step: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        """Run a step if the partition is still assigned; handle its failure."""
        async with held.busy:
            if self._held.get(partition) is not held:
                return
            held.step = asyncio.create_task(step())
            try:
                await held.step
            except asyncio.CancelledError:
                if not held.cut_off:
                    raise
            except Exception as error:  # noqa: BLE001 - else it would end in the client's loop
                self._failed(partition, held, error)

    def _failed(self, partition: int, held: AssignedPartition, error: Exception) -> None:
        """Wait if that may help; stop if nothing does."""
        if isinstance(error, Poison):
            topic = self.process.topic
            self._give_up(Fatal(f"a poisoned record of {topic} was not set aside: {error}"))
        elif not isinstance(error, Transient):
            self._give_up(error)
        elif self._held.get(partition) is not held:
            return
        elif isinstance(error, NotYet):
            self._wait(partition, held, error)
        else:
            self._back_off(partition, held, error)

    def _give_up(self, error: Exception) -> None:
        """Do nothing more: the next batch must not be committed after one that failed."""
        self._forget(list(self._held))
        if not self._over:
            self._over = True
            self.stop(error)

    def _wait(self, partition: int, held: AssignedPartition, error: NotYet) -> None:
        """Retry the same records later: nothing has failed."""
        if not held.waits_for:
            self.report(f"{self.process.topic}/{partition} waits: {error}")
        held.waits_for = str(error)
        self._pause(partition, held)
        self._later(partition, self._resume_later(partition, held))

    def _back_off(self, partition: int, held: AssignedPartition, error: Transient) -> None:
        held.next, held.waits_for = None, str(error)
        held.failures += 1
        delay = self.retry.delay(held.failures)
        self._pause(partition, held)
        place = f"{self.process.topic}/{partition}"
        self.report(f"{place} waits: {error}; trying again in {delay:.1f} s")
        self._later(partition, self._claim(partition, held, delay))

    def _pause(self, partition: int, held: AssignedPartition) -> None:
        held.paused = True
        self.member.pause(partition)

    def _resume(self, partition: int, held: AssignedPartition, position: int) -> None:
        held.next, held.paused = position, False
        self.member.resume(partition, position)

    def _later(self, partition: int, step: Coroutine[Any, Any, None]) -> None:
        self._steps[partition] = asyncio.create_task(step)

    async def _resume_later(self, partition: int, held: AssignedPartition) -> None:
        await self.sleep(_WAIT_SECONDS)
        if self._held.get(partition) is held and held.next is not None:
            self._resume(partition, held, held.next)

    async def _claim(self, partition: int, held: AssignedPartition, delay: float) -> None:
        await self.sleep(delay)
        await self._guarded(partition, held, partial(self._claimed, partition, held))

    async def _claimed(self, partition: int, held: AssignedPartition) -> None:
        await _committed(held)
        with self.claiming(self.process.topic):
            position = await self.process.claim(partition)
        held.fresh, held.waits_for = True, ""
        self._resume(partition, held, position)

    def _end_steps(self, partitions: Sequence[int]) -> None:
        for partition in partitions:
            step = self._steps.pop(partition, None)
            if step is not None and step is not asyncio.current_task():
                step.cancel()


async def _between_batches(gone: Sequence[AssignedPartition]) -> None:
    """Wait until nothing is in progress on these partitions, and their work is committed."""
    for held in gone:
        async with held.busy:
            await _committed(held)


async def _committed(held: AssignedPartition) -> None:
    """Wait until no commit is in progress; a failed one has reported its error itself."""
    if held.committing is not None:
        await asyncio.wait([held.committing])
