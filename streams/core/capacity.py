"""What a stream of events takes: processes, partitions, cores and memory, from what one event takes."""

from dataclasses import dataclass
from math import ceil

from schemas.base import Record

LOAD_MAX = 0.6
"""Of a core's time: beyond, events that come unevenly wait for each other."""

SPREAD = 1.5
"""Partitions for each process: scopes fall on them unevenly, and processes take whole ones."""

_PARTITIONS = (6, 12, 24, 48, 96, 192, 384, 768, 1_536, 3_072, 6_144)
"""Numbers that many numbers of processes divide; the number cannot be changed later."""


class Costs(Record):
    """What was measured: seconds of one core for an event, and bytes of memory.

    `encode` of a text that is new. `decide` and `apply` with all that Kafka's client does for them.
    `deduplicator` and `writer` are what a process holds, `memory` what the index holds for each.
    """

    encode: float
    decide: float
    apply: float
    deduplicator: int
    writer: int
    memory: int


@dataclass(frozen=True)
class Plan:
    """What to provide for so many events a second; `bytes` in all, the index's included."""

    events_per_second: float
    deduplicators: int
    writers: int
    partitions: int
    cores: int
    bytes: int


def plan(costs: Costs, rate: float, *, memories: int, repeats: float = 0.0) -> Plan:
    """Return what a rate of events takes, of which the share `repeats` says known words again.

    A process is reckoned as one core. Raises ValueError where no number of partitions is enough.
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
