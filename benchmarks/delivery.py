"""What fencing costs, how fast the writer is, and what a takeover takes.

Usage: python benchmarks/delivery.py [--decisions N] [--rounds N] [--out FILE --date DATE]

Fencing: the same events, with vectors that cost nothing, are decided on and applied with all
checks, and with a reader that believes every record and an owner that looks at no offsets; the
rounds alternate, and count the processor's seconds, which others' work disturbs less. Writer: generated decisions are applied to an empty embedded index, from the
log, as `replay rematerialise` does. Takeover: 10,000 decisions that no index has are read into an
overlay. Seconds are those of the wall, on whatever else the machine does.
"""

import argparse
import asyncio
import json
import os
import platform
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import numpy as np

from schemas.base import ModelId, Position
from schemas.codec import DECISION, EVENT
from schemas.events import Remember
from schemas.topics import EVENTS, TOPICS
from streams.adapters.indexes.edge import EdgeIndex
from streams.adapters.indexes.exact import ExactIndex
from streams.adapters.lexicons import english
from streams.adapters.local_broker import LocalBroker
from streams.apps import policies
from streams.core.decide import Case, Encoded, Unworded, decide
from streams.core.embedding import Embedded, pack
from streams.core.fences import Epoch
from streams.core.language.reading import Readings
from streams.flow import decisions as reading
from streams.flow.decisions import INDEXED, decision_record, fence_record
from streams.flow.deduplicate import Deduplicator
from streams.flow.judging import Judging
from streams.flow.owner import Owner
from streams.flow.takeover import take_over
from streams.flow.writer import Writer, catch_up
from streams.ports import Outgoing
from streams.runtime.consumer import Consumer
from streams.runtime.failures import RetryPolicy

DIMENSION = 384
TAKEN_OVER = 10_000
FENCED_EVENTS = 4_000
START = datetime(2026, 3, 1, tzinfo=UTC)
POLICY = policies.load("default")


def main() -> None:
    options = _options()
    result = asyncio.run(_measure(options.decisions, options.rounds))
    print(json.dumps(result, indent=2))
    if options.out:
        about = {
            "date": options.date,
            "machine": f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores, shared",
            "python": platform.python_version(),
        }
        options.out.write_text(json.dumps({**about, **result}, indent=2) + "\n", encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--date", help="the date to write into the result")
    return parser.parse_args()


async def _measure(decisions: int, rounds: int) -> dict[str, object]:
    shares: list[float] = []
    for _ in range(rounds):
        with _believing_everybody():
            bare = await _deciding()
        shares.append(await _deciding() / bare)
    async with _log() as log:
        await _decided(log, decisions)
        writing = await _writing(log, decisions)
    async with _log() as log:
        await _decided(log, TAKEN_OVER)
        seconds, size = await _taking_over(log)
    return {
        "fenced_events_per_second_over_unfenced": {
            "median": round(statistics.median(shares), 3),
            "min": round(min(shares), 3),
            "max": round(max(shares), 3),
        },
        "writer": {
            "decisions": decisions,
            "seconds": round(writing, 1),
            "decisions_per_second": round(decisions / writing),
        },
        "takeover": {
            "unapplied_decisions": TAKEN_OVER,
            "seconds": round(seconds, 2),
            "overlay_bytes_each": round(size),
        },
    }


@asynccontextmanager
async def _log() -> AsyncGenerator[LocalBroker]:
    with tempfile.TemporaryDirectory() as directory:
        log = LocalBroker(Path(directory) / "log.sqlite3", indexed=INDEXED)
        for topic in TOPICS:
            log.create(topic.name, 1)
        yield log
        log.close()


def _event(number: int) -> Remember:
    return Remember.model_validate(
        {
            "event_id": f"event-{number}",
            "scope": f"acme/user-{number % 1_000}",
            "text": f"User {number} keeps key {number * 7} in the drawer by the window of the hall.",
            "occurred_at": START,
        }
    )


class _Vectors:
    """Implements ports.Embedder at next to no cost: a random unit vector for each text."""

    model = ModelId(POLICY.model)
    dimension = DIMENSION

    def __init__(self) -> None:
        self._random = np.random.default_rng(1)  # noqa: TID251 - any vectors will do

    async def embed(self, texts: Sequence[str]) -> list[Embedded]:
        made = self._random.standard_normal((len(texts), DIMENSION)).astype(np.float32)
        made /= np.linalg.norm(made, axis=1, keepdims=True)
        return [Embedded(vector, truncated=False) for vector in made]


async def _decided(log: LocalBroker, count: int) -> None:
    """Fill a log with events and an insert for each, in an epoch that began at once."""
    [offset] = await log.append([fence_record("bench", 0, 1)])
    epoch = Epoch(offset, "bench")
    vectors = _Vectors()
    for start in range(0, count, 1_000):
        events = [_event(number) for number in range(start, min(count, start + 1_000))]
        await log.append([Outgoing(EVENTS.name, 0, None, b"")] * len(events))
        made: list[Outgoing] = []
        for at, (event, embedded) in enumerate(
            zip(events, await vectors.embed([event.text for event in events]), strict=True)
        ):
            source = Position(topic=EVENTS.name, partition=0, offset=start + at)
            packed = pack(embedded.vector, vectors.model)
            encoded = Encoded(embedded.vector, packed, truncated=False)
            decision = decide(Case(event, source, POLICY, None), encoded, [], [])
            if isinstance(decision, Unworded):
                raise TypeError("with nothing near an event is new")
            made.append(decision_record(decision, DECISION.encode(decision), 0, epoch))
        await log.append(made)


async def _writing(log: LocalBroker, count: int) -> float:
    with tempfile.TemporaryDirectory() as directory:
        index = EdgeIndex(Path(directory) / "index", DIMENSION)
        started = time.perf_counter()
        await catch_up(log, 0, count + 1, index, reached=lambda _: None)
        seconds = time.perf_counter() - started
        await index.close()
    return seconds


async def _taking_over(log: LocalBroker) -> tuple[float, float]:
    index = ExactIndex()
    started = time.perf_counter()
    await take_over(log, index, 0, "first")
    seconds = time.perf_counter() - started
    tracemalloc.start()
    claim = await take_over(log, index, 0, "second")
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return seconds, size / len(claim.overlay)


async def _deciding() -> float:
    """Return how many events are decided on and applied in a second of the processor."""
    async with _log() as log:
        with tempfile.TemporaryDirectory() as directory:
            index = EdgeIndex(Path(directory) / "index", DIMENSION)
            events = [_event(number) for number in range(FENCED_EVENTS)]
            await log.append(
                [Outgoing(EVENTS.name, 0, e.scope.encode(), EVENT.encode(e)) for e in events]
            )
            deduplicator = Deduplicator(
                _Vectors(), index, index, POLICY, Judging(Readings(english()), {})
            )
            owner = Owner(
                deduplicator, log, index, lambda _: None, token="bench", clock=_Standing()
            )
            started = time.process_time()
            for process in (owner, Writer(index, log, print)):
                consumer = Consumer(
                    process, log, 0, retry=RetryPolicy(), sleep=_never, report=print
                )
                await consumer.drain(256)
            seconds = time.process_time() - started
            await index.close()
    return FENCED_EVENTS / seconds


class _Standing:
    """Implements ports.Clock."""

    def now(self) -> datetime:
        return START


async def _never(seconds: float) -> NoReturn:
    raise AssertionError(f"nothing here has to wait for {seconds} s")


def _admit_all(newest: Epoch | None, claimed: Epoch | None) -> bool:
    del newest, claimed
    return True


@contextmanager
def _believing_everybody() -> Generator[None]:
    """Take the checks away that fencing costs."""

    async def unlooked(self: Owner, partition: int, owned: object, own: Sequence[int]) -> None:
        del self, partition, owned, own

    admits, looked = reading.admits, Owner.__dict__["_require_owned"]
    reading.admits = _admit_all
    setattr(Owner, "_require_owned", unlooked)  # noqa: B010
    try:
        yield
    finally:
        reading.admits = admits
        setattr(Owner, "_require_owned", looked)  # noqa: B010


if __name__ == "__main__":
    main()
