"""Deduplication of another program's store: a report, or a deduplicated copy next to it.

Rows are decided on as in `memsieve run`, in order and in memory, and then consolidated. A row is
dropped only if another row, or a text merged from several, says what it says; unreadable rows are
kept unchanged. The source is never written to.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from schemas.base import MemoryId, PolicyId, ScopeName
from schemas.codec import Unreadable
from schemas.decisions import Change
from schemas.events import Remember
from schemas.memories import Memory
from streams.clock.system import SystemClock
from streams.consolidate.app.consolidated import ConsolidationPass
from streams.consolidate.app.consolidating import Consolidation, ScopeSelection
from streams.consolidate.core.redundancy import THRESHOLDS, Crowding, Removal, chain
from streams.consolidate.world import Passes
from streams.dedupe_store.core import ColumnAssignment, event_of, name_of, written
from streams.model.bands import Bands
from streams.model.embedding import Vector
from streams.model.policy import Policy
from streams.store.app.client import decisions_of
from streams.store.app.dry_run import DecidingDependencies, DryRunClient, for_repeats
from streams.store.app.policies import with_bands
from streams.store.app.product_settings import ConsolidateSettings


@dataclass(frozen=True)
class DedupeRow:
    """A row of the source, numbered from 1; `said` is its event, or why it has none."""

    number: int
    content: Mapping[str, Any]
    said: Remember | Unreadable

    @property
    def name(self) -> str:
        return name_of(self.content, self.number)


@dataclass(frozen=True)
class RowGroup:
    """Rows that became one memory; `stays` is the row whose other columns are kept."""

    memory: Memory
    vector: Vector | None
    stays: DedupeRow
    rows: tuple[DedupeRow, ...]

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
class DedupeResult:
    """The result for a source: each of its rows is in a group or in `refused`."""

    place: str
    policy: PolicyId
    columns: ColumnAssignment
    rows: int
    groups: tuple[RowGroup, ...]
    refused: tuple[DedupeRow, ...]
    kinds: Mapping[str, int]
    crowding: Crowding
    consolidated: ConsolidationPass

    @cached_property
    def removal(self) -> Removal:
        return Removal(events=self.rows - len(self.refused), live=len(self.groups))

    def copies(self) -> list[tuple[DedupeRow, dict[str, Any], Vector | None]]:
        """Return the rows of the copy in the order of the source, each with its memory's vector."""
        kept: list[tuple[DedupeRow, dict[str, Any], Vector | None]] = [
            (row, dict(row.content), None) for row in self.refused
        ]
        for group in self.groups:
            names = [row.name for row in group.rows]
            content = written(group.stays.content, self.columns, group.memory.text, names)
            kept.append((group.stays, content, group.vector))
        return sorted(kept, key=lambda one: one[0].number)

    def as_json(self) -> dict[str, Any]:
        """Return the result for programs, with stable keys."""
        return {
            "place": self.place,
            "policy": self.policy,
            "rows": self.rows,
            "refused": [{"row": row.name, "why": str(row.said)} for row in self.refused],
            "pairs": {f"{at:.2f}": self.crowding.pairs[at] for at in THRESHOLDS},
            "decisions": dict(self.kinds),
            "consolidated": self.consolidated.groups,
            **self.removal.as_json(),
            "groups": [group.as_json() for group in self.groups if len(group.rows) > 1],
        }


def between(policy: Policy, *, upper: float | None, lower: float | None) -> Policy:
    """Return a policy whose bands `match` and `review` start at `upper` and `lower`."""

    def changed(bands: Bands) -> Bands:
        match = bands.match if upper is None else upper
        review = min(bands.review, match) if lower is None else lower
        return Bands(match=match, review=review, log=min(bands.log, review))

    return policy if upper is lower is None else with_bands(policy, changed)


async def dedupe(
    rows: Sequence[Mapping[str, Any]],
    columns: ColumnAssignment,
    policy: Policy,
    means: DecidingDependencies,
    *,
    place: str,
    done: Callable[[int], None] = lambda _: None,
) -> DedupeResult:
    """Return the result of deduplicating rows; change nothing.

    The policy's brake is off, since a store full of repetitions is the use case. `done` receives
    the number of rows decided on since its last call.
    """
    known, chosen = means.knowing(), for_repeats(policy)
    read = [_read(content, columns, number) for number, content in enumerate(rows, 1)]
    said = [(row, row.said) for row in read if isinstance(row.said, Remember)]
    client = DryRunClient(chosen, known)
    events = [event for _, event in said]
    decided = decisions_of(await client.submit(events, done))
    consolidated = await Consolidation(
        client,
        chosen,
        known.judging,
        ConsolidateSettings(seconds_max=float("inf")),
        Passes(None),
        SystemClock(),
    ).run(ScopeSelection(now=True))
    stored = {one.memory.id: one async for one in (await client.index()).scan()}
    memories = {identity: one.memory for identity, one in stored.items()}
    standing: dict[MemoryId, list[DedupeRow]] = {}
    unmade: list[DedupeRow] = []
    for (row, _), decision in zip(said, decided, strict=True):
        if isinstance(decision, Change):
            stands = chain(decision.memory.id, memories)[-1]
            standing.setdefault(stands.id, []).append(row)
        else:
            unmade.append(replace(row, said=Unreadable("its decision is too large")))
    groups = [
        RowGroup(one.memory, one.vector, _kept(one.memory, members), tuple(members))
        for one, members in ((stored[identity], rows) for identity, rows in standing.items())
    ]
    return DedupeResult(
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


def _read(content: Mapping[str, Any], columns: ColumnAssignment, number: int) -> DedupeRow:
    try:
        return DedupeRow(number, content, event_of(content, columns, number))
    except Unreadable as error:
        return DedupeRow(number, content, error)


def _kept(memory: Memory, rows: Sequence[DedupeRow]) -> DedupeRow:
    """Return the newest row with the memory's text; if no row has it, the newest row."""

    def rank(row: DedupeRow) -> tuple[bool, float, int]:
        if not isinstance(row.said, Remember):
            return False, 0.0, row.number
        return row.said.text == memory.text, row.said.occurred_at.timestamp(), row.number

    return max(rows, key=rank)


async def _crowding(events: Sequence[Remember], means: DecidingDependencies) -> Crowding:
    """Count the near-duplicate pairs, scope by scope."""
    by_scope: dict[ScopeName, list[str]] = {}
    for event in events:
        by_scope.setdefault(event.scope, []).append(event.text)
    embedded = [await means.embedder.embed(texts) for texts in by_scope.values()]
    return Crowding.of([one.vector for one in of_scope] for of_scope in embedded)
