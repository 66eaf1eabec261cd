"""Detection of a file's encoding, layout and delimiter from its beginning."""

import codecs
import csv
import io
import json
import re
from dataclasses import dataclass
from itertools import islice
from typing import Literal

Layout = Literal["jsonl", "csv", "json", "list"]
"""JSON objects one per line; a table; JSON objects in an array or over several lines; items."""

ITEM = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s+(?:\[[ xX]\]\s+)?(?=\S)")
"""What an item of a list in Markdown begins with: a bullet or a number, and perhaps a box."""

UTF_8 = "utf-8"
WESTERN = "cp1252"
"""Windows-1252, which includes every printable character of Latin-1 at the same code."""

_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, since it starts with that BOM
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, UTF_8),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_ZEROS_MIN = 0.1
"""Minimum share of zero bytes at even or odd positions: in UTF-16, spaces and digits have one."""

UNDECODED = re.compile("[\ud800-\udfff]")
"""What `decoded` makes of a byte that is not UTF-8."""

_DELIMITERS = ",;\t|"
_RECORDS_MAX = 50


@dataclass(frozen=True)
class Shape:
    """How a file's bytes become rows; `mark` is the length of its byte order mark in bytes."""

    layout: Layout
    encoding: str = UTF_8
    mark: int = 0
    delimiter: str = ","


def shape_of(head: bytes, name: str, wanted: Layout | None, *, whole: bool) -> Shape:
    """Return a file's shape, from its beginning, its name and the requested layout.

    `whole`: the beginning is the entire file. Raises UnicodeError if it cannot be decoded.
    """
    mark, encoding = encoding_of(head)
    text = decoded(head[mark:], encoding, whole=whole)
    layout = wanted or _layout(text, name)
    delimiter = delimiter_of(text) if layout == "csv" else None
    return Shape(layout, encoding, mark, delimiter or ",")


def _layout(text: str, name: str) -> Layout:
    if _is_list(text, name):
        return "list"
    return "csv" if _is_table(text, name) else _json_layout(text)


def _is_list(text: str, name: str) -> bool:
    """Return whether a file holds items; but for Markdown, nothing except headings is before them.

    A table may have items, too, in values of several lines.
    """
    in_markdown = name.lower().endswith((".md", ".markdown"))
    if "." in name and not (in_markdown or name.lower().endswith(".txt")):
        return False
    lines = (line for line in text.splitlines() if line.strip() and not line.startswith("#"))
    return any(map(ITEM.match, lines if in_markdown else islice(lines, 1)))


def encoding_of(head: bytes) -> tuple[int, str]:
    """Return the length of the byte order mark in bytes, and the encoding.

    A file without a mark that is neither UTF-16 nor Western text is read as UTF-8, line by line.
    """
    for mark, encoding in _BOMS:
        if head.startswith(mark):
            return len(mark), encoding
    if (wide := _unmarked_utf_16(head)) is not None:
        return 0, wide
    text = decoded(head, UTF_8, whole=False)
    broken = len(UNDECODED.findall(text))
    well = sum(not character.isascii() for character in text) - broken
    return 0, WESTERN if broken > well and _is_western(head) else UTF_8


def decoded(head: bytes, encoding: str, *, whole: bool) -> str:
    """Decode a file's beginning, which may end inside a character unless it is `whole`.

    In UTF-8, invalid bytes are kept as surrogate escapes.
    """
    errors = "surrogateescape" if encoding == UTF_8 else "strict"
    return codecs.getincrementaldecoder(encoding)(errors).decode(head, final=whole)


def delimiter_of(text: str) -> str | None:
    """Return the delimiter that splits most records like the header; None if none does."""
    best = max(_DELIMITERS, key=lambda delimiter: _fit(text, delimiter))
    return best if _fit(text, best) > (0, 0) else None


def _fit(text: str, delimiter: str) -> tuple[int, int]:
    """Return how many records are as wide as the header, and that width; 0, 0 if one column."""
    try:
        records = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        widths = [len(record) for record in islice(records, _RECORDS_MAX) if record]
    except csv.Error:
        return 0, 0
    if not widths or widths[0] == 1:
        return 0, 0
    return widths.count(widths[0]), widths[0]


def _is_table(text: str, name: str) -> bool:
    """Return whether a file is CSV, by its ending; without one, by its content."""
    if name.endswith((".csv", ".tsv")):
        return True
    if name.endswith((".json", ".jsonl", ".ndjson")) or text.lstrip().startswith(("{", "[")):
        return False
    delimiter = delimiter_of(text)
    return delimiter is not None and _fit(text, delimiter)[0] > 1


def _json_layout(text: str) -> Layout:
    """Return "json" for objects in an array or over several lines, "jsonl" for one per line.

    Broken lines are left to the reader: only a complete object can show that it is not "jsonl".
    """
    begins = text.lstrip()
    if begins.startswith("["):
        return "json" if re.match(r"\[\s*(?:[{\]]|$)", begins) else "jsonl"
    try:
        _, end = json.JSONDecoder().raw_decode(begins)
    except (ValueError, RecursionError):
        # An object longer than the beginning, or not JSON.
        return "json" if begins.partition("\n")[0].strip() == "{" else "jsonl"
    several = "\n" in begins[:end] or begins[end:].lstrip(" \t").startswith("{")
    return "json" if begins.startswith("{") and several else "jsonl"


def _unmarked_utf_16(head: bytes) -> str | None:
    even, odd = head[::2].count(0), head[1::2].count(0)
    enough = _ZEROS_MIN * len(head) / 2
    if odd > enough and not even:
        return "utf-16-le"
    return "utf-16-be" if even > enough and not odd else None


_WORDS = re.compile(rb"[A-Za-z\x80-\xff]*[\x80-\xff][A-Za-z\x80-\xff]*")
_SIGNS = re.compile(
    rb"(?<![A-Za-z])[\x84\x93]|\x94(?![A-Za-z])"
    rb"|[\x80\x85\x8b\x91\x92\x95-\x97\x99\x9b\xa0\xa1\xa7\xa9\xab\xad\xae\xb0\xb4\xb7\xbb\xbf]"
)
"""Quotes, dashes, the euro sign and the like: next to a word, or between two."""

_ALONE = frozenset({b"\xe0", b"\xe8", b"\xe9", b"\xf2", b"\xf9", b"\xc0", b"\xc8", b"\xc9"})
"""Words of one letter: à, è, é, ò, ù."""

_LETTERS = re.compile(rb"[A-Za-z\x8c\x9c\xc0-\xd6\xd8-\xf6\xf8-\xff]+")
_PLAIN = re.compile(rb"[A-Za-z]")
_WESTERN_MIN = 0.75


def _is_western(head: bytes) -> bool:
    """Return whether the words with non-ASCII bytes look like words of a Western language.

    Such words consist of letters, at least half of them ASCII: `Zürich`, `señora`. In another code
    page, or in damaged UTF-8, there are signs within words, or words without ASCII letters.

    charset-normalizer 3.5.2, which guesses among all code pages, was tried and rejected: it detects
    two German lines as Big5, and French, Spanish and English ones as Windows-1250.
    """
    parts = [
        part
        for word in _WORDS.findall(head)
        for part in _SIGNS.split(word)
        if not part.isascii() and part not in _ALONE
    ]
    good = sum(
        _LETTERS.fullmatch(part) is not None and 2 * len(_PLAIN.findall(part)) >= len(part)
        for part in parts
    )
    return good >= _WESTERN_MIN * len(parts)
