"""The guard on who does what to whom: the same words in exchanged roles."""
# ruff: noqa: SIM905 - a class of words is read as a line

from collections.abc import Iterator, Mapping, Sequence

from streams.text.function_words import COORDINATORS, PREPOSITIONS, by_word
from streams.text.guards.polarity import converse, follows_be
from streams.text.guards.statement import COMPATIBLE, Answer, CannotTell, Differs, Sides
from streams.text.lexicon import Lexicon
from streams.text.parts import Word
from streams.text.reading import AnalysedText

_SHARED_MIN = 0.85
"""Below this agreement, an exchange may be a rewording."""

_PERSONS = by_word(i="i me", he="he him", she="she", we="we us", they="they them", you="you")
_ORDERING = frozenset(["before", "after", "than", "over", "under", "behind"])
"""Prepositions around which an exchange changes the meaning."""

_SYMMETRIC = frozenset(
    "marry married meet with together equal same similar differ divorce resemble near next".split()
)
"""Symmetric predicates: they say of A and B what they say of B and A."""


def roles(sides: Sides) -> Answer:
    """Compare the positions around each shared word."""
    if sides.alignment.agreement < _SHARED_MIN:
        return COMPATIBLE
    event, memory = sides.readings
    if event.lemmas == memory.lemmas:
        return COMPATIBLE
    partners = sides.alignment.partners
    ours = [(partners.get(name, name), word) for name, word in _actors(event)]
    theirs = list(_actors(memory))
    found = _crossed(ours, theirs, sides) or _exchanged(
        _attached(event, partners), _attached(memory, {})
    )
    if found and converse(sides):
        return CannotTell("the places and the word between them are both exchanged")
    return found or COMPATIBLE


def _actors(reading: AnalysedText) -> Iterator[tuple[str, Word]]:
    """Yield the words that can have a role: content words, persons, ordering prepositions."""
    for word in reading.words:
        person = _PERSONS.get(word.lower)
        if person:
            yield person, word
        elif word.content or word.lower in _ORDERING:
            yield word.lemma, word


def _crossed(
    ours: Sequence[tuple[str, Word]], theirs: Sequence[tuple[str, Word]], sides: Sides
) -> Differs | CannotTell | None:
    """Find two words that crossed a third in opposite directions: A owes B, B owes A."""
    here, there = _single(ours), _single(theirs)
    shared = [name for name in here if name in there]
    if len(shared) < 3:  # noqa: PLR2004 - a pivot and two that cross it
        return None
    for pivot in shared:
        mine, other = here[pivot], there[pivot]
        if not _is_pivot(mine, sides.event.reading, sides.lexicon):
            continue
        if not _is_pivot(other, sides.memory.reading, sides.lexicon):
            continue
        left, right = _around(pivot, shared, here)
        left_there, right_there = _around(pivot, shared, there)
        forward = [name for name in left if name in right_there and _is_actor(here[name], sides)]
        backward = [name for name in right if name in left_there and _is_actor(here[name], sides)]
        turned = _is_passive(mine, sides.event.reading) != _is_passive(other, sides.memory.reading)
        if turned and _by_somebody(mine, other, sides):
            forward = [name for name in left if name in left_there]
            backward = [name for name in right if name in right_there]
        elif turned:
            continue
        if forward and backward:
            if mine.lemma != other.lemma:
                return CannotTell(f"'{mine.spelling}' may be said the other way round")
            return Differs(
                "roles",
                " ".join(here[name].spelling for name in (forward[0], pivot, backward[0])),
                " ".join(there[name].spelling for name in (backward[0], pivot, forward[0])),
            )
    return None


def _single(actors: Sequence[tuple[str, Word]]) -> dict[str, Word]:
    """Keep words that occur once: of repeated words it is unclear which one moved."""
    counts: dict[str, int] = {}
    for name, _ in actors:
        counts[name] = counts.get(name, 0) + 1
    return {name: word for name, word in actors if counts[name] == 1}


def _around(
    pivot: str, shared: Sequence[str], places: Mapping[str, Word]
) -> tuple[list[str], list[str]]:
    """Return what stands before and after a word in its own clause."""
    at = places[pivot]
    near = [name for name in shared if name != pivot and places[name].clause == at.clause]
    return (
        [name for name in near if places[name].position < at.position],
        [name for name in near if places[name].position > at.position],
    )


def _is_actor(word: Word, sides: Sides) -> bool:
    """Return whether a word can act or be acted on: a name, a person, a thing, a value."""
    return word.lower in _PERSONS or (word.content and not sides.lexicon.is_mostly(word.lower, "v"))


def _is_pivot(word: Word, reading: AnalysedText, lexicon: Lexicon) -> bool:
    """Return whether order around a word matters: not in a list, nor around "married" or "with"."""
    if word.lemma in _SYMMETRIC or word.lower in _SYMMETRIC:
        return False
    if word.content and not lexicon.is_mostly(word.lower, "v"):
        return False
    around = (*reading.before(word.position, 1), *reading.behind(word.position, 1))
    return not any(beside.lower in COORDINATORS or beside.lower in _SYMMETRIC for beside in around)


def _is_passive(word: Word, reading: AnalysedText) -> bool:
    """Return whether a verb is passive: a participle with a form of "be" before it."""
    if word.lower.endswith("ing") or (word.lower == word.lemma and not _has_agent(word, reading)):
        return False
    return follows_be(word, reading)


def _has_agent(word: Word, reading: AnalysedText) -> bool:
    behind = reading.behind(word.position, 7)
    return any(near.lower == "by" and near.clause == word.clause for near in behind)


def _by_somebody(mine: Word, other: Word, sides: Sides) -> bool:
    """Return whether the passive one of two verbs names its agent."""
    return _has_agent(mine, sides.event.reading) or _has_agent(other, sides.memory.reading)


def _attached(reading: AnalysedText, partners: Mapping[str, str]) -> dict[str, str]:
    """Return what each word is tied to: an object, the word before a noun, what a subject "is"."""
    tied: dict[str, str] = {}
    words = reading.words
    for word in words:
        behind = reading.behind(word.position, 3)
        following = next((near for near in behind if near.content), None)
        if following is None or following.clause != word.clause:
            continue
        value = partners.get(following.lemma, following.lemma)
        if word.lower in PREPOSITIONS:
            tied.setdefault(f"{word.lower} _", value)
        elif word.content and following.position == word.position + 1:
            tied.setdefault(f"_ {value}", partners.get(word.lemma, word.lemma))
        elif word.content and words[word.position + 1].lemma == "be":
            tied.setdefault(f"{partners.get(word.lemma, word.lemma)} is", value)
    return tied


_PLACED = frozenset(["in _", "at _", "on _"])


def _exchanged(ours: Mapping[str, str], theirs: Mapping[str, str]) -> Differs | None:
    """Find two ties whose ends were exchanged: from X to Y, from Y to X."""
    moved = [(tie, value) for tie, value in ours.items() if theirs.get(tie, value) != value]
    for tie, value in moved:
        for other, partner in moved:
            one_place = {tie, other} <= _PLACED  # "in Tidworth at the school", "at Tidworth in …"
            if one_place or tie == other:
                continue
            if theirs[tie] == partner and theirs[other] == value:
                return Differs(
                    "places",
                    f"{tie.replace('_', value)}, {other.replace('_', partner)}",
                    f"{tie.replace('_', partner)}, {other.replace('_', value)}",
                )
    return None
