"""How long it takes until one of many memories is forgotten: planned, decided, out of index and log.

Usage: python benchmarks/stores/forgetting.py [--memories N] [--out FILE]

The store is generated: its memories lie in many small scopes, in one of a thousand and in a large
one. What is timed is what `memsieve forget --later` does once store and model are open.
"""

import asyncio
import tempfile
import time
from pathlib import Path

from benchmarks.harness.deciding import POLICY, START, Deciding, local_log
from benchmarks.harness.filled_store import Layout
from benchmarks.harness.measuring import Result, Spread, arguments
from benchmarks.harness.vectors import DIMENSION, Given
from schemas.base import EventId, Position
from schemas.codec import DECISION, EVENT
from schemas.decisions import Evidence, Insert, Reason
from schemas.events import Remember
from schemas.topics import DECISIONS, EVENTS
from streams.forget.app.forgetting import ForgetTarget, PlanningDependencies, plans
from streams.index.edge import EdgeIndex
from streams.judges.lexicons import english
from streams.log.local_broker import LocalBroker
from streams.model.embedding import pack
from streams.model.fences import Epoch, ReadPosition
from streams.model.neighbours import StoredMemory
from streams.model.ports.index import UNFOLLOWED
from streams.model.ports.log import CommittedOffset, OutgoingRecord
from streams.stage.core.lineage import Wish
from streams.stage.core.tombstones import TombstoneKey
from streams.stage.flow.decided import DecidedInLog
from streams.stage.flow.decisions import decision_record, fence_record
from streams.stage.flow.judging import Judging
from streams.stage.flow.takeover import DEDUPLICATOR_GROUP
from streams.stage.flow.writer import WRITER_GROUP, Note
from streams.text.reading import TextAnalyzer

KEY = TombstoneKey(b"a secret of thirty-two characters")
_FORGOTTEN = 9
"""Memories forgotten one at a time; the first is a warm-up and is left out."""


def _inserted(stored: StoredMemory, number: int) -> Insert:
    memory, vector = stored.memory, stored.vector
    if vector is None:
        raise TypeError("a generated memory has a vector")
    event = Remember(
        event_id=EventId(f"stored-{number}"),
        scope=memory.scope,
        text=memory.text,
        occurred_at=START,
    )
    [(decision, _)] = stored.decided
    return Insert(
        decision_id=decision,
        event=event,
        source=Position(topic=EVENTS.name, partition=0, offset=number),
        policy_id=POLICY.id,
        evidence=Evidence(reason=Reason.NOTHING_NEAR),
        memory=memory,
        embedding=pack(vector, POLICY.model),
    )


async def _fill(log: LocalBroker, index: EdgeIndex, layout: Layout) -> None:
    """Fill log and index as the events of `layout` would."""
    [offset] = await log.append([fence_record("bench", 0, 1)])
    epoch, number = Epoch(offset, "bench"), 0
    for states in layout.states():
        decisions = [_inserted(one, number + at) for at, one in enumerate(states)]
        number += len(decisions)
        await log.append(
            [
                OutgoingRecord(EVENTS.name, 0, d.event.scope.encode(), EVENT.encode(d.event))
                for d in decisions
            ]
        )
        await log.append([decision_record(d, DECISION.encode(d), 0, epoch) for d in decisions])
        await index.write(states)
    reached = ReadPosition(number + 1, epoch, number)
    await index.keep_level(0, reached, since=UNFOLLOWED)
    note = Note(epoch=epoch, next_event=number).model_dump_json()
    await log.commit(WRITER_GROUP, DECISIONS.name, 0, CommittedOffset(number + 1, note))
    await log.commit(DEDUPLICATOR_GROUP, EVENTS.name, 0, CommittedOffset(number))


async def _measured(layout: Layout) -> list[float]:
    """Return the seconds of forgetting a memory of `layout`, for several in turn."""
    embedder = Given({})
    means = PlanningDependencies(KEY, POLICY, embedder, Judging(TextAnalyzer(english()), {}))
    taken: list[float] = []
    with tempfile.TemporaryDirectory() as directory:
        index = EdgeIndex(Path(directory) / "index", DIMENSION)
        async with local_log() as log:
            await _fill(log, index, layout)
            deciding = Deciding(log, index, DecidedInLog(log), embedder, KEY)
            [wanted] = [page[: _FORGOTTEN * 10 : 10] for page in [next(layout.states())]]
            for one in wanted:
                started = time.perf_counter()
                wish, named = Wish("bench", START), ForgetTarget(memory=one.memory.id)
                [plan] = await plans(log, named, means, wish)
                await deciding.publish(plan.requests)
                await deciding.work()
                taken.append(time.perf_counter() - started)
            found = await index.get([one.memory.id for one in wanted])
        await index.close()
    if any(one.memory.live for one in found.values()):
        raise RuntimeError("a memory was not forgotten")
    return taken[1:]


def main() -> None:
    parser = arguments(__doc__, rounds=None)
    parser.add_argument("--memories", type=int, default=100_000)
    options = parser.parse_args()
    taken = asyncio.run(_measured(Layout(options.memories)))
    Result(
        benchmark="forgetting",
        method=str(__doc__),
        material={"memories": options.memories, "forgotten": len(taken)},
        figures={"seconds": Spread.of(taken, "lower")},
        packages=("qdrant-edge-py",),
    ).give(options.out)


if __name__ == "__main__":
    main()
