"""Import of Memories.md files as events, and export of a log's memories to them."""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic_core import from_json

from schemas.base import EventId, MemoryId, ScopeName
from schemas.codec import EVENT, Unreadable
from schemas.decisions import Marker
from schemas.events import Remember, Retire
from schemas.memories import Target
from streams.memories_md.core.checking import problems
from streams.memories_md.core.entries import FileProblem, Invalidation, LocatedEntry, entries
from streams.memories_md.core.keeping import (
    PlacedEntry,
    UpdatedFile,
    in_step,
    standing,
    words_digest,
)
from streams.memories_md.core.mapping import event_of, in_time, location_id, numbered, scope_of
from streams.memories_md.core.parsing import parse
from streams.memories_md.core.rendering import render
from streams.memories_md.world.file import MemoriesFile
from streams.model.identity import named_memory_id, retirement_id
from streams.model.ports.sources import SourceLine, SourceMark
from streams.store.app.reading import StoreReader

_AUTHOR = "memories-md"
"""The author of edits by hand; the file does not name the person."""
_STRUCK = "invalid"
_NOTE_MAX = 2_000


@dataclass(frozen=True)
class Entries:
    """What a file holds: its events by line, problems for a person, and what was left out.

    `retired` entries are no longer valid; `known` ones are unchanged since the store's writer wrote
    them.
    """

    events: list[tuple[int, Remember | Retire]]
    problems: list[FileProblem]
    retired: int
    known: int


def read_entries(
    text: str,
    *,
    world: str,
    at: datetime,
    placed: Mapping[MemoryId, PlacedEntry],
    stored: Container[MemoryId],
    may_supersede: Callable[[ScopeName], bool],
) -> Entries:
    """Read a file's entries as events that happened at a time, as `in_time` orders them.

    `placed` are the memories that a writer maintains in the file. Of those that are `stored` in the
    target, only entries edited by a person become events: a correction of the memory; for a memory
    from elsewhere with another name, a supersession if the policy allows it; for an entry struck
    through, the end of the memory.
    """
    document = parse(text)
    kept = {at: ours for at, ours in standing(document, placed).items() if ours[0] in stored}
    found: dict[tuple[ScopeName, EventId], tuple[int, Remember | Retire]] = {}
    told = list(problems(document))
    retired = known = 0
    for one, nth in in_time(list(numbered(entries(document)))):
        ours = kept.get(one.at)
        if ours is not None and ours[1].words == words_digest(one.entry):
            known += 1
            continue
        try:
            event = _event(one, nth, world, at, ours)
            if isinstance(event, Remember) and not may_supersede(event.scope):
                event = event.model_copy(update={"supersedes": ()})
        except Unreadable as error:
            told.append(FileProblem(one.line, f"the entry cannot be imported: {error}"))
            continue
        if event is None:
            retired += not one.entry.live
        elif before := found.get((event.scope, event.event_id)):
            same = f"states the same as line {before[0]}; remove one of them"
            told.append(FileProblem(one.line, same))
        else:
            found[event.scope, event.event_id] = one.line, event
    told.sort(key=lambda problem: problem.line)
    return Entries(list(found.values()), told, retired, known)


def _event(
    found: LocatedEntry,
    nth: int,
    world: str,
    at: datetime,
    corrected: tuple[MemoryId, PlacedEntry] | None,
) -> Remember | Retire | None:
    """Return an entry's event; for an edited entry, one that corrects or ends its memory.

    It names the version that the file last had, so a memory changed since is not ended unseen.
    """
    if corrected is not None and not found.entry.live:
        return _retirement(found, corrected, world, at)
    event = event_of(found, world=world, at=at, nth=nth)
    if event is None or event.memory_id is None or corrected is None:
        return event
    identity, place = corrected
    if named_memory_id(event.scope, event.memory_id) == identity:
        return event_of(found, world=world, at=at, nth=nth, since=place.version)
    return event.model_copy(update={"supersedes": (identity,)})


def _retirement(
    found: LocatedEntry, struck: tuple[MemoryId, PlacedEntry], world: str, at: datetime
) -> Retire:
    """Return the event that ends a memory whose entry a person has struck through."""
    identity, place = struck
    target = Target(memory_id=identity, version=place.version)
    scope = scope_of(world, place.location)
    retired = found.entry.retired
    why = retired.reason if isinstance(retired, Invalidation) else "struck through by hand"
    return Retire(
        event_id=retirement_id(scope, _STRUCK, [target]),
        scope=scope,
        author=_AUTHOR,
        occurred_at=at,
        note=why[:_NOTE_MAX],
        memories=(target,),
        reason=_STRUCK,
    )


class EntriesSource:
    """Implements ports.Source over the events of a file."""

    resumable = False

    def __init__(self, place: str, events: Sequence[tuple[int, Remember | Retire]]) -> None:
        self.place = place
        self.name = place
        self._events = events

    def lines(self, after: SourceMark | None) -> Iterator[SourceLine]:
        del after  # not resumable: decided events are recognised by their ids
        for number, event in self._events:
            content = EVENT.encode(event)
            row: dict[str, Any] = from_json(content)
            yield SourceLine(number, content, row)

    def mark(self, line: int, *, complete: bool) -> SourceMark:
        return SourceMark(line, "", complete)


async def export(
    reader: StoreReader, file: MemoriesFile, *, world: str, dry: bool
) -> tuple[UpdatedFile, bool]:
    """Bring a file level with a log's decisions; return it, and whether that changes it.

    With `dry` nothing is written. Raises NoStore if the file cannot be used, and Transient if
    another process writes it.
    """
    decided = {
        entry.decision.decision_id
        async for entry in reader.decisions()
        if not isinstance(entry.decision, Marker)
    }
    stored = [stored.memory for stored in (await reader.state()).values()]  # oldest first
    memories = sorted(
        (memory for memory in stored if location_id(memory.scope, world) is not None),
        key=lambda memory: (location_id(memory.scope), not memory.live),  # successors first
    )
    done: list[UpdatedFile] = []

    def edit(text: str) -> str:
        done.append(in_step(parse(text), memories, {}, world=world, decided=decided, history=False))
        return render(done[-1].document)

    if dry:
        before = file.read() or ""
        changed = edit(before) != before
    else:
        file.require_writable()
        with file.held():
            changed = file.rewrite(edit)
    return done[-1], changed
