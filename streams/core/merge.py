"""Joining texts so that no sentence is lost and none is said twice.

Splitting is conservative: where it is doubtful that a sentence ends, it does not. Too long a unit
leaves a repetition in; too short a one could drop half a fact.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from schemas.decisions import MergeProof
from streams.core.identity import normalised

_QUOTES = "\"'\u201d\u2019)]"
_BOUNDARY = re.compile(rf"(?<=[.!?…])[{re.escape(_QUOTES)}]*\s+(?=[\"'\u201c\u2018(\[]?[^\W_a-z])")
_LAST_WORD = re.compile(rf"(\w+)[{re.escape(_QUOTES)}]*\.[{re.escape(_QUOTES)}]*$")
_ENDED = re.compile(rf"[.!?…][{re.escape(_QUOTES)}]*$")

_WORDS_MIN = 3
_WORD_LETTERS_MIN = 4
_NAME_LETTERS_MIN = 6
"""Shorter before a full stop is too often an abbreviation; names and titles more so than words."""

_LEANS_ON_CONTEXT = frozenset(
    [
        "he",
        "she",
        "it",
        "they",
        "him",
        "her",
        "them",
        "his",
        "hers",
        "its",
        "their",
        "theirs",
        "himself",
        "herself",
        "itself",
        "themselves",
        "this",
        "that",
        "these",
        "those",
        "there",
        "here",
        "then",
        "such",
        "one",
        "ones",
        "same",
        "former",
        "latter",
        "other",
        "others",
    ]
)
"""English third-person pronouns and demonstratives, a closed class: what such a sentence says
depends on the sentence before it."""


@dataclass(frozen=True)
class Joined:
    """A text made of others. `added` counts the sentences that did not come from the first."""

    text: str
    proof: MergeProof
    added: int


def sentences(text: str) -> list[str]:
    """Split a text into units that stand on their own; a text of several lines is one unit."""
    text = text.strip()
    if "\n" in text:
        return [text]
    units: list[str] = []
    start = 0
    for boundary in _BOUNDARY.finditer(text):
        unit = text[start : boundary.end()].strip()
        if _is_sentence(unit):
            units.append(unit)
            start = boundary.end()
    return [*units, text[start:]]


def join(texts: Sequence[tuple[str, str]]) -> Joined:
    """Join (origin, text) pairs in order; what was said before is not said again.

    A repeated sentence is dropped only where it says the same in both places: it leans on no
    context, or the sentence before it is repeated with it.
    """
    (first_origin, first_text), *others = texts
    whole = first_text.strip()
    kept = [(sentence, first_origin) for sentence in sentences(whole)]
    count = len(kept)
    for origin, text in others:
        for sentence in _news(text, [known for known, _ in kept]):
            kept.append((sentence, origin))
            whole = f"{_closed(whole)} {sentence}"
    return Joined(
        text=whole,
        proof=MergeProof(
            sentences=tuple(sentence for sentence, _ in kept),
            origins=tuple(origin for _, origin in kept),
        ),
        added=len(kept) - count,
    )


def contains(text: str, other: str) -> bool:
    """Tell whether `text` says every sentence of `other`, word for word."""
    return not _news(other, sentences(text))


def _news(text: str, known: Sequence[str]) -> list[str]:
    """Return the sentences of `text` that are not among the known ones, or not in their context."""
    keys = [_key(sentence) for sentence in known]
    news: list[str] = []
    before: int | None = -1  # where among the known the sentence before was found; None: nowhere
    for sentence in sentences(text):
        before = _place(sentence, keys, before)
        if before is None:
            news.append(sentence)
    return news


def _place(sentence: str, keys: Sequence[str], before: int | None) -> int | None:
    """Find a sentence among the known; behind the place of the sentence before it if it leans."""
    key = _key(sentence)
    if before is not None and keys[before + 1 : before + 2] == [key]:
        return before + 1
    return keys.index(key) if key in keys and not _leans(sentence) else None


def _is_sentence(unit: str) -> bool:
    """Tell whether a unit is surely a whole sentence."""
    if len(unit.split()) < _WORDS_MIN:
        return False
    if not unit.rstrip(_QUOTES).endswith("."):
        return True
    last = _LAST_WORD.search(unit)
    return last is not None and _is_no_abbreviation(last.group(1))


def _is_no_abbreviation(word: str) -> bool:
    """Tell whether a full stop behind this word ends a sentence: not in Dr., St., Prof., a.m."""
    return (
        word.isdigit()
        or len(word) >= _NAME_LETTERS_MIN
        or (len(word) >= _WORD_LETTERS_MIN and word.islower())
    )


def _leans(sentence: str) -> bool:
    return not _LEANS_ON_CONTEXT.isdisjoint(re.findall(r"[^\W\d_]+", sentence.casefold()))


def _key(sentence: str) -> str:
    """Return what two spellings of one sentence share; a question is never a statement."""
    return normalised(sentence).rstrip(".!… ")


def _closed(text: str) -> str:
    """End a text that is followed by a sentence."""
    return text if _ENDED.search(text) else f"{text}."
