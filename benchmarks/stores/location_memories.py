"""The budgets of the location-memory document: 2,000 memories in 200 places, as it counts them.

Usage: python benchmarks/stores/location_memories.py [--rounds N] [--out FILE]

With the policy zork-semantic, the default model and Qdrant's engine in process. Each round makes a
store of 2,000 generated facts, ten a place; about every fiftieth all but repeats one of its place,
with another number. Its index is deleted and built anew from the vectors in the log, as a start
does; beside that, all texts are encoded again and written to an empty index. 400 of the facts come
again in capitals or with other white space. A place gets 100 memories, and then 50 events more, one
at a time: each is embedded, compared, judged, and on disk. Fifty vectors are searched as one matrix
and one by one, each at its best of many times.
"""

import argparse
import asyncio
import shutil
import tempfile
import tracemalloc
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.harness.deciding import event
from benchmarks.harness.embedders import default_embedder
from benchmarks.harness.filled_store import Layout
from benchmarks.harness.material import Event, facts, write
from benchmarks.harness.measuring import Cost, Result, Spread, Watch, arguments, percentile, ratio
from benchmarks.harness.vectors import random_units
from schemas.base import ScopeName
from streams.index.edge import EdgeIndex
from streams.index.exact import ExactIndex
from streams.model.embedding import similarity
from streams.model.neighbours import StoredMemory
from streams.model.ports.index import Query
from streams.model.ports.models import Embedder
from streams.stage.core.mapping import FieldMapping
from streams.store.app import policies, settings
from streams.store.app.processes import EmbeddedPipeline, RunTally, embedded
from streams.store.app.projection import LogProjection
from streams.store.app.reading import LogTarget, opened
from streams.store.world.files import FileSource

PLACES, MEMORIES, REPEATS = 200, 2_000, 400
AT_ONE_PLACE, ONE_BY_ONE = 100, 50
VECTORS = 50
_BEST_OF = 500
_BLOCK = 512
_POLICY = "zork-semantic"


@dataclass(frozen=True)
class Round:
    """The results of one round: seconds, shares of events, costs of decisions, bytes."""

    rebuilt: float
    encoded: float
    caught: float
    merged: float
    decisions: list[Cost]
    vectorised: float
    loop: float
    index_bytes: int
    held_bytes: int


def main() -> None:
    options = _options()
    embedder = default_embedder()
    rounds = [_round(embedder) for _ in range(options.rounds)]
    decisions = [cost for found in rounds for cost in found.decisions]
    walls = [cost.wall * 1e3 for cost in decisions]
    rebuilt, encoded = [one.rebuilt for one in rounds], [one.encoded for one in rounds]
    Result(
        benchmark="location-memories",
        method=str(__doc__),
        material={"texts": "generated facts", "count": MEMORIES, "places": PLACES},
        ratios={
            "encoded_over_rebuilt": ratio(encoded, rebuilt),
            "loop_over_vectorised": ratio(
                [one.loop for one in rounds], [one.vectorised for one in rounds]
            ),
            "repeats_caught": Spread.of([one.caught for one in rounds]),
        },
        figures={
            "rebuild_seconds": Spread.of(rebuilt, "lower"),
            "rebuild_seconds_with_encoding": Spread.of(encoded, "lower"),
            "distinct_merged": Spread.of([one.merged for one in rounds], "lower"),
            "decision_p50_ms": percentile(walls, 0.5),
            "decision_p95_ms": percentile(walls, 0.95),
            "decision_processor_p50_ms": percentile([cost.cpu * 1e3 for cost in decisions], 0.5),
            "search_of_50_ms": min(one.vectorised for one in rounds) * 1e3,
            "vector_bytes": float(MEMORIES * embedder.dimension * 4),
            "index_disk_bytes": float(rounds[-1].index_bytes),
            "held_bytes": float(rounds[-1].held_bytes),
        },
        rounds={"rebuilt": rebuilt, "encoded": encoded, "decisions_ms": walls},
        packages=("onnxruntime", "qdrant-edge-py", "numpy"),
    ).give(options.out)


def _round(embedder: Embedder) -> Round:
    with tempfile.TemporaryDirectory() as directory:
        return asyncio.run(_measured(Path(directory), embedder))


async def _measured(directory: Path, embedder: Embedder) -> Round:
    store, distinct = directory / "store", facts(MEMORIES, PLACES)
    first = await _run(store, embedder, write(directory / "facts.jsonl", distinct))
    shutil.rmtree(store / "index")
    async with _pipeline(store, embedder) as pipeline:
        told = await pipeline.metrics()
    again = await _run(store, embedder, write(directory / "again.jsonl", _respelt(distinct)))
    vectorised, loop = await _searched()
    return Round(
        rebuilt=told["embedding_cache_rebuild_seconds"],
        encoded=await _encoded(directory / "anew", embedder, distinct),
        caught=again.kinds["reinforce"] / REPEATS,
        merged=1 - first.kinds["insert"] / MEMORIES,
        decisions=await _decisions(directory / "place", embedder),
        vectorised=vectorised,
        loop=loop,
        index_bytes=sum(file.stat().st_blocks * _BLOCK for file in (store / "index").rglob("*")),
        held_bytes=await _held(store),
    )


@asynccontextmanager
async def _pipeline(store: Path, embedder: Embedder) -> AsyncGenerator[EmbeddedPipeline]:
    chosen = settings.load({"store": store, "policy": _POLICY})
    async with embedded(chosen, policies.load(_POLICY), embedder, lambda _: None) as pipeline:
        await pipeline.recover()
        yield pipeline


async def _run(store: Path, embedder: Embedder, file: Path) -> RunTally:
    async with _pipeline(store, embedder) as pipeline:
        await pipeline.run(FileSource(str(file)), FieldMapping(), lambda _: None)
        return pipeline.tally


def _respelt(distinct: list[Event]) -> list[Event]:
    """Repeat every fifth event, in capitals or with additional white space."""
    fifths = distinct[:: MEMORIES // REPEATS]
    return [
        Event(one.scope, one.text.upper() if n % 2 else one.text.replace(" ", "  "), f"again-{n}")
        for n, one in enumerate(fifths)
    ]


async def _encoded(path: Path, embedder: Embedder, events: list[Event]) -> float:
    """Return the seconds to encode all texts and write them to an empty index."""
    [states] = Layout(MEMORIES).states()
    index, watch = EdgeIndex(path, embedder.dimension), Watch()
    made = await embedder.embed([one.text for one in events])
    pairs = zip(states, made, strict=True)
    await index.write(
        [StoredMemory(state.memory, one.vector, state.decided) for state, one in pairs]
    )
    seconds = watch.lap().wall
    await index.close()
    return seconds


async def _decisions(store: Path, embedder: Embedder) -> list[Cost]:
    """Return the cost of each event at a place that has a hundred memories."""
    place = ScopeName("game/193")
    events = [
        event(number, place, fact.text)
        for number, fact in enumerate(facts(AT_ONE_PLACE + ONE_BY_ONE, 1))
    ]
    taken: list[Cost] = []
    async with _pipeline(store, embedder) as pipeline:
        await pipeline.take(events[:AT_ONE_PLACE])
        for one in events[AT_ONE_PLACE:]:
            watch = Watch()
            await pipeline.take([one])
            taken.append(watch.lap())
    return taken


async def _held(store: Path) -> int:
    """Return the bytes that a process needs to hold all memories and vectors in RAM."""
    async with opened(LogTarget.of_store(settings.load({"store": store}))) as log:
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        following = LogProjection(log)
        await following.index()
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    return after - before


async def _searched() -> tuple[float, float]:
    """Return the seconds of a search among fifty vectors, as one matrix and one by one."""
    [states], [wanted] = Layout(VECTORS).states(), random_units(VECTORS, 1)
    place, index = ScopeName("game/193"), ExactIndex()
    here = [replace(one, memory=one.memory.model_copy(update={"scope": place})) for one in states]
    await index.write(here)
    vectors = [one.vector for one in here if one.vector is not None]
    vectorised, loop = list[float](), list[float]()
    for _ in range(_BEST_OF):
        watch = Watch()
        await index.search([Query(place, wanted, limit=1, floor=-1.0)])
        vectorised.append(watch.lap().wall)
        max(similarity(wanted, vector) for vector in vectors)
        loop.append(watch.lap().wall)
    return min(vectorised), min(loop)


def _options() -> argparse.Namespace:
    return arguments(__doc__, rounds=3).parse_args()


if __name__ == "__main__":
    main()
