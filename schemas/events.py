"""The events that producers publish: requests for a change, each answered by one decision."""

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, JsonValue, model_validator

from schemas.base import (
    ContentKey,
    Count,
    DecisionName,
    Embedding,
    EventName,
    FewLabels,
    Label,
    MemoryName,
    Metadata,
    Moment,
    Record,
    Scope,
    Text,
    Unit,
)
from schemas.memories import Memory, Persistence, Target, valid_in_order


class Seen(Record):
    """A memory as somebody saw it: its id, and the key of the text that it had."""

    memory_id: MemoryName
    content_key: ContentKey

    @classmethod
    def of(cls, memory: Memory) -> Self:
        """Return a memory as it is."""
        return cls(memory_id=memory.id, content_key=memory.content_key)


class Remember(Record):
    """Something was learnt: decide whether it is new, known, or part of what is known.

    `event_id` is unique within its scope and stays the same when the event is published again.
    `memory_id` is the producer's own name for the memory that the event makes. As long as that
    memory is live, a later event of the same scope and name gives it new text; where it was merged
    or superseded, or never made because its words were known, the event is judged like any other.
    `source` says who said it. `supersedes` names memories of the scope, by their ids, that this one
    replaces; a policy limits that, and what may not be retired is kept. The fact holds
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
    """Somebody says what the newer of two memories is to the older one, asked by a review or not.

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
        return f"{self.author}: memory {newer} {_ANSWER[self.verdict]} memory {older}"


_ANSWER = {
    "same": "says the same as",
    "refines": "says more than",
    "refined-by": "says less than",
    "contradicts": "replaces",
    "distinct": "states another fact than",
}


MEMBERS_MAX = 64
"""The most memories that one request may change: its decision must fit into a record."""

CONCERNED_MAX = MEMBERS_MAX + 1
"""The most memories that an undo may change: those that one decision may change, and its result."""

UNDOES_MAX = 1_000
"""The most decisions that one undo may revert: a memory may have been seen that often since."""

Targets = Annotated[tuple[Target, ...], Field(min_length=1, max_length=MEMBERS_MAX)]


def _listed(targets: tuple[Target, ...]) -> str:
    names = ", ".join(target.memory_id for target in targets)
    return f"memory {names}" if len(targets) == 1 else f"memories {names}"


class _Request(Record):
    """Somebody, `author`, asks for a change of memories that are there.

    The partition's owner makes it in order, against the state that it has by then. Where that is
    not what the request saw, it changes nothing: whoever asked looks again.
    """

    event_id: EventName
    scope: Scope
    author: Label
    occurred_at: Moment
    note: Annotated[str, Field(max_length=2_000)] = ""


Ended: TypeAlias = Literal["expired", "ended", "invalid", "unused", "harmful"]
"""The reasons for ending memories without a successor."""


class Retire(_Request):
    """Memories end, and none takes their place. Pinned ones do not.

    expired: their time has run out. ended: what they belonged to, such as an episode, is over.
    invalid: they are not, or no longer, true. unused: nobody needed them. harmful: they misled.
    """

    kind: Literal["retire"] = "retire"
    schema_version: Literal[1] = 1
    memories: Targets
    reason: Ended

    @property
    def text(self) -> str:
        """What it asks for, in words."""
        return f"{self.author}: {_listed(self.memories)} to end: {self.reason}"


class Pin(_Request):
    """A memory is never merged, replaced nor ended from now on; or may be again."""

    kind: Literal["pin"] = "pin"
    schema_version: Literal[1] = 1
    memory_id: MemoryName
    pinned: bool

    @property
    def text(self) -> str:
        """What it asks for, in words."""
        return (
            f"{self.author}: memory {self.memory_id} is {'' if self.pinned else 'no longer '}pinned"
        )


class Rate(_Request):
    """A memory was looked at, and has helped or misled, so many times since it was rated last."""

    kind: Literal["rate"] = "rate"
    schema_version: Literal[1] = 1
    memory_id: MemoryName
    accessed: Count = 0
    helpful: Count = 0
    harmful: Count = 0

    @property
    def text(self) -> str:
        """What it tells, in words."""
        return (
            f"{self.author}: memory {self.memory_id} was looked at {self.accessed}, helped "
            f"{self.helpful} and misled {self.harmful} times"
        )


class Undo(_Request):
    """A decision, and what rests on it, is taken back.

    `memories` are those of the scope that it concerns, as they shall be from now on: each at the
    version behind the one that was seen. One may be new: at version 1, with the id of the memory
    that the decision on this event creates. Whoever asks has read in the log what they were before.
    `undoes` are the decisions that do not hold any more, the first of them the one that was meant.
    """

    kind: Literal["undo"] = "undo"
    schema_version: Literal[1] = 1
    undoes: Annotated[tuple[DecisionName, ...], Field(min_length=1, max_length=UNDOES_MAX)]
    memories: Annotated[tuple[Memory, ...], Field(min_length=1, max_length=CONCERNED_MAX)]

    @model_validator(mode="after")
    def _of_its_scope(self) -> Self:
        for memory in self.memories:
            if memory.scope != self.scope:
                raise ValueError(f"memory {memory.id} is of another scope: {memory.scope}")
        if len({memory.id for memory in self.memories}) < len(self.memories):
            raise ValueError("memories names one of them twice")
        return self

    @property
    def text(self) -> str:
        """What it asks for, in words."""
        meant, *resting = self.undoes
        return f"{self.author}: undo {meant}{f' and {len(resting)} after it' if resting else ''}"


class Consolidate(_Request):
    """These memories may be one fact: judge them all, and join what is.

    A proposal: the owner believes no similarity and no verdict of others. A memory by itself was
    stored unchecked: what it lacks is to be made up for.
    """

    kind: Literal["consolidate"] = "consolidate"
    schema_version: Literal[1] = 1
    members: Targets

    @property
    def text(self) -> str:
        """What it asks for, in words."""
        if len(self.members) == 1:
            return f"{self.author}: {_listed(self.members)} was stored unchecked"
        return f"{self.author}: may {_listed(self.members)} be one fact?"


FINGERPRINTS_MAX = 1_024
ERASURES_MAX = 4_096
"""The most records that one request may erase: the event must hold them all."""
STATED_MAX = 512
"""The most other memories that it may restate: the decision must hold them all."""
DECIDED_MAX = 64
"""How many of its decisions a memory keeps: enough to recognise a redelivered event."""
CONTRADICTED_MAX = 8
"""A memory remembers so many others that it was found to contradict: the newest."""


class Tombstone(Record):
    """What tells, to those who have the key, whether a text says what was forgotten; not what it was.

    `key` names the key. `fingerprints` are of the texts that a memory had, `specifics` of the
    numbers, names and negations in its last one: HMACs in hexadecimal.
    """

    key: Label
    fingerprints: Annotated[tuple[Label, ...], Field(max_length=FINGERPRINTS_MAX)]
    specifics: Annotated[tuple[Label, ...], Field(max_length=FINGERPRINTS_MAX)]


class Forgotten(Record):
    """A memory that is to be forgotten, at the version that was seen.

    `tombstone` is None where its facts may be told again: they only stood together with what is
    forgotten. `embedding` is what the memory has from then on: not that of its text.
    """

    memory_id: MemoryName
    version: Annotated[int, Field(ge=1)]
    tombstone: Tombstone | None
    embedding: Embedding


class DecidedEvent(Record):
    """An event that was decided on, by its decision, and its content key: what tells it again."""

    decision_id: DecisionName
    content_key: ContentKey


class Contradiction(Record):
    """A memory that another one contradicts, at the version that was compared."""

    memory_id: MemoryName
    version: Annotated[int, Field(ge=1)]


class MemoryHistory(Record):
    """What a memory knows of its past when the records that told it are erased.

    `decided` are the newest events that made it, oldest first: redelivered, they are known.
    `contradicted` are the memories that it contradicts; `worded_at` is the version since which it
    shows its text.
    """

    decided: Annotated[tuple[DecidedEvent, ...], Field(max_length=DECIDED_MAX)] = ()
    contradicted: Annotated[tuple[Contradiction, ...], Field(max_length=CONTRADICTED_MAX)] = ()
    worded_at: Annotated[int, Field(ge=1)] = 1


class Stated(Target):
    """A memory that is not forgotten, and whose state is written down again, with its history."""

    history: MemoryHistory = MemoryHistory()


class Erasure(Record):
    """A decision that the log is to lose, and the event that it was made on, by their offsets.

    `stays_for` are memories that the event is about, where it says nothing that is forgotten and
    only the decision quotes it: it is kept as long as they are. `again`: the event is published
    anew, to be decided without what is forgotten.
    """

    decision: Count
    event: Count
    stays_for: Annotated[tuple[MemoryName, ...], Field(max_length=MEMBERS_MAX)] = ()
    again: bool = False

    @property
    def event_stays(self) -> bool:
        """Whether only the decision goes."""
        return bool(self.stays_for)


class Forget(_Request):
    """Memories are forgotten: nothing that is kept says any more what they said.

    `stated` are other memories that erased decisions have touched: their state is written down
    again. `erased` are the records of the scope's partition that go. Whoever asks has read them in
    the log; the event itself holds no text.
    """

    kind: Literal["forget"] = "forget"
    schema_version: Literal[1] = 1
    memories: Annotated[tuple[Forgotten, ...], Field(min_length=1, max_length=MEMBERS_MAX)]
    stated: Annotated[tuple[Stated, ...], Field(max_length=STATED_MAX)] = ()
    erased: Annotated[tuple[Erasure, ...], Field(max_length=ERASURES_MAX)] = ()

    @property
    def targets(self) -> tuple[Target, ...]:
        """All memories that it changes, at the versions that were seen."""
        gone = [Target(memory_id=one.memory_id, version=one.version) for one in self.memories]
        return (*gone, *self.stated)

    @property
    def text(self) -> str:
        """What it asks for, in words."""
        gone = self.targets[: len(self.memories)]
        return f"{self.author}: {_listed(gone)} to be forgotten"


Request: TypeAlias = Retire | Pin | Rate | Undo | Consolidate | Forget
"""The events that state nothing new, but request a change of existing memories."""
Event: TypeAlias = Remember | Answer | Request
"""Every kind of event."""
AnyEvent: TypeAlias = Annotated[Event, Field(discriminator="kind")]
"""An event, discriminated by its kind."""
