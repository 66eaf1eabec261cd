"""The documentation is true: its commands run, its pages are complete, its links lead somewhere."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from schemas.topics import TOPICS
from streams.main.command_line import EXIT_CODES
from streams.store.app.settings import descriptions
from tests.support.encoding.models import models_dir
from tests.support.machine import commands
from tests.support.machine.waiting import wait_until
from tests.support.pages import reference, snippets
from tests.support.servers.kafka import NativeKafka, free_port

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(ROOT)
    for pattern in ("*.md", "docs/**/*.md", "benchmarks/*.md", "examples/**/*.md")
    for path in ROOT.glob(pattern)
)
ON_A_BROKER = Path("docs/operations.md")
WITH_THE_API = Path("docs/api.md")
WITH_THE_PAGE = Path("docs/web.md")
WITH_COMMANDS = [
    page
    for page in PAGES
    if "```console" in (ROOT / page).read_text("utf-8")
    and page not in {ON_A_BROKER, WITH_THE_API, WITH_THE_PAGE}
]
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ON_THE_WAY = re.compile(
    r"^(\S+: )?[\d,]+ (\w+)(?: \(\d+%\))?, [\d,]+/s(?: of about [\d,]+)?\n(?=(?(1)\1|[\d,]+ \2, ))",
    re.MULTILINE,
)
"""A line of progress before the last: a slow machine prints one every few seconds."""
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


@pytest.mark.timeout(400)  # a page has up to dozens of commands, each a process of its own
@pytest.mark.parametrize("page", WITH_COMMANDS, ids=str)
def test_every_command_of_a_page_prints_what_the_page_says(page: Path, tmp_path: Path) -> None:
    """`…` stands for what differs from run to run. The commands share one directory."""
    models_dir()
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for command, expected in _commands((ROOT / page).read_text("utf-8")):
        printed = _run(command, tmp_path)
        pattern = re.escape(expected).replace("…", ".+")
        assert re.fullmatch(pattern, printed), f"{page}: $ {command}\n{printed}"


@pytest.mark.timeout(240)  # each loads the model
@pytest.mark.parametrize("page", snippets.PAGES, ids=str)
def test_every_python_snippet_of_a_page_prints_what_the_page_says(
    page: Path, tmp_path: Path
) -> None:
    models_dir()
    for snippet in snippets.of(page):
        printed = snippets.run(sys.executable, snippet, tmp_path)
        assert re.fullmatch(snippets.expected(snippet), printed), f"{page}:\n{printed}"


def test_the_services_do_what_their_page_says(tmp_path: Path, own_broker: NativeKafka) -> None:
    port = str(free_port())
    broker = {"MEMSIEVE_KAFKA__BOOTSTRAP": own_broker.bootstrap, "MEMSIEVE_SERVICE__PORT": port}
    _until_it_does(ON_A_BROKER, tmp_path, broker, {"8080": port})


@pytest.mark.parametrize(
    ("page", "port", "setting"),
    [(WITH_THE_API, "8090", "MEMSIEVE_API__PORT"), (WITH_THE_PAGE, "8091", "MEMSIEVE_WEB__PORT")],
    ids=str,
)
def test_what_is_served_does_what_its_page_says(
    tmp_path: Path, page: Path, port: str, setting: str
) -> None:
    ports = {"8080": str(free_port()), port: str(free_port())}
    variables = {"MEMSIEVE_SERVICE__PORT": ports["8080"], setting: ports[port]}
    _until_it_does(page, tmp_path, variables, ports)


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    targets = LINK.findall((ROOT / page).read_text("utf-8"))
    missing = [link for link in targets if not ((ROOT / page).parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize("name", reference.PAGES)
def test_a_generated_page_is_up_to_date(name: str) -> None:
    written = (ROOT / "docs" / "reference" / name).read_text("utf-8")
    assert written == reference.PAGES[name](), "run `make docs`"


def test_every_setting_is_described() -> None:
    silent = [name for name, purpose in descriptions().items() if not purpose]
    assert not silent, "describe each in a string below its field"


def test_the_guide_lists_the_exit_codes() -> None:
    guide = (ROOT / "docs" / "running.md").read_text("utf-8")
    assert [f"| {code} | {text} |" in guide for code, text in EXIT_CODES.items()] == [True] * len(
        EXIT_CODES
    )


def test_the_map_names_every_folder_and_no_other() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    named = re.findall(r"^\| \d+ \| \[([\w/]+)/\]", page, re.MULTILINE)
    slices = [str(path.parent.relative_to(ROOT)) for path in ROOT.glob("streams/*/__init__.py")]
    assert sorted(named) == sorted(["memsieve", "schemas", *slices])


def test_every_guarantee_is_held_by_tests_that_are_there() -> None:
    page = (ROOT / "docs" / "guarantees.md").read_text("utf-8")
    promises = re.findall(r"^\| (G\d+) \| .* \| (.*) \|$", page, re.MULTILINE)
    assert [number for number, _ in promises] == [f"G{n}" for n in range(1, len(promises) + 1)]
    tests = "\n".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    for number, held_by in promises:
        named = re.findall(r"`([^`]+)`", held_by)
        assert named, number
        for name in named:
            there = name.startswith("memsieve ") or (
                (ROOT / name).exists() if "/" in name else f"def {name}(" in tests
            )
            assert there, f"{number}: {name}"


def test_the_map_names_every_topic() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    assert [topic.name for topic in TOPICS if f"`{topic.name}`" not in page] == []


def test_readme_names_the_test_command_that_the_build_runs() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    build = (ROOT / ".ci" / "run").read_text("utf-8")
    for command in ("make demo", "make test"):
        assert re.search(rf"^{command}\b", readme, re.MULTILINE)
        assert re.search(rf"^{command}$", build, re.MULTILINE)


def _until_it_does(
    page: Path, directory: Path, variables: Mapping[str, str], ports: Mapping[str, str]
) -> None:
    """Give each command of a page again until it prints what the page says: services take time.

    One that ends in `&` goes on beside the others. The page's ports are any free ones here.
    """
    models_dir()
    shutil.copytree(ROOT / "examples", directory / "examples")
    text = (ROOT / page).read_text("utf-8")
    for said, used in ports.items():
        text = text.replace(said, used)
    with ExitStack() as stack:
        for command, expected in _commands(text):
            if command.endswith(" &"):
                stack.callback(_end, _start(command.removesuffix(" &"), directory, variables))
                continue
            pattern = re.compile(re.escape(expected).replace("…", ".+"))
            wait_until(
                lambda command=command, pattern=pattern: (
                    pattern.fullmatch(_run(command, directory, variables)) is not None
                ),
                f"$ {command} prints {expected}",
            )


def _commands(page: str) -> Iterator[tuple[str, str]]:
    for block in CONSOLE.findall(page):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield command, output.strip()


def _run(command: str, directory: Path, variables: Mapping[str, str] | None = None) -> str:
    """Run a command as a reader would, with this environment's `memsieve` on the path."""
    given = variables or {}
    if ALONE.fullmatch(command):
        _, *arguments = shlex.split(command)
        environment = {**os.environ, **given}  # noqa: TID251
        printed = commands.printed(*arguments, environment=environment, directory=directory)
    else:
        printed, _ = _start(command, directory, given).communicate()
    return ON_THE_WAY.sub("", printed.strip())


ALONE = re.compile(r"memsieve [^|&;<>$*?`\\]+")
"""A command that needs no shell: its process can be forked from one that has imported memsieve."""


def _start(command: str, directory: Path, variables: Mapping[str, str]) -> subprocess.Popen[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # noqa: TID251
    return subprocess.Popen(
        ["bash", "-c", f"exec {command}" if re.match(r"memsieve .*2>", command) else command],
        cwd=directory,
        env={**os.environ, "PATH": path, **variables},  # noqa: TID251
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.communicate()
