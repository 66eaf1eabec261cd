"""What tests ask of the decisions of a log."""

from collections.abc import Iterable

from schemas.base import ScopeName
from schemas.decisions import Change, Decision, Erase
from schemas.events import Consolidate, Remember
from schemas.memories import Memory
from streams.stage.core.tombstones import TombstoneKey, tombstone_of


def kind_of(decision: Decision) -> str:
    """Return the kind of a decision; where memories were joined as was proposed: consolidate."""
    if isinstance(decision, Change) and isinstance(decision.event, Consolidate):
        return decision.event.kind
    return decision.kind


def buried(memories: Iterable[Memory]) -> set[tuple[ScopeName, str]]:
    """Return the fingerprints of what was forgotten, each with its scope."""
    left = ((memory.scope, tombstone_of(memory)) for memory in memories)
    return {(scope, one) for scope, stone in left if stone for one in stone.fingerprints}


def learnt_again(decisions: Iterable[Decision], key: TombstoneKey) -> list[str]:
    """Return the events that say what decisions before them have forgotten, and were believed."""
    gone: set[tuple[ScopeName, str]] = set()
    found: list[str] = []
    for decision in decisions:
        if isinstance(decision, Erase):
            gone |= buried(revised.memory for revised in decision.memories)
        elif isinstance(decision, Change) and isinstance(decision.event, Remember):
            event = decision.event
            if (event.scope, key.fingerprint(event.scope, event.text)) in gone:
                found.append(f"learnt again: {event.event_id}")
    return found
