"""The workers as processes: started, killed, stopped like a machine that hangs, woken, replaced."""

import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.support.servers.services import Installation

Role = Literal["deduplicator", "writer"]

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "tests.chaos.worker")
_END_SECONDS = 60
_HELD = re.compile(r"memory\.\w+: (has|lets) partition\(s\) (none|[\d, ]+)")


class Worker:
    """One deduplicator or writer; what it logs goes to a file of its own."""

    def __init__(
        self, installation: Installation, role: Role, number: int, command: Sequence[str]
    ) -> None:
        self.role: Role = role
        self.name = f"{role}-{number}"
        self.suspended = False
        self._file = installation.directory / f"{self.name}.log"
        with self._file.open("wb") as said:
            self._process = subprocess.Popen(
                [*command, "service", role],
                env=installation.environment,
                cwd=ROOT,
                stdin=subprocess.PIPE,  # the worker ends with it
                stdout=said,
                stderr=subprocess.STDOUT,
            )

    @property
    def said(self) -> str:
        return self._file.read_text("utf-8", "replace")

    @property
    def last_words(self) -> str:
        """The last line that it logged."""
        return (self.said.strip().splitlines() or ["nothing"])[-1]

    @property
    def code(self) -> int | None:
        """Its exit code; None while it is there."""
        return self._process.poll()

    @property
    def works(self) -> bool:
        """Whether it has joined its group."""
        return '"event": "working"' in self.said

    @property
    def assignments(self) -> int:
        """How often its group has given it partitions, be it none."""
        return sum(found[1] == "has" for found in _HELD.finditer(self.said))

    @property
    def held(self) -> list[int]:
        """The partitions that it has, as far as it has said."""
        found = list(_HELD.finditer(self.said))
        if not found or found[-1][1] == "lets" or found[-1][2] == "none":
            return []
        return [int(number) for number in found[-1][2].split(",")]

    def kill(self) -> None:
        self._process.kill()
        self._gone()

    def suspend(self) -> None:
        """Let it stand still, as a machine that hangs: it is not asked, and says no goodbye."""
        self.suspended = True
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)
        self.suspended = False

    def stop(self) -> int:
        """Ask it to end, as an orchestrator does; return its exit code. Kills one that does not."""
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()
        finally:
            self._gone()

    def _gone(self) -> None:
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()


@dataclass(frozen=True)
class Ended:
    """A worker that ended although nobody told it to."""

    worker: str
    code: int
    last_words: str


class Fleet:
    """The workers that are there, so many as wanted of each role or, for a while, more or fewer."""

    def __init__(
        self,
        installation: Installation,
        wanted: Mapping[Role, int],
        command: Sequence[str] = COMMAND,
    ) -> None:
        """`command` is what starts a worker, but for its role."""
        self._installation = installation
        self._command = command
        self._wanted = wanted
        self._started = 0
        self._present: list[Worker] = []
        self.past: list[Worker] = []
        self.ended: list[Ended] = []

    @property
    def roles(self) -> list[Role]:
        return list(self._wanted)

    def of(self, role: Role) -> list[Worker]:
        """Return the workers of a role that run and do not stand still."""
        return [w for w in self._present if w.role == role and not w.suspended and w.code is None]

    def all(self) -> list[Worker]:
        """Return all that have ever been."""
        return [*self.past, *self._present]

    def missing(self, role: Role) -> int:
        """Return how many of a role are fewer than wanted; negative where there are more."""
        return self._wanted[role] - sum(worker.role == role for worker in self._present)

    def start(self, role: Role) -> Worker:
        self._started += 1
        worker = Worker(self._installation, role, self._started, self._command)
        self._present.append(worker)
        return worker

    def kill(self, worker: Worker) -> None:
        self._leave(worker)
        worker.kill()

    def stop(self, worker: Worker) -> None:
        """Let it end in order."""
        self._leave(worker)
        code = worker.stop()
        if code and (worker.works or code != -signal.SIGTERM):  # else it had not begun
            self.ended.append(Ended(worker.name, code, worker.last_words))

    def mend(self) -> None:
        """Note those that ended by themselves, and start others in their place."""
        for worker in [one for one in self._present if one.code is not None]:
            self._leave(worker)
            self.ended.append(Ended(worker.name, worker.code or 0, worker.last_words))
            worker.kill()
            self.start(worker.role)

    def fill(self) -> None:
        """Start as many as are missing; let the oldest end of those that are too many."""
        for role in self.roles:
            for _ in range(self.missing(role)):
                self.start(role)
            for worker in self.of(role)[: max(0, -self.missing(role))]:
                self.stop(worker)

    def stop_all(self) -> None:
        """Let all end in order."""
        for role in self.roles:
            for worker in self.of(role):
                self.stop(worker)

    def close(self) -> None:
        """Kill whoever is left."""
        for worker in list(self._present):
            self.kill(worker)

    def _leave(self, worker: Worker) -> None:
        self._present.remove(worker)
        self.past.append(worker)
