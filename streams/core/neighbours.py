"""The memories near an event: what index and overlay found, combined, measured and ranked."""

from collections.abc import Iterable
from dataclasses import dataclass

from schemas.base import ContentKey, DecisionId
from schemas.decisions import Band
from schemas.memories import Memory
from streams.core.bands import Bands
from streams.core.embedding import Vector, similarity

DECIDED_MAX = 64
"""A memory remembers so many of its newest decisions: enough to know a redelivered event."""


@dataclass(frozen=True)
class Stored:
    """A memory with its vector; None where it was not asked for, or where an effect keeps it.

    `decided` are the newest decisions that made the memory what it is, oldest first, each with
    the content of the event decided on: at most DECIDED_MAX.
    """

    memory: Memory
    vector: Vector | None
    decided: tuple[tuple[DecisionId, ContentKey], ...] = ()


@dataclass(frozen=True)
class Neighbour:
    """A live memory of the event's scope, measured against the event."""

    memory: Memory
    similarity: float
    band: Band


def rank(
    vector: Vector, candidates: Iterable[Stored], *, bands: Bands, floor: float, limit: int
) -> list[Neighbour]:
    """Measure the candidates and return the nearest, nearest first.

    At most `limit`, none below `floor`; equal similarities are ordered by memory id, so the
    result does not depend on who nominated whom.
    """
    measured = (
        (similarity(vector, candidate.vector), candidate.memory)
        for candidate in candidates
        if candidate.vector is not None
    )
    near = sorted(
        ((score, memory) for score, memory in measured if score >= floor),
        key=lambda pair: (-pair[0], pair[1].id),
    )
    return [Neighbour(memory, score, bands.of(score)) for score, memory in near[:limit]]
