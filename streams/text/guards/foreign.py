"""The guard on names for texts in other languages than English, without any of their words."""

from streams.text.guards.statement import COMPATIBLE, Answer, Differs, Sides
from streams.text.reading import AnalysedText
from streams.text.tokens import Form, Token

_NOUNS_IN_CAPITALS = frozenset(["de", "lb"])
"""Languages in which a capital does not mark a name."""

_STEM_LETTERS = 3
"""A name with this beginning may be the same one in another case: "Praha", "Praze"."""


def names(sides: Sides) -> Answer:
    """Compare names: they conflict if each side has one that the other lacks."""
    event, memory = sides.readings
    ours, theirs = _only(event, memory), _only(memory, event)
    if ours and theirs:
        return Differs("name", ours[0].text, theirs[0].text)
    return COMPATIBLE


def _only(reading: AnalysedText, other: AnalysedText) -> list[Token]:
    """Return the names whose beginning no word of the other text has."""
    there = {token.lower[:_STEM_LETTERS] for token in other.tokens}
    return [name for name in _names(reading) if name.lower[:_STEM_LETTERS] not in there]


def _names(reading: AnalysedText) -> list[Token]:
    """Return the capitalised words that begin no sentence; none if most words are capitalised."""
    if reading.foreign in _NOUNS_IN_CAPITALS:
        return []
    inside: list[Token] = []
    begins = True
    for token in reading.tokens:
        if token.form is Form.WORD and not begins:
            inside.append(token)
        begins = token.form is Form.MARK and token.text != ","
    found = [token for token in inside if token.text[:1].isupper()]
    return found if 2 * len(found) <= len(inside) else []
