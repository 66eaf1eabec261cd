"""One partition, an owner and a writer on a real log, each of which works when it is told to."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from schemas.codec import DECISION, EVENT, REVIEW
from schemas.decisions import Change, Decision, Evidence, Fence, Marker
from schemas.events import Event
from schemas.memories import Memory
from schemas.outcomes import Review
from schemas.topics import DECISIONS, EVENTS, REVIEWS, TOPICS
from streams.index.exact import ExactIndex
from streams.log.consumer import work
from streams.log.local_broker import LocalBroker
from streams.model.embedding import Vector
from streams.model.policy import Policy
from streams.model.ports.index import DecidedEvents, Index, Sink
from streams.model.ports.log import OutgoingRecord
from streams.model.ports.models import Embedder
from streams.stage.core.tombstones import TombstoneKey
from streams.stage.flow.decided import DecidedInLog
from streams.stage.flow.decisions import INDEXED, DecisionsReader
from streams.stage.flow.deduplicate import Deduplicator
from streams.stage.flow.judging import Judging
from streams.stage.flow.partition_owner import PartitionOwner
from streams.stage.flow.writer import Writer
from streams.store.app.client import Response
from streams.verify.app.auditing import audited
from streams.verify.app.copies import IndexCopy
from tests.builders import judging
from tests.fakes.clock import StandingClock
from tests.fakes.sentences import SentenceEmbedder

_ALL = 100_000


class Bench:
    """`warned` holds what the owner warned of, line by line.

    Where it `recalls`, the log is asked which events were decided on, as in a store; else the index.
    """

    def __init__(
        self,
        directory: Path,
        policy: Policy,
        table: Mapping[str, Vector],
        *,
        judges: Judging | None = None,
        sinks: Sequence[Sink] = (),
        key: TombstoneKey | None = None,
        recalls: bool = False,
        embedder: Embedder | None = None,
        index: ExactIndex | None = None,
    ) -> None:
        self.log = LocalBroker(directory / "log.sqlite3", indexed=INDEXED)
        for topic in TOPICS:
            self.log.create(topic.name, 1)
        self.index = index or ExactIndex()
        self.warned: list[str] = []
        self._embedder = embedder or SentenceEmbedder(table, characters_max=200)
        self._judging = judges or judging()
        self.policy = policy
        self._key = key
        self._decided: DecidedEvents = DecidedInLog(self.log) if recalls else self.index
        self._owners = 0
        self.owner = self.another()
        self.writer = Writer(self.index, self.log, lambda _: None, sinks=sinks)
        self._next = 0

    def another(self) -> PartitionOwner:
        """Return an owner that has not claimed the partition yet."""
        self._owners += 1
        return PartitionOwner(
            Deduplicator(
                self._embedder, self.index, self._decided, self.policy, self._judging, self._key
            ),
            self.log,
            self.index,
            lambda _: None,
            token=f"owner {self._owners}",
            clock=StandingClock(),
            warn=self.warned.append,
        )

    async def take_over(self, policy: Policy | None = None, judges: Judging | None = None) -> None:
        """Let another owner take the partition, who may have another policy, or other judges."""
        self.policy = policy or self.policy
        self._judging = judges or self._judging
        self.owner = self.another()
        await self.claim()

    async def claim(self) -> None:
        """Let the owner claim the partition, for the first time or anew."""
        self._next = await self.owner.claim(0)

    async def publish(self, *events: Event) -> None:
        await self.log.append(
            [
                OutgoingRecord(EVENTS.name, 0, one.scope.encode(), EVENT.encode(one))
                for one in events
            ]
        )

    async def decide(self, batch: int = _ALL) -> list[Decision]:
        """Let the owner decide on what waits, in batches of so many; return what came of it."""
        before = len(await self.decisions())
        while await self.decide_next(batch):
            pass
        return (await self.decisions())[before:]

    async def decide_next(self, batch: int) -> bool:
        """Let the owner decide on the next batch; tell whether there was one."""
        records = await self.log.read(EVENTS.name, 0, self._next, batch)
        if records:
            await work(self.owner, self.log, records)
            self._next = records[-1].offset + 1
        return bool(records)

    async def say(self, *events: Event, batch: int = _ALL) -> list[Decision]:
        """Publish events and have them decided on."""
        await self.publish(*events)
        return await self.decide(batch)

    async def apply(self) -> None:
        offset = await self.writer.claim(0)
        while records := await self.log.read(DECISIONS.name, 0, offset, 500):
            await work(self.writer, self.log, records)
            offset = records[-1].offset + 1

    async def decisions(self) -> list[Decision]:
        """Return the decisions that count."""
        records = await self.log.read(DECISIONS.name, 0, 0, _ALL)
        return [one.decision for one in DecisionsReader().window(records)]

    async def raw_decisions(self) -> list[bytes]:
        """Return the decisions as they lie in the log, without the fences."""
        values = [r.value or b"" for r in await self.log.read(DECISIONS.name, 0, 0, _ALL)]
        return [value for value in values if not isinstance(DECISION.decode(value), Fence)]

    async def reviews(self) -> list[Review]:
        records = await self.log.read(REVIEWS.name, 0, 0, _ALL)
        return [REVIEW.decode(record.value or b"") for record in records]

    async def live(self) -> dict[str, Memory]:
        """Return the live memories of the index, by their texts."""
        stored = [one.memory async for one in self.index.scan()]
        return {memory.text: memory for memory in stored if memory.live}

    def close(self) -> None:
        self.log.close()


class OfBench:
    """Implements Client over a bench; `meanwhile` happens between a proposal and its decision."""

    attempts_left = 0

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.meanwhile: Callable[[], Sequence[Event]] | None = None
        self.proposed: list[Event] = []

    async def index(self) -> Index:
        return self.bench.index

    async def submit(self, events: Sequence[Event]) -> list[Response]:
        self.proposed += events
        between = list[Event]() if self.meanwhile is None else self.meanwhile()
        self.meanwhile = None
        decided = await self.bench.say(*between, *events)
        await self.bench.apply()
        of_events = zip(events, decided[len(between) :], strict=True)
        return [Response(event, own) for event, own in of_events]


async def is_healthy(bench: Bench) -> None:
    """Assert that the audit finds nothing wrong with the log and its copy."""
    report = await audited(bench.log, [IndexCopy(bench.index, "exact", "")], lambda _, __: None)
    assert [check.told for check in report.checks if not check.healthy] == []


def evidence_of(decision: Decision) -> Evidence:
    """Return what a decision was made on."""
    assert not isinstance(decision, Marker)
    return decision.evidence


def made(decision: Decision) -> Memory:
    """Return the memory that a decision made."""
    assert isinstance(decision, Change)
    return decision.memory
