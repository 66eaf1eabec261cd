"""The topics as data: what each carries, its key, its partitions and its retention."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from pydantic import TypeAdapter

from schemas.decisions import Decision, Fence
from schemas.events import AnyEvent
from schemas.outcomes import Applied, DeadLetter, Review, Settled
from schemas.turns import Turn


@dataclass(frozen=True)
class Topic:
    """`partitions`: "events" topics all have the same number, which the operator chooses.

    `retention` None keeps records forever. `compacted`: each record has a key of its own, so that
    only what is erased on purpose goes.
    """

    name: str
    payloads: tuple[TypeAdapter[Any], ...]
    key: Literal["scope", "decision", "memory id", "scope or none"]
    partitions: Literal["as events", "any"]
    retention: timedelta | None
    purpose: str
    compacted: bool = False


EVENTS = Topic(
    name="memory.events",
    payloads=(TypeAdapter(AnyEvent),),
    key="scope",
    partitions="as events",
    retention=timedelta(days=30),
    purpose="Requests for a change, published by producers.",
)
DECISIONS = Topic(
    name="memory.decisions",
    payloads=(TypeAdapter(Decision), TypeAdapter(Fence)),
    key="decision",
    partitions="as events",
    retention=None,
    purpose="One decision per event: the source of truth; only what is forgotten is erased.",
    compacted=True,
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
TURNS = Topic(
    name="memory.turns",
    payloads=(TypeAdapter(Turn),),
    key="scope",
    partitions="as events",
    retention=timedelta(days=30),
    purpose="Turns of agents, for the extractor, which makes events of them.",
)
TOPICS = (EVENTS, DECISIONS, CHANGES, REVIEWS, DEAD_LETTERS, TURNS)
INPUTS = (EVENTS, TURNS)
"""The topics that producers publish to; only memsieve writes to the others."""
