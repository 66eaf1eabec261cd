"""A queue that batches the events of concurrent callers and returns each caller its decisions."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from typing import Protocol

from schemas.decisions import Reject
from schemas.events import Event
from streams.dead_letters.app import why_set_aside
from streams.model.identity import decision_id, event_key
from streams.model.ports.failures import Poison
from streams.model.ports.index import Index
from streams.model.ports.log import Log, SearchableLog
from streams.stage.flow.decided import DecidedInLog
from streams.store.app.client import Client, Response, is_again
from streams.store.app.reading import StoreReader

BATCH_EVENTS = 256
"""Events per batch; later callers wait until the current batch is decided."""

_REUSED = Poison(
    "was used before in this scope for another text; give this event its own id", "event_id"
)


class Deciding(Protocol):
    """The port through which events become decisions. Responses say why events are refused."""

    async def decide(self, events: Sequence[Event]) -> list[Response]:
        """Decide on events in order; return the response to each."""
        ...

    async def publish(self, events: Sequence[Event]) -> list[Response]:
        """Make events durable, to be decided on in order."""
        ...

    def alone(self) -> AbstractAsyncContextManager[Client]:
        """Give the client of one request.

        It keeps all other writers out of a store, so that what was read holds when it is decided
        on. A cluster tells who came too late.
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
        self._client = _UniqueIds(client, log, masked=masked)
        self._waiting = deque[_Asked]()
        self._turn = asyncio.Lock()
        self._worker: asyncio.Task[None] | None = None

    async def decide(self, events: Sequence[Event]) -> list[Response]:
        asked = _Asked(events, asyncio.get_running_loop().create_future())
        self._waiting.append(asked)
        if self._worker is None or self._worker.done():
            # A separate task, so that a cancelled caller does not cancel the others' decisions.
            self._worker = asyncio.create_task(self._work())
        return await asked.told

    publish = decide

    @asynccontextmanager
    async def alone(self) -> AsyncGenerator[Client]:
        async with self._turn:
            yield self._client

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
            events = [event for one in batch for event in one.events]
            told = iter(await self._client.submit(events))
        except Exception as error:  # noqa: BLE001 - every caller receives it, whatever it is
            for one in batch:
                one.fail(error)
        else:
            for one in batch:
                one.tell(list(islice(told, len(one.events))))


class Cluster:
    """Implements Deciding over a cluster: its services decide on events in turn."""

    def __init__(
        self,
        client: Callable[[], Client],
        publisher: Client,
        log: Log,
        reader: StoreReader | None = None,
    ) -> None:
        """`client` returns one that waits for decisions, for a request; `publisher` does not wait.

        `log` is what the services write; `reader` finds decisions in it that were made before.
        """
        self._client = client
        self._publisher = publisher
        self._log = log
        self._reader = reader

    async def decide(self, events: Sequence[Event]) -> list[Response]:
        async with self.alone() as client:
            return await client.submit(events)

    async def publish(self, events: Sequence[Event]) -> list[Response]:
        return await self._publisher.submit(events)

    def alone(self) -> AbstractAsyncContextManager[Client]:
        return nullcontext(_Explaining(self._client(), self._log, self._reader))


class _Explaining:
    """Implements Client over another one: it says why an event became a dead letter.

    With a `reader` it finds the decision that a repeated event was given.
    """

    def __init__(self, client: Client, log: Log, reader: StoreReader | None = None) -> None:
        self._client = client
        self._log = log
        self._reader = reader

    @property
    def attempts_left(self) -> int:
        return self._client.attempts_left

    async def index(self) -> Index:
        return await self._client.index()

    async def submit(self, events: Sequence[Event]) -> list[Response]:
        responses = await self._client.submit(events) if events else []
        return [await self._explained(one) for one in responses]

    async def _explained(self, response: Response) -> Response:
        own = response.own
        if isinstance(own, Reject):
            return replace(response, refused=await why_set_aside(self._log, own))
        if is_again(own) and response.first is None and self._reader is not None:
            found = await self._reader.on_events([own.decision_id])
            return replace(response, first=found.get(own.decision_id))
        return response


class _UniqueIds(_Explaining):
    """Refuses events of a store whose ids were used for other content.

    The owner refuses them too, but with a dead letter; here the sender gets an answer. If a policy
    masks texts this is left to the owner, because the log knows only the masked text.
    """

    def __init__(self, client: Client, log: SearchableLog, *, masked: bool) -> None:
        super().__init__(client, log)
        self._decided = None if masked else DecidedInLog(log)

    async def submit(self, events: Sequence[Event]) -> list[Response]:
        reused = set[int]() if self._decided is None else await _reused(events, self._decided)
        fit = [event for at, event in enumerate(events) if at not in reused]
        responses = iter(await super().submit(fit))
        return [
            Response(event, refused=_REUSED) if at in reused else next(responses)
            for at, event in enumerate(events)
        ]


async def _reused(events: Sequence[Event], decided: DecidedInLog) -> set[int]:
    """Return the positions of events whose ids were used for other content."""
    ids = [decision_id(event.scope, event.event_id) for event in events]
    known = await decided.decided(list(dict.fromkeys(ids)))
    keys = {identity: one.content for identity, one in known.items()}
    of_events = zip(ids, map(event_key, events), strict=True)
    return {
        at for at, (identity, key) in enumerate(of_events) if keys.setdefault(identity, key) != key
    }


@dataclass(frozen=True)
class _Asked:
    """Events whose sender waits for the responses."""

    events: Sequence[Event]
    told: asyncio.Future[list[Response]]

    def tell(self, told: list[Response]) -> None:
        if not self.told.done():  # else the caller was cancelled
            self.told.set_result(told)

    def fail(self, error: Exception) -> None:
        if not self.told.done():
            self.told.set_exception(error)
