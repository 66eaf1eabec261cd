"""The wheel in an environment of its own, away from the checkout: `import memsieve` works there."""

import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.support import snippets
from tests.support.models import models_dir

ROOT = Path(__file__).parents[2]
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

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the interpreter of an empty environment with the wheel in it.

    What memsieve depends on is taken from this environment, so that nothing is fetched.
    """
    here = tmp_path_factory.mktemp("installed")
    _done([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(here)], ROOT)
    [wheel] = here.glob("*.whl")
    _done([sys.executable, "-m", "venv", "--without-pip", "env"], here)
    own = str(here / "env" / "bin" / "python")
    install = ["install", "--no-deps", "--no-index", "--quiet", str(wheel)]
    _done([sys.executable, "-m", "pip", "--python", own, *install], here)
    [packages] = (here / "env" / "lib").glob("python*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib"), "utf-8")
    return own


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


@pytest.mark.parametrize("name", ["schemas", "streams"])
def test_a_module_that_hides_one_of_ours_is_named(python: str, tmp_path: Path, name: str) -> None:
    own = tmp_path / f"{name}.py"
    own.write_text("mine = True\n", "utf-8")
    printed = snippets.run(python, "import memsieve", tmp_path, installed=True)
    assert printed.splitlines()[-1] == (
        f"ImportError: {own} hides the package {name} of memsieve: rename it, or start Python "
        "elsewhere"
    )


def test_a_program_that_closes_nothing_ends_quietly_and_loses_nothing(
    python: str, tmp_path: Path
) -> None:
    forked = "the Memory was made before this process was forked: make one in here"
    assert snippets.run(python, LEFT_OPEN, tmp_path, installed=True) == f"{forked}\n1"
    again = snippets.run(python, LEFT_OPEN, tmp_path, installed=True)
    assert again == f"{forked}\n1"  # known by now


def _done(command: list[str], directory: Path) -> None:
    process = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr
