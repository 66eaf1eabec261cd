"""Requests to change existing memories: end, pin, rate, restore, forget.

Each is applied entirely or not at all, except for ending several memories: those that have changed
since the requester saw them stay, and the evidence says so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from schemas.base import Embedding, MemoryId, ModelId, Position
from schemas.decisions import Erase, Evidence, Ignore, Reason, Restated, Revise, Revised
from schemas.events import (
    Consolidate,
    Erasure,
    Forget,
    Forgotten,
    Pin,
    Rate,
    Request,
    Retire,
    Stated,
    Undo,
)
from schemas.memories import Feedback, Memory, Standing, Superseded, Target
from streams.model.embedding import pack
from streams.model.identity import content_key
from streams.model.neighbours import StoredMemory
from streams.model.policy import Policy
from streams.model.wordings import embeddings
from streams.stage.core import survivorship
from streams.stage.core.case import Case, EncodedVector
from streams.stage.core.decide import ignore, next_version, revise
from streams.stage.core.tombstones import grave


@dataclass(frozen=True)
class WordingVectors:
    """The embeddings of a memory's wordings: its shown text's and its variants'."""

    shown: EncodedVector
    variants: tuple[Embedding, ...]


Held: TypeAlias = Mapping[MemoryId, StoredMemory]
"""The newest states of memories, live or not, with their vectors."""


def changed(
    request: Retire | Pin | Rate, source: Position, policy: Policy, held: Held
) -> Revise | Ignore:
    """Decide on a request for which it is enough to know the memories that it names."""
    match request:
        case Retire():
            return ended(Case(request, source, policy), held)
        case Pin():
            return pinned(Case(request, source, policy), held)
        case Rate():
            return rated(Case(request, source, policy), held)


def ended(case: Case[Retire], held: Held) -> Revise | Ignore:
    """Retire memories without a successor, if they are unchanged since seen and not pinned."""
    request = case.event
    superseded = Superseded(by=None, at=request.occurred_at, reason=request.reason)
    refused: list[str] = []
    retired: list[Revised] = []
    for target in request.memories:
        memory = _live(held, request, target.memory_id)
        if memory is None or memory.version != target.version:
            refused.append(f"{target.memory_id}: changed since")
        elif memory.pinned:
            refused.append(f"{target.memory_id}: pinned")
        else:
            retired.append(Revised(memory=survivorship.retired(memory, superseded)))
    if not retired:
        return ignore(case, Reason.OUT_OF_DATE, refused)
    return revise(case, Reason.ENDED, retired, refused)


def pinned(case: Case[Pin], held: Held) -> Revise | Ignore:
    """Pin or unpin a memory, even if it already is.

    Ignored requests are not remembered: redelivered after an opposite request, an ignored one would
    revert that.
    """
    request = case.event
    memory = _live(held, request, request.memory_id)
    if memory is None:
        return ignore(case, Reason.OUT_OF_DATE)
    reason = Reason.PINNED if request.pinned else Reason.UNPINNED
    return revise(case, reason, [_next(memory, pinned=request.pinned)])


def rated(case: Case[Rate], held: Held) -> Revise | Ignore:
    """Add to the counts of how often a memory was accessed, helped and misled."""
    request = case.event
    memory = _live(held, request, request.memory_id)
    if memory is None:
        return ignore(case, Reason.OUT_OF_DATE)
    told = Feedback(accessed=request.accessed, helpful=request.helpful, harmful=request.harmful)
    if told == Feedback():
        return ignore(case, Reason.NOTHING_TO_CHANGE)
    feedback = survivorship.summed([memory.feedback, told])
    return revise(case, Reason.RATED, [_next(memory, feedback=feedback)])


def made_up_for(
    case: Case[Consolidate], held: Held, encoded: EncodedVector | None
) -> Revise | Ignore:
    """Give a memory that was stored unchecked the vector that it lacks, or take the mark off.

    Whoever asks for the second has compared it. `encoded` is its text's; None where it still cannot
    be embedded.
    """
    [target] = case.event.members
    memory = _live(held, case.event, target.memory_id)
    if memory is None or memory.version != target.version:
        return ignore(case, Reason.OUT_OF_DATE)
    if memory.unchecked is None:
        return ignore(case, Reason.NOTHING_TO_CHANGE)
    if memory.unchecked == "not-compared":
        return revise(case, Reason.CHECKED, [_next(memory, unchecked=None)])
    if encoded is None:
        return ignore(case, Reason.UNCHECKED)
    after = _next(memory, unchecked="not-compared", truncated=encoded.truncated)
    revised = after.model_copy(update={"embedding": encoded.embedding})
    return revise(case, Reason.EMBEDDED, [revised])


def put_back(
    case: Case[Undo], held: Held, encoded: Mapping[MemoryId, WordingVectors]
) -> Revise | Ignore:
    """Restore memories to their state without the undone decisions: all of them or none.

    `encoded` has the embeddings of each memory that becomes live, or that gets wordings without a
    known vector.
    """
    restored = case.event.memories
    stale = [memory.id for memory in restored if not _follows(case, held, memory)]
    if stale:
        refused = [f"{identity}: changed since" for identity in stale]
        return ignore(case, Reason.OUT_OF_DATE, refused)
    revised = [_restored(memory, encoded.get(memory.id)) for memory in restored]
    return revise(case, Reason.UNDONE, revised)


def is_foreign(gone: Forgotten, key: str, model: ModelId) -> bool:
    """Return whether a tombstone was made with another key or from another model's vector."""
    other_key = gone.tombstone is not None and gone.tombstone.key != key
    return other_key or gone.embedding.model != model


def forgotten(case: Case[Forget], held: Held, model: ModelId, *, erasable: bool) -> Erase | Ignore:
    """Reduce memories to tombstones and restate the others: all or nothing.

    If none of the memories exists, as when a replay no longer has the forgotten events, their
    tombstones are stored anyway. `model` computed the vectors; `erasable` is whether the records
    that the request names exist and belong to its scope.
    """
    request = case.event
    if not any(target.memory_id in held for target in request.targets):
        return _erase(case, [_buried(request, one, 1) for one in request.memories])
    stale = [one.memory_id for one in request.targets if not _is_as_seen(held, request, one)]
    if stale or not erasable:
        refused = [f"{identity}: changed since" for identity in stale]
        return ignore(case, Reason.OUT_OF_DATE, refused)
    gone = [_buried(request, one, one.version + 1) for one in request.memories]
    stay = [_said_as_it_is(held[one.memory_id], one, model) for one in request.stated]
    return _erase(case, [*gone, *stay], request.erased)


def brings_back(request: Undo, held: Held) -> MemoryId | None:
    """Return a forgotten memory that an undo would restore; None if there is none."""
    known = (held.get(memory.id) for memory in request.memories)
    gone = (one for one in known if one and one.memory.status is Standing.FORGOTTEN)
    return next((one.memory.id for one in gone), None)


def _is_as_seen(held: Held, request: Forget, target: Target) -> bool:
    known = held.get(target.memory_id)
    if known is None or known.vector is None:
        return False
    memory = known.memory
    return memory.scope == request.scope and memory.version == target.version


def _buried(request: Forget, gone: Forgotten, version: int) -> Restated:
    left = grave(gone, request.scope, request.occurred_at, version)
    return Restated(memory=left, embedding=gone.embedding)


def _said_as_it_is(known: StoredMemory, stated: Stated, model: ModelId) -> Restated:
    if known.vector is None:
        raise TypeError(f"memory {known.memory.id} is stated without its vector")
    memory = next_version(known.memory)
    return Restated(
        memory=memory,
        embedding=pack(known.vector, model),
        variant_embeddings=embeddings(memory, known.variants, model),
        history=stated.history,
    )


def _follows(case: Case[Undo], held: Held, memory: Memory) -> bool:
    """Return whether a memory is the next version of an existing one, or the undo's own new one.

    Any other unused id belongs to an event or a name that may still arrive, and the memory would
    then be created twice.
    """
    known = held.get(memory.id)
    if known is None:
        return memory.id == case.new_memory_id and memory.version == 1
    return known.memory.scope == memory.scope and known.memory.version == memory.version - 1


def _restored(memory: Memory, encoded: WordingVectors | None) -> Revised:
    """Return the requested memory, with content keys recomputed from its words."""
    memory = memory.model_copy(
        update={
            "content_key": content_key(memory.scope, memory.text),
            "variants": tuple(
                one.model_copy(update={"content_key": content_key(memory.scope, one.text)})
                for one in memory.variants
            ),
        }
    )
    if encoded is None:
        return Revised(memory=memory)
    return Revised(
        memory=memory.model_copy(update={"truncated": encoded.shown.truncated}),
        embedding=encoded.shown.embedding,
        variant_embeddings=encoded.variants,
    )


def _live(held: Held, request: Request, identity: MemoryId) -> Memory | None:
    """Return a live memory of the request's scope; None if there is none with this id."""
    stored = held.get(identity)
    if stored is None or stored.memory.scope != request.scope or not stored.memory.live:
        return None
    return stored.memory


def _next(memory: Memory, **update: object) -> Revised:
    return Revised(memory=next_version(memory, **update))


def _erase(
    case: Case[Forget], restated: Sequence[Restated], erased: Sequence[Erasure] = ()
) -> Erase:
    because = Evidence(reason=Reason.FORGOTTEN)
    return Erase(**case.fields(because), memories=tuple(restated), erased=tuple(erased))
