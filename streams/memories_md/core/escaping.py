"""Escapes any text for a Memories.md, so that it cannot pass for structure and reads back exactly.

Both means are Markdown's own. A line that would be structure gets a leading backslash. Characters
that some readers take for line ends become character references.
"""

import re

from streams.memories_md.core.shapes import shape_of

_CODES = "10|11|12|13|28|29|30|32|133|8232|8233"
_REFERENCE_AHEAD = rf"(?=(?:amp;)*#(?:{_CODES});)"
_TO_FOLD = re.compile(rf"[\n\x0b\x0c\r\x1c-\x1e\x85\u2028\u2029]|&{_REFERENCE_AHEAD}")
_FOLDED = re.compile(rf"&(?:#({_CODES});|amp;{_REFERENCE_AHEAD})")

_MARKS = ("#", "~", "[Superseded", "[Invalidated")
"""What a text's line never begins with, in addition to structure: a strikethrough begins with the
text's first line, the note on retirement stands above it, and readers skip lines with a #."""


def folded(text: str) -> str:
    """Write a text on one line."""
    return _TO_FOLD.sub(_reference, text)


def unfolded(line: str) -> str:
    """Reverse `folded`."""
    return _FOLDED.sub(_character, line) if "&" in line else line


def escaped(text: str) -> str:
    """Write a text as lines, none of which is structure or blank."""
    return "\n".join(_escaped_line(folded(line)) for line in text.split("\n"))


def unescaped(text: str) -> str:
    """Reverse `escaped`."""
    if "\\" in text:
        text = "\n".join(map(_unescaped_line, text.split("\n")))
    return unfolded(text)


def _reference(match: re.Match[str]) -> str:
    return "&amp;" if match[0] == "&" else f"&#{ord(match[0])};"


def _character(match: re.Match[str]) -> str:
    return chr(int(match[1])) if match[1] else "&"


def _escaped_line(line: str) -> str:
    rest = line.lstrip()
    indent = line[: len(line) - len(rest)]
    return f"{indent}\\{rest}" if _needs_backslash(rest) else line


def _unescaped_line(line: str) -> str:
    rest = line.lstrip()
    indent = line[: len(line) - len(rest)]
    return indent + rest[1:] if rest.startswith("\\") and _needs_backslash(rest) else line


def _needs_backslash(rest: str) -> bool:
    """Return whether this would be structure without its leading backslashes."""
    bare = rest.lstrip("\\")
    return not bare or bare.startswith(_MARKS) or shape_of(bare) != "text"
