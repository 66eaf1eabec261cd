"""Expiry of memories: their validity has ended, or they were misleading or long unused."""

from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from schemas.memories import Memory, Persistence, Standing
from streams.model.better import decayed
from streams.model.policy import Expiry, Rules

Due: TypeAlias = Literal["expired", "unused", "harmful"]


def due(memory: Memory, now: datetime, rules: Rules) -> Due | None:
    """Return why a live memory expires by the rules of its scope; None if it does not.

    Core and pinned memories never expire, and a clock that runs behind expires nothing.
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
    """Return whether a memory is past its validity, or unseen for longer than its kind allows."""
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
    """Return whether a memory is unseen for too long, or its decayed importance is too low."""
    unseen = now - memory.last_seen_at
    if _longer_than(unseen, rule.unseen_days) and not _is_accessed(memory, rule):
        return True
    if memory.importance is None or rule.importance_min is None:
        return False
    return decayed(memory.importance, max(unseen, timedelta()), decay) < rule.importance_min


def _is_accessed(memory: Memory, rule: Expiry) -> bool:
    """Return whether a memory was accessed so often that being unseen does not matter."""
    if rule.accessed_min is None or memory.feedback is None:
        return False
    return memory.feedback.accessed >= rule.accessed_min


def _longer_than(time: timedelta, days: float | None) -> bool:
    return days is not None and time > timedelta(days=days)
