"""What a text is read into: words, negations, marks, comparisons, possessions."""

from typing import NamedTuple

from streams.text.quantity import Quantity
from streams.text.tokens import Token


class Word(NamedTuple):
    """A word, or a value of several words, at its position.

    `name`: written as a name. `known`: in the dictionary. `negated`: in the scope of an odd number
    of negations. `clause` increases at every mark and conjunction that ends a negation's scope.
    """

    spelling: str
    lower: str
    lemma: str
    position: int
    clause: int
    content: bool
    name: bool
    known: bool
    negated: bool
    quantity: Quantity | None = None


class Negation(NamedTuple):
    """A negating word, and its scope: the words from `start` to before `stop`."""

    position: int
    lemma: str
    start: int
    stop: int


class Qualifier(NamedTuple):
    """A word that marks how something is meant, with its kind: a quantifier, a modal."""

    position: int
    kind: str


class Comparative(NamedTuple):
    """Whether something is "more" or "less", and of what: the lemma of the compared word."""

    position: int
    direction: str
    of: str


class Possession(NamedTuple):
    """A possession: the owner, a name or "i", "you", "he" …, and the lemma of the thing owned."""

    owner: str
    owned: str


class Piece(NamedTuple):
    """A word before negations are applied."""

    token: Token
    lower: str
    lemma: str
    clause: int
    initial: bool
    quantity: Quantity | None
    hyphenated: bool = False
