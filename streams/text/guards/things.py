"""Guards on who and what is meant: names, owners, persons, attributes, generality."""
# ruff: noqa: SIM905 - a class of words is read as a line

from collections.abc import Iterator, Sequence
from itertools import groupby
from unicodedata import combining, normalize

from streams.text.function_words import FIRST_PERSON, PREPOSITIONS, by_word
from streams.text.guards.alignment import OPPOSED, SAME_MEANING, Alignment, Gap, common_ends
from streams.text.guards.statement import COMPATIBLE, Answer, CannotTell, Differs, Sides
from streams.text.lexicon import Lexicon, Relation
from streams.text.parts import Possession, Word
from streams.text.reading import AnalysedText
from streams.text.units import ZONES

_RELATED_MIN = 0.5
"""Texts that share less of their content words differ in subject: differences mean nothing."""

_ALIGNED_MIN = 0.6
"""Below this agreement a one-word swap does not count: too much else differs."""

_NEARLY_ALIGNED_MIN = 0.7

_NAME_LETTERS_MIN = 3
"""A shorter name cannot be a short form: "Al" begins "Alice", "Albert" and "Alaska"."""

CONTRASTING = frozenset(
    "colour material country city nationality language month weekday season animal food beverage room "
    "building profession relative clothing vehicle instrument furniture sport planet disease body-part "
    "direction".split()
)
"""Categories whose members exclude each other."""

_OPEN = frozenset(["he", "she", "it", "they"])
"""Pronouns without a fixed referent: they may mean anybody named elsewhere."""
_PERSONS = by_word(
    i="i me my mine myself",
    you="you your yours yourself",
    he="he him his himself",
    she="she her hers herself",
    we="we us our ours ourselves",
    they="they them their theirs themselves",
)


def names(sides: Sides) -> Answer:
    """Compare names: they conflict if each side has one the other lacks, in the same position."""
    alignment, lexicon = sides.alignment, sides.lexicon
    event, memory = sides.readings
    unmatched = (*alignment.event_only, *alignment.memory_only)
    if alignment.agreement < _ALIGNED_MIN and not all(_is_name(word) for word in unmatched):
        return COMPATIBLE
    for gap in alignment.gaps:
        ours, theirs = _lone(gap.event, memory, lexicon), _lone(gap.memory, event, lexicon)
        mostly = 2 * len(ours) > len(gap.event) and 2 * len(theirs) > len(gap.memory)
        if mostly and not _one_is_part(ours, theirs, sides) and _rival(ours, theirs, sides):
            return _other_name(ours, theirs, sides)
    ours = _lone(alignment.event_only, memory, lexicon)
    theirs = _lone(alignment.memory_only, event, lexicon)
    lone = len(ours) == 1 == len(theirs) and _rival(ours, theirs, sides)
    if lone and alignment.agreement >= _ALIGNED_MIN:
        return _other_name(ours, theirs, sides)
    return COMPATIBLE


def _other_name(ours: Sequence[Word], theirs: Sequence[Word], sides: Sides) -> Answer:
    """Distinguish two names from two spellings of one, and from a headline's common words."""
    respelt = any(_is_respelt(mine, other) for mine in ours for other in theirs)
    titled = any(
        _is_title(reading) and all(_is_common(word, sides.lexicon) for word in words)
        for reading, words in zip(sides.readings, (ours, theirs), strict=True)
    )
    if respelt or titled:
        return CannotTell(f"'{_spelt(ours)}' and '{_spelt(theirs)}' may be one name")
    return Differs("name", _spelt(ours), _spelt(theirs))


def _is_respelt(mine: Word, other: Word) -> bool:
    """Return whether two names may be spellings of one, or one may have a letter left out."""
    if _skeleton(mine) == _skeleton(other):
        return True
    short, long = sorted((_folded(mine.lower), _folded(other.lower)), key=len)
    at, _ = common_ends(short, long)
    inside = 0 < at < len(short) and len(long) == len(short) + 1
    return inside and len(long) > _RESPELT_LETTERS_MIN and short[at:] == long[at + 1 :]


def _skeleton(name: Word) -> str:
    """Return what the spellings of a foreign name have in common: "Muqtada", "Moqtada".

    The last letter is kept, because "Bruno" is not "Bruna"; short names are left unchanged.
    """
    folded = _folded(name.lower)
    if len(folded) < _RESPELT_LETTERS_MIN:
        return folded
    hard = (letter for letter in folded[1:-1] if letter not in "aeiouyhw")
    return folded[0] + "".join(letter for letter, _ in groupby(hard)) + folded[-1]


_RESPELT_LETTERS_MIN = 5


def _is_title(reading: AnalysedText) -> bool:
    """Return whether a text looks like a headline: at least half of its words are capitalized."""
    spelt = [word for word in reading.content if not word.quantity]
    capitals = sum(word.spelling[:1].isupper() for word in spelt)
    return len(spelt) >= _TITLE_WORDS_MIN and 2 * capitals >= len(spelt)


_TITLE_WORDS_MIN = 5


def _is_common(word: Word, lexicon: Lexicon) -> bool:
    return lexicon.frequency(word.lower) > 0 and not lexicon.is_proper(word.lower)


_BESIDE_TIMES = ZONES | {"am", "pm"}
_TITLES = frozenset(["mr", "mrs", "ms", "dr", "prof", "sir", "rs"])


def _lone(words: Sequence[Word], other: AnalysedText, lexicon: Lexicon) -> list[Word]:
    """Return the names among words that the other text does not have in another form."""
    return [w for w in words if _is_name(w) and not _is_mentioned(w, words, other, lexicon)]


def _is_name(word: Word) -> bool:
    """Return whether a word is a name, even where names are written in lower case."""
    return (
        word.quantity is None
        and (word.name or (not word.known and len(word.lower) >= _NAME_LETTERS_MIN))
        and word.lower not in _TITLES
        and word.lower not in _BESIDE_TIMES
    )


def _is_mentioned(
    name: Word, beside: Sequence[Word], other: AnalysedText, lexicon: Lexicon
) -> bool:
    """Return whether the other text has a name's short form, acronym or adjective."""
    if name.lower in other.text.lower().replace("-", "").split():
        return True
    return (
        any(_one_name(name, word, lexicon) for word in other.content)
        or any(_is_acronym(name.lower, run) for run in _runs(other))
        or any(
            _is_acronym(word.lower, [name, *beside]) for word in other.names if len(word.lower) > 1
        )
    )


def _rival(ours: Sequence[Word], theirs: Sequence[Word], sides: Sides) -> bool:
    """Return whether names can be of one kind: a city does not rival a person."""
    kinds = [
        [sides.lexicon.categories(word.lower) & _NAMED_KINDS for word in words]
        for words in (ours, theirs)
    ]
    if any(mine & other or (not mine and not other) for mine in kinds[0] for other in kinds[1]):
        return True
    unheard = any(word.lower not in sides.lexicon for word in (*ours, *theirs))
    event, memory = sides.readings
    return unheard and _preposition(ours, event) == _preposition(theirs, memory) != ""


def _preposition(names_: Sequence[Word], reading: AnalysedText) -> str:
    """Return the preposition before the first name: two cities both follow "in"."""
    before = reading.before(names_[0].position, 1) if names_ else ()
    return "".join(near.lower for near in before if near.lower in PREPOSITIONS)


_NAMED_KINDS = frozenset(["place", "country", "city", "nationality", "language"])


def _one_name(name: Word, other: Word, lexicon: Lexicon) -> bool:
    if name.lemma == other.lemma:
        return True
    short, long = sorted((_folded(name.lower), _folded(other.lower)), key=len)
    if short == long or (len(short) >= _NAME_LETTERS_MIN and long.startswith(short)):
        return True
    derived = not name.spelling[:1].isupper() and common_ends(short, long)[0] >= _STEM_LETTERS_MIN
    return derived or bool(lexicon.relations(name.lower, other.lower) & SAME_MEANING)


_STEM_LETTERS_MIN = 8
"""Unknown lower-case words that share so long a stem are forms of one term."""


def _folded(name: str) -> str:
    """Return a name without accents and dots; many keyboards lack accents."""
    name = name.replace(".", "")
    if name.isascii():
        return name
    return "".join(mark for mark in normalize("NFD", name) if not combining(mark))


def _runs(reading: AnalysedText) -> Iterator[list[Word]]:
    """Yield the runs of adjacent capitalized words."""
    for capitalized, words in groupby(reading.content, lambda word: word.spelling[:1].isupper()):
        run = list(words)
        if capitalized and len(run) > 1:
            yield run


def _is_acronym(short: str, run: Sequence[Word]) -> bool:
    """Return whether letters abbreviate names: "NYC" for New York (city), "U.S." for the States."""
    letters = short.replace(".", "")
    initials = "".join(word.lower[:1] for word in run)
    if len(letters) < 2 or len(run) < 2:  # noqa: PLR2004 - one letter stands for anything
        return False
    if initials.startswith(letters) or letters[:-1] == initials:
        return True
    # "USGS" is the US Geological Survey, whose "US" is no content word; "BoE" the Bank of England.
    rest = iter(letters)
    near = len(letters) - len(initials) <= 2 and all(letter in rest for letter in initials)  # noqa: PLR2004
    return near and (letters.endswith(initials) or letters[0] == initials[0])


def _one_is_part(ours: Sequence[Word], theirs: Sequence[Word], sides: Sides) -> bool:
    """Return whether two names may be one, longer and shorter: they have a part in common."""
    return any(_one_name(mine, other, sides.lexicon) for mine in ours for other in theirs)


def _spelt(words: Sequence[Word]) -> str:
    return " ".join(word.spelling for word in words)


def owners(sides: Sides) -> Answer:
    """Compare the owners of a thing: "my car" and "your car"; "his" may be anybody's."""
    event, memory = sides.readings
    if sides.asked or not event.possessions or not memory.possessions:
        return COMPATIBLE
    partners = sides.alignment.partners
    for thing in dict.fromkeys(mine.owned for mine in event.possessions):
        ours = [mine for mine in event.possessions if mine.owned == thing]
        same_thing = partners.get(thing, thing)
        theirs = [other for other in memory.possessions if other.owned == same_thing]
        others = [(m, o) for m in ours for o in theirs if _owned_otherwise(m, o, sides)]
        if others and len(others) == len(ours) * len(theirs):
            if not _are_owners(ours[0], theirs[0], sides):
                return CannotTell(f"'{ours[0].owner}' may be '{theirs[0].owner}'")
            return Differs("owner", _owning(ours[0]), _owning(theirs[0]))
    return COMPATIBLE


def _are_owners(mine: Possession, other: Possession, sides: Sides) -> bool:
    """Return whether two owners are of one sort: a name may be the city, the company, the boss."""
    if mine.owner in _PERSONS or other.owner in _PERSONS:
        return True
    mine_named, other_named = (
        any(word.lower == possession.owner and _is_name(word) for word in reading.content)
        for possession, reading in zip((mine, other), sides.readings, strict=True)
    )
    return mine_named == other_named


def _owned_otherwise(mine: Possession, other: Possession, sides: Sides) -> bool:
    owners_ = {"i" if owner in {"we", "user"} else owner for owner in (mine.owner, other.owner)}
    if len(owners_) == 1:
        return False
    if owners_ & _OPEN:
        return owners_ == {"he", "she"}
    return not sides.lexicon.relations(mine.owner, other.owner) & SAME_MEANING


def _owning(possession: Possession) -> str:
    return f"{possession.owner}: {possession.owned}"


def persons(sides: Sides) -> Answer:
    """Compare who the pronouns mean: "I" and "you", "he" and "she"."""
    if sides.asked or sides.alignment.moved or sides.alignment.agreement < _ALIGNED_MIN:
        return COMPATIBLE  # in a question, "I" and "you" may mean anybody
    event, memory = (_persons(reading) for reading in sides.readings)
    for mine, other in (("i", "you"), ("you", "i"), ("he", "she"), ("she", "he")):
        if mine in event and other in memory and mine not in memory and other not in event:
            return Differs("person", mine, other)
    return COMPATIBLE


def _persons(reading: AnalysedText) -> frozenset[str]:
    return frozenset(
        "i" if word.lower in FIRST_PERSON else _PERSONS[word.lower]
        for word in reading.words
        if word.lower in _PERSONS
    )


def attributes(sides: Sides) -> Answer:
    """Compare mutually exclusive words in the same position: colours, places, animals, siblings."""
    alignment = sides.alignment
    if alignment.agreement < _RELATED_MIN:
        return COMPATIBLE
    for gap in alignment.gaps:
        for mine in gap.event:
            for other in gap.memory:
                if category := _contrast(mine, other, sides.lexicon):
                    if category in _LOOSE and not _is_lone_swap(gap, alignment):
                        return CannotTell(f"'{mine.spelling}' may be called '{other.spelling}'")
                    return Differs(category, mine.spelling, other.spelling)
    for mine, other in alignment.swaps:
        if _are_places(mine, other, sides):
            return Differs("place", mine.spelling, other.spelling)
    if alignment.agreement < _NEARLY_ALIGNED_MIN:
        return COMPATIBLE
    for mine, other in alignment.swaps:
        if category := _contrast(mine, other, sides.lexicon):
            return Differs(category, mine.spelling, other.spelling)
        if _are_siblings(mine, other, sides.lexicon):
            return CannotTell(f"'{mine.spelling}' and '{other.spelling}' are of one kind")
    return COMPATIBLE


def _are_places(mine: Word, other: Word, sides: Sides) -> bool:
    """Return whether two words are both buildings, or parts of one, in which something is."""
    relations = sides.lexicon.relations(mine.lower, other.lower)
    built = all(
        word.quantity is None
        and Relation.BROADER in sides.lexicon.relations(word.lower, "structure")
        for word in (mine, other)
    )
    if not built or relations & _KIN:
        return False
    return all(
        any(near.lower in _WHERE for near in reading.before(word.position, 2))
        for word, reading in zip((mine, other), sides.readings, strict=True)
    )


_WHERE = frozenset(["in", "under", "behind", "inside", "beneath", "beside", "above", "below"])
_LOOSE = frozenset(["profession", "body-part", "relative"])
"""Categories in which one thing may have two names: a senator may be the chairman."""


def _is_lone_swap(gap: Gap, alignment: Alignment) -> bool:
    return gap.swap is not None and not alignment.moved and alignment.agreement >= _ALIGNED_MIN


def _contrast(word: Word, other: Word, lexicon: Lexicon) -> str:
    """Return the category in which two words exclude each other; "" if there is none."""
    if word.quantity or other.quantity or word.lower == other.lower:
        return ""
    shared = lexicon.categories(word.lower) & lexicon.categories(other.lower) & CONTRASTING
    if not shared or lexicon.relations(word.lower, other.lower) & _KIN:
        return ""
    if not _are_things(word, other, lexicon):
        return ""
    return min(shared)


_KIN = SAME_MEANING | {Relation.BROADER, Relation.NARROWER}


def _are_siblings(word: Word, other: Word, lexicon: Lexicon) -> bool:
    """Return whether two nouns or adjectives are kinds of one thing, unrelated otherwise."""
    if word.quantity or other.quantity or word.name or other.name:
        return False
    relations = lexicon.relations(word.lower, other.lower)
    if Relation.SIBLING not in relations or relations & (_KIN | OPPOSED):
        return False
    if {"person", "organization"} & lexicon.categories(word.lower):
        return False  # people go by many names
    return _are_things(word, other, lexicon)


def _are_things(word: Word, other: Word, lexicon: Lexicon) -> bool:
    """Return whether two words are nouns or adjectives: verbs of one kind mostly mean one event."""
    return not any(
        lexicon.is_mostly(each.lower, "v") and not lexicon.is_mostly(each.lower, "n")
        for each in (word, other)
    )


def generality(sides: Sides) -> Answer:
    """Compare a swapped word that is more general than the other: the two are not equivalent."""
    if sides.alignment.agreement < _ALIGNED_MIN:
        return COMPATIBLE
    for mine, other in sides.alignment.swaps:
        if mine.quantity or other.quantity or not _are_things(mine, other, sides.lexicon):
            continue
        if not _of_one_kind(mine, other, sides.lexicon):
            continue  # people and notions go by many names: a woman is a lady, a person
        relations = sides.lexicon.relations(mine.lower, other.lower)
        if relations & SAME_MEANING:
            continue
        if Relation.BROADER in relations:
            return CannotTell(f"'{other.spelling}' is more general than '{mine.spelling}'")
        if Relation.NARROWER in relations:
            return CannotTell(f"'{mine.spelling}' is more general than '{other.spelling}'")
    return COMPATIBLE


def _of_one_kind(word: Word, other: Word, lexicon: Lexicon) -> bool:
    """Return whether two words share a contrasting category, like "beagle" and "dog"."""
    shared = lexicon.categories(word.lower) & lexicon.categories(other.lower)
    return bool(shared & CONTRASTING)


def substance(sides: Sides) -> Answer:
    """Decline texts with too little content to compare: a word, a bare number, a placeholder."""
    if sides.worded_alike:
        return COMPATIBLE
    for statement in (sides.event, sides.memory):
        content = statement.reading.content
        values = sum(word.quantity is not None for word in content)
        few = len(content) - values < _CONTENT_MIN and 2 * values > len(content)
        if len(content) < _CONTENT_MIN or few:
            return CannotTell(f"'{statement.reading.text[:40]}' says too little to be compared")
    return COMPATIBLE


_CONTENT_MIN = 2
