"""A memory's history, version by version, reconstructed from the decisions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from schemas.base import DecisionId, MemoryId
from schemas.decisions import Decision, Reason, Supersession
from schemas.events import Event, Remember
from schemas.memories import Memory
from streams.model.neighbours import StoredMemory
from streams.stage.core.ledger import effects, memory_of, take
from streams.stage.core.lineage import Changing, changing, undone

_TOLD_OTHERWISE = {
    "id",
    "scope",
    "version",
    "content_key",
    "text",
    "variants",
    "status",
    "superseded",
}


@dataclass(frozen=True)
class MemoryVersion:
    """A memory after a decision and before it; `before` is None for the first version.

    `undone_by` is the decision that undid this one, if any.
    """

    memory: Memory
    before: Memory | None
    decision: Changing
    undone_by: DecisionId | None = None


def versions(identity: MemoryId, decisions: Iterable[Decision]) -> list[MemoryVersion]:
    """Return a memory's versions, oldest first.

    `decisions` are those that changed it, in order; versions that build on an erased one are
    omitted.
    """
    changes = changing(decisions)
    gone, state = undone(changes), dict[MemoryId, StoredMemory]()
    found: list[MemoryVersion] = []
    for one in changes:
        before = state.get(identity)
        own = [effect for effect in effects(one) if memory_of(effect) == identity]
        if take(state, own, holed=True):
            was = None if before is None else before.memory
            after = state[identity].memory
            found.append(MemoryVersion(after, was, one, gone.get(one.decision_id)))
    return found


def said_by(event: Event) -> str:
    """Return the source or author of an event; empty if unknown."""
    return (event.source or "") if isinstance(event, Remember) else event.author


def differences(version: MemoryVersion) -> list[str]:
    """Return the changes of a version, one per line, texts first."""
    before, after = version.before, version.memory
    lines: list[str] = []
    if before is None or before.text != after.text:
        lines += [] if before is None else [f'- "{before.text}"']
        lines.append(f'+ "{after.text}"')
    lines += _worded(before, after)
    if before is None or (before.status, before.superseded) != (after.status, after.superseded):
        lines += [] if before is None and after.live else [standing(after)]
    if before is not None:
        lines += [
            f"{name.replace('_', ' ')}: {_told(getattr(before, name))} → {_told(value)}"
            for name, value in after
            if name not in _TOLD_OTHERWISE and value != getattr(before, name)
        ]
    return lines


def _worded(before: Memory | None, after: Memory) -> list[str]:
    """Return the variants that a version gained or lost, one per line."""
    had = {} if before is None else {one.content_key: one.text for one in before.variants}
    has = {one.content_key: one.text for one in after.variants}
    shown = {after.content_key} if before is None else {before.content_key, after.content_key}
    lost = [f'- also "{text}"' for key, text in had.items() if key not in {*has, *shown}]
    return [*lost, *(f'+ also "{text}"' for key, text in has.items() if key not in had)]


def standing(memory: Memory) -> str:
    """Return a memory's status in a few words, with the reason if it is retired."""
    if memory.superseded is None:
        return memory.status.value
    if memory.superseded.by is None:
        return f"ended: {memory.superseded.reason}"
    on, reason = f"{memory.superseded.at:%Y-%m-%d}", memory.superseded.reason
    told = "a person asked for it" if reason == Reason.ANSWERED.value else reason
    return f"replaced on {on} by {memory.superseded.by}: {told}"


def not_live(memory: Memory) -> str:
    """Return the refusal to change a memory that is not live; it names the one to ask for."""
    by = None if memory.superseded is None else memory.superseded.by
    instead = "" if by is None else f"; ask for {by} instead"
    return f"memory {memory.id} is not live: {standing(memory)}{instead}"


def replaced(identity: MemoryId, decisions: Iterable[Decision]) -> list[MemoryId]:
    """Return the memories that a memory replaced."""
    targets = [target for one in decisions for target in _targets(one, identity)]
    return list(dict.fromkeys(targets))


def _targets(decision: Decision, identity: MemoryId) -> Sequence[MemoryId]:
    if not isinstance(decision, Supersession) or decision.memory.id != identity:
        return ()
    return [one.memory_id for one in decision.targets if one.memory_id != identity]


def _told(value: object) -> str:
    """Return a field's value formatted for people."""
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S} UTC"
    if isinstance(value, list | tuple):
        return ", ".join(f"{one}" for one in cast("Sequence[object]", value)) or "none"
    return "none" if value is None or value == {} else f"{value}"
