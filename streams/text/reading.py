"""The reading of a text: its words, values, negations, modes and speakers, for comparisons.

Reading is shallow and total: it parses only what a closed class of words shows, and every text can
be read. What is uncertain is left out, so a reading may miss facts but states few wrong ones.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from typing import TypeAlias

from streams.text.function_words import (
    ARTICLES,
    AUXILIARIES,
    BE,
    COORDINATORS,
    FIRST_PERSON,
    FUNCTION_WORDS,
    MODAL_WITH_TO,
    MODALS,
    NEGATIVE_ADJECTIVES,
    NEGATIVE_VERBS,
    NEGATORS,
    NO_NEGATION_BEHIND,
    PARTICLES,
    POSSESSIVES,
    PREPOSITIONS,
    PRONOUNS,
    QUANTIFIERS,
    QUESTION_WORDS,
    SECOND_PERSON,
    SUBORDINATORS,
    THIRD_PERSON,
)
from streams.text.lexicon import Lexicon
from streams.text.parts import Comparative, Negation, Piece, Possession, Qualifier, Word
from streams.text.quantities import bound_before, bound_behind, quantity_at
from streams.text.quantity import Kind, Quantity
from streams.text.tokens import Form, Token, tokens
from streams.text.units import PERIODS

_ENDS = frozenset(".!?…")
_BREAKS = _ENDS | frozenset(',;:()[]\u2014\u2013"\u201c\u201d')
_SUBJECTS = PRONOUNS - POSSESSIVES.keys()
_SHOUTED = 0.75
"""Above this share of capitalised words (a heading, a title), capitals do not mark names."""
_SHOUTED_WORDS_MIN = 3
_TELLING = 4
"""The letters from which on a word of the dictionary shows that a text is in English."""
_READINGS = 4_096
"""The cache size for readings: several batches with all their neighbours, a few KiB each."""

ForeignLanguage: TypeAlias = Callable[[str], str | None]
"""Returns the code of a text's language if that is surely not English; None if it is or may be."""


@dataclass(frozen=True)
class AnalysedText:
    """What one text says, as far as its form shows; each part is computed on first use.

    The same text and lexicon give the same reading.

    Most texts are only read to be ruled out at a glance, for which `keywords` is enough.
    """

    text: str
    lexicon: Lexicon = field(repr=False, compare=False)
    tell: ForeignLanguage | None = field(default=None, repr=False, compare=False)

    @cached_property
    def foreign(self) -> str | None:
        """The code of the text's language if that is surely not English; None without `tell`.

        The dictionary speaks first: statistics know too little of short notes ("Luna dislikes tuna"
        is Estonian to them), and take longer.
        """
        if self.tell is None or _is_in_english_words(self._pieces, self.lexicon):
            return None
        return self.tell(self.text)

    @cached_property
    def keywords(self) -> frozenset[str]:
        """The lemmas of content words, without names and values."""
        shouted = _is_shouted(self._pieces)
        return frozenset(
            piece.lemma
            for piece in self._pieces
            if piece.quantity is None
            and _is_content(piece)
            and not _is_name(piece, self.lexicon, shouted=shouted)
        )

    @cached_property
    def values(self) -> frozenset[str]:
        """The values, each in one spelling."""
        return frozenset(piece.lemma for piece in self._pieces if piece.quantity is not None)

    @cached_property
    def words(self) -> tuple[Word, ...]:
        return _words(self._pieces, self.negations, self.lexicon)

    @cached_property
    def negations(self) -> tuple[Negation, ...]:
        return tuple(_negations(self._pieces, self.lexicon))

    @cached_property
    def quantifiers(self) -> tuple[Qualifier, ...]:
        return tuple(_quantifiers(self._pieces, self.lexicon))

    @cached_property
    def modals(self) -> tuple[Qualifier, ...]:
        return tuple(_modals(self._pieces))

    @cached_property
    def comparisons(self) -> tuple[Comparative, ...]:
        return tuple(_comparisons(self._pieces, self.lexicon))

    @cached_property
    def possessions(self) -> tuple[Possession, ...]:
        return tuple(_possessions(self.words))

    @cached_property
    def speakers(self) -> tuple[str, ...]:
        return tuple(_speakers(self.words, self.lexicon))

    @cached_property
    def tenses(self) -> frozenset[str]:
        """Of "past", "present", "future" and "former" ("used to")."""
        found = (_tense(self._pieces, at, self.lexicon) for at in range(len(self._pieces)))
        return frozenset(found) - {""}

    @cached_property
    def question(self) -> str | None:
        """The question word, like "how many"; "" for a question without one; None if not asked."""
        return _question(self.tokens, self._pieces)

    @cached_property
    def sentences(self) -> int:
        return _sentences(self.tokens)

    @cached_property
    def content(self) -> tuple[Word, ...]:
        return tuple([word for word in self.words if word.content])

    @cached_property
    def quantities(self) -> tuple[Quantity, ...]:
        return tuple([word.quantity for word in self.words if word.quantity])

    @cached_property
    def names(self) -> tuple[Word, ...]:
        return tuple([word for word in self.words if word.name])

    @cached_property
    def lemmas(self) -> tuple[str, ...]:
        return tuple([word.lemma for word in self.words])

    @cached_property
    def lowers(self) -> frozenset[str]:
        return frozenset([word.lower for word in self.words])

    @cached_property
    def persons(self) -> frozenset[int]:
        """The grammatical persons of the pronouns: 1, 2, 3."""
        groups = (FIRST_PERSON, SECOND_PERSON, THIRD_PERSON)
        return frozenset(number for number, group in enumerate(groups, 1) if group & self.lowers)

    def before(self, position: int, reach: int) -> tuple[Word, ...]:
        """Return up to so many words before a position."""
        return self.words[max(0, position - reach) : position]

    def behind(self, position: int, reach: int | None = None) -> tuple[Word, ...]:
        """Return up to so many words after a position, or all of them."""
        return self.words[position + 1 : None if reach is None else position + 1 + reach]

    @cached_property
    def tokens(self) -> Sequence[Token]:
        return tokens(self.text)

    @cached_property
    def _pieces(self) -> "tuple[Piece, ...]":
        return tuple(_pieces(self.tokens, self.text, self.lexicon))


class TextAnalyzer:
    """A cache of readings: it keeps those of the newest texts."""

    def __init__(self, lexicon: Lexicon, tell: ForeignLanguage | None = None) -> None:
        self.lexicon = lexicon
        reading = partial(AnalysedText, lexicon=lexicon, tell=tell)
        self.of: Callable[[str], AnalysedText] = lru_cache(_READINGS)(reading)
        """Return the reading of a text."""


def _pieces(found: Sequence[Token], text: str, lexicon: Lexicon) -> Iterator[Piece]:
    at, clause, initial = 0, 0, True
    while at < len(found):
        token = found[at]
        value = quantity_at(found, at)
        if value:
            quantity = _in_place(value.quantity, found, at, value.stop, lexicon)
            yield Piece(token, quantity.key, quantity.key, clause, initial, quantity)
            at, initial = value.stop, False
            continue
        if token.form is Form.MARK:
            clause += token.text in _BREAKS
            initial = initial or token.text in _ENDS or token.text in {'"', "\u201c", ":"}
        else:
            clause += token.lower in SUBORDINATORS or _opens_clause(found, at)
            lemma, hyphenated = _lemma(token.lower, lexicon), _is_hyphenated(token, text)
            yield Piece(token, token.lower, lemma, clause, initial, None, hyphenated)
            initial = False
        at += 1


def _is_hyphenated(token: Token, text: str) -> bool:
    end = token.start + len(token.text)
    return text[end : end + 1] == "-" or text[max(0, token.start - 1) : token.start] == "-"


def _opens_clause(found: Sequence[Token], at: int) -> bool:
    """Return whether a coordinator joins clauses: a pronoun, the next subject, follows it."""
    return (
        found[at].lower in COORDINATORS and at + 1 < len(found) and found[at + 1].lower in PRONOUNS
    )


def _lemma(lower: str, lexicon: Lexicon) -> str:
    if lower in FUNCTION_WORDS:
        return AUXILIARIES.get(lower, lower)
    return lexicon.lemma(lower)


def _in_place(
    quantity: Quantity, found: Sequence[Token], start: int, stop: int, lexicon: Lexicon
) -> Quantity:
    """Add a value's context: its bound, and what it counts or labels."""
    bound = bound_before(found, start) or bound_behind(found, stop)
    of = _counted(found, start, stop, lexicon)
    return Quantity(quantity.kind, quantity.parts, quantity.spelling, quantity.unit, bound, of)


def _counted(found: Sequence[Token], start: int, stop: int, lexicon: Lexicon) -> str:
    """Return what a value is of: the word after it, else the word before it."""
    for token in (*found[stop : stop + 1], *found[max(0, start - 1) : start]):
        deed = lexicon.is_mostly(token.lower, "v") and not lexicon.is_mostly(token.lower, "n")
        if token.form is Form.WORD and token.lower not in FUNCTION_WORDS and not deed:
            return lexicon.lemma(token.lower)
    return ""


def _words(
    pieces: Sequence[Piece], negations: Sequence[Negation], lexicon: Lexicon
) -> tuple[Word, ...]:
    denied = [0] * len(pieces)
    for negation in negations:
        for at in range(negation.start, negation.stop):
            denied[at] += 1
    shouted = _is_shouted(pieces)
    return tuple(
        Word(
            spelling=piece.quantity.spelling if piece.quantity else piece.token.text,
            lower=piece.lower,
            lemma=piece.lemma,
            position=at,
            clause=piece.clause,
            content=_is_content(piece),
            name=_is_name(piece, lexicon, shouted=shouted),
            known=not _is_content(piece) or piece.quantity is not None or piece.lower in lexicon,
            negated=denied[at] % 2 == 1,
            quantity=piece.quantity,
        )
        for at, piece in enumerate(pieces)
    )


def _is_in_english_words(pieces: Sequence[Piece], lexicon: Lexicon) -> bool:
    """Return whether the dictionary has all words in lower case, of which some are no short ones.

    Of short words only function words count: the dictionary also has "die", "mit" and "la".
    """
    written = [
        piece for piece in pieces if piece.token.form is Form.WORD and piece.quantity is None
    ]
    told = [
        piece.lower for piece in written if piece.token.text[:1].islower() and _is_content(piece)
    ]
    return bool(told) and all(len(word) >= _TELLING and word in lexicon for word in told)


def _is_content(piece: Piece) -> bool:
    return piece.quantity is not None or piece.lower not in FUNCTION_WORDS


def _is_shouted(pieces: Sequence[Piece]) -> bool:
    spelt = [piece.token.text for piece in pieces if piece.lower not in FUNCTION_WORDS]
    capitals = sum(text[:1].isupper() for text in spelt)
    return len(spelt) >= _SHOUTED_WORDS_MIN and capitals > _SHOUTED * len(spelt)


def _is_name(piece: Piece, lexicon: Lexicon, *, shouted: bool) -> bool:
    """Return whether a word is written as a name; a sentence's initial capital proves nothing."""
    if piece.quantity or piece.lower in FUNCTION_WORDS or piece.token.form is not Form.WORD:
        return False
    if lexicon.is_proper(piece.lower):
        return True
    if not piece.token.text[:1].isupper():
        return False
    if piece.initial or shouted:
        # So large a dictionary has "anna" (a coin), which does not begin sentences.
        return lexicon.frequency(piece.lower) == 0
    return True


def _negations(pieces: Sequence[Piece], lexicon: Lexicon) -> Iterator[Negation]:
    for at, piece in enumerate(pieces):
        lemma = _negator(pieces, at, lexicon)
        if not lemma:
            continue
        start, stop = at + 1, _clause_end(pieces, at)
        if piece.lower == "neither":
            stop = len(pieces)
        stop = _behind_that(pieces, start, stop)
        if _lower(pieces, at + 1) in _CIRCUMSTANCES and _lower(pieces, at - 1) in PREPOSITIONS:
            start = _clause_start(pieces, at)
        if not any(_is_deniable(reached) for reached in pieces[start:stop]):
            start, stop = _denied_behind(pieces, at)
        yield Negation(at, lemma, start, stop)


def _clause_start(pieces: Sequence[Piece], at: int) -> int:
    return bisect_left(pieces, pieces[at].clause, hi=at, key=lambda piece: piece.clause)


def _clause_end(pieces: Sequence[Piece], at: int) -> int:
    return bisect_right(pieces, pieces[at].clause, lo=at, key=lambda piece: piece.clause)


_CIRCUMSTANCES = frozenset(["circumstances", "account", "means", "case", "way", "event"])
"""Nouns that, after "under no", "by no" and the like, deny the whole clause."""


def _is_deniable(piece: Piece) -> bool:
    """Return whether a word can be denied: a content word, or a place as in "is not on"."""
    return piece.lower not in FUNCTION_WORDS or piece.lower in _PLACING


_PLACING = (PARTICLES | PREPOSITIONS) - {"to"}


def _behind_that(pieces: Sequence[Piece], start: int, stop: int) -> int:
    """Extend a negation over its complement: "it is not true that", "there is nobody who"."""
    frame = {piece.lower for piece in pieces[start:stop]}
    said_of = _lower(pieces, stop) == "that" and bool(frame) and frame <= _TRUTH
    exists = _lower(pieces, stop) in {"who", "that", "which"} and "there" in {
        piece.lower for piece in pieces[max(0, start - 4) : start]
    }
    if not said_of and not exists:
        return stop
    return _clause_end(pieces, stop)


_TRUTH = frozenset(["true", "right", "correct", "the", "case"])
"""Words between "not" and "that" in phrases that deny a whole sentence."""


def _denied_behind(pieces: Sequence[Piece], at: int) -> tuple[int, int]:
    """Return the scope of a negator at a clause's end: "smoking is forbidden", "it fails"."""
    if pieces[at].lower in NEGATIVE_ADJECTIVES:
        return _clause_start(pieces, at), at
    return max(_clause_start(pieces, at), at - 1), at


def _negator(pieces: Sequence[Piece], at: int, lexicon: Lexicon) -> str:
    """Return the lemma of a word that negates here; "" if it does not."""
    piece = pieces[at]
    lower, following = piece.lower, _lower(pieces, at + 1)
    if lower in NEGATORS and piece.hyphenated and following != "one":
        return ""  # a "do-not-call list", a "no-frills airline"
    if lower == "yet" and following == "to":
        return lower
    if _excepts(pieces, at) or (lower == "no" and _is_numbered(pieces, at)):
        return ""
    if lower == "rather" and following == "than" and _prefers(pieces, at):
        return ""
    if lower in NEGATORS:
        idiom = following in NO_NEGATION_BEHIND or (
            lower == "no" and following in {"more", "less", "fewer", "later"}
        )
        alternative = lower == "not" and _lower(pieces, at - 1) in {"or", "if", "whether"}
        return "" if idiom or alternative else lower
    if (lower, following) in {("instead", "of"), ("rather", "than"), ("other", "than")}:
        return lower
    if lower in NEGATIVE_ADJECTIVES:
        return lower
    if lower in FUNCTION_WORDS or piece.quantity:
        return ""
    lemma = lexicon.lemma(lower, "v")
    if lemma == "give" and following == "up" and _lower(pieces, at + 2).endswith("ing"):
        return "stop"
    return lemma if lemma in NEGATIVE_VERBS and _governs(pieces, at, lemma) else ""


def _excepts(pieces: Sequence[Piece], at: int) -> bool:
    """Return whether a negator means "only": "nobody but Ana", "no one except Ana"."""
    if pieces[at].lower not in NEGATORS:
        return False
    behind = at + 2 if (pieces[at].lower, _lower(pieces, at + 1)) == ("no", "one") else at + 1
    return _lower(pieces, behind) in {"but", "except", "besides"}


def _is_numbered(pieces: Sequence[Piece], at: int) -> bool:
    """Return whether "no." is short for "number"."""
    following = pieces[at + 1 : at + 2]
    return any(piece.quantity and piece.clause != pieces[at].clause for piece in following)


def _prefers(pieces: Sequence[Piece], at: int) -> bool:
    """Return whether "rather than" belongs to "prefer": both name a preference."""
    return any(
        piece.lemma == "prefer" for piece in pieces[:at] if piece.clause == pieces[at].clause
    )


def _governs(pieces: Sequence[Piece], at: int, lemma: str) -> bool:
    """Return whether a word denies what follows: "fails to start", "stopped smoking"."""
    before, following = _lower(pieces, at - 1), _lower(pieces, at + 1)
    if before in ARTICLES or before in POSSESSIVES:
        return False
    if following == "to" or following.endswith("ing"):
        return following != "to" or lemma not in {"stop", "quit"}
    if lemma == "fail":
        return following in {"", "if", "when", "because", "on", "with", "again"}
    return lemma in {"avoid", "lack"} and following != ""


def _lower(pieces: Sequence[Piece], at: int) -> str:
    return pieces[at].lower if 0 <= at < len(pieces) else ""


def _quantifiers(pieces: Sequence[Piece], lexicon: Lexicon) -> Iterator[Qualifier]:
    for at, piece in enumerate(pieces):
        kind = QUANTIFIERS.get(piece.lower)
        if _excepts(pieces, at) or (piece.lower == "alone" and _is_set_apart(pieces, at, lexicon)):
            kind = "only"
        before, following = _lower(pieces, at - 1), _lower(pieces, at + 1)
        degree = kind == "most" and lexicon.parts_of_speech(following) & {"a", "r"}
        idiom = degree or (piece.lower, following) == ("each", "other") or before in {"a", "at"}
        idiom = idiom or (kind == "all" and _is_period(pieces, at + 1))
        if kind and not idiom:
            yield Qualifier(at, kind)


def _is_set_apart(pieces: Sequence[Piece], at: int, lexicon: Lexicon) -> bool:
    """Return whether "alone" means "only": it does after a noun, but not after a verb."""
    before = pieces[at - 1 : at] if at else ()
    return any(
        piece.lower not in FUNCTION_WORDS and not lexicon.is_mostly(piece.lower, "v")
        for piece in before
    ) and at + 1 < len(pieces)


def _is_period(pieces: Sequence[Piece], at: int) -> bool:
    """Return whether a time follows: "every Sunday" states a frequency, not a quantity."""
    if at >= len(pieces):
        return False
    quantity = pieces[at].quantity
    timed = quantity is not None and quantity.kind in {Kind.DATE, Kind.DURATION, Kind.ORDINAL}
    return timed or pieces[at].lemma in PERIODS


def _modals(pieces: Sequence[Piece]) -> Iterator[Qualifier]:
    for at, piece in enumerate(pieces):
        following = _lower(pieces, at + 1)
        kind = MODAL_WITH_TO.get(piece.lower) if following == "to" else None
        kind = kind or MODALS.get(piece.lower)
        if piece.lower in {"need", "needs"} and following not in {"to", "not"}:
            kind = None  # "the need for" and "needs glasses" oblige no one
        if piece.lower == "used" and _lower(pieces, at - 1) in BE:
            kind = None  # "was used to"
        polite = kind == "conditional" and following in {"like", "love", "prefer"}
        if polite and following != "prefer":
            kind, polite = "wish", False
        if kind and not polite and _lower(pieces, at - 1) not in ARTICLES:
            yield Qualifier(at, kind)


def _comparisons(pieces: Sequence[Piece], lexicon: Lexicon) -> Iterator[Comparative]:
    for at, piece in enumerate(pieces):
        if piece.lower in {"more", "less", "fewer"} and at + 1 < len(pieces):
            direction = "more" if piece.lower == "more" else "less"
            yield Comparative(at, direction, pieces[at + 1].lemma)
        elif piece.lower.endswith("er") and _lower(pieces, at + 1) == "than":
            yield Comparative(at, "more", lexicon.lemma(piece.lower, "a"))


def _possessions(words: Sequence[Word]) -> Iterator[Possession]:
    for at, word in enumerate(words):
        owner = POSSESSIVES.get(word.lower)
        if word.lower == "'s" and at > 0 and words[at - 1].content and not words[at - 1].quantity:
            owner = words[at - 1].lower
        owned = next((after.lemma for after in words[at + 1 :] if after.content), "")
        if owner and owned:
            yield Possession(owner, owned)


def _speakers(words: Sequence[Word], lexicon: Lexicon) -> Iterator[str]:
    """Yield the speakers or thinkers that the text names: "Anna said", "according to Ben"."""
    for at, word in enumerate(words[1:], 1):
        before = words[at - 1]
        if before.lower == "according" and word.lower == "to" and at + 1 < len(words):
            yield _person(next((after for after in words[at + 1 :] if after.content), word))
        elif (before.name or before.lower in _SUBJECTS or before.lower == "user") and (
            "saying" in lexicon.categories(word.lower) and word.lower not in FUNCTION_WORDS
        ):
            yield _person(before)


def _person(word: Word) -> str:
    return "user" if word.lower in FIRST_PERSON else word.lower


def _tense(pieces: Sequence[Piece], at: int, lexicon: Lexicon) -> str:
    """Return the tense that a verb form shows; participles after an auxiliary show none."""
    lower, following = pieces[at].lower, _lower(pieces, at + 1)
    if lower in {"was", "were", "did", "had"}:
        return "past"
    if lower in {"am", "is", "are", "does", "has"}:
        return "present"
    if lower == "will" or (lower in {"going", "gonna"} and following == "to"):
        return "future"
    if lower in {"formerly", "previously"} or (
        lower == "used" and following == "to" and _lower(pieces, at - 1) not in BE
    ):
        return "former"
    if lower in FUNCTION_WORDS or pieces[at].quantity or _is_participle(pieces, at):
        return ""
    if lower == lexicon.lemma(lower, "v") or lower.endswith(("s", "ing")):
        return ""
    return "past" if "v" in lexicon.parts_of_speech(lower) else ""


def _is_participle(pieces: Sequence[Piece], at: int) -> bool:
    near = (_lower(pieces, at - 1), _lower(pieces, at - 2))
    return any(word in AUXILIARIES or word in BE for word in near) or near[0] in ARTICLES


def _question(found: Sequence[Token], pieces: Sequence[Piece]) -> str | None:
    """Return the question word; a text is a question if it ends with a question mark."""
    if not pieces or not any(token.text == "?" for token in found[-3:]):
        return None
    for at, piece in enumerate(pieces):
        if piece.lower in QUESTION_WORDS:
            following = _lower(pieces, at + 1)
            measured = piece.lower == "how" and following in _MEASURED
            return f"how {following}" if measured else piece.lower
    return ""


_MEASURED = frozenset(["many", "much", "long", "often", "old", "far"])


def _sentences(found: Sequence[Token]) -> int:
    """Count the sentences: runs of words up to a full stop or similar mark."""
    count, open_sentence = 0, False
    for token in found:
        if token.form is Form.MARK and token.text in _ENDS:
            count += open_sentence
            open_sentence = False
        elif token.form is not Form.MARK:
            open_sentence = True
    return count + open_sentence
