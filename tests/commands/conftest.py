"""The command line under test: in this process where that will do, as a process where it must."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from streams.clock.system import SystemClock
from streams.embedding import fastembed_text
from streams.main.command_line import main
from streams.store.world.files import HEAD_BYTES
from tests.fakes.clock import StandingClock
from tests.support.encoding.models import models_dir, shared_embedder

COMMAND = (sys.executable, "-c", "from streams.main import main; main()")


@dataclass(frozen=True)
class Result:
    """What a command printed, and how it ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


Memsieve = Callable[..., Result]


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models_dir()
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def _with_the_model_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare each command of this process the third of a second that loading the model takes."""
    monkeypatch.setattr(fastembed_text, "FastembedEmbedder", shared_embedder)


@pytest.fixture
def memsieve(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Memsieve:
    """Run `memsieve ARGUMENTS`; return what it printed and its exit code."""

    def call(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["memsieve", *map(str, arguments)])
        capfd.readouterr()
        code: object = 0
        try:
            main()
        except SystemExit as end:
            code = end.code
        printed = capfd.readouterr()
        return Result(code if isinstance(code, int) else 0, printed.out, printed.err)

    return call


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> StandingClock:
    """Return the clock by which commands tell the time, in this process."""
    standing = StandingClock()

    def now(_: SystemClock) -> datetime:
        return standing.now()

    monkeypatch.setattr(SystemClock, "now", now)
    return standing


def start(*arguments: object, cwd: Path) -> subprocess.Popen[str]:
    """Start `memsieve ARGUMENTS` as a process of its own."""
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def start_holding(store: str, *arguments: object, cwd: Path) -> subprocess.Popen[str]:
    """Start a run that takes a store and then waits for more on its standard input."""
    process = start("run", "-", "--store", store, *arguments, cwd=cwd)
    assert process.stdin is not None
    process.stdin.write("\n" * HEAD_BYTES)  # which it looks at before it takes the store
    process.stdin.flush()
    return process


SHALLOW = "default {judges.deep = false}"
"""For tests of many alike texts, in which it does not matter what is decided: nothing is read deeply."""


def write_events(path: Path, *texts: str, scope: str = "acme/ana") -> Path:
    """Write a file of rows with a text, a scope and a time."""
    times = {"occurred_at": "2026-03-01T09:00:00Z"}
    rows = (json.dumps({"text": text, "scope": scope, **times}) for text in texts)
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return path
