"""Asks a person how two texts relate: shows both side by side and reads a key."""

import sys
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from streams.store.cli.console import say

KEYS = {"s": "same", "m": "refines", "l": "refined-by", "r": "contradicts", "d": "distinct"}
"""What the newer text is to the older, by the key that says so; the web page has the same keys."""
SKIP, QUIT = " ", "q"
WIDTH = 46
"""The width of a column."""
_ASKED = (
    "s same, m newer says more, l newer says less, r newer replaces, d different, "
    "space or Enter skip, q quit"
)


def beside(left: Sequence[str], right: Sequence[str]) -> Iterator[str]:
    """Yield two columns, line by line."""
    for one, other in zip_longest(left, right, fillvalue=""):
        yield f"{one:<{WIDTH}}  {other}".rstrip()


def key() -> str:
    """Return the key that a person types; the end of what is typed is QUIT."""
    while True:
        say(f"the newer is to the older: {_ASKED}")
        typed = sys.stdin.readline()
        key = typed.strip().lower() or SKIP
        if not typed:
            return QUIT
        if key in {*KEYS, SKIP, QUIT}:
            return key
