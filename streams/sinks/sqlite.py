"""The memories as a table in one SQLite file, for programs that query it with SQL.

In WAL mode: any number of programs read while some processes write, each its own partitions.
"""

import asyncio
import json
import sqlite3
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from datetime import datetime
from pathlib import Path
from typing import Any

from schemas.memories import Memory, Standing
from schemas.outcomes import Applied
from streams.model.fences import Epoch, ReadPosition
from streams.model.ports.failures import NoStore, Transient
from streams.sinks.followed import FollowedSink

_APPLICATION_ID = 1_835_363_700
_FORMAT = 1
_SCHEMA = (
    "PRAGMA application_id = 1835363700",  # "memt"
    "PRAGMA user_version = 1",  # the format
    """
    CREATE TABLE memories (
      id TEXT PRIMARY KEY NOT NULL,
      scope TEXT NOT NULL,
      text TEXT NOT NULL,
      version INTEGER NOT NULL,
      status TEXT NOT NULL,
      live INTEGER NOT NULL,
      category TEXT,
      persistence TEXT,
      importance REAL,
      confidence REAL,
      tags TEXT NOT NULL,
      sources TEXT NOT NULL,
      observation_count INTEGER NOT NULL,
      created_at TEXT NOT NULL,
      last_seen_at TEXT NOT NULL,
      superseded_by TEXT,
      superseded_at TEXT,
      superseded_reason TEXT,
      decision_id TEXT NOT NULL,
      record TEXT NOT NULL
    )
    """,
    "CREATE INDEX memories_by_scope ON memories (scope, live)",
    "CREATE VIEW live_memories AS SELECT * FROM memories WHERE live = 1",
    """
    CREATE TABLE levels (
      partition INTEGER PRIMARY KEY NOT NULL,
      "offset" INTEGER NOT NULL,
      epoch_offset INTEGER,
      epoch_owner TEXT,
      next_event INTEGER NOT NULL
    )
    """,
)

_PUT = """
INSERT INTO memories VALUES (
  :id, :scope, :text, :version, :status, :live, :category, :persistence, :importance, :confidence,
  :tags, :sources, :observation_count, :created_at, :last_seen_at,
  :superseded_by, :superseded_at, :superseded_reason, :decision_id, :record
)
ON CONFLICT (id) DO UPDATE SET
  scope = excluded.scope, text = excluded.text, version = excluded.version,
  status = excluded.status, live = excluded.live, category = excluded.category,
  persistence = excluded.persistence, importance = excluded.importance,
  confidence = excluded.confidence, tags = excluded.tags, sources = excluded.sources,
  observation_count = excluded.observation_count, created_at = excluded.created_at,
  last_seen_at = excluded.last_seen_at, superseded_by = excluded.superseded_by,
  superseded_at = excluded.superseded_at, superseded_reason = excluded.superseded_reason,
  decision_id = excluded.decision_id, record = excluded.record
WHERE excluded.version > memories.version
"""

_LEVEL = 'SELECT "offset", epoch_offset, epoch_owner, next_event FROM levels WHERE partition = :partition'
_RAISE_LEVEL = """
INSERT INTO levels VALUES (?, ?, ?, ?, ?)
ON CONFLICT (partition) DO UPDATE SET
  "offset" = excluded."offset", epoch_offset = excluded.epoch_offset,
  epoch_owner = excluded.epoch_owner, next_event = excluded.next_event
WHERE excluded."offset" > levels."offset"
"""

_BUSY_SECONDS = 2.0
"""How long a write waits for another process's transaction before it raises Transient."""

_WAL_PAUSE_SECONDS = 0.01

_ANEW = "delete it, and it is rewritten from the log"


class SqliteSink(FollowedSink):
    """Implements ports.Sink over one file.

    A file that is removed under a running process is recreated and filled from the beginning.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, or create it in an existing directory.

        Raises NoStore if it cannot be used, Transient if another process keeps it locked.
        """
        super().__init__(path)
        self._lock = threading.Lock()
        with _meanings(path):
            self._db = _open(path)
        self._file = _identity(path)

    @property
    def name(self) -> str:
        return f"sqlite {self._place}"

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _level(self, partition: int) -> ReadPosition | None:
        with self._opened() as db:
            return _read_level(db, partition)

    def _write(self, partition: int, changes: Sequence[Applied], reached: ReadPosition) -> None:
        rows = [
            {
                **columns(one.memory),
                "decision_id": one.decision_id,
                "record": one.memory.model_dump_json(),
            }
            for one in changes
        ]
        with self._opened() as db, _transaction(db):
            self._require_what_was_told(partition, _read_level(db, partition))
            db.executemany(_PUT, rows)
            epoch = (None, None) if reached.epoch is None else astuple(reached.epoch)
            level = (partition, reached.offset, *epoch, reached.next_event)
            db.execute(_RAISE_LEVEL, level)
        if any(change.memory.status is Standing.FORGOTTEN for change in changes):
            self._let_go()

    def _let_go(self) -> None:
        """Empty the WAL, which still holds what was overwritten."""
        with self._opened() as db:
            (busy, _, _) = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise Transient(f"{self._place} is being read: forgotten data is still in its WAL")

    def _close(self) -> None:
        with self._lock, _meanings(self._place):
            self._db.close()

    @contextmanager
    def _opened(self) -> Generator[sqlite3.Connection]:
        """Lend the connection to one thread; reopen it if the file at the path was replaced."""
        with self._lock, _meanings(self._place):
            if self._file != _identity(self._place):
                self._db.close()
                self._db = _open(self._place)
                self._file = _identity(self._place)
            yield self._db


def _open(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rwc",
        uri=True,
        timeout=_BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        if not _is_ours(db):
            _make(db, path)
        _write_ahead(db)
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA secure_delete = ON")
    except BaseException:
        db.close()
        raise
    return db


def _make(db: sqlite3.Connection, path: Path) -> None:
    """Create the tables in one transaction: a kill leaves an empty file or a complete one."""
    with _transaction(db):
        if _is_ours(db):
            return  # another process was faster
        _require_empty(db, path)
        for statement in _SCHEMA:
            db.execute(statement)


def _is_ours(db: sqlite3.Connection) -> bool:
    return (_pragma(db, "application_id"), _pragma(db, "user_version")) == (
        _APPLICATION_ID,
        _FORMAT,
    )


def _require_empty(db: sqlite3.Connection, path: Path) -> None:
    application = _pragma(db, "application_id")
    if application == _APPLICATION_ID:
        raise NoStore(f"{path}: it was made by another version of memsieve: {_ANEW}")
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application != 0 or tables != 0:
        raise NoStore(f"{path}: it belongs to another program: name another file")


def _pragma(db: sqlite3.Connection, name: str) -> int:
    return db.execute(f"PRAGMA {name}").fetchone()[0]


def _write_ahead(db: sqlite3.Connection) -> None:
    """Set WAL mode; retry, because SQLite fails at once while another process creates the file."""
    for left in reversed(range(int(_BUSY_SECONDS / _WAL_PAUSE_SECONDS))):
        try:
            db.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or left == 0:
                raise
            time.sleep(_WAL_PAUSE_SECONDS)
        else:
            return


def _identity(path: Path) -> tuple[int, int] | None:
    """Return the identity of the file at a path; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def _transaction(db: sqlite3.Connection) -> Generator[None]:
    """Run the block atomically and durably."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _read_level(db: sqlite3.Connection, partition: int) -> ReadPosition | None:
    row = db.execute(_LEVEL, {"partition": partition}).fetchone()
    return None if row is None else reached(row)


def reached(row: Sequence[Any]) -> ReadPosition:
    """Return the position in a row of the table `levels`, from its offset on."""
    offset, epoch_offset, epoch_owner, next_event = row
    epoch = None if epoch_offset is None else Epoch(epoch_offset, epoch_owner)
    return ReadPosition(offset, epoch, next_event)


def columns(memory: Memory) -> dict[str, Any]:
    """Return the columns that a memory's record determines."""
    superseded = memory.superseded
    return {
        "id": memory.id,
        "scope": memory.scope,
        "text": memory.text,
        "version": memory.version,
        "status": memory.status.value,
        "live": int(memory.live),
        "category": memory.category,
        "persistence": None if memory.persistence is None else memory.persistence.value,
        "importance": memory.importance,
        "confidence": memory.confidence,
        "tags": _json(memory.tags),
        "sources": _json(memory.sources),
        "observation_count": memory.observation_count,
        "created_at": _moment(memory.created_at),
        "last_seen_at": _moment(memory.last_seen_at),
        "superseded_by": None if superseded is None else superseded.by,
        "superseded_at": None if superseded is None else _moment(superseded.at),
        "superseded_reason": None if superseded is None else superseded.reason,
    }


def _json(labels: tuple[str, ...]) -> str:
    return json.dumps(labels, ensure_ascii=False)


def _moment(moment: datetime) -> str:
    """Format a UTC time at fixed length, so that it sorts chronologically as text."""
    return moment.isoformat(timespec="microseconds")


@contextmanager
def _meanings(path: Path) -> Generator[None]:
    """Translate SQLite's errors for the caller."""
    try:
        yield
    except sqlite3.Error as error:
        raise _meaning(path, error) from error


def _meaning(path: Path, error: sqlite3.Error) -> Exception:
    if _is_busy(error):
        return Transient(f"{path} is locked by another process")
    remedies = {
        "SQLITE_FULL": "the disk is full: free some space and run again",
        "SQLITE_READONLY": "it cannot be written: check its permissions",
        "SQLITE_CANTOPEN": "it cannot be opened: check that its directory is there and writable",
        "SQLITE_NOTADB": f"it is not a database: name another file, or, if memsieve wrote it, {_ANEW}",
        "SQLITE_CORRUPT": f"it is damaged: {_ANEW}",
        "SQLITE_IOERR": "the disk reports an error: check it and run again",
    }
    name = _error_name(error)
    meanings = (meaning for prefix, meaning in remedies.items() if name.startswith(prefix))
    return NoStore(f"{path}: {next(meanings, f'its tables were changed: {_ANEW}')} ({error})")


def _is_busy(error: sqlite3.Error) -> bool:
    return _error_name(error).startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def _error_name(error: sqlite3.Error) -> str:
    """Return SQLite's name of the error; "" if the Python module raised it."""
    return getattr(error, "sqlite_errorname", "") or ""
