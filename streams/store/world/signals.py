"""The signals that end a process."""

import asyncio
import signal
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def stop_signal() -> Generator[asyncio.Future[None]]:
    """Give a future that SIGTERM and SIGINT settle, for an orderly shutdown."""
    loop = asyncio.get_running_loop()
    stop = loop.create_future()

    def told() -> None:
        if not stop.done():
            stop.set_result(None)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told)
    try:
        yield stop
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
