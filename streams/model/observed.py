"""When something can have been observed: not before computers noted it, and not yet to come."""

from datetime import UTC, datetime, timedelta

_FIRST = datetime(1971, 1, 1, tzinfo=UTC)
"""What says an earlier time mostly means none: the year 1, or the first second of Unix."""
_AHEAD_MAX = timedelta(days=1)
"""A time without a zone may be from one that is up to 14 hours ahead."""

_CLOCKS_DIFFER_MAX = timedelta(minutes=5)
"""How far the clocks of two machines may differ: an event's time has a zone."""

_NEVER = datetime.min.replace(tzinfo=UTC)


def is_unlikely(time: datetime, now: datetime | None) -> bool:
    """Tell whether nothing can have been observed at that time: it is still to come, or no time.

    Where nobody knows what time it is, `now` is None, and nothing is held for still to come.
    """
    return time < _FIRST or (now is not None and is_to_come(time, now))


def is_to_come(time: datetime, now: datetime) -> bool:
    """Tell whether a time is still to come, in every zone."""
    return time - now > _AHEAD_MAX


def is_ahead(time: datetime, now: datetime) -> bool:
    """Tell whether an event's time is too far ahead of the clock of whoever takes it in."""
    return time - now > _CLOCKS_DIFFER_MAX


def believed(time: datetime, now: datetime | None) -> datetime:
    """Return a time to compare by: one that is unlikely counts as earlier than any other."""
    return _NEVER if is_unlikely(time, now) else time
