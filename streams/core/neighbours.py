"""The memories near an event: what index and overlay found, combined, measured and ranked."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from schemas.base import ContentKey, DecisionId, MemoryId
from schemas.decisions import Band
from schemas.memories import Memory
from streams.core.bands import Bands
from streams.core.embedding import Vector, similarity
from streams.core.identity import normalised

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
class Known:
    """An event that was decided on: what it said, and what takes that knowledge away.

    Whoever finds it by the memories that its decision changed, forgets it where all of them are
    stated again by an erasure; whoever finds it by its record, at `offset`, where that is erased.
    """

    content: ContentKey
    memories: frozenset[MemoryId] = frozenset()
    offset: int | None = None


@dataclass(frozen=True)
class Neighbour:
    """A live memory of the event's scope, measured against the event; `vector` is its own."""

    memory: Memory
    similarity: float
    band: Band
    vector: Vector | None = field(default=None, compare=False, repr=False)


def rank(
    vector: Vector,
    candidates: Iterable[Stored],
    *,
    bands: Bands,
    floor: float,
    limit: int,
    title: str | None = None,
) -> list[Neighbour]:
    """Measure the candidates and return the nearest, nearest first.

    At most `limit`, none below `floor`; equal similarities are ordered by memory id, so the
    result does not depend on who nominated whom. One that has the `title` is in the band MATCH.
    """
    measured = (
        (similarity(vector, candidate.vector), candidate.memory, candidate.vector)
        for candidate in candidates
        if candidate.vector is not None
    )
    near = sorted(
        (entry for entry in measured if entry[0] >= floor),
        key=lambda entry: (-entry[0], entry[1].id),
    )[:limit]
    titled = None if title is None else normalised(title)

    def band(score: float, memory: Memory) -> Band:
        named = memory.title is not None and normalised(memory.title) == titled
        return Band.MATCH if named else bands.of(score)

    return [Neighbour(memory, score, band(score, memory), own) for score, memory, own in near]
