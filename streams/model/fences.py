"""Whose decisions count: of all writers to a partition, only the one that fenced it last.

An owner that was presumed dead may still write. Its records have its old epoch, and all readers
reject the same ones.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Epoch:
    """A fence of a partition: its offset, and the token of the owner that wrote it.

    Offsets rise, so the higher epoch is the later one; the token distinguishes epochs if a log
    restored from a copy assigned an offset twice.
    """

    offset: int
    owner: str


@dataclass(frozen=True)
class ReadPosition:
    """How far a partition of decisions has been read.

    `offset` is one past the last record read; `epoch` is the newest fence before it, None if there
    was none; `next_event` is one past the last event decided on.
    """

    offset: int = 0
    epoch: Epoch | None = None
    next_event: int = 0


BEGINNING = ReadPosition()


def admits(newest: Epoch | None, claimed: Epoch | None) -> bool:
    """Return whether a record with the epoch `claimed` counts after the fence `newest`."""
    return newest is not None and claimed == newest
