"""Measures durations with a monotonic clock."""

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import cache

from streams.model.ports.log import HandledBatch, LogRecord, Process
from streams.model.wrapping import WrappedProcess


@contextmanager
def timed(took: Callable[[float], None]) -> Generator[None]:
    """Report how many seconds the block took, if it succeeds."""
    started = time.perf_counter()
    yield
    took(time.perf_counter() - started)


class TimedProcess(WrappedProcess):
    """Implements ports.Process over a process, and reports how long each batch was handled.

    Appending and committing afterwards do not count.
    """

    def __init__(self, process: Process, took: Callable[[float], None]) -> None:
        super().__init__(process)
        self._took = took

    async def handle(self, partition: int, records: Sequence[LogRecord]) -> HandledBatch:
        with timed(self._took):
            return await self._process.handle(partition, records)


def time_limit(seconds: float) -> Callable[[], bool]:
    """Return a function that says whether so many seconds have passed since now."""
    left = seconds_left(seconds)
    return lambda: not left()


def seconds_left(seconds: float) -> Callable[[], float]:
    """Return a function that returns the seconds left of `seconds` from now; never below 0."""
    ends = time.perf_counter() + seconds
    return lambda: max(0.0, ends - time.perf_counter())


def countdown(seconds: float) -> Callable[[], float]:
    """Return a function like that of `seconds_left`, which starts to count when first called."""

    @cache
    def ends() -> float:
        return time.perf_counter() + seconds

    return lambda: max(0.0, ends() - time.perf_counter())
