"""A queue that batches the events of concurrent callers and returns each caller its decisions."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import Protocol, TypeAlias

from schemas.decisions import Decision, Reject
from schemas.events import Event
from streams.dead_letters.app import why_set_aside
from streams.model.identity import decision_id, event_key
from streams.model.ports import Log, Poison, SearchableLog
from streams.stage.flow.decided import DecidedInLog
from streams.store.app.client import Client, Response

BATCH_EVENTS = 256
"""Events per batch; later callers wait until the current batch is decided."""

_REUSED = Poison(
    "was used before in this scope for another text; give this event its own id", "event_id"
)


@dataclass(frozen=True)
class EventResult:
    """The result of an event: its decision, None if there is none yet, or why it is refused.

    `repeated`: the event is a repetition, and the decision is the earlier one.
    """

    event: Event
    decision: Decision | None = None
    repeated: bool = False
    refused: Poison | None = None


Decide: TypeAlias = Callable[[Sequence[Event]], Awaitable[list[EventResult]]]


class Deciding(Protocol):
    """The port through which events become decisions."""

    async def decide(self, events: Sequence[Event]) -> list[EventResult]:
        """Decide on events in order; return the result of each."""
        ...

    async def publish(self, events: Sequence[Event]) -> list[EventResult]:
        """Make events durable, to be decided on in order."""
        ...

    def alone(self) -> AbstractAsyncContextManager[Decide]:
        """Keep all other writers out of a store, so that what was read holds when it is decided on.

        A cluster tells who came too late.
        """
        ...


class Queue:
    """Implements Deciding over a store that this process writes.

    Events that arrive while a batch is decided on form the next batch. For one event loop.
    """

    def __init__(self, client: Client, log: SearchableLog, *, masked: bool) -> None:
        """`client` decides on events at once; `log` is what it writes.

        `masked`: texts are masked by the policy.
        """
        self._client = client
        self._log = log
        self._masked = masked
        self._decided = DecidedInLog(log)
        self._waiting = deque[_Asked]()
        self._turn = asyncio.Lock()
        self._worker: asyncio.Task[None] | None = None

    async def decide(self, events: Sequence[Event]) -> list[EventResult]:
        asked = _Asked(events, asyncio.get_running_loop().create_future())
        self._waiting.append(asked)
        if self._worker is None or self._worker.done():
            # A separate task, so that a cancelled caller does not cancel the others' decisions.
            self._worker = asyncio.create_task(self._work())
        return await asked.told

    publish = decide

    @asynccontextmanager
    async def alone(self) -> AsyncGenerator[Decide]:
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

    async def _at_once(self, events: Sequence[Event]) -> list[EventResult]:
        reused = await self._reused(events)
        fit = [event for at, event in enumerate(events) if at not in reused]
        responses = iter(await self._client.submit(fit) if fit else [])
        return [
            EventResult(event, refused=_REUSED)
            if at in reused
            else await _told(self._log, next(responses))
            for at, event in enumerate(events)
        ]

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


class Cluster:
    """Implements Deciding over a cluster: its services decide on events in turn."""

    def __init__(self, client: Client, publisher: Client, log: Log) -> None:
        """`client` waits for decisions, `publisher` does not; `log` is what the services write."""
        self._client = client
        self._publisher = publisher
        self._log = log

    async def decide(self, events: Sequence[Event]) -> list[EventResult]:
        responses = await self._client.submit(events)
        return [await _told(self._log, one) for one in responses]

    async def publish(self, events: Sequence[Event]) -> list[EventResult]:
        return [EventResult(one.event) for one in await self._publisher.submit(events)]

    def alone(self) -> AbstractAsyncContextManager[Decide]:
        return nullcontext(self.decide)


@dataclass(frozen=True)
class _Asked:
    """Events whose sender waits for the results."""

    events: Sequence[Event]
    told: asyncio.Future[list[EventResult]]

    def tell(self, told: list[EventResult]) -> None:
        if not self.told.done():  # else the caller was cancelled
            self.told.set_result(told)

    def fail(self, error: Exception) -> None:
        if not self.told.done():
            self.told.set_exception(error)


async def _told(log: Log, response: Response) -> EventResult:
    event, decision = response.event, response.decision
    if isinstance(decision, Reject):
        return EventResult(event, refused=await why_set_aside(log, decision))
    return EventResult(event, decision, repeated=response.first is not None)
