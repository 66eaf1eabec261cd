"""The cost of one event on this machine, measured with generated events."""

import resource
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from schemas.base import EventId, ScopeName
from schemas.codec import APPLIED, DECISION
from schemas.decisions import Decision
from schemas.events import Remember
from schemas.topics import DECISIONS
from streams.index.edge import EdgeIndex
from streams.lab.core.capacity import Costs
from streams.model.policy import Policy
from streams.model.ports import Record
from streams.stage.flow.apply import apply
from streams.stage.flow.decisions import KIND_HEADER, Logged, read_decision
from streams.store.app.dry_run import Means, rehearse

EVENTS = 1_024
"""Enough to reproduce the figures within 10 % on an idle machine; takes about ten seconds."""

_SCOPES = 15
_BATCH = 256

KAFKA = 1.25
"""Factor by which deciding and applying are slower through Kafka, client work included: the inverse
of what `benchmarks/speed.py` measures, rounded up."""

MEMORY_BYTES = 2_400
"""RAM of the embedded index per memory of 384 dimensions (benchmarks/store_size.py)."""

_WRITER_SHARE = 0.5
"""A writer loads no model: it needs about half of a deduplicator's RAM."""

_EVENTS = (
    "{who} keeps the {thing} in the {place} since visit {number}, because the {other} was broken.",
    "For the trip on day {number} {who} wants to take the {thing} instead of the {other}.",
    "The {place} is closed from week {number} on; {who} has the only key to it.",
    "{who} paid {number} euros for a used {thing} and sold the {other} to a neighbour.",
    "Ticket {number}: the {thing} in the {place} makes a noise whenever somebody moves the {other}.",
    "{who} prefers to meet in the {place}, never before {number} minutes past nine.",
    "Nobody but {who} may touch the {thing}; the {other} is free for everybody after lesson {number}.",
    "{who} learns to repair a {thing} in {number} steps and writes all of them down in the {place}.",
)
_WHO = ("Ana", "Ben", "Carla", "Dmitri", "Elif", "Farid", "Grace", "Hugo")
_THINGS = ("lamp", "kettle", "ledger", "bicycle", "printer", "violin", "tent", "ladder", "radio")
_WHEN = datetime(2026, 1, 1, tzinfo=UTC)
_PLACES = ("cellar", "office", "garage", "attic", "library", "kitchen", "workshop")


async def measure(policy: Policy, means: Means, done: Callable[[int], None]) -> Costs:
    """Encode, decide on and apply generated events; `done` receives the number finished.

    Seconds are CPU time over all cores.
    """
    events = _events(EVENTS)
    known = means.knowing()
    texts = [event.text for event in events]

    async def encode() -> None:
        for start in range(0, EVENTS, _BATCH):
            await known.embedder.embed(texts[start : start + _BATCH])
            done(_BATCH)

    decided: list[Decision] = []

    async def decide() -> None:
        decided.extend(await rehearse(events, policy, known, batch_records=_BATCH))

    encoding, deciding = await _seconds(encode), await _seconds(decide)
    with tempfile.TemporaryDirectory() as directory:
        index = EdgeIndex(Path(directory) / "index", means.embedder.dimension)
        applying = await _seconds(lambda: _apply(decided, index))
        await index.close()
    return Costs(
        encode=encoding / EVENTS,
        decide=KAFKA * deciding / EVENTS,
        apply=KAFKA * applying / EVENTS,
        deduplicator=_resident(),
        writer=round(_WRITER_SHARE * _resident()),
        memory=MEMORY_BYTES,
    )


async def _apply(decided: Sequence[Decision], index: EdgeIndex) -> None:
    """Do a writer's work for each decision: read it, apply it, encode the change."""
    for start in range(0, len(decided), _BATCH):
        records = [
            _record(decision, offset)
            for offset, decision in enumerate(decided[start : start + _BATCH], start)
        ]
        window = [Logged(read_decision(record), record.position) for record in records]
        for change in await apply(window, index=index):
            APPLIED.encode(change)


def _record(decision: Decision, offset: int) -> Record:
    headers = ((KIND_HEADER, decision.kind.encode()),)
    return Record(DECISIONS.name, 0, offset, None, DECISION.encode(decision), headers)


async def _seconds(work: Callable[[], Awaitable[None]]) -> float:
    started = time.process_time()
    await work()
    return time.process_time() - started


def _resident() -> int:
    """Return the peak resident memory of this process, in bytes."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1_024


def _events(count: int) -> list[Remember]:
    """Return facts of about fifteen words in a few scopes, all different but many similar."""
    return [
        Remember(
            event_id=EventId(f"event-{number}"),
            scope=ScopeName(f"capacity/{number % _SCOPES}"),
            text=_EVENTS[number % 8].format(
                who=_WHO[number // 8 % 8],
                thing=_THINGS[number % 9],
                place=_PLACES[number % 7],
                number=number + 4,
                other=_THINGS[number // 9 % 9],
            ),
            occurred_at=_WHEN + timedelta(minutes=number),
        )
        for number in range(count)
    ]
