"""The measures that memsieve answers for, with targets and today's figures; fails on a regression.

Usage: python benchmarks/gate.py DIRECTORY [--keep]

DIRECTORY holds the results of this run, as the benchmarks' --out wrote them. A ratio that has less
than 60 % of what the newest committed result of its benchmark has (where lower is better: more than
that divided by .6) is a regression, and ends it with 1. Absolute figures are shown with their
targets and fail nothing: they are the machine's as much as ours. --keep copies the results to
benchmarks/results, to be committed.
"""

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.harness.measuring import RESULTS, Better

MARGIN = 0.6
"""Shared machines are noisy: two runs of one version have differed by a third."""

Results: TypeAlias = Mapping[str, Mapping[str, Any]]
"""The result of each benchmark, by its name."""


@dataclass(frozen=True)
class Measure:
    """One line of the table: what is measured, where the result is, and its target."""

    what: str
    benchmark: str
    name: str
    target: float
    better: Better = "higher"

    def median(self, results: Results) -> float | None:
        value = self._found(results)
        return value["median"] if isinstance(value, dict) else value

    def spread(self, results: Results) -> str:
        """Return the least and the greatest figure of the rounds; empty where there is but one."""
        value = self._found(results)
        if not isinstance(value, dict) or value["min"] == value["max"]:
            return ""
        return f"{_shown(value['min'])} to {_shown(value['max'])}"

    def _found(self, results: Results) -> "float | dict[str, float] | None":
        found = results.get(self.benchmark, {"ratios": {}, "figures": {}})
        every: dict[str, float | dict[str, float]] = {**found["ratios"], **found["figures"]}
        return every.get(self.name)

    def is_met(self, value: float) -> bool:
        return value >= self.target if self.better == "higher" else value <= self.target


MEASURES = (
    Measure("memsieve run ÷ encoder sorted by tokens", "speed", "run_over_sorted", 0.9),
    Measure("the same in bf16", "speed", "fast_run_over_fast_encoder", 0.8),
    Measure("the same on chat messages", "speed", "chat_run_over_sorted", 0.9),
    Measure(
        "all but encoding ÷ encoding, many alike", "speed", "rest_over_encoding", 0.35, "lower"
    ),
    Measure("memsieve run ÷ fastembed in file order", "speed", "run_over_fastembed", 3.8),
    Measure("service serve ÷ afternoon script, Kafka", "afternoon", "serve_over_afternoon", 5),
    Measure("fast ÷ exact encoder", "encoder", "fast_over_exact", 1.7),
    Measure(
        "locomo decided otherwise in bf16", "precisions", "locomo_decided_otherwise", 0, "lower"
    ),
    Measure(
        "agnews decided otherwise in bf16", "precisions", "agnews_decided_otherwise", 0, "lower"
    ),
    Measure("texts five times ÷ once, events/s", "repeats", "all_over_new", 4),
    Measure("pure repeats, events/s", "repeats", "repeated_events_per_second", 8_000),
    Measure("vectors given, one core, events/s", "given-vectors", "facts_events_per_second", 5_000),
    Measure(
        "whole cost at 100 k ÷ 10 k",
        "store-size",
        "whole_cost_at_100000_over_10000",
        1.2,
        "lower",
    ),
    Measure(
        "whole cost at 1 M ÷ 10 k", "store-size", "whole_cost_at_1000000_over_10000", 1.2, "lower"
    ),
    Measure(
        "search p50 at 1 M, scope of 1,000, ms",
        "store-size",
        "search_p50_ms_in_middle_at_1000000",
        0.5,
        "lower",
    ),
    Measure(
        "search p50 at 1 M, scope of 100,000, ms",
        "store-size",
        "search_p50_ms_in_large_at_1000000",
        8,
        "lower",
    ),
    Measure("opening a store of 1 M, s", "store-size", "open_seconds_at_1000000", 2, "lower"),
    Measure("publish → decision, p50, ms", "latency", "decision_p50_ms", 20, "lower"),
    Measure("publish → decision, p99, ms", "latency", "decision_p99_ms", 60, "lower"),
    Measure("two workers ÷ one, events/s", "workers", "two_over_one", 1.8),
    Measure(
        "resident with model at 100 k, MB",
        "store-size",
        "resident_mb_with_model_at_100000",
        450,
        "lower",
    ),
    Measure(
        "start to first decision, s", "latency", "start_to_first_decision_seconds", 1.5, "lower"
    ),
    Measure("memsieve --version, s", "commands", "version_seconds", 0.15, "lower"),
    Measure("search in a small store, s", "commands", "search_seconds", 0.8, "lower"),
    Measure("Memories.md of 1,000 parsed, ms", "memories-md", "parse_ms", 10, "lower"),
    Measure("one entry of 1,000 written, ms", "memories-md", "write_ms", 10, "lower"),
    Measure("one entry of 1,500 kept by a writer, ms", "memories-md", "sink_ms", 10, "lower"),
    Measure("recall from 1,000 without a query, ms", "memories-md", "recall_ms", 5, "lower"),
    Measure(
        "index of 2,000 memories built anew, s", "location-memories", "rebuild_seconds", 5, "lower"
    ),
    Measure(
        "decision at a place of 100, p50, ms", "location-memories", "decision_p50_ms", 100, "lower"
    ),
    Measure("one by one ÷ one matrix, 50 vectors", "location-memories", "loop_over_vectorised", 10),
    Measure("exact repeats caught", "location-memories", "repeats_caught", 0.95),
    Measure("distinct facts merged", "location-memories", "distinct_merged", 0.02, "lower"),
    Measure("consolidation, memories/s", "consolidation", "memories_per_second", 3_333),
    Measure("consolidation of 100,000, MiB", "consolidation", "mebibytes", 1_536, "lower"),
    Measure("planted groups found, B³ F1", "consolidation", "b_cubed_f1", 0.95),
    Measure("one memory of many forgotten, s", "forgetting", "seconds", 1, "lower"),
    Measure("30 read memories put together, ms", "loading", "memories_first_ms", 20, "lower"),
    Measure("30 new memories put together, ms", "loading", "memories_new_ms", 20, "lower"),
    Measure("Memories.md of the game smaller by", "game", "file_smaller", 0.2),
    Measure("memory tokens of the game fewer by", "game", "context_tokens_fewer", 0.1),
    Measure("tokens for a prompt, at most", "game", "prompt_tokens_max", 300, "lower"),
)


def main() -> None:
    options = _options()
    today, committed = _read(options.directory.glob("*.json")), _committed()
    _table(today, committed)
    worse = list(_regressions(today, committed))
    if options.keep:
        for name, result in today.items():
            kept = RESULTS / f"{name}-{result['date']}.json"
            kept.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    if worse:
        raise SystemExit("\n".join(["slower than what is committed:", *worse]))


def _table(today: Results, committed: Results) -> None:
    print(f"{'measure':<42}{'target':>10}{'committed':>11}{'today':>10}  {'spread':<18}")
    for measure in MEASURES:
        value = measure.median(today)
        sign = "≥" if measure.better == "higher" else "≤"
        verdict = "not measured" if value is None else "" if measure.is_met(value) else "missed"
        print(
            f"{measure.what:<42}{f'{sign} {measure.target:,g}':>10}"
            f"{_shown(measure.median(committed)):>11}{_shown(value):>10}"
            f"  {measure.spread(today):<18}{verdict}".rstrip()
        )


def _regressions(today: Results, committed: Results) -> Iterator[str]:
    for benchmark, result in today.items():
        before = committed.get(benchmark, {}).get("ratios", {})
        for name, ratio in result.get("ratios", {}).items():
            if name in before and _is_worse(ratio, before[name]["median"]):
                now, then = ratio["median"], before[name]["median"]
                yield f"{benchmark}: {name.replace('_', ' ')} is {now:g}, was {then:g}"


def _is_worse(ratio: Mapping[str, Any], before: float) -> bool:
    if ratio["better"] == "higher":
        return ratio["median"] < before * MARGIN
    return ratio["median"] > before / MARGIN


def _committed() -> Results:
    """Return the newest committed result of each benchmark."""
    return _read(sorted(RESULTS.glob("*.json")))


def _read(files: "Iterator[Path] | list[Path]") -> Results:
    """Return the newest result of each benchmark; files of another kind are skipped."""
    read = (json.loads(file.read_text(encoding="utf-8")) for file in files)
    results = sorted((one for one in read if "benchmark" in one), key=lambda one: one["date"])
    return {one["benchmark"]: one for one in results}


def _shown(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if value < 1_000 else f"{value:,.0f}"  # noqa: PLR2004 - three digits


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--keep", action="store_true", help="copy the results to be committed")
    return parser.parse_args()


if __name__ == "__main__":
    main()
