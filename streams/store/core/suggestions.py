"""Names to suggest where nothing has the name that was given."""

from collections import Counter
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

_SHOWN, _LIKE = 3, 0.5
"""How many names are suggested, and from which similarity on they count as like the given one."""


def alike(name: str, known: Mapping[str, int] | Iterable[str]) -> list[str]:
    """Return up to three of the known names: those like the given one, then the most frequent."""
    names = [one for one, _ in Counter(known).most_common()]
    return list(dict.fromkeys([*get_close_matches(name, names, _SHOWN, _LIKE), *names]))[:_SHOWN]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the known one most like it, if any."""
    near = get_close_matches(name, list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""


def nothing_in(scope: str, known: Mapping[str, int] | Iterable[str]) -> str:
    """Return one line that says that a scope has no memories, and which of the known have."""
    others = alike(scope, known)
    return f"scope {scope} has no memories" + (
        f"; others have: {', '.join(others)}" if others else ""
    )
