"""What producers publish: requests for a change, one decision each. Today there is one kind."""

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, JsonValue

from schemas.base import (
    Count,
    EventName,
    FewLabels,
    Label,
    Metadata,
    Moment,
    Record,
    Scope,
    Text,
    Unit,
)
from schemas.memories import Persistence


class Remember(Record):
    """Something was learnt: decide whether it is new, known, or part of what is known.

    `event_id` is unique within its scope and stays the same when the event is published again.
    `memory_id` is the producer's own name for the memory that the event makes. As long as that
    memory is live, a later event of the same scope and name gives it new text; where it was merged
    or superseded, or never made because its words were known, the event is judged like any other.
    `source` says who said it.
    """

    kind: Literal["remember"] = "remember"
    schema_version: Literal[1] = 1
    event_id: EventName
    scope: Scope
    text: Text
    occurred_at: Moment
    memory_id: Label | None = None
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
    metadata: Annotated[Metadata, Field(max_length=256)] = Field(
        default_factory=dict[str, JsonValue]
    )


Event: TypeAlias = Remember
"""Every kind of event; a tagged union by `kind` as soon as there are two."""
