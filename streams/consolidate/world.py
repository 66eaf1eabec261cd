"""When each scope was last consolidated, and what its memories were then, in one SQLite file.

This is only a cache: without it every scope is due again, and the pass finds nothing to do. Scopes
are stored as digests, so the file reveals no names.
"""

import hashlib
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from schemas.base import ScopeName
from streams.model.ports.failures import NoStore

_TABLE = """
CREATE TABLE IF NOT EXISTS passes (scope TEXT PRIMARY KEY, at TEXT NOT NULL, found TEXT) WITHOUT ROWID
"""


@dataclass(frozen=True)
class LastPass:
    """When a pass ended; `found` is a digest of policy and memories, None if it was cut short."""

    at: datetime
    found: str | None


class Passes:
    """Stores passes in a file, or in memory if there is no path.

    With `read_only` it stores nothing new.
    """

    def __init__(self, path: Path | None, *, read_only: bool = False) -> None:
        """Raise NoStore if the file cannot be used."""
        nowhere = path is None or (read_only and not path.exists())
        self._place = ":memory:" if nowhere else str(path)
        self._read_only = read_only
        with self._usable():
            self._db = sqlite3.connect(self._place, timeout=30, isolation_level=None)
            self._db.execute(_TABLE)

    def last(self, scope: ScopeName) -> LastPass | None:
        """Return the last pass of a scope; None if there was none."""
        query = "SELECT at, found FROM passes WHERE scope = ?"
        with self._usable():
            row = self._db.execute(query, (_digest(scope),)).fetchone()
        return None if row is None else LastPass(datetime.fromisoformat(row[0]), row[1])

    def keep(self, scope: ScopeName, last: LastPass) -> None:
        """Store the pass in place of the previous one."""
        if self._read_only:
            return
        values = (_digest(scope), last.at.isoformat(), last.found)
        with self._usable():
            self._db.execute("REPLACE INTO passes VALUES (?, ?, ?)", values)

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def _usable(self) -> Generator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise NoStore(
                f"{self._place} cannot be used to record passes: {error}; delete it"
            ) from error


def _digest(scope: ScopeName) -> str:
    return hashlib.sha256(scope.encode()).hexdigest()
