"""The requests and answers of the API."""

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import ConfigDict, Field, JsonValue, SkipValidation, model_validator

from schemas.base import (
    Count,
    DecisionId,
    EventId,
    EventName,
    MemoryId,
    MemoryName,
    Moment,
    Record,
    Scope,
    ScopeName,
)
from schemas.decisions import Compared, Decision, Marker
from schemas.events import Ended
from schemas.memories import Memory
from schemas.outcomes import Review
from streams.changes.core.history import MemoryVersion, differences, said_by
from streams.memory.app.outcomes import Outcome, facts
from streams.memory.app.queueing import BATCH_EVENTS
from streams.memory.app.writing import Fresh
from streams.model.scope import lies_in
from streams.recall.app.loading import SearchRequest, ShownEntries
from streams.recall.app.recalling import RecallRequest
from streams.stage.core.explain import why
from streams.stage.core.reviewing import ReviewQuestion, State
from streams.store.app.client import is_again
from streams.store.app.conflicts import Contradictions, KeptMemory

LISTED = 100
LISTED_MAX = 1_000

Note = Annotated[str, Field(max_length=2_000)]

Kind: TypeAlias = Literal[
    "insert", "replace", "merge", "reinforce", "revise", "erase", "ignore", "block"
]
"""The kinds of the decisions that lie with their scope."""


Verdict: TypeAlias = Literal["same", "refines", "refined-by", "contradicts", "distinct"]
"""What the newer of two memories is to the older one."""


OneScope = Annotated[
    Scope | None, Field(description="The scope of what the path names, if several have the name.")
]


_Several: TypeAlias = Annotated[
    tuple[SkipValidation[Fresh], ...], Field(min_length=1, max_length=BATCH_EVENTS)
]


class Published(Record):
    """Events to be decided on, each handled by itself."""

    events: _Several


class Batch(Record):
    """Many new memories, each handled by itself."""

    memories: _Several


class Search(SearchRequest):
    """A search of one scope: what is nearest to a query, as at most `limit` entries.

    The other fields say how what is one fact is found; without them it is as the settings say.
    """


class Recall(RecallRequest):
    """What is to be recalled: of a scope, or with `across` of that scope and all below it.

    With a query what is nearest to it; without one what lasts and what is new, or across scopes
    what several of them share; with `patterns` what many of them say in nearly the same words.
    """

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.patterns and (not self.across or self.query is not None):
            raise ValueError("patterns goes with across, and without query")
        return self


class Noted(Record):
    """The reason for a request; it is kept with the decision."""

    note: Note = ""


class Retiring(Noted):
    """Why a memory ends."""

    reason: Ended = "invalid"


class Telling(Noted):
    """The memory that is right beside another one."""

    other_id: MemoryName


class Rating(Noted):
    """How often a memory helped, misled or was read since it was rated last."""

    helpful: Count = 0
    harmful: Count = 0
    accessed: Count = 0

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not any(self.counts.values()):
            raise ValueError("nothing to record: give helpful, harmful or accessed")
        return self

    @property
    def counts(self) -> dict[str, int]:
        return {"helpful": self.helpful, "harmful": self.harmful, "accessed": self.accessed}


class Settling(Noted):
    """The newer memory's relation to the older one of a question."""

    verdict: Verdict


class Listed(Record):
    """Which memories: of a scope, with `across` also of those below it, or of all.

    `after` is where the last answer ended; `retired` includes memories that were replaced or ended.
    """

    scope: Scope | None = None
    across: bool = False
    limit: Annotated[int, Field(ge=1, le=LISTED_MAX)] = LISTED
    after: Annotated[str, Field(max_length=2_000)] | None = None
    retired: bool = False

    @property
    def only(self) -> ScopeName | None:
        """The one scope that is asked for; None if it is several."""
        return None if self.across else self.scope

    def has(self, scope: ScopeName) -> bool:
        """Return whether a scope's memories are asked for."""
        return self.scope is None or (
            lies_in(scope, self.scope) if self.across else scope == self.scope
        )


class ListedDecisions(Record):
    """Which decisions on a scope: of one kind, or all; `after` is where the last answer ended."""

    scope: Scope
    kind: Kind | None = None
    limit: Annotated[int, Field(ge=1, le=LISTED_MAX)] = LISTED
    after: Count | None = None


class ListedQuestions(Record):
    """Which questions of a scope, or of all; with `every` also those that are answered, or moot."""

    scope: Scope | None = None
    every: bool = False


class Problem(Record):
    """An error, as RFC 9457 defines it; `field` names the part of the request at fault."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    field: str | None = None


class Result(Record):
    """The result of one of several: its status, and the outcome or the problem."""

    status: int
    outcome: Outcome | None = None
    problem: Problem | None = None


class Results(Record):
    """The results, in the order of the request."""

    results: tuple[Result, ...]


class Changes(Record):
    """What was asked for, and what was decided on it, in its order."""

    decisions: tuple[Outcome, ...]


class Undone(Changes):
    """`undone` are the decisions that do not hold any more, the first of them the one that was meant.

    `to_be_looked_at` of them people have asked for, and nobody asks for them again.
    """

    undone: tuple[DecisionId, ...]
    to_be_looked_at: tuple[DecisionId, ...]


class Forgotten(Changes):
    """`memory_ids` are the memories that are gone, `decided_again` events decided without them.

    `records` of the log are erased. The last bytes leave the files with `memsieve store scrub`.
    """

    memory_ids: tuple[MemoryId, ...]
    decided_again: tuple[EventName, ...]
    records: Count


class Found(ShownEntries):
    """What a search found; `hint` is as for a block."""

    hint: str | None


class Memories(Record):
    """Memories, oldest first; if `after` is given, there are more; `hint` is as for a block."""

    memories: tuple[KeptMemory, ...]
    after: str | None
    hint: str | None


class Block(Record):
    """A block for a prompt, its tokens, and the memories that were considered, shown or not.

    `hint` says so if there is no live memory, and names scopes of the token that have some.
    """

    block: str
    tokens: Count
    memories: tuple[dict[str, JsonValue], ...]
    hint: str | None


class Decided(Outcome):
    """A decision, and what its event said; `repeated` if that came again and changed nothing."""

    occurred_at: Moment | None
    text: str | None


class Decisions(Record):
    """Decisions on a scope, the newest first; if `after` is given, there are more."""

    decisions: tuple[Decided, ...]
    after: Count | None


class Explained(Decided):
    """A decision with what it was compared with, and its story, line by line."""

    compared: tuple[Compared, ...]
    story: tuple[str, ...]


class Story(Record):
    """Why something was decided, or how a memory came about, line by line."""

    story: tuple[str, ...]


class VersionTold(Record):
    """A version of a memory: its author, its reason, and the differences."""

    version: Count
    occurred_at: Moment
    decision_id: DecisionId
    event_id: EventName
    kind: str
    why: str
    by: str | None
    undone_by: DecisionId | None
    differences: tuple[str, ...]
    text: str
    memory: Memory


class AncestorTold(Record):
    """A memory that this one replaced, `steps` before it."""

    steps: Count
    memory: Memory


class Life(Record):
    """The history of a memory: its versions, its ancestors and its successors, nearest first."""

    memory: Memory
    versions: tuple[VersionTold, ...]
    ancestors: tuple[AncestorTold, ...]
    successors: tuple[Memory, ...]


class QuestionTold(Review):
    """A question to a person, and whether it is open."""

    model_config = ConfigDict(json_schema_extra=None)

    state: State
    answered_by: str | None
    verdict: Verdict | None


class QuestionsTold(Record):
    """Questions, the newest first."""

    reviews: tuple[QuestionTold, ...]


def decided(decision: Decision, scope: Scope, known: Contradictions) -> Decided:
    """Return a decision on a scope; `known` is as for `outcome_of`."""
    event = None if isinstance(decision, Marker) else decision.event
    named = getattr(decision, "event_id", "") if event is None else event.event_id
    return Decided(
        event_id=EventId(named),
        scope=scope,
        occurred_at=None if event is None else event.occurred_at,
        text=None if event is None else event.text,
        repeated=is_again(decision),
        **facts(decision, known),
    )


def explained(told: Decided, decision: Decision, story: list[str]) -> Explained:
    near = () if isinstance(decision, Marker) else decision.evidence.neighbours
    return Explained(**dict(told), compared=near, story=tuple(story))


def version_told(version: MemoryVersion) -> VersionTold:
    decision = version.decision
    return VersionTold(
        version=version.memory.version,
        occurred_at=decision.event.occurred_at,
        decision_id=decision.decision_id,
        event_id=decision.event.event_id,
        kind=decision.kind,
        why=why(decision),
        by=said_by(decision.event) or None,
        undone_by=version.undone_by,
        differences=tuple(differences(version)),
        text=version.memory.text,
        memory=version.memory,
    )


def question_told(question: ReviewQuestion) -> QuestionTold:
    answer = None if question.settled is None else question.settled.answer
    return QuestionTold(
        **dict(question.review),
        state=question.state,
        answered_by=None if answer is None else answer.author,
        verdict=None if answer is None else answer.verdict,
    )
