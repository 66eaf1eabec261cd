"""Whether an English sentence states something, or only names it.

A word counts as a verb if it may be one where it stands. A sentence with a word that is not known
is taken to state something: it may be in another language.
"""

from collections.abc import Sequence

from streams.text.function_words import (
    ARTICLES,
    AUXILIARIES,
    FUNCTION_WORDS,
    MODALS,
    NEGATORS,
    POSSESSIVES,
    PRONOUNS,
)
from streams.text.lexicon import Lexicon
from streams.text.tokens import Form, Token, tokens

_STATING = PRONOUNS | {"there"} | AUXILIARIES.keys() | MODALS.keys() | NEGATORS
_OBJECTS = ARTICLES | POSSESSIVES.keys() | {"it", "them", "this", "that"}
_BETWEEN_NAMES = frozenset(".,;!()-\u2013\u2014\"'\u201c\u201d\u2018\u2019")
"""Other marks say something of what they stand between: a price, a setting, a table."""


def only_names(sentence: str, lexicon: Lexicon) -> bool:
    """Return whether a sentence is nouns alone, as the heading of a room is: "West of House."."""
    found = tokens(sentence)
    words = [token for token in found if token.form is Form.WORD]
    marks = {token.text for token in found if token.form is Form.MARK}
    if not words or len(words) + sum(t.form is Form.MARK for t in found) < len(found):
        return False
    return marks <= _BETWEEN_NAMES and all(
        _is_known(word, lexicon) and not _may_be_verb(words, at, lexicon)
        for at, word in enumerate(words)
    )


def _is_known(word: Token, lexicon: Lexicon) -> bool:
    """Return whether a word is English or spelt as a name."""
    lower = word.lower
    return lower in FUNCTION_WORDS or lower in lexicon or word.text[:1].isupper()


def _may_be_verb(words: Sequence[Token], at: int, lexicon: Lexicon) -> bool:
    word = words[at].lower
    before = words[at - 1].lower if at else ""
    after = words[at + 1].lower if at + 1 < len(words) else ""
    if word in _STATING or "'" in word or "\u2019" in word:
        return True
    if word in FUNCTION_WORDS or "v" not in lexicon.parts_of_speech(word):
        return False
    if words[at].text.istitle() and (at or after == "of"):
        return False
    if lexicon.is_mostly(word, "v") or lexicon.lemma(word, "v") != word:
        return True
    return before.endswith("s") or (not at and after in _OBJECTS)
