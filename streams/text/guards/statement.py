"""The statements that guards compare, and their possible answers."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TypeAlias

from schemas.events import Remember
from schemas.memories import Memory, Persistence, Standing
from streams.text.guards.alignment import Alignment, align
from streams.text.lexicon import Lexicon
from streams.text.reading import AnalysedText


@dataclass(frozen=True)
class StatementReading:
    """A text's reading with the fields of its record.

    `sources`: who said it. `truncated`: the text's vector covers only part of it.
    """

    reading: AnalysedText
    category: str | None = None
    persistence: Persistence | None = None
    status: Standing = Standing.ACTIVE
    sources: tuple[str, ...] = ()
    pinned: bool = False
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    truncated: bool = False


def statement_of(record: Remember | Memory, reading: AnalysedText) -> StatementReading:
    """Return the statement of an event or a memory for the guards."""
    return StatementReading(
        reading=reading,
        category=record.category,
        persistence=record.persistence,
        status=Standing(record.status),
        sources=record.sources,
        pinned=record.pinned,
        valid_from=record.valid_from,
        valid_until=record.valid_until,
        truncated=isinstance(record, Memory) and record.truncated,
    )


@dataclass(frozen=True)
class Compatible:
    """The guard has no objection to merging the two."""


@dataclass(frozen=True)
class Differs:
    """The two differ in the guard's aspect; `what` names it."""

    what: str
    event_says: str
    memory_says: str


@dataclass(frozen=True)
class CannotTell:
    """The guard cannot compare the two."""

    why: str


Answer: TypeAlias = Compatible | Differs | CannotTell
COMPATIBLE = Compatible()


@dataclass(frozen=True)
class Sides:
    """An event and a memory to compare; what several guards need is computed once."""

    event: StatementReading
    memory: StatementReading
    lexicon: Lexicon

    @property
    def readings(self) -> tuple[AnalysedText, AnalysedText]:
        return self.event.reading, self.memory.reading

    @property
    def foreign(self) -> bool:
        """Whether one of the texts is surely not in English."""
        return any(reading.foreign for reading in self.readings)

    @property
    def asked(self) -> bool:
        """Whether one of the texts is a question."""
        return any(reading.question is not None for reading in self.readings)

    @cached_property
    def alignment(self) -> Alignment:
        return align(self.event.reading, self.memory.reading, self.lexicon)

    @cached_property
    def worded_alike(self) -> bool:
        """Whether the two texts are the same words in the same order."""
        event, memory = self.readings
        return event.lemmas == memory.lemmas and [word.lower for word in event.words] == [
            word.lower for word in memory.words
        ]
