"""What all simulated processes share, and what goes wrong between them."""

import types
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from random import Random
from typing import Any, TypeVar

from schemas.base import MemoryId
from schemas.decisions import Decision, Insert, Replace
from schemas.topics import TOPICS
from streams.index.exact import ExactIndex
from streams.model.fences import ReadPosition
from streams.model.neighbours import StoredMemory
from streams.model.ports.failures import Transient
from streams.model.ports.index import PartitionLevel
from streams.model.ports.log import CommittedOffset, OutgoingRecord
from streams.stage.flow.decisions import KIND_HEADER
from streams.stage.flow.writer import WRITER_GROUP
from tests.simulation.remembering import RememberingLog
from tests.simulation.stream import Rule

Answer = TypeVar("Answer")

Arrival = Callable[[], Awaitable[object]]
"""What was sent, and may arrive after its sender has given up."""


class Divergence(AssertionError):
    """The processes came to something else than one undisturbed process would have."""


@types.coroutine
def turn(risk: float = 1.0) -> Generator[float]:
    """Let the scheduler go on with whomever it likes.

    `risk`: how much more, or less, than elsewhere may go wrong here.
    """
    yield risk


def at_once(coroutine: Coroutine[Any, Any, Answer]) -> Answer:
    """Run what waits for nobody."""
    while True:
        try:
            coroutine.send(None)
        except StopIteration as end:
            return end.value


@dataclass(frozen=True)
class Rates:
    """How likely what is, between 0 and 1: at each turn, then with each call."""

    crash: float = 0.002
    """A process is gone, and begins anew with nothing."""
    move: float = 0.01
    """One is not heard of, and its partitions are given to others; it learns of it later."""
    rebalance: float = 0.0025
    """Partitions are given to others for no reason."""
    stall: float = 0.005
    """One is slow."""
    rewind: float = 0.003
    """The writer is set back to where it has been before."""
    lose: float = 0.0003
    """The index is gone, with what was being asked of it, and an empty one takes its place."""
    swap: float = 0.0
    """The same, but nobody who is asking notices."""
    news: float = 0.02
    """One learns that it has lost a partition; something arrives late."""
    fail: float = 0.006
    """A call fails and does nothing."""
    tear: float = 0.15
    """Of what is written at once a part is there first."""
    doubt: float = 0.05
    """Something is written, or a part of it, and the caller does not learn of it."""
    late: float = 0.5
    """What was not written when the caller gave up is written later all the same."""

    @classmethod
    def drawn(cls, rng: Random, *, harder: bool) -> "Rates":
        """Draw rates that differ much: some troubles show only where others are rare."""
        usual = cls(swap=0.003) if harder else cls()
        factors = {one.name: rng.choice((0.0, 0.3, 1.0, 3.0)) for one in fields(cls)}
        factors["news"] = 1.0
        return replace(usual, **{name: getattr(usual, name) * f for name, f in factors.items()})

    def most(self, risk: float) -> float:
        """Return how likely anything is at a turn."""
        elsewhere = self.rebalance + self.rewind + self.lose + self.swap + 2 * self.news
        return risk * (self.crash + self.stall + self.move) + elsewhere


QUIET = Rates(**{one.name: 0.0 for one in fields(Rates)})


@dataclass(frozen=True, eq=False)
class Tenure:
    """A partition in the hands of one process, until the group moves it."""

    holder: str


@dataclass
class Cluster:
    """Log, index and groups, and the rule that all of them decide by.

    `away` is until which turn the index, or the embedder, answers nobody. `room` is how many memories may wait for the writer. `turns` counts what was done so far,
    `changes` what it changed. `indexes` counts the indexes there have been, `asked` is the one
    that whoever acts is connected to. `kept` are the commits of the writers, by partition. `story`
    tells what happened, `happened` how often.
    """

    rng: Random
    rates: Rates
    partitions: int
    room: int
    rule: Rule
    log: RememberingLog = field(default_factory=RememberingLog)
    index: ExactIndex = field(default_factory=ExactIndex)
    tenures: dict[tuple[str, int], Tenure] = field(default_factory=dict[tuple[str, int], Tenure])
    arrivals: list[Arrival] = field(default_factory=list[Arrival])
    away: dict[str, int] = field(default_factory=dict[str, int])
    kept: dict[int, list[CommittedOffset]] = field(default_factory=dict[int, list[CommittedOffset]])
    story: list[str] = field(default_factory=list[str])
    happened: Counter[str] = field(default_factory=Counter[str])
    turns: int = 0
    changes: int = 0
    indexes: int = 1
    asked: int = 1
    _versions: dict[MemoryId, int] = field(default_factory=dict[MemoryId, int])
    _levels: dict[int, int] = field(default_factory=dict[int, int])

    def __post_init__(self) -> None:
        for topic in TOPICS:
            self.log.create(topic.name, self.partitions)

    def tell(self, line: str) -> None:
        self.story.append(f"{self.turns:5}  {line}")

    def happens(self, rate: float) -> bool:
        return rate > 0.0 and self.rng.random() < rate

    def maybe_fail(self, who: str, what: str) -> None:
        if self.happens(self.rates.fail):
            self.happened["a call failed"] += 1
            self.tell(f"{who}: {what} fails")
            raise Transient(f"{what} failed")

    def maybe_doubt(self, who: str, what: str) -> None:
        if self.happens(self.rates.doubt):
            self.happened["an answer was lost"] += 1
            self.tell(f"{who} does not learn what became of {what}")
            raise Transient(f"{what} did not answer")

    def maybe_late(self, arrival: Arrival) -> None:
        if self.happens(self.rates.late):
            self.arrivals.append(arrival)

    def go_away(self, what: str, turns: int) -> None:
        self.away[what] = self.turns + turns
        self.happened[f"the {what} was away"] += 1
        self.tell(f"the {what} answers nobody until {self.away[what]}")

    def require_there(self, who: str, what: str) -> None:
        """Raise Transient where index or embedder answer nobody for now."""
        if self.turns < self.away.get(what, 0):
            self.tell(f"{who}: the {what} is away")
            raise Transient(f"the {what} is away")

    def observe(self, decisions: Sequence[Decision]) -> None:
        made = [one.memory for one in decisions if isinstance(one, Insert | Replace)]
        if any(memory.unchecked for memory in made):
            self.happened["something was stored unchecked"] += 1

    def require_index(self, who: str) -> None:
        """Raise Transient where the index is away, or gone that was asked before."""
        self.require_there(who, "index")
        if self.asked != self.indexes:
            self.tell(f"{who}: the index does not answer")
            raise Transient("the index does not answer")

    def cut(self, size: int) -> int:
        """Return how much of what is written at once is there first."""
        return self.rng.randint(1, size) if self.happens(self.rates.tear) else size

    @contextmanager
    def sending(self, who: str, left: list[OutgoingRecord]) -> Generator[None]:
        """Send records; what is left of them when the sender gives up may still arrive."""
        try:
            yield
        except BaseException:
            if left:
                self.maybe_late(partial(self.append, f"late: {who}", left))
            raise

    async def append(self, who: str, records: Sequence[OutgoingRecord]) -> list[int]:
        offsets = await self.log.append(records)
        self.changes += 1
        for record, offset in zip(records, offsets, strict=True):
            kind = (dict(record.headers).get(KIND_HEADER) or b"record").decode()
            self.tell(f"{who} appends {kind} {record.topic}/{record.partition}/{offset}")
        return offsets

    async def erase(self, who: str, topic: str, partition: int, offsets: Sequence[int]) -> None:
        await self.log.erase(topic, partition, offsets)
        self.happened["records were erased"] += 1
        self.tell(f"{who} erases {topic}/{partition} at {', '.join(map(str, offsets))}")

    async def commit(
        self,
        who: str,
        place: tuple[str, str, int],
        position: CommittedOffset,
        tenure: Tenure | None,
    ) -> None:
        """Set a group's place. Transient where its partition has been moved."""
        group, topic, partition = place
        if tenure is None or self.tenures[group, partition] is not tenure:
            self.happened["a commit was refused"] += 1
            self.tell(f"{who} may not commit {topic}/{partition} any more")
            raise Transient(f"{topic}/{partition} is another member's")
        await self.log.commit(group, topic, partition, position)
        if group == WRITER_GROUP:
            self.kept.setdefault(partition, []).append(position)
        self.tell(f"{who} commits {topic}/{partition} at {position.offset}")

    async def arrive(self) -> None:
        """Let something arrive that was sent before."""
        self.happened["something came late"] += 1
        with suppress(Transient):
            await self.arrivals.pop(self.rng.randrange(len(self.arrivals)))()

    async def write(self, who: str, states: Sequence[StoredMemory]) -> None:
        """Write states to the index; no memory's version may go down."""
        await self.index.write(states)
        self.changes += 1
        for state in states:
            identity, written = state.memory.id, state.memory.version
            found = (await self.index.get([identity]))[identity].memory.version
            self.tell(f"{who} writes {identity[:8]} v{written}, and it is v{found}")
            if found > written:
                self.happened["a late writer was held off"] += 1
            if found < self._versions.get(identity, 0):
                raise Divergence(f"memory {identity} went back to version {found}")
            self._versions[identity] = found

    async def keep(
        self, who: str, partition: int, reached: ReadPosition, since: PartitionLevel
    ) -> PartitionLevel:
        """Note how far the index has followed the log; that may not go down either."""
        kept = await self.index.keep_level(partition, reached, since=since)
        level = await self.index.level()
        found = -1 if level is None else level.partitions[partition].reached.offset
        self.tell(f"{who} has applied decisions/{partition} up to {reached.offset}")
        if found < self._levels.get(partition, 0):
            raise Divergence(f"the index went back to decisions/{partition}/{found}")
        if found > self._levels.get(partition, 0):
            self.changes += 1
        self._levels[partition] = found
        return kept

    async def lose_index(self, *, noticed: bool) -> None:
        """Empty the index; where it is `noticed`, whoever was asking it gets no answer."""
        await self.index.clear()
        self._versions.clear()
        self._levels.clear()
        self.changes += 1
        self.happened["the index was lost"] += 1
        self.tell("the index is lost" if noticed else "the index is swapped for an empty one")
        if noticed:
            self.indexes += 1
