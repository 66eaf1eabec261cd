"""What each failure makes the loop do, and within which limits."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class RetryPolicy:
    """How often, and after how long, a transient failure is tried again.

    Past `attempts_max` in a row the failure is fatal for a run, which somebody waits for; a
    service goes on trying. A limit stops, it never drops. `chance` gives numbers from 0 to 1:
    members that failed together should not try again together.
    """

    attempts_max: int = 8
    delay_max_seconds: float = 10.0
    first_delay_seconds: float = 0.1
    chance: Callable[[], float] = lambda: 1.0

    def delay(self, attempt: int) -> float:
        """Return the seconds to wait before attempt number `attempt` + 1; attempts count from 1.

        Doubles up to the longest; half of it is left to chance.
        """
        full = min(self.delay_max_seconds, self.first_delay_seconds * 2.0 ** min(attempt - 1, 30))
        return full * (1 + self.chance()) / 2
