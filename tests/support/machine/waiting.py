"""Waiting for something to become true, instead of for time to pass."""

import time
from collections.abc import Callable

_PAUSE_SECONDS = 0.01


def wait_until(true: Callable[[], bool], description: str, *, seconds: float = 60.0) -> None:
    """Return when it is true; fail, saying what was waited for, when it never is.

    Half of the time is left to what is waited for.
    """
    asked = time.monotonic()
    end = asked + seconds
    while not true():
        now = time.monotonic()
        assert now < end, f"waited {seconds} s in vain until {description}"
        time.sleep(max(_PAUSE_SECONDS, now - asked))  # what is asked may need the processor
        asked = time.monotonic()
