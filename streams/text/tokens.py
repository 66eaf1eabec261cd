"""Splits a text into tokens: words, numerals, marks, and spellings that are read as one."""
# ruff: noqa: SIM905 - a class of words is read as a line

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

MAGNITUDES = {
    "k": 1e3,
    "m": 1e6,
    "bn": 1e9,
    "b": 1e9,
    "hundred": 1e2,
    "thousand": 1e3,
    "million": 1e6,
    "billion": 1e9,
    "trillion": 1e12,
}

_NUMERAL = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
_CLOCK = r"[ap]\.?m\b\.?"


class Form(StrEnum):
    """The lexical form of a token."""

    URL = "url"
    EMAIL = "email"
    UUID = "uuid"
    PLACEHOLDER = "placeholder"
    PATH = "path"
    ISO = "iso"
    SLASHED = "slashed"
    CLOCK = "clock"
    VERSION = "version"
    MONEY = "money"
    CODE = "code"
    NUMBER = "number"
    WORD = "word"
    MARK = "mark"


class Token(NamedTuple):
    """A piece of a text as spelt, and its start offset."""

    form: Form
    text: str
    lower: str
    start: int


_PLAIN = r"(?P<plain>[a-z]+(?=\s(?!['\u2019])|$))|"
"""Most words: only letters, with no apostrophe after them. Matching them first halves the time."""
_TOKEN = re.compile(
    _PLAIN
    + "|".join(
        f"(?P<{form.value}>{pattern})"
        for form, pattern in {
            Form.URL: r"(?:https?|ftp|file)://[^\s<>\"')\]]+|\bwww\.[^\s<>\"')\]]+",
            Form.EMAIL: r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
            Form.UUID: r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b",
            Form.PLACEHOLDER: r"\$?\{[^{}\s]{1,40}\}|<[A-Za-z_][^<>\s]{0,40}>|%[sd]\b",
            Form.PATH: r"(?<![\w/])(?:[A-Za-z]:\\|~/|\.{1,2}/|/(?=[A-Za-z_.]))[\w.\-/\\]+"
            r"|\b[\w.-]+/(?:[\w.-]+/)*[\w-]+\.[a-z]\w{0,4}\b",
            Form.ISO: r"\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?"
            r"(?:Z|[+-]\d{2}:?\d{2})?)?\b",
            Form.SLASHED: r"\b(?:\d{1,2}/\d{1,2}/\d{4}|\d{1,2}/\d{1,2}/\d{2}|\d{4}/\d{1,2}/\d{1,2}"
            r"|\d{1,2}\.\d{1,2}\.\d{4})\b",
            Form.CLOCK: rf"\b\d{{1,2}}:\d{{2}}(?::\d{{2}})?(?:\s?{_CLOCK})?"
            rf"|\b\d{{1,2}}\s?{_CLOCK}|\b\d{{1,2}}h\d{{2}}\b",
            Form.VERSION: r"\b[vV]\d+(?:\.\d+){0,3}(?:[-.]?(?:rc|beta|alpha|post|dev)[.-]?\d*)?\b"
            r"|\b\d+(?:\.\d+){2,3}(?:[-.]?(?:rc|beta|alpha|post|dev)[.-]?\d*)?\b",
            Form.MONEY: rf"(?:\b(?:US|AU|CA|NZ|HK))?[$€£¥₹]\s?{_NUMERAL}(?:\s?(?:bn|[kKmMbB])\b)?"
            rf"|{_NUMERAL}\s?[€£¥₹](?!\d)",
            Form.CODE: r"\#\w+|\b[A-Z]{2,10}-\d+\b|\b(?=\w*[A-Za-z])(?=\w*\d)"
            rf"(?!{_NUMERAL}(?:%|st|[nr]d|th|k|K|[A-Za-zµ]{{1,4}})\b)\w+(?:-\w*\d\w*)*",
            Form.NUMBER: rf"(?:(?<![\w)])[-+\u2212])?{_NUMERAL}(?:%|(?:st|[nr]d|th)\b|\s?°[CF]?\b"
            r"|[A-Za-zµ]{1,4}\b)?|[½¼¾]",
            Form.WORD: r"\b[A-Za-z]+n ?['\u2019] ?t\b|(?:[A-Za-z]\.){2,}|[^\W\d_]+(?:['\u2019][^\W\d_]+)*(?:-[^\W\d_]+(?:['\u2019][^\W\d_]+)*)*",
            Form.MARK: r"['\u2019](?!\w)|[^\w\s]",
        }.items()
    )
)

_IRREGULAR = {
    "can't": ("can", "not"),
    "cannot": ("can", "not"),
    "won't": ("will", "not"),
    "shan't": ("shall", "not"),
    "ain't": ("is", "not"),
    "let's": ("let", "us"),
    "gonna": ("going", "to"),
    "wanna": ("want", "to"),
    "gotta": ("got", "to"),
    "dont": ("do", "not"),
    **{f"{verb}nt": (verb, "not") for verb in ("does", "did", "is", "are", "was", "could")},
    "im": ("i", "am"),
    "o'clock": ("o'clock",),
}
_ENDINGS = {"m": "am", "re": "are", "ve": "have", "ll": "will", "d": "would"}
_IS_BEHIND = frozenset("it he she that what there here who where how when why this".split())


def tokens(text: str) -> list[Token]:
    """Split a text into tokens; expand contractions, and split compounds at hyphens."""
    found: list[Token] = []
    for match in _TOKEN.finditer(text):
        spelling, form = match.group(), match.lastgroup
        if form == "plain" and spelling not in _IRREGULAR:
            found.append(Token(Form.WORD, spelling, spelling, match.start()))
        elif form in {"plain", "word"}:
            found += _words(spelling, match.start())
        else:
            found.append(Token(Form(form), spelling, spelling.lower(), match.start()))
    return found


def _words(spelling: str, start: int) -> Iterator[Token]:
    for part in spelling.split("-"):
        yield from _written_out(part, start)
        start += len(part) + 1


def _written_out(spelling: str, start: int) -> Iterator[Token]:
    spelling = spelling.replace(" ", "")
    lower = spelling.lower().replace("\u2019", "'")
    if whole := _IRREGULAR.get(lower):
        yield from (Token(Form.WORD, word, word, start) for word in whole)
    elif lower.endswith("n't"):
        if lower[:-3]:
            yield Token(Form.WORD, spelling[:-3], lower[:-3], start)
        yield Token(Form.WORD, "not", "not", start)
    elif "'" in lower:
        stem, _, ending = lower.rpartition("'")
        yield Token(Form.WORD, spelling[: len(stem)], stem, start)
        if ending == "s":
            ending = "is" if stem in _IS_BEHIND else "'s"
        yield Token(Form.WORD, _ENDINGS.get(ending, ending), _ENDINGS.get(ending, ending), start)
    else:
        yield Token(Form.WORD, spelling, lower, start)
