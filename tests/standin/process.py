"""The stand-in for a Qdrant server, as a process of its own that tests start, hurt and end."""

import http.client
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.standin import faults
from tests.standin.faults import Faults

_ROOT = Path(__file__).parents[2]
_END_SECONDS = 10.0


class StandIn:
    """A server of its own data directory; it ends with this process, however that ends."""

    def __init__(self, data: Path, *, api_key: str | None = None, version: str = "1.19.0") -> None:
        """Start it, and return once it answers."""
        self._options = ["--data", str(data.absolute()), "--version", version]
        if api_key is not None:
            self._options += ["--api-key", api_key]
        self._port = 0
        self._process = self._started()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def stop(self) -> None:
        """End it in order, as a server is shut down."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_END_SECONDS)
        finally:
            self.kill()

    def kill(self) -> None:
        """End it at once, as a crash does."""
        _kill(self._process)

    def restart(self) -> None:
        """End it in order unless it has ended, and start it on the same port and data."""
        if self._process.poll() is None:
            self.stop()
        self._process = self._started()

    def slow(self, seconds: float) -> None:
        """From now on, take every request up only after so long."""
        self._set(Faults(slow_seconds=seconds))

    def fail(self, times: int, status: int = 503) -> None:
        """Answer so many of the next requests with the status, without taking them up."""
        self._set(Faults(failing=times, status=status))

    def well(self) -> None:
        """From now on, work as a server should."""
        self._set(Faults())

    def _started(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.standin"),
                *("--port", str(self._port), *self._options),
            ],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # an interrupt of the tests is not for the server
        )
        assert process.stdout is not None
        port = process.stdout.readline()
        if not port:
            _kill(process)
            raise RuntimeError("the stand-in did not start; its standard error says why")
        self._port = int(port)
        return process

    def _set(self, wanted: Faults) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port)
        connection.request("POST", faults.ROUTE, wanted.model_dump_json())
        assert connection.getresponse().status == http.client.OK
        connection.close()


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    process.wait()
