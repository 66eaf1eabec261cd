"""The results that a store returns, as immutable values."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from schemas.decisions import Marker, Reject
from schemas.memories import Memory
from streams.api.app.records import Verdict
from streams.forget.app.forgetting import ForgetResponses
from streams.inspect.app import ExplainedDecision, ExplainedVersion
from streams.memory.app.memory_store import ReviewQuestion
from streams.recall.app.loading import ShownEntry
from streams.store.app.conflicts import Conflict, Contradicted


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


def decision_of(told: ExplainedDecision, *again: ExplainedDecision) -> Decision:
    """Return a decision with those that it brought about. It is on an event."""
    made, memory = told.decision, told.memory
    if isinstance(made, Reject):
        raise TypeError("a record that was set aside is not a decision on an event")
    event = made if isinstance(made, Marker) else made.event
    return Decision(
        id=made.decision_id,
        kind=made.kind,
        why=told.why,
        effect=told.effect,
        scope=event.scope,
        event_id=event.event_id,
        memory_id="" if memory is None else memory.id,
        text="" if memory is None else memory.text,
        contradicts=told.contradicts,
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


def version_of(told: ExplainedVersion) -> Version:
    """Return a version of a memory's history."""
    version = told.version
    decision = version.decision
    return Version(
        version=version.memory.version,
        text=version.memory.text,
        occurred_at=decision.event.occurred_at,
        kind=decision.kind,
        why=told.why,
        decision_id=decision.decision_id,
        event_id=decision.event.event_id,
        by=told.by,
        undone_by=version.undone_by,
        differences=tuple(told.differences),
        memory=version.memory,
    )


def review_of(question: ReviewQuestion) -> Review:
    """Return a question with what became of it."""
    review, settled = question.review, question.settled
    return Review(
        id=review.id,
        scope=review.scope,
        newer=review.newer,
        older=review.older,
        asked_at=review.asked_at,
        state=question.state,
        verdict=None if settled is None else settled.answer.verdict,
        answered_by=None if settled is None else settled.answer.author,
    )


def forgotten_of(forgot: ForgetResponses) -> Forgotten:
    """Return what a request to forget came to."""
    return Forgotten(
        memory_ids=forgot.memory_ids, decided_again=forgot.decided_again, records=forgot.records
    )
