"""Blocking work outside the event loop."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

Result = TypeVar("Result")


async def abandonable(work: Callable[[], Result]) -> Result:
    """Do work that may block forever, such as reading a pipe, and await its result.

    Cancelling the wait abandons the work: its daemon thread does not keep the process alive, as a
    thread of the loop's own executor would.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Result] = loop.create_future()

    def settle(settled: Callable[[], None]) -> None:
        if not done.done():
            settled()

    def tell(settled: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop has ended: nobody waits any more
            loop.call_soon_threadsafe(settle, settled)

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - whatever it is, the awaiter gets it
            tell(lambda error=error: done.set_exception(error))
        else:
            tell(lambda: done.set_result(result))

    threading.Thread(target=run, daemon=True).start()
    return await done
