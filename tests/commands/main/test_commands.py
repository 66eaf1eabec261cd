"""The list of all commands, and what is imported to show it."""

import importlib
import inspect
import json
import pkgutil
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
from typer.core import TyperCommand
from typer.main import get_command
from typer.models import ParameterInfo

import streams
from streams.main import interrupted
from streams.main.command_line import app
from streams.main.commands import COMMANDS, MOVED, SECTIONS
from streams.main.groups import command
from tests.commands.conftest import COMMAND, Memsieve

HEAVY = ("asyncio", "numpy", "onnxruntime", "pydantic", "rich", "aiokafka", "qdrant_client")
MODULES = {entry.module for entry in COMMANDS.values()}
TOP = {name for section in SECTIONS.values() for name in section}


def test_every_command_of_a_module_is_in_the_table() -> None:
    """A public function with options, in a module that parses, is a command."""
    names = [
        module.name.removeprefix("streams.")
        for module in pkgutil.walk_packages(streams.__path__, "streams.")
        if "cli" in module.name.split(".")
    ]
    found = {f"{name}:{function}" for name in names for function in _with_options(name)}
    missing = found - {entry.function for entry in COMMANDS.values()}
    assert not missing, "add them to streams/main/commands.py, or begin their names with _"


def _with_options(name: str) -> list[str]:
    module = importlib.import_module(f"streams.{name}")
    return [
        function
        for function, value in inspect.getmembers(module, inspect.isfunction)
        if value.__module__ == module.__name__
        and not function.startswith("_")
        and any(_is_option(one) for one in inspect.get_annotations(value, eval_str=True).values())
    ]


def _is_option(annotation: Any) -> bool:
    return any(isinstance(one, ParameterInfo) for one in get_args(annotation))


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_what_a_command_says_of_itself(name: str) -> None:
    entry = COMMANDS[name]
    listed = TyperCommand(name, help=entry.help)
    assert listed.get_short_help_str(1_000) == command(name, entry).get_short_help_str(1_000) != ""


WITHOUT_JSON = {name for name in COMMANDS if name.startswith("service ")} - {
    "service topics create",
    "service topics check",
    "service topics acls",
    "service schema export",
    "service settings show",
    "service settings check",
} | {"reviews export"}
"""Services print nothing but log lines; `reviews export` writes lines of JSON as it is."""


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - WITHOUT_JSON))
def test_a_command_prints_json_for_programs(name: str, memsieve: Memsieve) -> None:
    assert "  --json " in memsieve(*name.split(), "--help").out


@pytest.mark.parametrize(
    ("arguments", "error", "code"),
    [
        (["explain"], "Missing argument 'ID'.", 2),
        (["memory", "list", "--limit", "0"], "Invalid value for '--limit': Input should be", 2),
        (["doctor"], "there is no `memsieve doctor`: write `memsieve check`", 2),
        (["memory", "list", "--store", "none"], "none", 3),
        (["decisions", "--kind", "inserts"], "--kind inserts: write insert, merge", 2),
    ],
)
def test_an_error_is_json_as_well(
    arguments: list[str], error: str, code: int, memsieve: Memsieve
) -> None:
    result = memsieve(*arguments, "--json")
    assert (result.code, result.out) == (code, "")
    told = json.loads(result.err)
    assert (told.keys(), told["exit_code"]) == ({"error", "exit_code"}, code)
    assert told["error"].startswith(error)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_ends_with_an_example_that_can_be_parsed(
    name: str, memsieve: Memsieve
) -> None:
    last = memsieve(*name.split(), "--help").out.splitlines()[-1]
    assert last.startswith(f"  Example: memsieve {name}")
    _, *words = shlex.split(last.removeprefix("  Example: "))
    _parse(get_command(app), "memsieve", words)


def _parse(called: Any, name: str, words: list[str], parent: Any = None) -> None:
    """Parse as the program does: raise UsageError where a command or an option is not there."""
    context = called.make_context(name, list(words), parent=parent)
    if hasattr(called, "resolve_command"):
        word, deeper, rest = called.resolve_command(context, words)
        _parse(deeper, word, rest, context)


@pytest.mark.parametrize(
    "arguments",
    [["--version"], ["--help"], ["memory", "--help"], ["service", "topics", "--help"]],
    ids=" ".join,
)
def test_what_all_commands_share_is_told_without_importing_any(arguments: list[str]) -> None:
    """Seen in a process of its own: this one has imported them all."""
    script = (
        "import atexit, json, sys; atexit.register(lambda: print(json.dumps(sorted(sys.modules))));"
        "from streams.main import main; main()"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, *arguments], check=True, capture_output=True, text=True
    )
    imported = set(json.loads(ran.stdout.splitlines()[-1]))
    assert imported >= {"streams.main.command_line", "streams.main.commands"}
    unwanted = {*HEAVY, *(f"streams.{module}" for module in MODULES), "streams.model.ports"}
    if len(arguments) > 1:
        unwanted.remove("pydantic")  # typer's own way to read --debug, once a name follows
    assert imported & unwanted == set()


def test_a_name_that_no_command_has_is_told_the_next_one(memsieve: Memsieve) -> None:
    for typed, meant in ((["memry"], "memory"), (["service", "topcs"], "topics")):
        result = memsieve(*typed)
        assert result.code == 2
        assert f"Did you mean '{meant}'" in result.err


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("recall", "memsieve search --block"),
        ("conflicts", "memsieve memory list --conflicts"),
        ("forget", "memsieve forget"),
    ],
)
def test_a_command_of_another_group_is_named(name: str, meant: str, memsieve: Memsieve) -> None:
    result = memsieve("memory", name)
    assert result.code == 2
    assert result.err == f"memsieve: there is no `memsieve memory {name}`: write `{meant}`\n"


def test_an_option_before_the_command_is_told_its_place(memsieve: Memsieve) -> None:
    result = memsieve("--json", "memory", "list")
    assert result.code == 2
    assert "--json stands after the command: memsieve COMMAND --json" in result.err
    assert "memsieve memory COMMAND --store" in memsieve("memory", "--store", "a", "list").err


@pytest.mark.parametrize(
    ("called", "meant"),
    [
        (("delete",), "memsieve forget"),
        (("list",), "memsieve memory list"),
        (("memory", "show"), "memsieve explain"),
    ],
)
def test_what_other_programs_call_a_command_is_told_its_name_here(
    called: tuple[str, ...], meant: str, memsieve: Memsieve
) -> None:
    result = memsieve(*called)
    there = f"memsieve: there is no `memsieve {' '.join(called)}`: write `{meant}`\n"
    assert (result.code, result.err) == (2, there)
    assert "No such command" in memsieve("policy", "delete").err


@pytest.mark.parametrize("given", [("--preset", "balanced"), ("--preset=careful",)])
def test_an_option_of_another_name_is_told_where_the_command_has_it(
    given: tuple[str, ...], memsieve: Memsieve
) -> None:
    told = "there is no option --preset: write --policy careful, default or thorough"
    result = memsieve("run", "facts.jsonl", *given)
    assert (result.code, result.err) == (2, f"memsieve: {told}\n")
    assert "No such option: --preset" in memsieve("dead-letters", "list", *given).err


@pytest.mark.parametrize("name", MOVED)
def test_an_earlier_name_is_told_its_new_one_and_does_nothing(
    name: str, memsieve: Memsieve
) -> None:
    result = memsieve(name, "--help")
    assert (result.code, result.out) == (2, "")
    assert result.err == f"memsieve: there is no `memsieve {name}`: write `{MOVED[name]}`\n"
    assert name not in TOP
    program, *words = MOVED[name].split()
    if program == "memsieve":
        assert memsieve(*words, "--help").code == 0


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        ("run none.jsonl", "--metrics"),
        ("try none.jsonl", "--save-answers"),
        ("dedupe none.jsonl", "--out"),
        ("search tea --scope ana", "--hints"),
        ("policy evaluate none.jsonl", "--rows"),
        ("policy evaluate none.jsonl", "--html"),
        ("policy calibrate none.jsonl", "--out"),
        ("consolidate", "--report"),
        ("reviews export", "--out"),
        ("extract none.jsonl", "--rejects"),
        ("memories-md import none.md", "--out"),
    ],
)
@pytest.mark.parametrize(
    ("path", "problem"), [("no/such", "there is no directory no"), (".", "it is a directory")]
)
def test_a_file_that_cannot_be_written_is_refused_before_the_work(
    arguments: str, option: str, path: str, problem: str, memsieve: Memsieve
) -> None:
    result = memsieve(*arguments.split(), option, path)
    assert result.code == 2
    assert result.err == f"memsieve: {option} {path}: {problem}; name another file\n"


@pytest.mark.parametrize(
    ("called", "continues"),
    [
        ("run facts.jsonl --store store", True),
        ("--debug run facts.jsonl", True),
        ("store replay redecide", True),
        ("run - --store store", False),
        ("try facts.jsonl", False),
        ("store analyze", False),
    ],
)
def test_only_what_continues_is_said_to(called: str, *, continues: bool) -> None:
    assert ("again to continue" in interrupted(called.split())) is continues


FULL = "standard output cannot be written: No space left on device"


@pytest.mark.parametrize(
    ("as_json", "told"),
    [
        ((), f"memsieve: {FULL}\n"),
        (("--json",), f'{{"error": "{FULL}", "exit_code": 6}}\n'),
    ],
    ids=["text", "json"],
)
def test_output_that_cannot_be_written_is_told_in_a_line(
    as_json: tuple[str, ...], told: str
) -> None:
    with Path("/dev/full").open("wb") as full:
        result = subprocess.run(
            [*COMMAND, "policy", "list", *as_json],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (result.returncode, result.stderr) == (6, told)
