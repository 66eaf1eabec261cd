"""`memsieve run`: files of events in, decisions and memories out."""

import asyncio
import signal
import time
from collections.abc import Callable, Sequence
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from schemas.decisions import Band
from streams.adapters.files import FileSource, Format
from streams.adapters.store_directory import StoreDirectory
from streams.apps import policies, wiring
from streams.apps.processes import EmbeddedPipeline, Tally, embedded
from streams.apps.settings import Settings
from streams.cli import options
from streams.cli.console import err, note, say, say_object
from streams.core.mapping import FieldMapping, scope_template
from streams.core.policy import Policy
from streams.ports import Embedder, Fatal

_KINDS = ("insert", "merge", "replace", "reinforce", "ignore")
_PLAIN_SECONDS = 5.0


def register(app: typer.Typer) -> None:
    app.command(name="run")(run)


def run(
    files: Annotated[
        list[str], typer.Argument(help="JSON Lines or CSV, gzipped or not; - is standard input.")
    ],
    *,
    store: options.Store = None,
    policy: Annotated[
        str | None, typer.Option("--policy", help="A policy's name or file. [default]")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", help="An embedding model that fastembed lists.")
    ] = None,
    index: Annotated[
        str | None, typer.Option("--index", help="The index of a new store: edge or exact. [edge]")
    ] = None,
    text_field: Annotated[
        str | None, typer.Option("--text-field", help="The column with the text. [text]")
    ] = None,
    scope_field: Annotated[
        str | None,
        typer.Option(
            "--scope-field",
            help="The column with the scope, or a template: 'team/{project}/{user}'. [scope]",
        ),
    ] = None,
    id_field: Annotated[
        str | None,
        typer.Option(
            "--id-field",
            help="The column with the event's id. [event_id, else made from file, line and content]",
        ),
    ] = None,
    time_field: Annotated[
        str | None,
        typer.Option("--time-field", help="The column with the time. [occurred_at, else now]"),
    ] = None,
    format_: Annotated[
        str | None, typer.Option("--format", help="jsonl or csv. [by the file's name]")
    ] = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Decide on every row of the files, in order, and keep the memories in a store.

    Without the options for columns, a row with a `kind` is taken as an event as it is. Other
    columns named like an event's fields are used as those, the rest becomes metadata.
    """
    settings = options.load(
        config, store=store, policy=policy, embedder__model=model, index__kind=index
    )
    mapping = _mapping(text_field, scope_field, id_field, time_field)
    sources = _sources(files, _format(format_), reading=repr(mapping))
    chosen = policies.load(settings.policy)
    policies.require_model(chosen, settings.embedder.model)
    StoreDirectory(settings.store).manifest()
    embedder = wiring.embedder(settings.embedder, note)
    policies.require_model(chosen, embedder.model)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # from here on asyncio ends in order
    tally, seconds = asyncio.run(_run(settings, chosen, embedder, sources, mapping))
    if as_json:
        say_object(summary(tally, seconds))
    else:
        _close(tally, seconds, settings)


def summary(tally: Tally, seconds: float) -> dict[str, object]:
    """Return the closing figures of a run."""
    return {
        "events": tally.rows,
        "decisions": {kind: tally.kinds[kind] for kind in _KINDS},
        "dead_letters": tally.dead_letters,
        "nearest": {band.value: tally.bands[band.value] for band in Band},
        "seconds": round(seconds, 3),
        "events_per_second": round(tally.rows / seconds, 1) if seconds else None,
    }


async def _run(
    settings: Settings,
    policy: Policy,
    embedder: Embedder,
    sources: Sequence[FileSource],
    mapping: FieldMapping | None,
) -> tuple[Tally, float]:
    started = time.perf_counter()
    async with embedded(settings, policy, embedder, note) as pipeline:
        if recovered := await pipeline.recover():
            note(f"finished {recovered:,} events that an interrupted run had taken in")
        for source in sources:
            await _run_source(pipeline, source, mapping)
        pipeline.tally.check()
    return pipeline.tally, time.perf_counter() - started


async def _run_source(
    pipeline: EmbeddedPipeline, source: FileSource, mapping: FieldMapping | None
) -> None:
    if err.is_terminal:
        with _bar() as progress:
            task = progress.add_task(source.place, total=None, rate="")
            await pipeline.run(source, mapping, _on_bar(progress, task, source))
    else:
        lines = _Lines(source)
        await pipeline.run(source, mapping, lines.advance)
        lines.finish()


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[rate]}"),
        console=err,
    )


def _on_bar(progress: Progress, task: TaskID, source: FileSource) -> Callable[[int], None]:
    started = time.perf_counter()
    done = 0

    def advance(rows: int) -> None:
        nonlocal done
        done += rows
        elapsed = time.perf_counter() - started
        rate = f"{done:,} events, {done / elapsed:,.0f}/s{_remaining(source, elapsed)}"
        place = source.progress()
        progress.update(task, completed=place.done, total=place.total, rate=rate)

    return advance


class _Lines:
    """Progress where there is no terminal: a line every few seconds, and one at the end."""

    def __init__(self, source: FileSource) -> None:
        self._source = source
        self._started = self._told = time.perf_counter()
        self._done = 0

    def advance(self, rows: int) -> None:
        self._done += rows
        if time.perf_counter() - self._told >= _PLAIN_SECONDS:
            self._tell(_percent(self._source))

    def finish(self) -> None:
        self._tell(" (100%)")

    def _tell(self, percent: str) -> None:
        self._told = time.perf_counter()
        rate = self._done / (self._told - self._started)
        note(f"{self._source.place}: {self._done:,} events{percent}, {rate:,.0f}/s")


def _remaining(source: FileSource, elapsed: float) -> str:
    place = source.progress()
    if not place.total or not place.done:
        return ""
    minutes, seconds = divmod(round(elapsed * (place.total - place.done) / place.done), 60)
    return f", {minutes}:{seconds:02d} left"


def _percent(source: FileSource) -> str:
    place = source.progress()
    return f" ({place.done / place.total:.0%})" if place.total else ""


def _close(tally: Tally, seconds: float, settings: Settings) -> None:
    """Print the closing table."""
    say()
    say(f"{'events':<14}{tally.rows:>9,}")
    for kind in _KINDS:
        say(f"  {kind:<12}{tally.kinds[kind]:>9,}   {_MEANS[kind]}")
    say(f"  {'dead letters':<12}{tally.dead_letters:>9,}   {_MEANS['dead letters']}")
    if tally.rows and tally.dead_letters == tally.rows:
        say("no row could be used: memsieve dead-letters list tells why")
    if tally.bands:
        near = ", ".join(f"{band.value} {tally.bands[band.value]:,}" for band in Band)
        say(f"nearest neighbour by band: {near}")
    say(f"{tally.rows / seconds:,.0f} events/s, {seconds:,.1f} s; store: {settings.store}")


_MEANS = {
    "insert": "new memories",
    "merge": "joined with what was known, nothing lost",
    "replace": "took the place of older memories",
    "reinforce": "known already, counted",
    "ignore": "events decided before",
    "dead letters": "could not be used: memsieve dead-letters list",
}


def _mapping(
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
        raise options.UsageError(f"--scope-field: {error}") from error


def _format(name: str | None) -> Format | None:
    if name not in {None, "jsonl", "csv"}:
        raise options.UsageError(f"--format {name}: write jsonl or csv")
    return "csv" if name == "csv" else "jsonl" if name == "jsonl" else None


def _sources(files: Sequence[str], format_: Format | None, *, reading: str) -> list[FileSource]:
    """Open every file once before anything is done with the first."""
    try:
        return [FileSource(path, format_, reading=reading) for path in files]
    except Fatal as error:
        raise options.UsageError(str(error)) from error
