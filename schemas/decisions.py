"""What the owner of a partition decides: one record per event, and why.

A decision is a pure function of the event, its neighbours, the verdicts and the policy. Facts of
the wall clock (when it was made, by which owner) travel in the record's headers instead.
"""

from enum import StrEnum
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from schemas.base import (
    Cosine,
    Count,
    DecisionId,
    Embedding,
    EventName,
    Label,
    MemoryId,
    PolicyId,
    Position,
    Record,
    Scope,
    Unit,
)
from schemas.events import Event
from schemas.memories import Memory


class Band(StrEnum):
    """How near a neighbour is, by the policy's lower bounds; the nearest first."""

    MATCH = "match"
    REVIEW = "review"
    LOG = "log"
    NONE = "none"


class Verdict(StrEnum):
    """What an event and a memory are to each other."""

    SAME = "same"
    REFINES = "refines"
    REFINED_BY = "refined-by"
    CONTRADICTS = "contradicts"
    DISTINCT = "distinct"
    UNSURE = "unsure"


class Reason(StrEnum):
    """The rule that settled a decision."""

    NOTHING_NEAR = "nothing-near"
    DISTINCT = "distinct"
    UNSURE = "unsure"
    KEPT_FOR_REVIEW = "kept-for-review"
    CONTRADICTS_KNOWN = "contradicts-known"
    BRAKED = "braked"
    SWITCHED_OFF = "switched-off"
    STRAYED = "strayed"
    TRUNCATED = "truncated"
    TOO_LONG_TO_MERGE = "too-long-to-merge"
    CANNOT_BE_JOINED = "cannot-be-joined"
    OLDER_CONTRADICTION = "older-contradiction"
    SAME_MEMORY_ID = "same-memory-id"
    SAME_CONTENT = "same-content"
    SAME_FACT = "same-fact"
    KNOWN_IN_FULL = "known-in-full"
    ADDS_TO_KNOWN = "adds-to-known"
    NEARLY_IDENTICAL = "nearly-identical"
    BETTER_THAN_KNOWN = "better-than-known"
    NO_BETTER_THAN_KNOWN = "no-better-than-known"
    NEWER_CONTRADICTION = "newer-contradiction"
    SUPERSEDES_BY_NAME = "supersedes-by-name"
    ANSWERED = "answered"
    ANSWERED_TOO_LATE = "answered-too-late"
    SAME_EVENT = "same-event"


SAID_MAX = 200
Said = Annotated[str, Field(max_length=SAID_MAX)]
"""A few words of a text, quoted."""


class Finding(Record):
    """What a guard found in a pair: a difference that forbids to join them, or a doubt.

    `event_says` and `memory_says` quote the two spellings, as far as there are such.
    """

    guard: Label
    outcome: Literal["differs", "cannot-tell"]
    what: Said
    event_says: Said = ""
    memory_says: Said = ""


class Compared(Record):
    """One neighbour as it was seen: which version, how similar, in which band, and the verdict.

    `judge` gave the verdict; `probabilities` are what it holds of each, rounded to three decimals,
    where it tells them. `findings` are what guards object to.
    """

    memory_id: MemoryId
    version: Annotated[int, Field(ge=1)]
    similarity: Cosine
    band: Band
    verdict: Verdict
    judge: Label
    probabilities: dict[Verdict, Unit] | None = None
    findings: tuple[Finding, ...] = ()


Strategy = Literal["append", "keep-better", "newer-wins", "llm"]
"""How a merged text is made: each sentence once; one of the texts; a model's wording."""


class Carried(Record):
    """Something that a source says, and the words of the merged text that say it too."""

    origin: Label
    kind: Literal["number", "name", "negation", "word"]
    item: Said
    by: Said


class MergeProof(Record):
    """Why nothing is lost in a merged text, and nothing invented.

    Sentence i comes from `origins[i]`: a target's memory id, or the event id for what the event
    added. Where the merged text does not hold every sentence of a source word for word, `carried`
    shows for each number, name, negation and content word of that source what says it there.
    """

    strategy: Strategy = "append"
    sentences: tuple[str, ...]
    origins: tuple[Label, ...]
    carried: tuple[Carried, ...] = ()


class Evidence(Record):
    """Why the decision is what it is; `neighbours` come most similar first.

    `truncated`: the embedding does not cover the whole text. `degraded`: judges that should have
    answered and did not, with what kept them. `reviews`: the questions put to a person. `refused`:
    memories that the event named and that it may not retire, with the reason.
    """

    reason: Reason
    neighbours: tuple[Compared, ...] = ()
    truncated: bool = False
    degraded: tuple[Label, ...] = ()
    merge: MergeProof | None = None
    reviews: tuple[Label, ...] = ()
    refused: tuple[Label, ...] = ()


class Target(Record):
    """A memory that a decision changes, at the version that the decider saw."""

    memory_id: MemoryId
    version: Annotated[int, Field(ge=1)]


class _Decided(Record):
    schema_version: Literal[1] = 1
    decision_id: DecisionId
    event: Event
    source: Position
    policy_id: PolicyId
    evidence: Evidence


class Insert(_Decided):
    """A new memory. `embedding` is that of the memory's text."""

    kind: Literal["insert"] = "insert"
    memory: Memory
    embedding: Embedding


class Replace(_Decided):
    """The memory supersedes the targets.

    Where `memory` has a target's id it changes in place instead of being retired: its producer
    addressed it by name, or an answer says that it stands for another target as well.
    """

    kind: Literal["replace"] = "replace"
    memory: Memory
    embedding: Embedding
    targets: Annotated[tuple[Target, ...], Field(min_length=1)]


class Merge(_Decided):
    """The event and its targets become one memory with all their facts.

    `embedding` is that of the merged text, `event_embedding` that of the event's text.
    """

    kind: Literal["merge"] = "merge"
    memory: Memory
    embedding: Embedding
    event_embedding: Embedding
    targets: Annotated[tuple[Target, ...], Field(min_length=1)]


class Reinforce(_Decided):
    """The memory is known: it is seen once more.

    `memory` is the target's next version. `embedding` is that of the event's text; it is absent
    where the text itself was recognised and nothing had to be embedded.
    """

    kind: Literal["reinforce"] = "reinforce"
    memory: Memory
    target: Target
    embedding: Embedding | None = None


class Ignore(_Decided):
    """The event changes nothing, for the reason in the evidence."""

    kind: Literal["ignore"] = "ignore"


class Reject(Record):
    """The record could not be understood; its bytes are in the dead letter."""

    kind: Literal["reject"] = "reject"
    schema_version: Literal[1] = 1
    decision_id: DecisionId
    source: Position
    dead_letter_id: Label


class Forward(Record):
    """The record was no partition's own; the event was published anew where its scope belongs.

    It is decided there. `partition` is that place.
    """

    kind: Literal["forward"] = "forward"
    schema_version: Literal[1] = 1
    decision_id: DecisionId
    source: Position
    event_id: EventName
    scope: Scope
    partition: Count


Decision: TypeAlias = Annotated[
    Insert | Replace | Merge | Reinforce | Ignore | Reject | Forward, Field(discriminator="kind")
]
Change: TypeAlias = Insert | Replace | Merge | Reinforce
"""The decisions that change the store."""
Marker: TypeAlias = Reject | Forward
"""The decisions on a record that holds no event of its partition."""


class Fence(Record):
    """An owner has taken the partition; the record's own offset is the owner's epoch.

    `owner` is the token of this owner alone. `partitions` is how many there were: a scope's
    partition follows from their number.
    """

    kind: Literal["fence"] = "fence"
    schema_version: Literal[1] = 1
    owner: Label
    partition: Count
    partitions: Annotated[int, Field(ge=1)]
