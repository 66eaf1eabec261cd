"""What fencing costs, how fast the writer is, and what a takeover takes.

Usage: python benchmarks/throughput/delivery.py [--decisions N] [--rounds N] [--out FILE]

Fencing: the same events, with vectors that cost nothing, are decided on and applied with all
checks, and with a reader that believes every record and an owner that looks at no offsets; the
rounds alternate, and count the processor's seconds, which others' work disturbs less. Writer:
generated decisions are applied to an empty embedded index, from the log, as `replay rematerialise`
does. Takeover: 10,000 decisions that no index has are read into an overlay. Seconds are those of
the wall, on whatever else the machine does.
"""

import argparse
import asyncio
import tempfile
import time
import tracemalloc
from collections.abc import Generator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np

from benchmarks.harness.deciding import POLICY, Deciding, event, local_log
from benchmarks.harness.measuring import Result, arguments, ratio
from benchmarks.harness.vectors import DIMENSION
from schemas.base import ModelId, Position
from schemas.codec import DECISION
from schemas.events import Remember
from schemas.topics import EVENTS
from streams.index.edge import EdgeIndex
from streams.log.local_broker import LocalBroker
from streams.model.embedding import TextVector, pack
from streams.model.fences import BEGINNING, Epoch
from streams.model.ports.log import OutgoingRecord
from streams.stage.core.case import Case, EncodedVector, PendingMerge
from streams.stage.core.decide import decide
from streams.stage.flow import decisions as reading
from streams.stage.flow.decisions import decision_record, fence_record
from streams.stage.flow.partition_owner import PartitionOwner
from streams.stage.flow.takeover import take_over
from streams.stage.flow.writer import catch_up

TAKEN_OVER = 10_000
FENCED_EVENTS = 4_000


def main() -> None:
    options = _options()
    asyncio.run(_measure(options.decisions, options.rounds)).give(options.out)


def _options() -> argparse.Namespace:
    parser = arguments(__doc__, rounds=5)
    parser.add_argument("--decisions", type=int, default=100_000)
    return parser.parse_args()


async def _measure(decisions: int, rounds: int) -> Result:
    fenced: list[float] = []
    bare: list[float] = []
    for number in range(rounds):
        for checked in (True, False) if number % 2 else (False, True):
            with nullcontext() if checked else _believing_everybody():
                (fenced if checked else bare).append(await _deciding())
    async with local_log() as log:
        await _decided(log, decisions)
        writing = await _writing(log, decisions)
    async with local_log() as log:
        await _decided(log, TAKEN_OVER)
        seconds, size = await _taking_over(log)
    return Result(
        benchmark="delivery",
        method=str(__doc__),
        material={"events": FENCED_EVENTS, "decisions": decisions, "taken_over": TAKEN_OVER},
        ratios={"fenced_over_unfenced": ratio(fenced, bare)},
        figures={
            "writer_decisions_per_second": decisions / writing,
            "takeover_seconds": seconds,
            "overlay_bytes_each": size,
        },
        rounds={"fenced": fenced, "unfenced": bare},
        packages=("qdrant-edge-py",),
    )


def _event(number: int) -> Remember:
    text = f"User {number} keeps key {number * 7} in the drawer by the window of the hall."
    return event(number, f"acme/user-{number % 1_000}", text)


class _Vectors:
    """Implements ports.Embedder at almost no cost, with a random unit vector for each text."""

    model = ModelId(POLICY.model)
    dimension = DIMENSION

    def __init__(self) -> None:
        self._random = np.random.default_rng(1)  # noqa: TID251 - any vectors will do

    async def embed(self, texts: Sequence[str]) -> list[TextVector]:
        made = self._random.standard_normal((len(texts), DIMENSION)).astype(np.float32)
        made /= np.linalg.norm(made, axis=1, keepdims=True)
        return [TextVector(vector, truncated=False) for vector in made]


async def _decided(log: LocalBroker, count: int) -> None:
    """Fill a log with a fence, events, and an insert for each event in that epoch."""
    [offset] = await log.append([fence_record("bench", 0, 1)])
    epoch = Epoch(offset, "bench")
    vectors = _Vectors()
    for start in range(0, count, 1_000):
        events = [_event(number) for number in range(start, min(count, start + 1_000))]
        await log.append([OutgoingRecord(EVENTS.name, 0, None, b"")] * len(events))
        made: list[OutgoingRecord] = []
        embeddings = await vectors.embed([said.text for said in events])
        for at, (said, embedded) in enumerate(zip(events, embeddings, strict=True)):
            source = Position(topic=EVENTS.name, partition=0, offset=start + at)
            packed = pack(embedded.vector, vectors.model)
            encoded = EncodedVector(embedded.vector, packed, truncated=False)
            decision = decide(Case(said, source, POLICY, None), encoded, [], [])
            if isinstance(decision, PendingMerge):
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
    started = time.perf_counter()
    await take_over(log, BEGINNING, 0, "first")
    seconds = time.perf_counter() - started
    tracemalloc.start()
    claim = await take_over(log, BEGINNING, 0, "second")
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return seconds, size / len(claim.overlay)


async def _deciding() -> float:
    """Return the events decided on and applied per second of CPU time."""
    async with local_log() as log:
        with tempfile.TemporaryDirectory() as directory:
            index = EdgeIndex(Path(directory) / "index", DIMENSION)
            decides = Deciding(log, index, index, _Vectors())
            await decides.publish([_event(number) for number in range(FENCED_EVENTS)])
            cost = await decides.work()
            await index.close()
    return FENCED_EVENTS / cost.cpu


def _admit_all(newest: Epoch | None, claimed: Epoch | None) -> bool:
    del newest, claimed
    return True


@contextmanager
def _believing_everybody() -> Generator[None]:
    """Disable the checks that make up the cost of fencing."""

    async def unlooked(
        self: PartitionOwner, partition: int, owned: object, own: Sequence[int]
    ) -> None:
        del self, partition, owned, own

    admits, looked = reading.admits, PartitionOwner.__dict__["_require_owned"]
    reading.admits = _admit_all
    setattr(PartitionOwner, "_require_owned", unlooked)  # noqa: B010
    try:
        yield
    finally:
        reading.admits = admits
        setattr(PartitionOwner, "_require_owned", looked)  # noqa: B010


if __name__ == "__main__":
    main()
