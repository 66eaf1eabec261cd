"""The retry policy for transient failures, and its limits."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class RetryPolicy:
    """How often, and after which delay, a transient failure is retried.

    After `attempts_max` failures in a row a run fails, because a person waits for it; a service
    keeps retrying. A limit stops, it never drops records. `chance` returns numbers from 0 to 1:
    members that failed together should not retry together.
    """

    attempts_max: int = 8
    delay_max_seconds: float = 10.0
    first_delay_seconds: float = 0.1
    chance: Callable[[], float] = lambda: 1.0

    def delay(self, attempt: int) -> float:
        """Return the seconds to wait before attempt number `attempt` + 1; attempts count from 1.

        Doubles up to the maximum; half of the delay is random.
        """
        full = min(self.delay_max_seconds, self.first_delay_seconds * 2.0 ** min(attempt - 1, 30))
        return full * (1 + self.chance()) / 2
