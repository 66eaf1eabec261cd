"""The wheel in an environment of its own, away from the checkout: built once for a test run."""

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.machine.brought import installed, lend

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def python(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> str:
    """Return the interpreter of an empty environment with the wheel in it, and what it needs.

    That is taken from this environment, so that nothing is fetched. The first worker that asks
    makes it for all.
    """
    own = tmp_path_factory.getbasetemp()
    here = (own if worker_id == "master" else own.parent) / "installed"
    here.mkdir(exist_ok=True)
    with (here / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (here / "done").exists():
            _install(here)
            (here / "done").touch()
    return _python(here)


def packages(python: str) -> Path:
    """Return where the packages of an environment are."""
    [found] = (Path(python).parents[1] / "lib").glob("python*/site-packages")
    return found


def _python(here: Path) -> str:
    return str(here / "env" / "bin" / "python")


def _install(here: Path) -> None:
    _done([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(here)], ROOT)
    [wheel] = here.glob("*.whl")
    _done([sys.executable, "-m", "venv", "--without-pip", "--clear", "env"], here)
    own = _python(here)
    install = ["install", "--no-deps", "--no-index", "--quiet", str(wheel)]
    _done([sys.executable, "-m", "pip", "--python", own, *install], here)
    lend(installed("memsieve", packages(own)), packages(own))


def _done(command: list[str], directory: Path) -> None:
    process = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr
