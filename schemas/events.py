"""What producers publish: requests for a change, one decision each."""

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, JsonValue, model_validator

from schemas.base import (
    ContentKey,
    Count,
    EventName,
    FewLabels,
    Label,
    MemoryId,
    Metadata,
    Moment,
    Record,
    Scope,
    Text,
    Unit,
)
from schemas.memories import Persistence, valid_in_order


class Seen(Record):
    """A memory as somebody saw it: its id, and the key of the text that it had."""

    memory_id: MemoryId
    content_key: ContentKey


class Remember(Record):
    """Something was learnt: decide whether it is new, known, or part of what is known.

    `event_id` is unique within its scope and stays the same when the event is published again.
    `memory_id` is the producer's own name for the memory that the event makes. As long as that
    memory is live, a later event of the same scope and name gives it new text; where it was merged
    or superseded, or never made because its words were known, the event is judged like any other.
    `source` says who said it. `supersedes` names memories of the scope, by their ids, that this one
    takes the place of; a policy limits that, and what may not be retired is kept. The fact holds
    from `valid_from` until `valid_until`, as far as that is known. A `pinned` memory is never
    merged nor replaced.
    """

    kind: Literal["remember"] = "remember"
    schema_version: Literal[1] = 1
    event_id: EventName
    scope: Scope
    text: Text
    occurred_at: Moment
    memory_id: Label | None = None
    title: Label | None = None
    category: Label | None = None
    importance: Unit | None = None
    confidence: Unit | None = None
    tags: FewLabels = ()
    entities: FewLabels = ()
    persistence: Persistence | None = None
    status: Literal["active", "tentative"] = "active"
    source: Label | None = None
    turn: Count | None = None
    session: Label | None = None
    valid_from: Moment | None = None
    valid_until: Moment | None = None
    pinned: bool = False
    supersedes: FewLabels = ()
    metadata: Annotated[Metadata, Field(max_length=256)] = Field(
        default_factory=dict[str, JsonValue]
    )

    @model_validator(mode="after")
    def _begins_before_it_ends(self) -> Self:
        valid_in_order(self.valid_from, self.valid_until)
        return self

    @property
    def sources(self) -> tuple[str, ...]:
        """Who said it, as far as that is known."""
        return () if self.source is None else (self.source,)


class Answer(Record):
    """Somebody has settled a review: what its newer memory is to its older one.

    `author` says who. The partition's owner applies it to both as they are by then; where one is
    gone or says something else by now, the answer comes too late and changes nothing.
    """

    kind: Literal["answer"] = "answer"
    schema_version: Literal[1] = 1
    event_id: EventName
    scope: Scope
    review_id: Label
    newer: Seen
    older: Seen
    verdict: Literal["same", "refines", "refined-by", "contradicts", "distinct"]
    author: Label
    occurred_at: Moment
    note: Annotated[str, Field(max_length=2_000)] = ""

    @model_validator(mode="after")
    def _of_two(self) -> Self:
        if self.newer.memory_id == self.older.memory_id:
            raise ValueError(f"newer and older are both memory {self.newer.memory_id}")
        return self

    @property
    def text(self) -> str:
        """What it says, in words."""
        older, newer = self.older.memory_id, self.newer.memory_id
        return f"{self.author}: memory {newer} is to memory {older}: {self.verdict}"


Event: TypeAlias = Annotated[Remember | Answer, Field(discriminator="kind")]
"""Every kind of event."""
