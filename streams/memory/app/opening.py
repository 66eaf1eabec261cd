"""Opens the memories of a store, or of a cluster."""

from collections.abc import Callable

from streams.memory.app.cluster_store import ClusterStore
from streams.memory.app.embedded_store import EmbeddedStore
from streams.memory.app.memory_store import MemoryStore
from streams.store.app.reading import LogTarget


async def open_memories(
    target: LogTarget, report: Callable[[str], None], note: Callable[[str], None], wait: float
) -> MemoryStore:
    """Open what `target` names; a cluster's decisions are waited for `wait` seconds."""
    if target.embedded:
        return await EmbeddedStore.open(target.settings, report, note)
    return await ClusterStore.open(target, report, note, wait)
