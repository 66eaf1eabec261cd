"""Decisions with vectors in bf16 beside those with exact ones, on the same events.

Usage: python benchmarks/models/precisions.py [--limit N] [--out FILE]

The locomo observations and, where they lie beside the project, news, in scopes of some 70; else
generated notes. Each stream goes through `memsieve run` twice, into stores of their own, under the
default policy: once with `embedder.precision` exact, once fast. An event is decided alike where the
kind of the decision, the memories that it names and what they then say are the same. Skipped where
this machine has no bf16.
"""

import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.harness.in_process import run_into
from benchmarks.harness.material import STREAMS, Event, in_scopes, short_texts, write
from benchmarks.harness.measuring import Result, arguments
from schemas.base import EventId
from schemas.decisions import Change, Decision
from streams.embedding.install import describe
from streams.embedding.precision import settled
from streams.replay.core import DecisionDifferences
from streams.store.app import settings, wiring
from streams.store.app.reading import LogTarget, reading

_EXACT = "exact"
_SHOWN = 3


def main() -> None:
    parser = arguments(__doc__, rounds=None)
    parser.add_argument("--limit", type=int, help="take no more texts than that of each stream")
    options = parser.parse_args()
    best = settled("auto", describe(settings.load({}).embedder.model))
    if best == _EXACT:
        print("skipped: this processor has no bf16, or the extra memsieve[fast] is missing")
        return
    found: dict[str, DecisionDifferences] = {}
    streams = _streams(options.limit)
    for name, events in streams.items():
        print(f"{len(events):,} events of {name}, exact and {best}", flush=True)
        found[name] = _compared(events, best)
        _show(found[name])
    Result(
        benchmark="precisions",
        method=str(__doc__),
        material={name: len(events) for name, events in streams.items()},
        figures={
            f"{name}_decided_otherwise": float(sum(one.changed.values()))
            for name, one in found.items()
        },
        packages=("onnxruntime", "openvino"),
    ).give(options.out)


def _streams(limit: int | None) -> dict[str, list[Event]]:
    texts = {"locomo": short_texts(limit=limit)}
    news = STREAMS / "agnews.jsonl"
    if news.exists():
        texts["agnews"] = short_texts(news, limit=limit)
    return {name: in_scopes(one.texts) for name, one in texts.items()}


def _compared(events: list[Event], best: str) -> DecisionDifferences:
    with tempfile.TemporaryDirectory() as directory:
        file = write(Path(directory) / "events.jsonl", events)
        exact, fast = (
            asyncio.run(_decisions(file, Path(directory) / name, name)) for name in (_EXACT, best)
        )
    differences = DecisionDifferences()
    for event_id, decision in fast.items():
        differences.compare(exact[event_id], decision)
    return differences


async def _decisions(file: Path, store: Path, precision: str) -> Mapping[EventId, Decision]:
    """Decide on a file's events in one precision; return the decisions by event id."""
    chosen = settings.load({"store": store}).embedder.model_copy(update={"precision": precision})
    await run_into(store, wiring.embedder(chosen, print), file)
    async with reading(LogTarget.of_store(settings.load({"store": store}))) as reader:
        decisions = [entry.decision async for entry in reader.decisions()]
    return {EventId(one.event.event_id): one for one in decisions if isinstance(one, Change)}


def _show(differences: DecisionDifferences) -> None:
    print(
        f"decided alike: {sum(differences.compared.values()) - sum(differences.changed.values())}"
    )
    for (before, after), count in differences.changed.items():
        print(f"{count} times {before} became {after}")
        for one in differences.examples[before, after][:_SHOWN]:
            print(f"  {one.after.event.text if isinstance(one.after, Change) else ''!r}")


if __name__ == "__main__":
    main()
