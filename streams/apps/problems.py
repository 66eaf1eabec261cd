"""Messages about invalid records: the field, and one line that says what is wrong."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def first_problem(errors: Sequence[Mapping[str, Any]], *, skip: int = 0) -> tuple[str, str]:
    """Return the field of the first error, without `skip` parts of its path, and what is wrong.

    `errors` are pydantic's. The value is never included, since it may be a memory's text.
    """
    first = errors[0]
    said = str(first["msg"]).removeprefix("Value error, ").removeprefix("Input ")
    return dotted(first["loc"][skip:]), said


def dotted(path: Iterable[str | int]) -> str:
    """Write a path as `events[2].scope`."""
    written = ""
    for part in path:
        written += f"[{part}]" if isinstance(part, int) else f".{part}" if written else part
    return written
