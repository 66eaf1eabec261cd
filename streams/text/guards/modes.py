"""Guards on how a thing is said: quantity, certainty, question or statement, tense, comparison."""

from collections.abc import Callable, Iterator, Sequence

from streams.text.function_words import HEDGES, NEGATIVE_ADJECTIVES, QUANTIFIERS
from streams.text.guards.alignment import SAME_MEANING
from streams.text.guards.polarity import converse, turned
from streams.text.guards.statement import COMPATIBLE, Answer, CannotTell, Differs, Sides
from streams.text.parts import Qualifier, Word
from streams.text.reading import AnalysedText

_RELATED_MIN = 0.75
"""Below this agreement, texts are compared by content, not by mode."""

_ALIGNED_MIN = 0.8

_STRONG = frozenset(
    ["all", "most", "few", "only", "always", "often", "sometimes", "almost", "either"]
)
"""Quantifiers whose absence changes the meaning; "some dogs" is what "dogs" may mean."""

_IMPLYING = frozenset(["had", "needed", "supposed"])
"""What somebody "had to" do was mostly done; what is "supposed to" be, "is to" be."""

_BINDING = frozenset(["possible", "obligation", "wish"])


def quantifiers(sides: Sides) -> Answer:
    """Compare quantifiers: all, most, few, only, always."""
    if sides.alignment.agreement < _RELATED_MIN:
        return COMPATIBLE
    event, memory = sides.readings
    ours, theirs = _lone(lambda reading: reading.quantifiers, _STRONG, sides)
    if not ours and not theirs:
        return COMPATIBLE
    if ours | theirs <= _EXHAUSTIVE and max(len(event.negations), len(memory.negations)) > 1:
        return COMPATIBLE  # "there is none that does not" means "all do"
    if ours | theirs <= _UNIVERSAL and turned(sides):
        return CannotTell("'all' may be said by denying the opposite")
    if _is_left_out(event, memory, ours, theirs):
        return CannotTell(f"only one text says '{_listed(ours | theirs)}'")
    return Differs("quantifier", _listed(ours), _listed(theirs))


def _is_left_out(
    event: AnalysedText, memory: AnalysedText, ours: frozenset[str], theirs: frozenset[str]
) -> bool:
    """Return whether only one text has a quantifier, and the other may leave it implicit."""
    for kinds, own, other in ((ours, event, memory), (theirs, memory, event)):
        said = {QUANTIFIERS.get(word, "") for word in other.lowers} - {"", *kinds}
        beside = said if kinds - _ADVERBIAL else said & _ADVERBIAL
        denied = kinds & _UNIVERSAL and len(other.negations) > len(own.negations)
        if kinds and (beside or denied):
            return False
        marks = [mark for mark in own.quantifiers if mark.kind in kinds]
        if any(not _adds_little(mark, own) for mark in marks):
            return False
    return True


def _adds_little(mark: Qualifier, reading: AnalysedText) -> bool:
    """Return whether a quantifier may be omitted: "all" of the windows, "only" one, "almost" 5."""
    following = reading.behind(mark.position, 1)
    bounds_a_value = any(word.quantity or word.lower in QUANTIFIERS for word in following)
    if mark.kind in {"only", "almost"}:
        return bounds_a_value
    return (
        mark.kind in _UNIVERSAL
        or mark.kind in {"either", "often"}
        or (mark.kind == "most" and reading.words[mark.position].lower != "most")
    )


_ADVERBIAL = frozenset(["always", "often", "sometimes", "most"])
_UNIVERSAL = frozenset(["all", "always"])
_EXHAUSTIVE = _UNIVERSAL | {"only"}


def modality(sides: Sides) -> Answer:
    """Compare certainty: may, must, wants to, would, against a plain statement."""
    if sides.alignment.agreement < _RELATED_MIN:
        return COMPATIBLE
    event, memory = sides.readings
    if sides.asked:
        return COMPATIBLE  # "How can I", "How do I" and "How should I" ask the same
    ours, theirs = _lone(lambda reading: reading.modals, _BINDING, sides)
    if not ours and not theirs:
        return COMPATIBLE
    if _is_hedged(event, ours, memory) and _is_hedged(memory, theirs, event):
        return CannotTell(f"only one text says how sure it is: {_listed(ours | theirs)}")
    return Differs("modality", _listed(ours), _listed(theirs))


def _is_hedged(reading: AnalysedText, kinds: frozenset[str], other: AnalysedText) -> bool:
    """Return whether a mode is only a hedge, or equals the other text's "will" or "can"."""
    modes = {mark.kind for mark in other.modals}
    planned, able = bool(modes & {"future", "conditional"}), "ability" in modes
    bound_to_not = "obligation" in modes and bool(other.negations)
    refused = bool(reading.negations) and bool(other.negations)
    forbidden = any(found.lemma in NEGATIVE_ADJECTIVES for found in other.negations)
    denied_twice = max(len(reading.negations), len(other.negations)) > 1
    excused = {
        "wish": planned,
        "possible": planned or able or bound_to_not or (forbidden and refused),
        "obligation": denied_twice or (refused and (able or forbidden)),
    }
    return all(
        excused[mark.kind] or reading.words[mark.position].lower in HEDGES | _IMPLYING
        for mark in reading.modals
        if mark.kind in kinds
    )


def _lone(
    marks: Callable[[AnalysedText], Sequence[Qualifier]], kinds: frozenset[str], sides: Sides
) -> Iterator[frozenset[str]]:
    """Yield the kinds of mark that only one side has, on a word that both share: of each side."""
    for reading, other in zip(sides.readings, reversed(sides.readings), strict=True):
        elsewhere = {mark.kind for mark in marks(other)}
        yield frozenset(
            mark.kind
            for mark in marks(reading)
            if mark.kind in kinds - elsewhere
            and _is_shared(mark, reading, sides)
            and not _is_derived(reading.words[mark.position], other, sides)
        )


def _is_shared(mark: Qualifier, reading: AnalysedText, sides: Sides) -> bool:
    """Return whether the word that a mark governs is in both texts."""
    governed = next((word for word in reading.behind(mark.position) if word.content), None)
    return governed is None or governed.lemma in sides.alignment.common


def _is_derived(marking: Word, other: AnalysedText, sides: Sides) -> bool:
    """Return whether the other side has a marking verb as a noun: "intends to", "the intention"."""
    lemma = sides.lexicon.lemma(marking.lower, "v")
    return any(
        word.content
        and (
            word.lemma == lemma
            or (
                marking.content
                and not SAME_MEANING.isdisjoint(sides.lexicon.relations(lemma, word.lower))
            )
        )
        for word in other.words
    )


def _listed(kinds: frozenset[str]) -> str:
    return ", ".join(sorted(kinds))


def question(sides: Sides) -> Answer:
    """Compare a question with a statement, or what two questions ask for."""
    event, memory = sides.readings
    ours, theirs = event.question, memory.question
    if (ours is None) != (theirs is None):
        said = ("states it", "asks") if ours is None else ("asks", "states it")
        return Differs("question", *said)
    specific = ours != theirs and {ours, theirs} <= _SPECIFIC
    if ours and theirs and specific and sides.alignment.agreement >= _ALIGNED_MIN:
        return Differs("question", ours, theirs)
    return COMPATIBLE


_SPECIFIC = frozenset(
    ["who", "where", "when", "why", "how many", "how much", "how long", "how often"]
)
"""Question words that ask for one thing; "what" and "how" can ask for any: "What is the time"."""


def tense(sides: Sides) -> Answer:
    """Compare the time of validity: "used to", "will" and "did" exclude each other."""
    if sides.alignment.agreement < _RELATED_MIN:
        return COMPATIBLE
    event, memory = (reading.tenses for reading in sides.readings)
    if ("former" in event) != ("former" in memory):
        return Differs("tense", _listed(event), _listed(memory))
    if ("future" in event) != ("future" in memory) and "past" in event ^ memory:
        if not _is_of_one_deed(sides):
            return CannotTell("one text speaks of the future, the other of the past")
        return Differs("tense", _listed(event), _listed(memory))
    return COMPATIBLE


def _is_of_one_deed(sides: Sides) -> bool:
    """Return whether the action that "will" be done is also in the other text."""
    for reading in sides.readings:
        for mark in reading.modals:
            behind = reading.behind(mark.position)
            done = next((word for word in behind if word.content or word.lemma == "be"), None)
            if mark.kind == "future" and done and done.lemma in sides.alignment.common | {"be"}:
                return True
    return False


def comparison(sides: Sides) -> Answer:
    """Compare "more" with "less" of the same thing."""
    event, memory = sides.readings
    ours, theirs = _directions(event), _directions(memory)
    if not ours or not theirs or converse(sides):
        return COMPATIBLE
    for of in ours.keys() & theirs.keys():
        if ours[of] != theirs[of]:
            return Differs("comparison", f"{_listed(ours[of])} {of}", f"{_listed(theirs[of])} {of}")
    return COMPATIBLE


def _directions(reading: AnalysedText) -> dict[str, frozenset[str]]:
    """Return what is compared, and whether as more or as less."""
    return {
        of: frozenset(found.direction for found in reading.comparisons if found.of == of)
        for of in dict.fromkeys(found.of for found in reading.comparisons)
    }
