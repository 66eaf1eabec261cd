"""What a log line tells of a decision: how near it was, a repeat, what gave way, what went wrong."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from schemas.base import MemoryId
from schemas.decisions import (
    Band,
    Decision,
    Insert,
    Marker,
    Merge,
    OnEvent,
    Reason,
    Reinforce,
    Replace,
)
from schemas.events import Remember
from streams.core.merge import UNWORDED
from streams.core.sessions import NEAR_DUPLICATE

_SAME_WORDS = 1.0
"""The similarity of what was recognised by its words, without a comparison."""


@dataclass(frozen=True)
class Notice:
    """One line: what happened, and to which memories; nothing in `fields` is a person's words.

    `titles` are, and stand apart.
    """

    what: str
    fields: Mapping[str, object]
    titles: Mapping[str, object]


Titles: TypeAlias = Mapping[MemoryId, str]
"""What memories that were compared with are called."""


def notice(decision: Decision, titles: Titles) -> Notice | None:
    """Return what there is to tell; None of what is new, ignored, or was asked for."""
    if isinstance(decision, Marker) or not isinstance(decision.event, Remember):
        return None
    if isinstance(decision, Reinforce):
        return _of(decision, "duplicate found", "metadata_update", {}, {})
    if isinstance(decision, Merge | Replace) and decision.evidence.reason in NEAR_DUPLICATE:
        action = "merge" if isinstance(decision, Merge) else "supersession"
        old = [target.memory_id for target in decision.targets]
        called = {"superseded_titles": [titles.get(one) for one in old]}
        return _of(decision, "near-duplicate superseded", action, {"superseded": old}, called)
    return None


def loose(decision: Decision, titles: Titles) -> Notice | None:
    """Return that an event is somewhat like a memory, and was kept all the same."""
    if not isinstance(decision, Insert) or not (near := decision.evidence.neighbours):
        return None
    if near[0].band is not Band.LOG:
        return None
    called = {"similar_title": titles.get(near[0].memory_id)}
    return _of(decision, "similar memory kept", "insert", {"similar": near[0].memory_id}, called)


def checked(decision: Decision) -> Notice | None:
    """Return how near an event came to what is known, and what was done with it."""
    if isinstance(decision, Marker) or not isinstance(decision.event, Remember):
        return None
    fields = {
        "action": decision.kind,
        "reason": decision.evidence.reason.value,
        "scope": decision.event.scope,
        "event_id": decision.event.event_id,
        "similarity": _nearest(decision),
    }
    return Notice("event checked", fields, {"candidate_title": decision.event.title})


def unworded(decision: Decision) -> Notice | None:
    """Return that a language model gave no text for a merge, and what was done instead."""
    if isinstance(decision, Marker):
        return None
    why = [one for one in decision.evidence.degraded if one.startswith(UNWORDED)]
    if not why:
        return None
    made = decision.evidence.merge
    fields = {
        "reason": why[0].removeprefix(UNWORDED),
        "fallback": None if made is None else made.strategy,
        "scope": decision.event.scope,
        "event_id": decision.event.event_id,
    }
    return Notice("merge failed", fields, {})


def compared(decision: Decision) -> int:
    """Return with how many memories an event was compared."""
    return 0 if isinstance(decision, Marker) else len(decision.evidence.neighbours)


def _of(
    decision: Insert | Reinforce | Merge | Replace,
    what: str,
    action: str,
    more: Mapping[str, object],
    titles: Mapping[str, object],
) -> Notice:
    event, memory = decision.event, decision.memory
    fields = {
        "action": action,
        "scope": event.scope,
        "event_id": event.event_id,
        "memory_id": memory.id,
        "similarity": _nearest(decision),
        **more,
    }
    said = event.title if isinstance(event, Remember) else None
    called = {"candidate_title": said, "memory_title": memory.title, **titles}
    return Notice(what, fields, called)


def _nearest(decision: OnEvent) -> float | None:
    """Return how similar the nearest memory is; None where nothing is near, or nobody looked."""
    if near := decision.evidence.neighbours:
        return round(near[0].similarity, 2)
    return _SAME_WORDS if decision.evidence.reason is Reason.SAME_CONTENT else None
