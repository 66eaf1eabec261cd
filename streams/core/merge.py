"""Making one text of several so that nothing is lost and nothing is said twice.

`append` keeps every sentence, `keep_better` and `newer_wins` one of the texts where it says all,
`worded` a model's text where it does. Each gives a proof, or nothing: then the texts stay apart.

Splitting is conservative: where it is doubtful that a sentence ends, it does not. Too long a unit
leaves a repetition in; too short a one could drop half a fact.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from schemas.decisions import Carried, MergeProof, Strategy
from streams.core.identity import normalised
from streams.core.language.function_words import FIRST_PERSON
from streams.core.language.lexicon import Lexicon
from streams.core.language.reading import read
from streams.core.lossless import Lossless, check

UNWORDED = "wording: "
"""What evidence begins with where a model gave no text that can be taken; the reason follows."""

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
class Part:
    """A text to be merged, by the memory's or event's id: when it was last said, and by whom.

    `sources` is empty where nobody knows.
    """

    origin: str
    text: str
    said_at: datetime
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class Joined:
    """A text made of others, and why nothing of them is lost."""

    text: str
    proof: MergeProof

    @property
    def added(self) -> int:
        """How many sentences did not come from where the first one came from."""
        return sum(origin != self.proof.origins[0] for origin in self.proof.origins)


@dataclass(frozen=True)
class Faults:
    """Why a wording cannot be taken: what it leaves out, and what nobody said."""

    missing: tuple[str, ...]
    invented: tuple[str, ...]


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


def append(parts: Sequence[Part]) -> Joined | None:
    """Join texts, oldest first, each sentence once; one that says all the others stands alone.

    None where a speaker would be lost, or a text could not be recognised in what was joined: one
    leans on the other's words, or where it ends is in doubt.
    """
    if _confuses_speakers(parts):
        return None
    ordered = _by_age(parts)
    for part in reversed(ordered):
        if all(contains(part.text, other.text) for other in ordered):
            return join([(part.origin, part.text)])
    joined = join([(part.origin, part.text) for part in ordered])
    return joined if all(contains(joined.text, part.text) for part in ordered) else None


def keep_better(parts: Sequence[Part], better_origin: str, lexicon: Lexicon) -> Joined | None:
    """Let one of the texts stand alone; None where it does not say all that the others say."""
    return _standing_alone(parts, better_origin, "keep-better", lexicon)


def newer_wins(parts: Sequence[Part], lexicon: Lexicon) -> Joined | None:
    """Let the newest text stand alone; None where it does not say all that the older ones say."""
    return _standing_alone(parts, _by_age(parts)[-1].origin, "newer-wins", lexicon)


def worded(parts: Sequence[Part], text: str, lexicon: Lexicon) -> Joined | Faults:
    """Take a model's wording where it says all that the texts say, and nothing else.

    Where speakers would be confused no wording helps: their sentences are what is missing.
    """
    if _confuses_speakers(parts):
        return Faults(missing=_by_speakers(parts), invented=())
    ordered = _by_age(parts)
    found = _check(ordered, text, lexicon)
    missing = {item: None for part in ordered for item in found.missing.get(part.origin, ())}
    if missing or found.invented:
        return Faults(missing=tuple(missing), invented=found.invented)
    units = sentences(text)
    return Joined(
        text=text.strip(),
        proof=MergeProof(
            strategy="llm",
            sentences=tuple(units),
            origins=tuple(_origin(unit, ordered, found.carried) for unit in units),
            carried=_needed(ordered, text, found.carried),
        ),
    )


def join(texts: Sequence[tuple[str, str]]) -> Joined:
    """Join (origin, text) pairs in order; what was said before is not said again.

    A repeated sentence is dropped only where it says the same in both places: it leans on no
    context, or the sentence before it is repeated with it.
    """
    (first_origin, first_text), *others = texts
    whole = first_text.strip()
    kept = [(sentence, first_origin) for sentence in sentences(whole)]
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
    )


def contains(text: str, other: str) -> bool:
    """Tell whether `text` says every sentence of `other`, word for word."""
    return not _news(other, sentences(text))


def _by_age(parts: Sequence[Part]) -> list[Part]:
    return sorted(parts, key=lambda part: (part.said_at, part.origin))


def _standing_alone(
    parts: Sequence[Part], origin: str, strategy: Strategy, lexicon: Lexicon
) -> Joined | None:
    standing = next(part for part in parts if part.origin == origin)
    others = [part for part in _by_age(parts) if part.origin != origin]
    found = _check(others, standing.text, lexicon)
    if found.missing or _confuses_speakers(parts):
        return None
    units = tuple(sentences(standing.text))
    return Joined(
        text=standing.text.strip(),
        proof=MergeProof(
            strategy=strategy,
            sentences=units,
            origins=(origin,) * len(units),
            carried=_needed(others, standing.text, found.carried),
        ),
    )


def _check(parts: Sequence[Part], text: str, lexicon: Lexicon) -> Lossless:
    """Compare texts with the one that is to stand for them; what it repeats misses nothing."""
    readings = [(part.origin, read(part.text, lexicon)) for part in parts]
    found = check(readings, read(text, lexicon), lexicon)
    repeated = {part.origin for part in parts if contains(text, part.text)}
    missing = {origin: items for origin, items in found.missing.items() if origin not in repeated}
    return Lossless(missing, found.invented, found.carried)


def _needed(parts: Sequence[Part], text: str, carried: Sequence[Carried]) -> tuple[Carried, ...]:
    """Return the claims on the texts that are not there sentence by sentence anyway."""
    reworded = {part.origin for part in parts if not contains(text, part.text)}
    return tuple(claim for claim in carried if claim.origin in reworded)


def _origin(unit: str, parts: Sequence[Part], carried: Sequence[Carried]) -> str:
    """Return whose sentence it is; where it is nobody's, whose words are most in it."""
    verbatim = (part.origin for part in parts if contains(part.text, unit))
    by_words = max(
        parts,
        key=lambda part: sum(claim.origin == part.origin and claim.by in unit for claim in carried),
    )
    return next(verbatim, by_words.origin)


def _confuses_speakers(parts: Sequence[Part]) -> bool:
    """Tell whether somebody's "I" would stand beside somebody else's words."""
    return len({frozenset(part.sources) for part in parts}) > 1 and bool(_by_speakers(parts))


def _by_speakers(parts: Sequence[Part]) -> tuple[str, ...]:
    """Return the sentences in the first person that do not name who speaks."""
    return tuple(
        sentence
        for part in parts
        for sentence in sentences(part.text)
        if not _names_speaker(sentence, part.sources)
    )


def _names_speaker(sentence: str, sources: Sequence[str]) -> bool:
    """Tell whether nobody speaks of himself here, or is named before: 'Ana said: "I hike."'."""
    words = re.findall(r"[^\W\d_]+", sentence)
    first = next((at for at, word in enumerate(words) if _is_first_person(word)), None)
    if first is None:
        return True
    before = {word.casefold() for word in words[:first]}
    return len(sources) == 1 and sources[0].casefold() in before


def _is_first_person(word: str) -> bool:
    """Tell "us" from "US"."""
    return word.casefold() in FIRST_PERSON and (len(word) == 1 or not word.isupper())


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
