"""The memories near an event: what index and overlay found, combined, measured and ranked."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from schemas.base import ContentKey, DecisionId, MemoryId
from schemas.decisions import Band
from schemas.memories import Memory
from streams.core.bands import Bands
from streams.core.embedding import Vector, similarity
from streams.core.identity import normalised

DECIDED_MAX = 64
"""A memory remembers so many of its newest decisions: enough to know a redelivered event."""

CONTRADICTED_MAX = 8
"""A memory remembers so many others that it was found to contradict: the newest."""


@dataclass(frozen=True)
class Stored:
    """A memory with its vector; None where it was not asked for, or where an effect keeps it.

    `decided` are the newest decisions that made the memory what it is, oldest first, each with
    the content of the event decided on: at most DECIDED_MAX. `variants` are the vectors of its
    variants: of those that an effect does not know, the state before it has them. `contradicted` are
    memories that it was found to contradict and that stayed, each at the version that was seen: the
    newest CONTRADICTED_MAX. `worded_at` is the version since which it shows its text.
    """

    memory: Memory
    vector: Vector | None
    decided: tuple[tuple[DecisionId, ContentKey], ...] = ()
    variants: Mapping[ContentKey, Vector] = field(default_factory=dict[ContentKey, Vector])
    contradicted: tuple[tuple[MemoryId, int], ...] = ()
    worded_at: int = 1

    @property
    def is_whole(self) -> bool:
        """Whether the vector of each wording is known."""
        keys = (variant.content_key for variant in self.memory.variants)
        return self.vector is not None and all(key in self.variants for key in keys)

    @property
    def wordings(self) -> dict[ContentKey, Vector]:
        """The vectors that are known, the shown text's first, then those of variants in order."""
        shown = {} if self.vector is None else {self.memory.content_key: self.vector}
        keys = (variant.content_key for variant in self.memory.variants)
        return shown | {key: self.variants[key] for key in keys if key in self.variants}

    def after(self, before: "Stored | None") -> "Stored":
        """Return a later state of a memory, with the vectors that the one before it knows.

        `before` may lack some, too: it does not matter which of several states are joined first.
        """
        known = self.variants if before is None else {**before.variants, **self.variants}
        keys = (variant.content_key for variant in self.memory.variants)
        kept = {key: known[key] for key in keys if key in known}
        vector = before.vector if before is not None and self.vector is None else self.vector
        return replace(self, vector=vector, variants=kept)

    def nearest(self, vector: Vector) -> tuple[float, ContentKey] | None:
        """Return how similar a memory is, and by which of its wordings; the first of equal ones."""
        measured = ((similarity(vector, own), key) for key, own in self.wordings.items())
        return max(measured, key=lambda one: one[0], default=None)


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
    """A live memory of the event's scope, measured against the event.

    `wording` is the variant that is that similar, by its content key; None where it is the shown
    text. `stored` is the memory with its vectors.
    """

    memory: Memory
    similarity: float
    band: Band
    wording: ContentKey | None = None
    stored: Stored | None = field(default=None, compare=False, repr=False)


def rank(
    vector: Vector,
    candidates: Iterable[Stored],
    *,
    bands: Bands,
    floor: float,
    limit: int,
    title: str | None = None,
) -> list[Neighbour]:
    """Measure the candidates by their nearest wordings and return the nearest, nearest first.

    At most `limit`, none below `floor`; equal similarities are ordered by memory id, so the
    result does not depend on who nominated whom. One that has the `title` is in the band MATCH.
    """
    measured = [(candidate.nearest(vector), candidate) for candidate in candidates]
    near = sorted(
        ((*found, candidate) for found, candidate in measured if found and found[0] >= floor),
        key=lambda entry: (-entry[0], entry[2].memory.id),
    )[:limit]
    titled = None if title is None else normalised(title)

    def neighbour(score: float, wording: ContentKey, candidate: Stored) -> Neighbour:
        memory = candidate.memory
        named = memory.title is not None and normalised(memory.title) == titled
        band = Band.MATCH if named else bands.of(score)
        variant = None if wording == memory.content_key else wording
        return Neighbour(memory, score, band, variant, candidate)

    return [neighbour(*entry) for entry in near]
