"""Request budgets per minute: in all, and per tenant."""

from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime

from streams.model.ports.clock import Clock

_MINUTE = 60.0


@dataclass
class _Bucket:
    """A token bucket: holds up to a minute's requests, and refills evenly within a minute."""

    capacity: int
    left: float
    at: datetime

    def refill(self, now: datetime) -> None:
        # a clock that was set back removes nothing
        passed = max(0.0, (now - self.at).total_seconds())
        self.left = min(self.capacity, self.left + passed * self.capacity / _MINUTE)
        self.at = now

    @property
    def empty(self) -> bool:
        return self.left < 1.0


class RequestBudget:
    """Counts requests; never waits."""

    def __init__(self, per_minute: int, per_minute_tenant: int, clock: Clock) -> None:
        self._clock = clock
        self._per_tenant = per_minute_tenant
        self._all = _Bucket(per_minute, per_minute, clock.now())
        self._tenants: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, tenant: str) -> bool:
        """Take one request out of both budgets; return False if either is empty."""
        now = self._clock.now()
        self._forget_the_rested(now)
        own = self._tenants.setdefault(tenant, _Bucket(self._per_tenant, self._per_tenant, now))
        self._tenants.move_to_end(tenant)
        self._all.refill(now)
        own.refill(now)
        if self._all.empty or own.empty:
            return False
        self._all.left -= 1
        own.left -= 1
        return True

    def _forget_the_rested(self, now: datetime) -> None:
        """Drop the buckets unused for a minute: they are full, like new ones."""
        while self._tenants:
            longest, bucket = next(iter(self._tenants.items()))
            if (now - bucket.at).total_seconds() < _MINUTE:
                return
            del self._tenants[longest]
