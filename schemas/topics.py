"""The topics as data: what each carries, its key, its partitions and how long it is kept."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from pydantic import TypeAdapter

from schemas.decisions import Decision, Fence
from schemas.events import Event
from schemas.outcomes import Applied, DeadLetter, Review, Settled


@dataclass(frozen=True)
class Topic:
    """`partitions`: "events" topics all have the same number, which the operator chooses.

    `retention` None keeps records forever.
    """

    name: str
    payloads: tuple[TypeAdapter[Any], ...]
    key: Literal["scope", "memory id", "scope or none"]
    partitions: Literal["as events", "any"]
    retention: timedelta | None
    purpose: str


EVENTS = Topic(
    name="memory.events",
    payloads=(TypeAdapter(Event),),
    key="scope",
    partitions="as events",
    retention=timedelta(days=30),
    purpose="Requests for a change, published by producers.",
)
DECISIONS = Topic(
    name="memory.decisions",
    payloads=(TypeAdapter(Decision), TypeAdapter(Fence)),
    key="scope",
    partitions="as events",
    retention=None,
    purpose="One decision per event: the source of truth, never compacted.",
)
CHANGES = Topic(
    name="memory.changes",
    payloads=(TypeAdapter(Applied),),
    key="memory id",
    partitions="any",
    retention=timedelta(days=30),
    purpose="What the writer changed in the store, for downstream copies.",
)
DEAD_LETTERS = Topic(
    name="memory.dead-letters",
    payloads=(TypeAdapter(DeadLetter), TypeAdapter(Settled)),
    key="scope or none",
    partitions="any",
    retention=timedelta(days=30),
    purpose="Records that can never succeed, with their bytes and the reason, and what became of them.",
)
REVIEWS = Topic(
    name="memory.reviews",
    payloads=(TypeAdapter(Review),),
    key="scope",
    partitions="any",
    retention=timedelta(days=90),
    purpose="Pairs of memories that no judge could settle; the answers come back as events.",
)
TOPICS = (EVENTS, DECISIONS, CHANGES, REVIEWS, DEAD_LETTERS)
