"""`memsieve store analyze`: how redundant a store or file is, and whether it is healthy."""

import asyncio
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from streams.lab.app import analysis
from streams.lab.app.analysis import Analysis
from streams.store.app import wiring
from streams.store.app.reading import LogTarget, read
from streams.store.app.settings import Settings
from streams.store.cli import options, rows
from streams.store.cli.console import note, say, say_object
from streams.store.cli.progress import Meter
from streams.store.core.counts import number

_STYLES = {"alert": "red", "high": "yellow", "healthy": "green"}


def analyze(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="STORE|FILE",
            help="A store, or a file of rows with text and scope. [the store of --store]",
        ),
    ] = None,
    *,
    store: options.Store = None,
    model: options.Model = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Count near-duplicates, and show how a store has grown.

    For a store, also shows what deduplication has removed, in all and in the scopes with the most
    removals (5 to 20 % is usual, over 50 % is too much), and whether each superseded memory has
    a live successor.
    """
    if source is not None and store is not None:
        raise options.UsageError(f"{source} and --store {store} are two places: give one of them")
    if source is not None and Path(source).is_dir():
        source, store = None, Path(source)
    settings = options.load(config, store=store, embedder__model=model)
    started = time.perf_counter()
    found = (
        read(LogTarget.of_store(settings), analysis.of_store)
        if source is None
        else asyncio.run(_of_file(source, settings))
    )
    seconds = time.perf_counter() - started
    if as_json:
        say_object({**found.as_json(), "duration_ms": round(seconds * 1_000)})
    else:
        _show(found.as_json())


async def _of_file(source: str, settings: Settings) -> Analysis:
    [file] = rows.sources([source])
    embedder = wiring.embedder(settings.embedder, note)
    with Meter("rows") as meter:
        return await analysis.of_file(
            file,
            embedder,
            batch_records=settings.run.batch_records,
            done=lambda count: meter.advance(count, 0),
        )


def _show(told: dict[str, Any]) -> None:
    say(f"{told['place']}, {told['model']}", style="bold")
    live = number(told["live"], "live memory", "live memories")
    say(f"{live} of {told['memories']:,}, in {number(told['scopes'], 'scope')}")
    say()
    say(f"{'cosine':<10}{'pairs':>12}{'memories with such a neighbour':>36}", style="bold")
    for one in told["pairs"]:
        share = "-" if one["share"] is None else f"{one['share']:.1%}"
        say(f">= {one['threshold']:<7.2f}{one['pairs']:>12,}{one['memories']:>27,}{share:>9}")
    if told["health"] is not None:
        _show_growth(told["growth"])
        _show_health(told["health"])
        _show_chains(told["supersession"], told["observations_average"])


def _show_growth(growth: dict[str, Any]) -> None:
    say()
    reduction = growth["size_reduction"]
    spared = "" if reduction is None else f": {reduction:.1%} fewer than events"
    say(
        f"{number(growth['events'], 'event')}, {number(growth['live'], 'memory', 'memories')} live{spared}",
        style="bold",
    )
    for day in growth["days"]:
        say(
            f"{day['day']}  {day['events']:>10,} events {day['memories']:>10,} memories "
            f"{day['live']:>10,} live"
        )


def _show_health(health: dict[str, Any]) -> None:
    say()
    _show_removal("overall", health)
    for scope in health["worst_scopes"]:
        _show_removal(scope["scope"], scope)


def _show_removal(name: str, one: dict[str, Any]) -> None:
    if one["removal_rate"] is None:
        return
    say(
        f"{name}: {one['removed_count']:,} of {one['memories_before']:,} removed "
        f"({one['removal_rate']:.1%}, {one['status']}), memories were retired by {one['merge_rate']:.1%} of the decisions",
        style=_STYLES.get(one["status"], ""),
    )


def _show_chains(chains: dict[str, Any], observations: float | None) -> None:
    say()
    say(
        f"{chains['superseded']:,} retired, at most {number(chains['depth_max'], 'step')} from the live one; "
        f"a live memory was seen {observations or 0:.2f} times on average"
    )
    if chains["without_live_successor"]:
        say(
            f"{chains['without_live_successor']:,} retired without a live successor, such as "
            f"{chains['examples'][0]}: run memsieve check --full",
            style="red",
        )
