"""Another program's store freed of what it says twice: reported, or written anew beside it.

Its rows are decided on as `memsieve run` decides, in their order and in memory, then consolidated.
A row goes only where another one, or a text that is made of several, says what it says; what cannot
be read is kept as it is. The source is never written to.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from schemas.base import MemoryId, PolicyId, ScopeName
from schemas.codec import Unreadable
from schemas.decisions import Change, Decision
from schemas.events import Remember
from schemas.memories import Memory
from streams.adapters.clock import SystemClock
from streams.adapters.passes import Passes
from streams.apps.consolidated import Consolidated
from streams.apps.consolidating import Asked, Consolidation
from streams.apps.policies import with_bands
from streams.apps.proposing import InMemory
from streams.apps.rehearsing import Means, Rehearsal, for_repeats
from streams.apps.settings import ConsolidateSettings
from streams.core.bands import Bands
from streams.core.embedding import Vector
from streams.core.foreign import Columns, event_of, name_of, written
from streams.core.policy import Policy
from streams.core.redundancy import THRESHOLDS, Crowding, Removal

_DECIMALS = 4


@dataclass(frozen=True)
class Row:
    """A row of the source, by its number from 1; `said` is its event, or why there is none."""

    number: int
    content: Mapping[str, Any]
    said: Remember | Unreadable

    @property
    def name(self) -> str:
        return name_of(self.content, self.number)


@dataclass(frozen=True)
class Group:
    """Rows that are one memory now; `stays` is the one whose other columns are kept."""

    memory: Memory
    vector: Vector | None
    stays: Row
    rows: tuple[Row, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "scope": self.memory.scope,
            "stays": self.stays.name,
            "text_after": self.memory.text,
            "members": [
                {"id": row.name, "text": row.said.text}
                for row in self.rows
                if isinstance(row.said, Remember)
            ],
        }


@dataclass(frozen=True)
class Deduped:
    """What deduplication makes of a source: all its rows are in a group, or are `refused`."""

    place: str
    policy: PolicyId
    columns: Columns
    rows: int
    groups: tuple[Group, ...]
    refused: tuple[Row, ...]
    kinds: Mapping[str, int]
    crowding: Crowding
    consolidated: Consolidated

    @cached_property
    def removal(self) -> Removal:
        return Removal(events=self.rows - len(self.refused), live=len(self.groups))

    def copies(self) -> list[tuple[Row, dict[str, Any], Vector | None]]:
        """Return the rows of the copy, in the order of the source, each with its memory's vector."""
        kept: list[tuple[Row, dict[str, Any], Vector | None]] = [
            (row, dict(row.content), None) for row in self.refused
        ]
        for group in self.groups:
            names = [row.name for row in group.rows]
            content = written(group.stays.content, self.columns, group.memory.text, names)
            kept.append((group.stays, content, group.vector))
        return sorted(kept, key=lambda one: one[0].number)

    def as_json(self) -> dict[str, Any]:
        """Return what was found for programs, its keys stable."""
        rate = self.removal.removal_rate
        return {
            "place": self.place,
            "policy": self.policy,
            "rows": self.rows,
            "refused": [{"row": row.name, "why": str(row.said)} for row in self.refused],
            "pairs": {f"{at:.2f}": self.crowding.pairs[at] for at in THRESHOLDS},
            "decisions": dict(self.kinds),
            "consolidated": self.consolidated.groups,
            "memories_before": self.removal.events,
            "memories_after": self.removal.live,
            "removed_count": self.removal.removed,
            "removal_rate": None if rate is None else round(rate, _DECIMALS),
            "status": self.removal.status,
            "groups": [group.as_json() for group in self.groups if len(group.rows) > 1],
        }


def between(policy: Policy, *, upper: float | None, lower: float | None) -> Policy:
    """Return a policy whose bands `match` and `review` begin at these similarities."""

    def changed(bands: Bands) -> Bands:
        match = bands.match if upper is None else upper
        review = min(bands.review, match) if lower is None else lower
        return Bands(match=match, review=review, log=min(bands.log, review))

    return policy if upper is lower is None else with_bands(policy, changed)


async def dedupe(
    rows: Sequence[Mapping[str, Any]],
    columns: Columns,
    policy: Policy,
    means: Means,
    *,
    place: str,
    batch_records: int,
    done: Callable[[int], None] = lambda _: None,
) -> Deduped:
    """Return what deduplication makes of rows; changes nothing.

    The policy's brake is off: a store full of repetitions is what this is for. `done` is told the
    rows that are decided on since it was last told.
    """
    known, chosen = means.knowing(), for_repeats(policy)
    read = [_read(content, columns, number) for number, content in enumerate(rows, 1)]
    said = [(row, row.said) for row in read if isinstance(row.said, Remember)]
    rehearsal = Rehearsal(chosen, known)
    events = [event for _, event in said]
    decided = await rehearsal.hear(events, batch_records=batch_records, done=done)
    consolidated = await Consolidation(
        InMemory(rehearsal),
        chosen,
        known.judging,
        ConsolidateSettings(seconds_max=float("inf")),
        Passes(None),
        SystemClock(),
    ).run(Asked(now=True))
    stored = {one.memory.id: one async for one in rehearsal.index.scan()}
    memories = {identity: one.memory for identity, one in stored.items()}
    standing: dict[MemoryId, list[Row]] = {}
    unmade: list[Row] = []
    for (row, _), decision in zip(said, decided, strict=True):
        made = _made(decision)
        if made is None:
            unmade.append(Row(row.number, row.content, Unreadable("it makes too large a decision")))
        else:
            standing.setdefault(_stands(made, memories), []).append(row)
    groups = [
        Group(
            memories[identity],
            stored[identity].vector,
            _kept(memories[identity], members),
            tuple(members),
        )
        for identity, members in standing.items()
    ]
    return Deduped(
        place=place,
        policy=policy.id,
        columns=columns,
        rows=len(read),
        groups=tuple(groups),
        refused=(*(row for row in read if isinstance(row.said, Unreadable)), *unmade),
        kinds=Counter(decision.kind for decision in decided),
        crowding=await _crowding(events, known),
        consolidated=consolidated,
    )


def _read(content: Mapping[str, Any], columns: Columns, number: int) -> Row:
    try:
        return Row(number, content, event_of(content, columns, number))
    except Unreadable as error:
        return Row(number, content, error)


def _made(decision: Decision) -> MemoryId | None:
    """Return the memory that says what an event says, as it was decided."""
    return decision.memory.id if isinstance(decision, Change) else None


def _stands(identity: MemoryId, memories: Mapping[MemoryId, Memory]) -> MemoryId:
    """Return the live memory that stands for one."""
    superseded = memories[identity].superseded
    while superseded is not None and superseded.by is not None:
        identity = superseded.by
        superseded = memories[identity].superseded
    return identity


def _kept(memory: Memory, rows: Sequence[Row]) -> Row:
    """Return the row that says the memory's words; of a text that was made the newest one."""
    newest_first = sorted(rows, key=lambda row: (_said_at(row), row.number), reverse=True)
    says_it = (
        row
        for row in newest_first
        if isinstance(row.said, Remember) and row.said.text == memory.text
    )
    return next(says_it, newest_first[0])


def _said_at(row: Row) -> float:
    return row.said.occurred_at.timestamp() if isinstance(row.said, Remember) else 0.0


async def _crowding(events: Sequence[Remember], means: Means) -> Crowding:
    """Count the pairs that are nearly the same, scope by scope."""
    by_scope: dict[ScopeName, list[str]] = {}
    for event in events:
        by_scope.setdefault(event.scope, []).append(event.text)
    crowding = Crowding()
    for texts in by_scope.values():
        crowding.add([one.vector for one in await means.embedder.embed(texts)])
    return crowding
