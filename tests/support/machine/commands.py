"""`memsieve` as a process that is there at once: forked from one that has imported everything.

A process that Python starts takes a second of processor to import memsieve. What is proven of a
command in a process of its own, with its directory, environment and exit code, is the same.
"""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from tempfile import TemporaryDirectory

from streams.main import main
from streams.main.commands import COMMANDS

_SECONDS = 100.0
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # noqa: TID251 - as `main`; forks share numpy
_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(
    [
        "streams.main.command_line",
        *sorted({f"streams.{entry.module}" for entry in COMMANDS.values()}),
        "streams.embedding.fastembed_text",
        "streams.index.edge",
        "streams.index.qdrant",
        "streams.log.kafka.log",
        "streams.log.kafka.topics",
        "tests.support.machine.warm",
    ]
)


def memsieve(
    *arguments: str, environment: Mapping[str, str], directory: Path
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    with TemporaryDirectory() as said:
        out, err = Path(said, "out"), Path(said, "err")
        code = _run(arguments, environment, directory, (out, err))
        told = out.read_text("utf-8"), err.read_text("utf-8")
        return subprocess.CompletedProcess(arguments, code, *told)


def printed(*arguments: str, environment: Mapping[str, str], directory: Path) -> str:
    """Run a command to its end; return what it printed on both its outputs, in that order."""
    with TemporaryDirectory() as said:
        both = Path(said, "both")
        _run(arguments, environment, directory, (both, both))
        return both.read_text("utf-8")


def _run(
    arguments: tuple[str, ...],
    environment: Mapping[str, str],
    directory: Path,
    said: tuple[Path, Path],
) -> int:
    """Run a command to its end; return its exit code."""
    out, err = said
    process = start(*arguments, environment=environment, directory=directory, out=out, err=err)
    process.join(_SECONDS)
    if process.exitcode is None:
        process.kill()
        process.join()
        raise subprocess.TimeoutExpired(arguments, _SECONDS, err.read_text("utf-8"))
    return process.exitcode


def start(
    *arguments: str, environment: Mapping[str, str], directory: Path, out: Path, err: Path
) -> ForkServerProcess:
    """Start a command that says what it says into files; it ends with the tests at the latest."""
    said = (out, err)
    process = _forks.Process(
        target=_become, args=(arguments, dict(environment), directory, said), daemon=True
    )
    process.start()
    return process


def _become(
    arguments: tuple[str, ...],
    environment: dict[str, str],
    directory: Path,
    said: tuple[Path, Path],
) -> None:
    os.chdir(directory)
    os.environ.clear()  # noqa: TID251 - this process is the command from here on
    os.environ.update(environment)  # noqa: TID251
    for path, descriptor in zip(said, (1, 2), strict=True):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, descriptor)
        os.close(file)
    sys.argv = ["memsieve", *arguments]
    main()
