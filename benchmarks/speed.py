"""Events per second of memsieve, embedded and through Kafka, beside plain fastembed, in one run.

Usage: python benchmarks/speed.py [--texts FILE] [--limit N] [--rounds N] [--out FILE]

All get the same texts with the model loaded beforehand. Plain fastembed embeds them in file order,
as `embed()` does by default, and sorted by their tokens in batches of 32: the raw encoder, with
next to no padding. `memsieve run` also opens a new store, decides on each, applies and closes.
Through Kafka the same events are published, decided on and applied by `memsieve service serve`, with Kafka
on the same cores. Without --texts the locomo observations beside the project are used where they
are there, else generated notes.
"""

import argparse
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.embedders import default_embedder, embed, plain_fastembed, tokens_counter
from benchmarks.in_process import run
from benchmarks.material import Texts, in_scopes, short_texts, write
from benchmarks.measuring import Result, Rounds, arguments, in_turn, rate, ratio
from benchmarks.through_kafka import broker, serving

_RAW_BATCH = 32
_FASTEMBED, _SORTED, _RUN, _KAFKA = "fastembed", "sorted by tokens", "memsieve run", "through Kafka"


def main() -> None:
    options = _options()
    material = short_texts(options.texts, limit=options.limit)
    print(f"{len(material.texts):,} texts ({material.name}), {options.rounds} rounds; per second:")
    with tempfile.TemporaryDirectory() as directory, broker() as bootstrap:
        file = write(Path(directory) / "events.jsonl", in_scopes(material.texts))
        rounds = in_turn(options.rounds, _contestants(material.texts, file, bootstrap))
    _result(material, rounds).give(options.out)


def _contestants(
    texts: list[str], file: Path, bootstrap: str | None
) -> dict[str, Callable[[], float]]:
    embedder, plain, count = default_embedder(), plain_fastembed(), len(texts)

    def through_kafka() -> float:
        nonlocal served_before
        served_before += 1
        with serving(str(bootstrap), f"{os.getpid()}-{served_before}") as served:
            return rate(count, lambda: served.run(file, count))

    def raw() -> None:
        lengths = dict(zip(texts, tokens(texts), strict=True))
        embed(plain, sorted(texts, key=lengths.__getitem__), _RAW_BATCH)

    tokens, served_before = tokens_counter(), 0
    here: dict[str, Callable[[], float]] = {
        _FASTEMBED: lambda: rate(count, lambda: embed(plain, texts)),
        _SORTED: lambda: rate(count, raw),
        _RUN: lambda: count / run(embedder, file).whole.wall,
    }
    return here if bootstrap is None else {**here, _KAFKA: through_kafka}


def _result(material: Texts, rounds: Rounds) -> Result:
    ratios = {
        "run_over_fastembed": ratio(rounds[_RUN], rounds[_FASTEMBED]),
        "run_over_sorted": ratio(rounds[_RUN], rounds[_SORTED]),
    }
    if _KAFKA in rounds:
        ratios["kafka_over_run"] = ratio(rounds[_KAFKA], rounds[_RUN])
    return Result(
        benchmark="speed",
        method=str(__doc__),
        material=material.about(),
        ratios=ratios,
        rounds=rounds,
        packages=("fastembed", "onnxruntime"),
    )


def _options() -> argparse.Namespace:
    parser = arguments(__doc__, rounds=5)
    parser.add_argument("--texts", type=Path, help="JSON Lines with a column text")
    parser.add_argument("--limit", type=int, help="take no more texts than that")
    return parser.parse_args()


if __name__ == "__main__":
    main()
