"""`memsieve dedupe`: removes duplicates from a Memories.md or a copy of another store."""

import asyncio
import csv
import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from pydantic import ValidationError

from streams.consolidate.core.redundancy import ALERT
from streams.dedupe_store.app import deduping, opening
from streams.dedupe_store.app.deduping import DedupeResult
from streams.dedupe_store.app.opening import is_server
from streams.dedupe_store.core import MERGED_FROM, SCOPE, ColumnAssignment
from streams.memories_md.cli.clean import clean, take_back
from streams.model.embedding import Vector
from streams.model.policy import Policy
from streams.model.ports.failures import Fatal, Poison
from streams.stage.core.mapping import listed
from streams.store.app import policies
from streams.store.app.dry_run import means
from streams.store.app.settings import Settings
from streams.store.cli import options, rows
from streams.store.cli.console import note, quoted, say, say_object
from streams.store.cli.options import UsageError
from streams.store.cli.progress import Meter
from streams.store.core.columns import GuessedColumns, NamedColumns
from streams.store.core.counts import number

_WIDTH = 120
"""Characters of a text that are shown; `--json` has all of them."""
_OTHER_FORMATS = frozenset([".json", ".parquet", ".gz"])
"""Suffixes of formats that can be read, and in which a copy is not written."""
_SEPARATORS = {".csv": ",", ".tsv": "\t"}
"""The separator of columns in a copy that is a table, by suffix."""
_NAMES = " | "
"""Separates the names of rows in a cell."""


def dedupe(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help=(
                "A Memories.md (*.md); JSON Lines or CSV; an export of mem0, redis "
                "agent-memory-server or Chroma; a Qdrant server's URL, or a directory of Qdrant's "
                "Python client."
            ),
        ),
    ],
    *,
    out: Annotated[
        Path | None,
        options.output(
            "--out",
            "Write a copy without duplicates: JSON Lines, or a table if it ends in .csv or .tsv.",
        ),
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="For a Memories.md: write the file itself.")
    ] = False,
    undo: Annotated[
        bool,
        typer.Option("--undo", help="For a Memories.md: restore it to its state before --apply."),
    ] = False,
    from_collection: Annotated[
        str | None,
        typer.Option("--from-collection", help="The Qdrant collection. [the only one]"),
    ] = None,
    collection: Annotated[
        str | None,
        typer.Option(
            "--collection", help="For a Qdrant server: write the copy into this new collection."
        ),
    ] = None,
    upper: Annotated[
        float | None,
        typer.Option(
            "--upper", "--threshold", min=0, max=1, help="Where `match` begins. [the policy's]"
        ),
    ] = None,
    lower: Annotated[
        float | None,
        typer.Option("--lower", min=0, max=1, help="Where `review` begins. [the policy's]"),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only report, whatever the other options.")
    ] = False,
    text_field: rows.TextField = None,
    scope_field: rows.ScopeField = None,
    time_field: rows.TimeField = None,
    scope: rows.OneScope = None,
    policy: options.Policy = None,
    model: options.Model = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Find repeats in a Memories.md, or in another program's data.

    Nothing is written without --apply, --out or --collection. --upper and --lower move the bands of
    the policy, which still decides what to do; under `default`, similarity alone joins nothing.

    In a Memories.md, a repeat is marked as superseded by the entry that stays and keeps its text;
    counts and turns are added up. Broken marks are removed: an entry superseded by itself, in a
    circle or by a missing entry becomes active again. --apply also writes FILE.backup-1 and
    FILE.undo.json.

    Another program's data is only read. Columns are detected as for `run`, and all are copied. A
    text made of several rows names them in `merged_from`. Rows that cannot be used are copied
    unchanged. Vectors are computed again, with --model.
    """
    of_file = {"--apply": apply, "--undo": undo}
    of_rows = {
        "--from-collection": from_collection,
        "--collection": collection,
        "--text-field": text_field,
        "--scope-field": scope_field,
        "--scope": scope,
        "--time-field": time_field,
    }
    if _is_memories_md(source):
        options.refuse(of_rows, "is not for a Memories.md")
        if sum((apply, out is not None, undo)) > 1:
            raise UsageError("give only one of --apply, --out and --undo")
        if undo and dry_run:
            raise UsageError("--dry-run only reports, --undo writes: give one of them")
        if undo:
            take_back(Path(source), as_json=as_json)
            return
        settings = options.load(config, policy=policy, embedder__model=model)
        clean(
            Path(source),
            _policy(settings, upper, lower),
            settings,
            apply=apply and not dry_run,
            out=None if dry_run else out,
            as_json=as_json,
        )
        return
    options.refuse(
        of_file, "is for a Memories.md, a file that ends in .md: write a copy with --out FILE"
    )
    if out is not None and collection is not None:
        raise UsageError("--out and --collection are two places: give one of them")
    if out is not None and out.exists():
        raise UsageError(f"--out {out} already exists: name another file")
    if out is not None and out.suffix.lower() in _OTHER_FORMATS:
        raise UsageError(
            f"--out {out}: a copy is JSON Lines, CSV or TSV; name it {out.with_suffix('.jsonl')}"
        )
    if collection is not None and not is_server(source):
        raise UsageError("--collection is for the server of a URL: write the copy with --out FILE")
    if from_collection is not None and _is_file(source):
        raise UsageError("--from-collection is for Qdrant: a server's URL, or a directory")
    settings = options.load(config, policy=policy, embedder__model=model)
    chosen = _policy(settings, upper, lower)
    columns = rows.RowOptions(text_field=text_field, scope_field=scope_field, time_field=time_field)
    named = columns.named(scope)
    done = asyncio.run(
        _dedupe(
            source, from_collection, out, None if dry_run else collection, named, chosen, settings
        )
    )
    _require_usable(done)
    written = None if dry_run else _write(out, done) or collection
    told = {**done.as_json(), "written": written}
    if as_json:
        say_object(told)
    else:
        _show(told)
        _tell_shared_ids(done)


def _is_memories_md(source: str) -> bool:
    return not is_server(source) and Path(source).suffix.lower() == ".md"


def _policy(settings: Settings, upper: float | None, lower: float | None) -> Policy:
    policy = policies.configured(settings)
    try:
        return deduping.between(policy, upper=upper, lower=lower)
    except ValidationError as error:
        raise UsageError(
            "--upper and --lower: " + error.errors()[0]["msg"].removeprefix("Value error, ")
        ) from error


async def _dedupe(
    source: str,
    from_collection: str | None,
    out: Path | None,
    collection: str | None,
    named: NamedColumns,
    policy: Policy,
    settings: Settings,
) -> DedupeResult:
    if _is_file(source):
        found, columns = _of_file(source, named)
        _require_cells(out, found)
        return await _made(found, columns, policy, settings, source)
    async with opening.foreign_collections(settings, source) as there:
        name = await there.named(from_collection)
        found, columns = await there.rows(name), ColumnAssignment(named, GuessedColumns())
        _require_cells(out, found)
        done = await _made(found, columns, policy, settings, f"{source} {name}")
        if collection is not None:
            await there.write(collection, _with_vectors(done))
        return done


def _tell_shared_ids(done: DedupeResult) -> None:
    """Tell of ids that several rows of the copy have: rows are compared by what they say."""
    names = Counter(row.name for row, _, _ in done.copies())
    again = [name for name, count in names.items() if count > 1]
    if again:
        note(
            f"several rows that stay have the id {listed(again)}: they say different things",
            style="yellow",
        )


def _is_file(source: str) -> bool:
    return not (is_server(source) or Path(source).is_dir())


def _with_vectors(done: DedupeResult) -> list[tuple[dict[str, Any], Vector]]:
    """Return the rows of the copy. Raises UsageError where one has no vector."""
    copies = done.copies()
    found = [(content, vector) for _, content, vector in copies if vector is not None]
    if len(found) < len(copies):
        raise UsageError(
            f"{len(copies) - len(found):,} points cannot be read, such as {done.refused[0].name}: "
            f"{done.refused[0].said}; name their columns, or write --out FILE, which keeps them as "
            "they are"
        )
    return found


async def _made(
    found: Sequence[Mapping[str, Any]],
    columns: ColumnAssignment,
    policy: Policy,
    settings: Settings,
    place: str,
) -> DedupeResult:
    async with means(settings, note) as given:
        with Meter("rows") as meter:
            return await deduping.dedupe(
                found,
                columns,
                policy,
                given,
                place=place,
                done=lambda count: meter.advance(count, len(found)),
            )


def _of_file(source: str, named: NamedColumns) -> tuple[list[Mapping[str, Any]], ColumnAssignment]:
    """Read an export, or lines, and guess their columns. Raises UsageError where a line is no row."""
    [lines] = rows.sources([source])
    columns = ColumnAssignment(named, rows.foreign(lines, named, SCOPE))
    try:
        found: list[Mapping[str, Any]] = []
        for line in lines.lines(None):
            if isinstance(line.row, Poison):
                raise UsageError(f"{source}:{line.number}: {line.row}")
            found.append(line.row)
    except Fatal as error:
        raise UsageError(str(error)) from error
    return found, columns


def _require_usable(done: DedupeResult) -> None:
    """Raise UsageError if no row of a source that has some could be used."""
    if done.refused and not done.groups:
        first = done.refused[0]
        raise UsageError(f"{done.place}: no row can be used, such as {first.name}: {first.said}")


def _write(out: Path | None, done: DedupeResult) -> str | None:
    if out is None:
        return None
    contents = [content for _, content, _ in done.copies()]
    separator = _SEPARATORS.get(out.suffix.lower())
    if separator is None:
        lines = (json.dumps(content, ensure_ascii=False) + "\n" for content in contents)
        written = "".join(lines)
    else:
        written = _table(contents, separator)
    options.write("--out", out, written)
    return str(out)


def _table(contents: Sequence[Mapping[str, Any]], separator: str) -> str:
    """Return rows as a table with the columns of all, in the order in which they appear."""
    table = io.StringIO()
    columns = list(dict.fromkeys(name for content in contents for name in content))
    writer = csv.DictWriter(table, columns, delimiter=separator, lineterminator="\n")
    writer.writeheader()
    for content in contents:
        names = content.get(MERGED_FROM)
        merged = (
            {MERGED_FROM: _NAMES.join(cast("list[str]", names))} if isinstance(names, list) else {}
        )
        writer.writerow({**content, **merged})
    return table.getvalue()


def _require_cells(out: Path | None, found: Sequence[Mapping[str, Any]]) -> None:
    """Raise UsageError if rows are to become a table, and a value of one fits in no cell."""
    if out is None or out.suffix.lower() not in _SEPARATORS:
        return
    nested = (name for row in found for name, one in row.items() if isinstance(one, list | dict))
    if name := next(nested, None):
        raise UsageError(
            f"--out {out}: {name} holds more than one value, which is no cell of a table; "
            f"name it {out.with_suffix('.jsonl')}"
        )


def _show(told: dict[str, Any]) -> None:
    say(f"{told['place']}: {number(told['rows'], 'row')}, {told['policy']}", style="bold")
    for at, count in told["pairs"].items():
        say(f"  {count:>8,} {'pair' if count == 1 else 'pairs'} at a cosine of {at} or more")
    for group in told["groups"]:
        say(
            f"{group['scope']}: {len(group['members'])} rows, now {quoted(group['text_after'], _WIDTH)}"
        )
        for one in group["members"]:
            say(f"    {one['id']}  {quoted(one['text'], _WIDTH)}", style="dim")
    for one in told["refused"]:
        say(f"  {one['row']} is left as it is: {one['why']}", style="yellow")
    share = "" if told["removal_rate"] is None else f" ({told['removal_rate']:.1%} fewer)"
    say(
        f"{number(told['memories_before'], 'memory', 'memories')}, "
        f"{told['memories_after']:,} afterwards{share}",
        style="bold",
    )
    if (told["removal_rate"] or 0.0) > ALERT:
        note("more than half of the rows would be removed: check the groups", style="yellow")
    if told["written"] is None:
        note("nothing was written: --out FILE or --collection NAME writes a copy")
    else:
        note(f"written to {told['written']}; the source is unchanged")
