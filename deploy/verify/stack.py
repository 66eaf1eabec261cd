"""The services of docker-compose.yml as one project of its own: its commands, containers, answers."""

import json
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError

from prometheus_client.parser import text_string_to_metric_families

from deploy.verify.images import ROOT
from deploy.verify.machine import Failed, run

PROJECT = "memsieve-verify"
KEY = "for-checks-alone-and-for-nothing-else"
_TOKEN = "secret"  # noqa: S105 - as in docs/api.md
_TOKENS = """\
[[tokens]]
name = "verify"
sha256 = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
scopes = ["cafe"]
rights = ["read", "write"]
"""
_LABEL = "com.docker.compose"
_WAIT_SECONDS = 300.0
_PAUSE_SECONDS = 2.0
_LONG_SECONDS = 3600.0


class Reply(NamedTuple):
    status: int
    text: str


class Container:
    """A container as it was when it was looked at."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.id: str = told["Id"]
        self.image: str = told["Image"]
        self.environment = set[str](told["Config"]["Env"])
        self.service: str = told["Config"]["Labels"][f"{_LABEL}.service"]
        self.restarts: int = told["RestartCount"]
        self.state: dict[str, Any] = told["State"]
        volumes = [one["Name"] for one in told["Mounts"] if one["Type"] == "volume"]
        self.nameless = [name for name in volumes if not name.startswith(f"{PROJECT}_")]

    @property
    def healthy(self) -> bool:
        return self.state["Status"] == "running" and self.state["Health"]["Status"] == "healthy"

    def moment(self, of: str) -> datetime:
        """Return StartedAt or FinishedAt."""
        return datetime.fromisoformat(self.state[of])

    def execute(self, *command: str) -> str:
        return run(["docker", "exec", self.id, *command])

    def get(self, path: str, port: int = 8080) -> Reply:
        """Ask over the port of this machine that Docker gave to the container's."""
        published = run(["docker", "port", self.id, str(port)]).split()[0]
        return ask(f"http://{published}{path}")

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples with these labels."""
        families = text_string_to_metric_families(self.get("/metrics").text)
        samples = [one for family in families for one in family.samples if one.name == name]
        return sum(one.value for one in samples if labels.items() <= one.labels.items())


class Stack:
    """The project; every command gets the files, the key and the tokens of the checks."""

    def __init__(self, scratch: Path, *overrides: Path) -> None:
        """Take a folder for the files; `overrides` are read after docker-compose.yml."""
        self.data = scratch / "data"
        self.data.mkdir()
        tokens = scratch / "tokens.toml"
        tokens.write_text(_TOKENS, "utf-8")
        files = ":".join(map(str, [ROOT / "docker-compose.yml", *overrides]))
        self._environment = [
            f"COMPOSE_PROJECT_NAME={PROJECT}",
            f"COMPOSE_FILE={files}",
            f"MEMSIEVE_FORGET__KEY={KEY}",
            f"DATA={self.data}",
            f"TOKENS={tokens}",
        ]

    def make(self, target: str) -> str:
        return run(
            ["env", *self._environment, "make", "-C", str(ROOT), target], seconds=_LONG_SECONDS
        )

    def compose(self, *words: str) -> str:
        return run(["env", *self._environment, "docker", "compose", *words], seconds=_LONG_SECONDS)

    def memsieve(self, *words: str, variables: tuple[str, ...] = ()) -> str:
        """Run a command by hand, in a container of its own."""
        options = [word for one in variables for word in ("--env", one)]
        return self.compose("run", "--rm", "--no-TTY", *options, "memsieve", *words)

    def listed(self, *words: str) -> list[dict[str, Any]]:
        """Run a command that lists something as JSON."""
        return json.loads(self.memsieve(*words, "--json"))

    def containers(self, *services: str) -> list[Container]:
        """Look at the containers of these services, or of all; not at those of commands by hand."""
        filters = [f"label={_LABEL}.project={PROJECT}", f"label={_LABEL}.oneoff=False"]
        options = [word for one in filters for word in ("--filter", one)]
        ids = run(["docker", "ps", "--all", "--quiet", *options]).split()
        if not ids:
            return []
        told: list[dict[str, Any]] = json.loads(run(["docker", "inspect", *ids]))
        found = [Container(one) for one in told]
        return [one for one in found if not services or one.service in services]

    def container(self, service: str) -> Container:
        [found] = self.containers(service)
        return found

    def wait(self, what: str, so: Callable[[], bool], seconds: float = _WAIT_SECONDS) -> float:
        """Wait until it is so, and return how long that took, in seconds. Raises Failed."""
        start = time.monotonic()
        while not so():
            if time.monotonic() - start > seconds:
                raise Failed(f"{what}: not so after {seconds:.0f} s")
            time.sleep(_PAUSE_SECONDS)
        return time.monotonic() - start

    def logs(self) -> str:
        """Return the end of what the containers logged."""
        with suppress(Failed):
            return self.compose("logs", "--no-color", "--tail", "15")
        return ""

    def end(self) -> None:
        """Remove the project with its volumes."""
        self.compose("--profile", "*", "down", "--volumes", "--remove-orphans")


def ask(url: str, document: dict[str, Any] | None = None) -> Reply:
    """Ask a server of this machine, with the token of the checks; send a document as JSON."""
    body = None if document is None else json.dumps(document).encode()
    headers = {"Authorization": f"Bearer {_TOKEN}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, body, headers)  # noqa: S310 - http, to this machine
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=30) as answer:
            return Reply(answer.status, answer.read().decode())
    except HTTPError as error:
        return Reply(error.code, error.read().decode())
    except (OSError, HTTPException) as error:
        return Reply(0, str(error))
