"""A person is asked what two texts are to each other: both side by side, and a key to type."""

import sys
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from streams.store.cli.console import say

KEYS = {"y": "same", "n": "distinct", "+": "refines", "-": "refined-by", "c": "contradicts"}
"""What the newer text is to the older, by the key that says so."""
WIDTH = 46
"""The width of a column."""
_ASKED = "y same, n distinct, + newer says more, - older says more, c contradicts, s skip, q quit"


def beside(left: Sequence[str], right: Sequence[str]) -> Iterator[str]:
    """Yield two columns, line by line."""
    for one, other in zip_longest(left, right, fillvalue=""):
        yield f"{one:<{WIDTH}}  {other}".rstrip()


def key() -> str:
    """Return the key that a person types; the end of what is typed is "q"."""
    while True:
        say(f"the newer is to the older: {_ASKED}")
        typed = sys.stdin.readline()
        key = typed.strip().lower()
        if not typed:
            return "q"
        if key in {*KEYS, "s", "q"}:
            return key
