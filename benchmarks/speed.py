"""Events per second of `memsieve run`, beside texts per second of plain fastembed, in one run.

Usage: python benchmarks/speed.py [--texts FILE] [--rounds N] [--out FILE --date DATE]

Both get the same texts, in file order, with the model loaded beforehand: plain fastembed only
embeds them, memsieve also opens a new store, decides on each, applies and closes. The rounds
alternate, so that a machine that slows down slows both. Without --texts the locomo observations
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
from importlib import metadata
from pathlib import Path

from fastembed import TextEmbedding

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
    print(f"{'round':<7}{'fastembed':>12}{'memsieve run':>14}{'ratio':>8}")
    rates: list[tuple[float, float]] = []
    for number in range(1, options.rounds + 1):
        rate = (
            _rate(len(texts), lambda: _embed(plain, texts)),
            _rate(len(texts), lambda: _run(embedder, texts)),
        )
        rates.append(rate)
        print(f"{number:<7}{rate[0]:>12,.0f}{rate[1]:>14,.0f}{rate[1] / rate[0]:>8.2f}")
    ratios = [ours / theirs for theirs, ours in rates]
    median = statistics.median(ratios)
    print(
        f"memsieve run ÷ fastembed embed(): {median:.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
    )
    if options.out:
        options.out.write_text(_result(options.date, name, texts, rates), encoding="utf-8")
    if median < GATE:
        raise SystemExit(f"slower than {GATE} of plain fastembed")


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


def _run(embedder: Embedder, texts: list[str]) -> None:
    """Do what `memsieve run` does once its model is loaded; scopes of some 70 events each."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "events.jsonl"
        rows = ({"scope": f"bench/{n // 70}", "text": text} for n, text in enumerate(texts))
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
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


def _result(date: str, name: str, texts: list[str], rates: list[tuple[float, float]]) -> str:
    ratios = [ours / theirs for theirs, ours in rates]
    result = {
        "measure": "memsieve run, events/s ÷ plain fastembed embed() in file order, texts/s",
        "date": date,
        "machine": f"{platform.machine()}, {_cores()} cores, shared",
        "python": platform.python_version(),
        "fastembed": metadata.version("fastembed"),
        "onnxruntime": metadata.version("onnxruntime"),
        "texts": {"from": name, "count": len(texts)},
        "rounds": [{"fastembed": round(a, 1), "memsieve": round(b, 1)} for a, b in rates],
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
