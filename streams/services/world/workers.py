"""Several workers of one service on one machine: forked, stopped together, and waited for."""

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

_SIGNALLED = 128
"""A shell's exit code of a process that a signal ended, less the signal's number."""


def fork_workers(count: int, report: Callable[[str], None]) -> int:
    """Fork `count` workers; return in each of them with its number, from 1 on.

    This process does not return: it waits for them, and then exits. SIGTERM and SIGINT stop all of
    them, and so do the end of one, with whose code it exits, and its own end, even by a kill. Fork
    before threads are started and servers are connected to. `report` gets what ends them.
    """
    alive, held = os.pipe()
    workers: dict[int, int] = {}
    for number in range(1, count + 1):
        pid = os.fork()
        if pid == 0:
            os.close(held)
            threading.Thread(target=_stop_at_the_end_of, args=(alive,), daemon=True).start()
            return number
        workers[pid] = number
    raise SystemExit(_Supervisor(workers, report).exit_code())


def _stop_at_the_end_of(parent: int) -> None:
    """Stop this process when nobody holds the other end of the parent's pipe any more."""
    os.read(parent, 1)
    os.kill(os.getpid(), signal.SIGTERM)


class _Supervisor:
    """Waits for workers, which it knows by their process ids."""

    def __init__(self, workers: dict[int, int], report: Callable[[str], None]) -> None:
        self._workers = workers
        self._report = report
        self._stopping = False

    def exit_code(self) -> int:
        """Return once all have ended: 0 if they were told to, else the code of the first."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._told)
        first = 0
        while self._workers:
            pid, status = os.wait()
            worker, code = self._workers.pop(pid), os.waitstatus_to_exitcode(status)
            if self._stopping and code in {0, -signal.SIGTERM}:
                continue
            if not self._stopping:
                self._report(f"worker {worker} has ended with {_named(code)}: stopping the others")
            self._stop()
            first = first or (code if code >= 0 else _SIGNALLED - code)
        return first

    def _told(self, _signal: int, _frame: FrameType | None) -> None:
        self._stop()

    def _stop(self) -> None:
        """Tell the workers that are left; one of them may have ended this moment."""
        self._stopping = True
        for pid in self._workers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)


def _named(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
