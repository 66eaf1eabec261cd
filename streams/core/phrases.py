"""A text as a list of things said: sentences of phrases of items, each with how it is meant.

An item is a word or value that says something; a phrase is a run of items between marks,
conjunctions and prepositions, with the word that opens it. Only words that say nothing by
themselves are left out, so what is compared by its items is compared by all that it says.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

from streams.core.language.function_words import (
    ARTICLES,
    AUXILIARIES,
    COORDINATORS,
    DEMONSTRATIVES,
    FIRST_PERSON,
    FUNCTION_WORDS,
    PREPOSITIONS,
    SECOND_PERSON,
    SUBORDINATORS,
    THIRD_PERSON,
)
from streams.core.language.lexicon import Lexicon
from streams.core.language.quantities import Kind, Quantity, quantity_at
from streams.core.language.reading import Reading, Word
from streams.core.language.tokens import Form, Token

_SUBJECT_MAX = 6
"""A subject longer than this is not looked for."""

ItemKind: TypeAlias = Literal["number", "name", "negation", "word"]
ALL_KINDS: frozenset[ItemKind] = frozenset(["number", "name", "negation", "word"])

_ORDINARY_MARKS = frozenset(
    ".,;:!?\u2026'\"()[]-\u2010\u2011\u2013\u2014\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb"
)
"""Other marks say something: the pluses of C++, an emoji, an arrow."""
_SENTENCE_ENDS = frozenset(".!?…")
_PHRASE_ENDS = frozenset(',;:()[]"\u2013\u2014\u201c\u201d\u201e\u00ab\u00bb')
_NO_ABBREVIATION_MIN = 4
"""A full stop behind a shorter capitalised word (Dr., St.) ends no sentence."""

_SILENT = ARTICLES | {"'s", "also", "very", "really", "please"}
_OPENERS = (PREPOSITIONS | SUBORDINATORS | COORDINATORS) - {"like", "that"}
_CONTRAST = frozenset(
    ["and", "plus", "as-well-as", "but", "although", "though", "however", "yet", "whereas"]
)
"""Openers that join two statements and say nothing of their own."""
_PREPOSITIONS = PREPOSITIONS - {"like"}

_FRAMES = frozenset(
    [
        "if",
        "unless",
        "whether",
        "or",
        "nor",
        "either",
        "except",
        "until",
        "till",
        "instead",
        "maybe",
        "perhaps",
        "possibly",
        "probably",
        "likely",
        "apparently",
        "supposedly",
        "allegedly",
    ]
)
"""Words that change how far the rest of their sentence is asserted."""
_PERSONS: Mapping[str, str] = {
    "me": "i",
    "myself": "i",
    "mine": "my",
    "us": "we",
    "ourselves": "we",
    "ours": "our",
    "yourself": "you",
    "yours": "your",
    "him": "he",
    "himself": "he",
    "hers": "her",
    "herself": "she",
    "itself": "it",
    "them": "they",
    "themselves": "they",
    "theirs": "their",
}
_ALIKE: Mapping[str, str] = {
    "might": "may",
    "perhaps": "maybe",
    "possibly": "maybe",
    "everybody": "everyone",
    "somebody": "someone",
    "nearly": "almost",
    "solely": "only",
    "exclusively": "only",
    "frequently": "often",
    "occasionally": "sometimes",
}
"""Of the closed classes only words that say the same in every place."""
_PRONOUNS = FIRST_PERSON | SECOND_PERSON | THIRD_PERSON
_LEANING = THIRD_PERSON | DEMONSTRATIVES | {"then", "one", "ones", "former", "latter", "others"}
_PAST = frozenset(["was", "were", "had", "did", "been"])
_PRESENT_BE = frozenset(["am", "is", "are", "be", "being"])
_HAVE = frozenset(["has", "have", "having"])
_NOUN_CLEARLY = 4
"""How many times as often as a verb a word must be met as a noun for its plural to count."""
_NAMES_NO_VALUE = frozenset([Kind.IDENTIFIER, Kind.VERSION, Kind.PLACEHOLDER])


@dataclass(frozen=True, slots=True)
class Item:
    """A word or value that says something.

    `key` is what equal items share. `form`: past, comparative, superlative, plural or nothing.
    `written`: in capitals, with one, without; "" where the place explains a capital. `owner`: what
    follows is its own. `role`: its commonest part of speech; "" for names and closed classes.
    `plain`: a word of the dictionary that a related one may stand for; `asserted`: nothing in its
    text denies, limits or asks, so that a narrower one may. `quote` is where it stands in the text, a
    negation together with what it denies.
    """

    kind: ItemKind
    key: str
    lower: str
    quote: str
    form: str = ""
    written: str = ""
    negated: bool = False
    owner: bool = False
    role: str = ""
    plain: bool = False
    asserted: bool = False
    quantity: Quantity | None = None
    opener: str = ""


@dataclass(frozen=True, slots=True)
class Phrase:
    """Items in their order, and the word that opens them; "" for none that says something."""

    opener: str
    items: tuple[Item, ...]

    @property
    def prepositional(self) -> bool:
        return bool(self.opener) and _PREPOSITIONS.issuperset(self.opener.split())


@dataclass(frozen=True, slots=True)
class Sentence:
    """Phrases in their order.

    `frame` holds what changes how the whole is meant: a condition, a doubt, a question, a speaker.
    `leans`: it has a word that stands for something said before.
    """

    text: str
    phrases: tuple[Phrase, ...]
    frame: frozenset[str]
    leans: bool

    @property
    def items(self) -> tuple[Item, ...]:
        return self.items_from(0)

    def items_from(self, at: int) -> tuple[Item, ...]:
        """Return the items of a phrase and those behind it."""
        return tuple(item for phrase in self.phrases[at:] for item in phrase.items)


class _Place(NamedTuple):
    """A word of a reading, where it stands, and the marks in front of it."""

    word: Word
    start: int
    stop: int
    marks: tuple[Token, ...]
    initial: bool


def sentences_of(reading: Reading, lexicon: Lexicon) -> tuple[Sentence, ...]:
    """Take a text apart."""
    places, behind = _places(reading)
    if not places:
        return (Sentence(reading.text, (_wholly(reading.text),), frozenset(), leans=False),)
    return tuple(
        _sentence(reading, clause, tail, lexicon)
        for group, tail in _by_sentence(places, behind)
        for clause in _clauses(group, lexicon)
    )


def _places(reading: Reading) -> tuple[list[_Place], tuple[Token, ...]]:
    """Find each word in its text; return the marks behind the last one, too."""
    found = reading.tokens
    places: list[_Place] = []
    marks: list[Token] = []
    words = iter(reading.words)
    at, read_to = 0, 0
    while at < len(found):
        token = found[at]
        if "_" in reading.text[read_to : token.start]:  # what no token holds
            marks.append(Token(Form.MARK, "_", "_", read_to))
        read_to = token.start + len(token.text)
        if token.form is Form.MARK:
            marks.append(token)
            at += 1
            continue
        value = quantity_at(found, at)
        last = found[value.stop - 1] if value else token
        between = reading.text[places[-1].stop : token.start] if places else "\n"
        initial = "\n" in between or _ends_sentence(places[-1], marks)
        places.append(
            _Place(next(words), token.start, _stop(reading.text, last), tuple(marks), initial)
        )
        marks.clear()
        read_to = places[-1].stop
        at = value.stop if value else at + 1
    return places, tuple(marks)


def _stop(text: str, token: Token) -> int:
    """Return where a token ends; one of a contraction ends with the whole."""
    stop = token.start + len(token.text)
    if text[token.start : stop] == token.text:
        return stop
    stop = token.start
    while stop < len(text) and (text[stop].isalnum() or text[stop] in "'\u2019"):
        stop += 1
    return stop


def _ends_sentence(before: _Place, marks: Sequence[Token]) -> bool:
    ends = [mark.text for mark in marks if mark.text in _SENTENCE_ENDS]
    if ends == ["."] and marks[0].text == ".":
        spelling = before.word.spelling
        return len(spelling) >= _NO_ABBREVIATION_MIN or not spelling[:1].isupper()
    return bool(ends)


def _by_sentence(
    places: Sequence[_Place], behind: tuple[Token, ...]
) -> Iterator[tuple[Sequence[_Place], tuple[Token, ...]]]:
    """Yield each sentence's words with the marks behind its last one."""
    starts = [at for at, place in enumerate(places) if place.initial]
    for start, stop in zip(starts, [*starts[1:], len(places)], strict=True):
        yield places[start:stop], places[stop].marks if stop < len(places) else behind


def _clauses(places: Sequence[_Place], lexicon: Lexicon) -> Iterator[Sequence[_Place]]:
    """Split a sentence where a clause with a subject of its own begins, and nothing spans both."""
    spanning = not _FRAMES.isdisjoint(place.word.lower for place in places)
    start = 0
    for at in range(1, len(places)):
        marks = {mark.text for mark in places[at].marks}
        joined = places[at].word.lower in COORDINATORS and "," in marks
        if not spanning and (";" in marks or joined) and _has_subject(places[at:], lexicon):
            yield places[start:at]
            start = at
    yield places[start:]


def _has_subject(places: Sequence[_Place], lexicon: Lexicon) -> bool:
    """Tell whether words begin with somebody or something of which a verb says something."""
    named = False
    for place in places[:_SUBJECT_MAX]:
        word = place.word
        verb = word.lower in AUXILIARIES or lexicon.is_mostly(word.lower, "v")
        if verb or (named and place.marks):
            return verb and named
        named = named or word.content or word.name
    return False


def _sentence(
    reading: Reading, places: Sequence[_Place], behind: tuple[Token, ...], lexicon: Lexicon
) -> Sentence:
    lowers = {place.word.lower for place in places}
    asked = {"?"} if any(mark.text == "?" for mark in behind) else set[str]()
    said = {
        place.word.lemma
        for place in places
        if place.word.content and "saying" in lexicon.categories(place.word.lower)
    }
    text = reading.text[places[0].start : places[-1].stop]
    return Sentence(
        text=text,
        phrases=tuple(_phrases(reading, places, behind, lexicon)) or (_wholly(text),),
        frame=frozenset((lowers & _FRAMES) | said | asked),
        leans=not _LEANING.isdisjoint(lowers),
    )


def _phrases(
    reading: Reading, places: Sequence[_Place], behind: tuple[Token, ...], lexicon: Lexicon
) -> Iterator[Phrase]:
    items_of = _Items(reading, places, lexicon)
    opener: list[_Place] = []
    items: list[Item] = []
    for at, place in enumerate(places):
        opens = place.word.lower in _OPENERS and not place.word.quantity
        breaks = any(mark.text in _PHRASE_ENDS for mark in place.marks) and at > 0
        if breaks or (items and opens):
            yield from _phrase(reading.text, opener, items)
            opener, items = [], []
        behind_another = place.initial and place.word.position > 0
        items += [] if behind_another else _symbols(place.marks)
        if opens:
            opener.append(place)
        else:
            items += items_of.at(at)
    yield from _phrase(reading.text, opener, [*items, *_symbols(behind)])


def _phrase(text: str, opener: Sequence[_Place], items: Sequence[Item]) -> Iterator[Phrase]:
    """Yield a phrase, if it says anything; a particle with nothing behind it does: "gave up"."""
    words = [place.word.lower for place in opener if place.word.lower not in _CONTRAST]
    said = " ".join(words)
    if items and said:
        yield Phrase(said, tuple(replace(item, opener=said) for item in items))
    elif items:
        yield Phrase("", tuple(items))
    elif said:
        quote = text[opener[0].start : opener[-1].stop]
        yield Phrase("", (Item(kind="word", key=said, lower=said, quote=quote),))


def _wholly(text: str) -> Phrase:
    """Take a text of marks and empty words alone as it stands."""
    return Phrase("", (_symbol(text),))


def _symbols(marks: Iterable[Token]) -> Iterator[Item]:
    return (_symbol(mark.text) for mark in marks if mark.text not in _ORDINARY_MARKS)


def _symbol(text: str) -> Item:
    return Item(kind="word", key=text, lower=text, quote=text)


class _Items:
    """The items of one sentence."""

    def __init__(self, reading: Reading, places: Sequence[_Place], lexicon: Lexicon) -> None:
        self._reading = reading
        self._places = places
        self._lexicon = lexicon
        self._asserted = reading.question is None and not (
            reading.negations or reading.quantifiers or reading.modals
        )
        first = places[0].word.position
        self._spans = {place.word.position: place for place in places}
        self._negations = {
            negation.position: negation
            for negation in reading.negations
            if first <= negation.position < first + len(places)
        }
        self._quantifiers = {mark.position for mark in reading.quantifiers}

    def at(self, at: int) -> Iterator[Item]:
        """Yield the item that a word is, if it says something."""
        word = self._places[at].word
        if word.position in self._negations:
            yield self._item(at, "negation", word.lemma)
        elif word.quantity:
            kind: ItemKind = "name" if word.quantity.kind in _NAMES_NO_VALUE else "number"
            yield self._item(at, kind, word.quantity.key)
        elif not self._silent(at):
            yield self._item(at, "name" if word.name else "word", self._key(word))

    def _item(self, at: int, kind: ItemKind, key: str) -> Item:
        place = self._places[at]
        word = place.word
        matter = kind in {"word", "negation"} and (word.content or word.lower == "like")
        return Item(
            kind=kind,
            key=key,
            lower=word.lower,
            quote=self._quote(place),
            form=self._form(word),
            written=_written(word.spelling, initial=place.initial),
            negated=word.negated,
            owner=self._lower(at + 1) == "'s",
            role=_role(word.lower, self._lexicon) if matter else "",
            plain=matter and kind == "word" and word.known and not self._maybe_name(place),
            asserted=self._asserted,
            quantity=word.quantity,
        )

    def _maybe_name(self, place: _Place) -> bool:
        """Tell whether a sentence's first word may be a name: Rose, John."""
        initial = place.initial and place.word.spelling[:1].isupper()
        return initial and _role(place.word.lower, self._lexicon) == "n"

    def _key(self, word: Word) -> str:
        if word.lower == "few" and word.position not in self._quantifiers:
            return "a few"
        return _PERSONS.get(word.lower) or _ALIKE.get(word.lower, word.lemma)

    def _quote(self, place: _Place) -> str:
        """Return the words as they stand; a negator's with the first word that it reaches."""
        start, stop = place.start, place.stop
        negation = self._negations.get(place.word.position)
        if negation:
            reached = (self._spans.get(at) for at in range(negation.start, negation.stop))
            denied = next((other for other in reached if other and other.word.content), place)
            start, stop = min(start, denied.start), max(stop, denied.stop)
        return self._reading.text[start:stop]

    def _lower(self, at: int) -> str:
        return self._places[at].word.lower if at < len(self._places) else ""

    def _silent(self, at: int) -> bool:
        """Tell whether a word only serves another: an article, an auxiliary before its verb."""
        lower = self._lower(at)
        following = self._lower(at + 2 if self._lower(at + 1) == "not" else at + 1)
        if lower in _PRESENT_BE:
            return following.endswith("ing")
        if lower in _HAVE:
            return following == "been" or self._is_past(following)
        if lower in {"do", "does"}:
            return self._lower(at + 1) == "not" or following in _PRONOUNS
        return lower in _SILENT

    def _form(self, word: Word) -> str:
        lower = word.lower
        if lower in _PAST:
            return "past"
        if lower in FUNCTION_WORDS or word.quantity or word.name:
            return ""
        if lower.endswith(("er", "est")) and self._lexicon.lemma(lower, "a") != lower:
            return lower[-2:]
        if self._is_past(lower):
            return "past"
        plural = self._lexicon.lemma(lower, "n") != lower and _is_noun(lower, self._lexicon)
        return "plural" if plural else ""

    def _is_past(self, lower: str) -> bool:
        if lower in AUXILIARIES or lower.endswith(("s", "ing")):
            return lower in _PAST
        return "v" in self._lexicon.parts_of_speech(lower) and (
            self._lexicon.lemma(lower, "v") != lower
        )


def _written(spelling: str, *, initial: bool) -> str:
    if len(spelling) > 1 and spelling.isupper():
        return "capitals"
    if initial:
        return ""
    return "capital" if spelling[:1].isupper() else "small"


def _role(lower: str, lexicon: Lexicon) -> str:
    """Return what a word is most often: n, v, a or r; "" where the dictionary has it not.

    "Lives" and "studies" are taken for verbs, though the nouns are as common: memories say what
    somebody does.
    """
    counts = _counts(lower, lexicon)
    if lower.endswith("s") and 2 * counts.get("v", -1) >= counts.get("n", 0):
        return "v"
    return max("nvar", key=lambda pos: counts.get(pos, -1)) if counts else ""


def _is_noun(lower: str, lexicon: Lexicon) -> bool:
    counts = _counts(lower, lexicon)
    return "n" in counts and counts["n"] >= _NOUN_CLEARLY * counts.get("v", 0)


def _counts(lower: str, lexicon: Lexicon) -> dict[str, int]:
    counts: dict[str, int] = {}
    for base in lexicon.bases(lower):
        if entry := lexicon.entry(base):
            for pos in entry.senses:
                counts[pos] = counts.get(pos, 0) + entry.counts.get(pos, 0)
    return counts
