"""What the beginning of a file tells of it: its encoding, its layout, what parts its columns."""

import codecs
import csv
import io
import json
import re
from dataclasses import dataclass
from itertools import islice
from typing import Literal

Layout = Literal["jsonl", "csv", "json"]
"""JSON objects one to a line; a table; JSON objects in an array, or over several lines."""

UTF_8 = "utf-8"
WESTERN = "cp1252"
"""Windows-1252. Every printable character of Latin-1 is at the same place in it."""

_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, with whose mark it begins
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, UTF_8),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_ZEROS_MIN = 0.1
"""A share of zero bytes at every other place: in UTF-16, each space and digit brings one."""

_BROKEN = re.compile("[\ud800-\udfff]")

_DELIMITERS = ",;\t|"
_RECORDS_MAX = 50


@dataclass(frozen=True)
class Shape:
    """How a file's bytes become rows. `mark` counts the bytes of its byte order mark."""

    layout: Layout
    encoding: str = UTF_8
    mark: int = 0
    delimiter: str = ","


def shape_of(head: bytes, name: str, wanted: Layout | None, *, whole: bool) -> Shape:
    """Tell a file's shape by its beginning, its name, and the layout that was asked for.

    `whole` where the beginning is all of it. Raises UnicodeError where the beginning is broken.
    """
    mark, encoding = encoding_of(head)
    text = decoded(head[mark:], encoding, whole=whole)
    layout = wanted or ("csv" if name.endswith((".csv", ".tsv")) else _json_layout(text))
    delimiter = delimiter_of(text) if layout == "csv" else None
    return Shape(layout, encoding, mark, delimiter or ",")


def encoding_of(head: bytes) -> tuple[int, str]:
    """Return how many bytes mark the encoding, and the encoding.

    What is neither marked nor UTF-16 nor Western text is taken as UTF-8, line by line.
    """
    for mark, encoding in _BOMS:
        if head.startswith(mark):
            return len(mark), encoding
    if (wide := _unmarked_utf_16(head)) is not None:
        return 0, wide
    text = decoded(head, UTF_8, whole=False)
    broken = len(_BROKEN.findall(text))
    well = sum(not character.isascii() for character in text) - broken
    return 0, WESTERN if broken > well and _is_western(head) else UTF_8


def decoded(head: bytes, encoding: str, *, whole: bool) -> str:
    """Decode a file's beginning, which may break off inside a character unless it is `whole`.

    What is not UTF-8 in a file that is taken as such is kept recognisable.
    """
    errors = "surrogateescape" if encoding == UTF_8 else "strict"
    return codecs.getincrementaldecoder(encoding)(errors).decode(head, final=whole)


def delimiter_of(text: str) -> str | None:
    """Return what parts the header, and most records as it does; None where nothing does."""
    best = max(_DELIMITERS, key=lambda delimiter: _fit(text, delimiter))
    return best if _fit(text, best) > (0, 0) else None


def _fit(text: str, delimiter: str) -> tuple[int, int]:
    """Count the records that are as wide as the header, and how wide that is."""
    try:
        records = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        widths = [len(record) for record in islice(records, _RECORDS_MAX) if record]
    except csv.Error:
        return 0, 0
    if not widths or widths[0] == 1:
        return 0, 0
    return widths.count(widths[0]), widths[0]


def _json_layout(text: str) -> Layout:
    """Tell objects in an array, or over several lines, from one object to a line.

    A line that is broken is the reader's business: it takes a whole object to say otherwise.
    """
    begins = text.lstrip()
    if begins.startswith("["):
        return "json" if re.match(r"\[\s*(?:[{\]]|$)", begins) else "jsonl"
    try:
        _, end = json.JSONDecoder().raw_decode(begins)
    except (ValueError, RecursionError):
        # An object that is longer than the beginning, or no JSON.
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
"""Quotes, dashes, the euro and such: beside a word, or between two."""

_ALONE = frozenset({b"\xe0", b"\xe8", b"\xe9", b"\xf2", b"\xf9", b"\xc0", b"\xc8", b"\xc9"})
"""Words of one letter: à, è, é, ò, ù."""

_LETTERS = re.compile(rb"[A-Za-z\x8c\x9c\xc0-\xd6\xd8-\xf6\xf8-\xff]+")
_PLAIN = re.compile(rb"[A-Za-z]")
_WESTERN_MIN = 0.75


def _is_western(head: bytes) -> bool:
    """Tell whether words with bytes past ASCII read like words of a Western language.

    They are letters, of which at least half are plain ones: `Zürich`, `señora`. In another code
    page, or in damaged UTF-8, signs stand within words, or words have no plain letter.

    A library that guesses among all code pages was tried (charset-normalizer 3.5.2) and not taken:
    of two German lines it makes Big5, and of French, Spanish and English ones Windows-1250.
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
