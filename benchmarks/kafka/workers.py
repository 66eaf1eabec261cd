"""`memsieve service serve` with two workers ÷ with one, where encoding dominates.

Usage: python benchmarks/kafka/workers.py [--events N] [--rounds N] [--out FILE]

Each worker has one thread. The texts are long, and each has a scope of its own, so that hardly
anything but encoding is done; the partitions get equally many. Rates are from the first event's
publication until the last decision is applied. Broker and index, a Qdrant server at QDRANT_URL or
the tests' stand-in, are on the same cores, and so is whatever else runs there. Beside it, the same
texts encoded by one process and by two, without memsieve around it: what this machine gives to two.
The CPU time per event shows what a second worker costs, whatever else runs.
"""

import argparse
import asyncio
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import count, islice
from pathlib import Path

from benchmarks.harness.material import Event, short_texts, write
from benchmarks.harness.measuring import Result, arguments, in_turn, rate, ratio
from benchmarks.harness.through_kafka import broker, installed, publish
from schemas.base import ScopeName
from streams.embedding.fastembed_text import FastembedEmbedder
from streams.model.scope import partition_of
from streams.store.app import settings
from tests.standin.process import StandIn
from tests.support.servers.services import Running, over_rest

_PARTITIONS = 4
_WARM = 2 * _PARTITIONS
"""Events that are not measured: each worker loads lazily."""
_FACTS_EACH = 9
_BATCH = 16
_PAUSE_SECONDS = 0.02
_PATIENCE_SECONDS = 120.0
_ENCODED = "encoders"
_SERVED = "workers"


def main() -> None:
    options = _options()
    texts = _long_texts(options.events)
    print(f"{len(texts):,} events, {options.rounds} rounds; per second:")
    with tempfile.TemporaryDirectory() as directory, broker() as bootstrap:
        if bootstrap is None:
            return
        with _qdrant(Path(directory)) as qdrant:
            events = _in_all_partitions([*(f"Hall {n}." for n in range(_WARM)), *texts])
            warm = write(Path(directory) / "warm.jsonl", events[:_WARM])
            file = write(Path(directory) / "events.jsonl", events[_WARM:])
            served = _Served(bootstrap, qdrant, warm, file, len(texts))
            rounds = in_turn(options.rounds, _contestants(served, texts))
    one, two = (served.cpu_milliseconds[workers] for workers in (1, 2))
    gained = ratio(rounds[f"2 {_SERVED}"], rounds[f"1 {_SERVED}"])
    given = ratio(rounds[f"2 {_ENCODED}"], rounds[f"1 {_ENCODED}"])
    Result(
        benchmark="workers",
        method=str(__doc__),
        material={"texts": f"{_FACTS_EACH} facts each", "count": len(texts)},
        ratios={"two_over_one": gained, "cpu_two_over_one": ratio(two, one, "lower")},
        figures={"encoders_two_over_one": given},
        rounds={**rounds, "cpu_ms_1": one, "cpu_ms_2": two},
        packages=("aiokafka", "onnxruntime", "qdrant-client"),
    ).give(options.out)


def _long_texts(wanted: int) -> list[str]:
    facts = short_texts(limit=wanted * _FACTS_EACH).texts
    numbered = (f"Note {number}." for number in count())
    starts = range(0, len(facts) - _FACTS_EACH + 1, max(1, (len(facts) - _FACTS_EACH) // wanted))
    made = (" ".join([next(numbered), *facts[at : at + _FACTS_EACH]]) for at in starts)
    return list(islice(made, wanted))


def _in_all_partitions(texts: Sequence[str]) -> list[Event]:
    """Return the texts as events of one scope each, in the partitions in turn."""
    names = (ScopeName(f"bench/{number}") for number in count())
    scopes = [
        next(name for name in names if partition_of(name, _PARTITIONS) == number % _PARTITIONS)
        for number in range(len(texts))
    ]
    return [Event(scope, text) for scope, text in zip(scopes, texts, strict=True)]


def _contestants(served: "_Served", texts: Sequence[str]) -> dict[str, Callable[[], float]]:
    return {
        f"1 {_SERVED}": lambda: served.rate(1),
        f"2 {_SERVED}": lambda: served.rate(2),
        f"1 {_ENCODED}": lambda: _encoded(texts, 1),
        f"2 {_ENCODED}": lambda: _encoded(texts, 2),
    }


@contextmanager
def _qdrant(directory: Path) -> Generator[str]:
    """Yield the address of QDRANT_URL or of a stand-in started here."""
    named = os.environ.get("QDRANT_URL")  # noqa: TID251 - the switch that the tests have
    if named:
        yield named
        return
    with StandIn(directory / "qdrant") as server:
        yield server.url


class _Served:
    """The service on topics and a collection of its own for each rate."""

    def __init__(self, bootstrap: str, qdrant: str, warm: Path, file: Path, count: int) -> None:
        self._bootstrap = bootstrap
        self._qdrant = qdrant
        self._warm = warm
        self._file = file
        self._count = count
        self._names = (f"{os.getpid()}-{number}" for number in range(1_000))
        self.cpu_milliseconds: dict[int, list[float]] = {1: [], 2: []}
        """The CPU time of an event, by the number of workers."""

    def rate(self, workers: int) -> float:
        name = next(self._names)
        with tempfile.TemporaryDirectory() as directory:
            installation, prefix = installed(
                Path(directory),
                self._bootstrap,
                name,
                _PARTITIONS,
                embedder__threads="1",
                **over_rest(self._qdrant, f"bench-{name}"),
            )
            with installation.running("serve", "--workers", str(workers)) as service:
                _until(lambda: _shares(service) == [_PARTITIONS // workers] * workers)
                service.wait_until_ready()
                self._work(service, prefix, self._warm, _WARM)
                before = service.cpu_seconds
                done = _WARM + self._count
                made = rate(self._count, lambda: self._work(service, prefix, self._file, done))
                used = service.cpu_seconds - before
                service.stop()
        self.cpu_milliseconds[workers].append(1e3 * used / self._count)
        return made

    def _work(self, service: Running, prefix: str, file: Path, done: int) -> None:
        publish(file, self._bootstrap, prefix)
        _until(lambda: service.metric("memsieve_changes_total") >= done)


def _shares(service: Running) -> list[int]:
    """Return how many partitions of events each worker has."""
    has = "memory.events: has partition(s) "
    told = [line for line in service.lines if line["event"].startswith(has)]
    held = {one.get("worker"): one["event"].removeprefix(has) for one in told}
    return [len(partitions.split(", ")) for partitions in held.values()]


def _until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE_SECONDS
    while not true():
        if time.monotonic() > end:
            raise TimeoutError("the service does not get there")
        time.sleep(_PAUSE_SECONDS)


def _encoded(texts: Sequence[str], processes: int) -> float:
    """Return texts per second, encoded by so many processes with one thread each."""
    shares = [texts[start::processes] for start in range(processes)]
    with multiprocessing.get_context("spawn").Pool(processes, initializer=_encoder) as pool:
        pool.map(_encode, [["warm"]] * processes, chunksize=1)
        return rate(len(texts), lambda: pool.map(_encode, shares, chunksize=1))


@cache
def _encoder() -> FastembedEmbedder:
    """Return the encoder of a process, loaded once."""
    chosen = settings.load({}).embedder
    return FastembedEmbedder(chosen.model, chosen.cache_dir, threads=1)


def _encode(texts: Sequence[str]) -> None:
    for start in range(0, len(texts), _BATCH):
        asyncio.run(_encoder().embed(texts[start : start + _BATCH]))


def _options() -> argparse.Namespace:
    parser = arguments(__doc__, rounds=3)
    parser.add_argument("--events", type=int, default=160)
    return parser.parse_args()


if __name__ == "__main__":
    main()
