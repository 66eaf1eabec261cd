"""Everything but encoding: events through `memsieve run` on one core, with their vectors given.

Usage: python benchmarks/throughput/given_vectors.py [--events N] [--scopes N] [--rounds N] [--out FILE]

The embedder looks vectors up that were made beforehand; reading the file, the log, the index,
guards, judge, decisions and the writer are all there; loading judge and lexicon is left out. Three
streams. Generated distinct facts, in turn over the scopes, of which a fiftieth is near an earlier
one; and, where it lies beside the project, chat by user, with its exact repeats: a vector of these
follows from a text's words and is otherwise random, so that next to nothing else is near. And the
locomo observations (else generated notes) with the model's own vectors, made beforehand: as near
to each other as real texts are, so that guards, judge and merges have their share.
The process keeps to one core; rates are per second of the processor, which others disturb less.
Beside it, on the same core: plain fastembed over short texts, per second of the processor. After
the rounds one more is sampled, which shows where the time goes, loading included.
"""

import argparse
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from benchmarks.harness.embedders import embed, plain_fastembed
from benchmarks.harness.in_process import recorded, run
from benchmarks.harness.material import Event, chitchat, facts, in_scopes, short_texts, write
from benchmarks.harness.measuring import (
    Result,
    Spread,
    Watch,
    arguments,
    in_turn,
    on_one_core,
    ratio,
    sampled,
)
from benchmarks.harness.vectors import Given, of_texts

_ENCODED = 256
"""Texts that plain fastembed embeds per round."""
_STAGES = 25
_FASTEMBED, _REAL = "fastembed", "locomo"


def main() -> None:
    options = _options()
    on_one_core()
    streams = _streams(options.events, options.scopes)
    print({name: len(events) for name, events in streams.items()}, "events; per processor second:")
    with tempfile.TemporaryDirectory() as directory:
        runs = {
            name: _Run(name, events, write(Path(directory) / f"{name}.jsonl", events))
            for name, events in streams.items()
        }
        contestants = {_FASTEMBED: _encoding(), **{n: one.rate for n, one in runs.items()}}
        rounds = in_turn(options.rounds, contestants)
        stages = {name: one.stages() for name, one in runs.items()}
    for name, found in stages.items():
        _show(name, found)
    scopes = {name: len({event.scope for event in events}) for name, events in streams.items()}
    Result(
        benchmark="given-vectors",
        method=str(__doc__),
        material={
            "events": {name: len(events) for name, events in streams.items()},
            "scopes": scopes,
            "microseconds_by_module": stages,
        },
        ratios={f"{name}_over_fastembed": ratio(rounds[name], rounds[_FASTEMBED]) for name in runs},
        figures={f"{name}_events_per_second": Spread.of(rounds[name]) for name in runs},
        rounds={**rounds, **{f"{name}, by the wall": one.walls for name, one in runs.items()}},
        packages=("fastembed", "onnxruntime", "qdrant-edge-py"),
    ).give(options.out)


class _Run:
    """A stream that can be decided on repeatedly."""

    def __init__(self, name: str, events: list[Event], file: Path) -> None:
        self._count = len(events)
        self._embedder = Given(recorded(file) if name == _REAL else of_texts(events))
        self._file = file
        self.walls: list[float] = []

    def rate(self) -> float:
        """Return events per second of CPU time, and record those of wall time."""
        cost = run(self._embedder, self._file).working
        self.walls.append(self._count / cost.wall)
        return self._count / cost.cpu

    def stages(self) -> dict[str, float]:
        """Return the microseconds per event by module, the most expensive first."""
        modules: Counter[str] = Counter()
        with sampled(modules):
            cost = run(self._embedder, self._file).whole
        each = cost.cpu / self._count / modules.total() * 1e6
        return {name: round(n * each, 1) for name, n in modules.most_common(_STAGES)}


def _encoding() -> Callable[[], float]:
    """Return a function that measures plain fastembed in texts per second of CPU time."""
    plain, texts = plain_fastembed(), short_texts(limit=_ENCODED).texts

    def rate() -> float:
        watch = Watch()
        embed(plain, texts)
        return len(texts) / watch.lap().cpu

    return rate


def _streams(events: int, scopes: int) -> dict[str, list[Event]]:
    streams = {"facts": facts(events, scopes), _REAL: in_scopes(short_texts().texts)}
    chat = chitchat(events)
    return streams if chat is None else {**streams, "chitchat": chat}


def _show(name: str, stages: dict[str, float]) -> None:
    print(f"{name}: where the microseconds of an event go")
    for module, microseconds in stages.items():
        print(f"{microseconds:>10.1f}  {module}")


def _options() -> argparse.Namespace:
    parser = arguments(__doc__, rounds=5)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--scopes", type=int, default=1_000)
    return parser.parse_args()


if __name__ == "__main__":
    main()
