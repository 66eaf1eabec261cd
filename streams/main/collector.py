"""Garbage collection tuned for a process with much data and few reference cycles."""

import gc

_YOUNG, _MIDDLE, _OLD = 50_000, 20, 50
"""Allocations between two collections of the youngest generation; how many of a generation's
collections trigger one of the next."""


def search_seldom() -> None:
    """Freeze existing objects and collect less often: a full collection stops everything for 0.2 s.

    Only for a dedicated process: it changes the whole interpreter.
    """
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
