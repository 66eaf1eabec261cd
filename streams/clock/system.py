"""The system clock."""

from datetime import UTC, datetime


class SystemClock:
    """Implements ports.Clock; the only reader of the wall clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)  # noqa: TID251 - this is the port's one real implementation
