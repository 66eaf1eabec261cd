"""`memsieve store optimize`: graphs that speed up searches in large scopes."""

import asyncio
from dataclasses import asdict

from streams.maintain.app.optimising import optimise
from streams.store.cli import options
from streams.store.cli.console import note, tell


def optimize(
    *,
    store: options.Store = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Build search graphs for the large scopes of a store.

    Without a graph, a search scans each memory of its scope. Building takes some minutes for a
    scope of 100,000; nothing else can use the store meanwhile.
    """
    settings = options.load(config, store=store)
    note("building graphs for scopes of about 7,000 memories or more; this may take minutes")
    done = asyncio.run(optimise(settings))
    line = (
        f"graphs cover {done.in_graphs:,} of {done.memories:,} memories"
        if done.built
        else f"nothing to do: no scope of the {done.memories:,} memories has grown enough"
    )
    tell([line], asdict(done), as_json=as_json)
