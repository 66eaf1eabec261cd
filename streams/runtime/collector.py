"""Python's search for cycles, set for a process that holds much and makes hardly any."""

import gc

_YOUNG, _MIDDLE, _OLD = 50_000, 20, 50
"""Objects made between two searches of the youngest; how many of those make one of the older."""


def search_seldom() -> None:
    """Leave out what is there already, and search less often: a full search stops all for 0.2 s.

    For a process of our own: it changes the whole interpreter.
    """
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
