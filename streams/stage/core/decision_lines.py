"""Log lines about decisions: similarities, duplicates, superseded memories, failed merges."""

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
    Supersession,
)
from schemas.events import Remember
from streams.model.merge import UNWORDED
from streams.stage.core.sessions import NEAR_DUPLICATE

_SAME_WORDS = 1.0
"""The similarity logged for an event recognised by its exact words, without a comparison."""


@dataclass(frozen=True)
class LogLine:
    """A log line: what happened, and to which memories.

    `fields` contain no user text; `titles` do, and so are separate.
    """

    what: str
    fields: Mapping[str, object]
    titles: Mapping[str, object]


Titles: TypeAlias = Mapping[MemoryId, str]
"""The titles of the compared memories."""


def notice(decision: Decision, titles: Titles) -> LogLine | None:
    """Return the log line of a duplicate; None for new, ignored and requested changes."""
    if isinstance(decision, Marker) or not isinstance(decision.event, Remember):
        return None
    if isinstance(decision, Reinforce):
        return _of(decision, "duplicate found", "metadata_update", {}, {})
    if isinstance(decision, Supersession) and decision.evidence.reason in NEAR_DUPLICATE:
        action = "merge" if isinstance(decision, Merge) else "supersession"
        old = [target.memory_id for target in decision.targets]
        called = {"superseded_titles": [titles.get(one) for one in old]}
        return _of(decision, "near-duplicate superseded", action, {"superseded_ids": old}, called)
    return None


def loose(decision: Decision, titles: Titles) -> LogLine | None:
    """Return the log line that an event was inserted near a memory in the band LOG; None if not."""
    if not isinstance(decision, Insert) or not (near := decision.evidence.neighbours):
        return None
    if near[0].band is not Band.LOG:
        return None
    called = {"similar_title": titles.get(near[0].memory_id)}
    return _of(decision, "similar memory kept", "insert", {"similar_id": near[0].memory_id}, called)


def checked(decision: Decision) -> LogLine | None:
    """Return the log line of an event's nearest similarity and outcome; None for requests."""
    if isinstance(decision, Marker) or not isinstance(decision.event, Remember):
        return None
    fields = {
        "kind": decision.kind,
        "reason": decision.evidence.reason.value,
        "scope": decision.event.scope,
        "event_id": decision.event.event_id,
        "similarity": _nearest(decision),
    }
    return LogLine("event checked", fields, {"candidate_title": decision.event.title})


def unworded(decision: Decision) -> LogLine | None:
    """Return the log line that a model gave no merged text, with the fallback used; None if not."""
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
    return LogLine("merge failed", fields, {})


def compared(decision: Decision) -> int:
    """Return how many memories an event was compared with."""
    return 0 if isinstance(decision, Marker) else len(decision.evidence.neighbours)


def _of(
    decision: Insert | Reinforce | Merge | Replace,
    what: str,
    action: str,
    more: Mapping[str, object],
    titles: Mapping[str, object],
) -> LogLine:
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
    return LogLine(what, fields, called)


def _nearest(decision: OnEvent) -> float | None:
    """Return the nearest memory's similarity; None if none is near or none was searched for."""
    if near := decision.evidence.neighbours:
        return round(near[0].similarity, 2)
    return _SAME_WORDS if decision.evidence.reason is Reason.SAME_CONTENT else None
