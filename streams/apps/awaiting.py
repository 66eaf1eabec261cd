"""Requests published to a cluster, and the decisions of their owners, awaited."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias, TypeGuard

from schemas.decisions import Decision, Ignore, Reason
from schemas.events import Event
from schemas.topics import DECISIONS, EVENTS
from streams.adapters.stopwatch import seconds_left
from streams.apps import wiring
from streams.apps.requests import record_of
from streams.apps.settings import Settings
from streams.core.fences import Reached
from streams.core.identity import decision_id
from streams.flow.decisions import DecisionsReader, epoch_at
from streams.ports import Log, Unreachable

LOOK_SECONDS = 0.2
_PAGE = 500
_ATTEMPTS = 5
"""How often the same is asked for: whoever changes what it is about so often goes on doing so."""

_Place: TypeAlias = tuple[int, int]
"""The partition and the offset of an event."""


class Interrupted(Exception):
    """Nobody waits for the decisions any longer. What was asked for stays asked."""


@dataclass(frozen=True)
class Reply:
    """An event that was published at a place, and its decision; None where there is none yet."""

    event: Event
    place: str
    decision: Decision | None = None


def undecided(replies: Sequence[Reply]) -> list[Reply]:
    """Return those that no owner has decided on yet."""
    return [one for one in replies if one.decision is None]


def decisions_of(replies: Sequence[Reply]) -> list[Decision]:
    """Return the decisions that are there."""
    return [one.decision for one in replies if one.decision is not None]


def is_out_of_date(decision: Decision | None) -> bool:
    """Tell whether a request was refused because what it is about had changed by its turn."""
    return isinstance(decision, Ignore) and decision.evidence.reason is Reason.OUT_OF_DATE


def is_again(decision: Decision | None) -> TypeGuard[Ignore]:
    """Tell whether an event was ignored because it had come before."""
    return isinstance(decision, Ignore) and decision.evidence.reason is Reason.SAME_EVENT


class Published:
    """Events that this process has published, and their decisions as they come.

    `since` is where the decisions of each partition ended before.
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
        """Read on; tell whether all of them are decided on."""
        for partition in self._since:
            await self._read(partition)
        return self._own.keys() == self._places

    @property
    def replies(self) -> list[Reply]:
        """What is known so far of each event, in their order."""
        return [
            Reply(event, f"{EVENTS.name}/{place[0]}/{place[1]}", self._decision(place))
            for place, event in self._sent
        ]

    @property
    def reached(self) -> dict[int, int]:
        """How far the decisions of each partition were read."""
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
        """Remember a decision on one of the events, or on one like it that was asked before."""
        place = decision.source.partition, decision.source.offset
        if place in self._places:
            self._own[place] = decision
        if decision.decision_id in self._ids and not is_again(decision):
            self._first[decision.decision_id] = decision

    def _decision(self, place: _Place) -> Decision | None:
        """Return the decision on an event: the one that was heeded, where it was asked twice."""
        own = self._own.get(place)
        if own is None or not is_again(own):
            return own
        return self._first.get(own.decision_id, own)


class Asking:
    """Asks a cluster for something and waits for the decisions: so many seconds in all."""

    def __init__(self, settings: Settings, seconds: float, report: Callable[[str], None]) -> None:
        """With 0 `seconds` nothing is waited for. The time begins with the first request."""
        self._settings = settings
        self._seconds = seconds
        self._report = report
        self._left: Callable[[], float] | None = None
        self._attempts = 0

    async def ask(self, events: Sequence[Event]) -> list[Reply]:
        """Publish events; return what their owners have decided by the time that waiting ends.

        Raises Interrupted where it is cut short.
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
        """Tell whether to ask anew for what was refused as out of date; says so."""
        refused = sum(is_out_of_date(one.decision) for one in replies)
        if not refused or not self._may_ask():
            return False
        self._report(
            f"{refused:,} of {len(replies):,} refused: what it is about has changed since it was "
            f"planned; it is planned anew and asked again ({self._attempts + 1} of {_ATTEMPTS})"
        )
        return True

    def has_time(self, replies: Sequence[Reply]) -> bool:
        """Tell whether all was decided in time, so that more may be asked for."""
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
    """Publish events together, each in the partition of its scope."""
    partitions = await log.partitions(EVENTS.name)
    records = [record_of(one, partitions) for one in events]
    own = {record.partition for record in records}
    since = {partition: await log.end(DECISIONS.name, partition) for partition in own}
    offsets = await log.append(records)
    places = [(one.partition, offset) for one, offset in zip(records, offsets, strict=True)]
    return Published(log, list(zip(places, events, strict=True)), since)


async def until_decided(published: Published) -> None:
    """Return when all are decided on. A broker that does not answer has them all the same."""
    while True:
        with suppress(Unreachable):
            if await published.are_decided():
                return
        await asyncio.sleep(LOOK_SECONDS)
