"""A command on a terminal, and a person who types."""

import os
import pty
import select
import signal
import subprocess
import time
from contextlib import suppress


class Terminal:
    """A command on a terminal, and a person who types."""

    def __init__(self, *command: str) -> None:
        self._ours, theirs = pty.openpty()
        self._process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL
        )
        os.close(theirs)
        self.printed = ""

    def wait_for(self, text: str, *, seconds: float = 25) -> None:
        """Read until something was printed behind all that was waited for before."""
        end = time.monotonic() + seconds
        while text not in self.printed:
            ready, _, _ = select.select([self._ours], [], [], end - time.monotonic())
            assert ready, f"not printed: {text}\n{self.printed}"
            self.printed += os.read(self._ours, 65_536).decode()
        self.printed = self.printed.partition(text)[2]

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def interrupt(self) -> None:
        """Press Ctrl-C, and again if nothing happens.

        Python notices a signal that comes just before it begins to read only with the next one.
        """
        for _ in range(5):
            self._process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(3)
                return

    def ended(self) -> int:
        try:
            return self._process.wait(20)
        finally:
            os.close(self._ours)
