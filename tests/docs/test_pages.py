"""The documentation is true: its commands run, its pages are complete, its links lead somewhere."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.topics import TOPICS
from streams.cli.main import EXIT_CODES
from tests.support import reference
from tests.support.models import models_dir

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(ROOT)
    for pattern in ("*.md", "docs/**/*.md", "benchmarks/*.md")
    for path in ROOT.glob(pattern)
)
WITH_COMMANDS = [page for page in PAGES if "```console" in (ROOT / page).read_text("utf-8")]
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=str)
def test_every_command_of_a_page_prints_what_the_page_says(page: Path, tmp_path: Path) -> None:
    """`…` stands for what differs from run to run. The commands share one directory."""
    models_dir()
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for command, expected in _commands((ROOT / page).read_text("utf-8")):
        printed = _run(command, tmp_path)
        pattern = re.escape(expected).replace("…", ".+")
        assert re.fullmatch(pattern, printed), f"{page}: $ {command}\n{printed}"


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    targets = LINK.findall((ROOT / page).read_text("utf-8"))
    missing = [link for link in targets if not ((ROOT / page).parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize("name", reference.pages())
def test_a_generated_page_is_up_to_date(name: str) -> None:
    written = (ROOT / "docs" / "reference" / name).read_text("utf-8")
    assert written == reference.pages()[name], "run `make docs`"


def test_the_guide_lists_the_exit_codes() -> None:
    guide = (ROOT / "docs" / "running.md").read_text("utf-8")
    assert [f"| {code} | {text} |" in guide for code, text in EXIT_CODES.items()] == [True] * len(
        EXIT_CODES
    )


def test_the_map_names_every_module_and_no_other() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    named = set(re.findall(r"^\| `((?:schemas|streams)/[\w/]+\.py)` \|", page, re.MULTILINE))
    modules = {
        str(path.relative_to(ROOT))
        for package in ("schemas", "streams")
        for path in (ROOT / package).rglob("*.py")
        if path.name != "__init__.py"
    }
    assert named == modules


def test_the_map_names_every_topic() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    assert [topic.name for topic in TOPICS if f"`{topic.name}`" not in page] == []


def test_readme_names_the_test_command_that_the_build_runs() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    build = (ROOT / ".ci" / "run").read_text("utf-8")
    for command in ("make demo", "make test"):
        assert re.search(rf"^{command}\b", readme, re.MULTILINE)
        assert re.search(rf"^{command}$", build, re.MULTILINE)


def _commands(page: str) -> Iterator[tuple[str, str]]:
    for block in CONSOLE.findall(page):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield command, output.strip()


def _run(command: str, directory: Path) -> str:
    """Run a shell command as a reader would, with this environment's `memsieve` on the path."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # noqa: TID251
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=directory,
        env={**os.environ, "PATH": path},  # noqa: TID251
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout.strip()
