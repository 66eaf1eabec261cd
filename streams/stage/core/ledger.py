"""The state of the decisions topic: the effects of each decision, and their fold.

`state(scope) = fold(decisions)`. The store, the overlay and every audit use this implementation.
"""

from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from schemas.base import ContentKey, DecisionId, Embedding, MemoryId
from schemas.decisions import (
    Change,
    Decision,
    Erase,
    Ignore,
    Insert,
    Marker,
    Merge,
    NoChange,
    Reinforce,
    Replace,
    Restated,
    Revise,
    Revised,
    Revision,
    Supersession,
    Verdict,
    targets_of,
)
from schemas.events import CONTRADICTED_MAX, DECIDED_MAX, Remember, Undo
from schemas.memories import Memory, Standing, Superseded, Target
from streams.model.embedding import Vector, unpack
from streams.model.identity import content_key, event_key
from streams.model.neighbours import StoredMemory
from streams.stage.core import survivorship


@dataclass(frozen=True)
class SupersededMemory:
    """A memory that is retired in favour of a successor that the same decision stores."""

    target: Target
    superseded: Superseded


class RestatedMemory(StoredMemory):
    """A memory's state regardless of its previous one: the records that led to it may be erased."""


Effect = StoredMemory | SupersededMemory
_Decisions: TypeAlias = tuple[tuple[DecisionId, ContentKey], ...]


def effects(decision: Decision) -> list[Effect]:
    """Return a decision's effects on the store, the successor before the memories it retires."""
    if isinstance(decision, NoChange):
        return []
    match decision:
        case Insert() | Replace() | Merge():
            stored = StoredMemory(
                decision.memory,
                unpack(decision.embedding),
                _decided(decision),
                _variants(decision),
                _contradicted(decision),
                worded_at=decision.memory.version,
            )
            if isinstance(decision, Insert):
                return [stored]
            superseded = Superseded(
                by=decision.memory.id,
                at=decision.event.occurred_at,
                reason=decision.evidence.reason.value,
            )
            retired = [
                SupersededMemory(target, superseded)
                for target in decision.targets
                if target.memory_id != decision.memory.id
            ]
            return [stored, *retired]
        case Reinforce():
            return [
                StoredMemory(
                    decision.memory,
                    None,
                    _decided(decision),
                    _wording_of(decision),
                    _contradicted(decision),
                )
            ]
        case Revise():
            return [_revised(one, _decided(decision)) for one in decision.memories]
        case Erase():
            return [_restated(one, _decided(decision)) for one in decision.memories]


def memory_of(effect: Effect) -> MemoryId:
    """Return the id of the memory that an effect creates or changes."""
    return effect.memory.id if isinstance(effect, StoredMemory) else effect.target.memory_id


def version_after(effect: Effect) -> int:
    """Return a memory's version after an effect."""
    return (
        effect.target.version + 1 if isinstance(effect, SupersededMemory) else effect.memory.version
    )


def touched(decision: Decision) -> list[MemoryId]:
    """Return the ids of the memories that a decision creates or changes."""
    if isinstance(decision, NoChange):
        return []
    if isinstance(decision, Revision):
        return [revised.memory.id for revised in decision.memories]
    targets = (target.memory_id for target in targets_of(decision))
    return list(dict.fromkeys((decision.memory.id, *targets)))


def quoted(decision: Decision) -> list[MemoryId]:
    """Return the ids of memories that a decision quotes but does not change."""
    if isinstance(decision, Marker):
        return []
    found = [near.memory_id for near in decision.evidence.neighbours if near.findings]
    if isinstance(decision, Ignore) and isinstance(decision.event, Undo):
        found += [memory.id for memory in decision.event.memories]
    changed = set(touched(decision))
    return [identity for identity in dict.fromkeys(found) if identity not in changed]


def stated(decision: Decision) -> list[Memory]:
    """Return the memories whose new state a decision contains."""
    if isinstance(decision, NoChange):
        return []
    if isinstance(decision, Revision):
        return [revised.memory for revised in decision.memories]
    return [decision.memory]


def embeddings(decision: Decision) -> list[Embedding]:
    """Return the vectors that a decision contains: of memories, or of the event's text."""
    if isinstance(decision, NoChange):
        return []
    if isinstance(decision, Revision):
        found = [
            embedding
            for revised in decision.memories
            for embedding in (revised.embedding, *revised.variant_embeddings)
        ]
    elif isinstance(decision, Supersession):
        found = [decision.embedding, *decision.variant_embeddings]
    else:
        found = [decision.embedding]
    return [embedding for embedding in found if embedding is not None]


class MissingTarget(Exception):
    """A decision does not build on the current state: the log or the store is damaged."""


def fold(
    state: MutableMapping[MemoryId, StoredMemory], decision: Decision, *, holed: bool = False
) -> list[MemoryId]:
    """Apply a decision to a state; return the ids that changed.

    Versions make it idempotent: an effect that the state already includes is skipped. Raises
    MissingTarget if the state lacks what the decision builds on. With `holed`, earlier records may
    have been erased, so such an effect is skipped: a later decision restates the memory.
    """
    return take(state, effects(decision), holed=holed)


def take(
    state: MutableMapping[MemoryId, StoredMemory], made: Sequence[Effect], *, holed: bool = False
) -> list[MemoryId]:
    """Apply a decision's effects to a state, as `fold` does."""
    changed: list[MemoryId] = []
    for effect in made:
        identity = memory_of(effect)
        after = advance(state.get(identity), effect, holed=holed)
        if after is not None:
            state[identity] = after
            changed.append(identity)
    return changed


def advance(
    before: StoredMemory | None, effect: Effect, *, holed: bool = False
) -> StoredMemory | None:
    """Return the state of a memory after an effect; None if `before` already includes it.

    With `holed`, as for `fold`, also None if the state that the effect builds on is missing.
    """
    version = version_after(effect)
    if before is not None and before.memory.version >= version:
        if not holed:
            _require_known(before, effect)
        return None
    if isinstance(effect, RestatedMemory):
        return StoredMemory(**vars(effect))
    retires = isinstance(effect, SupersededMemory)
    if not retires and effect.vector is not None and version == 1:
        return _whole(effect)
    if holed and (before is None or before.memory.version != version - 1):
        return None
    if before is None:
        raise MissingTarget(f"memory {memory_of(effect)} should be changed, but does not exist")
    if before.memory.version != version - 1:
        raise MissingTarget(
            f"memory {memory_of(effect)} is at version {before.memory.version}, but the decision "
            f"builds on {version - 1}"
        )
    if retires:
        retired = survivorship.retired(before.memory, effect.superseded)
        return replace(before, memory=retired)
    after = effect.after(before)
    reworded = after.memory.content_key != before.memory.content_key
    return _whole(
        StoredMemory(
            after.memory,
            after.vector,
            _newest(*before.decided, *effect.decided),
            after.variants,
            # What a memory said before no longer counts.
            effect.contradicted if reworded else _conflicting(before, effect),
            after.memory.version if reworded else before.worded_at,
        )
    )


def _conflicting(before: StoredMemory, effect: StoredMemory) -> tuple[tuple[MemoryId, int], ...]:
    """Return what a memory contradicts after an effect that leaves its text."""
    if not effect.contradicted:
        return before.contradicted
    known = dict(before.contradicted)
    for identity, version in effect.contradicted:
        known.pop(identity, None)
        known[identity] = version
    return tuple(known.items())[-CONTRADICTED_MAX:]


def _whole(after: StoredMemory) -> StoredMemory:
    """Return a state; raise MissingTarget if it has a vector, but not one for each wording."""
    if after.vector is not None and not after.is_whole:
        raise MissingTarget(f"memory {after.memory.id} gets a wording, but not its vector")
    return after


def _require_known(before: StoredMemory, effect: Effect) -> None:
    """Raise MissingTarget if a different decision produced the version that an effect would.

    Skipping such an effect would lose it. Effects older than the decisions that a memory remembers
    were compared when applied; a restated memory remembers none from before, and a forgotten one
    has nothing to lose.
    """
    later = before.memory.version - version_after(effect)
    if later >= min(len(before.decided), DECIDED_MAX // 2) or _is_forgotten(before.memory):
        return
    if isinstance(effect, SupersededMemory):
        superseded = before.memory.superseded
        by = None if superseded is None else superseded.by
        known = later > 0 or by == effect.superseded.by
    else:
        known = bool(set(effect.decided) & set(before.decided))
    if not known:
        raise MissingTarget(
            f"memory {memory_of(effect)} is at version {before.memory.version} by other decisions "
            f"than the one that makes it {version_after(effect)}"
        )


def _is_forgotten(memory: Memory) -> bool:
    return memory.status is Standing.FORGOTTEN


def _wording_of(decision: Reinforce) -> dict[ContentKey, Vector]:
    """Return the vector of the event's text if the memory keeps the text as a variant."""
    event, embedding = decision.event, decision.embedding
    if embedding is None or not isinstance(event, Remember):
        return {}
    key = content_key(event.scope, event.text)
    kept = any(variant.content_key == key for variant in decision.memory.variants)
    return {key: unpack(embedding)} if kept else {}


def _variants(decision: Insert | Supersession) -> dict[ContentKey, Vector]:
    if isinstance(decision, Insert):
        return {}
    return _worded(decision.memory, decision.variant_embeddings)


def _worded(memory: Memory, embeddings: Sequence[Embedding]) -> dict[ContentKey, Vector]:
    """Return the vectors of a memory's variants if the decision contains them."""
    if not embeddings:
        return {}
    keys = (variant.content_key for variant in memory.variants)
    return dict(zip(keys, map(unpack, embeddings), strict=True))


def _revised(revised: Revised, decided: _Decisions) -> StoredMemory:
    vector = revised.embedding and unpack(revised.embedding)
    variants = _worded(revised.memory, revised.variant_embeddings)
    return StoredMemory(revised.memory, vector, decided, variants)


def _restated(one: Restated, decided: _Decisions) -> RestatedMemory:
    stored = _revised(one, _newest(*known_by(one), *decided))
    links = tuple((link.memory_id, link.version) for link in one.history.contradicted)
    stated = replace(stored, contradicted=links, worded_at=one.history.worded_at)
    return RestatedMemory(**vars(stated))


def _newest(*decided: tuple[DecisionId, ContentKey]) -> _Decisions:
    """Return what a memory remembers: the decision that made it, whose id is its own, and the newest."""
    if len(decided) <= DECIDED_MAX:
        return decided
    return (decided[0], *decided[1 - DECIDED_MAX :])


def restated(decision: Decision) -> dict[DecisionId, ContentKey]:
    """Return the earlier decisions by which an erasure lets redelivered events be known."""
    found = decision.memories if isinstance(decision, Erase) else ()
    return {identity: key for one in found for identity, key in known_by(one)}


def known_by(restated: Restated) -> list[tuple[DecisionId, ContentKey]]:
    """Return the decisions by which a restated memory knows redelivered events, oldest first."""
    return [(one.decision_id, one.content_key) for one in restated.history.decided]


def _contradicted(decision: Change) -> tuple[tuple[MemoryId, int], ...]:
    """Return the memories that a decision found to be contradicted.

    A memory that it retires is in no conflict until an undo restores it.
    """
    found = (
        (near.memory_id, near.version)
        for near in decision.evidence.neighbours
        if near.verdict is Verdict.CONTRADICTS and near.memory_id != decision.memory.id
    )
    return tuple(found)[:CONTRADICTED_MAX]


def _decided(decision: Change | Revision) -> _Decisions:
    return ((decision.decision_id, event_key(decision.event)),)
