"""Waiting for something to become true, instead of for time to pass."""

import time
from collections.abc import Callable

_PAUSE_SECONDS = 0.01


def wait_until(true: Callable[[], bool], description: str, *, seconds: float = 60.0) -> None:
    """Return as soon as it is true; fail, saying what was waited for, when it never is."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"waited {seconds} s in vain until {description}"
        time.sleep(_PAUSE_SECONDS)
