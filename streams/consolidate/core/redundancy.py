"""Statistics of a store: near-duplicates that remain, growth, removals and supersession chains."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from schemas.base import MemoryId, ScopeName
from schemas.decisions import Change, Revision
from schemas.events import Remember
from schemas.memories import Memory
from streams.model.embedding import SIMILARITY_DECIMALS, Vector
from streams.stage.core.ledger import stated, touched

THRESHOLDS = (0.98, 0.95, 0.90, 0.85, 0.80, 0.75)

_ROWS = 512
"""Vectors compared with all others at once: 20 MB of similarities for 10,000 vectors."""

_ROUNDING = 0.5 * 10.0**-SIMILARITY_DECIMALS
"""Half a unit of the bands' rounding, so that the same pairs count as at a threshold here."""

_DECIMALS = 4
"""Of measures, as they are told to programs."""

HEALTHY = (0.05, 0.20)
ALERT = 0.50
"""The share of memories that deduplication removes: the usual range, and the level of alert."""


def rounded(number: float | None) -> float | None:
    """Round a measure as it is told to programs."""
    return None if number is None else round(number, _DECIMALS)


@dataclass
class Crowding:
    """How many pairs reach each threshold, and how many memories have such a neighbour."""

    memories: int = 0
    pairs: Counter[float] = field(default_factory=Counter[float])
    near: Counter[float] = field(default_factory=Counter[float])

    @classmethod
    def of(cls, scopes: Iterable[Sequence[Vector]]) -> Self:
        """Return that of memories, given the unit vectors of each scope; thresholds are inclusive."""
        crowding = cls()
        for vectors in filter(len, scopes):
            crowding._add(vectors)
        return crowding

    def _add(self, vectors: Sequence[Vector]) -> None:
        count = len(vectors)
        self.memories += count
        matrix = np.stack(vectors)
        near = {threshold: np.zeros(count, np.bool_) for threshold in THRESHOLDS}
        for start in range(0, count, _ROWS):
            self._add_rows(matrix, start, near)
        for threshold, marks in near.items():
            self.near[threshold] += int(marks.sum())

    def _add_rows(
        self, matrix: NDArray[np.float32], start: int, near: Mapping[float, NDArray[np.bool_]]
    ) -> None:
        """Compare a block of rows with itself and all later rows."""
        rows = matrix[start : start + _ROWS]
        cosines = rows @ matrix[start:].T
        cosines[:, : len(rows)][np.tril_indices(len(rows))] = -1.0  # each pair once
        for threshold in THRESHOLDS:
            above = cosines >= threshold - _ROUNDING
            self.pairs[threshold] += int(np.count_nonzero(above))
            near[threshold][start : start + len(rows)] |= above.any(axis=1)
            near[threshold][start:] |= above.any(axis=0)


@dataclass
class Removal:
    """What deduplication removed: the events, and the memories that are live."""

    events: int = 0
    live: int = 0
    retiring: int = 0

    @property
    def removed(self) -> int:
        return self.events - self.live

    @property
    def removal_rate(self) -> float | None:
        return self.removed / self.events if self.events else None

    @property
    def merge_rate(self) -> float | None:
        """The share of decisions that retire a memory."""
        return self.retiring / self.events if self.events else None

    @property
    def status(self) -> str:
        share = self.removal_rate
        if share is None:
            return "unknown"
        if share > ALERT:
            return "alert"
        low, high = HEALTHY
        return "low" if share < low else "high" if share > high else "healthy"

    def as_json(self) -> dict[str, Any]:
        """Return the figures for programs, with stable keys."""
        return {
            "memories_before": self.events,
            "memories_after": self.live,
            "removed_count": self.removed,
            "removal_rate": rounded(self.removal_rate),
            "status": self.status,
        }


@dataclass
class LogStatistics:
    """The statistics of a log's decisions: growth, and removal overall and by scope."""

    overall: Removal = field(default_factory=Removal)
    scopes: dict[ScopeName, Removal] = field(default_factory=dict[ScopeName, Removal])
    _days: dict[date, Counter[str]] = field(default_factory=dict[date, Counter[str]])
    _live: dict[MemoryId, bool] = field(default_factory=dict[MemoryId, bool])

    def add(self, decision: Change | Revision) -> None:
        """Count the next decision that changed the store."""
        made, retired = self._changed(decision)
        said = isinstance(decision.event, Remember)
        day = self._days.setdefault(decision.event.occurred_at.date(), Counter())
        day.update(events=said, made=made, retired=retired)
        for removal in (
            self.overall,
            self.scopes.setdefault(decision.event.scope, Removal()),
        ):
            removal.events += said
            removal.live += made - retired
            removal.retiring += retired > 0

    def _changed(self, decision: Change | Revision) -> tuple[int, int]:
        """Return how many memories a decision creates or restores, and how many it retires."""
        stays = {memory.id for memory in stated(decision) if memory.live}
        made = retired = 0
        for identity in touched(decision):
            before, after = self._live.get(identity), identity in stays
            made += before is None or (after and not before)
            retired += before is not False and not after
            self._live[identity] = after
        return made, retired

    def days(self) -> Iterator[tuple[date, int, int, int]]:
        """Yield each day, by event time, with the events, memories and live memories until then."""
        total = Counter[str]()
        for day in sorted(self._days):
            total.update(self._days[day])
            yield day, total["events"], total["made"], total["made"] - total["retired"]

    def worst(self, events_min: int) -> list[tuple[ScopeName, Removal]]:
        """Return the scopes with at least `events_min` events, highest removal rate first."""
        large = [one for one in self.scopes.items() if one[1].events >= events_min]
        return sorted(large, key=lambda one: (-(one[1].removal_rate or 0.0), one[0]))


@dataclass(frozen=True)
class Supersession:
    """The length of the chains from superseded memories to their live successors."""

    superseded: int
    depth_max: int
    depth_mean: float | None
    without_live_successor: tuple[MemoryId, ...]


def supersession(memories: Mapping[MemoryId, Memory]) -> Supersession:
    """Follow each superseded memory to its live successor and report those without one.

    A chain may also end at a memory that was ended on purpose.
    """
    depths: list[int] = []
    lost: list[MemoryId] = []
    for identity, memory in memories.items():
        if memory.superseded is None or memory.superseded.by is None:
            continue
        *before, last = chain(identity, memories)
        if last.superseded is not None and last.superseded.by is not None:
            lost.append(identity)
        else:
            depths.append(len(before))
    return Supersession(
        superseded=len(depths) + len(lost),
        depth_max=max(depths, default=0),
        depth_mean=sum(depths) / len(depths) if depths else None,
        without_live_successor=tuple(sorted(lost)),
    )


def chain(identity: MemoryId, memories: Mapping[MemoryId, Memory]) -> list[Memory]:
    """Return a memory, and each that superseded the one before it.

    The last one is live or has ended, unless the chain is broken or has a cycle.
    """
    found: dict[MemoryId, Memory] = {}
    while identity in memories and identity not in found:
        memory = found[identity] = memories[identity]
        if memory.superseded is None or memory.superseded.by is None:
            break
        identity = memory.superseded.by
    return list(found.values())
