"""What the terminal gets: lines for people, JSON for programs. Untrusted text cannot steer it."""

import json
import os
import re
import sys
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any

from rich.console import Console
from rich.text import Text

from streams.model.ports.failures import Fatal
from streams.model.ports.models import NOT_CONFIGURED
from streams.store.core.counts import number


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to `_to_standard_output`: a reader that has seen enough is no error."""
        raise BrokenPipeError


out = _Console(highlight=False, soft_wrap=True)
err = _Console(stderr=True, highlight=False, soft_wrap=True)

_REASONS_MAX = 3
"""How many reasons of missing answers are printed: those of a server may all differ."""

_STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def say(line: str = "", style: str = "") -> None:
    """Print a line on standard output."""
    with _to_standard_output():
        out.print(Text(harmless(line), style=style))


def note(line: str, style: str = "dim") -> None:
    """Print a line on standard error: what is not the result."""
    err.print(Text(harmless(line), style=style))


def note_silent(silent: Mapping[str, int], of: str = "") -> None:
    """Warn of who gave no answer, and for how many rows: the first few if there are many reasons."""
    for who, count in islice(silent.items(), _REASONS_MAX):
        remedy = "; set llm.base_url and llm.model, or choose another policy"
        told = f"{of}no answer for {number(count, 'row')} from {who}"
        note(f"{told}{remedy if who.endswith(NOT_CONFIGURED.reason) else ''}", style="yellow")


def more(count: int, one: str, several: str) -> None:
    """Say how many a listing has left out, if any."""
    if count > 0:
        note(f"{number(count, f'more {one}', f'more {several}')}: raise --limit to see all")


def mark_of(*, healthy: bool, warned: bool = False) -> tuple[str, str]:
    """Return the mark that begins a line about something that was checked, and its style."""
    if not healthy:
        return "!!", "red"
    return ("! ", "yellow") if warned else ("ok", "green")


def say_json(items: Iterable[Any]) -> None:
    """Print a JSON array, an element a line; never holds more than one element."""
    with _to_standard_output():
        sys.stdout.write("[")
        for count, item in enumerate(items):
            sys.stdout.write(",\n" if count else "\n")
            sys.stdout.write(json.dumps(item, ensure_ascii=sys.stdout.isatty()))
        sys.stdout.write("\n]\n")


def say_line(item: Any) -> None:  # noqa: ANN401 - any JSON value
    """Print one JSON value on a line, at once."""
    with _to_standard_output():
        sys.stdout.write(json.dumps(item, ensure_ascii=sys.stdout.isatty()) + "\n")


def say_object(item: Any) -> None:  # noqa: ANN401 - any JSON value
    """Print one JSON value."""
    with _to_standard_output():
        sys.stdout.write(json.dumps(item, ensure_ascii=sys.stdout.isatty(), indent=2) + "\n")


def tell(lines: Iterable[str], item: Any, *, as_json: bool) -> None:  # noqa: ANN401 - any JSON value
    """Print a result: line by line for a person, or as one JSON value for a program."""
    if as_json:
        say_object(item)
        return
    for line in lines:
        say(line)


def say_bytes(data: bytes) -> None:
    """Write bytes to standard output as they are: only where that is no terminal."""
    with _to_standard_output():
        sys.stdout.buffer.write(data)


@contextmanager
def _to_standard_output() -> Generator[None]:
    """End quietly where whoever reads our output, such as `head`, has seen enough.

    Raises Fatal where it cannot be written, as on a full disk.
    """
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        # What is still buffered must not fail once more when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            sys.exit(0)
        raise Fatal(f"standard output cannot be written: {error.strerror}") from error


def harmless(text: str) -> str:
    """Show what would steer a terminal, or forge a line, instead of obeying it."""
    return _STEERING.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def quoted(text: str, width: int = 0) -> str:
    """Return a memory's text on one line, cut to a width where one is given."""
    line = " ".join(text.split())
    if width and len(line) > width:
        line = f"{line[: width - 1]}…"
    return f'"{line}"'
