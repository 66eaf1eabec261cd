"""The trouble: what goes wrong, when, and whom it hits."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from random import Random

from streams.clock.system import SystemClock
from tests.chaos.fleet import Fleet, Role, Worker
from tests.standin.process import StandIn
from tests.support.servers.kafka import NativeKafka

SESSION_SECONDS = 6

_AGAIN_SECONDS = 0.5
_WORK_SECONDS = 0.3
_PAUSE_SECONDS = 5.0
_PAUSES_MIN = 20
_BREATH = (1, 1, 1, 4)
"""Some pauses are so much longer: in them it shows how long it takes to recover."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Hit:
    """A worker that was killed or stopped, and the partitions that it had, so far as it said."""

    role: Role
    at: datetime
    partitions: Sequence[int]


class Trouble:
    """Makes trouble: each kind once, in a random order, and then any of them until time is up.

    What takes a while (a worker that stands still, one that is missed) goes on beside the next
    trouble. `counts` says how often what was done, `times` when anything was, `hits` who may have
    left work undone.
    """

    def __init__(
        self,
        fleet: Fleet,
        rng: Random,
        say: Say,
        *,
        brokers: Sequence[NativeKafka],
        index: StandIn | None,
        burst: Callable[[], Awaitable[None]],
    ) -> None:
        """Prepare it; a server that is not given is not ours to hurt.

        `burst` waits for the next events, so that whoever is hit then is hit at work.
        """
        self._fleet = fleet
        self._rng = rng
        self._say = say
        self._brokers = brokers
        self._index = index
        self._burst = burst
        self._beside = asyncio.TaskGroup()
        self.counts = Counter[str]()
        self.hits: list[Hit] = []
        self.times: list[datetime] = []

    async def run(self, seconds: float) -> None:
        """Make trouble for so long, at least once of each kind; return when all of it is over."""
        end = time.monotonic() + seconds
        longest = min(_PAUSE_SECONDS, seconds / _PAUSES_MIN)
        kinds = self._kinds()
        self._rng.shuffle(kinds)
        async with self._beside:
            for make in kinds:
                await self._next(make, longest)
            while time.monotonic() < end:
                await self._next(self._rng.choice(kinds), longest)
        await asyncio.to_thread(self._fleet.fill)

    async def _next(self, make: Callable[[], Awaitable[bool]], longest: float) -> None:
        await asyncio.sleep(self._rng.uniform(0.1, 1.0) * longest * self._rng.choice(_BREATH))
        self._fleet.mend()
        while not await make():  # noqa: ASYNC110 - other processes bring somebody to hit
            await asyncio.sleep(_AGAIN_SECONDS)

    def _kinds(self) -> list[Callable[[], Awaitable[bool]]]:
        """Return what can go wrong; each says whether it did: it may find nobody to hit."""
        roles = self._fleet.roles
        kinds: list[Callable[[], Awaitable[bool]]] = [
            *(partial(step, role) for role in roles for step in (self._kill, self._hang)),
            *(partial(self._join, role) for role in roles),
            partial(self._kill_all, "deduplicator"),
            self._lag,
        ]
        if self._brokers:
            kinds.append(self._restart_broker)
        if self._index is not None:
            kinds.append(partial(self._restart, "index", self._index.kill, self._index.restart))
        return kinds

    async def _kill(self, role: Role) -> bool:
        """Kill one, and start another at once or later, when the rest has taken over."""
        worker = await self._chosen(role)
        if worker is not None:
            self._killed(worker)
            absent = self._rng.choice([0.0, 1.0, SESSION_SECONDS + 3.0])
            self._later(absent, partial(self._replace, role))
        return worker is not None

    async def _kill_all(self, role: Role) -> bool:
        running = self._fleet.of(role)
        for worker in running:
            self._killed(worker)
            self._later(self._rng.uniform(0.0, 2.0), partial(self._replace, role))
        return bool(running)

    def _killed(self, worker: Worker) -> None:
        self._hit(worker)
        self._fleet.kill(worker)
        self._count(f"kill {worker.role}", worker)

    async def _replace(self, role: Role) -> None:
        self._fleet.start(role)

    async def _hang(self, role: Role) -> bool:
        """Stop one for longer than its session; it wakes up as a zombie."""
        worker = await self._chosen(role)
        if worker is not None:
            self._hit(worker)
            self._hung(worker, SESSION_SECONDS + self._rng.uniform(1.0, 5.0))
        return worker is not None

    async def _lag(self) -> bool:
        """Stop all writers, and kill a deduplicator: who takes over must read what it decided."""
        writers = self._fleet.of("writer")
        for worker in writers:
            self._hung(worker, 2 * SESSION_SECONDS + self._rng.uniform(2.0, 5.0))
        return await self._kill("deduplicator") and bool(writers)

    def _hung(self, worker: Worker, seconds: float) -> None:
        worker.suspend()
        self._count(f"stop {worker.role}", worker)
        self._later(seconds, partial(self._wake, worker))

    async def _chosen(self, role: Role) -> Worker | None:
        """Choose one to hit, at work: one that has something to lose, where there is one."""
        await self._burst()
        await asyncio.sleep(self._rng.uniform(0.0, _WORK_SECONDS))
        running = self._fleet.of(role)
        chosen = [worker for worker in running if worker.held] or running
        return self._rng.choice(chosen) if chosen else None

    async def _wake(self, worker: Worker) -> None:
        worker.resume()
        self._say(f"{worker.name} wakes up")

    async def _join(self, role: Role) -> bool:
        """Let one more join; the oldest leaves later."""
        self._count(f"join {role}", self._fleet.start(role))
        self._later(self._rng.uniform(4.0, 15.0), partial(self._leave, role))
        return True

    async def _leave(self, role: Role) -> None:
        while not (working := [one for one in self._fleet.of(role) if one.works]):  # noqa: ASYNC110
            await asyncio.sleep(_AGAIN_SECONDS)
        self._count(f"leave {role}", working[0])
        await asyncio.to_thread(self._fleet.stop, working[0])

    async def _restart_broker(self) -> bool:
        """Kill one, and let it come back."""
        broker = self._rng.choice(self._brokers)
        return await self._restart("broker", broker.kill, broker.start)

    async def _restart(
        self, what: str, kill: Callable[[], None], start: Callable[[], None]
    ) -> bool:
        self._count(f"restart {what}")
        await asyncio.to_thread(kill)
        await asyncio.sleep(self._rng.uniform(0.0, 3.0))
        await asyncio.to_thread(start)
        self._say(f"the {what} is back")
        return True

    def _hit(self, worker: Worker) -> None:
        self.hits.append(Hit(worker.role, SystemClock().now(), worker.held))

    def _count(self, what: str, worker: Worker | None = None) -> None:
        self.counts[what] += 1
        self.times.append(SystemClock().now())
        self._say(what if worker is None else f"{what}: {worker.name}, which has {worker.held}")

    def _later(self, seconds: float, step: Callable[[], Awaitable[None]]) -> None:
        """Do something beside the next trouble, after so many seconds."""

        async def wait() -> None:
            await asyncio.sleep(seconds)
            await step()

        self._beside.create_task(wait())
