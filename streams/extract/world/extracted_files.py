"""The files of `extract`: events as appended lines, and dead letters."""

import fcntl
from collections.abc import Sequence
from pathlib import Path

from schemas.codec import DEAD_LETTER, EVENT, Unreadable
from schemas.events import Event
from schemas.outcomes import DeadLetter
from streams.model.ports.failures import Unusable


class EventLines:
    """An append-only file of events, one per line. `events` are those found when it was opened.

    Events survive a crash of this process once `append` has returned. A line left unfinished by a
    crash is cut off: its event will be made again.
    """

    def __init__(self, path: Path) -> None:
        """Raise Unusable if the file cannot be written or contains anything but events."""
        try:
            self._file = path.open("a+b")
        except OSError as error:
            raise Unusable(f"{path} cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise Unusable(f"{path} is being written by another process; wait for it") from error
        self.events: Sequence[Event] = self._read(path)

    def append(self, events: Sequence[Event]) -> None:
        self._file.write(b"".join(EVENT.encode(event) + b"\n" for event in events))
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def _read(self, path: Path) -> list[Event]:
        self._file.seek(0)
        found: list[Event] = []
        for number, line in enumerate(self._file, start=1):
            if not line.endswith(b"\n"):
                self._file.truncate(self._file.tell() - len(line))
            elif line.strip():
                try:
                    found.append(EVENT.decode(line, likely="remember"))
                except Unreadable as error:
                    self.close()
                    raise Unusable(
                        f"{path}:{number} is not an event, and is not overwritten: {error}; "
                        "name another file"
                    ) from error
        return found


class DeadLetterFile:
    """A file of dead letters, one per line, created with the first; an earlier one is removed.

    `path` is its location.
    """

    def __init__(self, path: Path) -> None:
        """Raise Unusable if an existing file contains anything else or cannot be removed."""
        self.path = path
        try:
            if path.exists():
                _require_letters(path)
                path.unlink()
        except OSError as error:
            raise Unusable(f"{path} cannot be written: {error.strerror}") from error

    def add(self, letter: DeadLetter) -> None:
        with self.path.open("ab") as file:
            file.write(DEAD_LETTER.encode(letter) + b"\n")


def _require_letters(path: Path) -> None:
    with path.open("rb") as file:
        first = file.readline()
    try:
        DEAD_LETTER.decode(first, likely="dead-letter")
    except Unreadable as error:
        raise Unusable(
            f"{path} holds more than dead letters, and is not overwritten; name another file"
        ) from error
