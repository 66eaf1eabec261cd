"""Building of vector graphs for the large scopes of an embedded store, while it is not in use."""

from contextlib import AsyncExitStack
from dataclasses import dataclass

from streams.store.app import wiring
from streams.store.app.settings import InvalidSettings, Settings
from streams.store.world.store_directory import IndexKind, StoreDirectory


@dataclass(frozen=True)
class OptimisationResult:
    """The number of memories in the index and in its graphs, and whether graphs were built.

    `built` is False if no scope had grown enough since the last time.
    """

    memories: int
    in_graphs: int
    built: bool


async def optimise(settings: Settings) -> OptimisationResult:
    """Build graphs for the scopes that are too large for an exhaustive search.

    Meanwhile it holds the store for writing and blocks the interpreter. Raises NoStore if there is
    no store, it is in use, or the disk is nearly full; InvalidSettings if its index has no graphs.
    """
    directory = StoreDirectory(settings.store)
    manifest = directory.require()
    if manifest.index is not IndexKind.EDGE:
        raise InvalidSettings(
            f"{settings.store} has index.kind {manifest.index}, which has no graphs: only an index "
            "of kind edge has them"
        )
    directory.require_space(settings.run.free_disk_bytes_min)
    async with AsyncExitStack() as stack:
        stack.enter_context(directory.written_by_us(manifest))
        index = wiring.edge_index(directory.index, manifest.dimension)
        stack.push_async_callback(index.close)
        built = index.optimise()
        return OptimisationResult(await index.count(), index.in_graphs, built)
