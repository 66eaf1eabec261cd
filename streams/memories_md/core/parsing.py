"""Parses the text of a Memories.md into its parts.

Any text can be parsed: what is no memory is kept verbatim, and `checking.py` reports what is wrong
with it. Each line is read a fixed number of times, so the time is linear in the text's length.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from io import StringIO
from itertools import pairwise
from typing import Any, NamedTuple

from schemas.memories import Persistence, Standing, Turns
from streams.memories_md.core.entries import (
    Document,
    Header,
    Invalidation,
    Location,
    MemoryEntry,
    Meta,
    Part,
    Retired,
    Section,
    SupersededBy,
    VerbatimLines,
    VisitTally,
)
from streams.memories_md.core.escaping import unescaped, unfolded
from streams.memories_md.core.shapes import opens_section, shape_of

BOM = "\ufeff"
STRIKE = "~~"

_LOCATION = re.compile(r"##\s+Location\s+([0-9]{1,15})\s*:(.*)")
_NAME_FIRST = re.compile(r"##\s+Location\s*:(.*)\(ID:\s*([0-9]{1,15})\)")
_TALLY = re.compile(r"\*\*Visits:\*\*\s*([0-9]{1,15})(?:\s*\|\s*\*\*Episodes:\*\*(.*))?")
_SUPERSEDED = re.compile(r'\[Superseded(?: at T([0-9]{1,15}))? by "(.*)"\]')
_INVALIDATED = re.compile(r'\[Invalidated(?: at T([0-9]{1,15}))?: "(.*)"\]')
_META_PART = re.compile(
    r"T(?P<first>[0-9]{1,15})(?:(?:[-\u2013\u2192]|->)T?(?P<last>[0-9]{1,15}))*"
    r"|(?P<score>[-+\u2212]?[0-9]{1,15})"
    r"|seen (?P<seen>[0-9]{1,15})x"
)

_PERSISTENCE = {level.name: level for level in Persistence}
_STANDING = {
    standing.name: standing
    for standing in (Standing.ACTIVE, Standing.TENTATIVE, Standing.SUPERSEDED)
}


_SHORT = 100
"""The longest piece whose parsing is cached, so that the cache stays small."""


TITLE_END = "** *("
GOAL = "Goal: "
_COMMA_GOAL = f", {GOAL}"


class HeaderPieces(NamedTuple):
    """The pieces of an entry's first line, as written: `**[fields] title** *(meta)*`."""

    fields: str
    title: str
    meta: str


def parse(text: str) -> Document:
    """Parse any text; rendering the document gives that text again."""
    bom = BOM if text.startswith(BOM) else ""
    lines = lines_of(text[len(bom) :])
    newline = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    return Document(tuple(_sections(lines)), newline, bom)


def lines_of(text: str) -> list[str]:
    """Split a text into lines with their ends; only a line feed ends a line."""
    return StringIO(text, newline="\n").readlines()


def split_header(line: str) -> HeaderPieces | None:
    """Split the first line of an entry; None if it is malformed."""
    bare = line.rstrip()
    if bare[0] == "~":
        bare = bare[2:-2] if _is_struck(bare) else ""
    opening, closed, rest = bare.partition("] ")
    fields = opening[3:]
    if not closed or not fields or not opening.startswith("**["):
        return None
    title, has_meta, meta = rest.partition(TITLE_END)
    if has_meta and meta.endswith(")*"):
        return HeaderPieces(fields, title, meta[:-2])
    if not has_meta and title.endswith("**"):
        return HeaderPieces(fields, title[:-2], "")
    return None


def read_header(pieces: HeaderPieces) -> Header:
    """Parse the content of the brackets, and the title."""
    read = _short_fields if len(pieces.fields) <= _SHORT else _fields
    category, persistence, status = read(pieces.fields)
    return Header(category, unfolded(pieces.title), persistence, status)


def read_meta(text: str) -> Meta:
    """Parse the content of an entry's parentheses."""
    text, goal = _goal(text)
    parts = text.split(",")
    episode: str | None = None
    if parts[0][:2] == "Ep" and parts[0] != "Ep":
        episode = unfolded(parts.pop(0)[2:].rstrip())
    known: dict[str, Any] = {}
    other: list[str] = []
    for part in parts:
        meant = _short_part(part) if len(part) <= _SHORT else _meta_part(part)
        if meant is not None and meant[0] not in known:
            known[meant[0]] = meant[1]
        elif part.strip():
            other.append(unfolded(part.strip()))
    return Meta(episode, goal=goal, other=tuple(other), **known)


def read_tally(line: str) -> VisitTally | None:
    """Parse the line of visits and episodes; None if it is malformed."""
    found = _TALLY.fullmatch(line.rstrip())
    if found is None:
        return None
    names = (unfolded(name.strip()) for name in (found[2] or "").split(","))
    return VisitTally(int(found[1]), tuple(name for name in names if name), line)


def read_location(line: str) -> Location | None:
    """Parse the heading of a section; None if it names no location."""
    if found := _LOCATION.fullmatch(line.rstrip()):
        return Location(int(found[1]), unfolded(found[2].strip()))
    if found := _NAME_FIRST.fullmatch(line.rstrip()):
        return Location(int(found[2]), unfolded(found[1].strip()))
    return None


def read_retired(line: str) -> Retired | None:
    """Parse the note on a retired memory; None if the line is something else."""
    if line[0] != "[":
        return None
    bare = line.rstrip()
    if found := _SUPERSEDED.fullmatch(bare):
        return SupersededBy(unfolded(found[2]), int(found[1]) if found[1] else None)
    if found := _INVALIDATED.fullmatch(bare):
        return Invalidation(unfolded(found[2]), int(found[1]) if found[1] else None)
    return None


def read_entry(lines: Sequence[str], at: int) -> tuple[MemoryEntry, int] | None:
    """Parse the entry whose header is at a line; return it and its end, None if malformed."""
    pieces = split_header(lines[at])
    if pieces is None:
        return None
    retired, start, stop = body_of(lines, at)
    text, struck = read_text(lines[start:stop])
    struck = struck or lines[at].startswith(STRIKE)
    written = "".join(lines[at:stop])
    return MemoryEntry(
        read_header(pieces), read_meta(pieces.meta), text, retired, struck, written
    ), stop


def body_of(lines: Sequence[str], header: int) -> tuple[Retired | None, int, int]:
    """Find what belongs to the header at a line: the note on its retirement, and its text.

    Returns the note, the first line of text and the line after the last, equal if there is none.
    Blank lines may separate note and text; after a line of text, a blank line ends the entry.
    """
    end = header + 1
    if end < len(lines) and lines[end][0].isalnum():  # most entries
        return None, end, text_stop(lines, end)
    start = _skip_blank(lines, end)
    retired = read_retired(lines[start]) if start < len(lines) else None
    if retired is not None:
        end = start + 1
        start = _skip_blank(lines, end)
    stop = text_stop(lines, start)
    return (retired, start, stop) if stop > start else (retired, end, end)


def text_stop(lines: Sequence[str], start: int) -> int:
    """Return the end of the lines of text that begin at `start`."""
    for at in range(start, len(lines)):
        line = lines[at]
        if not line[0].isalnum() and shape_of(line) != "text":
            return at
    return len(lines)


def read_text(lines: Sequence[str]) -> tuple[str, bool]:
    """Parse the lines of a text; return it, and whether it is struck through."""
    text = "".join(lines).replace("\r\n", "\n").rstrip("\r\n")
    if not text.startswith(STRIKE):
        return unescaped(text), False
    bare = text.split("\n")
    if all(map(_is_struck, bare)):
        return unescaped("\n".join(line[2:-2] for line in bare)), True
    struck = len(bare) > 1 and text.endswith(STRIKE) and not text.startswith("~~~")
    return unescaped(text[2:-2] if struck else text), struck


def read_parts(lines: Sequence[str]) -> tuple[Part, ...]:
    """Parse the lines below a heading."""
    parts: list[Part] = []
    at = 0
    while at < len(lines):
        part, at = _part(lines, at)
        parts.append(part)
    return tuple(parts)


def _sections(lines: Sequence[str]) -> Iterator[Section]:
    headings = [at for at, line in enumerate(lines) if line[0] == "#" and opens_section(line)]
    borders = [*headings, len(lines)]
    if borders[0] > 0:
        yield Section(None, "", read_parts(lines[: borders[0]]))
    for start, stop in pairwise(borders):
        heading = lines[start]
        yield Section(read_location(heading), heading, read_parts(lines[start + 1 : stop]))


def _part(lines: Sequence[str], at: int) -> tuple[Part, int]:
    """Parse the part that begins at a line; return it, and the line after it."""
    line = lines[at]
    match shape_of(line):
        case "entry":
            return read_entry(lines, at) or _malformed(lines, at)
        case "blank":
            stop = _skip_blank(lines, at)
            written = "".join(lines[at:stop])
            return _BLANK_LINES.get(written) or VerbatimLines("blank", written), stop
        case "text":
            stop = text_stop(lines, at)
            return VerbatimLines("note", "".join(lines[at:stop])), stop
        case "tally":
            return read_tally(line) or VerbatimLines("malformed", line), at + 1
        case "heading":
            return VerbatimLines("note", line), at + 1
        case "rule" | "memories" as kind:
            return VerbatimLines(kind, line), at + 1


_BLANK_LINES = {end: VerbatimLines("blank", end) for end in ("\n", "\r\n")}
"""Every second part is one of these two."""


def _malformed(lines: Sequence[str], at: int) -> tuple[Part, int]:
    stop = text_stop(lines, at + 1)
    return VerbatimLines("malformed", "".join(lines[at:stop])), stop


def _skip_blank(lines: Sequence[str], at: int) -> int:
    while at < len(lines) and lines[at].isspace():
        at += 1
    return at


def _fields(written: str) -> tuple[str, Persistence | None, Standing]:
    """Parse the content of the brackets: at most one persistence and one status, at the end."""
    category, persistence, status = unfolded(written), None, None
    while True:
        rest, dash, last = category.rpartition(" - ")
        if dash and persistence is None and last.upper() in _PERSISTENCE:
            category, persistence = rest, _PERSISTENCE[last.upper()]
        elif dash and status is None and last.upper() in _STANDING:
            category, status = rest, _STANDING[last.upper()]
        else:
            return category, persistence, status or Standing.ACTIVE


_short_fields = lru_cache(1024)(_fields)


def _goal(text: str) -> tuple[str, str | None]:
    """Split off a goal, which may contain anything and ends the parentheses."""
    if text.startswith(GOAL):
        return "", unfolded(text[len(GOAL) :])
    rest, found, goal = text.partition(_COMMA_GOAL)
    return rest, unfolded(goal) if found else None


def _meta_part(part: str) -> tuple[str, Turns | int] | None:
    """Parse one of the comma-separated parts: a field of Meta, and its value."""
    found = _META_PART.fullmatch(part.strip())
    if found is None:
        return None
    if found["score"]:
        return "score", int(found["score"].replace("\u2212", "-"))
    if found["seen"]:
        return "seen", int(found["seen"])
    first, last = int(found["first"]), int(found["last"] or found["first"])
    return ("turns", Turns(first=first, last=last)) if first <= last else None


_short_part = lru_cache(4096)(_meta_part)
"""A cache: the same parts occur again and again."""


def _is_struck(line: str) -> bool:
    return (
        len(line) >= 2 * len(STRIKE)
        and line.startswith(STRIKE)
        and line.endswith(STRIKE)
        and not line.startswith("~~~")
    )
