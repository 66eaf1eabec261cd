"""The services as processes, for tests: started, watched over HTTP, stopped or killed."""

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.encoding.models import models_dir
from tests.support.machine.commands import memsieve, start
from tests.support.machine.waiting import wait_until

COMMAND = (sys.executable, "-c", "from streams.main import main; main()")
_PORT = re.compile(r"health and metrics on port (\d+)")
_WHAT_IS_READ = "reading the cluster at "
"""How the line begins that a reader prints of every cluster that settings alone name."""
_HTTP_SECONDS = 30.0
_END_SECONDS = 60.0


def over_rest(url: str, collection_prefix: str) -> dict[str, str]:
    """Return the settings of an installation that shares a Qdrant server, over REST."""
    return {
        "index__kind": "qdrant",
        "qdrant__url": url,
        "qdrant__prefer_grpc": "false",
        "qdrant__collection_prefix": collection_prefix,
    }


@dataclass(frozen=True)
class Installation:
    """A cluster, a prefix of our own in it, and the settings that all our processes share."""

    directory: Path
    variables: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def on(cls, directory: Path, kafka: str, prefix: str, **settings: str) -> "Installation":
        """Describe an installation; `qdrant__url` is the setting qdrant.url."""
        named = {f"MEMSIEVE_{name.upper()}": value for name, value in settings.items()}
        variables = {
            "MEMSIEVE_KAFKA__BOOTSTRAP": kafka,
            "MEMSIEVE_KAFKA__PREFIX": prefix,
            "MEMSIEVE_EMBEDDER__CACHE_DIR": str(models_dir()),
            "MEMSIEVE_SERVICE__PORT": "0",
            **named,
        }
        return cls(directory, variables)

    @property
    def environment(self) -> dict[str, str]:
        inherited = dict(os.environ)  # noqa: TID251 - what a process is started with
        return {**inherited, "COLUMNS": "200", **self.variables}

    def memsieve(self, *arguments: str, code: int = 0) -> str:
        """Run a command to its end; return what it printed, on both ways, but not what is read."""
        done = self._run(*arguments)
        told = done.stderr.splitlines(keepends=True)
        said = done.stdout + "".join(line for line in told if not line.startswith(_WHAT_IS_READ))
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{said}"
        return said

    def json(self, *arguments: str) -> Any:
        """Run a command with --json; return what it says."""
        done = self._run(*arguments, "--json")
        assert done.returncode == 0, f"{arguments}: {done.returncode}\n{done.stderr}{done.stdout}"
        return json.loads(done.stdout)

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return memsieve(*arguments, environment=self.environment, directory=self.directory)

    @contextmanager
    def asking(self, *arguments: str) -> "Generator[subprocess.Popen[str]]":
        """Start a command and leave it alone; it is killed where it has not ended."""
        with subprocess.Popen(
            [*COMMAND, *arguments],
            env=self.environment,
            cwd=self.directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    @contextmanager
    def running(self, service: str, *arguments: str) -> "Generator[Running]":
        """Run a service meanwhile; it is killed where it has not ended."""
        process = Running(self, service, arguments)
        try:
            yield process
        finally:
            process.kill()


class Running:
    """A service in a process of its own."""

    def __init__(
        self, installation: Installation, service: str, arguments: tuple[str, ...]
    ) -> None:
        """Start it, and return once it serves its health."""
        self._said = (
            installation.directory / f"{service}-{len(list(installation.directory.iterdir()))}"
        )
        self._said.touch()
        self._process = start(
            "service",
            service,
            *arguments,
            environment=installation.environment,
            directory=installation.directory,
            out=self._said,
            err=self._said,
        )
        try:
            wait_until(self._serves, f"{service} serves its health", seconds=30)
        except BaseException:
            self.kill()  # nobody else knows of it yet
            raise
        self.url = self.urls[0]

    @property
    def urls(self) -> list[str]:
        """Where its health is served: at one address, or at one for each worker that has started."""
        return [f"http://127.0.0.1:{port}" for port in _PORT.findall(self.said)]

    @property
    def said(self) -> str:
        return self._said.read_text(encoding="utf-8")

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The lines of its log."""
        return [json.loads(line) for line in self.said.splitlines() if line.startswith("{")]

    @property
    def events(self) -> list[str]:
        """What it logged, line by line."""
        return [line["event"] for line in self.lines]

    @property
    def workers(self) -> list[int]:
        """The ids of the processes that it has started."""
        pid = self._process.pid
        return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()))

    def wait_until_ready(self) -> None:
        wait_until(lambda: self.waits_for() == {}, "the service is ready")

    def waits_for(self) -> dict[str, str]:
        """Return what keeps it from being ready."""
        return json.loads(self.get("/ready"))["waits_for"]

    def get(self, path: str) -> str:
        return _got(f"{self.url}{path}")

    @property
    def cpu_seconds(self) -> float:
        """Return the CPU time of the process, and of those that it has started."""
        pids = (self._process.pid, *self.workers)
        stats = (Path(f"/proc/{pid}/stat").read_text("ascii").rsplit(")", 1)[1] for pid in pids)
        ticks = sum(int(ticks) for stat in stats for ticks in stat.split()[11:13])
        return ticks / os.sysconf("SC_CLK_TCK")

    def metric(self, name: str, **labels: str) -> float:
        """Return a metric; all that have these labels, added up."""
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        lines = [
            line
            for url in self.urls
            for line in _got(f"{url}/metrics").splitlines()
            if re.match(rf"{name}[ {{]", line) and all(label in line for label in wanted)
        ]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    def stop(self) -> int:
        """Ask it to end, as an orchestrator does; return its exit code."""
        self._process.terminate()
        return self.wait()

    def wait(self) -> int:
        """Wait for it to end by itself; return its exit code."""
        self._process.join(_END_SECONDS)
        code = self._process.exitcode
        assert code is not None, f"it goes on after {_END_SECONDS} s:\n{self.said}"
        return code

    def kill(self) -> None:
        self._process.kill()
        self._process.join()

    def _serves(self) -> bool:
        assert self._process.exitcode is None, self.said
        return _PORT.search(self.said) is not None


def _got(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=_HTTP_SECONDS) as answer:  # noqa: S310 - http
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.read().decode()
