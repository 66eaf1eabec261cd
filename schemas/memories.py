"""The stored record: one memory with its provenance and its fate."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue, model_validator

from schemas.base import (
    ContentKey,
    Count,
    DecisionName,
    Label,
    MemoryName,
    Metadata,
    Moment,
    Record,
    Scope,
    Text,
    Unit,
)


class Persistence(StrEnum):
    """How long a memory is meant to hold, weakest first."""

    EPHEMERAL = "ephemeral"
    PERMANENT = "permanent"
    CORE = "core"

    @property
    def rank(self) -> int:
        """Its place among them: the higher outlives the lower."""
        return tuple(Persistence).index(self)


class Standing(StrEnum):
    """How far a memory is believed, and whether it is still shown."""

    ACTIVE = "active"
    TENTATIVE = "tentative"
    SUPERSEDED = "superseded"
    FORGOTTEN = "forgotten"


LIVE = frozenset({Standing.ACTIVE, Standing.TENTATIVE})
"""The standings that are searched, compared and shown."""


Unchecked = Literal["not-embedded", "not-compared"]
"""What a memory lacks that was stored without a check: a vector of its text, or a comparison."""


class Superseded(Record):
    """Why a memory was retired, and which memory stands in its place.

    `by` is None where none does: it was ended on purpose, and the reason says by what.
    """

    by: MemoryName | None
    at: Moment
    reason: Label


class Turns(Record):
    """The first and last turn at which a memory was observed."""

    first: Count
    last: Count


class Feedback(Record):
    """How often a memory was looked at, and how often it helped or misled."""

    accessed: Count = 0
    helpful: Count = 0
    harmful: Count = 0


SIDES_MAX = 64
"""The most decisions on keeping it apart that a memory remembers: the newest."""


class Side(Record):
    """Where a memory stands since a decision keeps it apart from another.

    That decision, `undo`, has taken apart what had been joined, or is on an answer that both are
    right. Memories on different sides of it are not made one. `side` is the memory that came back,
    began, or is right; whatever it is made part of is on its side. `right_at` is the version that
    an answer made of it: while both show the text of that version, they are not in conflict.
    """

    undo: DecisionName
    side: MemoryName
    right_at: Annotated[int, Field(ge=1)] | None = None

    def __str__(self) -> str:
        return f"side {self.side} of {'undo' if self.right_at is None else 'answer'} {self.undo}"


class Target(Record):
    """A memory that is to be changed, at the version that was seen."""

    memory_id: MemoryName
    version: Annotated[int, Field(ge=1)]


VARIANTS_MAX = 8
"""The most wordings that a memory keeps in addition to the shown one."""


class Variant(Record):
    """Another wording of what a memory says: how often it was seen, by whom, and when."""

    text: Text
    content_key: ContentKey
    seen: Annotated[int, Field(ge=1)] = 1
    sources: tuple[Label, ...] = ()
    first_seen_at: Moment
    last_seen_at: Moment


def valid_in_order(start: datetime | None, end: datetime | None) -> None:
    """Raise ValueError where something ends before it begins."""
    if start is not None and end is not None and end < start:
        raise ValueError(f"valid_until {end} is before valid_from {start}")


class Memory(Record):
    """One memory of a scope.

    `version` starts at 1 and grows by one with each decision that changes the memory, so of two
    copies the higher version is the later one, wherever it is stored. Times are those of the
    events, never of a clock. A superseded memory keeps its text: removal is soft. A forgotten one has
    lost it, and whatever told of it; it stays as a tombstone.

    `text` is the wording that is shown, `variants` are the other wordings of the same fact.
    `folded` counts wordings that were dropped past VARIANTS_MAX; the log still has them. `unchecked`
    tells what could not be done when it was stored; the next consolidation does it.
    """

    schema_version: Literal[1] = 1
    id: MemoryName
    scope: Scope
    text: Text
    content_key: ContentKey
    version: Annotated[int, Field(ge=1)]
    status: Standing = Standing.ACTIVE
    persistence: Persistence | None = None
    title: Label | None = None
    category: Label | None = None
    importance: Unit | None = None
    confidence: Unit | None = None
    tags: tuple[Label, ...] = ()
    entities: tuple[Label, ...] = ()
    sources: tuple[Label, ...] = ()
    sessions: tuple[Label, ...] = ()
    turns: Turns | None = None
    valid_from: Moment | None = None
    valid_until: Moment | None = None
    pinned: bool = False
    metadata: Metadata = Field(default_factory=dict[str, JsonValue])
    observation_count: Annotated[int, Field(ge=1)] = 1
    created_at: Moment
    last_seen_at: Moment
    truncated: bool = False
    merged_from: tuple[MemoryName, ...] = ()
    kept_apart: Annotated[tuple[Side, ...], Field(max_length=SIDES_MAX)] = ()
    feedback: Feedback | None = None
    variants: Annotated[tuple[Variant, ...], Field(max_length=VARIANTS_MAX)] = ()
    folded: Count = 0
    unchecked: Unchecked | None = None
    superseded: Superseded | None = None

    @model_validator(mode="after")
    def _retired_with_a_successor(self) -> Self:
        if self.live == (self.superseded is not None):
            raise ValueError("a status that is not live and the field superseded go together")
        if self.superseded is not None and self.superseded.by == self.id:
            raise ValueError("a memory cannot supersede itself")
        return self

    @property
    def live(self) -> bool:
        return self.status in LIVE

    @property
    def content_keys(self) -> tuple[ContentKey, ...]:
        """The keys of all its wordings, that of the shown text first."""
        return (self.content_key, *(variant.content_key for variant in self.variants))
