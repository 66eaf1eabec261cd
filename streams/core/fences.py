"""Whose decisions count: of all who write to a partition, only the one who fenced it last.

An owner that was thought dead may still write. Its records carry the epoch that it had; whoever
reads them refuses them, and all readers refuse the same ones.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Epoch:
    """A fence of a partition: its offset, and the token of the owner that wrote it.

    Offsets rise, so of two epochs the higher one is the later; the token tells them apart where a
    log that was restored from a copy gave an offset twice.
    """

    offset: int
    owner: str


@dataclass(frozen=True)
class Reached:
    """How far a partition of decisions has been followed.

    `offset` lies behind the last record read; `epoch` is the newest fence before it, None where
    there was none; `next_event` lies behind the last event decided on.
    """

    offset: int = 0
    epoch: Epoch | None = None
    next_event: int = 0


BEGINNING = Reached()


def admits(newest: Epoch | None, claimed: Epoch | None) -> bool:
    """Tell whether a record that claims an epoch counts where another fence is the newest."""
    return newest is not None and claimed == newest
