"""Readers of the copies of the memories: what each holds and how far it has followed the log."""

import os
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from schemas.base import MemoryId
from schemas.codec import APPLIED, Unreadable
from schemas.memories import Memory
from streams.memories_md.core.entries import entries
from streams.memories_md.core.keeping import standing, words_digest
from streams.memories_md.core.mapping import location_id, written_at_all
from streams.memories_md.core.parsing import parse
from streams.memories_md.world.file import MemoriesFile
from streams.memories_md.world.level import FileLevel, LevelFile, level_of, placed_in
from streams.model.fences import ReadPosition
from streams.model.ports.failures import NoStore, Transient
from streams.model.ports.index import Index
from streams.sinks import sqlite
from streams.sinks.jsonl import FeedLevel
from streams.verify.core.copies import HeldMemory


class MemoryCopy(ABC):
    """A copy that follows the log and holds its memories. Calls may raise NoStore.

    `remedy` is what to do if it differs from the log.
    """

    name: str
    place: str
    remedy: str

    @property
    def is_there(self) -> bool:
        """Whether it has been made."""
        return Path(self.place).exists()

    def holds(self, memory: Memory) -> bool:
        """Return whether it must hold a memory."""
        del memory
        return True

    @abstractmethod
    async def levels(self, partitions: int) -> Mapping[int, ReadPosition]:
        """Return how far it has followed each partition that it has started on."""

    @abstractmethod
    def scan(self, partitions: int) -> AsyncIterator[HeldMemory]:
        """Yield what it holds; if a memory is yielded several times, the last state counts."""


@dataclass(frozen=True)
class IndexCopy(MemoryCopy):
    """An index."""

    name = "index"

    index: Index
    place: str
    remedy: str

    async def levels(self, partitions: int) -> Mapping[int, ReadPosition]:
        del partitions
        level = await self.index.level()
        return {} if level is None else {p: f.reached for p, f in level.partitions.items()}

    async def scan(self, partitions: int) -> AsyncIterator[HeldMemory]:
        del partitions
        async for stored in self.index.scan():
            yield HeldMemory.of_index(stored)


class SinkCopy(MemoryCopy):
    """A sink for programs."""

    remedy = "delete it: it is rewritten from the log at the next start"

    def __init__(self, path: Path) -> None:
        self.path = path
        self.place = str(path)


class SqliteCopy(SinkCopy):
    """The table of sinks/sqlite.py, opened for reading only."""

    name = "sqlite"

    async def levels(self, partitions: int) -> Mapping[int, ReadPosition]:
        del partitions
        query = 'SELECT partition, "offset", epoch_offset, epoch_owner, next_event FROM levels'
        with _rows(self.path, query) as rows:
            return {partition: sqlite.reached(level) for partition, *level in rows}

    async def scan(self, partitions: int) -> AsyncIterator[HeldMemory]:
        del partitions
        with _rows(self.path, "SELECT * FROM memories") as rows:
            for row in rows:
                yield _read_row(row)


class JsonlCopy(SinkCopy):
    """The feeds of sinks/jsonl.py."""

    name = "jsonl"

    async def levels(self, partitions: int) -> Mapping[int, ReadPosition]:
        levels = {partition: self._level(partition) for partition in range(partitions)}
        return {p: level.reached for p, level in levels.items() if level and level.reached}

    async def scan(self, partitions: int) -> AsyncIterator[HeldMemory]:
        for partition in range(partitions):
            for memory in self._changes(partition):
                yield HeldMemory.of_sink(memory)

    def _level(self, partition: int) -> FeedLevel | None:
        path = self.path / f"memories-{partition}.level.json"
        try:
            return FeedLevel.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            raise NoStore(f"{path} cannot be read") from error

    def _changes(self, partition: int) -> Iterator[Memory]:
        """Yield the states up to the feed's recorded size; the rest is not acknowledged."""
        level = self._level(partition)
        left = 0 if level is None else level.size
        if not left:
            return
        path = self.path / f"memories-{partition}.jsonl"
        try:
            with path.open("rb") as lines:
                for number, line in enumerate(lines, 1):
                    if len(line) > left or not line.endswith(b"\n"):
                        raise NoStore(f"{path} was cut or changed at line {number:,}")
                    if line.strip():  # else it was forgotten
                        yield _memory_of(line, f"{path}:{number}")
                    left -= len(line)
                    if not left:
                        return
        except OSError as error:
            raise NoStore(f"{path} cannot be read: {error.strerror}") from error
        raise NoStore(f"{path} is {left:,} bytes shorter than it was")


class MemoriesMdCopy(MemoryCopy):
    """A file that memories_md/world/sink.py maintains.

    People's own edits are not errors: if an entry was edited, struck through or removed by hand,
    only its version is compared.
    """

    name = "memories_md"

    def __init__(self, file: MemoriesFile, world: str) -> None:
        self._file = file
        self._level = LevelFile(file)
        self._world = world
        self.place = str(file.path)
        self.remedy = f"delete {level_of(file)}: the file is synchronised at the next start"

    @property
    def is_there(self) -> bool:
        return level_of(self._file).exists()

    def holds(self, memory: Memory) -> bool:
        ours = location_id(memory.scope, self._world) is not None
        return ours and memory.live and written_at_all(memory)

    async def levels(self, partitions: int) -> Mapping[int, ReadPosition]:
        del partitions
        level = self._level.read() or FileLevel()
        return {int(partition): reached for partition, reached in level.partitions.items()}

    async def scan(self, partitions: int) -> AsyncIterator[HeldMemory]:
        del partitions
        text, level = self._read()
        document, placed = parse(text), placed_in(text, level)
        words = {found.at: found.entry for found in entries(document)}
        stands = {identity: words[at] for at, (identity, _) in standing(document, placed).items()}
        for identity, place in placed.items():
            entry = stands.get(identity)
            if entry is None or words_digest(entry) != place.words:
                told = None
            else:
                told = {"text": entry.text, "live": True} if entry.live else {"live": False}
            yield HeldMemory.of_people(identity, place.version, told)

    def _read(self) -> tuple[str, FileLevel]:
        """Return a text and its level. Raises Transient if they are being written."""
        level, text = self._level.read(), self._file.read()
        if level is None or self._level.read() != level:
            raise Transient(f"{self.place} is being written: verify once more")
        if text is None and level.memories:
            raise NoStore(f"{self.place} is gone: restore it from a backup")
        return text or "", level


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


def _read_row(row: sqlite3.Row) -> HeldMemory:
    """Read a memory from its record; the columns must match the record."""
    identity = MemoryId(row["id"])
    try:
        memory = Memory.model_validate_json(row["record"])
    except (ValueError, TypeError):
        return HeldMemory(identity, flaw="its record cannot be read")
    if differing := [n for n, told in sqlite.columns(memory).items() if row[n] != told]:
        flaw = f"its columns differ from its record: {', '.join(differing)}"
        return HeldMemory(identity, flaw=flaw)
    return HeldMemory.of_sink(memory)
