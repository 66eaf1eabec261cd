"""An event's nearest neighbours: candidates from index and overlay, measured and ranked."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from schemas.base import ContentKey, DecisionId, MemoryId
from schemas.decisions import Band
from schemas.memories import Memory
from streams.model.bands import Bands
from streams.model.embedding import Vector, similarity
from streams.model.identity import normalised


@dataclass(frozen=True)
class StoredMemory:
    """A memory with its vector; None if it was not requested or if an effect leaves it unchanged.

    `decided` holds the decision that made the memory and the newest that changed it, oldest first, at
    most DECIDED_MAX, each with the content key of its event. `variants` maps variants to their vectors; those that an
    effect lacks are in the state before it. `contradicted` holds the newest CONTRADICTED_MAX
    memories that it contradicts and that stayed live, each with the version that was compared.
    `worded_at` is the version since which it shows its text.
    """

    memory: Memory
    vector: Vector | None
    decided: tuple[tuple[DecisionId, ContentKey], ...] = ()
    variants: Mapping[ContentKey, Vector] = field(default_factory=dict[ContentKey, Vector])
    contradicted: tuple[tuple[MemoryId, int], ...] = ()
    worded_at: int = 1

    @property
    def is_whole(self) -> bool:
        """Whether the vector of every wording is known."""
        keys = (variant.content_key for variant in self.memory.variants)
        return self.vector is not None and all(key in self.variants for key in keys)

    @property
    def wordings(self) -> dict[ContentKey, Vector]:
        """The known vectors: the shown text's first, then the variants' in order."""
        shown = {} if self.vector is None else {self.memory.content_key: self.vector}
        keys = (variant.content_key for variant in self.memory.variants)
        return shown | {key: self.variants[key] for key in keys if key in self.variants}

    def after(self, before: "StoredMemory | None") -> "StoredMemory":
        """Return this later state, completed with the vectors that the state before it knows.

        `before` may lack some as well: the operation is associative.
        """
        known = self.variants if before is None else {**before.variants, **self.variants}
        keys = (variant.content_key for variant in self.memory.variants)
        return StoredMemory(
            self.memory,
            before.vector if before is not None and self.vector is None else self.vector,
            self.decided,
            {key: known[key] for key in keys if key in known},
            self.contradicted,
            self.worded_at,
        )

    def nearest(self, vector: Vector) -> tuple[float, ContentKey] | None:
        """Return the highest similarity and its wording, first of ties; None without vectors."""
        measured = ((similarity(vector, own), key) for key, own in self.wordings.items())
        return max(measured, key=lambda one: one[0], default=None)


@dataclass(frozen=True)
class KnownEvent:
    """An event that was already decided: its content key, and what invalidates this knowledge.

    Found through the `memories` that its decision changed, it is invalid once an erasure has
    restated all of them; found through its record at `offset`, once that record is erased.
    """

    content: ContentKey
    memories: frozenset[MemoryId] = frozenset()
    offset: int | None = None


@dataclass(frozen=True)
class Neighbour:
    """A live memory of the event's scope with its cosine similarity to the event.

    `wording` is the content key of the nearest variant; None if the shown text is nearest. With a
    variant, `shown_similarity` is the shown text's, if its vector is known. `stored` is the memory
    with its vectors.
    """

    memory: Memory
    similarity: float
    band: Band
    wording: ContentKey | None = None
    shown_similarity: float | None = None
    stored: StoredMemory | None = field(default=None, compare=False, repr=False)


def rank(
    vector: Vector,
    candidates: Iterable[StoredMemory],
    *,
    bands: Bands,
    floor: float,
    limit: int,
    title: str | None = None,
) -> list[Neighbour]:
    """Measure the candidates by their nearest wordings and return the nearest, nearest first.

    Return at most `limit`, none below `floor`. Ties are ordered by memory id, so the result does
    not depend on the order of nomination. A candidate with the `title` is in the band MATCH.
    """
    measured = [(candidate.nearest(vector), candidate) for candidate in candidates]
    near = sorted(
        ((*found, candidate) for found, candidate in measured if found and found[0] >= floor),
        key=lambda entry: (-entry[0], entry[2].memory.id),
    )[:limit]
    titled = None if title is None else normalised(title)

    def neighbour(score: float, wording: ContentKey, candidate: StoredMemory) -> Neighbour:
        memory = candidate.memory
        named = memory.title is not None and normalised(memory.title) == titled
        band = Band.MATCH if named else bands.of(score)
        if wording == memory.content_key:
            return Neighbour(memory, score, band, stored=candidate)
        shown = None if candidate.vector is None else similarity(vector, candidate.vector)
        return Neighbour(memory, score, band, wording, shown, candidate)

    return [neighbour(*entry) for entry in near]
