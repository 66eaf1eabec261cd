"""When memories end by themselves: their time has run out, or nobody has needed them for long."""

from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from schemas.memories import Memory, Persistence, Standing
from streams.core.better import decayed
from streams.core.policy import Expiry, Rules

Due: TypeAlias = Literal["expired", "unused", "harmful"]


def due(memory: Memory, now: datetime, rules: Rules) -> Due | None:
    """Tell why a live memory ends by the rules of its scope; None where it goes on.

    Core memories and pinned ones go on. A clock that is behind what was seen ends nothing.
    """
    rule = rules.expiry
    if memory.pinned or memory.persistence is Persistence.CORE:
        return None
    if _is_past(memory, now, rule):
        return "expired"
    if _misleads(memory, rule):
        return "harmful"
    return "unused" if _is_unused(memory, now, rule, rules.better.importance_decay) else None


def _is_past(memory: Memory, now: datetime, rule: Expiry) -> bool:
    """Tell whether a memory is behind the end of its fact, or older than its kind may become."""
    ended = memory.valid_until
    if ended is not None and _longer_than(now - ended, rule.after_validity_days):
        return True
    unseen = now - memory.last_seen_at
    if memory.persistence is Persistence.EPHEMERAL and _longer_than(unseen, rule.ephemeral_days):
        return True
    return memory.status is Standing.TENTATIVE and _longer_than(unseen, rule.tentative_days)


def _misleads(memory: Memory, rule: Expiry) -> bool:
    told = memory.feedback
    if told is None or rule.harmful_min is None:
        return False
    return told.harmful >= rule.harmful_min and told.harmful > told.helpful


def _is_unused(memory: Memory, now: datetime, rule: Expiry, decay: float) -> bool:
    """Tell whether nobody has seen a memory for long, or its importance has decayed to nothing."""
    unseen = now - memory.last_seen_at
    if _longer_than(unseen, rule.unseen_days) and not _is_accessed(memory, rule):
        return True
    if memory.importance is None or rule.importance_min is None:
        return False
    return decayed(memory.importance, max(unseen, timedelta()), decay) < rule.importance_min


def _is_accessed(memory: Memory, rule: Expiry) -> bool:
    """Tell whether a memory was found so often that not being said again does not count."""
    if rule.accessed_min is None or memory.feedback is None:
        return False
    return memory.feedback.accessed >= rule.accessed_min


def _longer_than(time: timedelta, days: float | None) -> bool:
    return days is not None and time > timedelta(days=days)
