"""What tests need and do not bring along: fetched once per machine, then kept in the cache."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

_MAVEN_SECONDS = 60.0


class NotFetched(Exception):
    """Maven cannot fetch it; the message says why."""


def kept(folder: Path, make: Callable[[Path], Path]) -> Path:
    """Return a folder that is made once per machine, whole or not at all.

    `make` gets a directory beside it to work in, and returns what is to be moved into place.
    """
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            made = make(Path(scratch))
            try:
                made.rename(folder)
            except OSError:  # another test process was faster
                if not folder.is_dir():
                    raise
    return folder


def maven(arguments: Sequence[str], what: str, scratch: Path) -> None:
    """Run Maven in a directory. Raises NotFetched, naming what it was to fetch."""
    program = shutil.which("mvn")
    if program is None:
        raise NotFetched("mvn is not on the PATH")
    try:
        subprocess.run(
            [program, "-q", "-B", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=True,
            timeout=_MAVEN_SECONDS,
            cwd=scratch,
        )
    except subprocess.CalledProcessError as error:
        raise NotFetched(f"Maven cannot fetch {what}: {error.stdout.strip()}") from error
    except subprocess.TimeoutExpired as error:
        raise NotFetched(f"Maven takes over {_MAVEN_SECONDS:.0f} s for {what}") from error
