"""The options of commands that read files of rows, and what they come to."""

from collections.abc import Sequence
from typing import Annotated

import typer

from streams.adapters.files import FileSource, Format
from streams.cli.options import UsageError
from streams.core.mapping import FieldMapping, scope_template
from streams.flow.turn_rows import scope_of_turns
from streams.ports import Fatal

Files = Annotated[
    list[str], typer.Argument(help="JSON Lines or CSV, gzipped or not; - is standard input.")
]
TextField = Annotated[
    str | None, typer.Option("--text-field", help="The column with the text. [text]")
]
ScopeField = Annotated[
    str | None,
    typer.Option(
        "--scope-field",
        help="The column with the scope, or a template: 'team/{project}/{user}'. [scope]",
    ),
]
IdField = Annotated[
    str | None,
    typer.Option(
        "--id-field",
        help="The column with the event's id. [event_id, else made from file, line and content]",
    ),
]
TimeField = Annotated[
    str | None,
    typer.Option("--time-field", help="The column with the time. [occurred_at, else now]"),
]
TurnsScope = Annotated[
    str | None,
    typer.Option(
        "--scope",
        help="The scope of turns that name none; {location} becomes the place's number.",
    ),
]
FileFormat = Annotated[
    str | None, typer.Option("--format", help="jsonl or csv. [by the file's name]")
]


def mapping(
    text: str | None, scope: str | None, id_: str | None, time_: str | None
) -> FieldMapping | None:
    """Return the mapping that the options ask for; None where none was given."""
    if text is scope is id_ is time_ is None:
        return None
    defaults = FieldMapping()
    try:
        return FieldMapping(
            text=text or defaults.text,
            scope=defaults.scope if scope is None else scope_template(scope),
            id=id_,
            time=time_,
        )
    except ValueError as error:
        raise UsageError(f"--scope-field: {error}") from error


def turns_scope(template: str | None) -> str | None:
    """Check the scope of turns that name none."""
    try:
        return None if template is None else scope_of_turns(template)
    except ValueError as error:
        raise UsageError(f"--scope {template}: {error}") from error


def sources(
    files: Sequence[str], format_: str | None, mapped: FieldMapping | None
) -> list[FileSource]:
    """Open every file once before anything is done with the first."""
    chosen = _format(format_)
    try:
        return [FileSource(path, chosen, reading=repr(mapped)) for path in files]
    except Fatal as error:
        raise UsageError(str(error)) from error


def _format(name: str | None) -> Format | None:
    if name not in {None, "jsonl", "csv"}:
        raise UsageError(f"--format {name}: write jsonl or csv")
    return "csv" if name == "csv" else "jsonl" if name == "jsonl" else None
