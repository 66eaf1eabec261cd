"""The parts of a Memories.md file.

Every part keeps the characters that it was read from (`written`), so a file is the concatenation of
its parts, and unchanged parts are written back verbatim.
"""

from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from schemas.memories import LIVE, Persistence, Standing, Turns


@dataclass(frozen=True, slots=True)
class Location:
    """A place, identified by its number; names may repeat and are for people."""

    id: int
    name: str


@dataclass(frozen=True, slots=True)
class Header:
    """The content of an entry's brackets, and its title."""

    category: str
    title: str
    persistence: Persistence | None = None
    status: Standing = Standing.ACTIVE


@dataclass(frozen=True, slots=True)
class Meta:
    """When a memory was made, and its score, count and goal.

    `episode` is a name, though most are numbers: `Ep01` is not `Ep1`. `seen`: how often it was
    observed; 1 if the file does not say. `other` holds what is not understood.
    """

    episode: str | None = None
    turns: Turns | None = None
    score: int | None = None
    seen: int = 1
    goal: str | None = None
    other: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SupersededBy:
    """The title of the memory that superseded this one, and the turn at which it did."""

    title: str
    turn: int | None = None


@dataclass(frozen=True, slots=True)
class Invalidation:
    """Why a memory was found wrong, without a successor, and the turn at which it was."""

    reason: str
    turn: int | None = None


Retired: TypeAlias = SupersededBy | Invalidation


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """One memory. `struck`: its text, or all of it, is struck through (`~~…~~`)."""

    header: Header
    meta: Meta
    text: str
    retired: Retired | None
    struck: bool
    written: str

    @property
    def live(self) -> bool:
        """Whether it is live: a person can retire a memory by striking it through."""
        return self.header.status in LIVE and not self.struck


@dataclass(frozen=True, slots=True)
class VisitTally:
    """How often a location was visited, and in which episodes."""

    visits: int
    episodes: tuple[str, ...]
    written: str


Kind: TypeAlias = Literal["blank", "rule", "memories", "note", "malformed"]
"""The kinds of lines that hold no memory."""


@dataclass(frozen=True, slots=True)
class VerbatimLines:
    """Lines that are kept verbatim."""

    kind: Kind
    written: str


Part: TypeAlias = MemoryEntry | VisitTally | VerbatimLines


@dataclass(frozen=True, slots=True)
class Section:
    """A heading (`written`) and the parts below it.

    `location` is None below a heading without one, and for the lines before the first heading, for
    which `written` is empty.
    """

    location: Location | None
    written: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A whole file. `newline` is the end of new lines, `bom` the byte order mark or ""."""

    sections: tuple[Section, ...]
    newline: str = "\n"
    bom: str = ""


@dataclass(frozen=True, slots=True)
class FileProblem:
    """A problem for a person to fix: its line, counted from 1, and the remedy."""

    line: int
    message: str


class EntryPosition(NamedTuple):
    """The position of an entry: its section, and its part of that, both counted from 0.

    Edits keep positions, with three exceptions: a removal and a location's first line of visits
    move the later entries of the section, and a new location moves those of the later sections.
    """

    section: int
    part: int


class LocatedEntry(NamedTuple):
    """An entry with its line, its position, and its location; None if it belongs to none."""

    line: int
    at: EntryPosition
    location: Location | None
    entry: MemoryEntry


def entry_at(document: Document, at: EntryPosition) -> MemoryEntry:
    """Return the entry at a position. Raises LookupError if there is none."""
    sections = document.sections
    parts = sections[at.section].parts if at.section < len(sections) else ()
    part = parts[at.part] if at.part < len(parts) else None
    if isinstance(part, MemoryEntry):
        return part
    raise LookupError(f"no entry is at {at}; ask entries() of this document where it is")


def section_of(document: Document, location_id: int) -> int | None:
    """Return the index of a location's first section, counted from 0; None if it has none."""
    for number, section in enumerate(document.sections):
        if section.location is not None and section.location.id == location_id:
            return number
    return None


def entries(document: Document, among: Container[int] | None = None) -> Iterator[LocatedEntry]:
    """Yield the entries in file order; with `among` only those of these locations."""
    line = 1
    for number, section in enumerate(document.sections):
        line += section.written.count("\n")
        if among is not None and (section.location is None or section.location.id not in among):
            line += sum([part.written.count("\n") for part in section.parts])
            continue
        for place, part in enumerate(section.parts):
            if isinstance(part, MemoryEntry):
                yield LocatedEntry(line, EntryPosition(number, place), section.location, part)
            line += part.written.count("\n")
