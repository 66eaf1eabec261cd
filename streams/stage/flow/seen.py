"""What index and log knew of a batch's events before its first decision."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from schemas.base import ContentKey, DecisionId, EventId, MemoryId, ModelId, ScopeName
from schemas.events import Answer, Consolidate, Event, Forget, Pin, Rate, Remember, Retire, Undo
from schemas.memories import Memory
from schemas.outcomes import Review
from streams.model.embedding import Vector, pack
from streams.model.identity import content_key, named_memory_id
from streams.model.neighbours import KnownEvent, StoredMemory
from streams.model.ports.failures import Fatal, Transient
from streams.model.verdict import Judgement
from streams.stage.core.case import EncodedVector
from streams.stage.core.overlay import Fork

Asked: TypeAlias = tuple[ScopeName, EventId, str, MemoryId, int]
"""The key of a judgement: an event, by id and text, and a version of a memory."""


class JudgedMemory(NamedTuple):
    """A judgement, and the memory as it was judged: not always what it turns out to be."""

    memory: Memory
    judgement: Judgement


@dataclass
class BatchKnowledge:
    """What the world knew of a batch's events before the first was decided.

    `waits`: whoever does not answer is asked again, batch and all. `blind`: the index told nothing.
    `silent` as for DecidedBatch. `failed` are texts that have a stand-in for a vector, and why.
    """

    decided: Mapping[DecisionId, KnownEvent]
    contents: Mapping[ContentKey, Sequence[StoredMemory]]
    named: Mapping[MemoryId, StoredMemory]
    forgotten: Mapping[ScopeName, Sequence[StoredMemory]]
    encoded: dict[str, EncodedVector] = field(default_factory=dict[str, EncodedVector])
    hits: dict[tuple[ScopeName, str], list[StoredMemory]] = field(
        default_factory=dict[tuple[ScopeName, str], list[StoredMemory]]
    )
    judged: dict[Asked, JudgedMemory] = field(default_factory=dict[Asked, JudgedMemory])
    reviews: dict[DecisionId, list[Review]] = field(default_factory=dict[DecisionId, list[Review]])
    titles: dict[MemoryId, str] = field(default_factory=dict[MemoryId, str])
    waits: bool = True
    blind: bool = False
    silent: dict[str, str] = field(default_factory=dict[str, str])
    failed: dict[str, Transient | Fatal] = field(default_factory=dict[str, Transient | Fatal])


def with_whole(
    candidates: Sequence[StoredMemory], whole: Iterable[StoredMemory | None]
) -> list[StoredMemory]:
    """Return the candidates, replacing those whose vectors are now all known."""
    known = {one.memory.id: one for one in whole if one is not None}
    return [known.get(one.memory.id, one) for one in candidates]


def vectors_united(known: Iterable[Mapping[ContentKey, Vector]]) -> dict[ContentKey, Vector]:
    return {key: vector for vectors in known for key, vector in vectors.items()}


def as_held(held: StoredMemory, model: ModelId) -> dict[str, EncodedVector]:
    """Return the embeddings that a memory holds of its wordings, by text."""
    memory, wordings = held.memory, held.wordings
    texts = [(memory.content_key, memory.text)]
    texts += [(variant.content_key, variant.text) for variant in memory.variants]
    return {
        text: EncodedVector(
            wordings[key],
            pack(wordings[key], model),
            truncated=memory.truncated and key == memory.content_key,
        )
        for key, text in texts
        if key in wordings
    }


def has_words_of(held: StoredMemory | None, memory: Memory) -> bool:
    """Return whether a memory still has the same text and all of these wordings."""
    if held is None or held.memory.text != memory.text:
        return False
    return {one.text for one in memory.variants} <= {one.text for one in held.memory.variants}


def memories_named(event: Event) -> list[MemoryId]:
    """Return the ids of the memories that an event names."""
    match event:
        case Remember():
            own = _named_id(event)
            return [*map(MemoryId, event.supersedes), *([] if own is None else [own])]
        case Answer():
            return [event.newer.memory_id, event.older.memory_id]
        case Pin() | Rate():
            return [event.memory_id]
        case Undo():
            return [memory.id for memory in event.memories]
        case Retire():
            return [target.memory_id for target in event.memories]
        case Forget():
            return [target.memory_id for target in event.targets]
        case Consolidate():
            return [target.memory_id for target in event.members]


def _named_id(event: Remember) -> MemoryId | None:
    name = event.memory_id
    return None if name is None else named_memory_id(event.scope, name)


def free_name(event: Remember, seen: BatchKnowledge, fork: Fork) -> MemoryId | None:
    """Return the id that the event's name stands for, if no memory has had it yet."""
    named = _named_id(event)
    if named is None or named in seen.named or named in fork.changed(event.scope):
        return None
    return named


def addressed_memory(event: Remember, seen: BatchKnowledge, fork: Fork) -> StoredMemory | None:
    """Return the live memory that the event's producer addresses by name; None if none."""
    named = _named_id(event)
    return None if named is None else live_memory(event.scope, named, seen, fork)


def graves_in(
    scope: ScopeName, seen: BatchKnowledge, fork: Fork
) -> Mapping[MemoryId, StoredMemory]:
    """Return a scope's tombstones in a fixed order, whether applied yet or not."""
    found = (*seen.forgotten.get(scope, ()), *fork.forgotten(scope))
    if not found:
        return {}  # the common case
    newest = {one.memory.id: one for one in found}
    return dict(sorted(newest.items()))


def live_memory(
    scope: ScopeName, identity: str, seen: BatchKnowledge, fork: Fork
) -> StoredMemory | None:
    """Return the newest state of a memory of a scope; None if it is not live."""
    stored = seen.named.get(MemoryId(identity))
    here = stored if stored is not None and stored.memory.scope == scope else None
    current = fork.state(scope, MemoryId(identity), here)
    return current if current is not None and current.memory.live else None


def with_content(event: Remember, seen: BatchKnowledge, fork: Fork) -> StoredMemory | None:
    """Return the live memory that has exactly the event's words."""
    key = content_key(event.scope, event.text)
    return fork.with_content(event.scope, key, seen.contents.get(key, ()))
