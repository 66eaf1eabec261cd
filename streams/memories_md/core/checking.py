"""Problems in a Memories.md that a person should look at; nothing is lost because of them."""

import re
from collections.abc import Iterator

from schemas.memories import Standing
from streams.memories_md.core.entries import (
    Document,
    FileProblem,
    MemoryEntry,
    Part,
    Section,
    VerbatimLines,
    VisitTally,
)

_SHOWN_MAX = 60
"""The most characters of a line that a message quotes."""

_MEANT_AS_LOCATION = re.compile(r"##?\s*Location\b(?! Memories\s*$)")


def problems(document: Document) -> tuple[FileProblem, ...]:
    """Return what is not understood or has no effect where it is, in file order."""
    return tuple(_found(document))


def _found(document: Document) -> Iterator[FileProblem]:
    line = 1
    first_lines: dict[int, int] = {}
    for section in document.sections:
        yield from (FileProblem(line, message) for message in _of_heading(section, first_lines))
        if section.location is not None:
            first_lines.setdefault(section.location.id, line)
        line += section.written.count("\n")
        tallied = False
        for part in section.parts:
            for message in _of_part(part, located=section.location is not None, tallied=tallied):
                yield FileProblem(line, message)
            tallied = tallied or isinstance(part, VisitTally)
            line += part.written.count("\n")


def _of_heading(section: Section, first_lines: dict[int, int]) -> Iterator[str]:
    if section.location is None:
        if _MEANT_AS_LOCATION.match(section.written):
            yield (
                f"{_quoted(section.written)} names no location by a whole number; "
                "write ## Location 15: West of House"
            )
    elif first := first_lines.get(section.location.id):
        yield (
            f"location {section.location.id} has a section at line {first} already; "
            "move these entries there"
        )


def _of_part(part: Part, *, located: bool, tallied: bool) -> Iterator[str]:
    match part:
        case MemoryEntry():
            if not located:
                yield (
                    f"the entry {_quoted(part.header.title)} belongs to no location; "
                    "move it below a heading ## Location 15: West of House"
                )
            yield from _of_entry(part)
        case VisitTally() if tallied:
            yield "visits are given twice for this location; keep one of the lines"
        case VerbatimLines(kind="malformed") if part.written.startswith("**Visits"):
            yield (
                f"{_quoted(part.written)} cannot be read; "
                "write **Visits:** 3 | **Episodes:** 1, 2, 3"
            )
        case VerbatimLines(kind="malformed"):
            yield (
                f"{_quoted(part.written)} is not a header of an entry; "
                "write **[CATEGORY] Title** *(Ep1, T25, +0)*"
            )
        case VerbatimLines(kind="note") if located:
            yield (
                f"{_quoted(part.written)} belongs to no entry and is left alone; to make it a part "
                "of the entry above, remove the blank line between the two"
            )
        case _:
            pass


def _of_entry(entry: MemoryEntry) -> Iterator[str]:
    title = _quoted(entry.header.title)
    if " - " in entry.header.category:
        yield (
            f"the entry {title} has [{entry.header.category}], which holds a field that is neither "
            "CORE, PERMANENT, EPHEMERAL nor ACTIVE, TENTATIVE, SUPERSEDED; correct or remove it"
        )
    for part in entry.meta.other:
        yield (
            f"the entry {title} has {_quoted(part)} in its parentheses, which is not understood; "
            "write Ep1, T25 or T25-27, +5, seen 3x, Goal: …"
        )
    if not entry.text.strip():
        yield f"the entry {title} has no text; write it in the line below"
    retired = entry.header.status is Standing.SUPERSEDED
    if retired and entry.retired is None:
        yield (
            f"the entry {title} is SUPERSEDED, and nothing says by what; write below it "
            '[Superseded at T48 by "Title"] or [Invalidated at T48: "reason"]'
        )
    if entry.retired is not None and not retired:
        yield (
            f"the entry {title} is marked as retired, but is {entry.header.status.name}; "
            "write SUPERSEDED into its brackets, or remove the line below it"
        )


def _quoted(text: str) -> str:
    line = text.strip().partition("\n")[0].rstrip()
    return f"{line[: _SHOWN_MAX - 1]}…" if len(line) > _SHOWN_MAX else line or "without a title"
