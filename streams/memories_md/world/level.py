"""`FILE.level.json`: the log position of a Memories.md, and the entry of each memory in it."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from schemas.base import MemoryId
from streams.memories_md.core.entries import entries
from streams.memories_md.core.keeping import PlacedEntry, words_digest
from streams.memories_md.core.parsing import parse
from streams.memories_md.world.file import MemoriesFile, meanings, write_durably
from streams.model.fences import ReadPosition
from streams.model.ports.failures import NoStore
from streams.sinks.jsonl import sync_directory


@dataclass(frozen=True)
class PendingChange:
    """A change in progress: the digests of the file before and after it, and the moved memories."""

    before: str
    after: str
    memories: dict[MemoryId, PlacedEntry]


@dataclass(frozen=True)
class FileLevel:
    """The log position of each partition of decisions, and the entries of its memories."""

    format: Literal[1] = 1
    partitions: dict[str, ReadPosition] = field(default_factory=dict[str, ReadPosition])
    memories: dict[MemoryId, PlacedEntry] = field(default_factory=dict[MemoryId, PlacedEntry])
    coming: PendingChange | None = None


_LEVEL = TypeAdapter(FileLevel)


def level_of(file: MemoriesFile) -> Path:
    """Return the path of a file's level, whether or not a writer keeps one."""
    return file.beside("level.json")


def placed_in(text: str, level: FileLevel) -> dict[MemoryId, PlacedEntry]:
    """Return the entries of memories in a file's text, even after a kill during a change."""
    coming = level.coming
    if coming is None or not text or digest(text) == coming.before:
        return level.memories
    if digest(text) == coming.after or _holds(text, coming.memories, level.memories):
        return {**level.memories, **coming.memories}
    return level.memories


def digest(text: str) -> str:
    """Return a digest that identifies a text."""
    return hashlib.sha256(text.encode()).hexdigest()


class LevelFile:
    """The level next to a file, for repeated reads and writes.

    What this process wrote last is not parsed again: of a large file, that takes most of the time.
    """

    def __init__(self, file: MemoriesFile) -> None:
        self._file = file
        self._path = level_of(file)
        self._last: tuple[bytes, FileLevel] | None = None

    def read(self) -> FileLevel | None:
        """Return the level; None if no writer keeps the file. Raises NoStore if it is damaged."""
        with meanings(self._file.path):
            try:
                content = self._path.read_bytes()
            except FileNotFoundError:
                return None
        if self._last is None or self._last[0] != content:
            self._last = content, self._decoded(content)
        return self._last[1]

    def keep(self, level: FileLevel) -> None:
        """Replace the level durably."""
        content = to_json(level) + b"\n"
        unfinished = self._file.beside("level.unfinished")
        with meanings(self._file.path):
            write_durably(unfinished, content)
            unfinished.replace(self._path)
            sync_directory(self._path.parent)
        self._last = content, level

    def _decoded(self, content: bytes) -> FileLevel:
        try:
            return _LEVEL.validate_json(content, strict=True)
        except ValidationError as error:
            raise NoStore(
                f"{self._path} is damaged: delete it, and the file is synchronised from the log"
            ) from error


def _holds(
    text: str, coming: Mapping[MemoryId, PlacedEntry], before: Mapping[MemoryId, PlacedEntry]
) -> bool:
    """Return whether a file that was edited since contains words of the change in progress."""
    fresh = {
        (place.location, place.words)
        for identity, place in coming.items()
        if identity not in before or before[identity].words != place.words
    }
    found = entries(parse(text))
    return any((f.location.id, words_digest(f.entry)) in fresh for f in found if f.location)
