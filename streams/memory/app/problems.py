"""The problem with an invalid record: its field, and a one-line message."""

from collections.abc import Sequence

from pydantic import ValidationError

from schemas.codec import plain

_SAID = {
    "missing": "is missing",
    "timezone_aware": "has no time zone; write 2026-03-14T09:30:00Z",
}


def first_problem(error: ValidationError, unknown: str) -> tuple[str, str]:
    """Return the field of the first error, and what is wrong with it.

    `unknown` is what is said of a field that there is not. Never tells the value, which may be a
    memory's text.
    """
    first = error.errors(include_url=False, include_input=False)[0]
    said = {"extra_forbidden": unknown} | _SAID
    return dotted(first["loc"]), said.get(first["type"]) or plain(first)


def dotted(path: Sequence[str | int]) -> str:
    """Write a path as `events[2].scope`; in metadata it ends at a name, whatever that has inside."""
    end = path.index("metadata") + 2 if "metadata" in path else None
    written = ""
    for part in path[:end]:
        written += f"[{part}]" if isinstance(part, int) else f".{part}" if written else part
    return written
