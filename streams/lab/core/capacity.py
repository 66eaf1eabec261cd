"""Capacity planning: processes, partitions, cores and memory for a rate of events."""

from dataclasses import dataclass
from math import ceil

from schemas.base import Record

LOAD_MAX = 0.6
"""Maximum utilisation of a core: beyond it, bursts of events queue up."""

SPREAD = 1.5
"""Partitions per process: scopes are spread unevenly, and processes own whole partitions."""

_PARTITIONS = (6, 12, 24, 48, 96, 192, 384, 768, 1_536, 3_072, 6_144)
"""Partition counts with many divisors, to suit many process counts: a count cannot change later."""


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
            f"{_PARTITIONS[-1]:,} partitions: share the tenants out over several clusters"
        )
    held = deduplicators * costs.deduplicator + writers * costs.writer + memories * costs.memory
    return Plan(rate, deduplicators, writers, partitions, deduplicators + writers, held)
