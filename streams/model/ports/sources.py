"""Where rows come from that are in no log yet."""

from collections.abc import (
    Iterator,
    Mapping,
)
from dataclasses import dataclass
from typing import Any, Protocol

from streams.model.ports.failures import Poison


@dataclass(frozen=True)
class SourceMark:
    """How far a source has been read: lines, and the digest of their bytes.

    `complete` is true if the source ended there.
    """

    line: int
    digest: str
    complete: bool


@dataclass(frozen=True)
class SourceLine:
    """One row of a source: its number from 1, its bytes, and the row or why there is none."""

    number: int
    content: bytes
    row: Mapping[str, Any] | Poison


class Source(Protocol):
    """Rows that come from outside the log, in their own order."""

    @property
    def name(self) -> str:
        """The source's name in event ids and marks."""
        ...

    @property
    def place(self) -> str:
        """The source's location as shown to a person."""
        ...

    @property
    def resumable(self) -> bool:
        """Whether reading can restart from the beginning."""
        ...

    def lines(self, after: SourceMark | None) -> Iterator[SourceLine]:
        """Yield the lines after the mark, or all of them if the content before it has changed.

        Raises Fatal if reading breaks off.
        """
        ...

    def mark(self, line: int, *, complete: bool) -> SourceMark:
        """Return the mark for everything up to the line that was yielded last."""
        ...
