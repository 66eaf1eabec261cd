"""Whether a text says all that others say, and nothing else.

What is compared are items (see `phrases`). In `alone`, an item is said elsewhere where an equal or
entailing one stands in the other text, as often denied, counted of the same thing. In `check` the
items must also keep their company: each sentence of a source is found in one sentence of the
result, phrase by phrase in its order, with nothing between that could change who does what. This
refuses many good paraphrases; what is refused is kept.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from schemas.decisions import SAID_MAX, Carried
from streams.core.language.lexicon import Lexicon, Relation
from streams.core.language.quantities import Kind, Quantity
from streams.core.language.reading import Reading
from streams.core.phrases import ALL_KINDS, Item, ItemKind, Phrase, Sentence, sentences_of

_COMMON_SENSES = 3
"""Two words are synonyms here where they share a meaning that is common for both."""
_RELATED_MAX = 256
"""The effort grows with the square of a text's items. In longer texts words are not looked up but
must be repeated, and only sentences that share half their items are compared."""

_PRIVATIVE = frozenset(
    [
        "former",
        "past",
        "previous",
        "ex",
        "future",
        "would-be",
        "aspiring",
        "potential",
        "possible",
        "fake",
        "false",
        "mock",
        "alleged",
        "imaginary",
        "artificial",
        "retired",
        "late",
    ]
)
"""Modifiers that take back what they modify: a former doctor is no doctor."""
_OPPOSED = {
    "before": {"after"},
    "from": {"to", "into"},
    "into": {"from", "out"},
    "above": {"below", "under"},
    "over": {"under", "below"},
    "up": {"down"},
    "in": {"out"},
    "inside": {"outside"},
    "on": {"off"},
    "for": {"against"},
    "since": {"until", "till"},
    "with": {"without"},
}
"""Openers that turn what they open into the opposite; read in both directions."""
_NEGATING = ("un", "in", "im", "ir", "dis", "non")
_NOT_WITHOUT_NEGATION = frozenset([Relation.ANTONYM, Relation.OPPOSITE])
_COUNTS = frozenset([Kind.NUMBER, Kind.ORDINAL, Kind.SHARE])
_DATE_PARTS = frozenset(["year", "month", "day", "weekday", "hour", "minute", "second"])
"""Parts that only make a date or time more exact."""

_KEPT = 512
"""Texts that stay taken apart: more than are compared with each other at a time."""
_ONE = "text"
_Match: TypeAlias = tuple[Item, Item]


@dataclass(frozen=True)
class Lossless:
    """What became of the sources: what is missing, by origin; what nobody said; what says what.

    `carried` has an entry for each item of each sentence that was found.
    """

    missing: Mapping[str, tuple[str, ...]]
    invented: tuple[str, ...]
    carried: tuple[Carried, ...]


def alone(
    text: Reading,
    other: Reading,
    lexicon: Lexicon,
    kinds: frozenset[ItemKind] = ALL_KINDS,
) -> tuple[str, ...]:
    """Return what of these kinds a text says and the other does not, in the text's order."""
    return _alone(_taken_apart(text, lexicon), _taken_apart(other, lexicon), kinds)


def apart(
    text: Reading,
    other: Reading,
    lexicon: Lexicon,
    kinds: frozenset[ItemKind] = ALL_KINDS,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what each of two texts says alone: the same as asking twice, in half the time."""
    here, there = _taken_apart(text, lexicon), _taken_apart(other, lexicon)
    return _alone(here, there, kinds), _alone(there, here, kinds)


def lost(text: Reading, other: Reading, lexicon: Lexicon) -> tuple[str, ...]:
    """Return what of a text another does not say, in the company that it keeps there.

    That both have the same words is too little where no judge has confirmed that they say the
    same: "Ana owes Ben".
    """
    if words := alone(text, other, lexicon):
        return words  # told at a glance; to compare the company takes ten times as long
    return check([(_ONE, text)], other, lexicon).missing.get(_ONE, ())


def check(sources: Sequence[tuple[str, Reading]], result: Reading, lexicon: Lexicon) -> Lossless:
    """Compare (origin, text) pairs with a text that shall stand for them all."""
    whole = _taken_apart(result, lexicon)
    texts = [(origin, _taken_apart(reading, lexicon)) for origin, reading in sources]
    missing: dict[str, tuple[str, ...]] = {}
    carried: list[Carried] = []
    for origin, text in texts:
        lost, matches = _compare(text, whole)
        carried += [_claim(origin, item, by) for item, by in matches]
        if lost:
            missing[origin] = tuple(dict.fromkeys([*missing.get(origin, ()), *lost]))
    return Lossless(
        missing=missing,
        invented=_invented(whole, [text for _, text in texts]),
        carried=tuple(dict.fromkeys(carried)),
    )


class _Text:
    """A text taken apart, and how its items can be said by others."""

    def __init__(self, reading: Reading, lexicon: Lexicon) -> None:
        self.lexicon = lexicon
        self.asks = reading.question is not None
        self.sentences = sentences_of(reading, lexicon)
        self.items = tuple(item for sentence in self.sentences for item in sentence.items)
        self.keys = frozenset(item.key for item in self.items)
        self._by_key: dict[str, list[Item]] = {}
        self._sentences_by_key: dict[str, list[int]] = {}
        for at, sentence in enumerate(self.sentences):
            for item in sentence.items:
                self._by_key.setdefault(item.key, []).append(item)
            for key in {item.key for item in sentence.items}:
                self._sentences_by_key.setdefault(key, []).append(at)

    def says(self, item: Item, source: "_Text") -> bool:
        """Tell whether an item of another text is said here, wherever."""
        if any(_same(item, own, self.lexicon) for own in self._by_key.get(item.key, ())):
            return True
        related = item.plain or item.quantity is not None
        return related and any(source.carries(item, own) for own in self._few())

    def carries(self, item: Item, other: Item) -> bool:
        """Tell whether an item of another text says an item of this one."""
        if _same(item, other, self.lexicon):
            return True
        # A word that stands here by itself does not stand for a second one as well.
        return other.key not in self.keys and _entails(other, item, self.lexicon)

    def gives(self, item: Item) -> bool:
        """Tell whether a text that is made of this one may say an item."""
        return any(self.leads_to(own, item) for own in self._by_key.get(item.key, ())) or any(
            self.leads_to(own, item) for own in self._few()
        )

    def leads_to(self, own: Item, item: Item) -> bool:
        """Tell whether an item of this text says an item of another one."""
        return _same(item, own, self.lexicon) or _entails(own, item, self.lexicon)

    def near(self, items: Sequence[Item]) -> Sequence[int]:
        """Return the places of the sentences that may say some items, the likeliest first."""
        if len(self.items) <= _RELATED_MAX:
            return range(len(self.sentences))
        keys = {item.key for item in items}
        shared = Counter(at for key in keys for at in self._sentences_by_key.get(key, ()))
        ranked = sorted(shared.items(), key=lambda entry: (-entry[1], entry[0]))
        return [at for at, count in ranked if 2 * count >= len(keys)]

    def _few(self) -> Sequence[Item]:
        return self.items if len(self.items) <= _RELATED_MAX else ()


@lru_cache(_KEPT)
def _taken_apart(text: Reading, lexicon: Lexicon) -> _Text:
    """Take a text apart once: it is compared with several others, one after the other."""
    return _Text(text, lexicon)


# Items.


def _same(item: Item, other: Item, lexicon: Lexicon) -> bool:
    if not _meant_alike(item, other):
        return False
    if item.quantity or other.quantity:
        return _same_value(item.quantity, other.quantity, lexicon)
    return item.key == other.key


def _meant_alike(item: Item, other: Item) -> bool:
    return (
        item.negated == other.negated
        and item.owner == other.owner
        and item.form == other.form
        and not _opposed(item.opener, other.opener)
        and _written_alike(item, other)
    )


def _opposed(opener: str, other: str) -> bool:
    if not opener or not other or opener == other:
        return False
    here, there = opener.split(), other.split()
    return any(
        not _OPPOSED.get(word, set[str]()).isdisjoint(against)
        for words, against in ((here, there), (there, here))
        for word in words
    )


def _written_alike(item: Item, other: Item) -> bool:
    """Tell US from us, and Apple from apple; a sentence's first capital tells nothing."""
    if item.quantity or other.quantity or item.written == other.written:
        return True
    return "capitals" not in {item.written, other.written} and "" in {item.written, other.written}


def _same_value(here: Quantity | None, there: Quantity | None, lexicon: Lexicon) -> bool:
    if here is None or there is None or here.kind is not there.kind or here.bound != there.bound:
        return False
    if (here.unit == "night") != (there.unit == "night"):
        return False  # as long as a day, and its opposite
    if here.kind in _COUNTS and not _same_counted(here.of, there.of, lexicon):
        return False
    return here.parts == there.parts or (
        here.kind in {Kind.DATE, Kind.TIME} and _more_exact(dict(here.parts), dict(there.parts))
    )


def _same_counted(here: str, there: str, lexicon: Lexicon) -> bool:
    return here == there or _synonymous(here, there, lexicon)


def _more_exact(here: Mapping[str, float | str], there: Mapping[str, float | str]) -> bool:
    added = there.keys() - here.keys()
    return here.items() <= there.items() and added <= _DATE_PARTS


def _entails(there: Item, here: Item, lexicon: Lexicon) -> bool:
    """Tell whether a word says what another does, as far as a dictionary can know."""
    if not (there.plain and here.plain and _meant_alike(here, there)):
        return False
    if _synonymous(here.lower, there.lower, lexicon):
        return True
    relations = _harmless(here.lower, there.lower, lexicon)
    narrower = Relation.NARROWER in relations and Relation.BROADER not in relations
    return Relation.DERIVED in relations or (narrower and here.asserted and there.asserted)


def _synonymous(word: str, other: str, lexicon: Lexicon) -> bool:
    """Tell whether two words share a meaning that both commonly have."""
    return Relation.SYNONYM in _harmless(word, other, lexicon) and not _common(
        word, lexicon
    ).isdisjoint(_common(other, lexicon))


def _harmless(word: str, other: str, lexicon: Lexicon) -> frozenset[Relation]:
    """Return what two words are to each other; nothing where one may deny the other."""
    relations = lexicon.relations(word, other)
    denied = relations & _NOT_WITHOUT_NEGATION or _negates(word) != _negates(other)
    return frozenset() if denied else relations


def _negates(word: str) -> bool:
    return word.startswith(_NEGATING) or word.endswith("less")


def _common(word: str, lexicon: Lexicon) -> frozenset[int]:
    entries = [entry for base in lexicon.bases(word) if (entry := lexicon.entry(base))]
    return frozenset(
        sense
        for entry in entries
        for senses in entry.senses.values()
        for sense in senses[:_COMMON_SENSES]
    )


# Sentences of a source, found in the result.


def _compare(source: _Text, whole: _Text) -> tuple[list[str], list[_Match]]:
    """Return what is missing of a source, and what says the rest."""
    missing: list[str] = []
    matches: list[_Match] = []
    before: int | None = -1
    for sentence in source.sentences:
        before, found = _place(sentence, source, whole, before)
        if before is None:
            missing += _lost(sentence, source, whole)
        matches += found
    return missing, matches


def _place(
    sentence: Sentence, source: _Text, whole: _Text, before: int | None
) -> tuple[int | None, list[_Match]]:
    """Find where a sentence is said; one that leans, only beside what it leans on."""
    beside = () if before is None else (before + 1, before)
    near = () if sentence.leans else whole.near(sentence.items)
    for at in (*(at for at in beside if 0 <= at < len(whole.sentences)), *near):
        if (found := _landed(sentence, whole.sentences[at], source)) is not None:
            return at, found
    return None, []


def _landed(sentence: Sentence, there: Sentence, source: _Text) -> list[_Match] | None:
    """Find each phrase of a sentence, in order, in another sentence; None where one is not there."""
    if sentence.frame != there.frame:
        return None
    matches: list[_Match] = []
    at = 0
    for number, phrase in enumerate(sentence.phrases):
        landing = _landing(phrase, there.phrases, at, source, first=number == 0)
        if landing is None:
            return None
        at, found = landing
        matches += found
    return matches


def _landing(
    phrase: Phrase, there: Sequence[Phrase], start: int, source: _Text, *, first: bool
) -> tuple[int, list[_Match]] | None:
    """Find a phrase from a place on; return the place behind it."""
    for at in range(start, len(there)):
        if _opened_alike(phrase.opener, there[at].opener, first=first) and (
            found := _within(phrase.items, there[at].items, source)
        ):
            return at + 1, found
        if not _may_pass(there[at], phrase, first=first):
            break
    return _behind_shared_subject(phrase, there, source) if first else None


def _opened_alike(opener: str, there: str, *, first: bool) -> bool:
    return opener == there or (first and (opener, there) == ("", "as"))


def _may_pass(passed: Phrase, phrase: Phrase, *, first: bool) -> bool:
    """Tell whether a phrase may stand in between: it says nothing of who does what."""
    if first and _verb_first(passed):
        return True
    adjunct = passed.prepositional and all(item.role != "v" for item in passed.items)
    return adjunct and passed.opener != phrase.opener


def _verb_first(phrase: Phrase) -> bool:
    return not phrase.opener and phrase.items[0].role == "v" and not phrase.items[0].negated


def _behind_shared_subject(
    phrase: Phrase, there: Sequence[Phrase], source: _Text
) -> tuple[int, list[_Match]] | None:
    """Find "Ana likes tea" in "Ana lives in Paris and likes tea"."""
    if phrase.opener or there[0].opener:
        return None
    shared = _shared(phrase.items, there[0].items, source)
    for length in range(min(len(shared), len(phrase.items) - 1), 0, -1):
        if landing := _predicate(phrase.items[length:], phrase, there, source):
            at, found = landing
            return at, [*shared[:length], *found]
    return None


def _predicate(
    items: Sequence[Item], phrase: Phrase, there: Sequence[Phrase], source: _Text
) -> tuple[int, list[_Match]] | None:
    """Find what is said of a subject in a phrase that begins with a verb, with no other subject."""
    for at, passed in enumerate(there[1:], 1):
        begins = _verb_first(passed)
        if begins and (found := _within(items, passed.items, source, prefix=False)):
            return at + 1, found
        if not (begins or _may_pass(passed, phrase, first=False)):
            return None
    return None


def _shared(items: Sequence[Item], there: Sequence[Item], source: _Text) -> list[_Match]:
    """Return how the first items of two phrases agree, up to where they do not."""
    shared: list[_Match] = []
    for item, other in zip(items, there, strict=False):
        if not source.carries(item, other):
            break
        shared.append((item, other))
    return shared


def _within(
    items: Sequence[Item], there: Sequence[Item], source: _Text, *, prefix: bool = True
) -> list[_Match]:
    """Find items in their order within a phrase; only modifiers may stand in front and between."""
    matches: list[_Match] = []
    for other in there:
        if len(matches) == len(items):
            return matches if _adds_only(other) else []
        if source.carries(items[len(matches)], other):
            matches.append((items[len(matches)], other))
        elif not _modifies(other) or not (matches or prefix):
            return []
    return matches if len(matches) == len(items) else []


def _modifies(item: Item) -> bool:
    return item.plain and item.role in {"a", "r"} and item.lower not in _PRIVATIVE


def _adds_only(item: Item) -> bool:
    """Tell whether what follows a phrase leaves it as it is; "tea houses" are no tea."""
    if item.negated or item.kind == "negation":
        return False
    return item.quantity is not None or item.role == "r" or item.key in {"every", "each"}


def _lost(sentence: Sentence, source: _Text, whole: _Text) -> tuple[str, ...]:
    """Say what of a sentence is missing: its items, or the whole where each is there somewhere."""
    gone = _quotes(item for item in sentence.items if not whole.says(item, source))
    return gone or (sentence.text[:SAID_MAX],)


# What nobody said.


def _invented(whole: _Text, sources: Sequence[_Text]) -> tuple[str, ...]:
    invented: list[str] = []
    for sentence in whole.sentences:
        for phrase in sentence.phrases:
            if not any(_said_by(phrase, source) for source in sources):
                invented += _unsaid(phrase, sources)
    return tuple(dict.fromkeys(invented))


def _said_by(phrase: Phrase, source: _Text) -> bool:
    return all(source.gives(item) for item in phrase.items) and any(
        _follows(phrase, source.sentences[at], source) for at in source.near(phrase.items)
    )


def _follows(phrase: Phrase, sentence: Sentence, source: _Text) -> bool:
    """Tell whether a sentence says a phrase's items in their order, behind the word that opens it.

    They may stand apart: leaving something out invents nothing.
    """
    if phrase.opener in {"", "as"}:
        return _in_order(phrase.items, sentence.items, source)
    return any(
        _in_order(phrase.items, sentence.items_from(at), source)
        for at, part in enumerate(sentence.phrases)
        if part.opener == phrase.opener and _in_order(phrase.items[:1], part.items, source)
    )


def _in_order(items: Sequence[Item], there: Sequence[Item], source: _Text) -> bool:
    waiting = iter(there)
    return all(any(source.leads_to(other, item) for other in waiting) for item in items)


def _unsaid(phrase: Phrase, sources: Sequence[_Text]) -> tuple[str, ...]:
    gone = _quotes(
        item for item in phrase.items if not any(source.gives(item) for source in sources)
    )
    return gone or (" ".join([phrase.opener, *(item.quote for item in phrase.items)]).strip(),)


# Words for the evidence.


def _alone(here: _Text, there: _Text, kinds: frozenset[ItemKind]) -> tuple[str, ...]:
    if here.asks != there.asks:
        return _quotes(here.items)
    return _quotes(i for i in here.items if i.kind in kinds and not there.says(i, here))


def _quotes(items: Iterable[Item]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item.quote[:SAID_MAX] for item in items))


def _claim(origin: str, item: Item, by: Item) -> Carried:
    return Carried(
        origin=origin, kind=item.kind, item=item.quote[:SAID_MAX], by=by.quote[:SAID_MAX]
    )
