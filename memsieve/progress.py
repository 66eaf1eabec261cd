"""The progress of work on many rows."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeAlias

from rich import progress as bars
from rich.console import Console

Progress: TypeAlias = bool | Callable[[int, int], None]
"""True draws a bar on standard error; a function is told how many rows are done, and of how many."""


@contextmanager
def counted(total: int, progress: Progress) -> Generator[Callable[[int], None]]:
    """Give what is told how many rows more are done."""
    if progress is True:
        with bars.Progress(console=Console(stderr=True)) as bar:
            task = bar.add_task("memories", total=total)
            yield lambda rows: bar.advance(task, rows)
        return
    done = 0

    def advance(rows: int) -> None:
        nonlocal done
        done += rows
        if callable(progress):
            progress(done, total)

    yield advance
