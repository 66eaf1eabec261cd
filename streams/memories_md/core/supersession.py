"""Finds and repairs supersessions in a Memories.md that lead to no live memory.

A file names a memory's successor by its title. So a memory may name itself, two may name each
other, and a title may not exist: then a fact is lost, though its text is still there. What a
damaged chain superseded becomes active again; an unexplained one stays superseded, with a note.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from schemas.memories import Standing
from streams.memories_md.core.editing import replace_header, retire
from streams.memories_md.core.entries import (
    Document,
    FileProblem,
    Invalidation,
    LocatedEntry,
    MemoryEntry,
    SupersededBy,
    entries,
)
from streams.model.identity import normalised

Kind: TypeAlias = Literal["itself", "circle", "nobody", "unexplained", "follows"]
"""What is wrong with a supersession; `follows`: only that its successor's chain is broken."""

_UNEXPLAINED = "superseded, and by what is not known"
_NOT_EXPLAINED = "it is SUPERSEDED, and nothing says by what"
_NOTED = f'it stays so, with the note "{_UNEXPLAINED}"'
_ACTIVE_AGAIN = "it is active again"

_Title: TypeAlias = tuple[int | None, str]
"""A location with a title in normalized form: white space and case do not matter."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A retired entry that leads to no live one: the reason, and the repair."""

    found: LocatedEntry
    kind: Kind
    why: str
    repair: str


def damages(document: Document) -> tuple[Damage, ...]:
    """Return the retired entries that lead to no live one, in file order.

    A chain may end at an entry that was found wrong, or that a person has struck through: those
    were retired on purpose. In a circle, the entry that comes last in the file counts as newest.
    """
    return tuple(
        sorted(_Chains(tuple(entries(document))).damages(), key=lambda one: one.found.line)
    )


def repaired(
    document: Document, found: Sequence[Damage]
) -> tuple[Document, tuple[FileProblem, ...]]:
    """Repair what `damages` found in the document; entries keep their positions.

    What cannot be written as intended stays unchanged, and is returned as a problem.
    """
    refused: list[FileProblem] = []
    for damage in found:
        try:
            document = _mended(document, damage)
        except ValueError as error:
            refused.append(FileProblem(damage.found.line, f"{damage.why}; not repaired: {error}"))
    return document, tuple(refused)


def _mended(document: Document, damage: Damage) -> Document:
    at, entry = damage.found.at, damage.found.entry
    if damage.kind == "follows":
        return document
    if damage.kind == "unexplained" or entry.retired is None:
        return retire(document, at, Invalidation(_UNEXPLAINED))
    live = replace(entry.header, status=Standing.ACTIVE)
    return replace_header(retire(document, at, entry.retired), at, live)


class _Chains:
    """Finds the sound entries: those that lead to a live one, or to one retired on purpose.

    Entries are numbers here. They are linked through titles, so that many entries of one title take
    no more time than as many of different titles.
    """

    def __init__(self, found: Sequence[LocatedEntry]) -> None:
        self._found = found
        self._sound: set[int] = set()
        self._titles = [_title(one, one.entry.header.title) for one in found]
        self._named: dict[_Title, list[int]] = defaultdict(list)
        for number, title in enumerate(self._titles):
            self._named[title].append(number)
        self._successors: dict[int, _Title] = {}
        self._naming: dict[_Title, list[int]] = defaultdict(list)
        for number, one in enumerate(found):
            if (successor := _successor(one.entry)) is not None:
                title = self._successors[number] = _title(one, successor)
                self._naming[title].append(number)

    def damages(self) -> Iterator[Damage]:
        for number, one in enumerate(self._found):
            if number not in self._successors:
                self._spread(number)
                if one.entry.header.status is Standing.SUPERSEDED and one.entry.retired is None:
                    yield Damage(one, "unexplained", _NOT_EXPLAINED, _NOTED)
        for number in self._successors:
            if number not in self._sound and not self._others(number):
                yield self._without_other(number)
                yield from self._following(number)
        for number in self._successors:
            if number not in self._sound:
                circle = self._circle(number)
                newest = max(circle)
                yield self._in_circle(newest, circle)
                yield from self._following(newest)

    def _following(self, number: int) -> Iterator[Damage]:
        """Treat an entry as live again, and report all that lead to it."""
        line = self._found[number].line
        for follower in self._spread(number)[1:]:
            yield Damage(
                self._found[follower],
                "follows",
                f"its successor leads to line {line}, which leads nowhere",
                f"none is needed once line {line} is active again",
            )

    def _spread(self, number: int) -> list[int]:
        """Mark an entry and all that lead to it as sound; return those newly marked, it first."""
        made: list[int] = []
        open_ = [number]
        while open_:
            one = open_.pop()
            if one not in self._sound:
                self._sound.add(one)
                made.append(one)
                open_ += self._naming.pop(self._titles[one], ())
        return made

    def _others(self, number: int) -> list[int]:
        """Return at most two other entries that have the title of an entry's successor."""
        return [other for other in self._named[self._successors[number]][:2] if other != number]

    def _circle(self, start: int) -> list[int]:
        """Follow successors from an entry until one repeats; return the entries of that circle."""
        path: dict[int, None] = {}
        number = start
        while number not in path:
            path[number] = None
            number = self._others(number)[0]
        walked = list(path)
        return walked[walked.index(number) :]

    def _without_other(self, number: int) -> Damage:
        one = self._found[number]
        successor = _successor(one.entry)
        if self._successors[number] == self._titles[number]:
            why = f'it is superseded by "{successor}", which is its own title, and no other\'s'
            return Damage(one, "itself", why, _ACTIVE_AGAIN)
        where = "outside of all locations" if one.location is None else "in its location"
        why = f'it is superseded by "{successor}", and {where} nothing has that title'
        return Damage(one, "nobody", why, _ACTIVE_AGAIN)

    def _in_circle(self, number: int, circle: Sequence[int]) -> Damage:
        lines = ", ".join(str(self._found[one].line) for one in sorted(circle))
        why = f"the entries at the lines {lines} are superseded by each other; it is the newest"
        return Damage(self._found[number], "circle", why, _ACTIVE_AGAIN)


def _title(found: LocatedEntry, title: str) -> _Title:
    return None if found.location is None else found.location.id, normalised(title)


def _successor(entry: MemoryEntry) -> str | None:
    """Return the title of an entry's successor; None if none is named."""
    retired = entry.retired
    return retired.title if isinstance(retired, SupersededBy) and not entry.live else None
