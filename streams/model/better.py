"""Which of two equivalent texts is better: the event's or the memory's."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypeAlias, assert_never

from schemas.events import Remember
from schemas.memories import Memory, Persistence, Standing
from streams.model.observed import believed, is_unlikely
from streams.model.policy import BetterRule, Quality

Winner: TypeAlias = Literal["event", "memory"]

_MONTH_DAYS = 30
"""The number of days per step of `importance_decay`."""


@dataclass(frozen=True)
class Preference:
    """The better of the two, and the quality that decided; None if none did."""

    winner: Literal["event", "memory", "tie"]
    by: Quality | None


def better(
    event: Remember | Memory, memory: Memory, rule: BetterRule, now: datetime | None = None
) -> Preference:
    """Compare an event, or another memory in its role, with a live memory.

    The first of the rule's qualities in which they differ decides. Times after `now` are not
    believed.
    """
    for quality in rule.order:
        if winner := _by(quality, event, memory, rule, now):
            return Preference(winner, quality)
    return Preference("tie", None)


def _by(
    quality: Quality,
    event: Remember | Memory,
    memory: Memory,
    rule: BetterRule,
    now: datetime | None,
) -> Winner | None:
    match quality:
        case "status":
            return _higher(_belief(Standing(event.status)), _belief(memory.status))
        case "length":
            return _by_length(event.text, memory.text, rule.length_ratio)
        case "persistence":
            return _by_persistence(event.persistence, memory.persistence)
        case "importance":
            return _by_importance(event, memory, rule.importance_decay, now)
        case "recency":
            age = believed(_seen_at(event), now) - believed(memory.last_seen_at, now)
            return _higher(age.total_seconds(), 0)
        case "feedback":
            return _higher(_helped(event), _helped(memory))
    assert_never(quality)


def _belief(standing: Standing) -> int:
    return int(standing is Standing.ACTIVE)


def _by_length(said: str, known: str, ratio: float) -> Winner | None:
    """Return "event" if it is clearly longer; a longer memory never wins by length."""
    return "event" if len(said.strip()) > ratio * len(known.strip()) else None


def _by_persistence(said: Persistence | None, known: Persistence | None) -> Winner | None:
    if said is None or known is None:
        return None
    return _higher(said.rank, known.rank)


def _by_importance(
    event: Remember | Memory, memory: Memory, decay: float, now: datetime | None
) -> Winner | None:
    """Compare importance at the time of the event; a memory seen later has not decayed.

    Decay counts whole days, so that equal ratings on one day stay equal. Unlikely times decay
    nothing.
    """
    if event.importance is None or memory.importance is None:
        return None
    unseen = max(_seen_at(event) - memory.last_seen_at, timedelta())
    if is_unlikely(_seen_at(event), now) or is_unlikely(memory.last_seen_at, now):
        unseen = timedelta()
    return _higher(event.importance, decayed(memory.importance, unseen, decay))


def decayed(importance: float, unseen: timedelta, decay: float) -> float:
    """Return an importance after decay by the factor `decay` per 30 days, in whole days.

    The formula is from ADR-004, which uses .95: 5 % per month.
    """
    return importance * decay ** (unseen.days / _MONTH_DAYS)


def _seen_at(one: Remember | Memory) -> datetime:
    return one.occurred_at if isinstance(one, Remember) else one.last_seen_at


def _helped(one: Remember | Memory) -> int:
    """Return how many more times a memory helped than misled; 0 for an event."""
    feedback = None if isinstance(one, Remember) else one.feedback
    return 0 if feedback is None else feedback.helpful - feedback.harmful


def _higher(said: float, known: float) -> Winner | None:
    if said == known:
        return None
    return "event" if said > known else "memory"
