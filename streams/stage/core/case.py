"""An event to decide on, with everything that the decision needs."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Generic, TypedDict, TypeVar

from schemas.base import DecisionId, Embedding, MemoryId, PolicyId, Position
from schemas.decisions import Change, Evidence, Ignore
from schemas.events import Event, Remember
from schemas.memories import Memory
from streams.model.embedding import Vector
from streams.model.identity import decision_id, memory_id
from streams.model.merge import MergedText, MergePart
from streams.model.observed import believed
from streams.model.policy import Policy, Rules


@dataclass(frozen=True)
class EncodedVector:
    """A text's vector and its travelling form; `truncated` where they cover only a part, or none."""

    vector: Vector
    embedding: Embedding
    truncated: bool


@dataclass(frozen=True)
class PendingMerge:
    """A pending merge: its text must be composed and embedded before the decision is complete.

    `parts` are oldest first; `better` is the origin of the part that the quality rule prefers.
    `complete` if that part says all that the others say. A text of more than `bytes_max` bytes does
    not fit. `fewer` decides without some of the parts, if the text does not fit; without it, the
    better part is shown.
    """

    parts: tuple[MergePart, ...]
    better: str
    merged: Callable[[MergedText, EncodedVector, tuple[str, ...]], Change]
    complete: bool = False
    bytes_max: int | None = None
    fewer: Callable[[], "Change | Ignore | PendingMerge"] | None = None


Event_co = TypeVar("Event_co", bound=Event, covariant=True)


class CaseFields(TypedDict):
    """What every decision on an event tells of its case, in the order in which it travels."""

    decision_id: DecisionId
    event: Event
    source: Position
    policy_id: PolicyId
    evidence: Evidence


@dataclass(frozen=True)
class Case(Generic[Event_co]):
    """One event to decide: its source position and the policy that applies.

    `named` is the id derived from the producer's own name for the memory, if no memory has that
    name yet; a memory that this event creates gets it. `braked`: nothing may be retired now.
    `now` is when the event was taken in; None if unknown.
    """

    event: Event_co
    source: Position
    policy: Policy
    named: MemoryId | None = None
    braked: bool = False
    now: datetime | None = None

    @cached_property
    def decision_id(self) -> DecisionId:
        return decision_id(self.event.scope, self.event.event_id)

    @cached_property
    def rules(self) -> Rules:
        return self.policy.rules(self.event.scope)

    @property
    def new_memory_id(self) -> MemoryId:
        """The id of the memory that this event may create."""
        return self.named or memory_id(self.decision_id)

    def fields(self, evidence: Evidence) -> CaseFields:
        """Return the fields of a decision on this event that it shares with all others."""
        return {
            "decision_id": self.decision_id,
            "event": self.event,
            "source": self.source,
            "policy_id": self.policy.id,
            "evidence": evidence,
        }

    def is_late(self: "Case[Remember]", known: Memory) -> bool:
        """Tell whether the memory was seen after what the event tells, as far as times are likely."""
        return self.believed(self.event.occurred_at) < self.believed(known.last_seen_at)

    def believed(self, time: datetime) -> datetime:
        """Return a time to compare by: an unlikely one is never the newest."""
        return believed(time, self.now)
