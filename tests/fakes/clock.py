"""A clock that stands still until a test moves it."""

from datetime import datetime, timedelta

from tests.builders import START


class StandingClock:
    """Implements ports.Clock."""

    def __init__(self) -> None:
        self._now = START

    def now(self) -> datetime:
        return self._now

    def move(self, seconds: float) -> None:
        self._now += timedelta(seconds=seconds)
