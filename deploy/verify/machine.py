"""Programs of this machine, Docker first."""

import subprocess
from collections.abc import Sequence

_LAST_LINES = 15


class Failed(Exception):
    """What was to be proved is not so, or cannot be tried; the message says why."""


def run(command: Sequence[str], *, seconds: float = 600.0) -> str:
    """Run a program and return its standard output. Raises Failed with the end of what it said."""
    done = _done(command, seconds)
    if done.returncode:
        raise Failed(f"{' '.join(command[:6])} ended with {done.returncode}: {_end(done)}")
    return done.stdout


def works(command: Sequence[str], *, seconds: float = 60.0) -> bool:
    """Say whether a program is there and ends well in time."""
    try:
        return _done(command, seconds).returncode == 0
    except Failed:
        return False


def _done(command: Sequence[str], seconds: float) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
    except FileNotFoundError as error:
        raise Failed(f"missing: {command[0]}") from error
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{' '.join(command[:6])} takes over {seconds:.0f} s") from error


def _end(done: subprocess.CompletedProcess[str]) -> str:
    lines = f"{done.stdout}\n{done.stderr}".strip().splitlines()
    return "\n  ".join(["", *lines[-_LAST_LINES:]])
