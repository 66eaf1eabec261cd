"""What a repeated text costs: the same texts published five times, each time with new event ids.

Usage: python benchmarks/throughput/repeats.py [--times N] [--limit N] [--rounds N] [--out FILE]

`memsieve run` takes a file with every text once, which is all new, and then a file with all of them
again and again, of which the words are known: nothing has to be encoded or compared. Opening and
closing the store count for neither. The ratio is of events per second over both files to those over
the first alone, in the same run.
"""

import argparse
import tempfile
from pathlib import Path

from benchmarks.harness.embedders import default_embedder
from benchmarks.harness.in_process import run
from benchmarks.harness.material import Event, in_scopes, short_texts, write
from benchmarks.harness.measuring import Result, Rounds, Spread, arguments, ratio

_PROCESSOR = "repeated, by the processor"


def main() -> None:
    options = _options()
    material = short_texts(limit=options.limit)
    events = in_scopes(material.texts)
    count, times = len(events), options.times
    embedder = default_embedder()
    rounds: Rounds = {"new": [], "repeated": [], "all": [], _PROCESSOR: []}
    print(f"{count:,} texts ({material.name}), {times} times; events/s:")
    with tempfile.TemporaryDirectory() as directory:
        first = write(Path(directory) / "first.jsonl", _named(events, range(1)))
        again = write(Path(directory) / "again.jsonl", _named(events, range(1, times)))
        for _ in range(options.rounds):
            new, repeated = run(embedder, first, again).files
            rounds["new"].append(count / new.wall)
            rounds["repeated"].append(count * (times - 1) / repeated.wall)
            rounds["all"].append(count * times / (new + repeated).wall)
            rounds[_PROCESSOR].append(count * (times - 1) / repeated.cpu)
            print({name: round(values[-1]) for name, values in rounds.items()}, flush=True)
    Result(
        benchmark="repeats",
        method=str(__doc__),
        material={**material.about(), "times": times},
        ratios={
            "all_over_new": ratio(rounds["all"], rounds["new"]),
            "repeated_over_new": ratio(rounds["repeated"], rounds["new"]),
        },
        figures={
            "repeated_events_per_second": Spread.of(rounds["repeated"]),
            "repeated_events_per_processor_second": Spread.of(rounds[_PROCESSOR]),
        },
        rounds=rounds,
        packages=("onnxruntime", "qdrant-edge-py"),
    ).give(options.out)


def _named(events: list[Event], passes: range) -> list[Event]:
    return [
        Event(event.scope, event.text, f"pass-{number}-event-{n}")
        for number in passes
        for n, event in enumerate(events)
    ]


def _options() -> argparse.Namespace:
    parser = arguments(__doc__, rounds=5)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--limit", type=int, help="take no more texts than that")
    return parser.parse_args()


if __name__ == "__main__":
    main()
