"""The writer: applies decisions to the store and returns the changes. It never decides."""

from collections.abc import Mapping, Sequence

from schemas.base import MemoryId
from schemas.memories import Memory
from schemas.outcomes import Applied
from streams.model.neighbours import StoredMemory
from streams.model.ports.failures import Fatal
from streams.model.ports.index import Index
from streams.stage.core.ledger import (
    Effect,
    MissingTarget,
    effects,
    memory_of,
    take,
    touched,
    version_after,
)
from streams.stage.flow.decisions import CountedDecision


class Mismatch(Fatal):
    """The store lacks a memory that a decision builds on."""


async def apply(window: Sequence[CountedDecision], *, index: Index) -> list[Applied]:
    """Bring the store to the state after a window of decisions; return the resulting changes.

    Idempotent: a version that the store already has is not written again, so a window may be
    applied twice or cut differently. Every successor is durable and searchable before the memory
    that it replaces is retired. The changes are those of the decisions, whether or not this call
    wrote them; a memory that has changed since it was retired is left out, because the store no
    longer knows its retired state. Raises Mismatch if the store lacks what a decision builds on.
    """
    ids = list(dict.fromkeys(i for logged in window for i in touched(logged.decision)))
    state = await index.get(ids) if ids else {}
    written: dict[MemoryId, None] = {}
    changes: list[Applied] = []
    for logged in window:
        made = effects(logged.decision)
        try:
            written.update(dict.fromkeys(take(state, made, holed=logged.holed)))
        except MissingTarget as damage:
            raise Mismatch(
                f"{damage} ({logged.position.place}); the index does not match the log: delete the "
                "index, and the next start rebuilds it"
            ) from damage
        changes.extend(_changes(logged, made, state))
    after = [state[identity] for identity in written]
    await index.write([stored for stored in after if stored.memory.live])
    await index.write([stored for stored in after if not stored.memory.live])
    return changes


def _changes(
    logged: CountedDecision, made: Sequence[Effect], state: Mapping[MemoryId, StoredMemory]
) -> list[Applied]:
    known = [(state[memory_of(one)], one) for one in made if memory_of(one) in state]
    left = [_left(*one) for one in known]
    return [
        Applied(
            memory_id=memory.id,
            memory=memory,
            decision_id=logged.decision.decision_id,
            decided=logged.position,
        )
        for memory in left
        if memory is not None
    ]


def _left(known: StoredMemory, effect: Effect) -> Memory | None:
    """Return a memory as an effect leaves it; None if it was retired and has changed since."""
    if isinstance(effect, StoredMemory):
        return effect.memory
    return known.memory if known.memory.version == version_after(effect) else None
