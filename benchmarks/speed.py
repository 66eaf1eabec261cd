"""Events per second of memsieve, embedded and through Kafka, beside plain fastembed, in one run.

Usage: python benchmarks/speed.py [--texts FILE] [--rounds N] [--out FILE --date DATE]

Both get the same texts, in file order, with the model loaded beforehand: plain fastembed only
embeds them, `memsieve run` also opens a new store, decides on each, applies and closes. Through
Kafka the same events are published, decided on and applied by `memsieve serve`, with Kafka on the
same cores. The rounds alternate, so that a machine that slows down slows all. Without --texts the locomo observations
beside the project are used where they are there, else generated notes.
"""

import argparse
import asyncio
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from fastembed import TextEmbedding

from benchmarks.through_kafka import broker, serving
from streams.adapters.files import FileSource
from streams.apps import policies, settings, wiring
from streams.apps.processes import embedded
from streams.core.mapping import FieldMapping
from streams.ports import Embedder

SHARED = Path(__file__).parents[2] / "shared/data/streams/locomo_observations.jsonl"
GATE = 0.9
"""The least ratio that passes."""


def main() -> None:
    options = _options()
    name, texts = _texts(options.texts)
    chosen = settings.load({}).embedder
    embedder = wiring.embedder(chosen, print)
    plain = TextEmbedding(
        chosen.model, specific_model_path=str(wiring.verify_model(chosen)), cuda=False
    )
    print(f"{len(texts):,} texts ({name}), {options.rounds} rounds; per second:")
    print(f"{'round':<7}{'fastembed':>12}{'memsieve run':>14}{'ratio':>8}{'through Kafka':>15}")
    with tempfile.TemporaryDirectory() as directory, broker() as bootstrap:
        file = _events(Path(directory), texts)
        rounds = [
            _round(number, plain, embedder, bootstrap, texts, file)
            for number in range(1, options.rounds + 1)
        ]
    ratios = [one.ratio for one in rounds]
    median = statistics.median(ratios)
    print(
        f"memsieve run ÷ fastembed embed(): {median:.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    )
    if shares := [one.kafka / one.run for one in rounds if one.kafka is not None]:
        print(
            f"through Kafka ÷ memsieve run: {statistics.median(shares):.2f} "
            f"({min(shares):.2f} to {max(shares):.2f})"
        )
    if options.out:
        options.out.write_text(_result(options.date, name, texts, rounds), encoding="utf-8")
    if median < GATE:
        raise SystemExit(f"slower than {GATE} of plain fastembed")


@dataclass(frozen=True)
class Round:
    """What each came to, per second; `kafka` None where there is no broker."""

    fastembed: float
    run: float
    kafka: float | None

    @property
    def ratio(self) -> float:
        return self.run / self.fastembed


def _round(
    number: int,
    plain: TextEmbedding,
    embedder: Embedder,
    bootstrap: str | None,
    texts: list[str],
    file: Path,
) -> Round:
    count = len(texts)
    fastembed = _rate(count, lambda: _embed(plain, texts))
    run = _rate(count, lambda: _run(embedder, file))
    kafka = None
    if bootstrap is not None:
        with serving(bootstrap, f"{os.getpid()}-{number}") as served:
            kafka = _rate(count, lambda: served.run(file, count))
    shown = "" if kafka is None else f"{kafka:>15,.0f}"
    print(f"{number:<7}{fastembed:>12,.0f}{run:>14,.0f}{run / fastembed:>8.2f}{shown}")
    return Round(fastembed, run, kafka)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=Path, help="JSON Lines with a column text")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--date", help="the date to write into the result")
    return parser.parse_args()


def _texts(chosen: Path | None) -> tuple[str, list[str]]:
    path = chosen or (SHARED if SHARED.exists() else None)
    if path is None:
        things = ("printer", "lift", "badge reader", "coffee machine", "projector")
        notes = [
            f"On day {n} the {things[n % 5]} in room {n * 37 % 211} was found "
            + "working again after it had been reset " * (n % 4)
            + "by the caretaker."
            for n in range(1_200)
        ]
        return "generated", notes
    rows = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return path.name, [row["text"] for row in rows]


def _embed(plain: TextEmbedding, texts: list[str]) -> None:
    for _ in plain.embed(texts):
        pass


def _events(directory: Path, texts: list[str]) -> Path:
    """Write the texts as events, in scopes of some 70 each."""
    file = directory / "events.jsonl"
    rows = ({"scope": f"bench/{n // 70}", "text": text} for n, text in enumerate(texts))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


def _run(embedder: Embedder, file: Path) -> None:
    """Do what `memsieve run` does once its model is loaded."""
    with tempfile.TemporaryDirectory() as directory:
        chosen = settings.load({"store": Path(directory) / "store"})

        async def work() -> None:
            policy = policies.load("default")
            async with embedded(chosen, policy, embedder, print) as pipeline:
                await pipeline.run(FileSource(str(file)), FieldMapping(), lambda _: None)
                pipeline.tally.check()

        asyncio.run(work())


def _rate(count: int, work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return count / (time.perf_counter() - started)


def _result(date: str, name: str, texts: list[str], rounds: list[Round]) -> str:
    ratios = [one.ratio for one in rounds]
    result = {
        "measure": "memsieve run, events/s ÷ plain fastembed embed() in file order, texts/s",
        "through_kafka": "memsieve serve, events/s from the first publish to the last change",
        "date": date,
        "machine": f"{platform.machine()}, {_cores()} cores, shared",
        "python": platform.python_version(),
        "fastembed": metadata.version("fastembed"),
        "onnxruntime": metadata.version("onnxruntime"),
        "texts": {"from": name, "count": len(texts)},
        "rounds": [
            {
                "fastembed": round(one.fastembed, 1),
                "memsieve": round(one.run, 1),
                "through_kafka": None if one.kafka is None else round(one.kafka, 1),
            }
            for one in rounds
        ],
        "ratio": {
            "median": round(statistics.median(ratios), 2),
            "min": round(min(ratios), 2),
            "max": round(max(ratios), 2),
        },
    }
    return json.dumps(result, indent=2) + "\n"


def _cores() -> int:
    return len(os.sched_getaffinity(0))


if __name__ == "__main__":
    main()
