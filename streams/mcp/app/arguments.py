"""The arguments of the tools, in words that a model understands."""

from typing import Annotated

from pydantic import Field

from schemas.base import (
    EventName,
    FewLabels,
    Label,
    MemoryName,
    Moment,
    Record,
    Scope,
    Text,
    Unit,
)
from schemas.events import Ended
from streams.recall.app import loading, recalling
from streams.recall.app.loading import Verify

Note = Annotated[
    str, Field(max_length=2_000, description="Why, in a few words; kept with the decision.")
]


class InScope(Record):
    """What is asked of one scope."""

    scope: Annotated[
        Scope,
        Field(
            description="The scope of the memories: one exact path such as `acme/ana` or "
            "`project/website`. Memories are never compared across scopes."
        ),
    ]


class Remembering(InScope):
    """A fact, and what is known of it."""

    text: Annotated[
        Text,
        Field(
            description="One fact, in one or two plain sentences that can be understood on their "
            "own: names instead of pronouns, dates instead of `tomorrow`."
        ),
    ]
    occurred_at: Annotated[
        Moment | None,
        Field(description="When it was learned, in ISO 8601 with a time zone. Default: now."),
    ] = None
    source: Annotated[Label | None, Field(description="Who said it, or where it was read.")] = None
    importance: Annotated[Unit | None, Field(description="How important it is, from 0 to 1.")] = (
        None
    )
    tags: Annotated[FewLabels, Field(description="Labels to keep with it.")] = ()
    event_id: Annotated[
        EventName | None,
        Field(
            description="An id of your own for this call. Sent again with the same id and text, "
            "the fact is not counted twice."
        ),
    ] = None


class Recalling(InScope):
    """What is to be recalled."""

    query: Annotated[
        Text | None,
        Field(description="The subject of the memories. Default: lasting and recent memories."),
    ] = None
    budget: Annotated[int, Field(ge=1, description="The maximum number of tokens.")] = (
        recalling.BUDGET
    )


class Searching(InScope):
    """What is looked for."""

    query: Annotated[Text, Field(description="A question or a few words.")]
    limit: Annotated[
        int, Field(ge=1, le=loading.LIMIT_MAX, description="Maximum number of facts.")
    ] = loading.LIMIT
    deduplicate: Annotated[
        bool | None,
        Field(description="Whether to return memories of one fact as one result. Usually true."),
    ] = None
    threshold: Annotated[
        Unit | None,
        Field(description="The least cosine similarity between memories of one fact."),
    ] = None
    verify: Annotated[
        Verify | None,
        Field(
            description="Who judges whether similar memories are one fact: the built-in judge, a "
            "language model (llm) if one is configured, or no judge (none)."
        ),
    ] = None


class Disputing(InScope):
    """Whose conflicts are listed."""

    limit: Annotated[
        int, Field(ge=1, le=loading.LIMIT_MAX, description="The most conflicts to return.")
    ] = loading.LIMIT


class Named(Record):
    """What a name means in one scope."""

    scope: Annotated[
        Scope | None,
        Field(description="Its scope, if several have the name. Default: the only one that has."),
    ] = None


class Explaining(Named):
    """What is to be explained."""

    id: Annotated[
        EventName, Field(description="The id of a decision, an event or a memory, or its name.")
    ]


class OfMemory(Named):
    """Which memory."""

    memory_id: Annotated[
        MemoryName,
        Field(
            description="The id of a memory, as `remember` and `search` return it, or its beginning."
        ),
    ]


class Forgetting(OfMemory):
    """Which memory is to be forgotten, and why."""

    note: Note = ""


class Updating(OfMemory):
    """Which memory says something else from now on, and what."""

    text: Annotated[Text, Field(description="The new text: one fact, in full.")]
    source: Annotated[Label | None, Field(description="Who said it, or where it was read.")] = None


class Retiring(OfMemory):
    """Which memory ends, and why."""

    reason: Annotated[
        Ended,
        Field(
            description="`invalid` (it is not, or no longer, true), `expired` (its time is over), "
            "`ended` (what it belonged to is over), `unused` or `harmful`."
        ),
    ] = "invalid"
    note: Note = ""


class Telling(OfMemory):
    """Which two memories are both right, and why."""

    other_id: Annotated[
        MemoryName, Field(description="The id of the memory that it is in conflict with.")
    ]
    note: Note = ""


class Undoing(Record):
    """Which decision is to be undone, and why."""

    decision_id: Annotated[
        EventName,
        Field(description="The id of a decision, as `remember` and `history` return it."),
    ]
    note: Note = ""
