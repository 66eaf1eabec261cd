"""Events through the pipeline of `memsieve run` into a new store, with the model loaded before."""

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.embedders import default_embedder
from benchmarks.harness.measuring import Cost, Watch
from benchmarks.harness.vectors import Recording
from streams.main.collector import search_seldom
from streams.model.embedding import Vector
from streams.model.ports.models import Embedder
from streams.stage.core.mapping import FieldMapping
from streams.store.app import policies, settings
from streams.store.app.processes import EmbeddedPipeline, embedded
from streams.store.world.files import FileSource


@dataclass(frozen=True)
class Ran:
    """The costs of a run: opening the store and the judges, each file, and closing."""

    opening: Cost
    files: list[Cost]
    closing: Cost

    @property
    def working(self) -> Cost:
        """The cost of the events, including what makes them durable."""
        return sum(self.files, self.closing)

    @property
    def whole(self) -> Cost:
        return self.opening + self.working


def run(embedder: Embedder, *files: Path) -> Ran:
    """Take in, decide on and apply the events of files in order, into one new store."""
    search_seldom()  # as the commands do
    with tempfile.TemporaryDirectory() as directory:
        return asyncio.run(run_into(Path(directory) / "store", embedder, *files))


def recorded(file: Path) -> dict[str, Vector]:
    """Return the real vectors of all texts that a run embeds, including merged texts."""
    recording = Recording(default_embedder())
    run(recording, file)
    return recording.made


async def run_into(store: Path, embedder: Embedder, *files: Path) -> Ran:
    """Do as `run` with a store that is kept."""
    chosen = settings.load({"store": store})
    costs: list[Cost] = []
    watch = Watch()
    async with embedded(chosen, policies.load("default"), embedder, print) as pipeline:
        opening = watch.lap()
        for file in files:
            await _take(pipeline, file)
            costs.append(watch.lap())
    return Ran(opening, costs, watch.lap())


async def _take(pipeline: EmbeddedPipeline, file: Path) -> None:
    await pipeline.run(FileSource(str(file)), FieldMapping(), lambda _: None)
    pipeline.tally.check()
