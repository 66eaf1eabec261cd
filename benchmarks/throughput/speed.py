"""Events per second of memsieve, embedded and through Kafka, beside plain fastembed, in one run.

Usage: python benchmarks/throughput/speed.py [--texts FILE] [--limit N] [--rounds N] [--out FILE]

All get the same texts with the model loaded beforehand. Plain fastembed embeds them in file order,
as `embed()` does by default, and sorted by their tokens in batches of 32: the raw encoder, with
next to no padding. `memsieve run` also opens a new store, decides on each, applies and closes; once
more with the vectors given, which leaves all but encoding. Where this machine has bf16, run and
encoder are also compared in it. Through Kafka the same events are published, decided on and applied
by `memsieve service serve`, with Kafka on the same cores. Without --texts the locomo observations
beside the project are used where they are there, else generated notes. Chat messages by user, of
which few are alike, go through the encoder and `memsieve run` where they lie beside the project.
"""

import argparse
import asyncio
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from fastembed import TextEmbedding

from benchmarks.harness.embedders import (
    default_embedder,
    embed,
    fast_embedder,
    plain_fastembed,
    tokens_counter,
)
from benchmarks.harness.in_process import recorded, run
from benchmarks.harness.material import Texts, chitchat, in_scopes, short_texts, write
from benchmarks.harness.measuring import Result, Rounds, Spread, arguments, in_turn, rate, ratio
from benchmarks.harness.through_kafka import broker, serving
from benchmarks.harness.vectors import Given
from streams.model.ports.models import Embedder

_RAW_BATCH = 32
_FASTEMBED, _SORTED, _RUN, _KAFKA = "fastembed", "sorted by tokens", "memsieve run", "through Kafka"
_GIVEN, _FAST, _FAST_RUN = "vectors given", "encoder in bf16", "run in bf16"
_CHAT, _CHAT_RUN = "chat, sorted", "chat, memsieve run"


def main() -> None:
    options = _options()
    material = short_texts(options.texts, limit=options.limit)
    print(f"{len(material.texts):,} texts ({material.name}), {options.rounds} rounds; per second:")
    with tempfile.TemporaryDirectory() as directory, broker() as bootstrap:
        file = write(Path(directory) / "events.jsonl", in_scopes(material.texts))
        contestants = _contestants(material.texts, file, bootstrap)
        chat = chitchat(options.chat)
        if chat is not None:
            talk = write(Path(directory) / "chat.jsonl", chat)
            contestants |= _on_chat([event.text for event in chat], talk)
        rounds = in_turn(options.rounds, contestants)
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

    served_before = 0
    given = Given(recorded(file))
    here: dict[str, Callable[[], float]] = {
        _FASTEMBED: lambda: rate(count, lambda: embed(plain, texts)),
        _SORTED: lambda: _sorted_rate(plain, texts),
        _RUN: lambda: count / run(embedder, file).whole.wall,
        _GIVEN: lambda: count / run(given, file).working.wall,
    }
    if (fast := fast_embedder()) is not None:
        here[_FAST] = lambda: _encoding_rate(fast, texts)
        here[_FAST_RUN] = lambda: count / run(fast, file).whole.wall
    return here if bootstrap is None else {**here, _KAFKA: through_kafka}


def _on_chat(texts: list[str], file: Path) -> dict[str, Callable[[], float]]:
    embedder, plain = default_embedder(), plain_fastembed()
    return {
        _CHAT: lambda: _sorted_rate(plain, texts),
        _CHAT_RUN: lambda: len(texts) / run(embedder, file).whole.wall,
    }


def _sorted_rate(plain: TextEmbedding, texts: list[str]) -> float:
    """Return texts per second of plain fastembed, in batches of texts of similar length."""
    lengths = dict(zip(texts, tokens_counter()(texts), strict=True))
    return rate(
        len(texts), lambda: embed(plain, sorted(texts, key=lengths.__getitem__), _RAW_BATCH)
    )


def _encoding_rate(embedder: Embedder, texts: list[str]) -> float:
    return rate(len(texts), lambda: asyncio.run(embedder.embed(texts)))


def _result(material: Texts, rounds: Rounds) -> Result:
    ratios = {
        "run_over_fastembed": ratio(rounds[_RUN], rounds[_FASTEMBED]),
        "run_over_sorted": ratio(rounds[_RUN], rounds[_SORTED]),
    }
    rest = [encoded / given for encoded, given in zip(rounds[_SORTED], rounds[_GIVEN], strict=True)]
    ratios["rest_over_encoding"] = Spread.of(rest, "lower")
    if _FAST in rounds:
        ratios["fast_run_over_fast_encoder"] = ratio(rounds[_FAST_RUN], rounds[_FAST])
    if _CHAT in rounds:
        ratios["chat_run_over_sorted"] = ratio(rounds[_CHAT_RUN], rounds[_CHAT])
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
    parser.add_argument("--chat", type=int, default=50_000, help="take so many chat messages")
    return parser.parse_args()


if __name__ == "__main__":
    main()
