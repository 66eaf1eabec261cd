"""memsieve's services beside the script that somebody writes in an afternoon, on the same Kafka.

Usage: python benchmarks/kafka/beside_afternoon.py [--events N] [--rounds N] [--out FILE]

Both get the same events, published the same way into topics of three partitions, and have decided
on one before. memsieve is `memsieve service serve`, deduplicator and writer, and is done when every event is
decided on and applied; peers/afternoon.py when every decision is published. The broker and both
clients are on the same cores; rounds alternate.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from aiokafka import AIOKafkaConsumer, TopicPartition

from benchmarks.harness.material import Event, in_scopes, short_texts, write
from benchmarks.harness.measuring import Result, arguments, in_turn, rate, ratio
from benchmarks.harness.through_kafka import PARTITIONS, broker, installed, publish, serving
from schemas.topics import CHANGES, EVENTS
from streams.store.app import settings, wiring

_SCRIPT = Path(__file__).parents[1] / "peers/afternoon.py"
_DECISIONS = CHANGES.name
"""Where the script publishes its decisions: a topic that takes records without a key."""
_PATIENCE_SECONDS = 300.0
_PAUSE_SECONDS = 0.02
_STOP_SECONDS = 20.0
_MEMSIEVE, _AFTERNOON = "memsieve service serve", "afternoon script"


def main() -> None:
    options = _options()
    material = short_texts(limit=options.events)
    print(f"{len(material.texts):,} events ({material.name}), {options.rounds} rounds; per second:")
    with tempfile.TemporaryDirectory() as directory, broker() as bootstrap:
        if bootstrap is None:
            return
        first = write(
            Path(directory) / "first.jsonl", [Event("bench/first", "The hall has a clock.")]
        )
        file = write(Path(directory) / "events.jsonl", in_scopes(material.texts))
        rounds = in_turn(options.rounds, _contestants(bootstrap, first, file, len(material.texts)))
    Result(
        benchmark="afternoon",
        method=str(__doc__),
        material=material.about(),
        ratios={"serve_over_afternoon": ratio(rounds[_MEMSIEVE], rounds[_AFTERNOON])},
        rounds=rounds,
        packages=("faststream", "fastembed", "onnxruntime", "qdrant-client", "qdrant-edge-py"),
    ).give(options.out)


def _contestants(
    bootstrap: str, first: Path, file: Path, count: int
) -> dict[str, Callable[[], float]]:
    names = (f"{os.getpid()}-{number}" for number in range(1_000))

    def memsieve() -> float:
        with serving(bootstrap, next(names)) as served:
            served.run(first, 1)
            return rate(count, lambda: served.run(file, 1 + count))

    def afternoon() -> float:
        with _running(bootstrap, next(names)) as script:
            script.run(first, 1)
            return rate(count, lambda: script.run(file, 1 + count))

    return {_MEMSIEVE: memsieve, _AFTERNOON: afternoon}


@contextmanager
def _running(bootstrap: str, name: str) -> "Generator[_Script]":
    """Run the script on its own topics."""
    chosen = settings.load({}).embedder
    with tempfile.TemporaryDirectory() as directory:
        _, prefix = installed(Path(directory), bootstrap, name)
        command = [
            *(sys.executable, str(_SCRIPT), "--bootstrap", bootstrap),
            *("--events", f"{prefix}{EVENTS.name}", "--decisions", f"{prefix}{_DECISIONS}"),
            *("--store", f"{directory}/store", "--model", chosen.model),
            *("--model-path", str(wiring.verify_model(chosen))),
        ]
        with (Path(directory) / "said").open("w") as said:
            process = subprocess.Popen(command, stdout=said, stderr=said)  # noqa: S603 - ours
        try:
            yield _Script(process, bootstrap, prefix)
        finally:
            process.terminate()
            process.wait(_STOP_SECONDS)


class _Script:
    """The script in a separate process."""

    def __init__(self, process: "subprocess.Popen[bytes]", bootstrap: str, prefix: str) -> None:
        self._process = process
        self._bootstrap = bootstrap
        self._prefix = prefix

    def run(self, file: Path, count: int) -> None:
        """Publish a file, and return once `count` decisions in total are published."""
        publish(file, self._bootstrap, self._prefix)
        asyncio.run(self._until_decided(count))

    async def _until_decided(self, count: int) -> None:
        consumer: AIOKafkaConsumer[bytes, bytes] = AIOKafkaConsumer(
            bootstrap_servers=self._bootstrap
        )
        places = [TopicPartition(f"{self._prefix}{_DECISIONS}", n) for n in range(PARTITIONS)]
        await consumer.start()
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while sum((await consumer.end_offsets(places)).values()) < count:
                    if self._process.poll() is not None:
                        raise RuntimeError("the afternoon script has ended")
                    await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            await consumer.stop()


def _options() -> argparse.Namespace:
    parser = arguments(__doc__, rounds=5)
    parser.add_argument("--events", type=int, default=1_000)
    return parser.parse_args()


if __name__ == "__main__":
    main()
