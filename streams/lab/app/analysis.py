"""Analysis of a whole store or file: how redundant it is, and whether it grows healthily."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from schemas.base import ScopeName
from schemas.decisions import NoChange
from schemas.events import Remember
from streams.consolidate.core.redundancy import (
    THRESHOLDS,
    Crowding,
    LogStatistics,
    Removal,
    Supersession,
    rounded,
    supersession,
)
from streams.lab.app.labelled import Unmeasurable, event_of_row
from streams.model.embedding import Vector
from streams.model.ports.failures import Poison
from streams.model.ports.models import Embedder
from streams.stage.core.ledger import embeddings
from streams.store.app.reading import StoreReader
from streams.store.world.files import FileSource

_WORST_SCOPES = 10
_SCOPE_EVENTS_MIN = 20
"""Rates of scopes with fewer events are not meaningful."""


@dataclass(frozen=True)
class Analysis:
    """The findings. A file has no decisions, hence no history and no supersession."""

    place: str
    model: str
    scopes: int
    memories: int
    crowding: Crowding
    history: LogStatistics | None = None
    chains: Supersession | None = None
    observations: float | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the findings for programs, with stable keys."""
        return {
            "place": self.place,
            "model": self.model,
            "scopes": self.scopes,
            "memories": self.memories,
            "live": self.crowding.memories,
            "pairs": [_pairs(self.crowding, threshold) for threshold in THRESHOLDS],
            "growth": None if self.history is None else _growth(self.history),
            "health": None if self.history is None else _health(self.history),
            "supersession": None if self.chains is None else _chains(self.chains),
            "observations_average": rounded(self.observations),
        }


async def of_store(reader: StoreReader) -> Analysis:
    """Analyse the state that a log's decisions add up to. Raises NoStore if they do not add up."""
    history, models = LogStatistics(), set[str]()
    async for entry in reader.decisions():
        decision = entry.decision
        if not isinstance(decision, NoChange):
            history.add(decision)
            models |= {embedding.model for embedding in embeddings(decision)}
    state = await reader.state()
    live = [stored for stored in state.values() if stored.memory.live]
    by_scope = dict[ScopeName, list[Vector]]()
    for stored in live:
        if stored.vector is not None:
            by_scope.setdefault(stored.memory.scope, []).append(stored.vector)
    seen = [stored.memory.observation_count for stored in live]
    return Analysis(
        place=reader.place,
        model=", ".join(sorted(models)),
        scopes=len(by_scope),
        memories=len(state),
        crowding=await asyncio.to_thread(Crowding.of, by_scope.values()),
        history=history,
        chains=supersession({identity: stored.memory for identity, stored in state.items()}),
        observations=sum(seen) / len(seen) if seen else None,
    )


async def of_file(
    source: FileSource, embedder: Embedder, *, batch_records: int, done: Callable[[int], None]
) -> Analysis:
    """Analyse rows or events as if each were a memory. Raises Unmeasurable at a bad row."""
    by_scope = dict[ScopeName, list[Vector]]()
    rows = 0
    events = _events(source)
    while batch := list(islice(events, batch_records)):
        embedded = await embedder.embed([event.text for event in batch])
        for event, made in zip(batch, embedded, strict=True):
            by_scope.setdefault(event.scope, []).append(made.vector)
        rows += len(batch)
        done(len(batch))
    return Analysis(
        place=source.place,
        model=embedder.model,
        scopes=len(by_scope),
        memories=rows,
        crowding=await asyncio.to_thread(Crowding.of, by_scope.values()),
    )


def _events(source: FileSource) -> Iterator[Remember]:
    for line in source.lines(None):
        place = f"{source.place}:{line.number}"
        if isinstance(line.row, Poison):
            raise Unmeasurable(f"{place}: {line.row}")
        yield event_of_row(line.row, place, line.number)


def _pairs(crowding: Crowding, threshold: float) -> dict[str, Any]:
    near = crowding.near[threshold]
    return {
        "threshold": threshold,
        "pairs": crowding.pairs[threshold],
        "memories": near,
        "share": rounded(near / crowding.memories) if crowding.memories else None,
    }


def _growth(history: LogStatistics) -> dict[str, Any]:
    days = [
        {"day": day.isoformat(), "events": events, "memories": memories, "live": live}
        for day, events, memories, live in history.days()
    ]
    return {
        "days": days,
        "events": history.overall.events,
        "live": history.overall.live,
        "size_reduction": rounded(history.overall.removal_rate),
    }


def _health(history: LogStatistics) -> dict[str, Any]:
    worst = history.worst(_SCOPE_EVENTS_MIN)[:_WORST_SCOPES]
    return {
        **_removal(history.overall),
        "worst_scopes": [{"scope": scope, **_removal(removal)} for scope, removal in worst],
    }


def _removal(removal: Removal) -> dict[str, Any]:
    return {**removal.as_json(), "merge_rate": rounded(removal.merge_rate)}


def _chains(chains: Supersession) -> dict[str, Any]:
    return {
        "superseded": chains.superseded,
        "depth_max": chains.depth_max,
        "depth_mean": rounded(chains.depth_mean),
        "without_live_successor": len(chains.without_live_successor),
        "examples": list(chains.without_live_successor[:_WORST_SCOPES]),
    }
