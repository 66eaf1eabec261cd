"""A Memories.md that is kept in step with the memories while people edit it.

FILE             the memories of a world's locations (streams/memories_md/core)
FILE.level.json  its log position, and the entry of each memory; before a change of the file also
                 the coming entries, so that a kill leaves no ambiguity

The lock and the backups of memories_md/world/file.py are next to them.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from schemas.base import MemoryId
from schemas.memories import Standing
from schemas.outcomes import Applied
from streams.memories_md.core.entries import Document
from streams.memories_md.core.keeping import PlacedEntry, UpdatedFile, in_step
from streams.memories_md.core.parsing import parse
from streams.memories_md.core.rendering import render
from streams.memories_md.world.file import MemoriesFile
from streams.memories_md.world.level import (
    FileLevel,
    LevelFile,
    PendingChange,
    digest,
    level_of,
    placed_in,
)
from streams.model.fences import ReadPosition
from streams.model.ports.failures import NoStore, Transient


class MemoriesMdSink:
    """Implements ports.Sink over one file, which several partitions share.

    A text that a person has edited stays, and `report` gets a note; see
    memories_md/core/keeping.py. Ephemeral memories, and those of no location of the world, are
    left out.
    """

    def __init__(self, path: Path, world: str, report: Callable[[str], None]) -> None:
        """Use the file, or create it in an existing directory. Raises NoStore if that fails."""
        self._file = MemoriesFile(path)
        self._level = LevelFile(self._file)
        self._world = world
        self._report = report
        self._busy = threading.Lock()
        self._told: dict[int, int] = {}
        self._last = ("", parse(""))
        self._file.require_writable()

    @property
    def name(self) -> str:
        return f"memories_md {self._file.path}"

    async def level(self, partition: int) -> ReadPosition | None:
        level = (await asyncio.to_thread(self._level.read)) or FileLevel()
        reached = level.partitions.get(str(partition))
        self._told[partition] = 0 if reached is None else reached.offset
        return reached

    async def write(
        self, partition: int, changes: Sequence[Applied], reached: ReadPosition
    ) -> None:
        notes = await asyncio.to_thread(self._write, partition, changes, reached)
        self._told[partition] = max(reached.offset, self._told.get(partition, 0))
        for note in notes:
            self._report(f"{self._file.path}: {note}")

    async def close(self) -> None:
        pass

    def _write(
        self, partition: int, changes: Sequence[Applied], reached: ReadPosition
    ) -> tuple[str, ...]:
        with self._busy, self._file.held():
            level = self._level.read() or FileLevel()
            before = level.partitions.get(str(partition))
            self._require_what_was_told(partition, before)
            if before is not None and reached.offset <= before.offset:
                return ()
            level = FileLevel(memories=self._standing(level), partitions=level.partitions)
            done = self._rewrite(level, changes)
            followed = {**level.partitions, str(partition): reached}
            if any(change.memory.status is Standing.FORGOTTEN for change in changes):
                self._file.drop_backups()
            self._level.keep(FileLevel(partitions=followed, memories=done.placed))
            return done.notes

    def _rewrite(self, level: FileLevel, changes: Sequence[Applied]) -> UpdatedFile:
        """Apply a window of changes to the file."""
        decided = {change.decision_id for change in changes}
        done: list[UpdatedFile] = []

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
                known = level.memories
                coming = {one: at for one, at in step.placed.items() if known.get(one) is not at}
                announced = PendingChange(digest(text), digest(wanted), coming)
                self._level.keep(replace(level, coming=announced))
            return wanted

        self._file.rewrite(edit)
        return done[-1]

    def _read(self, text: str) -> Document:
        """Parse a text, unless it was the last one written; parsing dominates a write's time."""
        last, document = self._last
        return document if text == last else parse(text)

    def _standing(self, level: FileLevel) -> dict[MemoryId, PlacedEntry]:
        """Return the entries of memories in the current file."""
        text = self._file.read()
        if text is None and level.memories:
            raise NoStore(
                f"{self._file.path} is gone: restore it from {self._file.beside('backup-1')}, or "
                f"delete {level_of(self._file)}, and it is rewritten from the log"
            )
        return placed_in(text or "", level)

    def _require_what_was_told(self, partition: int, level: ReadPosition | None) -> None:
        """Raise Transient if the file no longer has what the window builds on."""
        if (0 if level is None else level.offset) < self._told.get(partition, 0):
            raise Transient(
                f"{level_of(self._file)} was emptied or replaced: partition {partition} is "
                "followed from its current content"
            )
