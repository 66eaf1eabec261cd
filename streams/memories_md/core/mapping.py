"""Maps entries of a Memories.md to events and memories: one location is one scope.

What has no field of its own becomes metadata: the location's name, the score, the goal, the last
turn, how often the entry was seen, and labels that are too long or empty. What is read here from a
memory may come from any producer, and is checked before it is written.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeAlias, cast

from pydantic import JsonValue, TypeAdapter, ValidationError
from pydantic_core import to_json

from schemas.base import LABEL_MAX, EventId, Label, ScopeName
from schemas.codec import EVENT
from schemas.events import Remember
from schemas.memories import Memory, Persistence, Standing, Turns
from streams.memories_md.core.entries import Header, LocatedEntry, Location, MemoryEntry, Meta
from streams.memories_md.core.parsing import read_header, read_meta, split_header
from streams.memories_md.core.rendering import header_line, header_pieces
from streams.model.identity import entry_event_id, entry_name
from streams.model.places import LOCATION_NAME, NUMBER_BELOW, SCORE, SEEN, seen, whole_number

GOAL = "goal"
LAST_TURN = "last_turn"
OTHER = "entry_notes"
TITLE = "title"
CATEGORY = "category"
EPISODE = "episode"

NumberedEntry: TypeAlias = tuple[LocatedEntry, int]
"""An entry, and its number among those of the same name."""

_LABEL: TypeAdapter[str] = TypeAdapter(Label)
_CATEGORY_UNKNOWN = "NOTE"
_TITLE_MAX = 60
"""The length of the title that is made from a text if the memory has none."""
_DIGITS_MAX = 15


def scope_of(world: str, location_id: int) -> ScopeName:
    """Return the scope that holds the memories of a location."""
    return ScopeName(f"{world}/{location_id}")


def location_id(scope: str, world: str | None = None) -> int | None:
    """Return the number of a scope's location; None if it is no location (of that world)."""
    place, _, number = scope.rpartition("/")
    if not place or (world is not None and place != world):
        return None
    decimal = number.isascii() and number.isdecimal() and len(number) <= _DIGITS_MAX
    return int(number) if decimal and number == str(int(number)) else None


def event_of(
    found: LocatedEntry, *, world: str, at: datetime, nth: int = 1, since: int | None = None
) -> Remember | None:
    """Return the event of an entry; None if it is not live or has no text.

    The same words below the same header in the same location are the same event, whenever they
    are read. The memory's name is made from location, title, first turn and episode, so another
    text there addresses the same memory; `nth` distinguishes entries that agree in all of these
    (`numbered`). `since` is the version of the memory that a person has corrected, if known:
    repeating earlier words is then a new event. Raises Unreadable, naming the field, if an entry or
    the world cannot be expressed as an event.
    """
    entry, location = found.entry, found.location
    if location is None or not entry.live or not entry.text.strip():
        return None
    header, meta, scope = entry.header, entry.meta, scope_of(world, location.id)
    fields: dict[str, Any] = {
        "kind": "remember",
        "schema_version": 1,
        "event_id": event_id_of(scope, entry, since),
        "scope": scope,
        "text": entry.text,
        "occurred_at": at,
        "memory_id": name_of(scope, entry, nth),
        "title": _label(header.title),
        "category": _label(header.category),
        "persistence": header.persistence,
        "status": header.status,
        "turn": None if meta.turns is None else meta.turns.first,
        "session": None if meta.episode is None else _label(meta.episode),
        "metadata": _metadata(location, header, meta),
    }
    return cast("Remember", EVENT.decode(to_json(fields)))


def entry_parts(memory: Memory) -> tuple[Location, Header, Meta, str]:
    """Return a memory's location in a file, and what is written of it.

    The header is that of a live memory: `retire` writes whether and why it was retired. Raises
    ValueError if the memory's scope is no location.
    """
    number = location_id(memory.scope)
    if number is None:
        raise ValueError(
            f"scope {memory.scope} is not a location; its last part has to be a whole number"
        )
    name = memory.metadata.get(LOCATION_NAME)
    location = Location(number, name.strip() if isinstance(name, str) else "")
    meta = _meta(memory)
    return location, _header(memory, meta), meta, memory.text


def written_at_all(memory: Memory) -> bool:
    """Return whether a memory belongs in a file: it has a location and is not ephemeral."""
    lasting = memory.persistence is not Persistence.EPHEMERAL
    return lasting and location_id(memory.scope) is not None


def event_id_of(scope: ScopeName, entry: MemoryEntry, since: int | None = None) -> EventId:
    """Return the event id of an entry's content in a scope; see `event_of`."""
    header = entry.header
    persistence = header.persistence and header.persistence.value
    said = [header.category, header.title, persistence, header.status.value, entry.text]
    return entry_event_id(scope, to_json([*said, *([] if since is None else [since])]))


def name_of(scope: str, entry: MemoryEntry, nth: int = 1) -> str:
    """Return the producer's name for the memory of an entry in a scope; see `event_of`."""
    meta = entry.meta
    turn = None if meta.turns is None else meta.turns.first
    return entry_name(scope, to_json([entry.header.title, meta.episode, turn, nth]))


def numbered(found: Iterable[LocatedEntry]) -> Iterator[NumberedEntry]:
    """Yield entries in their order, each with its number among those of the same name.

    `found` must have all entries of each location in it, retired ones, too: they are counted, so
    striking something through changes no name.
    """
    met: Counter[str] = Counter()
    for one in found:
        name = "" if one.location is None else name_of(str(one.location.id), one.entry)
        met[name] += 1
        yield one, met[name]


def in_time(found: Sequence[NumberedEntry]) -> list[NumberedEntry]:
    """Return the entries of each location in the order of their episodes and last turns.

    They are imported with one time, the file's, so the last of two that contradict each other
    stands. An entry without episode or turns keeps its place.
    """
    ordered = list(found)
    dated = defaultdict[int | None, list[int]](list)
    for place, (one, _) in enumerate(found):
        if _when(one) is not None:
            dated[one.location and one.location.id].append(place)
    for places in dated.values():
        in_order = sorted((found[place] for place in places), key=lambda one: _when(one[0]) or ())
        for place, one in zip(places, in_order, strict=True):
            ordered[place] = one
    return ordered


def _when(found: LocatedEntry) -> tuple[bool, int, str, int] | None:
    """Return the sort key of an entry's episode and last turn; episodes in numbers come first."""
    meta = found.entry.meta
    if meta.episode is None or meta.turns is None:
        return None
    episode, numeric = meta.episode, meta.episode.isdecimal()
    name = episode.lstrip("0") if numeric else episode
    return not numeric, len(name) if numeric else 0, name, meta.turns.last


def _label(text: str) -> str | None:
    """Return a text if it is a valid label; None otherwise."""
    try:
        return _LABEL.validate_python(text, strict=True)
    except ValidationError:
        return None


def _metadata(location: Location, header: Header, meta: Meta) -> dict[str, JsonValue]:
    """Return what an entry has that no field of an event holds."""
    turns = meta.turns
    kept: dict[str, JsonValue] = {
        LOCATION_NAME: location.name,
        TITLE: _no_label(header.title),
        CATEGORY: _no_label(header.category),
        EPISODE: _no_label(meta.episode),
        LAST_TURN: None if turns is None or turns.last == turns.first else turns.last,
        SCORE: meta.score,
        SEEN: None if meta.seen == 1 else meta.seen,
        GOAL: meta.goal,
        OTHER: list(meta.other) or None,
    }
    return {name: value for name, value in kept.items() if value is not None}


def _no_label(text: str | None) -> str | None:
    """Return a text that is no valid label; None if it is one."""
    return text if text is None or _label(text) is None else None


def _header(memory: Memory, meta: Meta) -> Header:
    """Return a memory's header in a form that reads back; replace what does not by plain words."""
    category = _told(memory.category, memory.metadata, CATEGORY)
    title = _told(memory.title, memory.metadata, TITLE)
    header = Header(
        category=category or _CATEGORY_UNKNOWN,
        title=_beginning(memory.text) if title is None else title,
        persistence=memory.persistence,
        status=memory.status if memory.live else Standing.ACTIVE,
    )
    for tried in (header, replace(header, category=_CATEGORY_UNKNOWN)):
        pieces = split_header(header_line(header_pieces(tried, meta)))
        if pieces is not None and read_header(pieces) == tried:
            return tried
    return replace(header, category=_CATEGORY_UNKNOWN, title=" ".join(header.title.split()))


def _meta(memory: Memory) -> Meta:
    """Return the content of a memory's parentheses: the newest episode, first and last turn."""
    kept = memory.metadata
    goal, other = kept.get(GOAL), kept.get(OTHER)
    newest = episode_of(memory.sessions[-1]) if memory.sessions else None
    meta = Meta(
        episode=_told(newest, kept, EPISODE),
        turns=_turns(memory),
        score=whole_number(kept, SCORE),
        seen=seen(memory),
        goal=goal if isinstance(goal, str) else None,
        other=tuple(map(str, other)) if isinstance(other, list) else (),
    )
    tried = (meta, replace(meta, other=()), replace(meta, other=(), episode=None))
    return next((one for one in tried if _reads_back(one)), replace(tried[-1], goal=None))


def episode_of(session: str) -> str:
    """Return the episode that a session is in a file, where `Ep` goes before its name: of Ep01, 01."""
    return _NUMBERED.sub("", session)


_NUMBERED = re.compile(r"^Ep(?=\d)")


def _reads_back(meta: Meta) -> bool:
    pieces = split_header(header_line(header_pieces(Header("NOTE", "title"), meta)))
    return pieces is not None and read_meta(pieces.meta) == meta


def _turns(memory: Memory) -> Turns | None:
    if memory.turns is None:
        return None
    last = max(memory.turns.last, whole_number(memory.metadata, LAST_TURN) or 0)
    return Turns(first=memory.turns.first, last=last) if last < NUMBER_BELOW else None


def _told(label: str | None, kept: Mapping[str, JsonValue], name: str) -> str | None:
    """Return a label, or the text that was too long or too short to be one."""
    text = kept.get(name)
    return label if label is not None else text if isinstance(text, str) else None


def _beginning(text: str) -> str:
    """Return the first words of a text."""
    line = " ".join(text[: 2 * LABEL_MAX].split())
    if len(line) <= _TITLE_MAX:
        return line
    return f"{line[:_TITLE_MAX].rpartition(' ')[0] or line[: _TITLE_MAX - 1]}…"
