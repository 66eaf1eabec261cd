"""`memsieve run`: files of events in, decisions and memories out."""

import asyncio
import json
import signal
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer

from schemas.decisions import (
    Band,
    Block,
    Change,
    Erase,
    Ignore,
    Insert,
    Merge,
    Reinforce,
    Replace,
    Revise,
    Revision,
    kind_of,
    kinds_of,
)
from streams.clock.system import SystemClock
from streams.store.app import embedding
from streams.store.app.embedding import ChosenModel
from streams.store.app.processes import RunTally, embedded
from streams.store.app.settings import Settings
from streams.store.cli import options, rows
from streams.store.cli.console import note, note_silent, say, say_object
from streams.store.cli.options import UsageError
from streams.store.cli.progress import shown
from streams.store.cli.rows import Rows
from streams.store.core.counts import number
from streams.store.world.store_directory import StoreDirectory

_EVERYDAY = kinds_of(Change | Ignore)
_SELDOM = kinds_of(Revision | Block)


def run(
    files: rows.Files,
    *,
    store: options.Store = None,
    policy: options.Policy = None,
    model: options.Model = None,
    index: Annotated[
        str | None, typer.Option("--index", help="The index of a new store: edge or exact. [edge]")
    ] = None,
    columns: rows.RowOptions,
    scope: rows.OneScope = None,
    metrics: Annotated[
        Path | None,
        options.output("--metrics", "Write counts and times as JSON."),
    ] = None,
    log: Annotated[
        str | None,
        typer.Option("--log", help="Log duplicates found: info or debug. [none]"),
    ] = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Decide on each row of files, and keep the memories in a store.

    The columns with text, scope, id and time are detected unless an option names them, and printed.
    Columns named like another field of an event fill it; the rest become metadata. Rows that are
    events are taken as they are. Exports of memsieve, mem0, redis agent-memory-server, LangMem
    and Chroma are recognised by their content.
    """
    settings = options.load(
        config,
        store=store,
        policy=policy,
        embedder__model=model,
        index__kind=index,
        logging__decisions=log,
    )
    given = columns.opened(files, scope)
    empty = UsageError(f"there are no rows in {', '.join(one.source.place for one in given)}")
    is_new = StoreDirectory(settings.store).manifest() is None
    if is_new and all(one.source.is_empty() for one in given):
        raise empty
    chosen = embedding.for_store(settings, note)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # from here on asyncio ends in order
    tally, figures, seconds = asyncio.run(_run(chosen, given))
    if as_json:
        say_object(summary(tally, seconds))
    else:
        _close(tally, seconds, settings)
    if metrics is not None:
        written = {"timestamp": SystemClock().now().isoformat(), **figures}
        options.write("--metrics", metrics, json.dumps(written, indent=2) + "\n")
    if not tally.rows:
        raise empty
    if tally.dead_letters == tally.rows:
        raise UsageError(f"no row could be used: see {_letters(settings)}")
    note_silent(tally.silent)
    if tally.dead_letters > tally.rows / 2:
        note(
            f"most rows were rejected, {tally.dead_letters:,} of {tally.rows:,}: "
            f"see {_letters(settings)}",
            style="yellow",
        )


def summary(tally: RunTally, seconds: float) -> dict[str, object]:
    """Return the closing figures of a run."""
    return {
        "events": tally.rows,
        "decisions": {kind: tally.kinds[kind] for kind in (*_EVERYDAY, *_SELDOM)},
        "dead_letters": tally.dead_letters,
        "unlikely_times": tally.unlikely,
        "degraded": dict(tally.silent),
        "nearest": {band.value: tally.bands[band.value] for band in Band},
        "seconds": round(seconds, 3),
        "events_per_second": round(tally.rows / seconds, 1) if seconds else None,
    }


async def _run(
    chosen: ChosenModel, given: Sequence[Rows]
) -> tuple[RunTally, Mapping[str, Any], float]:
    started = time.perf_counter()
    async with embedded(chosen.settings, chosen.policy, chosen.embedder, note) as pipeline:
        if recovered := await pipeline.recover():
            note(f"finished {number(recovered, 'waiting event')}: read before, or requeued")
        for one in given:
            await shown(one.source, partial(pipeline.run, one.source, one.mapping))
        pipeline.tally.check()
        figures = await pipeline.metrics()
    return pipeline.tally, figures, time.perf_counter() - started


def _close(tally: RunTally, seconds: float, settings: Settings) -> None:
    """Print the closing table."""
    say()
    say(f"{'events':<14}{tally.rows:>9,}")
    for kind in (*_EVERYDAY, *(kind for kind in _SELDOM if tally.kinds[kind])):
        say(f"  {kind:<12}{tally.kinds[kind]:>9,}   {_MEANS[kind]}")
    say(f"  {'dead letters':<12}{tally.dead_letters:>9,}   rejected: {_letters(settings)}")
    if tally.unlikely_event is not None:
        example = tally.unlikely_event
        say(
            f"{number(tally.unlikely, 'event')} dated before 1971 or in the future, "
            f"such as {example.event_id} on {example.occurred_at.date()}: correct the times",
            style="yellow",
        )
    if tally.bands:
        near = ", ".join(f"{name} {tally.bands[band.value]:,}" for band, name in _NEAREST.items())
        say(f"closest known memory: {near}")
    say(f"{tally.rows / seconds:,.0f} events/s, {seconds:,.1f} s; store: {settings.store}")


_NEAREST = {
    Band.MATCH: "near-identical",
    Band.REVIEW: "similar",
    Band.LOG: "related",
    Band.NONE: "none",
}

_MEANS = {
    kind_of(Insert): "new memories",
    kind_of(Merge): "joined with a known memory, nothing lost",
    kind_of(Replace): "replaced older memories",
    kind_of(Reinforce): "already known, counted",
    kind_of(Ignore): "skipped: already decided, or a review answer",
    kind_of(Revise): "memories changed on request",
    kind_of(Erase): "memories forgotten",
    kind_of(Block): "blocked: forbidden content, or forgotten",
}


def _letters(settings: Settings) -> str:
    """Return the command that lists the store's dead letters."""
    named = (
        ""
        if settings.store == Settings.model_fields["store"].default
        else f" --store {quote(f'{settings.store}')}"
    )
    return f"memsieve dead-letters list{named}"
