"""The Python of the pages: it runs, and prints what the comments in it say."""

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGES = (Path("README.md"), Path("docs/python.md"), Path("docs/mcp.md"))
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_PRINTED = re.compile(r"^ *# (.*)$", re.MULTILINE)


def of(page: Path) -> list[str]:
    """Return the snippets of a page, in their order."""
    return _BLOCK.findall((ROOT / page).read_text("utf-8"))


def expected(snippet: str) -> str:
    """Return a pattern of all that a snippet prints: its comments. `…` stands for what differs."""
    return re.escape("\n".join(_PRINTED.findall(snippet))).replace("…", ".+")


def run(python: str, snippet: str, directory: Path, *, installed: bool = False) -> str:
    """Run a snippet as a program of its own in a directory; return what it prints.

    An `installed` memsieve is what it imports, whatever this process imports.
    """
    environment = dict(os.environ)  # noqa: TID251
    environment["PATH"] = f"{Path(python).parent}:{environment['PATH']}"
    if installed:
        environment.pop("PYTHONPATH", None)
    process = subprocess.run(
        [python, "-c", snippet],
        cwd=directory,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return process.stdout.strip()
