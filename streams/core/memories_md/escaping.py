"""Any text in a Memories.md: written so that it cannot pass for structure, and read back exactly.

Two means, both of them Markdown's own. A line that would be structure gets a backslash in front.
Characters that end a line for some readers are written as character references.
"""

import re

from streams.core.memories_md.shapes import shape_of

_CODES = "10|11|12|13|28|29|30|32|133|8232|8233"
_REFERENCE_AHEAD = rf"(?=(?:amp;)*#(?:{_CODES});)"
_TO_FOLD = re.compile(rf"[\n\x0b\x0c\r\x1c-\x1e\x85\u2028\u2029]|&{_REFERENCE_AHEAD}")
_FOLDED = re.compile(rf"&(?:#({_CODES});|amp;{_REFERENCE_AHEAD})")

_MARKS = ("#", "~", "[Superseded", "[Invalidated")
"""What a text never begins a line with, beside structure: a strikethrough begins with the first
line of a text, the note on a retired memory stands above it, and readers skip lines with a #."""


def folded(text: str) -> str:
    """Write a text in one line."""
    return _TO_FOLD.sub(_reference, text)


def unfolded(line: str) -> str:
    """Read what `folded` wrote."""
    return _FOLDED.sub(_character, line) if "&" in line else line


def escaped(text: str) -> str:
    """Write a text in lines none of which is structure or blank."""
    return "\n".join(_escaped_line(folded(line)) for line in text.split("\n"))


def unescaped(text: str) -> str:
    """Read what `escaped` wrote."""
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
    """Tell whether this would be structure, were it not for the backslashes in front of it."""
    bare = rest.lstrip("\\")
    return not bare or bare.startswith(_MARKS) or shape_of(bare) != "text"
