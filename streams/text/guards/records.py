"""Guards on record fields: source, category, persistence, status, pin, validity."""

from schemas.memories import Standing
from streams.text.guards.statement import (
    COMPATIBLE,
    Answer,
    CannotTell,
    Differs,
    Sides,
    StatementReading,
)

_FIRST_PERSON = 1
_RELATED_MIN = 0.6
"""Below this agreement, two people may have said two things about one event."""


def attribution(sides: Sides) -> Answer:
    """Compare who said it: by the text, and by the record's sources if the text says "I"."""
    event, memory = sides.readings
    ours, theirs = set(event.speakers), set(memory.speakers)
    if ours & theirs or (ours and theirs and sides.alignment.agreement < _RELATED_MIN):
        ours = theirs = set[str]()
    elsewhere = ours.isdisjoint(memory.lowers) and theirs.isdisjoint(event.lowers)
    if ours and theirs and elsewhere and not sides.asked and not (ours | theirs) & _ANYBODY:
        spelt = ", ".join(sorted(ours)), ", ".join(sorted(theirs))
        if not all(_is_somebody(speaker, sides) for speaker in (*ours, *theirs)):
            return CannotTell(f"'{spelt[0]}' may be '{spelt[1]}'")
        return Differs("speaker", *spelt)
    mine, others = set(sides.event.sources), set(sides.memory.sources)
    spoken = _FIRST_PERSON in event.persons and _FIRST_PERSON in memory.persons
    if spoken and mine and others and not mine & others:
        return Differs("source", ", ".join(sorted(mine)), ", ".join(sorted(others)))
    return COMPATIBLE


def _is_somebody(speaker: str, sides: Sides) -> bool:
    """Return whether a speaker is a person's name, not a title, an office or an acronym."""
    if speaker in _ONESELF:
        return True
    words = (word for reading in sides.readings for word in reading.words if word.lower == speaker)
    short = any(word.spelling.isupper() or "." in word.spelling for word in words)
    common = sides.lexicon.frequency(speaker) > 0 and not sides.lexicon.is_proper(speaker)
    return not short and not common


_ONESELF = frozenset(["user", "you", "we"])
_ANYBODY = frozenset(["he", "she", "it", "they", "him", "her", "them", "who"])


def category(sides: Sides) -> Answer:
    """Compare the categories: a failure is no success, an opinion no fact."""
    ours, theirs = sides.event.category, sides.memory.category
    if ours and theirs and ours.casefold() != theirs.casefold():
        return Differs("category", ours, theirs)
    return COMPATIBLE


def persistence(sides: Sides) -> Answer:
    """Protect a longer-lived memory from being replaced by a shorter-lived event."""
    ours, theirs = sides.event.persistence, sides.memory.persistence
    if ours and theirs and ours.rank < theirs.rank:
        return Differs("persistence", ours.value, theirs.value)
    return COMPATIBLE


def status(sides: Sides) -> Answer:
    """Protect what is believed from being replaced by what is tentative."""
    if sides.event.status is Standing.TENTATIVE and sides.memory.status is Standing.ACTIVE:
        return Differs("status", Standing.TENTATIVE.value, Standing.ACTIVE.value)
    return COMPATIBLE


def pin(sides: Sides) -> Answer:
    """Protect a pinned memory from changes."""
    if sides.memory.pinned:
        return Differs("pin", "pinned" if sides.event.pinned else "", "pinned")
    return COMPATIBLE


def validity(sides: Sides) -> Answer:
    """Compare validity intervals: disjoint ones mean two facts."""
    event, memory = sides.event, sides.memory
    for one, other in ((event, memory), (memory, event)):
        if one.valid_until and other.valid_from and one.valid_until <= other.valid_from:
            return Differs("validity", _interval(event), _interval(memory))
    return COMPATIBLE


def _interval(statement: StatementReading) -> str:
    return f"{statement.valid_from or ''}/{statement.valid_until or ''}"


def wholeness(sides: Sides) -> Answer:
    """Decline to compare a text that was truncated."""
    if sides.event.truncated or sides.memory.truncated:
        return CannotTell("a text was not read in full")
    return COMPATIBLE
