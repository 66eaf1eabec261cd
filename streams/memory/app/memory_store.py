"""The memories of a store or a cluster that a program holds open."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from itertools import count
from typing import Any, TypeVar

from schemas.events import Remember
from streams.clock.system import SystemClock
from streams.forget.app.forgetting import ForgetResponses, ForgetTarget
from streams.forget.app.scrubbing import clear
from streams.memory.app.lifecycle import Lifecycle, refusal
from streams.memory.app.outcomes import Outcome
from streams.memory.app.writing import Fresh, event_of
from streams.model.ports.failures import NoStore, Poison
from streams.store.app import wiring
from streams.store.app.client import Response, require_decided
from streams.store.app.reading import LogTarget
from streams.store.app.settings import Settings

_T = TypeVar("_T")


class MemoryStore:
    """Memories that are open until they are closed; `Lifecycle` has the operations.

    For one event loop; calls may overlap. A change runs to its end even if its caller is cancelled.
    """

    def __init__(
        self,
        target: LogTarget,
        opening: Callable[[], AbstractAsyncContextManager[Lifecycle]],
        wait: float,
    ) -> None:
        """Use what `opening` opens, once `take_hold` is called.

        The decisions of a cluster are waited for `wait` seconds.
        """
        self._target = target
        self._opening = opening
        self._wait = wait
        self._open: Lifecycle | None = None
        self._resources = AsyncExitStack()
        self._gate = _Gate()
        self._changes = set[asyncio.Task[Any]]()
        self._token, self._numbers = wiring.owner_token(), count(1)

    @property
    def settings(self) -> Settings:
        """The settings with which the memories are open."""
        return self._target.settings

    async def take_hold(self) -> None:
        """Open what the operations need."""
        async with AsyncExitStack() as stack:
            self._open = await stack.enter_async_context(self._opening())
            self._resources = stack.pop_all()

    async def close(self) -> None:
        """Release everything after calls in progress have ended. May be called again."""
        await self._to_its_end(self._close())

    def event(self, said: Mapping[str, object]) -> Remember:
        """Return the event of these fields of a Fresh, with an id of its own.

        Raises ValidationError, and DeclinedRequest if the event is too long or still to come.
        """
        made = {"event_id": f"{self._token}-{next(self._numbers)}"}
        event = event_of(Fresh.model_validate({**made, **said}), "", SystemClock().now())
        if isinstance(event, Poison):
            raise refusal(event)
        return event

    async def add(
        self, events: Sequence[Remember], done: Callable[[int], None] = lambda _: None
    ) -> list[Outcome]:
        """Decide on events in order, and apply the decisions.

        `done` receives the number of events decided on since its last call. Raises as `change`.
        """
        made, size = list[Outcome](), self.settings.run.batch_records
        for start in range(0, len(events), size):
            batch = events[start : start + size]
            made += await self.change(lambda life, batch=batch: life.deciding.decide(batch))
            done(len(batch))
        return made

    @asynccontextmanager
    async def reading(self) -> AsyncGenerator[Lifecycle]:
        """Give the operations; a request to forget waits until the block ends."""
        async with self._gate.shared():
            yield self._held

    async def change(
        self, work: Callable[[Lifecycle], Awaitable[Sequence[Response]]]
    ) -> tuple[Outcome, ...]:
        """Carry out a change, and return what was decided.

        Raises DeclinedRequest, and DecisionTimeout if an event is not decided on in time.
        """

        async def changed() -> tuple[Outcome, ...]:
            async with self.reading() as life:
                responses = await work(life)
                require_decided(responses, self._wait)
                return await life.outcomes(responses)

        return await self._to_its_end(changed())

    async def forget(
        self, wanted: ForgetTarget, author: str, note: str, *, later: bool
    ) -> ForgetResponses:
        """Forget what is wanted, and unless `later` scrub it from the files at once.

        Raises as `change`. All other calls wait meanwhile.
        """

        async def forgot() -> ForgetResponses:
            async with self._gate.alone():
                done = await self._held.forget(wanted, author, note)
                require_decided(done.responses, self._wait)
                await self._held.outcomes(done.responses)
                await self._clear(wanted, later=later)
                return done

        return await self._to_its_end(forgot())

    @property
    def _held(self) -> Lifecycle:
        if self._open is None:
            raise NoStore(f"{self._target.place} was closed: open it again")
        return self._open

    async def _let_go(self) -> None:
        self._open = None
        await self._resources.aclose()

    async def _clear(self, wanted: ForgetTarget, *, later: bool) -> None:
        """Remove what was forgotten from a store's files; a cluster leaves that to Kafka."""
        if self._target.directory is not None and not (later and wanted.memory is not None):
            await self._let_go()
            await clear(self._target, wanted, lambda _: None, later=later)
            await self.take_hold()

    async def _to_its_end(self, work: Coroutine[Any, Any, _T]) -> _T:
        task = asyncio.create_task(work)
        self._changes.add(task)  # the event loop keeps only a weak reference
        task.add_done_callback(self._changes.discard)
        return await asyncio.shield(task)

    async def _close(self) -> None:
        async with self._gate.alone():
            await self._let_go()


class _Gate:
    """A readers-writer lock: `shared` calls overlap, an `alone` call waits for all others."""

    def __init__(self) -> None:
        self._open, self._idle = asyncio.Event(), asyncio.Event()
        self._open.set()
        self._idle.set()
        self._inside = 0

    @asynccontextmanager
    async def shared(self) -> AsyncGenerator[None]:
        await self._passed()
        self._inside += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._inside -= 1
            if not self._inside:
                self._idle.set()

    @asynccontextmanager
    async def alone(self) -> AsyncGenerator[None]:
        await self._passed()
        self._open.clear()
        try:
            await self._idle.wait()
            yield
        finally:
            self._open.set()

    async def _passed(self) -> None:
        while not self._open.is_set():  # another waiting call may have closed it again
            await self._open.wait()
