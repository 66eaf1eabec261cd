"""Publishing requests to a cluster and waiting for the decisions on them."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias, TypeGuard

from schemas.decisions import Decision, Ignore, Reason
from schemas.events import Event
from schemas.topics import DECISIONS, EVENTS
from streams.clock.stopwatch import seconds_left
from streams.model.fences import Reached
from streams.model.identity import decision_id
from streams.model.ports import Log, Unreachable
from streams.stage.flow.decisions import DecisionsReader, epoch_at
from streams.store.app import wiring
from streams.store.app.requests import record_of
from streams.store.app.settings import Settings

LOOK_SECONDS = 0.2
_PAGE = 500
_ATTEMPTS = 5
"""Attempts at one request: memories that change that often meanwhile will go on changing."""

_Place: TypeAlias = tuple[int, int]
"""The partition and the offset of an event."""


class Interrupted(Exception):
    """The wait for decisions was cut short. The requests stay published."""


@dataclass(frozen=True)
class Reply:
    """A published event, its place in the log, and its decision; None if there is none yet."""

    event: Event
    place: str
    decision: Decision | None = None


def undecided(replies: Sequence[Reply]) -> list[Reply]:
    """Return the replies without a decision."""
    return [one for one in replies if one.decision is None]


def decisions_of(replies: Sequence[Reply]) -> list[Decision]:
    """Return the decisions made so far."""
    return [one.decision for one in replies if one.decision is not None]


def is_out_of_date(decision: Decision | None) -> bool:
    """Return whether a request was refused because its memories had changed before its turn."""
    return isinstance(decision, Ignore) and decision.evidence.reason is Reason.OUT_OF_DATE


def is_again(decision: Decision | None) -> TypeGuard[Ignore]:
    """Return whether an event was ignored as a repetition."""
    return isinstance(decision, Ignore) and decision.evidence.reason is Reason.SAME_EVENT


class Published:
    """Events that this process has published, and their decisions as they arrive.

    `since` is the end offset of each partition's decisions before the events were published.
    """

    def __init__(
        self, log: Log, sent: Sequence[tuple[_Place, Event]], since: Mapping[int, int]
    ) -> None:
        self._log = log
        self._sent = sent
        self._since = since
        self._places = {place for place, _ in sent}
        self._ids = {decision_id(event.scope, event.event_id) for _, event in sent}
        self._readers = dict[int, DecisionsReader]()
        self._own = dict[_Place, Decision]()
        self._first = dict[str, Decision]()

    async def are_decided(self) -> bool:
        """Read new decisions; return whether all events are decided on."""
        for partition in self._since:
            await self._read(partition)
        return self._own.keys() == self._places

    @property
    def replies(self) -> list[Reply]:
        """The reply to each event so far, in order."""
        return [
            Reply(event, f"{EVENTS.name}/{place[0]}/{place[1]}", self._decision(place))
            for place, event in self._sent
        ]

    @property
    def reached(self) -> dict[int, int]:
        """The offset up to which each partition's decisions were read."""
        return {partition: one.reached.offset for partition, one in self._readers.items()}

    async def _read(self, partition: int) -> None:
        reader = self._readers.get(partition)
        if reader is None:
            start = self._since[partition]
            epoch = await epoch_at(self._log, partition, start)
            reader = self._readers[partition] = DecisionsReader(Reached(start, epoch))
        while page := await self._log.read(DECISIONS.name, partition, reader.reached.offset, _PAGE):
            for logged in reader.window(page):
                self._take(logged.decision)

    def _take(self, decision: Decision) -> None:
        """Remember a decision on one of the events, or on another event with the same id."""
        place = decision.source.partition, decision.source.offset
        if place in self._places:
            self._own[place] = decision
        if decision.decision_id in self._ids and not is_again(decision):
            self._first[decision.decision_id] = decision

    def _decision(self, place: _Place) -> Decision | None:
        """Return the decision on an event; for a repeated event, the one that was not an ignore."""
        own = self._own.get(place)
        if own is None or not is_again(own):
            return own
        return self._first.get(own.decision_id, own)


class Asking:
    """Publishes requests to a cluster and waits for the decisions, with one timeout for all."""

    def __init__(self, settings: Settings, seconds: float, report: Callable[[str], None]) -> None:
        """0 `seconds` means no waiting. The timeout starts with the first request."""
        self._settings = settings
        self._seconds = seconds
        self._report = report
        self._left: Callable[[], float] | None = None
        self._attempts = 0

    async def ask(self, events: Sequence[Event]) -> list[Reply]:
        """Publish events; return the replies that are known when the wait ends.

        Raises Interrupted if the wait is cancelled.
        """
        self._attempts += 1
        await wiring.partitions(self._settings.kafka)
        log = wiring.kafka_log(self._settings)
        try:
            published = await publish(log, events)
            self._left = self._left or seconds_left(self._seconds)
            if events and self._seconds:
                await self._wait(published, self._left())
            return published.replies
        finally:
            await log.close()

    def goes_on(self, replies: Sequence[Reply]) -> bool:
        """Return whether to retry requests refused as out of date; report it if so."""
        refused = sum(is_out_of_date(one.decision) for one in replies)
        if not refused or not self._may_ask():
            return False
        self._report(
            f"{refused:,} of {len(replies):,} refused: what it is about has changed since it was "
            f"planned; it is planned anew and asked again ({self._attempts + 1} of {_ATTEMPTS})"
        )
        return True

    def has_time(self, replies: Sequence[Reply]) -> bool:
        """Return whether all was decided in time, so that more requests may follow."""
        return self._may_ask() and not undecided(replies)

    def _may_ask(self) -> bool:
        in_time = self._left is not None and self._left() > 0
        return in_time and self._attempts < _ATTEMPTS

    async def _wait(self, published: Published, seconds: float) -> None:
        first, *others = published.replies
        more = f" and {len(others):,} more" if others else ""
        self._report(
            f"published as {first.place}{more}; waiting up to {seconds:.0f} s for the decision "
            "(Ctrl-C ends only the waiting)"
        )
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await until_decided(published)
        except asyncio.CancelledError as stop:
            raise Interrupted(
                f"interrupted; what was asked for stays asked, as {first.place}{more}: "
                f"memsieve explain {first.event.event_id} tells what comes of it"
            ) from stop


async def publish(log: Log, events: Sequence[Event]) -> Published:
    """Publish events in one append, each to the partition of its scope."""
    partitions = await log.partitions(EVENTS.name)
    records = [record_of(one, partitions) for one in events]
    own = {record.partition for record in records}
    since = {partition: await log.end(DECISIONS.name, partition) for partition in own}
    offsets = await log.append(records)
    places = [(one.partition, offset) for one, offset in zip(records, offsets, strict=True)]
    return Published(log, list(zip(places, events, strict=True)), since)


async def until_decided(published: Published) -> None:
    """Return when all are decided on. If the broker is unreachable, retry: it has the events."""
    while True:
        with suppress(Unreachable):
            if await published.are_decided():
                return
        await asyncio.sleep(LOOK_SECONDS)
