"""`memsieve store replay`: rebuilds the index, or decides again, from the log."""

import asyncio
import signal
import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from streams.replay.app.rematerialising import rebuild_index, rebuild_sinks
from streams.replay.app.replaying import LogComparison, ReplayPlan, count, replay
from streams.replay.cli.differences import as_json as differences_as_json
from streams.replay.cli.differences import show
from streams.replay.core import DecisionDifferences
from streams.store.app.reading import LogTarget, opened
from streams.store.app.setting_groups import SinkSettings
from streams.store.cli import options
from streams.store.cli.console import note, say_object, tell
from streams.store.cli.progress import Meter
from streams.store.flow.past import Selection


def rematerialise(
    *,
    sqlite: Annotated[
        Path | None, typer.Option("--sqlite", help="Write a new SQLite file instead.")
    ] = None,
    jsonl: Annotated[
        Path | None, typer.Option("--jsonl", help="Write a new directory of lines instead.")
    ] = None,
    to: options.To = None,
    where: options.ReadOptions,
) -> None:
    """Rebuild the index from the decisions, and swap it in.

    If interrupted, run the command again to continue. With --sqlite or --jsonl, writes the memories
    there instead; with --to, as they were at that time.
    """
    source = where.source()
    wanted = SinkSettings(sqlite=sqlite, jsonl=jsonl)
    until = options.bound("--to", to)
    if until is not None and wanted == SinkSettings():
        raise options.UsageError("--to is for --sqlite and --jsonl: the index is never rolled back")
    started = time.perf_counter()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with Meter("records") as meter:
        work = (
            rebuild_index(source, meter.reach)
            if wanted == SinkSettings()
            else rebuild_sinks(source, wanted, until, meter.reach)
        )
        rebuilt = asyncio.run(work)
    seconds = round(time.perf_counter() - started, 3)
    line = f"{rebuilt.place}: {rebuilt.memories:,} memories, in {seconds:,.1f} s"
    tell([line], {**asdict(rebuilt), "seconds": seconds}, as_json=where.as_json)


def redecide(
    *,
    policy: options.Policy = None,
    model: options.Model = None,
    into: Annotated[
        Path | None,
        typer.Option(
            "--into", help="A new store for the decisions; an unfinished one is continued."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Write nothing, only show the differences.")
    ] = False,
    from_: options.From = None,
    to: options.To = None,
    scope: options.ScopeBelow = None,
    from_events: Annotated[
        bool,
        typer.Option(
            "--events",
            help="Read memory.events, including rejected events. [the events inside the decisions]",
        ),
    ] = False,
    rate: options.Rate = None,
    where: options.ReadOptions,
) -> None:
    """Decide again under another policy or model; show what differs.

    Existing decisions stay as they are: the new decisions and memories are kept in a separate
    store. Texts that the same model has embedded are not embedded again.
    """
    if dry_run == (into is not None):
        raise options.UsageError("give --into DIR to keep the new decisions, or --dry-run")
    source = where.source(policy=policy, embedder__model=model)
    selection = Selection(scope, options.bound("--from", from_), options.bound("--to", to))
    plan = ReplayPlan(selection, from_events=from_events, rate=rate)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    differences, seconds = asyncio.run(_redecide(source, plan, into))
    if where.as_json:
        say_object({**differences_as_json(differences), "seconds": round(seconds, 3)})
        return
    show(differences)
    if into is not None:
        note(f"the new decisions and memories are in {into}: name it with --store")


def diff(
    other: Annotated[
        Path | None, typer.Argument(metavar="STORE", help="The store of a replay.")
    ] = None,
    *,
    run: Annotated[
        str | None, typer.Option("--run", help="Instead: services with this kafka.run.")
    ] = None,
    where: options.ReadOptions,
) -> None:
    """Show how a replay's decisions differ from the log's."""
    source = where.source()
    if (other is None) == (run is None):
        raise options.UsageError("name the STORE of a replay, or a --run of the cluster")
    differences = asyncio.run(_diff(source, _other(source, other, run)))
    if where.as_json:
        say_object(differences_as_json(differences))
    else:
        show(differences)


async def _redecide(
    source: LogTarget, plan: ReplayPlan, into: Path | None
) -> tuple[DecisionDifferences, float]:
    started = time.perf_counter()
    async with replay(source, plan, into, report=note) as open_:
        total = await count(open_.source)
        with Meter("events") as meter:
            await open_.work.run(lambda done: meter.advance(done, total))
        await open_.comparison.run()
    return open_.comparison.differences, time.perf_counter() - started


def _other(source: LogTarget, store: Path | None, run: str | None) -> LogTarget:
    """Return the log to compare with."""
    if store is not None:
        return LogTarget.of_store(source.settings.model_copy(update={"store": store}))
    kafka = source.settings.kafka.model_copy(update={"run": run})
    return LogTarget.of_cluster(source.settings.model_copy(update={"kafka": kafka}))


async def _diff(source: LogTarget, other: LogTarget) -> DecisionDifferences:
    async with (
        opened(source) as before,
        opened(other) as after,
    ):
        comparison = LogComparison(before, after)
        await comparison.run()
    return comparison.differences
