"""One turn of an agent with its user or its world: the source of extracted memories."""

from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from schemas.base import TEXT_MAX, Count, Label, Moment, Record, Scope, Text

Speaker: TypeAlias = Literal["user", "model", "world", "recalled"]
"""The world is a game, a tool or a document. "recalled" marks text recalled from memory."""


class Said(Record):
    """What one speaker said.

    `recalled` marks text that came into the prompt from memory: what repeats it is an echo.
    """

    by: Speaker
    text: Text


def _short_enough(said: tuple[Said, ...]) -> tuple[Said, ...]:
    characters = sum(len(part.text) for part in said)
    if characters > TEXT_MAX:
        raise PydanticCustomError(
            "turn_length",
            "holds {characters} characters in all, and a turn at most {limit}; split the turn",
            {"characters": characters, "limit": TEXT_MAX},
        )
    return said


Parts = Annotated[
    tuple[Said, ...], Field(min_length=1, max_length=256), AfterValidator(_short_enough)
]


class Place(Record):
    """A place in a world. The number is what counts; names repeat, and are for people."""

    id: Count
    name: Label | None = None


Score = Annotated[int, Field(ge=-9_007_199_254_740_991, le=9_007_199_254_740_991)]
Things = Annotated[tuple[Label, ...], Field(max_length=1_000)]


class State(Record):
    """What a world knows of the turn for certain; what it cannot tell is left out."""

    score_before: Score | None = None
    score_after: Score | None = None
    location_before: Place | None = None
    location_after: Place | None = None
    inventory_before: Things | None = None
    inventory_after: Things | None = None
    first_visit: bool = False
    died: bool = False


class Turn(Record):
    """What was said in one turn, in order, and what changed.

    `turn_id` is unique within its scope and stays the same when the turn is given again. `number`
    counts the turns of a `session`, such as an episode or a conversation.
    """

    kind: Literal["turn"] = "turn"
    schema_version: Literal[1] = 1
    turn_id: Label
    scope: Scope
    occurred_at: Moment
    number: Count | None = None
    session: Label | None = None
    said: Parts
    state: State | None = None
