"""What a Memories.md file consists of.

Every part keeps the characters it was read from (`written`), so a file is the joined characters of
its parts, and what nobody changed is written as it was found.
"""

from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from schemas.memories import LIVE, Persistence, Standing, Turns


@dataclass(frozen=True, slots=True)
class Location:
    """A place. The number is what counts; names repeat, and are for people."""

    id: int
    name: str


@dataclass(frozen=True, slots=True)
class Header:
    """What stands in an entry's brackets and its title."""

    category: str
    title: str
    persistence: Persistence | None = None
    status: Standing = Standing.ACTIVE


@dataclass(frozen=True, slots=True)
class Meta:
    """When a memory was made, and what came of it.

    `episode` is a name, though most are numbers: `Ep01` is not `Ep1`. `seen`: how often it was
    observed; 1 where the file says nothing. `other` holds what is not understood.
    """

    episode: str | None = None
    turns: Turns | None = None
    score: int | None = None
    seen: int = 1
    goal: str | None = None
    other: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SupersededBy:
    """The title of the memory that took this one's place, and at which turn it did."""

    title: str
    turn: int | None = None


@dataclass(frozen=True, slots=True)
class Invalidated:
    """Why a memory was found wrong, with nothing in its place, and at which turn."""

    reason: str
    turn: int | None = None


Retired: TypeAlias = SupersededBy | Invalidated


@dataclass(frozen=True, slots=True)
class Entry:
    """One memory. `struck`: its text, or all of it, is struck through (`~~…~~`)."""

    header: Header
    meta: Meta
    text: str
    retired: Retired | None
    struck: bool
    written: str

    @property
    def live(self) -> bool:
        """Whether it still holds: a person retires a memory by striking it through."""
        return self.header.status in LIVE and not self.struck


@dataclass(frozen=True, slots=True)
class Tally:
    """How often a location was visited, and in which episodes."""

    visits: int
    episodes: tuple[str, ...]
    written: str


Kind: TypeAlias = Literal["blank", "rule", "memories", "note", "malformed"]
"""What lines are that hold no memory."""


@dataclass(frozen=True, slots=True)
class Other:
    """Lines that are kept as they are."""

    kind: Kind
    written: str


Part: TypeAlias = Entry | Tally | Other


@dataclass(frozen=True, slots=True)
class Section:
    """A heading (`written`) and what stands below it.

    `location` is None below a heading that names none, and for what comes before the first
    heading, where `written` is empty.
    """

    location: Location | None
    written: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A whole file. `newline` is how new lines end; `bom` the byte order mark, or nothing."""

    sections: tuple[Section, ...]
    newline: str = "\n"
    bom: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """What a person should look at: the line, counted from 1, and what to do about it."""

    line: int
    message: str


class At(NamedTuple):
    """Where an entry is: which section, and which of its parts, counted from 0.

    Edits leave an entry where it is, but for three: a removal and visits told for the first time
    move those behind in the section, and a new location those of the locations behind it.
    """

    section: int
    part: int


class Found(NamedTuple):
    """An entry with its line, its place and its location; None where it belongs to none."""

    line: int
    at: At
    location: Location | None
    entry: Entry


def section_of(document: Document, location_id: int) -> int | None:
    """Return which section is the first of a location, counted from 0."""
    for number, section in enumerate(document.sections):
        if section.location is not None and section.location.id == location_id:
            return number
    return None


def entries(document: Document, among: Container[int] | None = None) -> Iterator[Found]:
    """Yield the entries in the order of the file; with `among` those of these locations only."""
    line = 1
    for number, section in enumerate(document.sections):
        line += section.written.count("\n")
        if among is not None and (section.location is None or section.location.id not in among):
            line += sum([part.written.count("\n") for part in section.parts])
            continue
        for place, part in enumerate(section.parts):
            if isinstance(part, Entry):
                yield Found(line, At(number, place), section.location, part)
            line += part.written.count("\n")
