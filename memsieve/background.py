"""An event loop in its own thread, for callers that have none."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from memsieve.errors import StoreError

_T = TypeVar("_T")


class BackgroundLoop:
    """Runs coroutines for any number of threads until it is ended.

    Its thread does not keep the process alive.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._submitting = threading.Lock()
        self._open = True
        self._thread = threading.Thread(target=self._work, name="memsieve", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine, and wait for its result. Raises StoreError where nobody would run it.

        An interrupt of the wait cancels the coroutine.
        """
        try:
            with self._submitting:
                self._require_running()
                result = asyncio.run_coroutine_threadsafe(work, self._loop)
        except BaseException:
            work.close()
            raise
        try:
            return result.result()
        except BaseException:
            result.cancel()
            raise

    def end(self, last: Coroutine[Any, Any, None], *, wait: bool) -> None:
        """Take nothing on any more; run a last coroutine, and end. May be called again."""
        with self._submitting:
            if not self._open or not self._thread.is_alive():
                last.close()
                return
            self._open = False
            asyncio.run_coroutine_threadsafe(self._end(last), self._loop)
        if wait and threading.current_thread() is not self._thread:
            self._thread.join()

    def _require_running(self) -> None:
        if threading.current_thread() is self._thread:
            raise StoreError(
                "a Memory was called out of its own progress function: use AsyncMemory"
            )
        if not self._open:
            raise StoreError("the Memory was closed: make another one")
        if not self._thread.is_alive():
            raise StoreError("the Memory was made before this process was forked: make one in here")

    async def _end(self, last: Coroutine[Any, Any, None]) -> None:
        try:
            await last
        finally:
            self._ended.set()

    def _work(self) -> None:
        self._loop.run_until_complete(self._until_ended())
        self._loop.close()

    async def _until_ended(self) -> None:
        await self._ended.wait()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*rest, return_exceptions=True)
