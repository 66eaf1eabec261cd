"""Requests to change existing memories: end, pin, rate, restore, forget.

Each is applied entirely or not at all, except for ending several memories: those that have changed
since the requester saw them stay, and the evidence says so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from schemas.base import Embedding, MemoryId, ModelId, Position
from schemas.decisions import Erase, Evidence, Ignore, Reason, Revise, Revised
from schemas.events import Consolidate, Erasure, Forget, Forgotten, Pin, Rate, Request, Retire, Undo
from schemas.memories import Feedback, Memory, Standing, Superseded, Target
from streams.model.embedding import pack
from streams.model.identity import content_key, decision_id, memory_id
from streams.model.neighbours import StoredMemory
from streams.model.policy import Policy
from streams.model.wordings import embeddings
from streams.stage.core import survivorship
from streams.stage.core.case import EncodedVector
from streams.stage.core.decide import ignore
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
            return ended(request, source, policy, held)
        case Pin():
            return pinned(request, source, policy, held)
        case Rate():
            return rated(request, source, policy, held)


def ended(request: Retire, source: Position, policy: Policy, held: Held) -> Revise | Ignore:
    """Retire memories without a successor, if they are unchanged since seen and not pinned."""
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
        return ignore(request, source, policy, Reason.OUT_OF_DATE, refused)
    return _revise(request, source, policy, Reason.ENDED, retired, refused)


def pinned(request: Pin, source: Position, policy: Policy, held: Held) -> Revise | Ignore:
    """Pin or unpin a memory, even if it already is.

    Ignored requests are not remembered: redelivered after an opposite request, an ignored one would
    revert that.
    """
    memory = _live(held, request, request.memory_id)
    if memory is None:
        return ignore(request, source, policy, Reason.OUT_OF_DATE)
    reason = Reason.PINNED if request.pinned else Reason.UNPINNED
    return _revise(request, source, policy, reason, [_next(memory, pinned=request.pinned)])


def rated(request: Rate, source: Position, policy: Policy, held: Held) -> Revise | Ignore:
    """Add to the counts of how often a memory was accessed, helped and misled."""
    memory = _live(held, request, request.memory_id)
    if memory is None:
        return ignore(request, source, policy, Reason.OUT_OF_DATE)
    told = Feedback(accessed=request.accessed, helpful=request.helpful, harmful=request.harmful)
    if told == Feedback():
        return ignore(request, source, policy, Reason.NOTHING_TO_CHANGE)
    feedback = survivorship.summed([memory.feedback, told])
    return _revise(request, source, policy, Reason.RATED, [_next(memory, feedback=feedback)])


def made_up_for(
    request: Consolidate,
    source: Position,
    policy: Policy,
    held: Held,
    encoded: EncodedVector | None,
) -> Revise | Ignore:
    """Give a memory that was stored unchecked the vector that it lacks, or take the mark off.

    Whoever asks for the second has compared it. `encoded` is its text's; None where it still cannot
    be embedded.
    """
    [target] = request.members
    memory = _live(held, request, target.memory_id)
    if memory is None or memory.version != target.version:
        return ignore(request, source, policy, Reason.OUT_OF_DATE)
    if memory.unchecked is None:
        return ignore(request, source, policy, Reason.NOTHING_TO_CHANGE)
    if memory.unchecked == "not-compared":
        return _revise(request, source, policy, Reason.CHECKED, [_next(memory, unchecked=None)])
    if encoded is None:
        return ignore(request, source, policy, Reason.UNCHECKED)
    after = _next(memory, unchecked="not-compared", truncated=encoded.truncated)
    revised = after.model_copy(update={"embedding": encoded.embedding})
    return _revise(request, source, policy, Reason.EMBEDDED, [revised])


def put_back(
    request: Undo,
    source: Position,
    policy: Policy,
    held: Held,
    encoded: Mapping[MemoryId, WordingVectors],
) -> Revise | Ignore:
    """Restore memories to their state without the undone decisions: all of them or none.

    `encoded` has the embeddings of each memory that becomes live, or that gets wordings without a
    known vector.
    """
    stale = [memory.id for memory in request.memories if not _follows(request, held, memory)]
    if stale:
        refused = [f"{identity}: changed since" for identity in stale]
        return ignore(request, source, policy, Reason.OUT_OF_DATE, refused)
    restored = [_restored(memory, encoded.get(memory.id)) for memory in request.memories]
    return _revise(request, source, policy, Reason.UNDONE, restored)


def is_foreign(gone: Forgotten, key: str, model: ModelId) -> bool:
    """Return whether a tombstone was made with another key or from another model's vector."""
    other_key = gone.tombstone is not None and gone.tombstone.key != key
    return other_key or gone.embedding.model != model


def forgotten(
    request: Forget,
    source: Position,
    policy: Policy,
    held: Held,
    model: ModelId,
    *,
    erasable: bool,
) -> Erase | Ignore:
    """Reduce memories to tombstones and restate the others: all or nothing.

    If none of the memories exists, as when a replay no longer has the forgotten events, their
    tombstones are stored anyway. `model` computed the vectors; `erasable` is whether the records
    that the request names exist and belong to its scope.
    """
    if not any(target.memory_id in held for target in request.targets):
        return _erase(
            request, source, policy, [_buried(request, one, 1) for one in request.memories]
        )
    stale = [one.memory_id for one in request.targets if not _is_as_seen(held, request, one)]
    if stale or not erasable:
        refused = [f"{identity}: changed since" for identity in stale]
        return ignore(request, source, policy, Reason.OUT_OF_DATE, refused)
    gone = [_buried(request, one, one.version + 1) for one in request.memories]
    stay = [_said_as_it_is(held[target.memory_id], model) for target in request.stated]
    return _erase(request, source, policy, [*gone, *stay], request.erased)


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


def _buried(request: Forget, gone: Forgotten, version: int) -> Revised:
    left = grave(gone, request.scope, request.occurred_at, version)
    return Revised(memory=left, embedding=gone.embedding)


def _said_as_it_is(known: StoredMemory, model: ModelId) -> Revised:
    if known.vector is None:
        raise TypeError(f"memory {known.memory.id} is stated without its vector")
    memory = known.memory.model_copy(update={"version": known.memory.version + 1})
    return Revised(
        memory=memory,
        embedding=pack(known.vector, model),
        variant_embeddings=embeddings(memory, known.variants, model),
    )


def _follows(request: Undo, held: Held, memory: Memory) -> bool:
    """Return whether a memory is the next version of an existing one, or the undo's own new one.

    Any other unused id belongs to an event or a name that may still arrive, and the memory would
    then be created twice.
    """
    known = held.get(memory.id)
    if known is None:
        own = memory_id(decision_id(request.scope, request.event_id))
        return memory.id == own and memory.version == 1
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
    return Revised(memory=memory.model_copy(update={**update, "version": memory.version + 1}))


def _erase(
    request: Forget,
    source: Position,
    policy: Policy,
    revised: Sequence[Revised],
    erased: Sequence[Erasure] = (),
) -> Erase:
    return Erase(
        decision_id=decision_id(request.scope, request.event_id),
        event=request,
        source=source,
        policy_id=policy.id,
        evidence=Evidence(reason=Reason.FORGOTTEN),
        memories=tuple(revised),
        erased=tuple(erased),
    )


def _revise(
    request: Request,
    source: Position,
    policy: Policy,
    reason: Reason,
    revised: Sequence[Revised],
    refused: Sequence[str] = (),
) -> Revise:
    return Revise(
        decision_id=decision_id(request.scope, request.event_id),
        event=request,
        source=source,
        policy_id=policy.id,
        evidence=Evidence(reason=reason, refused=tuple(refused)),
        memories=tuple(revised),
    )
