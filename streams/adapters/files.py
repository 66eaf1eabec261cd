"""Lines of files as rows: JSON Lines and CSV, gzipped or not, or standard input."""

import csv
import gzip
import hashlib
import os
import sys
import zlib
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from pydantic_core import from_json

from streams.ports import Fatal, Line, Mark, Poison

LINE_BYTES_MAX = 16_777_216
"""A longer line is refused unread: it would have to be held in memory whole."""

_CSV_FIELD_MAX = 1_048_576
"""A quote that is never closed swallows the lines behind it up to here, and into a dead letter."""

Format = Literal["jsonl", "csv"]
STDIN = "-"
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Progress:
    """How much of a source has been read, in bytes as stored; `total` None for a pipe."""

    done: int
    total: int | None


class FileSource:
    """Implements ports.Source for one file, or `-` for standard input.

    Its name is the file's without directory and `.gz`: moved or packed, it is the same source. A
    pipe, however it is reached, is read as standard input.
    The format follows the name (`.csv`, `.csv.gz`; anything else is JSON Lines) unless given.
    """

    def __init__(self, path: str, format_: Format | None = None, *, reading: str = "") -> None:
        """Raise Fatal where there is nothing to read.

        `reading` says what else decides what a line becomes: a mark made under another reading
        does not fit, and everything is read again.
        """
        piped = path == STDIN or (Path(path).exists() and not _is_stored(Path(path)))
        self.place = "stdin" if path == STDIN else _text(path)
        self.name = "stdin" if piped else _text(Path(path).name.removesuffix(".gz"))
        self._reading = f"{reading}\n{format_}"
        self.resumable = not piped
        self._path = path
        self._format: Format = format_ or _format_of(path)
        self._raw: BinaryIO | None = None
        self._digest = hashlib.sha256(self._reading.encode())
        if self.resumable:
            with self._opened():
                pass

    def progress(self) -> Progress:
        """Tell how far reading has got."""
        if self._raw is None or not self.resumable:
            return Progress(0, None)
        total = Path(self._path).stat().st_size
        return Progress(total if self._raw.closed else self._raw.tell(), total)

    def lines(self, after: Mark | None) -> Iterator[Line]:
        skipped = after.line if after is not None and self._begins_with(after) else 0
        yield from (line for line in self._all_lines() if line.number > skipped)

    def mark(self, line: int, *, complete: bool) -> Mark:
        return Mark(line, self._digest.hexdigest(), complete)

    def _begins_with(self, mark: Mark) -> bool:
        """Tell whether the bytes up to the mark are those that were read then."""
        number = 0
        for line in self._all_lines():
            number = line.number
            if number >= mark.line:
                break
        return number == mark.line and self._digest.hexdigest() == mark.digest

    def _all_lines(self) -> Iterator[Line]:
        self._digest = hashlib.sha256(self._reading.encode())
        with self._opened() as stream:
            rows = _csv_rows if self._format == "csv" else _json_rows
            yield from rows(self._hashed(stream))

    def _hashed(self, stream: BinaryIO) -> Iterator[bytes]:
        """Yield the physical lines, each hashed; of one that is too long only the beginning."""
        while line := stream.readline(LINE_BYTES_MAX + 1):
            self._digest.update(line)
            rest = line
            while len(rest) > LINE_BYTES_MAX and not rest.endswith(b"\n"):
                rest = stream.readline(LINE_BYTES_MAX + 1)
                self._digest.update(rest)
            yield line

    @contextmanager
    def _opened(self) -> Generator[BinaryIO]:
        """Open the file, unzipped; say in one line why it cannot be read."""
        try:
            with self._bytes() as raw:
                self._raw = raw
                zipped = self._path.endswith(".gz")
                yield cast("BinaryIO", gzip.GzipFile(fileobj=raw)) if zipped else raw
        except (OSError, EOFError, zlib.error, Fatal) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise Fatal(f"{self.place} cannot be read: {reason}") from error

    def _bytes(self) -> BinaryIO:
        if self._path != STDIN:
            return Path(self._path).open("rb")
        # A reader of our own: one that is abandoned in mid-read must not hold sys.stdin's lock.
        return cast("BinaryIO", open(sys.stdin.fileno(), "rb", closefd=False))


def _is_stored(path: Path) -> bool:
    """Tell whether a path can be read twice: pipes and terminals cannot."""
    return path.is_file() or path.is_dir()


def _text(name: str) -> str:
    """Write a file name that is not UTF-8 so that it can be shown and stored."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _format_of(path: str) -> Format:
    return "csv" if path.removesuffix(".gz").endswith(".csv") else "jsonl"


def _json_rows(lines: Iterator[bytes]) -> Iterator[Line]:
    """Yield one row per line that is not blank."""
    for number, raw in enumerate(lines, start=1):
        content = raw.removeprefix(_BOM).strip() if number == 1 else raw.strip()
        if content:
            yield Line(number, content, _too_long(raw) or _json_row(content))


def _json_row(content: bytes) -> dict[str, Any] | Poison:
    try:
        row = from_json(content, allow_inf_nan=False)
    except ValueError as error:
        return Poison(f"not JSON: {error}; write one JSON object per line, in UTF-8")
    if not isinstance(row, dict):
        return Poison("is no JSON object; write one JSON object per line")
    return cast("dict[str, Any]", row)


def _csv_rows(lines: Iterator[bytes]) -> Iterator[Line]:
    """Yield one row per record; the first record names the columns.

    Where a record breaks, its first line is set aside and reading goes on with the next: a quote
    that is never closed must not take the rows behind it along.
    """
    csv.field_size_limit(_CSV_FIELD_MAX)
    physical = _Physical(lines)
    reader = csv.reader(physical, strict=True)
    columns: list[str] | None = None
    while True:
        number = physical.begin()
        try:
            values = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            content = physical.keep_first()
            yield Line(number, content, Poison(f"not CSV: {error}; is a quote left open?"))
            reader = csv.reader(physical, strict=True)
            continue
        content = physical.record()
        if columns is None:
            columns = values
            if twice := {name for name in columns if columns.count(name) > 1}:
                raise Fatal(f"the header names the column {', '.join(sorted(twice))} twice")
        elif values:
            yield Line(number, content, _too_long(content) or _csv_row(columns, values))


class _Physical:
    """The lines of a CSV file, as text, with the bytes of the record that is being read."""

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
        text = line.removeprefix(_BOM) if self._number == 1 else line
        # What is not UTF-8 is kept recognisable, so that the row can be refused by its column.
        return text.decode("utf-8", "surrogateescape")

    def begin(self) -> int:
        """Begin a record; return the number of its first line."""
        self._taken.clear()
        return self._number + 1

    def record(self) -> bytes:
        return b"".join(self._taken).strip()

    def keep_first(self) -> bytes:
        """Give up a record: return its first line, and read the others once more."""
        first, *rest = self._taken
        self._again.extendleft(reversed(rest))
        self._number -= len(rest)
        return first.strip()


def _csv_row(columns: list[str], values: list[str]) -> dict[str, Any] | Poison:
    if len(values) != len(columns):
        return Poison(f"has {len(values)} values for {len(columns)} columns")
    for column, value in zip(columns, values, strict=True):
        if any("\ud800" <= character <= "\udfff" for character in value):
            return Poison(f"column {column} is not UTF-8; save the file as UTF-8", column)
    return dict(zip(columns, values, strict=True))


def _too_long(content: bytes) -> Poison | None:
    if len(content) <= LINE_BYTES_MAX:
        return None
    return Poison(f"is longer than {LINE_BYTES_MAX:,} bytes; split it")
