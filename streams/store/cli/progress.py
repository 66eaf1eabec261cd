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
    with _SourceMeter(source, what) as meter:
        await work(meter.rows)


class Meter:
    """Progress of work that is counted: a bar on a terminal, else a line now and then."""

    def __init__(self, what: str, title: str | None = None) -> None:
        """Count `what`, as in "1,000 events"; `title` stands at the bar.

        The first line comes some seconds after the first step: a small file gets one at its end.
        """
        self._what = what
        self._title = title or what
        self._started = time.perf_counter()
        self._told: float | None = None
        self._done = 0
        self._bar = _bar() if err.is_terminal else None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task(self._title, total=None, rate="")
        return self

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        elif failed is None:
            self._finish()

    def advance(self, count: int, total: int) -> None:
        """Have so many more done, of about `total`."""
        self.reach(self._done + count, total)

    def reach(self, done: int, total: int) -> None:
        """Have got to `done` of about `total`."""
        self._done, total = done, max(total, done)
        self._show(done, total, self._rate(), f"{self._rate()} of about {total:,}")

    def _show(self, completed: int, total: int | None, rate: str, line: str) -> None:
        now = time.perf_counter()
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=completed, total=total, rate=rate)
        elif self._told is None:
            self._told = now
        elif now - self._told >= _PLAIN_SECONDS:
            self._told = now
            note(line)

    def _finish(self) -> None:
        if self._done:
            note(self._rate())

    def _rate(self, share: str = "") -> str:
        return f"{self._done:,} {self._what}{share}, {self._done / self._elapsed:,.0f}/s"

    @property
    def _elapsed(self) -> float:
        return max(time.perf_counter() - self._started, 1e-9)


class _SourceMeter(Meter):
    """Progress of work on a file: how much of it is read says how much of it is done."""

    def __init__(self, source: FileSource, what: str) -> None:
        super().__init__(what, source.place)
        self._source = source

    def rows(self, count: int) -> None:
        """Have so many rows more done."""
        self._done += count
        place = self._source.progress()
        share = f" ({place.done / place.total:.0%})" if place.total else ""
        rate = f"{self._rate()}{_remaining(place, self._elapsed)}"
        self._show(place.done, place.total, rate, f"{self._title}: {self._rate(share)}")

    def _finish(self) -> None:
        note(f"{self._title}: {self._rate(' (100%)')}")


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[rate]}"),
        console=err,
    )


def _remaining(place: FileProgress, elapsed: float) -> str:
    if not place.total or not place.done:
        return ""
    minutes, seconds = divmod(round(elapsed * (place.total - place.done) / place.done), 60)
    return f", {minutes}:{seconds:02d} left"
