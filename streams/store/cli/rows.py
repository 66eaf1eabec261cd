"""The options of commands that read files of rows, and the settings that result from them."""

import re
import shlex
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Annotated

import typer

from streams.model.ports.failures import Fatal, Poison
from streams.stage.core.mapping import FieldMapping, listed, scope_of_turns, scope_template
from streams.store.cli.console import note
from streams.store.cli.options import UsageError, exact
from streams.store.core.columns import (
    GuessedColumns,
    NamedColumns,
    Row,
    alike,
    are_events,
    columns_in,
    guessed,
    mapping_of,
    may_be_values,
    nested_in,
)
from streams.store.core.exports import ExportFormat, format_of
from streams.store.core.shapes import UTF_8, WESTERN, Layout
from streams.store.world.files import FileSource

Files = Annotated[
    list[str],
    typer.Argument(
        help="JSON Lines, JSON, CSV or a list, gzipped or not, or Parquet; - is standard input."
    ),
]
TextField = Annotated[
    str | None, typer.Option("--text-field", help="The column with the text. [text, else detected]")
]
ScopeField = Annotated[
    str | None,
    typer.Option(
        "--scope-field",
        help=(
            "The column with the scope, or a template: 'team/{project}/{user}'. "
            "[scope, else detected]"
        ),
    ),
]
IdField = Annotated[
    str | None,
    typer.Option(
        "--id-field",
        help=(
            "The column with the event's id. "
            "[event_id, else detected, else made from file, line and content]"
        ),
    ),
]
TimeField = Annotated[
    str | None,
    typer.Option(
        "--time-field", help="The column with the time. [occurred_at, else detected, else now]"
    ),
]
OneScope = Annotated[str | None, typer.Option("--scope", help="One scope for all rows.")]
TurnsScope = Annotated[
    str | None,
    typer.Option(
        "--scope",
        help="The scope of turns without one; {location} becomes the location's number.",
    ),
]
FileFormat = Annotated[
    str | None, typer.Option("--format", help="jsonl, json, csv or list. [by name and content]")
]


@dataclass(frozen=True, kw_only=True)
class RowOptions:
    """The options that say how files of rows are read. Each field is an option; see main/groups.py."""

    text_field: TextField = None
    scope_field: ScopeField = None
    id_field: IdField = None
    time_field: TimeField = None
    format_: FileFormat = None

    def named(self, scope: str | None) -> NamedColumns:
        """Return what the options say about columns; `scope` is that of all rows."""
        if self.scope_field is not None and scope is not None:
            raise UsageError(
                "--scope is for all rows, --scope-field names a column: give one of them"
            )
        try:
            template = None if self.scope_field is None else scope_template(self.scope_field)
            FieldMapping(scope=template or FieldMapping.scope)
        except ValueError as error:
            raise UsageError(f"--scope-field: {error}") from error
        path = template if scope is None else _one_scope(scope)
        return NamedColumns(self.text_field, path, self.id_field, self.time_field)

    def opened(self, files: Sequence[str], scope: str | None) -> "list[Rows]":
        """Look into every file before anything is done with the first; say what was guessed.

        Raises UsageError where a column that is named is not there, or the text cannot be told.
        """
        named = self.named(scope)
        exports = named.text is named.id is named.time is None
        return [
            _read_as(one, named, "" if self.format_ else _otherwise(one.name))
            for one in sources(files, self.format_, exports=exports)
        ]


def _otherwise(name: str) -> str:
    """Return what else may help with a file in which no row can be read."""
    if name.endswith(".md"):
        return f"; or write a list, or try: memsieve memories-md import {shlex.quote(name)}"
    return "; or give --format csv if it is a table"


def _one_scope(name: str) -> str:
    if set(name) & set("{}"):
        raise UsageError(f"--scope {name}: write --scope-field for a scope made of columns")
    return exact(name)


def turns_scope(template: str | None) -> str | None:
    """Check the scope of turns that name none."""
    try:
        return None if template is None else scope_of_turns(template)
    except ValueError as error:
        raise UsageError(f"--scope {template}: {error}") from error


def sources(
    files: Sequence[str], format_: str | None = None, *, exports: bool = False
) -> list[FileSource]:
    """Look into every file before anything is done with the first."""
    layout = _layout(format_)
    try:
        return [FileSource(path, layout, exports=exports) for path in files]
    except Fatal as error:
        raise UsageError(str(error)) from error


@dataclass(frozen=True)
class Rows:
    """A file, and which of its columns hold what; None where its rows are called as ours are."""

    source: FileSource
    mapping: FieldMapping | None


def turns(files: Sequence[str]) -> list[Rows]:
    """Look into every file of turns: they have no columns of their own."""
    return [Rows(source, None) for source in sources(files, "jsonl")]


def foreign(source: FileSource, named: NamedColumns, scope: str) -> GuessedColumns:
    """Return the columns of a file whose rows stay as they are; say what was guessed.

    `scope` is that of rows without one. Raises UsageError as `opened` does, but an export that is
    known may have rows of no scope.
    """
    rows = _sampled(source)
    if not rows or _are_ours(rows, named):
        return GuessedColumns()
    _require_columns(source, rows, named)
    guess = guessed(rows, named)
    if format_of(rows) is None:
        _require_text_and_scope(source, rows, named, guess)
    taken = _taken(guess, named, mapping_of(guess, named, scope, kinds=False))
    _tell(source, taken, _dated(guess, named))
    return guess


def _read_as(source: FileSource, named: NamedColumns, remedy: str) -> Rows:
    rows = _sampled(source, remedy)
    guess, scope = GuessedColumns(), FieldMapping.scope
    if rows and not _are_ours(rows, named):
        _require_columns(source, rows, named)
        guess = guessed(rows, named)
        _require_text_and_scope(source, rows, named, guess)
        scope = _scope_of_file(source.name)
    kinds = any("kind" in row for row in rows) and not are_events(rows)
    mapping = mapping_of(guess, named, scope, kinds=kinds)
    source.reading = repr(mapping) + ("" if source.export is None else source.export.name)
    _tell(
        source,
        _taken(guess, named, mapping),
        _dated(guess, named),
        *_made_up(guess, named, mapping),
    )
    return Rows(source, mapping)


def _are_ours(rows: Sequence[Row], named: NamedColumns) -> bool:
    """Return whether rows are events in our own format, and no option says otherwise."""
    return named == NamedColumns() and are_events(rows)


def _sampled(source: FileSource, remedy: str = "") -> list[Row]:
    """Return the rows of a file's beginning. Raises UsageError where none can be read.

    `remedy` is what else may help where a file is taken for JSON Lines.
    """
    try:
        lines = source.sample()
    except Fatal as error:
        raise UsageError(str(error)) from error
    rows = [line.row for line in lines if not isinstance(line.row, Poison)]
    if lines and not rows:
        raise UsageError(
            f"{source.place}: no row can be read, such as line {lines[0].number}: {lines[0].row}"
            + (remedy if source.shape.layout == "jsonl" else "")
        )
    return rows


def _require_columns(source: FileSource, rows: Sequence[Row], named: NamedColumns) -> None:
    """Raise UsageError where a column that an option names is in no row, or holds objects."""
    there, nested = columns_in(rows), nested_in(rows)
    for part, column in named.columns():
        parent = column if column in there else column.partition(".")[0]
        if parent in nested:
            raise UsageError(f"{source.place}: {_flatten([parent])}")
        if column not in there:
            offered = _offered(source.export, rows, named, (part, column))
            raise UsageError(f"{source.place} has no column {column}: {offered}")


def _offered(
    export: ExportFormat | None, rows: Sequence[Row], named: NamedColumns, wanted: tuple[str, str]
) -> str:
    """Say which column may be meant, and which there are; of an export, those for a scope."""
    part, column = wanted
    nested = nested_in(rows)
    own = [one for one in columns_in(rows) if one not in nested]
    if export is None:
        meant = alike(column, own) or _instead(rows, named, part)
        choice = f"The columns are {listed(own)}"
    else:
        own = [one for one in own if one in export.for_a_scope]
        meant = alike(column, own)
        choice = f"It is an export of {export.name}; a scope can be made of {listed(own)}"
    asked = f"did you mean {_option(part, column, meant, named)}? " if meant else ""
    return asked + choice


def _instead(rows: Sequence[Row], named: NamedColumns, part: str) -> str | None:
    """Return the column that would be taken if nobody had named one."""
    found: str | None = getattr(guessed(rows, replace(named, **{part: None})), part)
    return found


def _option(part: str, column: str, meant: str, named: NamedColumns) -> str:
    """Return the option as it may have been meant."""
    template = f"{{{column}}}"
    value = meant
    if part == "scope" and named.scope is not None and named.scope != template:
        value = named.scope.replace(template, f"{{{meant}}}")
    return f"--{part}-field {shlex.quote(value)}"


def _require_text_and_scope(
    source: FileSource, rows: Sequence[Row], named: NamedColumns, guess: GuessedColumns
) -> None:
    names, nested = columns_in(rows), nested_in(rows)
    columns = listed(names)
    if named.text is None and guess.text is None:
        more = f"; {_flatten(nested)}" if nested else ""
        if source.shape.layout == "csv" and may_be_values(names):
            more = "; the first row is read as their names: add a header if the file has none"
        raise UsageError(
            f"{source.place}: the column with the text is unclear; name it with "
            f"--text-field COLUMN; the columns are {columns}{more}"
        )
    if guess.perhaps_scope:
        raise UsageError(
            f"{source.place}: the scope of the rows is unclear; name a column with "
            f"--scope-field COLUMN (perhaps {' or '.join(guess.perhaps_scope)}), or give "
            f"--scope NAME for all rows; the columns are {columns}"
        )


def _flatten(nested: Sequence[str]) -> str:
    """Return what to do about columns that hold objects."""
    holds = "holds" if len(nested) == 1 else "hold"
    return (
        f"{listed(nested)} {holds} objects, which are not looked into: write each as a row, or move "
        "their values up"
    )


def _scope_of_file(name: str) -> str:
    """Return the scope of a file whose columns name none: its name, without what ends it."""
    stem = unicodedata.normalize("NFC", PurePath(name).stem)
    return re.sub(r"[^\w-]+", "-", stem).strip("-") or "rows"


_ENCODINGS = {WESTERN: "Windows-1252 (Latin-1)"}
_DOCUMENTS = {"json": "a JSON document", "list": "a list"}
_DELIMITERS = {"\t": "tabs", ";": "semicolons", "|": "bars"}


def _tell(source: FileSource, taken: str, *more: str) -> None:
    """Say in one line what was not said, and cannot be seen at once."""
    if told := "; ".join(filter(None, (taken, _read(source), *more))):
        note(f"{source.place}: {told}")


def _taken(guess: GuessedColumns, named: NamedColumns, mapping: FieldMapping | None) -> str:
    if mapping is None:
        return ""
    usual = {"text": "text", "scope": "scope", "id": "event_id", "time": "occurred_at"}
    taken = [
        f"{column} as {part}"
        for part, name in usual.items()
        if (column := getattr(guess, part)) not in (None, name)
    ]
    if named.scope is None and "{" not in mapping.scope:
        taken.append(f"all rows as scope {mapping.scope}")
    return f"took {', '.join(taken)}" if taken else ""


def _read(source: FileSource) -> str:
    shape = source.shape
    how = [] if source.export is None else [f"an export of {source.export.name}"]
    if shape.layout in _DOCUMENTS and not how:
        how.append(_DOCUMENTS[shape.layout])
    if shape.encoding != UTF_8:
        how.append(_ENCODINGS.get(shape.encoding, shape.encoding.upper()))
    if shape.delimiter != ",":
        how.append(f"columns separated by {_DELIMITERS.get(shape.delimiter, shape.delimiter)}")
    return f"read as {', '.join(how)}" if how else ""


def _dated(guess: GuessedColumns, named: NamedColumns) -> str:
    """Say how dates are read, and of which rows they cannot be."""
    column, held = named.time or guess.time, f"{guess.timed} of the first {guess.sampled} rows"
    said = list[str]()
    if guess.day_first is not None:
        said.append(f"dates are read with the {'day' if guess.day_first else 'month'} first")
    if guess.no_time is not None:
        only = (
            f"a time in only {held}"
            if guess.timed
            else "no times with one meaning, such as 2026-02-01"
        )
        said.append(f"{guess.no_time} holds {only}, so no row is dated by it")
        if guess.timed:
            said.append(f"with --time-field {shlex.quote(guess.no_time)} the others cannot be used")
    elif column is not None and guess.timed < guess.sampled:
        said.append(f"{column} holds a time in {held}, the others cannot be used")
    return "; ".join(said)


def _made_up(
    guess: GuessedColumns, named: NamedColumns, mapping: FieldMapping | None
) -> Iterator[str]:
    """Say what rows are given for want of a column, and which column may have it.

    Of ids only where columns are talked about anyway: few rows that are called as ours have them.
    """
    if guess.sampled and (named.time or guess.time) is None:
        perhaps = _perhaps(guess.perhaps_time, "times", "--time-field")
        yield f"{'' if guess.no_time else 'no time column: '}rows are dated now{perhaps}"
    if guess.sampled and (named.id or guess.id) is None and (mapping or guess.perhaps_id):
        perhaps = _perhaps(guess.perhaps_id, "ids", "--id-field")
        yield f"no id column: ids are made from file, line and content{perhaps}"


def _perhaps(columns: Sequence[str], what: str, option: str) -> str:
    shown = columns[:_PERHAPS_MAX]
    looks = "looks" if len(shown) == 1 else "look"
    taken = " or ".join(f"{option} {shlex.quote(one)}" for one in shown)
    return f" ({', '.join(shown)} {looks} like {what}: {taken})" if shown else ""


_PERHAPS_MAX = 3


def _layout(name: str | None) -> Layout | None:
    match name:
        case None | "jsonl" | "json" | "csv" | "list":
            return name
        case _:
            raise UsageError(f"--format {name}: write jsonl, json, csv or list")
