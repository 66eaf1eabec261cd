"""The sentences of a turn, without those that repeat recalled text.

A memory that is recalled into a prompt comes back in an answer. Taken as new, it would be noted
again, recalled more often, and so on: a loop in which the memory confirms itself.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from schemas.turns import Speaker, Turn
from streams.model.identity import normalised
from streams.text.tokens import Form, tokens

Words: TypeAlias = tuple[str, ...]
Recalled: TypeAlias = frozenset[Words]
"""The words of every recalled sentence."""

_ORDINARY_MARKS = frozenset(".,;:!?\u2026'\"()[]*-\u2013\u2014\u2018\u2019\u201c\u201d\u201e")
"""Other marks carry meaning: the pluses of C++, an emoji, an arrow."""

_WRAPPED_FROM = 50
"""A shorter line was ended on purpose, unless the next one starts in lower case."""
_BULLET = re.compile(r"(?:[-*\u2022]|\d{1,3}[.)])\s+")
_BOUNDARY = re.compile(
    r"(?<=[.!?\u2026])[\"'\u201d\u2019)\]]*\s+(?=[\"'\u201c\u2018(\[]?[^\W_a-z])"
)
_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:(?:Mr|Mrs|Ms|Dr|St|Prof|Capt|Sr|Jr|Vol|Fig|vs|approx|etc|e\.g|i\.e|[A-Z])\.\s+\S"
    r"|(?:No|Nr)\.\s+\d)$"
)
"""Ends with one character of what follows: "No. 5" is no sentence, "No." before a word is one."""
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")


@dataclass(frozen=True, slots=True)
class Utterance:
    """A sentence and its speaker."""

    by: Speaker
    sentence: str


def words(text: str) -> Words:
    """Return a text's words, normalized; marks are included only if they carry meaning."""
    return tuple(
        token.lower
        for token in tokens(normalised(text))
        if token.form is not Form.MARK or token.text not in _ORDINARY_MARKS
    )


def recalled_in(turns: Iterable[Turn]) -> Recalled:
    """Return what was recalled into the prompts of these turns."""
    found = (
        words(sentence)
        for turn in turns
        for part in turn.said
        if part.by == "recalled"
        for sentence in spoken(part.text)
    )
    return frozenset(said for said in found if said)


def heard(turn: Turn, recalled: Recalled) -> tuple[Utterance, ...]:
    """Return the sentences of a turn that do not repeat recalled text, whoever says them."""
    return tuple(
        Utterance(part.by, sentence)
        for part in turn.said
        if part.by != "recalled"
        for sentence in spoken(part.text)
        if words(sentence) not in recalled
    )


def echoes(text: str, recalled: Recalled) -> bool:
    """Return whether a text says nothing but what was recalled."""
    return all(words(sentence) in recalled for sentence in spoken(text))


def spoken(text: str) -> Iterator[str]:
    """Yield a text's sentences, also from wrapped lines, lists, and lines without a full stop."""
    for paragraph in _BLANK_LINE.split(text):
        for line in _unwrapped(paragraph):
            yield from _sentences(line)


def _sentences(line: str) -> Iterator[str]:
    """Split a line even after short sentences: a leading "Yes." must not hide a repeat."""
    start = 0
    for boundary in _BOUNDARY.finditer(line):
        if not _ABBREVIATION.search(line[start : boundary.end() + 1]):
            yield line[start : boundary.end()].strip()
            start = boundary.end()
    yield line[start:]


def _unwrapped(paragraph: str) -> Iterator[str]:
    """Join lines that were only wrapped at a margin; remove list bullets."""
    joined, last = "", ""
    for line in filter(None, map(str.strip, paragraph.splitlines())):
        if joined and _goes_on(last, line):
            joined = f"{joined} {line}"
        else:
            if joined:
                yield joined
            joined = _BULLET.sub("", line, count=1) if _BULLET.match(line) else line
        last = line
    if joined:
        yield joined


def _goes_on(before: str, line: str) -> bool:
    if _BULLET.match(line):
        return False
    return len(before) >= _WRAPPED_FROM or line[0].islower()
