"""`memsieve policy shadow`: reports where another policy would decide differently."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from streams.replay.app.replaying import Replay, ReplayPlan, replay
from streams.replay.cli.differences import one_as_json, show, show_one
from streams.replay.core import DecisionDifference
from streams.store.app.reading import LogTarget
from streams.store.cli import options
from streams.store.cli.console import note, say_line
from streams.store.flow.past import Selection
from streams.store.world.signals import stop_signal

_LOOK_SECONDS = 0.5


def shadow(
    *,
    policy: options.Policy = None,
    model: options.Model = None,
    from_: options.From = None,
    scope: options.ScopeBelow = None,
    rate: options.Rate = None,
    into: Annotated[
        Path | None, typer.Option("--into", help="Keep the shadow's decisions in a new store.")
    ] = None,
    where: options.ReadOptions,
) -> None:
    """Decide alongside a live policy, and report each difference.

    Starts with the next event, on the memories as they are, unless --from names an earlier place.
    With --json, prints one line per difference.
    """
    source = where.source(policy=policy, embedder__model=model)
    selection = Selection(scope, options.bound("--from", from_))
    plan = ReplayPlan(selection, from_now=from_ is None, rate=rate, follow=True)
    asyncio.run(_shadow(source, plan, into, as_json=where.as_json))


async def _shadow(source: LogTarget, plan: ReplayPlan, into: Path | None, *, as_json: bool) -> None:
    def told(difference: DecisionDifference) -> None:
        if as_json:
            say_line(one_as_json(difference))
        else:
            show_one(difference)

    async with replay(source, plan, into, report=note) as open_:
        note("deciding alongside the live policy; Ctrl-C ends it")
        await _follow(open_, told)
    if not as_json:
        show(open_.comparison.differences)


async def _follow(open_: Replay, told: Callable[[DecisionDifference], None]) -> None:
    """Work and compare until somebody asks to stop; raise what ended the work."""
    with stop_signal() as stop:
        working = asyncio.create_task(open_.work.run(lambda _: None))
        while not stop.done() and not working.done():
            await asyncio.wait(
                {working, stop}, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            await open_.comparison.run(told)
        if working.done():
            working.result()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await open_.comparison.run(told)
