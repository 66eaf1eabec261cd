"""The changes of the memories as JSON Lines files, for programs that follow them.

DIRECTORY/memories-N.jsonl        partition N's changes in log order, one per line
DIRECTORY/memories-N.level.json   their log position; up to `size` bytes the lines are complete
DIRECTORY/memories-N.lock         held by the process that appends

A feed only grows, up to its size. The version tells which of a memory's lines is the latest. When a
memory is forgotten, all its lines but the last are overwritten with spaces.
"""

import errno
import fcntl
import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from schemas.base import Count, MemoryId, Record
from schemas.codec import APPLIED
from schemas.memories import Memory, Standing
from schemas.outcomes import Applied
from streams.model.fences import ReadPosition
from streams.model.ports.failures import NoStore, Transient
from streams.sinks.followed import FollowedSink

_ANEW = "and it is rewritten from the log"


class JsonlSink(FollowedSink):
    """Implements ports.Sink over a directory.

    Changes are identified by log position: those before a feed's level are already in it. So the
    feed is the same however the windows were cut, and a change that the log holds twice is in it
    twice.
    """

    def __init__(self, directory: Path) -> None:
        """Use or create the directory. Raises NoStore if no files can be created there."""
        super().__init__(directory)
        with _meanings(directory):
            if not directory.is_dir():
                directory.mkdir(exist_ok=True)
                sync_directory(directory.parent)
        if not os.access(directory, os.W_OK | os.X_OK):
            raise NoStore(f"{directory}: {_SEALED}")

    @property
    def name(self) -> str:
        return f"jsonl {self._place}"

    async def close(self) -> None:
        pass

    def _level(self, partition: int) -> ReadPosition | None:
        with _meanings(self._place):
            level = _Feed(self._place, partition).level()
        return None if level is None else level.reached

    def _write(self, partition: int, changes: Sequence[Applied], reached: ReadPosition) -> None:
        feed = _Feed(self._place, partition)
        with _meanings(self._place), feed.held():
            level = feed.level()
            before = None if level is None else level.reached
            self._require_what_was_told(partition, before)
            if before is not None and reached.offset <= before.offset:
                return
            start = 0 if before is None else before.offset
            size = (feed.begin() if level is None else level).size
            fresh = [change for change in changes if change.decided.offset >= start]
            gone = _forgotten(changes)
            feed.blank(gone, size)
            lines = [_line(change, gone) for change in fresh]
            feed.keep(FeedLevel(reached=reached, size=feed.append(lines, size)))


class FeedLevel(Record):
    """A feed's log position and its size there; `reached` is None if it was only begun."""

    format: Literal[1] = 1
    reached: ReadPosition | None
    size: Count


class _Feed:
    """The files of one partition."""

    def __init__(self, directory: Path, partition: int) -> None:
        self._directory = directory
        self._lines = directory / f"memories-{partition}.jsonl"
        self._level = directory / f"memories-{partition}.level.json"
        self._lock = directory / f"memories-{partition}.lock"

    @contextmanager
    def held(self) -> Generator[None]:
        """Lock the feed against other processes. Raises Transient if one is appending."""
        lock = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _hold(lock, self._lines)
            yield
        finally:
            os.close(lock)

    def level(self) -> FeedLevel | None:
        """Return the level; None if none was kept.

        Raises NoStore if it cannot be read, or if the feed does not match it.
        """
        try:
            level = FeedLevel.model_validate_json(self._level.read_bytes(), strict=True)
        except FileNotFoundError:
            return None
        except ValidationError as error:
            raise NoStore(f"{self._level} is damaged: delete it and its feed, {_ANEW}") from error
        if level.size > 0 and _byte(self._lines, level.size - 1) != b"\n":
            raise NoStore(f"{self._lines} was cut or changed: delete it and its level, {_ANEW}")
        return level

    def begin(self) -> FeedLevel:
        """Claim the feed before its first byte. Raises NoStore if there is one already."""
        if self._lines.exists():
            raise NoStore(f"{self._lines} has no level file: move it away, {_ANEW}")
        level = FeedLevel(reached=None, size=0)
        self.keep(level)
        return level

    def append(self, lines: Sequence[bytes], size: int) -> int:
        """Append lines after the first `size` bytes, durably; return the new size.

        Whatever was there had been torn by a crash or never acknowledged.
        """
        with self._lines.open("ab") as file:
            file.truncate(size)
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
            return os.fstat(file.fileno()).st_size

    def blank(self, gone: Mapping[MemoryId, int], size: int) -> None:
        """Overwrite the lines of memories that are older than these versions, durably."""
        if not gone or not size:
            return
        with self._lines.open("r+b") as lines:
            while (at := lines.tell()) < size:
                line = lines.readline()
                if line.strip() and _is_before(APPLIED.decode(line).memory, gone):
                    lines.seek(at)
                    lines.write(b" " * (len(line) - 1) + b"\n")
            lines.flush()
            os.fsync(lines.fileno())

    def keep(self, level: FeedLevel) -> None:
        """Replace the level durably."""
        unfinished = self._level.with_suffix(".unfinished")
        with unfinished.open("wb") as file:
            file.write(level.model_dump_json().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self._level)
        sync_directory(self._directory)


def _is_before(memory: Memory, gone: Mapping[MemoryId, int]) -> bool:
    return memory.version < gone.get(memory.id, 0)


def _forgotten(changes: Sequence[Applied]) -> dict[MemoryId, int]:
    """Return the memories that a window forgets, each with the version that does so."""
    memories = [change.memory for change in changes]
    return {one.id: one.version for one in memories if one.status is Standing.FORGOTTEN}


def _line(change: Applied, gone: Mapping[MemoryId, int]) -> bytes:
    """Return the line of a change; only blanks if the same window forgets the memory."""
    line = APPLIED.encode(change)
    return (b" " * len(line) if _is_before(change.memory, gone) else line) + b"\n"


def _hold(lock: int, held: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise Transient(f"{held} is being written by another process") from error


def _byte(path: Path, at: int) -> bytes:
    """Return one byte of a file; empty if it is shorter or does not exist."""
    try:
        with path.open("rb") as file:
            file.seek(at)
            return file.read(1)
    except FileNotFoundError:
        return b""


def sync_directory(directory: Path) -> None:
    """Make a directory's entries durable."""
    opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


_SEALED = "it cannot be written: check its permissions"
_REMEDIES = {
    **dict.fromkeys(
        (errno.ENOSPC, errno.EDQUOT), "the disk is full: free some space and run again"
    ),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _SEALED),
    **dict.fromkeys((errno.EEXIST, errno.ENOTDIR), "it is a file: name a directory"),
    errno.ENOENT: "it, or the directory around it, is missing: make the directory",
}


@contextmanager
def _meanings(directory: Path) -> Generator[None]:
    """Translate the file system's errors for the caller."""
    try:
        yield
    except OSError as error:
        remedy = _REMEDIES.get(
            error.errno or 0, "the disk reports an error: check it and run again"
        )
        raise NoStore(f"{directory}: {remedy} ({error.strerror})") from error
