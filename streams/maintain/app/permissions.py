"""The permissions of each process on Kafka, from the topics that it reads and writes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeAlias

from schemas.topics import (
    CHANGES,
    DEAD_LETTERS,
    DECISIONS,
    EVENTS,
    REVIEWS,
    TOPICS,
    TURNS,
    Topic,
)
from streams.extract.flow.extractor import EXTRACTOR_GROUP
from streams.stage.flow.takeover import DEDUPLICATOR_GROUP
from streams.stage.flow.writer import WRITER_GROUP

Operation: TypeAlias = Literal["Create", "Describe", "DescribeConfigs", "Read", "Write"]
Operations: TypeAlias = tuple[Operation, ...]


class Login(StrEnum):
    """How a user logs in, in Strimzi's words."""

    SCRAM = "scram-sha-512"
    TLS = "tls"


@dataclass(frozen=True)
class ClientProcess:
    """A process that logs in: what it reads, what it writes, and the groups that it joins.

    `counts` are groups whose lag it reads; `creates` is whether it makes topics.
    """

    name: str
    reads: tuple[Topic, ...] = ()
    writes: tuple[Topic, ...] = ()
    joins: tuple[str, ...] = ()
    counts: tuple[str, ...] = ()
    creates: bool = False


@dataclass(frozen=True)
class Permission:
    """Operations on one topic or group, by its name in the cluster."""

    resource: Literal["topic", "group"]
    name: str
    operations: Operations


_DEDUPLICATOR = ClientProcess(
    "deduplicator",
    reads=(EVENTS, DECISIONS),
    writes=(EVENTS, DECISIONS, REVIEWS, DEAD_LETTERS),
    joins=(DEDUPLICATOR_GROUP,),
)
_WRITER = ClientProcess(
    "writer",
    reads=(DECISIONS,),
    writes=(DECISIONS, CHANGES),  # what is forgotten is erased from the decisions
    joins=(WRITER_GROUP,),
)
_EXTRACTOR = ClientProcess(
    "extractor",
    reads=(TURNS, EVENTS),
    writes=(TURNS, EVENTS, DEAD_LETTERS),
    joins=(EXTRACTOR_GROUP,),
)
_SERVED = (_DEDUPLICATOR, _WRITER, _EXTRACTOR)
PROCESSES = (
    _DEDUPLICATOR,
    _WRITER,
    _EXTRACTOR,
    ClientProcess(
        "serve",
        reads=(EVENTS, DECISIONS, TURNS),
        writes=(*dict.fromkeys(topic for one in _SERVED for topic in one.writes),),
        joins=tuple(group for one in _SERVED for group in one.joins),
    ),
    ClientProcess("consolidator", reads=(DECISIONS,), writes=(EVENTS,)),
    ClientProcess("api", reads=(DECISIONS, REVIEWS), writes=(EVENTS,)),
    ClientProcess("publish", writes=(EVENTS, TURNS, DEAD_LETTERS)),
    ClientProcess(
        "operator",
        reads=TOPICS,
        writes=(EVENTS, TURNS, DEAD_LETTERS),
        counts=tuple(group for one in _SERVED for group in one.joins),
        creates=True,
    ),
)
"""`api` is also `service web`; `operator` is a person with any other command."""


def permissions(process: ClientProcess, named: Callable[[str], str]) -> list[Permission]:
    """Return the least that a process needs; `named` returns a topic's or group's name."""
    return [
        *(Permission("topic", named(one.name), _on_topic(process, one)) for one in TOPICS),
        *(Permission("group", named(group), ("Read",)) for group in process.joins),
        *(Permission("group", named(group), ("Describe",)) for group in process.counts),
    ]


def _on_topic(process: ClientProcess, topic: Topic) -> Operations:
    """Return what is done with a topic. Each process checks the settings of all."""
    reads, writes = topic in process.reads, topic in process.writes
    wanted: Sequence[tuple[Operation, bool]] = (
        ("Create", process.creates),
        ("Describe", not (reads or writes)),  # else it is implied
        ("DescribeConfigs", True),
        ("Read", reads),
        ("Write", writes),
    )
    return tuple(operation for operation, is_wanted in wanted if is_wanted)
