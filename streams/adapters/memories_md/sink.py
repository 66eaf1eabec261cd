"""A Memories.md that is kept in step with the memories, while people edit it.

FILE             the memories of a world's locations (streams/core/memories_md)
FILE.level.json  how far it goes, and which memory stands in which entry; before a change of the
                 file also what will stand there, so that a kill leaves nothing in doubt

Beside them lie the lock and the backups of adapters/memories_md/file.py.
"""

import asyncio
import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from schemas.base import MemoryId
from schemas.outcomes import Applied
from streams.adapters.memories_md.file import (
    MemoriesFile,
    meanings,
    sync_directory,
    write_durably,
)
from streams.core.fences import Reached
from streams.core.memories_md.entries import Document, entries
from streams.core.memories_md.keeping import InStep, Placed, in_step, words_digest
from streams.core.memories_md.parsing import parse
from streams.core.memories_md.rendering import render
from streams.ports import NoStore, Transient


@dataclass(frozen=True)
class _Coming:
    """A change of the file that is under way: the digests of its two texts, and what comes."""

    before: str
    after: str
    memories: dict[MemoryId, Placed]


@dataclass(frozen=True)
class Level:
    """How far each partition of decisions has been followed, and where its memories stand."""

    format: Literal[1] = 1
    partitions: dict[str, Reached] = field(default_factory=dict[str, Reached])
    memories: dict[MemoryId, Placed] = field(default_factory=dict[MemoryId, Placed])
    coming: _Coming | None = None


_LEVEL = TypeAdapter(Level)


class MemoriesMdSink:
    """Implements ports.Sink over one file, which several partitions share.

    A text that a person has edited stays, and `report` is told; see core/memories_md/keeping.py.
    Memories that are meant for now, or are of no location of the world, are left out.
    """

    def __init__(self, path: Path, world: str, report: Callable[[str], None]) -> None:
        """Use the file, or make it in a directory that is there. NoStore where that cannot be."""
        self._file = MemoriesFile(path)
        self._world = world
        self._report = report
        self._busy = threading.Lock()
        self._told: dict[int, int] = {}
        self._last = ("", parse(""))
        self._file.require_writable()

    @property
    def name(self) -> str:
        return f"memories_md {self._file.path}"

    async def level(self, partition: int) -> Reached | None:
        level = (await asyncio.to_thread(read_level, self._file)) or Level()
        reached = level.partitions.get(str(partition))
        self._told[partition] = 0 if reached is None else reached.offset
        return reached

    async def write(self, partition: int, changes: Sequence[Applied], reached: Reached) -> None:
        notes = await asyncio.to_thread(self._write, partition, changes, reached)
        self._told[partition] = max(reached.offset, self._told.get(partition, 0))
        for note in notes:
            self._report(f"{self._file.path}: {note}")

    async def close(self) -> None:
        pass

    def _write(
        self, partition: int, changes: Sequence[Applied], reached: Reached
    ) -> tuple[str, ...]:
        with self._busy, self._file.held():
            level = read_level(self._file) or Level()
            before = level.partitions.get(str(partition))
            self._require_what_was_told(partition, before)
            if before is not None and reached.offset <= before.offset:
                return ()
            level = Level(memories=self._standing(level), partitions=level.partitions)
            done = self._rewrite(level, changes)
            followed = {**level.partitions, str(partition): reached}
            _keep(self._file, Level(partitions=followed, memories=done.placed))
            return done.notes

    def _rewrite(self, level: Level, changes: Sequence[Applied]) -> InStep:
        """Let the file follow a window of changes."""
        decided = {change.decision_id for change in changes}
        done: list[InStep] = []

        def edit(text: str) -> str:
            step = in_step(
                self._read(text),
                [change.memory for change in changes],
                level.memories,
                world=self._world,
                decided=decided,
                history=True,
            )
            done.append(step)
            wanted = render(step.document)
            self._last = (wanted, step.document)
            if wanted != text:
                coming = _Coming(_digest(text), _digest(wanted), step.placed)
                _keep(self._file, Level(level.format, level.partitions, level.memories, coming))
            return wanted

        self._file.rewrite(edit)
        return done[-1]

    def _read(self, text: str) -> Document:
        """Read a text, unless it is the one that was written last: most of a write's time."""
        last, document = self._last
        return document if text == last else parse(text)

    def _standing(self, level: Level) -> dict[MemoryId, Placed]:
        """Return where memories stand, also after a kill while the file was being changed."""
        text, coming = self._file.read(), level.coming
        if text is None and level.memories:
            raise NoStore(
                f"{self._file.path} is gone: restore it from {self._file.beside('backup-1')}, or "
                f"delete {level_of(self._file)}, and it is written anew from the log"
            )
        if coming is None or text is None or _digest(text) == coming.before:
            return level.memories
        if _digest(text) == coming.after or _holds(text, coming.memories, level.memories):
            return coming.memories
        return level.memories

    def _require_what_was_told(self, partition: int, level: Reached | None) -> None:
        """Raise Transient where a window would follow on what is no longer there."""
        if (0 if level is None else level.offset) < self._told.get(partition, 0):
            raise Transient(
                f"{level_of(self._file)} was emptied or replaced: partition {partition} is "
                "followed from what it has now"
            )


def level_of(file: MemoriesFile) -> Path:
    """Return where the level of a file lies."""
    return file.beside("level.json")


def read_level(file: MemoriesFile) -> Level | None:
    """Return the level of a file; None where no writer keeps it. NoStore where it is damaged."""
    path = level_of(file)
    with meanings(file.path):
        try:
            return _LEVEL.validate_json(path.read_bytes(), strict=True)
        except FileNotFoundError:
            return None
        except ValidationError as error:
            raise NoStore(
                f"{path} is damaged: delete it, and the file is brought in step from the log"
            ) from error


def _keep(file: MemoriesFile, level: Level) -> None:
    """Replace the level, durably."""
    path, unfinished = level_of(file), file.beside("level.unfinished")
    with meanings(file.path):
        write_durably(unfinished, _LEVEL.dump_json(level) + b"\n")
        unfinished.replace(path)
        sync_directory(path.parent)


def _holds(text: str, coming: Mapping[MemoryId, Placed], before: Mapping[MemoryId, Placed]) -> bool:
    """Tell whether a file that somebody has edited since holds words that were to come."""
    fresh = {
        (place.location, place.words)
        for identity, place in coming.items()
        if identity not in before or before[identity].words != place.words
    }
    found = entries(parse(text))
    return any((f.location.id, words_digest(f.entry)) in fresh for f in found if f.location)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
