"""Decision counts per session of an agent, and the memories that end with a session."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from schemas.decisions import Decision, Insert, NoChange, Reason, Reinforce, Supersession
from schemas.events import Remember
from schemas.memories import Memory, Persistence

NEAR_DUPLICATE = frozenset(
    {
        Reason.SAME_FACT,
        Reason.KNOWN_IN_FULL,
        Reason.ADDS_TO_KNOWN,
        Reason.NEARLY_IDENTICAL,
        Reason.BETTER_THAN_KNOWN,
        Reason.NO_BETTER_THAN_KNOWN,
    }
)
"""Reasons to retire a memory for one that says the same, not by name or for a contradiction."""


@dataclass
class SessionCounts:
    """The counts of one session; `name` is None for events without a session.

    `supersessions` counts retired memories, `near_duplicates` those that say the same as their
    successor. `last` is the time of the newest event. `seconds` is the total time of deciding; None
    if it was not measured, since decisions have no clock.
    """

    name: str | None
    last: datetime
    events: int = 0
    inserted: int = 0
    reinforced: int = 0
    supersessions: int = 0
    near_duplicates: int = 0
    seconds: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the counts as a record for an episode log."""
        record: dict[str, Any] = {
            "timestamp": self.last.isoformat(),
            "event_type": "deduplication_metrics",
            "episode_id": self.name,
            "events": self.events,
            "memories_added": self.inserted,
            "duplicates_prevented": self.reinforced,
            "metadata_updates": self.reinforced,
            "supersessions": self.supersessions,
            "supersessions_from_near_duplicates": self.near_duplicates,
        }
        if self.seconds is not None:
            record["avg_check_time_ms"] = round(1e3 * self.seconds / self.events, 1)
        return record


def ending_with(session: str, memories: Iterable[Memory]) -> list[Memory]:
    """Return the live memories of one session only: ephemeral, and seen in no other session."""
    return [
        memory
        for memory in memories
        if memory.live
        and memory.persistence is Persistence.EPHEMERAL
        and memory.sessions == (session,)
    ]


class SessionCounter:
    """Counts decisions by the session of their events."""

    def __init__(self) -> None:
        self._by_name: dict[str | None, SessionCounts] = {}

    def add(self, decision: Decision, seconds: float | None = None) -> None:
        """Count a decision and, if known, its duration.

        Ignored events, markers and decisions on requests are skipped.
        """
        if isinstance(decision, NoChange) or not isinstance(decision.event, Remember):
            return
        event = decision.event
        session = self._by_name.setdefault(
            event.session, SessionCounts(event.session, event.occurred_at)
        )
        session.last = max(session.last, event.occurred_at)
        session.events += 1
        if seconds is not None:
            session.seconds = (session.seconds or 0.0) + seconds
        if isinstance(decision, Insert):
            session.inserted += 1
            session.supersessions += not decision.memory.live  # already outdated when inserted
        session.reinforced += isinstance(decision, Reinforce)
        if isinstance(decision, Supersession):
            retired = sum(target.memory_id != decision.memory.id for target in decision.targets)
            session.supersessions += retired
            if decision.evidence.reason in NEAR_DUPLICATE:
                session.near_duplicates += retired

    def all(self) -> list[SessionCounts]:
        """Return the sessions in order of their last events, oldest first."""
        return sorted(self._by_name.values(), key=lambda one: (one.last, one.name or ""))
