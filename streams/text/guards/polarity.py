"""Guards on polarity: negation, opposites, directions."""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

from streams.text.function_words import BE, NEGATIVE_ADJECTIVES, NEGATIVE_VERBS, PRONOUNS
from streams.text.guards.alignment import OPPOSED, are_synonyms
from streams.text.guards.statement import COMPATIBLE, Answer, CannotTell, Differs, Sides
from streams.text.lexicon import Lexicon, Relation
from streams.text.parts import Negation, Word
from streams.text.reading import AnalysedText

_ALIGNED_MIN = 0.6
_RELATED_MIN = 0.5
"""Texts that share less of their content words differ in subject: their opposites mean nothing."""

_SCOPED_MIN = 0.85
"""Texts that share less may word one denial in two ways: "never received" and "did not reach"."""

_SWAPPED_MIN, _SWAPPED_MAX = 0.75, 2
"""The least agreement, and the most unmatched words per side, at which a denied word that only
one side has replaces the other's word: "used", "not utilised"."""


def _paired(pairs: str) -> Mapping[str, AbstractSet[str]]:
    """Return the partners of each word, from pairs like "on/off"."""
    partners: dict[str, set[str]] = {}
    for one, other in (pair.split("/") for pair in pairs.split()):
        partners.setdefault(one, set()).add(other)
        partners.setdefault(other, set()).add(one)
    return partners


_OPPOSITE = _paired(
    "on/off in/out up/down before/after above/below over/under inside/outside into/from to/from "
    "toward/from with/without for/against more/less most/least here/there since/until"
)
"""Closed-class words with their opposites; none is a content word."""


def negation(sides: Sides) -> Answer:
    """Compare which shared words are denied; an opposite cancels a negation."""
    if not any(reading.negations for reading in sides.readings):
        return COMPATIBLE
    if sides.alignment.agreement < _ALIGNED_MIN:
        return COMPATIBLE
    event, memory = sides.readings
    ours, theirs = _effective(event, memory, sides), _effective(memory, event, sides)
    if len(ours) % 2 != len(theirs) % 2:
        if _opposites(sides) or _turned(event, memory) or any(_turned_directions(sides)):
            return COMPATIBLE
        return _unequal(sides, ours, theirs)
    return _same_scope(sides, ours, theirs)


def _unequal(sides: Sides, ours: list[Negation], theirs: list[Negation]) -> Answer:
    """Distinguish a clear denial of what the other side asserts from a possible rewording."""
    event, memory = sides.readings
    said = [*((event, one) for one in ours), *((memory, one) for one in theirs)]
    sure = [(side, one) for side, one in said if _denies_a_shared_word(one, side, sides)]
    side, negation = (sure or said)[0]
    words = _around(side, negation)
    if not sure:
        return CannotTell(f"'{words}' denies what the other text says otherwise")
    return Differs("negation", *((words, "") if side is event else ("", words)))


def _denies_a_shared_word(negation: Negation, reading: AnalysedText, sides: Sides) -> bool:
    """Return whether the first word in a negation's scope is also in the other text.

    A verb that denies its object ("refuse to pay") is clear only if the other side has no
    unmatched verb in its place.
    """
    first = next(_denied(negation, reading, sides.lexicon), None)
    alignment = sides.alignment
    known = alignment.common | {word.lemma for pair in _opposites(sides) for word in pair}
    own, others = alignment.event_only, alignment.memory_only
    if reading is not sides.event.reading:
        own, others = others, own
    if first and first.lemma not in known:
        in_its_stead = (
            max(len(own), len(others)) <= _SWAPPED_MAX
            and first in own
            and not _is_negative(first, sides.lexicon)
        )
        return in_its_stead and alignment.agreement >= _SWAPPED_MIN
    if negation.lemma not in _VERBAL:
        return True
    return not any("v" in sides.lexicon.parts_of_speech(word.lower) for word in others)


def _is_negative(word: Word, lexicon: Lexicon) -> bool:
    """Return whether a word is itself a denial: "unusual", "impossible"."""
    entry = lexicon.entry(word.lemma)
    return entry is not None and any(
        word.lemma.endswith(antonym) and word.lemma != antonym for antonym in entry.antonyms
    )


def _is_adverb(word: Word, lexicon: Lexicon) -> bool:
    """Return whether a word is an adverb, so that the denied word follows it: "no longer works"."""
    if word.quantity or "r" not in lexicon.parts_of_speech(word.lower):
        return False
    return not lexicon.is_mostly(word.lower, "n") and not lexicon.is_mostly(word.lower, "v")


_VERBAL = NEGATIVE_VERBS | NEGATIVE_ADJECTIVES


def _turned(event: AnalysedText, memory: AnalysedText) -> bool:
    """Return whether a function word cancels a negation: "not the same", "a different one"."""
    return any(
        (event.lowers & some and memory.lowers & others)
        or (memory.lowers & some and event.lowers & others)
        for some, others in _TURNING
    )


_TURNING = (
    (frozenset(["same"]), frozenset(["other", "another", "different", "unlike"])),
    (frozenset(["much", "many"]), frozenset(["little", "few"])),
)


def _effective(reading: AnalysedText, other: AnalysedText, sides: Sides) -> list[Negation]:
    """Return the negations whose scope includes something that the other text shares."""
    shared = sides.alignment.common
    opposed = {word.lemma for pair in _opposites(sides) for word in pair}
    lowers = {word.lower for word in other.words}
    return [
        negation
        for negation in reading.negations
        if not _is_said_there(negation, other, sides.lexicon)
        and not _is_bound(negation, reading, other)
        and any(
            word.lemma in shared
            or word.lemma in opposed
            or (
                not word.content
                and word.lower in lowers
                and word.lower not in {"the", "a", "an", "to"}
            )
            for word in reading.words[negation.start : negation.stop]
        )
    ]


def _is_bound(negation: Negation, reading: AnalysedText, other: AnalysedText) -> bool:
    """Return whether a negation only inverts a bound: "not shorter than 12", "at least 12"."""
    bounded = {(quantity.key, quantity.bound) for quantity in other.quantities}
    for word in reading.words[negation.start : negation.stop]:
        if word.quantity is None:
            continue
        between = reading.words[negation.start : word.position]
        if sum(near.content for near in between) > 1:
            return False
        compared = {word.quantity.bound} if word.quantity.bound else _LIMITS
        limited = word.quantity.bound in _LIMITS or (between[-1:] and between[-1].lower == "than")
        return bool(limited) and any((word.quantity.key, bound) in bounded for bound in compared)
    return False


_LIMITS = frozenset(["more", "less"])


def _is_said_there(negation: Negation, other: AnalysedText, lexicon: Lexicon) -> bool:
    """Return whether the other side has a denying verb in any form: "refused", "refusal"."""
    if negation.lemma not in _VERBAL:
        return False
    if any(denial.lemma == negation.lemma for denial in other.negations):
        return True
    return any(
        word.lemma == negation.lemma
        or (word.content and are_synonyms(negation.lemma, word.lower, lexicon))
        for word in other.words
    )


def _same_scope(sides: Sides, ours: list[Negation], theirs: list[Negation]) -> Answer:
    """Compare what one negation on each side denies: "not Anna but Ben" and "not Ben but Anna"."""
    if len(ours) != 1 or len(theirs) != 1:
        return COMPATIBLE
    event, memory = sides.readings
    pairs = (*sides.alignment.pairs, *sides.alignment.moved)
    only_here = [mine for mine, other in pairs if mine.negated and not other.negated]
    only_there = [other for mine, other in pairs if other.negated and not mine.negated]
    mine = next(_denied(ours[0], event, sides.lexicon), None)
    other = next(_denied(theirs[0], memory, sides.lexicon), None)
    if (
        mine
        and other
        and sides.alignment.partners.get(mine.lemma) == other.lemma
        and follows_be(mine, event) != follows_be(other, memory)
    ):
        return COMPATIBLE  # "peas are not liked by Ana", "Ana does not like peas"
    if only_here and only_there and sides.alignment.agreement < _SCOPED_MIN:
        return CannotTell("each text denies something else in another wording")
    if only_here and only_there:
        return Differs("negation", _around(event, ours[0]), _around(memory, theirs[0]))
    return COMPATIBLE


def _denied(negation: Negation, reading: AnalysedText, lexicon: Lexicon) -> Iterator[Word]:
    """Yield the content words in a negation's scope, skipping adverbs."""
    for word in reading.words[negation.start : negation.stop]:
        if word.content and not _is_adverb(word, lexicon):
            yield word


def follows_be(word: Word, reading: AnalysedText) -> bool:
    """Return whether a form of "be" stands shortly before a word."""
    return any(near.lower in BE for near in reading.before(word.position, 3))


def _around(reading: AnalysedText, negation: Negation) -> str:
    at = negation.position
    span = reading.words[at : max(at + 1, min(negation.stop, at + 4))]
    return " ".join(word.spelling for word in span)


def opposites(sides: Sides) -> Answer:
    """Compare opposite words in the same position: "open" and "closed", "before" and "after"."""
    for mine, other in _opposites(sides):
        if mine.negated == other.negated:
            excepted = any("except" in reading.lowers for reading in sides.readings)
            if excepted or _is_exchanged(mine, other, sides):
                return CannotTell(f"'{mine.spelling}' and '{other.spelling}' may say one thing")
            return Differs("opposite", mine.spelling, other.spelling)
    for mine, other in (*_directions(sides), *_switched(sides)):
        return Differs("direction", mine, other)
    return COMPATIBLE


def _switched(sides: Sides) -> Iterator[tuple[str, str]]:
    """Find "on" at the end of a clause in one text and "off" at the end of one in the other."""
    if sides.alignment.agreement < _ALIGNED_MIN:
        return
    ours, theirs = (_stranded(reading) for reading in sides.readings)
    for word in sorted(ours - theirs):
        for other in sorted(_OPPOSITE[word] & (theirs - ours)):
            yield word, other


def _stranded(reading: AnalysedText) -> frozenset[str]:
    """Return the particles that end their clause: "is on", "switched off"."""
    words = reading.words
    return frozenset(
        word.lower
        for word in words
        if word.lower in _PARTICLES
        and not word.negated
        and (word.position + 1 == len(words) or words[word.position + 1].clause != word.clause)
    )


_PARTICLES = frozenset(["on", "off", "in", "out", "up", "down", "inside", "outside"])


def converse(sides: Sides) -> bool:
    """Return whether opposite words stand between exchanged ones: "A before B", "B after A"."""
    event, memory = sides.readings
    if any(_is_exchanged(mine, other, sides) for mine, other in _opposites(sides)):
        return True
    small = (
        (mine, other)
        for mine in event.words
        if mine.lower in _CONVERSE
        for other in memory.words
        if other.lower in _CONVERSE[mine.lower]
        and not (other.lower in event.lowers and mine.lower in memory.lowers)
    )
    return any(_is_exchanged(mine, other, sides) for mine, other in small)


_CONVERSE = _paired(
    "to/from before/after above/below above/under over/under over/below more/less more/fewer"
)
"""Closed-class words with their converses: each says of B and A what the other says of A and B."""


def _is_exchanged(mine: Word, other: Word, sides: Sides) -> bool:
    """Return whether the words before and after a word are exchanged around its opposite."""
    ours = _sides_of(mine, sides.event.reading)
    theirs = _sides_of(other, sides.memory.reading)
    partners = sides.alignment.partners
    before, behind = ({partners.get(name, name) for name in side} for side in ours)
    return bool((before - behind) & theirs[1] - theirs[0]) and bool(
        (behind - before) & theirs[0] - theirs[1]
    )


def _sides_of(pivot: Word, reading: AnalysedText) -> tuple[set[str], set[str]]:
    """Return the lemmas before and after a word in its clause, persons included."""
    near = [
        word
        for word in reading.words
        if word.clause == pivot.clause and (word.content or word.lower in PRONOUNS)
    ]
    return (
        {word.lemma for word in near if word.position < pivot.position},
        {word.lemma for word in near if word.position > pivot.position},
    )


def _opposites(sides: Sides) -> list[tuple[Word, Word]]:
    """Return the opposites in one gap, or those that are the only unmatched words."""
    alignment = sides.alignment
    if alignment.agreement < _RELATED_MIN:
        return []
    found = [
        (mine, other)
        for mine, other in alignment.swaps
        if _are_opposed(mine, other, sides.lexicon, OPPOSED)
    ]
    strict = frozenset([Relation.ANTONYM])
    for gap in alignment.gaps:
        found += [
            (mine, other)
            for mine in gap.event
            for other in gap.memory
            if _are_opposed(mine, other, sides.lexicon, strict)
        ]
    return list(dict.fromkeys(found))


def _are_opposed(word: Word, other: Word, lexicon: Lexicon, kinds: frozenset[Relation]) -> bool:
    if word.quantity or other.quantity:
        return False
    relations = lexicon.relations(word.lower, other.lower)
    return bool(relations & kinds) and Relation.SYNONYM not in relations


def turned(sides: Sides) -> bool:
    """Return whether an opposite is denied on one side only: "voted for", "none voted against"."""
    return any(mine.negated != other.negated for mine, other in _opposites(sides)) or any(
        _turned_directions(sides)
    )


def _turned_directions(sides: Sides) -> Iterator[Word]:
    return (mine for mine, other, _ in _beside(sides) if mine.negated != other.negated)


def _directions(sides: Sides) -> Iterator[tuple[str, str]]:
    """Find a function word and its opposite next to the same word: "turned on" and "turned off"."""
    event, memory = sides.readings
    for mine, other, (before, after) in _beside(sides):
        both = other.lower in event.lowers and mine.lower in memory.lowers
        if mine.negated == other.negated and not both and not converse(sides):
            yield f"{before} {mine.lower} {after}", f"{before} {other.lower} {after}"


def _beside(sides: Sides) -> Iterator[tuple[Word, Word, tuple[str, str]]]:
    """Yield function words and their opposites that stand between the same words."""
    event, memory = sides.readings
    ours, theirs = dict(_anchored(event)), dict(_anchored(memory))
    partners = sides.alignment.partners
    for (before, after), word in ours.items():
        other = theirs.get((partners.get(before, before), partners.get(after, after)))
        if other and (before or after) and other.lower in _OPPOSITE[word.lower]:
            yield word, other, (before, after)


def _anchored(reading: AnalysedText) -> Iterator[tuple[tuple[str, str], Word]]:
    """Yield each directional word with the content words around it in its clause."""
    words = reading.words
    for at, word in enumerate(words):
        if word.lower not in _OPPOSITE:
            continue
        around = (reversed(words[max(0, at - 3) : at]), words[at + 1 : at + 4])
        before, after = (
            next((near.lemma for near in side if near.content and near.clause == word.clause), "")
            for side in around
        )
        yield (before, after), word
