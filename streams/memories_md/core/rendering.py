"""Renders the parts of a Memories.md as text."""

from schemas.memories import Standing, Turns
from streams.memories_md.core.entries import (
    Document,
    Header,
    Location,
    Meta,
    Retired,
    SupersededBy,
)
from streams.memories_md.core.escaping import escaped, folded
from streams.memories_md.core.parsing import GOAL, STRIKE, TITLE_END, HeaderPieces

TITLE_LINE = "# Location Memories"
MEMORIES_LINE = "### Memories"
RULE_LINE = "---"


def render(document: Document) -> str:
    """Return the text of a document; for a parsed one, exactly the text that was parsed."""
    return document.bom + "".join(
        written
        for section in document.sections
        for written in (section.written, *[part.written for part in section.parts])
    )


def header_pieces(header: Header, meta: Meta) -> HeaderPieces:
    """Return the pieces of an entry's first line; an active status is omitted."""
    fields = [header.category]
    if header.persistence is not None:
        fields.append(header.persistence.name)
    if header.status is not Standing.ACTIVE:
        fields.append(header.status.name)
    title = folded(header.title).replace(TITLE_END, TITLE_END.replace(" ", "&#32;"))
    return HeaderPieces(folded(" - ".join(fields)), title, meta_text(meta))


def header_line(pieces: HeaderPieces) -> str:
    """Write the first line of an entry."""
    meta = f" *({pieces.meta})*" if pieces.meta else ""
    return f"**[{pieces.fields}] {pieces.title}**{meta}"


def meta_text(meta: Meta) -> str:
    """Return the content of an entry's parentheses; "" if there is none."""
    parts = [
        *([] if meta.episode is None else [f"Ep{folded(meta.episode)}"]),
        *([] if meta.turns is None else [_turns(meta.turns, meta.seen)]),
        *([] if meta.score is None else [f"{meta.score:+d}"]),
        *([] if meta.seen == 1 else [f"seen {meta.seen}x"]),
        *map(folded, meta.other),
        *([] if meta.goal is None else [f"{GOAL}{folded(meta.goal)}"]),
    ]
    return ", ".join(parts)


def retired_line(retired: Retired) -> str:
    """Write the note on a retired memory."""
    turn = "" if retired.turn is None else f" at T{retired.turn}"
    if isinstance(retired, SupersededBy):
        return f'[Superseded{turn} by "{folded(retired.title)}"]'
    return f'[Invalidated{turn}: "{folded(retired.reason)}"]'


def text_lines(text: str, *, struck: bool) -> list[str]:
    """Return a text as lines that contain no structure."""
    written = escaped(text)
    return (f"{STRIKE}{written}{STRIKE}" if struck else written).split("\n")


def heading_line(location: Location) -> str:
    """Write the heading of a section."""
    return f"## Location {location.id}: {folded(location.name.strip())}".rstrip()


def tally_line(visits: int, episodes: tuple[str, ...]) -> str:
    """Write the line of visits and episodes."""
    seen_in = f" | **Episodes:** {', '.join(map(folded, episodes))}" if episodes else ""
    return f"**Visits:** {visits}{seen_in}"


def _turns(turns: Turns, seen: int) -> str:
    """Return the turns: a range for one observation, or first to last for several."""
    if turns.first == turns.last:
        return f"T{turns.first}"
    between = "\u2192T" if seen > 1 else "-"
    return f"T{turns.first}{between}{turns.last}"
