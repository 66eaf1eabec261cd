"""`FILE.level.json`: how far a Memories.md goes, and which memory stands in which entry."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from schemas.base import MemoryId
from streams.adapters.memories_md.file import (
    MemoriesFile,
    meanings,
    sync_directory,
    write_durably,
)
from streams.core.fences import Reached
from streams.core.memories_md.entries import entries
from streams.core.memories_md.keeping import Placed, words_digest
from streams.core.memories_md.parsing import parse
from streams.ports import NoStore


@dataclass(frozen=True)
class Coming:
    """A change of the file that is under way: the digests of its two texts, and who moves."""

    before: str
    after: str
    memories: dict[MemoryId, Placed]


@dataclass(frozen=True)
class Level:
    """How far each partition of decisions has been followed, and where its memories stand."""

    format: Literal[1] = 1
    partitions: dict[str, Reached] = field(default_factory=dict[str, Reached])
    memories: dict[MemoryId, Placed] = field(default_factory=dict[MemoryId, Placed])
    coming: Coming | None = None


_LEVEL = TypeAdapter(Level)


def level_of(file: MemoriesFile) -> Path:
    """Return where the level of a file is, if a writer keeps it."""
    return file.beside("level.json")


def read_level(file: MemoriesFile) -> Level | None:
    """Return the level of a file; None where no writer keeps it. NoStore where it is damaged."""
    return LevelFile(file).read()


def placed_in(text: str, level: Level) -> dict[MemoryId, Placed]:
    """Return where memories stand in a file's text, also after a kill while it was changed."""
    coming = level.coming
    if coming is None or not text or digest(text) == coming.before:
        return level.memories
    if digest(text) == coming.after or _holds(text, coming.memories, level.memories):
        return {**level.memories, **coming.memories}
    return level.memories


def digest(text: str) -> str:
    """Return what two texts share only if they are the same."""
    return hashlib.sha256(text.encode()).hexdigest()


class LevelFile:
    """The level beside a file, for who reads and writes it time and again.

    A large file has a large level, of which each change moves a few memories: those that stay are
    not read and written anew, as long as nobody else changes the level.
    """

    def __init__(self, file: MemoriesFile) -> None:
        self._file = file
        self._path = level_of(file)
        self._last: tuple[bytes, Level] | None = None
        self._encoded: dict[MemoryId, tuple[Placed, bytes]] = {}

    def read(self) -> Level | None:
        """Return the level; None where no writer keeps the file. NoStore where it is damaged."""
        with meanings(self._file.path):
            try:
                content = self._path.read_bytes()
            except FileNotFoundError:
                return None
        if self._last is None or self._last[0] != content:
            self._last = content, self._decoded(content)
        return self._last[1]

    def keep(self, level: Level) -> None:
        """Replace the level, durably."""
        content = self._encode(level)
        unfinished = self._file.beside("level.unfinished")
        with meanings(self._file.path):
            write_durably(unfinished, content)
            unfinished.replace(self._path)
            sync_directory(self._path.parent)
        self._last = content, level

    def _decoded(self, content: bytes) -> Level:
        try:
            return _LEVEL.validate_json(content, strict=True)
        except ValidationError as error:
            raise NoStore(
                f"{self._path} is damaged: delete it, and the file is brought in step from the log"
            ) from error

    def _encode(self, level: Level) -> bytes:
        rest = to_json(
            {"format": level.format, "partitions": level.partitions, "coming": level.coming}
        )
        return b'{"memories":{%b},%b\n' % (
            b",".join(self._entries(level.memories)),
            rest.removeprefix(b"{"),
        )

    def _entries(self, memories: Mapping[MemoryId, Placed]) -> list[bytes]:
        """Return where each memory stands, as JSON; what has not moved as it was told last."""
        entries: list[bytes] = []
        for identity, place in memories.items():
            known = self._encoded.get(identity)
            if known is None or known[0] is not place:
                known = place, to_json(identity) + b":" + to_json(place)
                self._encoded[identity] = known
            entries.append(known[1])
        return entries


def _holds(text: str, coming: Mapping[MemoryId, Placed], before: Mapping[MemoryId, Placed]) -> bool:
    """Tell whether a file that somebody has edited since holds words that were to come."""
    fresh = {
        (place.location, place.words)
        for identity, place in coming.items()
        if identity not in before or before[identity].words != place.words
    }
    found = entries(parse(text))
    return any((f.location.id, words_digest(f.entry)) in fresh for f in found if f.location)
