"""The decisions of a partition's owner: one record per event, with the reason.

A decision is a pure function of the event, its neighbours, the verdicts and the policy. Wall-clock
facts (when it was made, and by which owner) are in the record's headers instead.
"""

from enum import StrEnum
from typing import Annotated, Literal, TypeAlias, TypeVar, get_args

from pydantic import Field, model_validator

from schemas.base import (
    ContentKey,
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
from schemas.events import AnyEvent, Erasure, MemoryHistory
from schemas.memories import Memory, Target


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
    OVERLAPS = "overlaps"
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
    TRUNCATED = "truncated"
    UNCHECKED = "unchecked"
    OLDER_CONTRADICTION = "older-contradiction"
    SAME_MEMORY_ID = "same-memory-id"
    SAME_CONTENT = "same-content"
    SAME_FACT = "same-fact"
    KNOWN_IN_FULL = "known-in-full"
    ADDS_TO_KNOWN = "adds-to-known"
    OVERLAPS_KNOWN = "overlaps-known"
    NEARLY_IDENTICAL = "nearly-identical"
    BETTER_THAN_KNOWN = "better-than-known"
    NO_BETTER_THAN_KNOWN = "no-better-than-known"
    NEWER_CONTRADICTION = "newer-contradiction"
    SUPERSEDES_BY_NAME = "supersedes-by-name"
    ANSWERED = "answered"
    ANSWERED_TOO_LATE = "answered-too-late"
    ENDED = "ended"
    PINNED = "pinned"
    UNPINNED = "unpinned"
    RATED = "rated"
    UNDONE = "undone"
    ONE_FACT = "one-fact"
    NOT_ONE_FACT = "not-one-fact"
    EMBEDDED = "embedded"
    CHECKED = "checked"
    OUT_OF_DATE = "out-of-date"
    NOTHING_TO_CHANGE = "nothing-to-change"
    FORGOTTEN = "forgotten"
    SAME_EVENT = "same-event"


SAID_MAX = 200
Said = Annotated[str, Field(max_length=SAID_MAX)]
"""A short quotation from a text."""


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
    where it tells them. `findings` are what guards object to. `wording` is the content key of the
    variant that is that similar; None where it is the shown text.
    """

    memory_id: MemoryId
    version: Annotated[int, Field(ge=1)]
    similarity: Cosine
    band: Band
    verdict: Verdict
    judge: Label
    probabilities: dict[Verdict, Unit] | None = None
    findings: tuple[Finding, ...] = ()
    wording: ContentKey | None = None


Strategy = Literal["append", "keep-better", "newer-wins", "llm"]
"""How a merged text is made: all parts without repeats; one of the texts; a model's wording."""


class Composition(Record):
    """How the text that a merge shows was made; every source stays as a wording of the memory.

    Sentence i comes from `origins[i]`: a target's memory id, or the event id. A model's wording has
    no sentences of theirs.
    """

    strategy: Strategy = "append"
    sentences: tuple[str, ...] = ()
    origins: tuple[Label, ...] = ()


class Evidence(Record):
    """Why the decision is what it is; `neighbours` come most similar first.

    `truncated`: the embedding does not cover the whole text. `degraded`: judges, or the
    embedder or the index, that should have answered and did not, with what kept them. `reviews`: the questions put to a person. `refused`:
    memories that the event named and that it may not change, with the reason. `masked`: kinds of
    what was masked in the event before it was looked at.
    """

    reason: Reason
    neighbours: tuple[Compared, ...] = ()
    truncated: bool = False
    degraded: tuple[Label, ...] = ()
    merge: Composition | None = None
    reviews: tuple[Label, ...] = ()
    refused: tuple[Label, ...] = ()
    masked: tuple[Label, ...] = ()


class _Decided(Record):
    schema_version: Literal[1] = 1
    decision_id: DecisionId
    event: AnyEvent
    source: Position
    policy_id: PolicyId
    evidence: Evidence


Worded = TypeVar("Worded", "Replace", "Merge", "Revised")


def _each_embedded(record: Worded) -> Worded:
    """Raise ValueError where a record carries vectors of some of its memory's variants only."""
    vectors, variants = record.variant_embeddings, record.memory.variants
    if vectors and len(vectors) != len(variants):
        raise ValueError(
            f"variant_embeddings has {len(vectors)} vectors, but the memory has "
            f"{len(variants)} variants"
        )
    return record


class Insert(_Decided):
    """A new memory. `embedding` is that of the memory's text."""

    kind: Literal["insert"] = "insert"
    memory: Memory
    embedding: Embedding


class Replace(_Decided):
    """The memory supersedes the targets.

    Where `memory` has a target's id it changes in place instead of being retired: its producer
    addressed it by name, or an answer says that it stands for another target as well.
    `variant_embeddings` are those of the memory's variants, in their order.
    """

    kind: Literal["replace"] = "replace"
    memory: Memory
    embedding: Embedding
    variant_embeddings: tuple[Embedding, ...] = ()
    targets: Annotated[tuple[Target, ...], Field(min_length=1)]

    _all_or_none_embedded = model_validator(mode="after")(_each_embedded)


class Merge(_Decided):
    """The event and its targets become one memory, which keeps every wording of them.

    `embedding` is that of the merged text, `variant_embeddings` are those of the memory's variants,
    in their order. `event_embedding` is that of the event's text; None where the event says nothing
    of its own, and only proposes to join its targets.
    """

    kind: Literal["merge"] = "merge"
    memory: Memory
    embedding: Embedding
    variant_embeddings: tuple[Embedding, ...] = ()
    event_embedding: Embedding | None
    targets: Annotated[tuple[Target, ...], Field(min_length=1)]

    _all_or_none_embedded = model_validator(mode="after")(_each_embedded)


class Reinforce(_Decided):
    """The memory is known: it is seen once more.

    `memory` is the target's next version. `embedding` is that of the event's text, and so of the
    variant that it becomes; it is absent where the text itself was recognised and nothing had to be
    embedded.
    """

    kind: Literal["reinforce"] = "reinforce"
    memory: Memory
    target: Target
    embedding: Embedding | None = None


class Revised(Record):
    """A memory as it is from now on. `embedding` is that of its text; None where that stays.

    `variant_embeddings` are those of its variants, in their order; none where those stay.
    """

    memory: Memory
    embedding: Embedding | None = None
    variant_embeddings: tuple[Embedding, ...] = ()

    _all_or_none_embedded = model_validator(mode="after")(_each_embedded)


class Revise(_Decided):
    """Memories change together, each to its next version, because somebody has asked for it.

    They may be retired, come back, or begin: all that is neither new nor a repeat.
    """

    kind: Literal["revise"] = "revise"
    memories: Annotated[tuple[Revised, ...], Field(min_length=1)]


class Restated(Revised):
    """A memory as it is from now on, whatever earlier records say, with its history."""

    history: MemoryHistory = MemoryHistory()


class Erase(_Decided):
    """Memories are forgotten, and records of the log go with them.

    `memories` are the forgotten ones, without what they said, and those whose earlier decisions go,
    as they are: each with the vector that it has from now on. `erased` are offsets in the
    partition of this decision: readers may find nothing there, and skip what builds on it.
    """

    kind: Literal["erase"] = "erase"
    memories: Annotated[tuple[Restated, ...], Field(min_length=1)]
    erased: tuple[Erasure, ...] = ()


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


class Block(Record):
    """What the event says is not kept.

    A memory that said so was forgotten, `memory_id`; or the policy keeps out what was `found` in
    it, such as a secret.
    """

    kind: Literal["block"] = "block"
    schema_version: Literal[1] = 1
    decision_id: DecisionId
    source: Position
    event_id: EventName
    scope: Scope
    memory_id: MemoryId | None = None
    found: tuple[Label, ...] = ()


Supersession: TypeAlias = Merge | Replace
"""The decisions whose memory supersedes others, their `targets`."""
Change: TypeAlias = Insert | Supersession | Reinforce
"""The decisions that concern one memory and change the store."""
Revision: TypeAlias = Revise | Erase
"""The decisions that a person or program has requested, on any number of memories."""
ScopedMarker: TypeAlias = Forward | Block
"""The markers that name the event and its scope."""
Marker: TypeAlias = Reject | ScopedMarker
"""The decisions that do not repeat the event, if there was one."""
OnEvent: TypeAlias = Change | Revision | Ignore
"""The decisions on an event."""
NoChange: TypeAlias = Ignore | Marker
"""The decisions that change no memory."""
Decision: TypeAlias = Annotated[OnEvent | Marker, Field(discriminator="kind")]
"""Every kind of decision."""


def targets_of(decision: Change) -> tuple[Target, ...]:
    """Return the known memories that a decision repeats or supersedes, as it saw them."""
    match decision:
        case Insert():
            return ()
        case Reinforce():
            return (decision.target,)
        case Merge() | Replace():
            return decision.targets


def event_of(decision: OnEvent | ScopedMarker) -> AnyEvent | ScopedMarker:
    """Return what names the event's id and its scope: the event, or the marker in its place."""
    return decision if isinstance(decision, ScopedMarker) else decision.event


def kind_of(model: type[Record]) -> str:
    """Return the kind of a record, such as `Insert`."""
    kind: str = model.model_fields["kind"].default
    return kind


def kinds_of(union: object) -> tuple[str, ...]:
    """Return the kinds of a union of records, such as `Change | Ignore`, in its order."""
    return tuple(map(kind_of, get_args(union)))


KINDS = kinds_of(OnEvent | Marker)
"""Every kind of decision."""


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
