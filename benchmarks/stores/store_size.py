"""What an event costs as the store grows: whole cost, search, opening, disk and memory.

Usage: python benchmarks/stores/store_size.py [--sizes N …] [--full] [--rounds N] [--out FILE] [--plot FILE]

For each size a process of its own fills the embedded index through its own port with generated
memories and random vectors: a tenth of them in one large scope, a thousand in another, the rest in
scopes of a hundred. A second process then loads the model, opens that index and stays. In rounds,
one size after the other, it embeds short texts, decides on and applies new events in the small
scopes with their vectors given, and searches known vectors in the scope of 1,000 and in the large
one. By the first round both scopes are copied: see streams/index/large_scopes.py. The whole cost of an event is that of embedding one text, one constant for all sizes, and of
everything else at that size, both in seconds of the processor; every process keeps to one core.
Searches are in milliseconds of the wall. Memory is resident memory, with the model and with what
searches touch of mapped files. --full adds 1,000,000 memories.
"""

import argparse
import asyncio
import multiprocessing
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from benchmarks.harness.cost_plot import Curve, draw
from benchmarks.harness.deciding import Deciding, event, local_log
from benchmarks.harness.filled_store import Layout, fill, searches
from benchmarks.harness.material import short_texts
from benchmarks.harness.measuring import (
    Result,
    Spread,
    Watch,
    arguments,
    on_one_core,
    percentile,
    resident,
)
from benchmarks.harness.vectors import DIMENSION, Given, seeded
from streams.model.ports.index import Index
from streams.model.ports.models import Embedder
from streams.store.app import settings, wiring
from streams.store.world.store_directory import IndexKind

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_SIZES, _FULL = (10_000, 100_000), 1_000_000
_EVENTS = 1_024
"""Events decided on per round."""
_ENCODED = 128
_SEARCHES = 50
"""Enough at the start for the scope of 1,000 and one of 100,000 to be copied."""
_BLOCK = 512
"""The unit of `st_blocks`."""

Pipe: TypeAlias = "Connection[Any, Any]"


@dataclass(frozen=True)
class Opened:
    """The seconds to fill and open a store, and the bytes that it occupies."""

    fill_seconds: float
    open_seconds: float
    disk: int
    model: int
    resident: dict[str, int]


@dataclass(frozen=True)
class Measured:
    """A round at one size: CPU microseconds, and milliseconds of single searches."""

    encoding: float
    rest: float
    middle: list[float]
    large: list[float]


Rounds: TypeAlias = dict[int, list[Measured]]


def main() -> None:
    options = _options()
    wanted: list[int] = [*options.sizes, *([_FULL] if options.full else [])]
    sizes = sorted(set(wanted))
    with tempfile.TemporaryDirectory() as directory:
        opened, rounds = _measured(Path(directory), sizes, options.rounds)
    for size in sizes:
        _show(size, opened[size], rounds[size])
    if options.plot:
        options.plot.parent.mkdir(parents=True, exist_ok=True)
        options.plot.write_text(_plot(rounds), encoding="utf-8")
    _result(opened, rounds).give(options.out)


def _measured(
    directory: Path, sizes: Sequence[int], rounds: int
) -> tuple[dict[int, Opened], Rounds]:
    stores: dict[int, _Store] = {}
    measured: Rounds = {size: [] for size in sizes}
    try:
        for size in sizes:
            print(f"filling a store of {size:,}", flush=True)
            stores[size] = _Store(directory / str(size), size)
        for number in range(rounds):
            for size in reversed(sizes) if number % 2 else sizes:
                measured[size].append(stores[size].measure())
        return {size: store.opened for size, store in stores.items()}, measured
    finally:
        for store in stores.values():
            store.close()


class _Store:
    """A filled store in a separate process, so that its memory can be measured."""

    def __init__(self, path: Path, size: int) -> None:
        filling = _Child(_fill, path, size)
        seconds: float = filling.pipe.recv()
        filling.end()
        disk = sum(file.stat().st_blocks * _BLOCK for file in path.rglob("*"))
        self._child = _Child(_serve, path, size)
        opening, model, after = self._child.pipe.recv()
        self.opened = Opened(seconds, opening, disk, model, after)

    def measure(self) -> Measured:
        self._child.pipe.send("measure")
        measured: Measured = self._child.pipe.recv()
        return measured

    def close(self) -> None:
        self._child.pipe.send(None)
        self._child.end()


class _Child:
    """A function in a new process, with a pipe to it."""

    def __init__(self, work: Callable[[Pipe, Path, int], None], path: Path, size: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=work, args=(theirs, path, size), daemon=True)
        self._process.start()
        theirs.close()

    def end(self) -> None:
        self.pipe.close()
        self._process.join()


def _fill(pipe: Pipe, path: Path, size: int) -> None:
    async def work() -> None:
        index = wiring.index(IndexKind.EDGE, path, DIMENSION)
        watch = Watch()
        await fill(index, Layout(size))
        await index.close()
        pipe.send(watch.lap().wall)

    on_one_core()
    asyncio.run(work())


def _serve(pipe: Pipe, path: Path, size: int) -> None:
    """Open a store, report the cost, and measure it on each request."""

    async def work() -> None:
        embedder = wiring.embedder(settings.load({"embedder": {"threads": 1}}).embedder, print)
        model = resident()["all"]
        watch = Watch()
        index = wiring.edge_index(path, DIMENSION)
        opening = watch.lap().wall
        layout = Layout(size)
        for places in (layout.middle, layout.large):
            await searches(index, layout, places, _SEARCHES)
        pipe.send((opening, model, resident()))
        async with local_log() as log:
            given = Given({})
            deciding = Deciding(log, index, index, given)
            first = 0
            while pipe.recv() is not None:
                pipe.send(await _round(embedder, index, layout, (deciding, given), first))
                first += _EVENTS
        await index.close()

    on_one_core()
    asyncio.run(work())


async def _round(
    embedder: Embedder, index: Index, layout: Layout, decides: tuple[Deciding, Given], first: int
) -> Measured:
    texts = short_texts(limit=_ENCODED).texts
    watch = Watch()
    await embedder.embed(texts)
    encoding = watch.lap().cpu / len(texts)
    deciding, given = decides
    events = [
        event(n, layout.small(n * 7_919), f"Note {n}: shelf {n * 31 % 9_973} was counted again.")
        for n in range(first, first + _EVENTS)
    ]
    given.learn({one.text: seeded(one.text) for one in events})
    await deciding.publish(events)
    rest = (await deciding.work()).cpu / len(events)
    return Measured(
        encoding * 1e6,
        rest * 1e6,
        await searches(index, layout, layout.middle, _SEARCHES),
        await searches(index, layout, layout.large, _SEARCHES),
    )


def _encoding(rounds: Rounds) -> float:
    """Return the cost of embedding a text, a single constant for all sizes."""
    return statistics.median(one.encoding for measured in rounds.values() for one in measured)


def _p50(taken: list[float]) -> float:
    return percentile(taken, 0.5)


def _p99(taken: list[float]) -> float:
    return percentile(taken, 0.99)


def _show(size: int, opened: Opened, rounds: list[Measured]) -> None:
    rest = Spread.of([one.rest for one in rounds])
    large = Spread.of([_p50(one.large) for one in rounds])
    middle = Spread.of([_p50(one.middle) for one in rounds])
    print(
        f"{size:,} memories: all but encoding {rest} µs; search p50 {middle} ms in "
        f"{len(Layout(size).middle):,}, {large} ms in {len(Layout(size).large):,}; opened in "
        f"{opened.open_seconds:.2f} s; {opened.disk / size:,.0f} bytes of disk and "
        f"{(opened.resident['all'] - opened.model) / size:,.0f} of memory each, "
        f"{opened.resident['all'] / 1e6:,.0f} MB with the model"
    )


def _figures(size: int, opened: Opened, rounds: list[Measured]) -> dict[str, Spread | float]:
    lower: dict[str, list[float]] = {
        "rest_microseconds": [one.rest for one in rounds],
        "search_p50_ms_in_middle": [_p50(one.middle) for one in rounds],
        "search_p99_ms_in_middle": [_p99(one.middle) for one in rounds],
        "search_p50_ms_in_large": [_p50(one.large) for one in rounds],
        "search_p99_ms_in_large": [_p99(one.large) for one in rounds],
    }
    return {
        **{f"{name}_at_{size}": Spread.of(values, "lower") for name, values in lower.items()},
        f"fill_seconds_at_{size}": opened.fill_seconds,
        f"open_seconds_at_{size}": opened.open_seconds,
        f"disk_bytes_each_at_{size}": opened.disk / size,
        f"resident_bytes_each_at_{size}": (opened.resident["all"] - opened.model) / size,
        f"resident_own_mb_at_{size}": opened.resident["own"] / 1e6,
        f"resident_mb_with_model_at_{size}": opened.resident["all"] / 1e6,
    }


def _result(opened: dict[int, Opened], rounds: Rounds) -> Result:
    least, encoding = min(rounds), _encoding(rounds)
    ratios: dict[str, Spread] = {}
    for size, measured in rounds.items():
        pairs = list(zip(measured, rounds[least], strict=True))
        if size != least:
            whole = [(encoding + a.rest) / (encoding + b.rest) for a, b in pairs]
            rest = [a.rest / b.rest for a, b in pairs]
            ratios[f"whole_cost_at_{size}_over_{least}"] = Spread.of(whole, "lower")
            ratios[f"rest_at_{size}_over_{least}"] = Spread.of(rest, "lower")
    figures: dict[str, Spread | float] = {"encoding_microseconds": encoding}
    for size in rounds:
        figures |= _figures(size, opened[size], rounds[size])
    return Result(
        benchmark="store-size",
        method=str(__doc__),
        material={
            "memories": "generated",
            "large_scope": {size: len(Layout(size).large) for size in rounds},
            "middle_scope": {size: len(Layout(size).middle) for size in rounds},
        },
        ratios=ratios,
        figures=figures,
        rounds={f"rest at {size}": [one.rest for one in all_] for size, all_ in rounds.items()},
        packages=("qdrant-edge-py", "onnxruntime"),
    )


def _plot(rounds: Rounds) -> str:
    encoding, sizes = _encoding(rounds), list(rounds)
    rest = [statistics.median(one.rest for one in rounds[size]) for size in sizes]

    def searching(of: Callable[[Measured], list[float]]) -> list[float]:
        return [statistics.median(_p50(of(one)) * 1e3 for one in rounds[size]) for size in sizes]

    return draw(
        [
            Curve("whole event", sizes, [encoding + one for one in rest]),
            Curve("all but encoding", sizes, rest),
            Curve("one search, scope of 1,000", sizes, searching(lambda one: one.middle)),
            Curve("one search, a tenth of the store", sizes, searching(lambda one: one.large)),
        ],
        x="memories in the store",
        y="microseconds",
    )


def _options() -> argparse.Namespace:
    parser = arguments(__doc__, rounds=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(_SIZES))
    parser.add_argument("--full", action="store_true", help=f"add {_FULL:,} memories")
    parser.add_argument("--plot", type=Path, help="draw cost against size as SVG")
    return parser.parse_args()


if __name__ == "__main__":
    main()
