"""The progress of work: a bar on a terminal, otherwise an occasional line."""

import time
from collections.abc import Awaitable, Callable
from typing import Self, TypeAlias

from rich.progress import BarColumn, Progress, TaskID, TextColumn

from streams.store.cli.console import err, note
from streams.store.world.files import FileSource
from streams.store.world.files import Progress as FileProgress

_PLAIN_SECONDS = 5.0


Work: TypeAlias = Callable[[Callable[[int], None]], Awaitable[None]]
"""Is told whom to tell how many rows more are done."""


async def shown(source: FileSource, work: Work, what: str = "events") -> None:
    """Do work on a source that tells how many rows more are done; they are `what`."""
    if not err.is_terminal:
        lines = _Lines(source, what)
        await work(lines.advance)
        lines.finish()
        return
    with _bar() as progress:
        task = progress.add_task(source.place, total=None, rate="")
        await work(_on_bar(progress, task, source, what))


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[rate]}"),
        console=err,
    )


def _on_bar(
    progress: Progress, task: TaskID, source: FileSource, what: str
) -> Callable[[int], None]:
    started = time.perf_counter()
    done = 0

    def advance(rows: int) -> None:
        nonlocal done
        done += rows
        elapsed = time.perf_counter() - started
        place = source.progress()
        rate = f"{done:,} {what}, {done / elapsed:,.0f}/s{_remaining(place, elapsed)}"
        progress.update(task, completed=place.done, total=place.total, rate=rate)

    return advance


class _Lines:
    """Progress where there is no terminal: a line every few seconds, and one at the end."""

    def __init__(self, source: FileSource, what: str) -> None:
        self._source = source
        self._what = what
        self._started = self._told = time.perf_counter()
        self._done = 0

    def advance(self, rows: int) -> None:
        self._done += rows
        if time.perf_counter() - self._told >= _PLAIN_SECONDS:
            place = self._source.progress()
            self._tell(f" ({place.done / place.total:.0%})" if place.total else "")

    def finish(self) -> None:
        self._tell(" (100%)")

    def _tell(self, percent: str) -> None:
        self._told = time.perf_counter()
        rate = self._done / (self._told - self._started)
        note(f"{self._source.place}: {self._done:,} {self._what}{percent}, {rate:,.0f}/s")


def _remaining(place: FileProgress, elapsed: float) -> str:
    if not place.total or not place.done:
        return ""
    minutes, seconds = divmod(round(elapsed * (place.total - place.done) / place.done), 60)
    return f", {minutes}:{seconds:02d} left"


class Meter:
    """Progress of work that is counted: a bar on a terminal, else a line now and then."""

    def __init__(self, what: str) -> None:
        """Count `what`, as in "1,000 events".

        The first line comes some seconds after the first step: a small file gets one at its end.
        """
        self._what = what
        self._started = time.perf_counter()
        self._told: float | None = None
        self._done = self._total = 0
        self._progress = _bar() if err.is_terminal else None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
            self._task = self._progress.add_task(self._what, total=None, rate="")
        return self

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()
        elif self._done and failed is None:
            note(self._rate)

    def advance(self, count: int, total: int) -> None:
        """Have so many more done, of about `total`."""
        self.reach(self._done + count, total)

    def reach(self, done: int, total: int) -> None:
        """Have got to `done` of about `total`."""
        self._done, self._total = done, max(total, done)
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done, total=self._total, rate=self._rate)
        elif self._told is None:
            self._told = time.perf_counter()
        elif time.perf_counter() - self._told >= _PLAIN_SECONDS:
            self._tell()

    def _tell(self) -> None:
        self._told = time.perf_counter()
        note(f"{self._rate} of about {self._total:,}")

    @property
    def _rate(self) -> str:
        elapsed = max(time.perf_counter() - self._started, 1e-9)
        return f"{self._done:,} {self._what}, {self._done / elapsed:,.0f}/s"
