"""The simulated processes: the real owner and the real writer, driven step by step."""

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from streams.log.consumer import work
from streams.model.ports.failures import NotYet, Transient
from streams.model.ports.log import Process
from streams.stage.flow.deduplicate import Deduplicator
from streams.stage.flow.partition_owner import BacklogLimits, PartitionOwner
from streams.stage.flow.takeover import DEDUPLICATOR_GROUP
from streams.stage.flow.writer import WRITER_GROUP, Writer
from tests.builders import judging
from tests.fakes.clock import StandingClock
from tests.simulation.cluster import Cluster, Divergence, Tenure, turn
from tests.simulation.ports import SimulatedEmbedder, SimulatedIndex, SimulatedLog
from tests.simulation.stream import embedder

_BATCHES = {DEDUPLICATOR_GROUP: (1, 2, 3, 5, 100), WRITER_GROUP: (1, 1, 2, 3, 100)}
"""How many records at most; writers that lag behind have more to trip over."""
_KEPT_EVERY = (1, 1, 3)
"""Records that a writer applies before it makes them durable, where it has more to do."""
_LOOKED_AFTER = 0.1
"""How often a partition is looked after although there are records."""
_CALM = 0.1
"""The risk of those who do nothing."""


@dataclass(eq=False)
class Actor:
    """What a process does in one place: goes on turn by turn, from turn `wakes` on.

    `asks` is the index that it is connected to. `settled`: up to which change of the world it has
    found nothing left to do.
    """

    name: str
    cluster: Cluster
    steps: Coroutine[Any, Any, None]
    wakes: int = 0
    asks: int = 0
    settled: int = -1

    def step(self) -> float:
        """Go on to the next turn; return its risk."""
        self.cluster.asked = self.asks
        try:
            return self.steps.send(None) or 1.0
        except Divergence:
            raise
        except Exception as error:
            raise Divergence(f"{self.name} stopped: {type(error).__name__}: {error}") from error

    def rest(self, turns: int) -> None:
        self.wakes = self.cluster.turns + self.cluster.rng.randint(0, turns)

    def begin(self) -> None:
        """Begin something, on the index that there is now."""
        self.asks = self.cluster.asked = self.cluster.indexes

    async def idle(self, settled: int) -> None:
        self.settled = settled
        await turn(_CALM)


class Life:
    """A process from its start to its end; `believed` are the partitions it takes for its own.

    It has an actor for each partition.
    """

    def __init__(self, cluster: Cluster, name: str, group: str, number: int) -> None:
        self.name = name
        self.group = group
        self.number = number
        self.who = f"{name}.{number}"
        self.believed: dict[int, Tenure | None] = dict.fromkeys(range(cluster.partitions))
        self._cluster = cluster
        self._log = SimulatedLog(cluster, self.who, self.believed)
        self._process = self._made(SimulatedIndex(cluster, self.who))
        self.actors = [self._worker(partition) for partition in self.believed]

    def end(self) -> None:
        for actor in self.actors:
            actor.steps.close()

    def _made(self, index: SimulatedIndex) -> Process:
        if self.group == WRITER_GROUP:
            kept_every = self._cluster.rng.choice(_KEPT_EVERY)
            return Writer(index, self._log, lambda _: None, kept_every=kept_every)
        rule, reader = self._cluster.rule, SimulatedEmbedder(self._cluster, self.who, embedder())
        return PartitionOwner(
            Deduplicator(reader, index, index, rule.policy, judging(), rule.key),
            self._log,
            index,
            self._cluster.observe,
            token=self.who,
            clock=StandingClock(),
            limits=BacklogLimits(memories_max=self._cluster.room),
        )

    def _worker(self, partition: int) -> Actor:
        async def steps() -> None:
            await self._work(actor, partition)

        actor = Actor(f"{self.who}/{partition}", self._cluster, steps())
        return actor

    async def _work(self, actor: Actor, partition: int) -> None:
        """Work on a partition as long as it is believed to be our own, over and over."""
        while True:
            if (tenure := self.believed[partition]) is None:
                await actor.idle(self._cluster.changes)
                continue
            position = None
            while self.believed[partition] is tenure:
                position = await self._guarded(actor, partition, position)
            self._process.release(partition)

    async def _guarded(self, actor: Actor, partition: int, position: int | None) -> int | None:
        """Do one step, as runtime.partitions does; return where to go on, None for a claim."""
        actor.begin()
        try:
            if position is None:
                return await self._process.claim(partition)
            return await self._step(actor, partition, position)
        except NotYet as error:
            return await self._back_off(actor, error, position)
        except Transient as error:
            return await self._back_off(actor, error, None)

    async def _step(self, actor: Actor, partition: int, position: int) -> int:
        before, size = self._cluster.changes, self._cluster.rng.choice(_BATCHES[self.group])
        records = await self._log.read(self._process.topic, partition, position, size)
        if not records or self._cluster.rng.random() < _LOOKED_AFTER:
            await self._process.settle(partition)
        if records:
            return await work(self._process, self._log, records)
        await actor.idle(before)
        return position

    async def _back_off(self, actor: Actor, error: Transient, position: int | None) -> int | None:
        self._cluster.tell(f"{actor.name} waits: {error}")
        if "another owner" in str(error):
            self._cluster.happened["an owner found that it was fenced out"] += 1
        actor.rest(20)
        await turn()
        return position
