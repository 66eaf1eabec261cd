"""The results that a store returns, as immutable values."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeVar

from memsieve.errors import Undecided
from schemas.memories import Memory
from streams.api.app.records import Verdict
from streams.memory.app.outcomes import Outcome
from streams.recall.app.loading import ShownEntry
from streams.store.app.conflicts import Conflict, Contradicted, KeptMemory


@dataclass(frozen=True)
class Decision:
    """The decision on an event.

    `kind` is `insert` (new), `reinforce` (already known), `merge` (joined with a known memory),
    `replace` (replaced a known memory), `ignore` (this event was decided on before), `block` (must
    not be kept) or, for a requested change, `revise`. `why` and `effect` say in words why it was
    made, and what was done. `memory_id` and `text` are those of the memory concerned, as the
    decision left it; empty if nothing was kept. `contradicts` are the memories that the event was
    found to contradict, each with its `text` and the judge's `probability`. `again` are the
    decisions on events that had to be decided on again because of this one.
    """

    id: str
    kind: str
    why: str
    effect: str
    scope: str
    event_id: str
    memory_id: str
    text: str
    contradicts: tuple[Contradicted, ...] = ()
    again: tuple["Decision", ...] = ()

    def __str__(self) -> str:
        return f"{self.kind}: {self.effect}, because {self.why}"


@dataclass(frozen=True)
class SearchResult:
    """One fact that a search found.

    `text` states all of it. `wording` is its wording that is nearest to the query, and `wordings`
    are those other than `text`. A higher `score` is nearer. `memory_id` is the nearest memory;
    `memory_ids` are all that state this fact, nearest first. `unchecked`: one of them was stored
    without comparison. `last_seen_at` is when one of them was last seen; `conflicts` are the
    memories that contradict one of them.
    """

    text: str
    wording: str
    score: float
    memory_id: str
    memory_ids: tuple[str, ...]
    wordings: tuple[str, ...]
    unchecked: bool
    last_seen_at: datetime
    conflicts: tuple[Conflict, ...]


@dataclass(frozen=True)
class Version:
    """A memory as one decision made it.

    `differences` describe the changes, one line each. `by` is the requester or speaker, if known.
    `undone_by` is the decision that reversed this one, if any.
    """

    version: int
    text: str
    occurred_at: datetime
    kind: str
    why: str
    decision_id: str
    event_id: str
    by: str | None
    undone_by: str | None
    differences: tuple[str, ...]
    memory: Memory


@dataclass(frozen=True)
class Review:
    """A question to a person: how the newer of two memories relates to the older.

    Both memories are as they were when the question was asked. `state` is `open`, `answered`,
    `too-late` (an answer came after one of the two had changed) or `moot` (one has changed, and
    nobody answered). `verdict` and `answered_by` belong to the answer, if there is one.
    """

    id: str
    scope: str
    newer: Memory
    older: Memory
    asked_at: datetime
    state: Literal["open", "answered", "too-late", "moot"]
    verdict: Verdict | None
    answered_by: str | None


@dataclass(frozen=True)
class Forgotten:
    """What was forgotten: the memories, the events decided on again without them, the records."""

    memory_ids: tuple[str, ...]
    decided_again: tuple[str, ...]
    records: int


_Result = TypeVar("_Result", Version, Review, Forgotten)


def decision_of(told: Outcome, *again: Outcome) -> Decision:
    """Return a decision with those that it brought about. Raises Undecided if there is none yet."""
    made = told.of_this_event()
    if made.decision_id is None or made.kind is None:
        raise Undecided(
            f"event {told.event_id} is not decided on yet: it stays queued, and will be decided"
        )
    return Decision(
        id=made.decision_id,
        kind=made.kind,
        why=made.why or "",
        effect=made.effect or "",
        scope=made.scope,
        event_id=made.event_id,
        memory_id=made.memory_id or "",
        text=made.memory_text or "",
        contradicts=made.contradicts,
        again=tuple(decision_of(one) for one in again),
    )


def result_of(entry: ShownEntry) -> SearchResult:
    """Return an entry of a search."""
    nearest = entry.members[0]
    return SearchResult(
        text=entry.text,
        wording=nearest.wording or nearest.memory.text,
        score=entry.score,
        memory_id=nearest.memory.id,
        memory_ids=entry.memory_ids,
        wordings=entry.wordings,
        unchecked=any(one.memory.unchecked for one in entry.members),
        last_seen_at=entry.last_seen_at,
        conflicts=tuple({c.memory_id: c for one in entry.members for c in one.conflicts}.values()),
    )


def told_as(kind: type[_Result], told: object) -> _Result:
    """Return what has all fields of a kind of result as such a result."""
    return kind(**{name: getattr(told, name) for name in kind.__dataclass_fields__})


def in_order(memories: Iterable[KeptMemory]) -> list[KeptMemory]:
    """Return memories by scope, then by the time they were created."""
    return sorted(memories, key=lambda one: (one.scope, one.created_at, one.id))
