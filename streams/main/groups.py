"""Groups of commands; a command is imported when it is called, not when it is listed."""

from collections import UserDict
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import wraps
from importlib import import_module
from inspect import Parameter, Signature, signature
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException
from typer.main import get_group

from streams.main.commands import (
    COMMANDS,
    MEANT,
    MOVED,
    OPTIONS_MEANT,
    SECTIONS,
    CommandEntry,
    CommandGroup,
    Table,
)

_OF_MEMORIES = {"memsieve", "memsieve memory"}
_OF_COMMANDS = {"--config", "--json", "--store"}


def _at_the_top(name: str) -> str | None:
    """Return the command outside all groups that has a name; None if there is none."""
    return f"memsieve {name}" if name in COMMANDS else None


class LazyGroup(TyperGroup):
    """The commands of tables, each table below its title; `path` is how the group is called."""

    def __init__(self, path: str, tables: Mapping[str, Table], **given: Any) -> None:  # noqa: ANN401 - what typer gives any group
        super().__init__(**given)
        self._path = path
        self._tables = tables
        every = {name: entry for table in tables.values() for name, entry in table.items()}
        self.commands = _Loaded(path, every)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer's own
        """Read the group's options. Raises TyperException for one that only its commands have."""
        if args and args[0] in _OF_COMMANDS:
            raise TyperException(
                f"{args[0]} stands after the command: {self._path} COMMAND {args[0]}"
            )
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:  # noqa: ANN401 - typer's own
        """Find the command that is called. Raises TyperException that names what stands for it."""
        if args[0] not in self.commands and (meant := self._meant(args[0])):
            raise TyperException(f"there is no `{self._path} {args[0]}`: write `{meant}`")
        return super().resolve_command(ctx, args)

    def _meant(self, name: str) -> str | None:
        """Return the command that stands for a name that is not there; None if none does."""
        of_others = MEANT.get(name) if self._path in _OF_MEMORIES else None
        return MOVED.get(name) or _at_the_top(name) or of_others

    def list_commands(self, ctx: object) -> list[str]:
        """Return the names; the inherited way looks at the commands as well."""
        del ctx
        return list(self.commands)

    def format_commands(self, ctx: object, formatter: Any) -> None:  # noqa: ANN401 - typer's own
        """Write the tables."""
        del ctx
        width = formatter.width - 6 - max(map(len, self.commands))  # as the inherited way does
        for title, table in self._tables.items():
            with formatter.section(title):
                formatter.write_dl(
                    [
                        (name, TyperCommand(name, help=entry.help).get_short_help_str(width))
                        for name, entry in table.items()
                    ]
                )


class Commands(LazyGroup):
    """All commands."""

    def __init__(self, **given: Any) -> None:  # noqa: ANN401 - what typer gives any group
        super().__init__("memsieve", SECTIONS, **given)


class _Command(TyperCommand):
    """A command that knows what else its options are called."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - typer's own
        """Read the options. Raises TyperException that names what stands for an unknown one."""
        own = {name for parameter in self.params for name in parameter.opts}
        for name in (arg.partition("=")[0] for arg in args):
            meant = OPTIONS_MEANT.get(name)
            if meant is not None and meant.partition(" ")[0] in own:
                raise TyperException(f"there is no option {name}: write {meant}")
        return super().parse_args(ctx, args)


class _Loaded(UserDict[str, Any]):
    """Commands by name, each made of its entry the first time it is asked for."""

    def __init__(self, path: str, entries: Table) -> None:
        super().__init__(entries)
        self._path = path

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - typer's own kinds of commands
        found, path = self.data[name], f"{self._path} {name}"
        if isinstance(found, CommandEntry):
            self.data[name] = command(path, found)
        elif isinstance(found, CommandGroup):
            self.data[name] = LazyGroup(
                path,
                {"Commands": found.commands},
                name=name,
                help=found.help,
                no_args_is_help=True,
                rich_markup_mode=None,
            )
        return self.data[name]


def command(path: str, entry: CommandEntry) -> Any:  # noqa: ANN401 - typer's own kind of command
    """Import a command; its help ends with the example."""
    function, name = entry.function.rpartition(":")[2], path.rpartition(" ")[2]
    app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    example = f"Example: {path} {entry.example}".rstrip()
    called = getattr(import_module(f"streams.{entry.module}"), function)
    app.command(name, cls=_Command, epilog=example)(_spread(called))
    return get_group(app).commands[name]


def _spread(called: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose parameters that are dataclasses are given field by field."""
    bundles: dict[str, Any] = {}
    parameters: list[Parameter] = []
    for one in signature(called).parameters.values():
        if is_dataclass(one.annotation):
            bundles[one.name] = one.annotation
            parameters += signature(bundles[one.name]).parameters.values()
        else:
            parameters.append(one)

    @wraps(called)
    def command_(**given: Any) -> None:  # noqa: ANN401 - typer's values
        for name, kind in bundles.items():
            given[name] = kind(**{one.name: given.pop(one.name) for one in fields(kind)})
        called(**given)

    vars(command_)["__signature__"] = Signature(parameters)
    return command_
