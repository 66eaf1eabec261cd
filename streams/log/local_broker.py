"""Topics, partitions, offsets and consumer groups in one SQLite file: the log of embedded mode.

It behaves like Kafka, so that a flow cannot tell the two apart. One process writes, any number may
read: the file is in WAL mode. A rehearsal, which keeps nothing, has it in memory.
"""

import json
import os
import shutil
import sqlite3
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any
from weakref import finalize

from pydantic_core import from_json, to_json

from streams.log.pages import page
from streams.model.ports.failures import Fatal, NoStore, Transient
from streams.model.ports.log import CommittedOffset, LogRecord, OutgoingRecord
from streams.model.ports.sources import SourceMark

_SCHEMA = """
BEGIN IMMEDIATE;
PRAGMA application_id = 1835363699; -- "mems"
CREATE TABLE IF NOT EXISTS partitions (
  topic TEXT NOT NULL, partition INTEGER NOT NULL, next_offset INTEGER NOT NULL,
  PRIMARY KEY (topic, partition)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS records (
  topic TEXT NOT NULL, partition INTEGER NOT NULL, "offset" INTEGER NOT NULL,
  key BLOB, value BLOB, headers TEXT NOT NULL,
  UNIQUE (topic, partition, "offset")
);
CREATE TABLE IF NOT EXISTS headers (
  topic TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, record INTEGER NOT NULL,
  PRIMARY KEY (topic, name, value, record)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS groups (
  name TEXT NOT NULL, topic TEXT NOT NULL, partition INTEGER NOT NULL,
  "offset" INTEGER NOT NULL, metadata TEXT NOT NULL,
  PRIMARY KEY (name, topic, partition)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS marks (
  source TEXT PRIMARY KEY, line INTEGER NOT NULL, digest TEXT NOT NULL, complete INTEGER NOT NULL
) WITHOUT ROWID;
COMMIT;
"""
"""One transaction: a kill leaves an empty file or a complete log."""

_BUSY_SECONDS = 2.0
"""How long a statement waits for another process's transaction before it raises Transient."""

_APPLICATION_ID = 1_835_363_699

_IN_MEMORY = Path("memory")

_AFTER_ALL = "\U0010ffff" * 200
"""A suffix that sorts after every other end of a name: names have up to 200 characters."""

_Headers = tuple[tuple[str, bytes | None], ...]


class LocalBroker:
    """Implements ports.Log and ports.Lookup over one file, or none.

    It also takes in the records of sources that are no log, and copies those of another log.
    `indexed` names, by topic, the headers that `find` can look up.
    """

    is_indexed = True

    def __init__(
        self,
        path: Path | None = None,
        *,
        indexed: Mapping[str, frozenset[str]] = MappingProxyType({}),
        read_only: bool = False,
    ) -> None:
        """Open the log, creating it unless `read_only`. Raises NoStore if it cannot be used.

        Without a path it is in memory, and ends with this object.
        """
        self._indexed = indexed
        self._path = path or _IN_MEMORY
        self._left = ExitStack()
        with self._meanings():
            self._db = sqlite3.connect(
                "file::memory:" if path is None else self._uri(path, read_only=read_only),
                uri=True,
                timeout=_BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=path is not None,
            )
        if path is None:
            finalize(self, self._db.close)  # in whichever thread collects it
        try:
            with self._meanings():
                self._prepare(read_only=read_only)
        except BaseException:
            self.close()
            raise

    def _uri(self, path: Path, *, read_only: bool) -> str:
        mode = "rwc"
        if read_only:
            # If the directory is not writable, no other process is writing either.
            mode = "ro" if os.access(path.parent, os.W_OK) else "ro&immutable=1"
        if mode == "ro&immutable=1" and _has_journal(path):
            mode, path = "ro", self._copied(path)
        return f"{path.absolute().as_uri()}?mode={mode}"

    def _copied(self, path: Path) -> Path:
        """Copy the log with its journal, and return the copy, which is there until it is closed.

        What a kill, or a backup of a store in use, has left in the journal is part of the log, and
        to read it SQLite writes beside it.
        """
        to = Path(self._left.enter_context(TemporaryDirectory())) / path.name
        for name in (path.name, _journal(path).name):
            shutil.copyfile(path.with_name(name), to.with_name(name))
        return to

    def _prepare(self, *, read_only: bool) -> None:
        """Check that the file is one of our logs; initialize it if it is empty."""
        [application] = self._row("PRAGMA application_id")
        empty = self._row("SELECT count(*) FROM sqlite_master") == (0,)
        if application != _APPLICATION_ID and (read_only or not empty):
            raise NoStore(f"{self._path}: it is not a log of memsieve: restore it from a copy")
        if not read_only:
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("PRAGMA secure_delete = ON")
            self._db.executescript(_SCHEMA)

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic; do nothing if it exists with the same number of partitions.

        Raises Fatal if it has a different number.
        """
        with self._transaction():
            existing = self._count(topic)
            if existing not in {0, partitions}:
                raise Fatal(f"topic {topic} has {existing} partitions, not {partitions}")
            self._db.executemany(
                "INSERT OR IGNORE INTO partitions VALUES (?, ?, 0)",
                [(topic, partition) for partition in range(partitions)],
            )

    def close(self) -> None:
        self._db.close()
        self._left.close()

    async def partitions(self, topic: str) -> int:
        with self._meanings():
            count = self._count(topic)
        if count == 0:
            raise Fatal(f"topic {topic} does not exist in {self._path}")
        return count

    async def append(self, records: Sequence[OutgoingRecord]) -> list[int]:
        with self._transaction():
            return self._append(records)

    async def read(self, topic: str, partition: int, offset: int, limit: int) -> list[LogRecord]:
        asked = 'topic = ? AND partition = ? AND "offset" >= ? ORDER BY "offset" LIMIT ?'
        with self._meanings():
            return page(self._records(asked, topic, partition, offset, limit))

    async def beginning(self, topic: str, partition: int) -> int:
        with self._meanings():
            end = self._next_offset(topic, partition)
            query = 'SELECT min("offset") FROM records WHERE topic = ? AND partition = ?'
            [first] = self._row(query, topic, partition)
        return end if first is None else first

    async def end(self, topic: str, partition: int) -> int:
        with self._meanings():
            return self._next_offset(topic, partition)

    async def erase(self, topic: str, partition: int, offsets: Sequence[int]) -> None:
        """Overwrite records with zeros, in the file and in its WAL.

        Raises Transient while another process reads the WAL.
        """
        with self._transaction():
            rows = self._db.execute(
                "SELECT rowid, headers FROM records WHERE topic = ? AND partition = ? "
                'AND "offset" IN (SELECT value FROM json_each(?))',
                (topic, partition, json.dumps(list(offsets))),
            ).fetchall()
            found = [(row, _headers_from_json(headers)) for row, headers in rows]
            self._db.executemany(
                "DELETE FROM headers WHERE topic = ? AND name = ? AND value = ? AND record = ?",
                [
                    (topic, *one)
                    for row, headers in found
                    for one in self._found_by(topic, row, headers)
                ],
            )
            self._db.executemany(
                "DELETE FROM records WHERE rowid = ?", [(row,) for row, _ in found]
            )
        self._let_go()

    def vacuum(self) -> None:
        """Rewrite the file without deleted data, so that no page keeps a stray copy of it."""
        with self._meanings():
            self._db.execute("VACUUM")
        self._let_go()

    def _let_go(self) -> None:
        """Empty the WAL."""
        with self._meanings():
            [busy, _, _] = self._row("PRAGMA wal_checkpoint(TRUNCATE)")
        if busy:
            raise Transient(f"{self._path} is being read: erased data is still in its WAL")

    async def commit(
        self, group: str, topic: str, partition: int, position: CommittedOffset
    ) -> None:
        with self._transaction():
            self._db.execute(
                "INSERT OR REPLACE INTO groups VALUES (?, ?, ?, ?, ?)",
                (group, topic, partition, position.offset, position.metadata),
            )

    async def committed(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        query = (
            'SELECT "offset", metadata FROM groups WHERE name = ? AND topic = ? AND partition = ?'
        )
        with self._meanings():
            row = self._row(query, group, topic, partition)
        return None if row is None else CommittedOffset(offset=row[0], metadata=row[1])

    async def find(self, topic: str, header: str, values: Sequence[str]) -> list[LogRecord]:
        self._require_indexed(topic, header)
        asked = (
            "rowid IN (SELECT record FROM headers WHERE topic = ? AND name = ? "
            'AND value IN (SELECT value FROM json_each(?))) ORDER BY partition, "offset"'
        )
        texts = json.dumps([value for value in values if _is_text(value)])
        with self._meanings():
            return list(self._records(asked, topic, header, texts))

    async def find_beginning(
        self, topic: str, headers: Sequence[str], beginning: str
    ) -> list[LogRecord]:
        for header in headers:
            self._require_indexed(topic, header)
        if not _is_text(beginning):
            return []
        asked = (
            "rowid IN (SELECT record FROM headers WHERE topic = ? AND name IN "
            "(SELECT value FROM json_each(?)) AND value BETWEEN ? AND ?) "
            'ORDER BY partition, "offset"'
        )
        names, last = json.dumps(list(headers)), beginning + _AFTER_ALL
        with self._meanings():
            return list(self._records(asked, topic, names, beginning, last))

    def _records(self, condition: str, *values: str | int) -> Iterator[LogRecord]:
        columns = 'topic, partition, "offset", key, value, headers'
        query = f"SELECT {columns} FROM records WHERE {condition}"  # noqa: S608 - all are ours
        return map(_record, self._db.execute(query, values))

    def _require_indexed(self, topic: str, header: str) -> None:
        if header not in self._indexed.get(topic, frozenset()):
            raise Fatal(f"header {header} of {topic} is not indexed")

    async def mark(self, source: str) -> SourceMark | None:
        """Return the last mark of a source: how far it was taken in."""
        with self._meanings():
            row = self._row("SELECT line, digest, complete FROM marks WHERE source = ?", source)
        return None if row is None else SourceMark(row[0], row[1], bool(row[2]))

    async def ingest(
        self, records: Sequence[OutgoingRecord], source: str, mark: SourceMark
    ) -> None:
        """Append the records and set the source's mark: both or neither."""
        with self._transaction():
            self._append(records)
            self._db.execute(
                "INSERT OR REPLACE INTO marks VALUES (?, ?, ?, ?)",
                (source, mark.line, mark.digest, mark.complete),
            )

    async def mirror(self, records: Sequence[LogRecord]) -> None:
        """Append records of another log at their own offsets, in order; skipped ones stay empty.

        Appends all or none. Raises Fatal if a partition has already passed such an offset.
        """
        with self._transaction():
            for record in records:
                end = self._next_offset(record.topic, record.partition)
                if record.offset < end:
                    raise Fatal(f"{record.place} cannot be taken over: {self._path} has {end:,}")
                self._raise_end(record.topic, record.partition, record.offset + 1)
            self._insert([_outgoing(one) for one in records], [one.offset for one in records])

    def _append(self, records: Sequence[OutgoingRecord]) -> list[int]:
        ends: dict[tuple[str, int], int] = {}
        offsets: list[int] = []
        for record in records:
            place = (record.topic, record.partition)
            offset = ends[place] if place in ends else self._next_offset(*place)
            ends[place] = offset + 1
            offsets.append(offset)
        self._insert(records, offsets)
        for (topic, partition), end in ends.items():
            self._raise_end(topic, partition, end)
        return offsets

    def _raise_end(self, topic: str, partition: int, end: int) -> None:
        self._db.execute(
            "UPDATE partitions SET next_offset = ? WHERE topic = ? AND partition = ?",
            (end, topic, partition),
        )

    def _insert(self, records: Sequence[OutgoingRecord], offsets: Sequence[int]) -> None:
        [last] = self._row("SELECT max(rowid) FROM records")
        numbered = list(enumerate(records, 1 if last is None else last + 1))
        self._db.executemany(
            'INSERT INTO records (rowid, topic, partition, "offset", key, value, headers) '
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                (row, r.topic, r.partition, offset, r.key, r.value, _headers_to_json(r.headers))
                for (row, r), offset in zip(numbered, offsets, strict=True)
            ],
        )
        self._db.executemany(
            "INSERT OR IGNORE INTO headers VALUES (?, ?, ?, ?)",
            [
                (record.topic, *one)
                for row, record in numbered
                for one in self._found_by(record.topic, row, record.headers)
            ],
        )

    def _found_by(self, topic: str, row: int, headers: _Headers) -> list[tuple[str, str, int]]:
        """Return the lookup entries of a record: header, value, row."""
        indexed = self._indexed.get(topic, frozenset())
        return [
            (name, value.decode("utf-8", "replace"), row)
            for name, value in headers
            if name in indexed and value is not None
        ]

    def _next_offset(self, topic: str, partition: int) -> int:
        query = "SELECT next_offset FROM partitions WHERE topic = ? AND partition = ?"
        row = self._row(query, topic, partition)
        if row is None:
            raise Fatal(f"topic {topic} has no partition {partition} in {self._path}")
        return row[0]

    def _count(self, topic: str) -> int:
        return self._row("SELECT count(*) FROM partitions WHERE topic = ?", topic)[0]

    def _row(self, query: str, *values: str | int) -> Any:  # noqa: ANN401 - what the columns hold
        """Return the first row of an answer; None if there is none."""
        return self._db.execute(query, values).fetchone()

    @contextmanager
    def _transaction(self) -> Generator[None]:
        """Run the block atomically and durably."""
        with self._meanings():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _meanings(self) -> Generator[None]:
        """Translate SQLite's errors for the caller."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._meaning(error) from error

    def _meaning(self, error: sqlite3.Error) -> Exception:
        name = getattr(error, "sqlite_errorname", "") or ""
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return Transient(f"{self._path} is locked by another process")
        remedy = {
            "SQLITE_FULL": "the disk is full: free some space and run again",
            "SQLITE_READONLY": "it cannot be written: check its permissions",
            "SQLITE_CANTOPEN": "it cannot be opened: check that its directory is there and writable",
            "SQLITE_NOTADB": "it is damaged or not a log: restore it from a copy",
            "SQLITE_CORRUPT": "it is damaged: restore it from a copy",
            "SQLITE_IOERR": "the disk reports an error: check it and run again",
        }
        for prefix, meaning in remedy.items():
            if name.startswith(prefix):
                return NoStore(f"{self._path}: {meaning} ({error})")
        return Fatal(f"{self._path}: {error}")


def _is_text(value: str) -> bool:
    """Return whether a value can be stored: terminals pass broken UTF-8 as surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


def _record(row: tuple[str, int, int, bytes | None, bytes | None, str]) -> LogRecord:
    topic, partition, offset, key, value, headers = row
    return LogRecord(topic, partition, offset, key, value, _headers_from_json(headers))


def _outgoing(record: LogRecord) -> OutgoingRecord:
    value = record.value or b""
    return OutgoingRecord(record.topic, record.partition, record.key, value, record.headers)


def _journal(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _has_journal(path: Path) -> bool:
    journal = _journal(path)
    return journal.is_file() and journal.stat().st_size > 0


def _headers_to_json(headers: _Headers) -> str:
    """Encode header bytes losslessly: Latin-1 maps each byte to one character."""
    return to_json([(n, None if v is None else v.decode("latin-1")) for n, v in headers]).decode()


def _headers_from_json(headers: str) -> _Headers:
    pairs: list[tuple[str, str | None]] = from_json(headers)
    return tuple((n, None if v is None else v.encode("latin-1")) for n, v in pairs)
