"""The decisions so far, without their texts: where each lies, and which pairs are in doubt."""

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from schemas.base import MemoryId, ScopeName
from schemas.decisions import (
    Band,
    Compared,
    Decision,
    Insert,
    Marker,
    Reason,
    Supersession,
    Verdict,
)
from schemas.topics import DECISIONS
from streams.memory.app.lifecycle import scope_of
from streams.model.identity import review_id
from streams.model.ports.log import pages
from streams.model.verdict import FOREIGN, of_one_memory
from streams.stage.core.explain import RATHER_ONE
from streams.stage.core.ledger import stated
from streams.stage.core.reviewing import Settlements
from streams.stage.flow.decisions import (
    CountedDecision,
    DecisionsReader,
    is_decision,
    read_decision,
)
from streams.store.app.reading import StoreReader
from streams.text.judge.weighing import ONE_MEMORY

LINES_MAX = 200_000
"""Decisions that are listed and counted: the newest. About 200 bytes each."""

CONTRADICTION = "contradiction"

_CLOSE = frozenset({Band.MATCH, Band.REVIEW})


@dataclass(frozen=True, slots=True)
class ChronicleLine:
    """A decision on something of a scope; `similarity` and `band` are those of its nearest memory."""

    partition: int
    offset: int
    scope: ScopeName
    kind: str
    reason: Reason | None = None
    at: datetime | None = None
    similarity: float | None = None
    band: Band | None = None


@dataclass(frozen=True, slots=True)
class DoubtfulPair:
    """Two memories that were kept both, and may be one fact, or contradict each other.

    `doubts` are what kept them apart, in a few words each.
    """

    id: str
    partition: int
    offset: int
    scope: ScopeName
    newer: MemoryId
    older: MemoryId
    similarity: float
    doubts: tuple[str, ...]

    @property
    def memories(self) -> frozenset[MemoryId]:
        return frozenset({self.newer, self.older})


class Chronicle:
    """Reads what was decided since it was last asked. For one event loop."""

    def __init__(self, past: StoreReader) -> None:
        self._log = past.log
        self._readers: dict[int, DecisionsReader] = {}
        self._reading = asyncio.Lock()
        self.lines: deque[ChronicleLine] = deque(maxlen=LINES_MAX)
        self.pairs: dict[str, DoubtfulPair] = {}
        self.settlements = Settlements()
        self.live: dict[ScopeName, set[MemoryId]] = {}

    async def level(self) -> "Chronicle":
        """Bring it level with the log. Raises Transient, or Fatal where that is damaged."""
        async with self._reading:
            for partition in range(await self._log.partitions(DECISIONS.name)):
                reader = self._readers.setdefault(partition, DecisionsReader())
                start = reader.reached.offset
                async for page in pages(self._log, DECISIONS.name, partition, start):
                    for logged in reader.window(page):
                        self._take(logged)
        return self

    async def decision(self, at: ChronicleLine | DoubtfulPair) -> Decision | None:
        """Return what lies there; None where that was erased."""
        found = await self._log.read(DECISIONS.name, at.partition, at.offset, 1)
        if not found or found[0].offset != at.offset or not is_decision(found[0]):
            return None
        return read_decision(found[0])

    async def compared(self, pair: DoubtfulPair) -> tuple[Insert, Compared] | None:
        """Return what kept a pair apart, and how it saw both; None where that was erased."""
        decision = await self.decision(pair)
        near = decision.evidence.neighbours if isinstance(decision, Insert) else ()
        found = next((one for one in near if one.memory_id == pair.older), None)
        return (decision, found) if isinstance(decision, Insert) and found is not None else None

    def stand(self, pair: DoubtfulPair) -> bool:
        """Tell whether both memories of a pair are live."""
        return {pair.newer, pair.older} <= self.live.get(pair.scope, set())

    def _take(self, logged: CountedDecision) -> None:
        decision, at = logged.decision, logged.position
        scope = scope_of(decision)
        if scope is None:
            return
        self.settlements.decided(decision)
        self.lines.append(_line(decision, scope, at.partition, at.offset))
        self._keep(decision)
        self.pairs |= {pair.id: pair for pair in _pairs(decision, at.partition, at.offset)}

    def _keep(self, decision: Decision) -> None:
        """Note which memories are live."""
        for memory in stated(decision):
            live = self.live.setdefault(memory.scope, set())
            (live.add if memory.live else live.discard)(memory.id)
        if isinstance(decision, Supersession):
            retired = {one.memory_id for one in decision.targets} - {decision.memory.id}
            self.live[decision.memory.scope] -= retired


def _line(decision: Decision, scope: ScopeName, partition: int, offset: int) -> ChronicleLine:
    if isinstance(decision, Marker):
        return ChronicleLine(partition, offset, scope, decision.kind)
    nearest = next(iter(decision.evidence.neighbours), None)
    return ChronicleLine(
        partition,
        offset,
        scope,
        decision.kind,
        decision.evidence.reason,
        decision.event.occurred_at,
        None if nearest is None else nearest.similarity,
        None if nearest is None else nearest.band,
    )


def _pairs(decision: Decision, partition: int, offset: int) -> Iterator[DoubtfulPair]:
    if not isinstance(decision, Insert):
        return
    for near in decision.evidence.neighbours:
        identity = review_id(decision.decision_id, near.memory_id)
        doubts = doubts_of(near)
        if identity in decision.evidence.reviews or (doubts and near.band in _CLOSE):
            yield DoubtfulPair(
                identity,
                partition,
                offset,
                decision.event.scope,
                decision.memory.id,
                near.memory_id,
                near.similarity,
                doubts,
            )


def doubts_of(near: Compared) -> tuple[str, ...]:
    """Tell in a few words each what leaves in doubt whether a neighbour states a different fact."""
    if near.verdict is Verdict.CONTRADICTS:
        return (CONTRADICTION,)
    if near.verdict is Verdict.UNSURE:
        guards = dict.fromkeys(f"guard {finding.guard}" for finding in near.findings)
        nobody = near.judge if near.judge.startswith(FOREIGN) else "nobody could tell"
        return tuple(guards) or (nobody,)
    is_apart = near.verdict not in ONE_MEMORY and near.probabilities is not None
    rather = is_apart and of_one_memory(near.probabilities or {}) >= RATHER_ONE
    return ("rather one memory",) if rather else ()
