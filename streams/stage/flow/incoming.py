"""Incoming records: whether they can be used and kept, and which partition they belong to."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from schemas.base import EventId, ScopeName
from schemas.codec import EVENT, Codec, Unreadable
from schemas.events import Event, Remember
from schemas.topics import EVENTS, Topic
from schemas.turns import Turn
from streams.model.observed import is_ahead
from streams.model.policy import Policy
from streams.model.ports.failures import Poison
from streams.model.ports.log import LogRecord, OutgoingRecord
from streams.model.ports.models import Screener
from streams.model.scope import partition_of
from streams.model.screening import screened
from streams.stage.flow.dead_letters import ATTEMPTS_HEADER, oversized

FORWARDED_HEADER = "memsieve-forwarded"
"""The original position of a republished record: TOPIC/PARTITION/OFFSET."""

_TAKEN_IN_HEADER = "memsieve-taken-in"
"""When an embedded store took a record in, which keeps no clock of its own: seconds since 1970."""


def addressed(
    scope: ScopeName,
    value: bytes,
    partitions: int,
    headers: tuple[tuple[str, bytes | None], ...] = (),
    *,
    topic: Topic = EVENTS,
) -> OutgoingRecord:
    """Return the record that publishes an event or turn, in its scope's partition and key."""
    return OutgoingRecord(
        topic=topic.name,
        partition=partition_of(scope, partitions),
        key=scope.encode(),
        value=value,
        headers=headers,
    )


def with_ingestion_time(records: Sequence[OutgoingRecord], at: datetime) -> list[OutgoingRecord]:
    """Return events with a note of when they are taken in, for a log that keeps none itself."""
    noted = (_TAKEN_IN_HEADER, f"{at.timestamp():.0f}".encode())
    return [
        OutgoingRecord(one.topic, one.partition, one.key, one.value, (*one.headers, noted))
        if one.topic == EVENTS.name
        else one
        for one in records
    ]


def time_of(record: LogRecord) -> datetime | None:
    """Return when a record was taken in; None where nothing tells."""
    noted = dict(record.headers).get(_TAKEN_IN_HEADER)
    if record.appended_at is not None or noted is None:
        return record.appended_at
    with suppress(ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(int(noted), UTC)
    return None


_Said = TypeVar("_Said", bound=Event | Turn)


def read(record: LogRecord, codec: Codec[_Said], *, likely: str) -> _Said | Poison:
    """Return a record's content, or why it has none; `likely` is the kind to try first."""
    value = record.value or b""
    if too_long := oversized(value):
        return too_long
    try:
        said = codec.decode(value, likely=likely)
    except Unreadable as error:
        return Poison(str(error), error.field)
    return _untimely(record, said.occurred_at) or said


def _untimely(record: LogRecord, occurred_at: datetime) -> Poison | None:
    """Reject what has not happened yet by the log's clock."""
    appended = record.appended_at
    if appended is None or not is_ahead(occurred_at, appended):
        return None
    return Poison(
        f"occurred_at is {occurred_at:%Y-%m-%d %H:%M:%S} UTC, but the log took it in at "
        f"{appended:%Y-%m-%d %H:%M:%S}: correct the producer's clock",
        "occurred_at",
    )


def misrouted(record: LogRecord, scope: ScopeName, partitions: int) -> int | Poison | None:
    """Return the partition that a misrouted record belongs to.

    The scope determines it, with the partitioner of Kafka's Java client. Poison if the record was
    forwarded before; None if its partition and key are right.
    """
    place = partition_of(scope, partitions)
    if record.partition == place and record.key == scope.encode():
        return None
    if FORWARDED_HEADER not in dict(record.headers):
        return place
    return Poison(
        f"scope {scope} belongs to partition {place} of {partitions}, keyed by its scope; it was "
        "sent on once and came here: does another program send records on?",
        "partition",
    )


def forwarded(record: LogRecord, scope: ScopeName, partition: int) -> OutgoingRecord:
    """Return the record that republishes a record, byte for byte, in its scope's partition."""
    return OutgoingRecord(
        topic=record.topic,
        partition=partition,
        key=scope.encode(),
        value=record.value or b"",
        headers=(*record.headers, (FORWARDED_HEADER, record.place.encode())),
        cause=record.offset,
    )


@dataclass(frozen=True)
class MisroutedEvent:
    """An event found outside its scope's partition; it is republished in that partition."""

    event: Event
    partition: int


@dataclass(frozen=True)
class WithheldEvent:
    """An event that must not be kept because of what was found in it."""

    event_id: EventId
    scope: ScopeName
    found: tuple[str, ...]


@dataclass(frozen=True)
class ReceivedRecord:
    """One record of the events topic, read; `event` is its content, or why it has none.

    `masked` lists the kinds of data masked in it. `erasable`: a request to forget names only
    records of its own scope.
    """

    record: LogRecord
    event: Event | MisroutedEvent | WithheldEvent | Poison
    masked: tuple[str, ...] = ()
    erasable: bool = True

    @property
    def decidable(self) -> Event | None:
        """The event, if it is to be decided on here."""
        if isinstance(self.event, MisroutedEvent | WithheldEvent | Poison):
            return None
        return self.event


def screen(item: ReceivedRecord, policy: Policy, screener: Screener | None) -> ReceivedRecord:
    """Screen an event and treat the findings as the policy of its scope says.

    An event that a person has reviewed and requeued is not set aside again.
    """
    event = item.event
    if screener is None or not isinstance(event, Remember):
        return item
    rule = policy.rules(event.scope).privacy
    if not rule.screens:
        return item
    found = screened(event, rule, partial(screener.spot, region=rule.region))
    if found.event is not None:
        return _masked(item, found.event, found.found) if found.found else item
    if not found.asks:
        return replace(item, event=WithheldEvent(event.event_id, event.scope, found.found))
    if ATTEMPTS_HEADER in dict(item.record.headers):
        return item
    kinds = ", ".join(found.found)
    return replace(
        item,
        event=Poison(
            f"may hold: {kinds}; check it, then requeue it unchanged or corrected, or drop it",
            "text",
        ),
    )


def _masked(item: ReceivedRecord, event: Remember, found: tuple[str, ...]) -> ReceivedRecord:
    """Return a masked event, or Poison if the masks made it too long."""
    value = EVENT.encode(event)
    poison = oversized(value)
    try:
        EVENT.decode(value, likely="remember")
    except Unreadable as error:
        poison = Poison(str(error), error.field)
    if poison is None:
        return ReceivedRecord(replace(item.record, value=value), event, found)
    return replace(item, event=Poison(f"with {', '.join(found)} masked: {poison}", poison.field))
