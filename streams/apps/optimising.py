"""Graphs for the large scopes of an embedded store, built while nothing else uses it."""

from contextlib import AsyncExitStack
from dataclasses import dataclass

from streams.adapters.store_directory import IndexKind, StoreDirectory
from streams.apps import wiring
from streams.apps.settings import InvalidSettings, Settings


@dataclass(frozen=True)
class Optimised:
    """How many memories the index holds, how many of them graphs lead to, and what was done now.

    `built` is False where no scope had grown enough since the last time.
    """

    memories: int
    in_graphs: int
    built: bool


async def optimise(settings: Settings) -> Optimised:
    """Build graphs for the scopes that are too large to be searched one memory after the other.

    Holds the store for writing as long as that takes, and the interpreter with it. Raises NoStore
    where there is none, it is in use, or the disk is nearly full; InvalidSettings where its index
    has no graphs.
    """
    directory = StoreDirectory(settings.store)
    manifest = directory.require()
    if manifest.index is not IndexKind.EDGE:
        raise InvalidSettings(
            f"{settings.store} has index.kind {manifest.index}, which has no graphs: only an index "
            "of kind edge has"
        )
    directory.require_space(settings.run.free_disk_bytes_min)
    async with AsyncExitStack() as stack:
        stack.enter_context(directory.written_by_us(manifest))
        index = wiring.edge_index(directory.index, manifest.dimension)
        stack.push_async_callback(index.close)
        built = index.optimise()
        return Optimised(await index.count(), index.in_graphs, built)
