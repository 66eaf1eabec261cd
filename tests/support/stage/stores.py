"""Embedded stores for tests, made by the product itself."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from schemas.decisions import Decision
from streams.model.ports.models import Embedder
from streams.stage.core.mapping import FieldMapping
from streams.store.app import policies, settings
from streams.store.app.processes import RunTally, embedded
from streams.store.app.reading import LogTarget, reading
from streams.store.world.files import FileSource
from tests.support.encoding.models import default_embedder


def quiet(_: str) -> None:
    """Report progress to nobody."""


def run(
    files: Sequence[Path],
    store: Path,
    *,
    mapping: FieldMapping | None = None,
    embedder: Callable[[], Embedder] = default_embedder,
    batch_records: int = 256,
    index: str = "edge",
    partitions: int = 1,
) -> RunTally:
    """Run files into a store, as `memsieve run` does, and return what became of them."""
    chosen = settings.load(
        {
            "store": store,
            "index": {"kind": index},
            "log": {"partitions": partitions},
            "run": {"batch_records": batch_records},
        }
    )

    async def work() -> RunTally:
        policy = policies.load(chosen.policy)
        async with embedded(chosen, policy, embedder(), quiet) as pipeline:
            await pipeline.recover()
            for file in files:
                await pipeline.run(FileSource(str(file)), mapping, lambda _: None)
            return pipeline.tally

    return asyncio.run(work())


def decisions(store: Path) -> list[Decision]:
    """Return a store's decisions in the order of its log."""

    async def read() -> list[Decision]:
        async with reading(LogTarget.of_store(settings.load({"store": store}))) as reader:
            return [entry.decision async for entry in reader.decisions()]

    return asyncio.run(read())
