"""Two texts compared word by word."""

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import NamedTuple

_WORD = re.compile(r"\s*(?:\w+(?:['\u2019.,:-]\w+)*|[^\w\s])|\s+")
_WORDS_MAX = 2_000
"""Comparing takes the square of that."""


class Run(NamedTuple):
    """Words of a text that stand together; `differs` where the other text does not have them."""

    text: str
    differs: bool


def compared(newer: str, older: str) -> tuple[list[Run], list[Run]]:
    """Return both texts as runs of words. Texts of many words are not compared."""
    new, old = _WORD.findall(newer), _WORD.findall(older)
    if max(len(new), len(old)) > _WORDS_MAX:
        return [Run(newer, differs=False)], [Run(older, differs=False)]
    matcher = SequenceMatcher(None, _plain(old), _plain(new), autojunk=False)
    changes = matcher.get_opcodes()
    in_newer = [("".join(new[j1:j2]), kind != "equal") for kind, _, _, j1, j2 in changes]
    in_older = [("".join(old[i1:i2]), kind != "equal") for kind, i1, i2, _, _ in changes]
    return list(_runs(in_newer)), list(_runs(in_older))


def _plain(words: list[str]) -> list[str]:
    return [word.strip().casefold() for word in words]


def _runs(parts: list[tuple[str, bool]]) -> Iterator[Run]:
    """Yield the parts that say something; the space before one that differs is not marked."""
    for text, differs in parts:
        words = text.lstrip() if differs else text
        if space := text[: len(text) - len(words)]:
            yield Run(space, differs=False)
        if words:
            yield Run(words, differs)
