"""Readers of the copies of the memories: what each holds and how far it has followed the log."""

import json
import os
import sqlite3
from collections.abc import AsyncIterator, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from pydantic import BaseModel, ValidationError

from schemas.base import MemoryId
from schemas.codec import APPLIED, Unreadable
from schemas.memories import Memory
from streams.memories_md.core.entries import entries
from streams.memories_md.core.keeping import standing, words_digest
from streams.memories_md.core.mapping import location_id, written_at_all
from streams.memories_md.core.parsing import parse
from streams.memories_md.world.file import MemoriesFile
from streams.memories_md.world.level import FileLevel, level_of, placed_in, read_level
from streams.model.fences import Epoch, ReadPosition
from streams.model.neighbours import StoredMemory
from streams.model.ports import Index, NoStore, Transient
from streams.verify.core.copies import CopiedMemory, every


@dataclass(frozen=True)
class FlawedMemory:
    """A memory that is damaged in a copy."""

    identity: MemoryId
    flaw: str


class MemoryCopy(Protocol):
    """A copy that follows the log and holds its memories. Calls may raise NoStore."""

    @property
    def name(self) -> str: ...

    @property
    def place(self) -> str: ...

    @property
    def remedy(self) -> str:
        """What to do if the copy differs from the log."""
        ...

    @property
    def whole(self) -> bool:
        """Whether it also holds vectors and decisions."""
        ...

    def holds(self, memory: Memory) -> bool:
        """Return whether it must hold a memory."""
        ...

    async def levels(self, partitions: int) -> Mapping[int, ReadPosition]:
        """Return how far it has followed each partition that it has started on."""
        ...

    def scan(self, partitions: int) -> AsyncIterator[StoredMemory | CopiedMemory | FlawedMemory]:
        """Yield what it holds; if a memory is yielded several times, the last state counts."""
        ...


@dataclass(frozen=True)
class IndexCopy:
    """Implements MemoryCopy over an index."""

    index: Index
    place: str
    remedy: str
    name: str = "index"
    whole: bool = True

    def holds(self, memory: Memory) -> bool:
        return every(memory)

    async def levels(self, partitions: int) -> Mapping[int, ReadPosition]:
        del partitions
        level = await self.index.level()
        return {} if level is None else {p: f.reached for p, f in level.partitions.items()}

    def scan(self, partitions: int) -> AsyncIterator[StoredMemory | FlawedMemory]:
        del partitions
        return self.index.scan()


@dataclass(frozen=True)
class SqliteCopy:
    """Implements MemoryCopy over the table of sinks/sqlite.py, opened for reading only."""

    path: Path
    name: str = "sqlite"
    remedy: str = "delete it: it is rewritten from the log at the next start"
    whole: bool = False

    @property
    def place(self) -> str:
        return str(self.path)

    def holds(self, memory: Memory) -> bool:
        return every(memory)

    async def levels(self, partitions: int) -> Mapping[int, ReadPosition]:
        del partitions
        query = 'SELECT partition, "offset", epoch_offset, epoch_owner, next_event FROM levels'
        with _rows(self.path, query) as rows:
            return {row["partition"]: _reached(row) for row in rows}

    async def scan(self, partitions: int) -> AsyncIterator[StoredMemory | FlawedMemory]:
        del partitions
        with _rows(self.path, "SELECT * FROM memories") as rows:
            for row in rows:
                yield _read_row(row)


@dataclass(frozen=True)
class JsonlCopy:
    """Implements MemoryCopy over the feeds of sinks/jsonl.py."""

    directory: Path
    name: str = "jsonl"
    remedy: str = "delete it: it is rewritten from the log at the next start"
    whole: bool = False

    @property
    def place(self) -> str:
        return str(self.directory)

    def holds(self, memory: Memory) -> bool:
        return every(memory)

    async def levels(self, partitions: int) -> Mapping[int, ReadPosition]:
        levels = {partition: self._level(partition) for partition in range(partitions)}
        return {p: level.reached for p, level in levels.items() if level and level.reached}

    async def scan(self, partitions: int) -> AsyncIterator[StoredMemory | FlawedMemory]:
        for partition in range(partitions):
            for stored in self._changes(partition):
                yield stored

    def _level(self, partition: int) -> "_FeedLevel | None":
        path = self.directory / f"memories-{partition}.level.json"
        try:
            return _FeedLevel.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            raise NoStore(f"{path} cannot be read") from error

    def _changes(self, partition: int) -> Iterator[StoredMemory]:
        """Yield the states up to the feed's recorded size; the rest is not acknowledged."""
        level = self._level(partition)
        left = 0 if level is None else level.size
        if not left:
            return
        path = self.directory / f"memories-{partition}.jsonl"
        try:
            with path.open("rb") as lines:
                for number, line in enumerate(lines, 1):
                    if len(line) > left or not line.endswith(b"\n"):
                        raise NoStore(f"{path} was cut or changed at line {number:,}")
                    if line.strip():  # else it was forgotten
                        yield StoredMemory(_memory_of(line, f"{path}:{number}"), None)
                    left -= len(line)
                    if not left:
                        return
        except OSError as error:
            raise NoStore(f"{path} cannot be read: {error.strerror}") from error
        raise NoStore(f"{path} is {left:,} bytes shorter than it was")


@dataclass(frozen=True)
class MemoriesMdCopy:
    """Implements MemoryCopy over a file that memories_md/world/sink.py maintains.

    People's own edits are not errors: if an entry was edited, struck through or removed by hand,
    only its version is compared.
    """

    file: MemoriesFile
    world: str
    name: str = "memories_md"
    whole: bool = False

    @property
    def place(self) -> str:
        return str(self.file.path)

    @property
    def remedy(self) -> str:
        return f"delete {level_of(self.file)}: the file is synchronised at the next start"

    @property
    def is_kept(self) -> bool:
        """Whether a writer has started to maintain it."""
        return level_of(self.file).exists()

    def holds(self, memory: Memory) -> bool:
        ours = location_id(memory.scope, self.world) is not None
        return ours and memory.live and written_at_all(memory)

    async def levels(self, partitions: int) -> Mapping[int, ReadPosition]:
        del partitions
        level = read_level(self.file) or FileLevel()
        return {int(partition): reached for partition, reached in level.partitions.items()}

    async def scan(self, partitions: int) -> AsyncIterator[CopiedMemory]:
        del partitions
        text, level = self._read()
        document, placed = parse(text), placed_in(text, level)
        words = {found.at: found.entry for found in entries(document)}
        stands = {identity: words[at] for at, (identity, _) in standing(document, placed).items()}
        for identity, place in placed.items():
            entry = stands.get(identity)
            if entry is None or words_digest(entry) != place.words:
                yield CopiedMemory(identity, place.version, text=None, live=None)
            else:
                text_there = entry.text if entry.live else None
                yield CopiedMemory(identity, place.version, text_there, entry.live)

    def _read(self) -> tuple[str, FileLevel]:
        """Return a text and its level. Raises Transient if they are being written."""
        level, text = read_level(self.file), self.file.read()
        if level is None or read_level(self.file) != level:
            raise Transient(f"{self.place} is being written: verify once more")
        if text is None and level.memories:
            raise NoStore(f"{self.place} is gone: restore it from a backup")
        return text or "", level


class _FeedLevel(BaseModel):
    """The part of a feed's level that is read here."""

    reached: ReadPosition | None
    size: int


def _memory_of(line: bytes, place: str) -> Memory:
    try:
        return APPLIED.decode(line).memory
    except Unreadable as error:
        raise NoStore(f"{place} cannot be read: {error}") from error


@contextmanager
def _rows(path: Path, query: str) -> Generator[Iterator[sqlite3.Row]]:
    # If the directory is not writable, no other process is writing the file either.
    mode = "ro" if os.access(path.parent, os.W_OK) else "ro&immutable=1"
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode={mode}", uri=True)) as db:
            db.row_factory = sqlite3.Row
            yield db.execute(query)
    except (sqlite3.Error, IndexError) as error:
        raise NoStore(f"{path} cannot be read: {error}") from error


def _reached(row: sqlite3.Row) -> ReadPosition:
    owner = row["epoch_owner"]
    epoch = None if owner is None else Epoch(row["epoch_offset"], owner)
    return ReadPosition(row["offset"], epoch, row["next_event"])


def _read_row(row: sqlite3.Row) -> StoredMemory | FlawedMemory:
    """Read a memory from its record; the columns must match the record."""
    try:
        memory = Memory.model_validate_json(row["record"])
        differing = [name for name, told in _columns(memory).items() if _value(row, name) != told]
    except (ValueError, TypeError):
        return FlawedMemory(row["id"], "its record, or a column of it, cannot be read")
    if differing:
        return FlawedMemory(
            row["id"], f"its columns differ from its record: {', '.join(differing)}"
        )
    return StoredMemory(memory, None)


_LISTS = {"tags", "sources"}
_TIMES = {"created_at", "last_seen_at", "superseded_at"}


def _columns(memory: Memory) -> dict[str, object]:
    """Return the values that a row's columns must have for a memory."""
    superseded = memory.superseded
    plain = (
        *("id", "scope", "text", "version", "status", "live", "category", "persistence"),
        *("importance", "confidence", "observation_count", "created_at", "last_seen_at"),
    )
    return {
        **{name: getattr(memory, name) for name in plain},
        "tags": list(memory.tags),
        "sources": list(memory.sources),
        "superseded_by": None if superseded is None else superseded.by,
        "superseded_at": None if superseded is None else superseded.at,
        "superseded_reason": None if superseded is None else superseded.reason,
    }


def _value(row: sqlite3.Row, name: str) -> object:
    value = row[name]
    if value is None:
        return None
    if name in _TIMES:
        return datetime.fromisoformat(value)
    return json.loads(value) if name in _LISTS else value
