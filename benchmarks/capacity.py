"""How many partitions, processes, cores and how much memory a load takes.

Usage: python benchmarks/capacity.py [--rate EVENTS_PER_SECOND …] [--memories N] [--repeats SHARE]
       [--policy NAME] [--model NAME] [--out FILE]

Measures on this machine, some ten seconds, what it costs to encode, decide on and apply an event,
with generated events, and reckons from that. Brokers, and a Qdrant server's own work, come on top.
Run it where nothing else runs.
"""

import argparse
import asyncio
import json
import resource
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from math import ceil
from pathlib import Path

from benchmarks.harness.measuring import arguments
from schemas.base import EventId, Record, ScopeName
from schemas.codec import APPLIED, DECISION
from schemas.decisions import Decision
from schemas.events import Remember
from schemas.topics import DECISIONS
from streams.index.edge import EdgeIndex
from streams.model.policy import Policy
from streams.model.ports.log import LogRecord
from streams.stage.flow.apply import apply
from streams.stage.flow.decisions import KIND_HEADER, CountedDecision, read_decision
from streams.store.app import policies, settings, wiring
from streams.store.app.dry_run import DecidingDependencies, decide_in_memory, means
from streams.store.app.settings import Settings

_RATES = (10.0, 1_000.0, 100_000.0)

LOAD_MAX = 0.6
"""Maximum utilisation of a core: beyond it, bursts of events queue up."""

SPREAD = 1.5
"""Partitions per process: scopes are spread unevenly, and processes own whole partitions."""

_PARTITIONS = (6, 12, 24, 48, 96, 192, 384, 768, 1_536, 3_072, 6_144)
"""Partition counts with many divisors, to suit many process counts: a count cannot change later."""


EVENTS = 1_024
"""Enough to reproduce the figures within 10 % on an idle machine; takes about ten seconds."""

_SCOPES = 15
_BATCH = 256

KAFKA = 1.25
"""Factor by which deciding and applying are slower through Kafka, client work included: the inverse
of what `benchmarks/throughput/speed.py` measures, rounded up."""

MEMORY_BYTES = 2_400
"""RAM of the embedded index per memory of 384 dimensions (benchmarks/stores/store_size.py)."""

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


class Costs(Record):
    """Measured costs: seconds of one core per event, and bytes of RAM.

    `encode` is for a new text; `decide` and `apply` include the Kafka client's work. `deduplicator`
    and `writer` are bytes per process, `memory` is the index's bytes per memory.
    """

    encode: float
    decide: float
    apply: float
    deduplicator: int
    writer: int
    memory: int


@dataclass(frozen=True)
class Plan:
    """The resources for a rate of events; `bytes` is the total, including the index."""

    events_per_second: float
    deduplicators: int
    writers: int
    partitions: int
    cores: int
    bytes: int


def main(given: Sequence[str] | None = None) -> None:
    """Measure, reckon, and print the table."""
    options = _options(given)
    chosen = settings.load(_flags(options), None)
    policy = policies.load(chosen.policy)
    policies.require_model(policy, wiring.named_model(chosen.embedder))
    costs = asyncio.run(_measured(chosen, policy))
    plans = [
        plan(costs, rate, memories=options.memories, repeats=options.repeats)
        for rate in options.rate or _RATES
    ]
    _show(costs, plans, options.memories)
    if options.out is not None:
        told = {"costs": costs.model_dump(), "plans": [asdict(one) for one in plans]}
        options.out.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


def _options(given: Sequence[str] | None) -> argparse.Namespace:
    parser = arguments(__doc__, rounds=None)
    parser.add_argument("--rate", type=float, action="append", help="events a second; [10 1e3 1e5]")
    parser.add_argument("--memories", type=int, default=1_000_000, help="that the index will hold")
    parser.add_argument(
        "--repeats", type=float, default=0.0, help="share of events with words known before"
    )
    parser.add_argument("--policy")
    parser.add_argument("--model")
    return parser.parse_args(given)


def _flags(options: argparse.Namespace) -> dict[str, object]:
    flags: dict[str, object] = {}
    if options.policy is not None:
        flags["policy"] = options.policy
    if options.model is not None:
        flags["embedder"] = {"model": options.model}
    return flags


async def _measured(chosen: Settings, policy: Policy) -> Costs:
    async with means(chosen, print) as given:
        return await measure(policy, given)


def _show(costs: Costs, plans: Sequence[Plan], memories: int) -> None:
    print(
        f"an event takes, of one core here: {costs.encode * 1e3:.2f} ms to encode its text, "
        f"{costs.decide * 1e3:.2f} ms to decide, {costs.apply * 1e3:.2f} ms to apply"
    )
    print(f"cores are filled to {LOAD_MAX:.0%}; the index holds {memories:,} memories\n")
    print(
        f"{'events/s':>9}{'partitions':>12}{'deduplicators':>15}{'writers':>9}{'cores':>7}{'GiB':>9}"
    )
    for one in plans:
        print(
            f"{one.events_per_second:>9,.0f}{one.partitions:>12,}{one.deduplicators:>15,}"
            f"{one.writers:>9,}{one.cores:>7,}{one.bytes / 2**30:>9,.1f}"
        )


def plan(costs: Costs, rate: float, *, memories: int, repeats: float = 0.0) -> Plan:
    """Return the resources for a rate of events, of which the share `repeats` has known words.

    One process counts as one core. Raises ValueError if no partition count is enough.
    """
    busy = rate * (costs.encode * (1.0 - repeats) + costs.decide) / LOAD_MAX
    deduplicators, writers = ceil(busy) or 1, ceil(rate * costs.apply / LOAD_MAX) or 1
    wanted = SPREAD * max(deduplicators, writers)
    partitions = next((count for count in _PARTITIONS if count >= wanted), None)
    if partitions is None:
        raise ValueError(
            f"{rate:,.0f} events/s take {deduplicators:,} deduplicators, and more than "
            f"{_PARTITIONS[-1]:,} partitions: distribute the tenants over several clusters"
        )
    held = deduplicators * costs.deduplicator + writers * costs.writer + memories * costs.memory
    return Plan(rate, deduplicators, writers, partitions, deduplicators + writers, held)


async def measure(policy: Policy, means: DecidingDependencies) -> Costs:
    """Encode, decide on and apply generated events.

    Seconds are CPU time over all cores.
    """
    events = _events(EVENTS)
    known = replace(means.knowing(), batch_records=_BATCH)
    texts = [event.text for event in events]

    async def encode() -> None:
        for start in range(0, EVENTS, _BATCH):
            await known.embedder.embed(texts[start : start + _BATCH])

    decided: list[Decision] = []

    async def decide() -> None:
        decided.extend(await decide_in_memory(events, policy, known))

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
        window = [CountedDecision(read_decision(record), record.position) for record in records]
        for change in await apply(window, index=index):
            APPLIED.encode(change)


def _record(decision: Decision, offset: int) -> LogRecord:
    headers = ((KIND_HEADER, decision.kind.encode()),)
    return LogRecord(DECISIONS.name, 0, offset, None, DECISION.encode(decision), headers)


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


if __name__ == "__main__":
    main()
