"""Edits of a Memories.md. Each returns a new document in which nothing else has changed.

What is written is parsed again at once, and rejected with ValueError if it would be read
differently, so no edit can change a file's meaning by accident. A text is never rejected.
"""

from collections.abc import Sequence
from dataclasses import replace

from schemas.memories import Standing
from streams.memories_md.core.entries import (
    Document,
    EntryPosition,
    Header,
    Kind,
    Location,
    MemoryEntry,
    Meta,
    Part,
    Retired,
    Section,
    VerbatimLines,
    VisitTally,
    entry_at,
    section_of,
)
from streams.memories_md.core.parsing import (
    STRIKE,
    HeaderPieces,
    body_of,
    lines_of,
    parse,
    read_parts,
    split_header,
)
from streams.memories_md.core.rendering import (
    MEMORIES_LINE,
    RULE_LINE,
    TITLE_LINE,
    header_line,
    header_pieces,
    heading_line,
    retired_line,
    tally_line,
    text_lines,
)
from streams.memories_md.core.shapes import opens_section

_NOTHING_KNOWN = Meta()


def add_entry(
    document: Document,
    location: Location,
    header: Header,
    text: str,
    meta: Meta = _NOTHING_KNOWN,
) -> Document:
    """Add an entry after the others of its location.

    A location without a section gets one before the first with a larger number, or at the end of
    the file, with one visit in the entry's episode; an empty file also gets its title. The name of
    an existing section stays.
    """
    if header.status is Standing.SUPERSEDED:
        raise ValueError(f"{header.title!r} cannot be added as superseded; add it, then retire it")
    entry = _new_entry(header, meta, text, document.newline)
    number = section_of(document, location.id)
    if number is None:
        return _with_section(document, location, entry)
    last = number + 1 == len(document.sections)
    section = _extended(document.sections[number], entry, document.newline, last=last)
    return _with(document, number, section)


def replace_text(document: Document, at: EntryPosition, text: str) -> Document:
    """Change an entry's text; struck-through text stays struck through."""
    return _rewritten(document, at, replace(entry_at(document, at), text=text))


def replace_header(document: Document, at: EntryPosition, header: Header) -> Document:
    """Change an entry's category, title, persistence or status.

    Making an entry live again removes its strikethrough and the note on its retirement.
    """
    entry = entry_at(document, at)
    changed = replace(entry, header=header)
    if header.status is entry.header.status:
        return _rewritten(document, at, changed)
    if header.status is Standing.SUPERSEDED:
        raise ValueError(f"{header.title!r} is superseded by something, or wrong: use retire")
    return _rewritten(document, at, replace(changed, retired=None, struck=False))


def replace_meta(document: Document, at: EntryPosition, meta: Meta) -> Document:
    """Change what is in an entry's parentheses."""
    return _rewritten(document, at, replace(entry_at(document, at), meta=meta))


def retire(document: Document, at: EntryPosition, retired: Retired) -> Document:
    """Mark an entry as superseded or invalidated: its text stays, struck through."""
    entry = entry_at(document, at)
    header = replace(entry.header, status=Standing.SUPERSEDED)
    struck = entry.struck or bool(entry.text)
    return _rewritten(document, at, replace(entry, header=header, retired=retired, struck=struck))


def remove(document: Document, at: EntryPosition) -> Document:
    """Remove an entry from the file, with the blank lines after it."""
    entry_at(document, at)
    section = document.sections[at.section]
    before, behind = section.parts[: at.part], section.parts[at.part + 1 :]
    if behind and _is(behind[0], "blank") and (not before or _is(before[-1], "blank")):
        behind = behind[1:]
    if _adopted(before, behind):
        raise ValueError(
            "the entry above this one has no text, and would be given the note below this one; "
            "give it a text first"
        )
    return _with(document, at.section, replace(section, parts=(*before, *behind)))


def update_visits(
    document: Document, location_id: int, visits: int, episodes: Sequence[str]
) -> Document:
    """Set how often a location was visited, and in which episodes.

    Raises LookupError if it has no section.
    """
    number = section_of(document, location_id)
    if number is None:
        raise LookupError(f"location {location_id} has no section; add an entry to it first")
    section = document.sections[number]
    line = tally_line(visits, tuple(episodes))
    tally = _read_one(line)
    if not isinstance(tally, VisitTally) or (tally.visits, tally.episodes) != (
        visits,
        tuple(episodes),
    ):
        raise ValueError(
            f"{line!r} would be read otherwise; give a count, and names without commas"
        )
    return _with(document, number, _tallied(section, tally, document.newline))


def _with(document: Document, number: int, section: Section) -> Document:
    sections = document.sections
    return replace(document, sections=(*sections[:number], section, *sections[number + 1 :]))


def _rewritten(document: Document, at: EntryPosition, wanted: MemoryEntry) -> Document:
    entry = entry_at(document, at)
    made = _as_wanted(wanted, _written(entry, wanted, document.newline))
    section = document.sections[at.section]
    parts = (*section.parts[: at.part], made, *section.parts[at.part + 1 :])
    return _with(document, at.section, replace(section, parts=parts))


def _written(entry: MemoryEntry, wanted: MemoryEntry, newline: str) -> str:
    """Rewrite an entry, keeping the characters of what stays."""
    lines = lines_of(entry.written)
    _, start, _ = body_of(lines, 0)
    unwrapped = lines[0].startswith(STRIKE) and wanted != entry
    header, note, text = lines[:1], lines[1:start], lines[start:]
    if unwrapped or (wanted.header, wanted.meta) != (entry.header, entry.meta):
        header = [_new_header(entry, wanted, lines[0])]
    if wanted.retired != entry.retired:
        blank = [line for line in note if line.isspace()] if text else []
        note = ([] if wanted.retired is None else [retired_line(wanted.retired)]) + blank
    if unwrapped or (wanted.text, wanted.struck) != (entry.text, entry.struck):
        text = text_lines(wanted.text, struck=wanted.struck)
    ended = "".join(_ended(line, newline) for line in (*header, *note, *text))
    return ended if lines[-1].endswith("\n") else ended.removesuffix("\n").removesuffix("\r")


def _new_header(entry: MemoryEntry, wanted: MemoryEntry, line: str) -> str:
    """Rewrite the first line of an entry, keeping the characters of what stays."""
    new = header_pieces(wanted.header, wanted.meta)
    old = split_header(line) or new
    same_title = wanted.header.title == entry.header.title
    same_fields = replace(wanted.header, title=entry.header.title) == entry.header
    pieces = HeaderPieces(
        fields=old.fields if same_fields else new.fields,
        title=old.title if same_title else new.title,
        meta=old.meta if wanted.meta == entry.meta else new.meta,
    )
    return header_line(pieces)


def _new_entry(header: Header, meta: Meta, text: str, newline: str) -> MemoryEntry:
    lines = [header_line(header_pieces(header, meta)), *text_lines(text, struck=False)]
    wanted = MemoryEntry(header, meta, text, retired=None, struck=False, written="")
    return _as_wanted(wanted, "".join(line + newline for line in lines))


def _as_wanted(wanted: MemoryEntry, written: str) -> MemoryEntry:
    """Return the entry as written. Raises ValueError if it would be read differently."""
    made = replace(wanted, written=written)
    if _read_one(written) == made:
        return made
    shown = "".join(lines_of(written)[:2])
    raise ValueError(
        f"{shown!r} would be read as something else; a category holds no bracket and ends with no "
        "field that is a persistence or status, an episode holds no comma, and a number no more "
        "than 15 digits"
    )


def _read_one(written: str) -> Part | None:
    """Parse exactly one part; None if it is more or less than that."""
    lines = lines_of(written)
    parts = () if any(map(opens_section, lines)) else read_parts(lines)
    return parts[0] if len(parts) == 1 else None


def _with_section(document: Document, location: Location, entry: MemoryEntry) -> Document:
    newline = document.newline
    at = _place_of(location, document.sections)
    before, behind = [*document.sections[:at]], document.sections[at:]
    if before:
        before[-1] = _closed(before[-1], newline)
    if all(
        not section.written and all(_is(part, "blank") for part in section.parts)
        for section in document.sections
    ):
        before += parse(TITLE_LINE + newline + newline).sections
    episodes = () if entry.meta.episode is None else (entry.meta.episode,)
    lines = [heading_line(location), tally_line(1, episodes), "", MEMORIES_LINE, ""]
    start = "".join(line + newline for line in lines)
    made = parse(start + entry.written + newline + RULE_LINE + newline).sections
    if len(made) != 1 or made[0].location != location or entry not in made[0].parts:
        raise ValueError(f"{location} would be read otherwise than it is meant; change its parts")
    fitting = [_closed(section, newline) for section in made] if behind else made
    return replace(document, sections=(*before, *fitting, *behind))


def _place_of(location: Location, sections: Sequence[Section]) -> int:
    """Return the position for a location's section: a sorted file stays sorted."""
    places = ((at, section.location) for at, section in enumerate(sections))
    return next((at for at, there in places if there and there.id > location.id), len(sections))


def _closed(section: Section, newline: str) -> Section:
    """End the last line of a section, and add a blank line after it."""
    if not section.written and not section.parts:
        return section
    parts = _ended_parts(section.parts, newline)
    blank = () if parts and _is(parts[-1], "blank") else (VerbatimLines("blank", newline),)
    written = _ended(section.written, newline) if section.written else ""
    return replace(section, written=written, parts=(*parts, *blank))


def _extended(section: Section, entry: MemoryEntry, newline: str, *, last: bool) -> Section:
    """Insert an entry after the others, before the rule that closes a section."""
    blank = VerbatimLines("blank", newline)
    at = _end_of_entries(section.parts)
    before, behind = _ended_parts(section.parts[:at], newline), section.parts[at:]
    titled = any(_is(part, "memories") or isinstance(part, MemoryEntry) for part in before)
    title = () if titled else (blank, VerbatimLines("memories", MEMORIES_LINE + newline))
    apart = _is(behind[0], "blank") if behind else last
    parts = (*before, *title, blank, entry, *(() if apart else (blank,)), *behind)
    return replace(section, written=_ended(section.written, newline), parts=parts)


def _end_of_entries(parts: Sequence[Part]) -> int:
    """Return the position of the next entry: after the last one and the notes below it."""
    held = [
        at
        for at, part in enumerate(parts)
        if isinstance(part, MemoryEntry | VisitTally) or _is(part, "memories")
    ]
    start = held[-1] + 1 if held else 0
    rules = (at for at in range(start, len(parts)) if _is(parts[at], "rule"))
    end = next(rules, len(parts))
    while end > start and _is(parts[end - 1], "blank"):
        end -= 1
    return end


def _tallied(section: Section, tally: VisitTally, newline: str) -> Section:
    """Replace the first line of visits, or insert one below the heading."""
    parts = section.parts
    for at, part in enumerate(parts):
        if isinstance(part, VisitTally):
            same = (part.visits, part.episodes) == (tally.visits, tally.episodes)
            end = part.written[len(part.written.rstrip("\r\n")) :]
            made = part if same else replace(tally, written=tally.written + end)
            return replace(section, parts=(*parts[:at], made, *parts[at + 1 :]))
    apart = not parts or _is(parts[0], "blank")
    blank = () if apart else (VerbatimLines("blank", newline),)
    made = replace(tally, written=tally.written + newline)
    return replace(section, written=_ended(section.written, newline), parts=(made, *blank, *parts))


def _adopted(before: Sequence[Part], behind: Sequence[Part]) -> bool:
    """Return whether parts that become adjacent would be read as other parts."""
    start = max(len(before) - 2, 0)
    near = (*before[start:], *behind[:2])
    return near != read_parts(lines_of("".join(part.written for part in near)))


def _ended_parts(parts: tuple[Part, ...], newline: str) -> tuple[Part, ...]:
    if not parts or parts[-1].written.endswith("\n"):
        return parts
    last = parts[-1]
    return (*parts[:-1], replace(last, written=_ended(last.written, newline)))


def _ended(line: str, newline: str) -> str:
    return line if line.endswith("\n") else line + newline


def _is(part: Part, kind: Kind) -> bool:
    return isinstance(part, VerbatimLines) and part.kind == kind
