"""An event to decide on, with everything that the decision needs."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from schemas.base import DecisionId, Embedding, MemoryId, Position
from schemas.decisions import Change, Ignore
from schemas.events import Remember
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


@dataclass(frozen=True)
class Case:
    """One event to decide: its source position and the policy that applies.

    `named` is the id derived from the producer's own name for the memory, if no memory has that
    name yet; a memory that this event creates gets it. `braked`: nothing may be retired now.
    `now` is when the event was taken in; None if unknown.
    """

    event: Remember
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

    def is_late(self, known: Memory) -> bool:
        """Tell whether the memory was seen after what the event tells, as far as times are likely."""
        return self.believed(self.event.occurred_at) < self.believed(known.last_seen_at)

    def believed(self, time: datetime) -> datetime:
        """Return a time to compare by: an unlikely one is never the newest."""
        return believed(time, self.now)
