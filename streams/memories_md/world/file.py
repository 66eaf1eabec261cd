"""A Memories.md on disk: read and replaced as a whole, and never half-written.

FILE              the memories, which people edit, too
FILE.backup-1..3  its content before the last changes, the newest first
FILE.lock         held by the process that writes; a process that died holds nothing
"""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from streams.model.ports.failures import NoStore, Transient
from streams.sinks.jsonl import sync_directory

BYTES_MAX = 104_857_600
"""A larger file is refused unread: it is held in memory as a whole."""

BACKUPS = 3
UNDO = "undo.json"
"""The suffix of a file from which a text can be restored."""
_ATTEMPTS = 5
_BUSY_SECONDS = 2.0
"""How long a write waits for another process before it raises Transient."""
_PAUSE_SECONDS = 0.01
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")


class MemoriesFile:
    """One file. All calls raise NoStore with one line if it cannot be used."""

    def __init__(self, path: Path) -> None:
        """`path` may be a link: its target is replaced, and the link stays."""
        self.path = path
        with meanings(path):
            self._real = path.resolve()

    def beside(self, ending: str) -> Path:
        """Return the path of a file that belongs to this one."""
        return self._real.with_name(f"{self._real.name}.{ending}")

    def read(self) -> str | None:
        """Return the text with its byte order mark and line ends; None if there is no file."""
        content = self._content()
        return None if content is None else self._text(content)

    @contextmanager
    def held(self) -> Generator[None]:
        """Keep other memsieve processes from writing. Raises Transient if one is writing now."""
        with meanings(self.path):
            lock = os.open(self.beside("lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            self._hold(lock)
            yield
        finally:
            os.close(lock)

    def rewrite(self, edit: Callable[[str], str]) -> bool:
        """Replace the text by the result of `edit`, durably; return whether it changed.

        Call it while the file is held. If another program saves the file in the meantime, `edit` is
        called again with the new text. Raises Transient if that keeps happening.
        """
        for _ in range(_ATTEMPTS):
            before = self._content()
            wanted = edit("" if before is None else self._text(before)).encode()
            if wanted == before or (before is None and not wanted):
                return False
            if len(wanted) > BYTES_MAX:
                raise NoStore(f"{self.path} would be longer than {BYTES_MAX:,} bytes")
            with meanings(self.path):
                unfinished = self._prepared(wanted, before)
                if self._content() == before:
                    unfinished.replace(self._real)
                    sync_directory(self._real.parent)
                    return True
                unfinished.unlink()
        raise Transient(f"{self.path} is being changed again and again by another program")

    def _prepared(self, wanted: bytes, before: bytes | None) -> Path:
        """Write the new content next to the file, and the current content into a backup."""
        unfinished = self.beside("unfinished")
        mode = 0o644 if before is None else stat.S_IMODE(self._real.stat().st_mode)
        write_durably(unfinished, wanted, mode)
        if before is not None:
            self._keep(before, mode)
        return unfinished

    def _keep(self, content: bytes, mode: int) -> None:
        """Rotate the backups, and add a new first one."""
        backups = [self.beside(f"backup-{number}") for number in range(1, BACKUPS + 1)]
        if backups[0].is_file() and backups[0].read_bytes() == content:
            return
        kept = self.beside("backup-0")
        write_durably(kept, content, mode)
        for newer, older in reversed(list(pairwise(backups))):
            if newer.exists():
                newer.replace(older)
        kept.replace(backups[0])

    def drop_backups(self) -> None:
        """Remove the backups and the undo file. Call it while the file is held."""
        with meanings(self.path):
            for ending in [f"backup-{number}" for number in range(BACKUPS + 1)] + [UNDO]:
                self.beside(ending).unlink(missing_ok=True)
            sync_directory(self._real.parent)

    def _content(self) -> bytes | None:
        with meanings(self.path):
            try:
                found = self._real.stat()
            except FileNotFoundError:
                return None
            self._require_usable(found)
            with self._real.open("rb") as file:
                return file.read()

    def _require_usable(self, found: os.stat_result) -> None:
        if stat.S_ISDIR(found.st_mode):
            raise NoStore(f"{self.path} is a directory: name a file")
        if not stat.S_ISREG(found.st_mode):
            raise NoStore(f"{self.path} is not a regular file: name one")
        if found.st_size > BYTES_MAX:
            raise NoStore(
                f"{self.path} has {found.st_size:,} bytes, and {BYTES_MAX:,} are read at "
                "most: split it by location"
            )

    def require_writable(self) -> None:
        """Raise NoStore if an existing file is not writable, or its directory is missing."""
        with meanings(self.path):
            if not self._real.parent.is_dir():
                raise NoStore(f"{self.path}: the directory around it is missing: make it")
            if self._content() is None:
                return
            writable = self._real.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)
            if not writable or not os.access(self._real, os.W_OK):
                raise NoStore(f"{self.path} is read-only: make it writable")

    def _text(self, content: bytes) -> str:
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError as error:
            if content.startswith(_UTF_16):
                raise NoStore(f"{self.path} is UTF-16: save it as UTF-8") from error
            line = content.count(b"\n", 0, error.start) + 1
            raise NoStore(
                f"{self.path}:{line}: byte {error.start:,} (0x{content[error.start]:02X}) is not "
                "UTF-8: save the file as UTF-8, or correct that line"
            ) from error

    def _hold(self, lock: int) -> None:
        until = time.monotonic() + _BUSY_SECONDS
        while not _locked(lock):
            if time.monotonic() >= until:
                holder = os.pread(lock, 20, 0).decode("ascii", "replace").strip()
                raise Transient(
                    f"{self.path} is being written by another memsieve (process "
                    f"{holder or 'unknown'}): wait until it ends"
                )
            time.sleep(_PAUSE_SECONDS)
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)


def _locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def write_durably(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Write a whole file; on return its content is durable, but perhaps not its directory entry."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(path, flags, mode), "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        path.unlink(missing_ok=True)
        raise


_REMEDIES = {
    errno.ENOSPC: "the disk is full: free some space and run again",
    errno.EDQUOT: "the disk is full: free some space and run again",
    errno.EACCES: "it cannot be used: check its permissions and those of its directory",
    errno.EPERM: "it cannot be used: check its permissions and those of its directory",
    errno.EROFS: "its disk is read-only: name another place",
    errno.ENOTDIR: "a part of its path is a file: name another place",
    errno.ENOENT: "the directory around it is missing: make it",
    errno.ELOOP: "its links lead nowhere: name the file itself",
}


@contextmanager
def meanings(path: Path) -> Generator[None]:
    """Translate the file system's errors for the caller."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        number = error.errno if isinstance(error, OSError) else errno.ELOOP
        remedy = _REMEDIES.get(number or 0, "the disk reports an error: check it and run again")
        raise NoStore(f"{path}: {remedy}") from error
