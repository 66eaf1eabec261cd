"""Rows of files and of standard input: JSON, CSV and lists, gzipped or not; Parquet."""

import csv
import gzip
import hashlib
import io
import os
import re
import sys
import zlib
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from pydantic_core import from_json, to_json

from schemas.codec import Unreadable
from streams.model.ports.failures import Fatal, Poison
from streams.model.ports.sources import SourceLine, SourceMark
from streams.store.core.exports import ExportFormat, entries, format_of, may_be_document
from streams.store.core.shapes import ITEM, UNDECODED, UTF_8, Layout, Shape, decoded, shape_of
from streams.store.world.extras import how_to_install

if TYPE_CHECKING:
    from streams.store.world.parquet import JsonLines

LINE_BYTES_MAX = 16_777_216
"""A longer line is refused unread: it would have to be held in memory as a whole."""

HEAD_BYTES = 65_536
"""The bytes from which the shape is detected and the sample is taken: mostly hundreds of rows. More
are read for the sample where a row is longer than half of them.

Reading waits until a pipe has delivered so much: no more than the rows of a batch or two.
"""

_SAMPLE_ROWS_MAX = 50_000
"""Rows that are looked at in vain: a CSV record of the largest size may have as many lines."""

_CHUNK_BYTES = 65_536
_CSV_FIELD_MAX = 1_048_576
"""An unclosed quote swallows the following lines up to this size, into one dead letter."""

DOCUMENT_BYTES_MAX = 2_147_483_648
"""A document of one object is held in memory as a whole."""

STDIN = "-"
_GZIP = b"\x1f\x8b"
_PARQUET = b"PAR1"
_FOREIGN = {
    b"PK\x03\x04": "an Excel workbook or another ZIP archive",
    b"SQLite format 3\0": "an SQLite database",
    b"%PDF": "a PDF",
}


@dataclass(frozen=True)
class Progress:
    """How much of a source has been read, in stored bytes; `total` is None for a pipe."""

    done: int
    total: int | None


class FileSource:
    """Implements ports.Source for one file, or `-` for standard input.

    Its name is the file's without directory and `.gz`: moved or compressed, it is the same source.
    A pipe is read as standard input, however it was opened. `reading` identifies what else decides
    what a line becomes: a mark made under another reading does not match, and everything is read
    again. With `exports`, the rows of another program's export are read by its format.
    """

    def __init__(self, path: str, layout: Layout | None = None, *, exports: bool = False) -> None:
        """Inspect the beginning. Raises Fatal if nothing can be read."""
        file = Path(path)
        piped = path == STDIN or (file.exists() and not (file.is_file() or file.is_dir()))
        self.place = "stdin" if path == STDIN else _text(path)
        self.name = "stdin" if piped else _text(file.name.removesuffix(".gz"))
        self.reading = ""
        self.resumable = not piped
        self._path = path
        self._raw: io.BufferedReader | None = None
        self._pipe: io.BufferedReader | None = None
        self._table: JsonLines | None = None
        self._seen = b""
        self._in_parquet = self._in_document = False
        self._digest = hashlib.sha256()
        with self._told():
            self._in_parquet = self._stored(HEAD_BYTES).startswith(_PARQUET)
            layout = "jsonl" if self._in_parquet else layout
            head, whole = self._beginning(HEAD_BYTES)
            if layout is None and self._is_document(head):
                layout, self._in_document = "jsonl", True
                head, whole = self._beginning(HEAD_BYTES)
            self.shape: Shape = shape_of(head, self.name, layout, whole=whole)
            self.export: ExportFormat | None = None
            if exports and self.shape.layout != "csv":
                rows = [line.row for line in self._sample]
                self.export = format_of([row for row in rows if not isinstance(row, Poison)])

    def sample(self) -> list[SourceLine]:
        """Return the rows of the beginning. Raises Fatal if the header is invalid."""
        with self._told():
            return [self._read(line) for line in self._sample if self._states(line)]

    def is_empty(self) -> bool:
        """Return whether there is no row to decide on; False while a pipe may still bring one."""
        if self.sample():
            return False
        if self.resumable:
            return next(self.lines(None), None) is None
        _, whole = self._beginning(HEAD_BYTES)
        return whole

    def progress(self) -> Progress:
        """Return how far reading has got."""
        if self._raw is None or not self.resumable:
            return Progress(0, None)
        total = Path(self._path).stat().st_size
        if self._table is not None:
            return Progress(int(total * self._table.share), total)
        return Progress(total if self._raw.closed else self._raw.tell(), total)

    def lines(self, after: SourceMark | None) -> Iterator[SourceLine]:
        skipped = after.line if after is not None and self._begins_with(after) else 0
        lines = (line for line in self._all_lines() if line.number > skipped)
        yield from (self._read(line) for line in lines if self._states(line))

    def mark(self, line: int, *, complete: bool) -> SourceMark:
        return SourceMark(line, self._digest.hexdigest(), complete)

    def _states(self, line: SourceLine) -> bool:
        """Return whether a row is one to decide on."""
        export, row = self.export, line.row
        return export is None or isinstance(row, Poison) or export.states(row)

    def _read(self, line: SourceLine) -> SourceLine:
        if self.export is None or isinstance(line.row, Poison):
            return line
        return replace(line, row=self.export.read(line.row))

    def _begins_with(self, mark: SourceMark) -> bool:
        """Return whether the bytes up to the mark are unchanged since."""
        number = 0
        for line in self._all_lines():
            number = line.number
            if number >= mark.line:
                break
        return number == mark.line and self._digest.hexdigest() == mark.digest

    def _all_lines(self) -> Iterator[SourceLine]:
        self._digest = hashlib.sha256(f"{self.reading}\n{self.shape}".encode())
        with self._told(), self._opened() as stream:
            yield from _up_to_a_break(_rows(_Hashed(stream, self._digest.update), self.shape))

    @cached_property
    def _sample(self) -> list[SourceLine]:
        """The rows of the beginning: of so much that one can be read, and none is over half of it."""
        size = HEAD_BYTES
        while True:
            head, whole = self._beginning(size)
            text = decoded(head[self.shape.mark :], self.shape.encoding, whole=whole)
            content = text.encode("utf-8", "surrogateescape")
            stream = _Hashed(io.BytesIO(content), hashlib.sha256().update)
            rows = list(_rows(stream, self.shape))
            longest = max((len(row.content) for row in rows), default=0)
            if whole or longest > LINE_BYTES_MAX or len(rows) > _SAMPLE_ROWS_MAX:
                return rows
            unread = all(isinstance(row.row, Poison) for row in rows[:-1])
            if not rows or (2 * longest <= len(content) and not unread):
                return rows[:-1]  # the last is cut off
            size *= 4

    def _beginning(self, size: int) -> tuple[bytes, bool]:
        """Return the decompressed beginning, and whether it is everything."""
        packed = self._stored(size)
        plain = self._in_parquet or self._in_document
        head = packed if plain else _unpacked(packed, self._path, size)
        return head, len(packed) < size and len(head) < size

    def _stored(self, size: int) -> bytes:
        """Return the beginning as stored; keep that of a pipe for the actual reading."""
        if not self.resumable:
            if self._in_parquet:
                raise Fatal("it is a Parquet file, which is not read from a pipe; name the file")
            self._pipe = self._pipe or self._bytes()
            self._seen += self._pipe.read(size - len(self._seen))
            return self._seen
        with self._bytes() as raw:
            if self._in_parquet:
                return io.BufferedReader(_table(raw)).read(size)
            if self._in_document and (rows := _listed(raw)):
                return rows.read(size)
            return raw.read(size)

    def _is_document(self, head: bytes) -> bool:
        """Return whether a file is one object that holds an export's rows."""
        if not (self.resumable and may_be_document(head.decode("utf-8-sig", "replace"))):
            return False
        with self._bytes() as raw:
            return _listed(raw) is not None

    @contextmanager
    def _opened(self) -> Generator["_Stream"]:
        """Open the file, decompressed and in UTF-8."""
        with self._from_the_start() as raw:
            self._raw = raw
            if self._in_parquet:
                self._table = _table(raw)
                yield io.BufferedReader(self._table)
                return
            if self._in_document:
                yield _listed(raw) or io.BytesIO()
                return
            stream = _unzipped(raw)
            stream.read(self.shape.mark)
            yield stream if self.shape.encoding == UTF_8 else _Recoded(stream, self.shape.encoding)

    @contextmanager
    def _told(self) -> Generator[None]:
        """Report in one line why a file cannot be read."""
        try:
            yield
        except (OSError, EOFError, UnicodeError, zlib.error, Fatal) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise Fatal(f"{self.place} cannot be read: {reason}") from error

    def _from_the_start(self) -> io.BufferedReader:
        if self._pipe is None:
            return self._bytes()
        return io.BufferedReader(_Rest(self._seen, self._pipe))

    def _bytes(self) -> io.BufferedReader:
        if self._path != STDIN:
            return Path(self._path).open("rb")
        # Its own reader: one that is abandoned in mid-read must not hold sys.stdin's lock.
        return open(sys.stdin.fileno(), "rb", closefd=False)


class _Stream(Protocol):
    """The input of the row readers: bytes in UTF-8."""

    def read(self, size: int, /) -> bytes: ...
    def readline(self, size: int, /) -> bytes: ...


class _Rest(io.RawIOBase):
    """A pipe from its beginning, part of which has already been read."""

    def __init__(self, head: bytes, rest: io.BufferedReader) -> None:
        self._head = io.BytesIO(head)
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:  # noqa: ANN401 - any writable buffer
        taken = self._head.read(len(buffer)) or self._rest.read1(len(buffer))
        buffer[: len(taken)] = taken
        return len(taken)


class _Recoded:
    """A stream in another encoding, converted to UTF-8."""

    def __init__(self, stream: io.BufferedReader | gzip.GzipFile, encoding: str) -> None:
        self._text = io.TextIOWrapper(stream, encoding, newline="\n")

    def read(self, size: int, /) -> bytes:
        return self._text.read(size).encode()

    def readline(self, size: int, /) -> bytes:
        return self._text.readline(size).encode()


class _Hashed:
    """A stream read in lines or chunks, each hashed as it is read."""

    def __init__(self, stream: _Stream, update: Callable[[bytes], None]) -> None:
        self._stream = stream
        self._update = update

    def lines(self) -> Iterator[bytes]:
        """Yield the physical lines; of an overlong one only the beginning."""
        while line := self._stream.readline(LINE_BYTES_MAX + 1):
            self._update(line)
            rest = line
            while len(rest) > LINE_BYTES_MAX and not rest.endswith(b"\n"):
                rest = self._stream.readline(LINE_BYTES_MAX + 1)
                self._update(rest)
            yield line

    def chunks(self) -> Iterator[bytes]:
        while chunk := self._stream.read(_CHUNK_BYTES):
            self._update(chunk)
            yield chunk


def _table(raw: io.BufferedReader) -> "JsonLines":
    """Open a Parquet file. Raises Fatal where the extra that reads it is missing."""
    try:
        from streams.store.world.parquet import JsonLines  # noqa: PLC0415 - only who has one needs it
    except ImportError as error:
        raise Fatal(
            f"it is a Parquet file: {how_to_install('parquet')}, or save it as CSV or JSON Lines"
        ) from error
    return JsonLines(raw)


def _unzipped(raw: io.BufferedReader) -> io.BufferedReader | gzip.GzipFile:
    return gzip.GzipFile(fileobj=raw) if raw.peek(len(_GZIP)).startswith(_GZIP) else raw


def _listed(raw: io.BufferedReader) -> io.BytesIO | None:
    """Return the rows of a document as JSON Lines; None if it holds those of no known export.

    Raises Fatal if it is too large, or its parts do not fit together.
    """
    content = _unzipped(raw).read(DOCUMENT_BYTES_MAX + 1)
    if len(content) > DOCUMENT_BYTES_MAX:
        raise Fatal(f"it is longer than {DOCUMENT_BYTES_MAX:,} bytes; export it in parts")
    try:
        found = entries(from_json(content.removeprefix(b"\xef\xbb\xbf"), allow_inf_nan=False))
    except Unreadable as error:
        raise Fatal(str(error)) from error
    except ValueError:
        return None
    if found is None:
        return None
    if format_of([cast("dict[str, Any]", one) for one in found if isinstance(one, dict)]) is None:
        return None
    return io.BytesIO(b"".join(to_json(one) + b"\n" for one in found))


def _text(name: str) -> str:
    """Escape a file name that is not UTF-8, so that it can be shown and stored."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _unpacked(head: bytes, path: str, size: int) -> bytes:
    """Return a file's decompressed beginning, up to `size` bytes.

    Raises Fatal if it cannot contain rows.
    """
    if what := next((what for begins, what in _FOREIGN.items() if head.startswith(begins)), None):
        raise Fatal(f"it is {what}; save it as CSV or JSON Lines")
    if head.startswith(_GZIP):
        return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(head, size)
    if head and path.endswith(".gz"):
        raise Fatal("its name ends in .gz, but it is not gzip; rename it, or pack it with gzip")
    return head


def _up_to_a_break(rows: Iterator[SourceLine]) -> Iterator[SourceLine]:
    """Yield the rows. Raises Fatal with the remedy where gzip data are cut off or damaged."""
    number = 0
    try:
        for line in rows:
            number = line.number
            yield line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise Fatal(
            f"after row {number:,}: {error}; pack the file again, and repeat the command"
        ) from error


def _rows(stream: _Hashed, shape: Shape) -> Iterator[SourceLine]:
    match shape.layout:
        case "csv":
            return _csv_rows(stream.lines(), shape.delimiter)
        case "json":
            return _document_rows(stream.chunks())
        case "jsonl":
            return _json_rows(stream.lines())
        case "list":
            return _item_rows(stream.lines())


def _json_rows(lines: Iterator[bytes]) -> Iterator[SourceLine]:
    """Yield one row per nonblank line."""
    for number, raw in enumerate(lines, start=1):
        if content := raw.strip():
            yield SourceLine(number, content, _too_long(raw) or _json_row(content))


def _item_rows(lines: Iterator[bytes]) -> Iterator[SourceLine]:
    """Yield one row per item of a list; indented lines below an item go on with it.

    Headings and paragraphs are no rows: they say what the items are about.
    """
    number, item = 0, list[str]()
    for at, raw in enumerate(lines, start=1):
        line = raw.decode("utf-8", "surrogateescape")
        if begun := ITEM.match(line):
            yield from _item_row(number, item)
            number, item = at, [line[begun.end() :]]
        elif item and line[:1].isspace() and line.strip():
            item.append(line)
        else:
            yield from _item_row(number, item)
            item = []
    yield from _item_row(number, item)


def _item_row(number: int, item: Sequence[str]) -> Iterator[SourceLine]:
    if text := " ".join(map(str.strip, item)):
        content = text.encode("utf-8", "surrogateescape")
        broken = Poison("is not UTF-8; save the file as UTF-8") if UNDECODED.search(text) else None
        yield SourceLine(number, content, _too_long(content) or broken or {"text": text})


def _document_rows(chunks: Iterator[bytes]) -> Iterator[SourceLine]:
    """Yield one row per object, numbered by its position in the array or among the objects.

    An array that is cut off behind an object ends with a row that says so.
    """
    number, row, outer = 0, None, _Outer()
    for number, content in enumerate(_entries(outer.seen(chunks)), start=1):
        row = _json_row(content)
        yield SourceLine(number, content, row)
    if outer.is_open and not isinstance(row, Poison):
        yield SourceLine(number + 1, b"[", Poison("the array is not closed: is the file complete?"))


class _Outer:
    """The first and the last byte of a document, blanks aside."""

    def __init__(self) -> None:
        self._first = self._last = b""

    def seen(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Pass the chunks on."""
        for chunk in chunks:
            if written := chunk.strip():
                self._first = self._first or written[:1]
                self._last = written[-1:]
            yield chunk

    @property
    def is_open(self) -> bool:
        return self._first == b"[" and self._last != b"]"


_TOKEN = re.compile(rb'\\.|["{}]', re.DOTALL)
"""The tokens that delimit an object: braces outside strings; an escape hides a quote."""
_BETWEEN = b" \t\r\n,[]"


def _entries(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the raw objects of a document, and whatever else is between them.

    They are not parsed here, so a broken one does not affect the others.
    """
    held, at, depth, quoted = b"", 0, 0, False
    for chunk in chunks:
        held, begun = held + chunk, 0
        while found := _TOKEN.search(held, at):
            at = found.end()
            token = found.group()
            if token == b'"':
                quoted = not quoted
            elif quoted or token.startswith(b"\\"):
                continue
            elif token == b"{":
                if not depth:
                    yield from _unless_blank(held[begun : found.start()])
                    begun = found.start()
                depth += 1
            else:
                depth = max(depth - 1, 0)
                if not depth:
                    yield from _unless_blank(held[begun:at])
                    begun = at
        # An escape may be split across chunks: its first half is scanned again with the next chunk.
        at = max(at, len(held) - held.endswith(b"\\")) - begun
        held = held[begun:]
        if len(held) > LINE_BYTES_MAX:
            raise Fatal(
                f"an entry is longer than {LINE_BYTES_MAX:,} bytes; is a quote or brace left open?"
            )
    yield from _unless_blank(held)


def _unless_blank(entry: bytes) -> Iterator[bytes]:
    if content := entry.strip(_BETWEEN):
        yield content


def _json_row(content: bytes) -> dict[str, Any] | Poison:
    try:
        row = from_json(content, allow_inf_nan=False)
    except ValueError as error:
        return Poison(f"not JSON: {error}; write one JSON object per line, in UTF-8")
    if not isinstance(row, dict):
        return Poison("is not a JSON object; write one JSON object per line")
    return cast("dict[str, Any]", row)


def _csv_rows(lines: Iterator[bytes], delimiter: str) -> Iterator[SourceLine]:
    """Yield one row per record; the first record names the columns.

    If a record is broken, its first line is set aside and reading continues with the next: an
    unclosed quote must not swallow the rows after it.
    """
    csv.field_size_limit(_CSV_FIELD_MAX)
    physical = _Physical(lines)
    reader = csv.reader(physical, strict=True, delimiter=delimiter)
    columns: list[str] | None = None
    while True:
        number = physical.begin()
        try:
            values = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            content = physical.keep_first()
            yield SourceLine(number, content, Poison(f"not CSV: {_told(error)}"))
            reader = csv.reader(physical, strict=True, delimiter=delimiter)
            continue
        content = physical.record()
        if columns is None:
            columns = values
            if UNDECODED.search("".join(columns)):
                raise Fatal(
                    "the header is no text in UTF-8, UTF-16 or Windows-1252; save the table as CSV "
                    "in UTF-8"
                )
            if twice := {name for name in columns if columns.count(name) > 1}:
                raise Fatal(f"the header names the column {', '.join(sorted(twice))} twice")
        elif values:
            yield SourceLine(number, content, _too_long(content) or _csv_row(columns, values))


def _told(error: csv.Error) -> str:
    if "new-line character" in str(error):
        return "a line ends in a carriage return alone; save it with Unix or Windows line ends"
    return f"{error}; is a quote left open?"


class _Physical:
    """The lines of a CSV file as text, with the bytes of the current record."""

    def __init__(self, lines: Iterator[bytes]) -> None:
        self._lines = lines
        self._again: deque[bytes] = deque()
        self._taken: list[bytes] = []
        self._number = 0

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._again.popleft() if self._again else next(self._lines)
        self._taken.append(line)
        self._number += 1
        # Invalid UTF-8 is kept recognisable, so that the row can be refused by its column.
        return line.decode("utf-8", "surrogateescape")

    def begin(self) -> int:
        """Begin a record; return the number of its first line."""
        self._taken.clear()
        return self._number + 1

    def record(self) -> bytes:
        return b"".join(self._taken).strip()

    def keep_first(self) -> bytes:
        """Give up a record: return its first line, and queue the others to be read again."""
        first, *rest = self._taken
        self._again.extendleft(reversed(rest))
        self._number -= len(rest)
        return first.strip()


def _csv_row(columns: list[str], values: list[str]) -> dict[str, Any] | Poison:
    if len(values) != len(columns):
        return Poison(f"the number of values is {len(values)}, that of the columns {len(columns)}")
    for column, value in zip(columns, values, strict=True):
        if UNDECODED.search(value):
            return Poison(f"column {column} is not UTF-8; save the file as UTF-8", column)
    return dict(zip(columns, values, strict=True))


def _too_long(content: bytes) -> Poison | None:
    if len(content) <= LINE_BYTES_MAX:
        return None
    return Poison(f"is longer than {LINE_BYTES_MAX:,} bytes; split it")
