"""Keeps a Memories.md in step with the memories: applies each change of a memory to the file.

The store owns an entry's words only as long as nobody has edited them. An entry that a person
edited, struck through or removed stays that way until its words have been decided on as an event.
The counts in its parentheses are still updated; score and goal are left to the person.
"""

import hashlib
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from pydantic import JsonValue
from pydantic_core import to_json

from schemas.base import DecisionId, MemoryId
from schemas.memories import Memory, Standing, Superseded
from streams.memories_md.core.editing import (
    add_entry,
    remove,
    replace_header,
    replace_meta,
    replace_text,
    retire,
    update_visits,
)
from streams.memories_md.core.entries import (
    Document,
    EntryPosition,
    Invalidation,
    LocatedEntry,
    MemoryEntry,
    Meta,
    Retired,
    SupersededBy,
    VisitTally,
    entries,
    entry_at,
    section_of,
)
from streams.memories_md.core.mapping import (
    entry_parts,
    episode_of,
    event_id_of,
    location_id,
    name_of,
    numbered,
    scope_of,
    written_at_all,
)
from streams.model.identity import decision_id, memory_id, named_memory_id
from streams.model.places import ENTERED, entered

_NOWHERE = -1
"""The location of a memory that no longer has an entry."""

_SHOWN_MAX = 60
"""The most characters of a title that a note quotes."""


@dataclass(frozen=True, slots=True)
class PlacedEntry:
    """The entry of a memory, with the digests of what was last written there.

    `title` is the entry's, `called` the memory's own: an entry that existed before keeps its title
    until the memory gets another one. `entered` are the visits by session that the file's line of
    visits had counted by then.
    """

    version: int
    location: int
    title: str
    called: str
    words: str
    text: str
    entered: dict[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class UpdatedFile:
    """The updated file, the entry of each memory in it, and notes for a person."""

    document: Document
    placed: dict[MemoryId, PlacedEntry]
    notes: tuple[str, ...]


def words_digest(entry: MemoryEntry) -> str:
    """Return a digest of what an entry says, without its parentheses."""
    header, retired = entry.header, entry.retired
    why = retired.reason if isinstance(retired, Invalidation) else retired and retired.title
    said = [header.category, header.title, header.persistence, header.status, entry.text]
    return _digest([*said, why, entry.struck])


def in_step(
    document: Document,
    memories: Iterable[Memory],
    placed: Mapping[MemoryId, PlacedEntry],
    *,
    world: str,
    decided: Container[DecisionId],
    history: bool,
) -> UpdatedFile:
    """Bring a file to the state of these memories, in their order.

    `placed` are the entries of memories as last written, `decided` the decisions known to be
    included in the memories. With `history`, a retired memory that is not in the file is added to
    it. Idempotent: a version that was already applied changes nothing.
    """
    wanted = [memory for memory in memories if location_id(memory.scope, world) is not None]
    keeper = _Keeper(document, wanted, placed, world, decided)
    for memory in wanted:
        if memory.status is Standing.FORGOTTEN:
            keeper.forget(memory)
        else:
            keeper.bring(memory, history=history)
    return UpdatedFile(keeper.document, keeper.placed, tuple(keeper.notes))


def standing(
    document: Document, placed: Mapping[MemoryId, PlacedEntry]
) -> dict[EntryPosition, tuple[MemoryId, PlacedEntry]]:
    """Return the memory of each entry, even if a person has edited the entry."""
    claims: dict[EntryPosition, tuple[MemoryId, PlacedEntry]] = {}
    for there in _places(document, (place.location for place in placed.values()), placed).values():
        there.settle()
        claims |= {at: (identity, placed[identity]) for identity, at in there.claims.items()}
    return claims


_Tag: TypeAlias = tuple[str, ...]


class _There:
    """The entries of one location, and the memories that claim them."""

    def __init__(
        self, found: Sequence[LocatedEntry], placed: Mapping[MemoryId, PlacedEntry]
    ) -> None:
        self._found = found
        self._placed = placed
        self._settled = False
        self._by_tag: dict[_Tag, list[EntryPosition]] = defaultdict(list)
        self._taken: set[EntryPosition] = set()
        self.claims: dict[MemoryId, EntryPosition] = {}
        for _, at, _, entry in found:
            self._tag(at, ("words", words_digest(entry)))
            self._tag(at, ("title", entry.header.title))
            self._tag(at, ("text", _digest([entry.text])))
        for identity, place in placed.items():
            self.take(identity, [("words", place.words)])

    def know(self, world: str) -> None:
        """Also index entries by the memories that their own events would create."""
        for one, nth in numbered(self._found):
            entry, scope = one.entry, scope_of(world, one.location.id if one.location else 0)
            self._tag(one.at, ("id", named_memory_id(scope, name_of(scope, entry, nth))))
            self._tag(one.at, ("id", memory_id(decision_id(scope, event_id_of(scope, entry)))))
            if entry.meta.turns is not None and entry.meta.episode is not None:
                self._tag(one.at, ("name", name_of(scope, entry)))

    def settle(self) -> None:
        """Match the memories whose words a person has edited to the entries that are left."""
        if not self._settled:
            self._settled = True
            for identity, place in self._placed.items():
                self.take(identity, [("title", place.title)])
            for identity, place in self._placed.items():
                self.take(identity, [("text", place.text)])

    def take(self, identity: MemoryId, tags: Iterable[_Tag]) -> EntryPosition | None:
        """Assign a memory the first unclaimed entry with one of these tags; return it if found."""
        if identity in self.claims:
            return self.claims[identity]
        for tag in tags:
            for at in self._by_tag.get(tag, ()):
                if at not in self._taken:
                    self.give(identity, at)
                    return at
        return None

    def give(self, identity: MemoryId, at: EntryPosition) -> None:
        self._taken.add(at)
        self.claims[identity] = at

    def make_room(self, section: int) -> None:
        """Shift the positions because a section was inserted at this index."""

        def now(at: EntryPosition) -> EntryPosition:
            return EntryPosition(at.section + 1, at.part) if at.section >= section else at

        for places in self._by_tag.values():
            places[:] = map(now, places)
        self._taken = set(map(now, self._taken))
        self.claims = {identity: now(at) for identity, at in self.claims.items()}

    def _tag(self, at: EntryPosition, tag: _Tag) -> None:
        self._by_tag[tag].append(at)


class _Keeper:
    """The file during an update."""

    def __init__(
        self,
        document: Document,
        wanted: Sequence[Memory],
        placed: Mapping[MemoryId, PlacedEntry],
        world: str,
        decided: Container[DecisionId],
    ) -> None:
        self.document = document
        self.placed = dict(placed)
        self.notes: list[str] = []
        self._decided = decided
        self._newest = {memory.id: memory for memory in wanted}
        self._wanted, self._world = wanted, world
        self._entered = _entered(placed)
        self._there = self._found()

    def _found(self) -> dict[int, _There]:
        """Match memories to entries in the locations of these memories."""
        locations = (entry_parts(memory)[0].id for memory in self._wanted)
        places = _places(self.document, locations, self.placed)
        for there in places.values():
            there.know(self._world)
        return places

    def bring(self, memory: Memory, *, history: bool) -> None:
        """Bring a memory's entry up to date, as far as the store owns its words."""
        place = self.placed.get(memory.id)
        if place is not None and place.version >= memory.version:
            return
        try:
            if place is None:
                self._begin(memory, history=history)
            else:
                self._go_on(memory, place)
        except ValueError as error:
            self._note(memory, f"cannot be written: {error}")

    def forget(self, memory: Memory) -> None:
        """Remove a memory's entry, even if a person has edited it."""
        place = self.placed.get(memory.id)
        if place is None or place.version >= memory.version:
            return
        at = self._entry_of(memory, place)
        try:
            self.document = self.document if at is None else remove(self.document, at)
        except ValueError as error:
            self.notes.append(f"location {place.location}: an entry cannot be taken out: {error}")
            return
        self.placed[memory.id] = PlacedEntry(memory.version, _NOWHERE, "", "", "", "")
        self._there = self._found()

    def _begin(self, memory: Memory, *, history: bool) -> None:
        if not written_at_all(memory):
            return
        location, header, meta, text = entry_parts(memory)
        there = self._there[location.id]
        at = there.take(memory.id, [("id", memory.id)])
        if at is None:
            there.settle()
            newest = self._newest[memory.id]  # if the level was lost, the file may have this one
            at = there.take(memory.id, [("words", words_digest(self._alike(newest)))])
            memory = memory if at is None else newest
        if at is None:
            alike = self._alike(memory)
            name = ("name", name_of(memory.scope, alike))
            tags = [("words", words_digest(alike)), ("text", _digest([text])), name]
            at = there.take(memory.id, tags)
        if at is not None:
            self._write(memory, at, ours="", called=header.title)
        elif memory.live or history:
            is_new = section_of(self.document, location.id) is None
            self.document = add_entry(self.document, location, header, text, meta)
            at = _last_of(self.document, location.id)
            if is_new:
                for others in self._there.values():
                    others.make_room(at.section)
            self._visited(location.id, memory, is_new=is_new)
            there.give(memory.id, at)
            self._write(
                memory, at, ours=words_digest(entry_at(self.document, at)), called=header.title
            )

    def _visited(self, location: int, memory: Memory, *, is_new: bool) -> None:
        """Count the visits of each session; a session counts as one visit if more is not known.

        An existing section's line of visits is updated only if there is one. What it says of the
        sessions that it lists stands, unless this file was given their visits before.
        """
        told = None if is_new else _tally_of(self.document, location)
        known = () if told is None else told.episodes
        visits = counts = 0 if told is None else told.visits
        new: list[str] = []
        entries, before = entered([memory.metadata]), self._entered[location]
        for session in filter(_is_name, dict.fromkeys((*memory.sessions, *entries))):
            now, episode = entries.get(session, 1), episode_of(session)
            if session in before:
                visits += max(0, now - before[session])
            elif episode not in (*known, *new):
                visits += now
                new.append(episode)
            before[session] = max(now, before.get(session, 0))
        if (new or visits > counts) and (is_new or told is not None):
            self.document = update_visits(self.document, location, visits, (*known, *new))

    def _go_on(self, memory: Memory, place: PlacedEntry) -> None:
        at = self._entry_of(memory, place)
        if at is not None:
            self._write(memory, at, ours=place.words, called=place.called)
            self._visited(place.location, memory, is_new=False)
        elif memory.live:
            self.placed[memory.id] = replace(place, version=memory.version)
            self._note(memory, "was taken out or moved by hand, and stays so")
        else:  # another entry of its title must not be taken for it
            self.placed[memory.id] = replace(place, version=memory.version, location=_NOWHERE)

    def _entry_of(self, memory: Memory, place: PlacedEntry) -> EntryPosition | None:
        """Return where a memory's entry is, even if a person has edited it."""
        there = self._there.get(place.location)
        if there is None:
            return None
        if memory.id not in there.claims:
            there.settle()
        return there.claims.get(memory.id)

    def _write(self, memory: Memory, at: EntryPosition, *, ours: str, called: str) -> None:
        """Write a memory into its entry, if the words there are the store's or the memory's own."""
        location, header, meta, _ = entry_parts(memory)
        before = entry_at(self.document, at)
        title = before.header.title if header.title == called else header.title
        rewritten = self._with_words(memory, at, title)
        after = words_digest(entry_at(rewritten, at))
        if words_digest(before) in {ours, after} or self._is_decided(before, memory):
            self.document, ours = rewritten, after
        elif not memory.live and not before.live:
            ours = words_digest(before)  # retired by hand as well as in the store: keep its words
        else:
            how = "edited by hand and stays so: import it" if before.live else "retired by hand"
            self._note(memory, f"was {how}")
        if memory.live and before.live:
            self.document = replace_meta(self.document, at, _counted(before.meta, meta))
        entry = entry_at(self.document, at)
        self.placed[memory.id] = PlacedEntry(
            version=memory.version,
            location=location.id,
            title=entry.header.title,
            called=header.title,
            words=ours,
            text=_digest([entry.text]),
            entered=entered([memory.metadata]),
        )

    def _with_words(self, memory: Memory, at: EntryPosition, title: str) -> Document:
        """Return the file after writing a memory's content and title into an entry."""
        document, entry = self.document, entry_at(self.document, at)
        _, header, _, text = entry_parts(memory)
        header = replace(header, title=title)
        retired = entry.header.status is Standing.SUPERSEDED
        if memory.superseded is not None and retired:
            return document
        if entry.header != header:
            document = replace_header(document, at, header)
        if entry.text != text:
            document = replace_text(document, at, text)
        if memory.superseded is None:
            return document
        return retire(document, at, self._why(memory.superseded))

    def _alike(self, memory: Memory) -> MemoryEntry:
        """Return the entry that a memory would get."""
        _, header, meta, text = entry_parts(memory)
        if memory.superseded is None:
            return MemoryEntry(header, meta, text, retired=None, struck=False, written="")
        by = self._why(memory.superseded)
        gone = replace(header, status=Standing.SUPERSEDED)
        return MemoryEntry(gone, meta, text, retired=by, struck=True, written="")

    def _why(self, superseded: Superseded) -> Retired:
        if superseded.by is None:
            return Invalidation(superseded.reason)
        return SupersededBy(self._title_of(superseded.by))

    def _title_of(self, identity: MemoryId) -> str:
        """Return a memory's title in the file, or the one that it would get."""
        if place := self.placed.get(identity):
            return place.title
        memory = self._newest.get(identity)
        return identity if memory is None else entry_parts(memory)[1].title

    def _is_decided(self, entry: MemoryEntry, memory: Memory) -> bool:
        """Return whether an entry's words were decided on, so that the memory reflects them."""
        place = self.placed.get(memory.id)
        since = (None,) if place is None else (None, place.version)
        events = (event_id_of(memory.scope, entry, version) for version in since)
        return entry.live and any(decision_id(memory.scope, e) in self._decided for e in events)

    def _note(self, memory: Memory, what: str) -> None:
        location, header, _, _ = entry_parts(memory)
        self.notes.append(f"location {location.id}: {_quoted(header.title)} {what}")


def _places(
    document: Document, locations: Iterable[int], placed: Mapping[MemoryId, PlacedEntry]
) -> dict[int, _There]:
    """Match memories to entries in some locations."""
    claiming: dict[int, dict[MemoryId, PlacedEntry]] = {number: {} for number in locations}
    for identity, place in placed.items():
        if place.location in claiming:
            claiming[place.location][identity] = place
    found: dict[int, list[LocatedEntry]] = defaultdict(list)
    for one in entries(document, claiming):
        if one.location is not None:
            found[one.location.id].append(one)
    return {number: _There(found[number], places) for number, places in claiming.items()}


def _entered(placed: Mapping[MemoryId, PlacedEntry]) -> defaultdict[int, dict[str, int]]:
    """Return the visits that the file counts, by location and session."""
    found: defaultdict[int, list[dict[str, int]]] = defaultdict(list)
    for place in placed.values():
        found[place.location].append(place.entered)
    counts = defaultdict[int, dict[str, int]](dict)
    for location, told in found.items():
        counts[location] = entered({ENTERED: dict[str, JsonValue](one)} for one in told)
    return counts


def _last_of(document: Document, location: int) -> EntryPosition:
    """Return the entry last added to a location: the last one of its first section."""
    number = section_of(document, location)
    if number is None:
        raise LookupError(f"location {location} has no section")
    parts = document.sections[number].parts
    return EntryPosition(
        number, max(at for at, part in enumerate(parts) if isinstance(part, MemoryEntry))
    )


def _tally_of(document: Document, location: int) -> VisitTally | None:
    """Return the line of visits in a location's first section; None if there is none."""
    number = section_of(document, location)
    parts = () if number is None else document.sections[number].parts
    return next((part for part in parts if isinstance(part, VisitTally)), None)


def _is_name(session: str) -> bool:
    """Return whether a session can be an item in a line of visits, between commas."""
    return "," not in session and session == session.strip() and session.isprintable()


def _counted(there: Meta, meta: Meta) -> Meta:
    """Return the updated counts, keeping what a person may have corrected."""
    return Meta(
        episode=there.episode if meta.episode is None else meta.episode,
        turns=there.turns if meta.turns is None else meta.turns,
        score=meta.score if there.score is None else there.score,
        seen=meta.seen,
        goal=meta.goal if there.goal is None else there.goal,
        other=there.other or meta.other,
    )


def _digest(said: list[object]) -> str:
    return hashlib.sha256(to_json(said)).hexdigest()[:32]


def _quoted(title: str) -> str:
    line = " ".join(title.split())
    return f'"{line[:_SHOWN_MAX]}…"' if len(line) > _SHOWN_MAX else f'"{line}"'
