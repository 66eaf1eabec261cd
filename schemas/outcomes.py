"""The outcomes of records: applied changes, reviews, dead letters, and how these were settled."""

import base64
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from schemas.base import DecisionId, Label, MemoryId, Moment, Position, Record, Scope
from schemas.decisions import Compared
from schemas.memories import Memory


class Applied(Record):
    """The writer brought a memory to this state; of two records the higher version is the later.

    Published at least once, keyed by memory id.
    """

    kind: Literal["applied"] = "applied"
    schema_version: Literal[1] = 1
    memory_id: MemoryId
    memory: Memory
    decision_id: DecisionId
    decided: Position


class Review(Record):
    """Two live memories of a scope that no judge could settle, put to a person.

    `newer` is the memory that the decision inserted, `older` its neighbour as it was seen. The
    answer comes back as an event.
    """

    kind: Literal["review"] = "review"
    schema_version: Literal[1] = 1
    id: Label
    scope: Scope
    decision_id: DecisionId
    newer: Memory
    older: Memory
    compared: Compared
    asked_at: Moment


class Stage(StrEnum):
    """Where a record failed."""

    READ = "read"
    DECODE = "decode"
    EXTRACT = "extract"
    DECIDE = "decide"


def _base64(text: str) -> str:
    try:
        base64.b64decode(text, validate=True)
    except ValueError as error:
        raise PydanticCustomError("base64", "is not base64") from error
    return text


Attempts = Annotated[int, Field(ge=1)]


class DeadLetter(Record):
    """A record that can never succeed, kept with all it came with.

    `value` is the base64 of the original bytes, or of their first part where `value_size` (bytes)
    says that there were more. `origin` names the file and line for records read from a file.
    `attempts` counts how often it has failed, each time after it was requeued.
    """

    kind: Literal["dead-letter"] = "dead-letter"
    schema_version: Literal[1] = 1
    id: Label
    stage: Stage
    field: Label | None = None
    error: str
    attempts: Attempts = 1
    origin: str | None = None
    position: Position | None = None
    key: str | None = None
    value: Annotated[str, AfterValidator(_base64)]
    value_size: Annotated[int, Field(ge=0)]
    headers: tuple[tuple[str, str | None], ...] = ()


class Settled(Record):
    """Somebody has seen to a dead letter: its event was published again, or it was given up.

    Lies behind the letter, in its partition. `attempts` are those of the letter that was seen to:
    one that has failed more often since is open, wherever it lies.
    """

    kind: Literal["settled"] = "settled"
    schema_version: Literal[1] = 1
    dead_letter_id: Label
    how: Literal["requeued", "dropped"]
    attempts: Attempts
