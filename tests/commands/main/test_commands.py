"""The list of all commands, and what is imported to show it."""

import importlib
import json
import pkgutil
import subprocess
import sys

import pytest

import streams
from streams.main.commands import COMMANDS, registered
from tests.commands.conftest import Memsieve

HEAVY = ("asyncio", "numpy", "onnxruntime", "pydantic", "rich", "aiokafka", "qdrant_client")
MODULES = {entry.module for entry in COMMANDS.values()}


def test_every_command_of_a_module_is_in_the_table() -> None:
    """The modules that register commands are those of the table, and register no others."""
    names = [
        module.name.removeprefix("streams.")
        for module in pkgutil.walk_packages(streams.__path__, "streams.")
        if "cli" in module.name.split(".")
    ]
    loaded = {name: importlib.import_module(f"streams.{name}") for name in names}
    assert {name for name, module in loaded.items() if hasattr(module, "register")} == MODULES
    for module in MODULES:
        of_the_table = {name for name, entry in COMMANDS.items() if entry.module == module}
        assert set(registered(module)) == of_the_table


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_says_what_a_command_says_of_itself(name: str) -> None:
    entry = COMMANDS[name]
    assert registered(entry.module)[name].get_short_help_str(limit=1_000) == entry.summary


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_what_all_commands_share_is_told_without_importing_any(option: str) -> None:
    """Seen in a process of its own: this one has imported them all."""
    script = (
        "import atexit, json, sys; atexit.register(lambda: print(json.dumps(sorted(sys.modules))));"
        "from streams.main import main; main()"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, option], check=True, capture_output=True, text=True
    )
    imported = set(json.loads(ran.stdout.splitlines()[-1]))
    assert imported >= {"streams.main.command_line", "streams.main.commands"}
    unwanted = {*HEAVY, *(f"streams.{module}" for module in MODULES), "streams.model.ports"}
    assert imported & unwanted == set()


def test_a_name_that_no_command_has_is_told_the_next_one(memsieve: Memsieve) -> None:
    result = memsieve("memory")
    assert result.code == 2
    assert "Did you mean 'memories'" in result.err
