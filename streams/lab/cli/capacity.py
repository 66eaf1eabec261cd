"""`memsieve capacity`: what so many events a second take, from what one takes here."""

import asyncio
from dataclasses import asdict
from typing import Annotated

import typer

from streams.lab.app import capacity as measuring
from streams.lab.core.capacity import LOAD_MAX, Costs, Plan, plan
from streams.model.policy import Policy
from streams.store.app import policies, wiring
from streams.store.app.dry_run import means
from streams.store.app.settings import Settings
from streams.store.cli import options
from streams.store.cli.console import note, say, say_object
from streams.store.cli.options import UsageError
from streams.store.cli.progress import Meter

_RATES = (10.0, 1_000.0, 100_000.0)


def register(app: typer.Typer) -> None:
    app.command(name="capacity")(capacity)


def capacity(
    *,
    rate: Annotated[
        list[float] | None,
        typer.Option(
            "--rate", min=0.001, help="Events a second; may be repeated. [10 1000 100000]"
        ),
    ] = None,
    memories: Annotated[
        int, typer.Option("--memories", min=0, max=1_000_000_000, help="That the index will hold.")
    ] = 1_000_000,
    repeats: Annotated[
        float,
        typer.Option(
            "--repeats", min=0.0, max=1.0, help="Share of events with words known before."
        ),
    ] = 0.0,
    policy: options.Policy = None,
    model: options.Model = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Estimate partitions, processes, cores and memory for a load.

    Measures on this machine, some ten seconds, what it costs to encode, decide on and apply an
    event, and reckons from that. Brokers, and a Qdrant server's own work, come on top.
    """
    settings = options.load(config, policy=policy, embedder__model=model)
    chosen = policies.load(settings.policy)
    policies.require_model(chosen, wiring.named_model(settings.embedder))
    costs = asyncio.run(_measure(settings, chosen))
    try:
        plans = [plan(costs, one, memories=memories, repeats=repeats) for one in rate or _RATES]
    except ValueError as error:
        raise UsageError(str(error)) from error
    if as_json:
        say_object({"costs": costs.model_dump(), "plans": [asdict(one) for one in plans]})
    else:
        _show(costs, plans, memories)


async def _measure(settings: Settings, policy: Policy) -> Costs:
    async with means(settings, note) as given:
        with Meter("texts") as meter:
            return await measuring.measure(policy, given, lambda count: meter.advance(count, 0))


def _show(costs: Costs, plans: list[Plan], memories: int) -> None:
    say(
        f"an event takes, of one core here: {costs.encode * 1e3:.2f} ms to encode its text, "
        f"{costs.decide * 1e3:.2f} ms to decide, {costs.apply * 1e3:.2f} ms to apply"
    )
    say(f"cores are filled to {LOAD_MAX:.0%}; the index holds {memories:,} memories")
    say()
    say(
        f"{'events/s':>9}{'partitions':>12}{'deduplicators':>15}{'writers':>9}{'cores':>7}{'GiB':>9}"
    )
    for one in plans:
        say(
            f"{one.events_per_second:>9,.0f}{one.partitions:>12,}{one.deduplicators:>15,}"
            f"{one.writers:>9,}{one.cores:>7,}{one.bytes / 2**30:>9,.1f}"
        )
