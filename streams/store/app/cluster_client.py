"""The client of a cluster: it publishes events and waits for the services' decisions."""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeAlias

from schemas.decisions import Decision
from schemas.events import Event
from schemas.topics import DECISIONS, EVENTS
from streams.clock.stopwatch import countdown, time_limit
from streams.model.fences import ReadPosition
from streams.model.identity import decision_id
from streams.model.ports.failures import Unreachable
from streams.model.ports.index import Index
from streams.model.ports.log import Log, pages
from streams.stage.flow.decisions import DecisionsReader, epoch_at
from streams.stage.flow.takeover import applied
from streams.store.app.client import ATTEMPTS, Response, is_again, record_of

_LOOK_SECONDS = 0.2
_APPLY_SECONDS = 30.0
"""How long the writers may take to apply what was decided."""

_Place: TypeAlias = tuple[int, int]
"""The partition and the offset of an event."""


class Interrupted(Exception):
    """The wait for decisions was cut short. The requests stay published."""


@dataclass(frozen=True)
class Waiting:
    """How long the services are waited for: `left` returns the seconds that are left.

    With `report` somebody watches: it receives a line about each wait, and a wait that is cancelled
    raises Interrupted.
    """

    left: Callable[[], float]
    report: Callable[[str], None] | None = None


NO_WAITING = Waiting(lambda: 0.0)


def watched(seconds: float, report: Callable[[str], None]) -> Waiting:
    """Return that somebody waits, at most so many seconds for all that is submitted."""
    return Waiting(countdown(seconds), report)


class ClusterClient:
    """Implements Client for a cluster: its services decide on events in turn."""

    def __init__(
        self,
        log: Log,
        memories: Callable[[], Awaitable[Index]],
        waiting: Waiting,
        reached: dict[int, int] | None = None,
    ) -> None:
        """`memories` returns what the writers have applied so far.

        Clients that share `reached` wait in `index` for each other's decisions.
        """
        self._log = log
        self._memories = memories
        self._waiting = waiting
        self._attempts = 0
        self._reached = dict[int, int]() if reached is None else reached

    @property
    def attempts_left(self) -> int:
        return max(0, ATTEMPTS - self._attempts) if self._waiting.left() else 0

    async def submit(self, events: Sequence[Event]) -> list[Response]:
        """Publish events; return what is decided when the wait ends."""
        self._attempts += 1
        published = await publish(self._log, events)
        if events and (seconds := self._waiting.left()):
            with self._watched(published.responses, seconds), suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await _until_decided(published)
            for partition, offset in published.reached.items():
                self._reached[partition] = max(offset, self._reached.get(partition, 0))
        return published.responses

    async def index(self) -> Index:
        index, is_over = await self._memories(), time_limit(_APPLY_SECONDS)
        while await self._is_behind(index):
            if is_over():
                self._reached.clear()  # a writer that is away is waited for only once
                break
            await asyncio.sleep(_LOOK_SECONDS)
            index = await self._memories()
        return index

    async def _is_behind(self, index: Index) -> bool:
        """Return whether the index lacks decisions; forget those that it has."""
        for partition, offset in list(self._reached.items()):
            if (await applied(index, partition)).reached.offset < offset:
                return True
            if self._reached.get(partition) == offset:
                del self._reached[partition]
        return False

    @contextmanager
    def _watched(self, responses: Sequence[Response], seconds: float) -> Generator[None]:
        report = self._waiting.report
        if report is None:
            yield
            return
        first, *others = responses
        more = f" and {len(others):,} more" if others else ""
        report(
            f"published as {first.place}{more}; waiting up to {seconds:.0f} s for the decision "
            "(Ctrl-C ends only the waiting)"
        )
        try:
            yield
        except asyncio.CancelledError as stop:
            raise Interrupted(
                f"interrupted; the request stays queued, as {first.place}{more}: "
                f"memsieve explain {first.event.event_id} shows the result"
            ) from stop


class PublishedEvents:
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
    def responses(self) -> list[Response]:
        """The response to each event so far, in order."""
        return [self._response(place, event) for place, event in self._sent]

    @property
    def reached(self) -> dict[int, int]:
        """The offset up to which each partition's decisions were read."""
        return {partition: one.reached.offset for partition, one in self._readers.items()}

    async def _read(self, partition: int) -> None:
        reader = self._readers.get(partition)
        if reader is None:
            start = self._since[partition]
            epoch = await epoch_at(self._log, partition, start)
            reader = self._readers[partition] = DecisionsReader(ReadPosition(start, epoch))
        async for page in pages(self._log, DECISIONS.name, partition, reader.reached.offset):
            for logged in reader.window(page):
                self._take(logged.decision)

    def _take(self, decision: Decision) -> None:
        """Remember a decision on one of the events, or on another event with the same id."""
        place = decision.source.partition, decision.source.offset
        if place in self._places:
            self._own[place] = decision
        if decision.decision_id in self._ids and not is_again(decision):
            self._first[decision.decision_id] = decision

    def _response(self, place: _Place, event: Event) -> Response:
        own = self._own.get(place)
        first = self._first.get(own.decision_id) if is_again(own) else None
        return Response(event, own, first, f"{EVENTS.name}/{place[0]}/{place[1]}")


async def publish(log: Log, events: Sequence[Event]) -> PublishedEvents:
    """Publish events in one append, each to the partition of its scope."""
    partitions = await log.partitions(EVENTS.name)
    records = [record_of(one, partitions) for one in events]
    own = {record.partition for record in records}
    since = {partition: await log.end(DECISIONS.name, partition) for partition in own}
    offsets = await log.append(records)
    places = zip((one.partition for one in records), offsets, strict=True)
    return PublishedEvents(log, list(zip(places, events, strict=True)), since)


async def _until_decided(published: PublishedEvents) -> None:
    """Return when all are decided on. If the broker is unreachable, retry: it has the events."""
    while True:
        with suppress(Unreachable):
            if await published.are_decided():
                return
        await asyncio.sleep(_LOOK_SECONDS)
