"""What became of a record: a change in the store, or a dead letter."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from schemas.base import DecisionId, Label, MemoryId, Position, Record
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


class Stage(StrEnum):
    """Where a record failed."""

    READ = "read"
    DECODE = "decode"
    DECIDE = "decide"


class DeadLetter(Record):
    """A record that can never succeed, kept with all it came with.

    `value` is the base64 of the original bytes, or of their first part where `value_size` (bytes)
    says that there were more. `origin` names the file and line for records read from a file.
    """

    kind: Literal["dead-letter"] = "dead-letter"
    schema_version: Literal[1] = 1
    id: Label
    stage: Stage
    field: Label | None = None
    error: str
    attempts: Annotated[int, Field(ge=1)] = 1
    origin: str | None = None
    position: Position | None = None
    key: str | None = None
    value: str
    value_size: Annotated[int, Field(ge=0)]
    headers: tuple[tuple[str, str | None], ...] = ()
