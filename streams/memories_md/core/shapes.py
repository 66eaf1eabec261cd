"""Recognizes the structural lines of a Memories.md by their form alone."""

from typing import Literal, TypeAlias

Shape: TypeAlias = Literal["text", "blank", "heading", "memories", "entry", "tally", "rule"]
"""The kinds of lines; only "text" can be part of a memory's text."""

_RULE_MIN = 3


def shape_of(line: str) -> Shape:
    """Return the kind of a line; `line` is not empty, and may include its line end."""
    first = line[0]
    if first.isalnum():  # most lines
        return "text"
    if line.startswith("**["):
        return "entry"
    if line.isspace():
        return "blank"
    if first == "#":
        return _heading(line)
    if first in "*~":
        return _bold(line)
    return "rule" if _is_rule(line.strip()) else "text"


def opens_section(line: str) -> bool:
    """Return whether a line is a heading of the first or second level."""
    return line.startswith("#") and line.split(maxsplit=1)[0] in {"#", "##"}


def _heading(line: str) -> Shape:
    words = line.split(maxsplit=2)
    if words[0].strip("#"):  # as in #1
        return "text"
    return "memories" if words == ["###", "Memories"] else "heading"


def _bold(line: str) -> Shape:
    if line.startswith("**Visits:**"):
        return "tally"
    if line.startswith("~~**["):
        return "entry"
    titled = line.startswith("**") and "** *(" in line and line.rstrip().endswith(")*")
    return "entry" if titled else "text"


def _is_rule(line: str) -> bool:
    return len(line) >= _RULE_MIN and not line.strip("-")
