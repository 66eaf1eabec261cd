"""`memsieve run`: files of events in, decisions and memories out."""

import asyncio
import signal
import time
from collections.abc import Sequence
from functools import partial
from typing import Annotated

import typer

from schemas.decisions import Band
from streams.adapters.files import FileSource
from streams.adapters.store_directory import StoreDirectory
from streams.apps import policies, wiring
from streams.apps.processes import Tally, embedded
from streams.apps.settings import Settings
from streams.cli import options, rows
from streams.cli.console import note, say, say_object
from streams.cli.progress import shown
from streams.core.mapping import FieldMapping
from streams.core.policy import Policy
from streams.ports import Embedder

_KINDS = ("insert", "merge", "replace", "reinforce", "ignore")


def register(app: typer.Typer) -> None:
    app.command(name="run")(run)


def run(
    files: rows.Files,
    *,
    store: options.Store = None,
    policy: options.Policy = None,
    model: options.Model = None,
    index: Annotated[
        str | None, typer.Option("--index", help="The index of a new store: edge or exact. [edge]")
    ] = None,
    text_field: rows.TextField = None,
    scope_field: rows.ScopeField = None,
    id_field: rows.IdField = None,
    time_field: rows.TimeField = None,
    format_: rows.FileFormat = None,
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
    mapping = rows.mapping(text_field, scope_field, id_field, time_field)
    sources = rows.sources(files, format_, mapping)
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
            note(f"finished {recovered:,} events that were waiting: taken in before, or requeued")
        for source in sources:
            await shown(source, partial(pipeline.run, source, mapping))
        pipeline.tally.check()
    return pipeline.tally, time.perf_counter() - started


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
    "ignore": "changed nothing: decided before, or an answer",
    "dead letters": "could not be used: memsieve dead-letters list",
}
