"""The signals that end a process."""

import asyncio
import signal
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def signals_to(stop: asyncio.Future[None]) -> Generator[None]:
    """Set `stop` on SIGTERM and SIGINT, for an orderly shutdown."""
    loop = asyncio.get_running_loop()

    def told() -> None:
        if not stop.done():
            stop.set_result(None)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
