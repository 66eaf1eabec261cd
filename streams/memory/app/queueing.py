"""A queue that batches the events of concurrent callers and returns each caller its decisions."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Protocol, TypeAlias

from schemas.decisions import Decision, Reject
from schemas.events import Event
from schemas.topics import EVENTS
from streams.dead_letters.app import why_set_aside
from streams.model.identity import decision_id, event_key
from streams.model.ports import Log, Poison, SearchableLog
from streams.stage.flow.decided import DecidedInLog
from streams.store.app.awaiting import Reply, is_again, publish, until_decided
from streams.store.app.reading import StoreReader

BATCH_EVENTS = 256
"""Events per batch; later callers wait until the current batch is decided."""

_REUSED = Poison(
    "was used before in this scope for another text; give this event its own id", "event_id"
)


@dataclass(frozen=True)
class Told:
    """The result of an event: its decision, None if there is none yet, or why it is refused.

    `repeated`: the event is a repetition, and the decision is the earlier one.
    """

    event: Event
    decision: Decision | None = None
    repeated: bool = False
    refused: Poison | None = None


Take: TypeAlias = Callable[[Sequence[Event]], Awaitable[Sequence[Decision]]]
"""Decides on events in order and applies the decisions; returns one decision per event."""

Decide: TypeAlias = Callable[[Sequence[Event]], Awaitable[list[Told]]]


class Deciding(Protocol):
    """The port through which events become decisions."""

    async def decide(self, events: Sequence[Event]) -> list[Told]:
        """Decide on events in order; return the result of each."""
        ...

    async def publish(self, events: Sequence[Event]) -> list[Told]:
        """Make events durable, to be decided on in order."""
        ...


class Queue:
    """Implements Deciding over a store that this process writes.

    Events that arrive while a batch is decided on form the next batch. For one event loop.
    """

    def __init__(
        self, take: Take, log: SearchableLog, reader: StoreReader, *, masked: bool
    ) -> None:
        """`take` decides on events at once; `log` and `reader` read what it writes.

        `masked`: `take` masks texts by its policy.
        """
        self._take = take
        self._log = log
        self._reader = reader
        self._masked = masked
        self._decided = DecidedInLog(log)
        self._waiting = deque[_Asked]()
        self._turn = asyncio.Lock()
        self._worker: asyncio.Task[None] | None = None

    async def decide(self, events: Sequence[Event]) -> list[Told]:
        asked = _Asked(events, asyncio.get_running_loop().create_future())
        self._waiting.append(asked)
        if self._worker is None or self._worker.done():
            # A separate task, so that a cancelled caller does not cancel the others' decisions.
            self._worker = asyncio.create_task(self._work())
        return await asked.told

    publish = decide

    @asynccontextmanager
    async def alone(self) -> AsyncGenerator[Decide]:
        """Keep all other writers out, so that what was read still holds when it is decided on."""
        async with self._turn:
            yield self._at_once

    async def close(self) -> None:
        """Finish what is queued."""
        if self._worker is not None:
            await self._worker

    async def _work(self) -> None:
        while self._waiting:
            async with self._turn:
                await self._answer(self._next())

    def _next(self) -> list["_Asked"]:
        """Return the next batch: the waiting callers, up to BATCH_EVENTS but at least one."""
        taken, events = list[_Asked](), 0
        while self._waiting and (
            not taken or events + len(self._waiting[0].events) <= BATCH_EVENTS
        ):
            taken.append(self._waiting.popleft())
            events += len(taken[-1].events)
        return taken

    async def _answer(self, batch: Sequence["_Asked"]) -> None:
        try:
            told = iter(await self._at_once([event for one in batch for event in one.events]))
        except Exception as error:  # noqa: BLE001 - every caller receives it, whatever it is
            for one in batch:
                one.fail(error)
        else:
            for one in batch:
                one.tell(list(islice(told, len(one.events))))

    async def _at_once(self, events: Sequence[Event]) -> list[Told]:
        reused = await self._reused(events)
        fit = [event for at, event in enumerate(events) if at not in reused]
        decided = iter(await self._take(fit) if fit else [])
        told = [
            Told(event, refused=_REUSED)
            if at in reused
            else await _told(self._log, event, next(decided))
            for at, event in enumerate(events)
        ]
        return await self._with_first(told)

    async def _reused(self, events: Sequence[Event]) -> set[int]:
        """Return the positions of events whose ids were used for other content.

        The owner refuses them too, but with a dead letter; here the sender gets an answer. If a
        policy masks texts this is left to the owner, because the log knows only the masked text.
        """
        if self._masked:
            return set()
        ids = [decision_id(event.scope, event.event_id) for event in events]
        known = await self._decided.decided(list(dict.fromkeys(ids)))
        keys = {identity: one.content for identity, one in known.items()}
        of_events = zip(ids, map(event_key, events), strict=True)
        return {
            at
            for at, (identity, key) in enumerate(of_events)
            if keys.setdefault(identity, key) != key
        }

    async def _with_first(self, told: Sequence[Told]) -> list[Told]:
        """Replace the decision on each repeated event by its earlier decision."""
        again = {one.decision.decision_id for one in told if is_again(one.decision)}
        first = await self._reader.on_events(sorted(again)) if again else {}
        return [
            replace(one, decision=first[one.decision.decision_id], repeated=True)
            if is_again(one.decision)
            else one
            for one in told
        ]


class Cluster:
    """Implements Deciding over a cluster: its services decide on events in turn."""

    def __init__(self, log: Log, seconds: float) -> None:
        """Wait at most `seconds` for decisions."""
        self._log = log
        self._seconds = seconds

    async def decide(self, events: Sequence[Event]) -> list[Told]:
        published = await publish(self._log, events)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._seconds):
                await until_decided(published)
        return [await self._told(reply) for reply in published.replies]

    async def publish(self, events: Sequence[Event]) -> list[Told]:
        published = await publish(self._log, events)
        return [Told(reply.event) for reply in published.replies]

    async def _told(self, reply: Reply) -> Told:
        told = await _told(self._log, reply.event, reply.decision)
        repeated = told.decision is not None and _place_of(told.decision) != reply.place
        return replace(told, repeated=repeated)


@dataclass(frozen=True)
class _Asked:
    """Events whose sender waits for the results."""

    events: Sequence[Event]
    told: asyncio.Future[list[Told]]

    def tell(self, told: list[Told]) -> None:
        if not self.told.done():  # else the caller was cancelled
            self.told.set_result(told)

    def fail(self, error: Exception) -> None:
        if not self.told.done():
            self.told.set_exception(error)


async def _told(log: Log, event: Event, decision: Decision | None) -> Told:
    if isinstance(decision, Reject):
        return Told(event, refused=await why_set_aside(log, decision))
    return Told(event, decision)


def _place_of(decision: Decision) -> str:
    return f"{EVENTS.name}/{decision.source.partition}/{decision.source.offset}"
