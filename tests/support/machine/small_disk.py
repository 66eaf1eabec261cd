"""A disk of a few megabytes, for tests of what happens when it is full."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
_MOUNTED = """mkdir "$1" && mount -t tmpfs -o size="$2" full "$1" && exec "$3" -c "$4" "$5" """


def on_small_disk(script: str, path: Path, size: str) -> subprocess.CompletedProcess[str]:
    """Run a script whose argument is a path on a new disk, mounted as the path's folder.

    Skips the test where nothing can be mounted.
    """
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("no user namespaces here: a small disk cannot be mounted")
    arguments = [path.parent, size, sys.executable, script, path]
    done = subprocess.run(
        [unshare, "-rm", "sh", "-c", _MOUNTED, "sh", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(f"a small disk cannot be mounted here: {done.stderr.strip()}")
    return done
