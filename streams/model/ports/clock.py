"""What time it is."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """Return the wall-clock time, timezone-aware, in UTC."""
        ...
