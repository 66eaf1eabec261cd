"""Search results condensed into fewer entries: which memories are one fact, and its text.

This happens at read time; nothing stored changes. Each found memory ends in exactly one entry,
which has its members' own texts as well as the shown one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from schemas.base import MemoryId
from schemas.decisions import Band
from schemas.memories import Memory
from streams.model.embedding import NEAR_TIE, SIMILARITY_DECIMALS, Vector, similarity
from streams.model.merge import MergePart, append
from streams.model.neighbours import Neighbour
from streams.model.policy import Rules
from streams.stage.core.cannot_link import are_apart
from streams.stage.core.consolidation import RelatedPair, cohesive
from streams.stage.core.decide import part_of
from streams.text.reading import TextAnalyzer

Way: TypeAlias = Literal["alone", "says-all", "joined", "worded"]
"""How an entry got its text: from its only member, from one member that says everything, from what
each member adds sentence by sentence, or from a language model."""


@dataclass(frozen=True)
class Candidate:
    """A live memory that a search found.

    Results are ranked by `score`, highest first. `similarity` to the query is None if it was not
    measured. `wording` is the variant nearest to the query; None if it is the shown text.
    """

    memory: Memory
    vector: Vector
    score: float = 0.0
    similarity: float | None = None
    wording: str | None = None


@dataclass(frozen=True)
class EntryText:
    """A text that represents several memories, and how it was made."""

    text: str
    way: Way


@dataclass(frozen=True)
class FactEntry:
    """Memories that are one fact, in the order of the results, and the shown text."""

    members: tuple[Candidate, ...]
    told: EntryText


def near(found: Sequence[Candidate], *, similarity_min: float) -> list[tuple[Memory, Neighbour]]:
    """Return the pairs that are similar enough, nearest first; the one seen later leads each pair.

    Active memories are not paired with tentative ones, which a joint entry would hide. Memories
    that an undo separated are not paired either.
    """
    if not found:
        return []
    in_time = sorted(found, key=lambda one: (one.memory.last_seen_at, one.memory.id))
    vectors = np.stack([one.vector for one in in_time]).astype(np.float64)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    units = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
    floor = round(similarity_min, SIMILARITY_DECIMALS)
    places: list[list[int]] = np.argwhere(
        np.triu(units @ units.T >= floor - NEAR_TIE, k=1)
    ).tolist()
    pairs = [_pair(in_time[older], in_time[newer]) for older, newer in places]
    return sorted(
        (
            (newer, older)
            for newer, older in pairs
            if older.similarity >= floor
            and newer.status is older.memory.status
            and not are_apart(newer, older.memory)
        ),
        key=lambda pair: (-pair[1].similarity, pair[0].id, pair[1].memory.id),
    )


def entries(
    found: Sequence[Candidate],
    relations: Sequence[RelatedPair],
    rules: Rules,
    tell: Callable[[Sequence[Memory]], EntryText | None],
) -> list[FactEntry]:
    """Group memories that are one fact into entries, ordered by the best result of each.

    When in doubt, keep apart: pairs with guard findings, and groups without a joint text.
    """
    groups = cohesive([one for one in relations if not one.judgement.findings], rules)
    group_of = {identity: group[0] for group in groups for identity in group}
    members = dict[MemoryId, list[Candidate]]()
    for one in found:
        members.setdefault(group_of.get(one.memory.id, one.memory.id), []).append(one)
    shown = [entry for group in members.values() for entry in _told(group, tell)]
    place = {one.memory.id: at for at, one in enumerate(found)}
    return sorted(shown, key=lambda entry: place[entry.members[0].memory.id])


def tell(
    memories: Sequence[Memory], readings: TextAnalyzer, *, characters_max: int
) -> EntryText | None:
    """Return one text for memories that are one fact, without repetitions.

    None if it would be longer than `characters_max` and no memory's own text says everything.
    """
    if len(memories) == 1:
        return EntryText(memories[0].text, "alone")
    text = append(parts_of(memories), readings).text
    if text in {memory.text.strip() for memory in memories}:
        return EntryText(text, "says-all")
    return EntryText(text, "joined") if len(text) <= characters_max else None


def parts_of(memories: Sequence[Memory]) -> tuple[MergePart, ...]:
    """Return the memories' texts as parts of a merge, oldest first."""
    return tuple(map(part_of, sorted(memories, key=lambda one: (one.last_seen_at, one.id))))


def _pair(older: Candidate, newer: Candidate) -> tuple[Memory, Neighbour]:
    nearness = similarity(newer.vector, older.vector)
    return newer.memory, Neighbour(older.memory, nearness, Band.REVIEW)


def _told(
    group: Sequence[Candidate], tell: Callable[[Sequence[Memory]], EntryText | None]
) -> list[FactEntry]:
    as_one = tell([one.memory for one in group])
    if as_one is not None:
        return [FactEntry(tuple(group), as_one)]
    return [FactEntry((one,), EntryText(one.memory.text, "alone")) for one in group]
