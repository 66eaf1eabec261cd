"""The embedded process: intake, deduplicator and writer in one process, over one directory."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from schemas.base import MemoryId
from schemas.codec import DECISION
from schemas.decisions import Block, Decision, Erase, Marker, Reason, Reject
from schemas.events import Event, Remember
from schemas.topics import DECISIONS, EVENTS, TOPICS
from streams.clock.stopwatch import TimedProcess, timed
from streams.clock.system import SystemClock
from streams.embedding.remembering import RememberingEmbedder
from streams.log.consumer import Consumer
from streams.log.failures import RetryPolicy
from streams.log.local_broker import LocalBroker
from streams.model.fences import Epoch
from streams.model.observed import is_unlikely
from streams.model.policy import Policy
from streams.model.ports.failures import Fatal
from streams.model.ports.index import Index
from streams.model.ports.log import Log, LogRecord, Process
from streams.model.ports.models import Embedder
from streams.model.ports.sources import Source
from streams.stage.core.mapping import FieldMapping
from streams.stage.flow.decided import DecidedInLog
from streams.stage.flow.decisions import decision_record, fence_record
from streams.stage.flow.deduplicate import Deduplicator
from streams.stage.flow.incoming import with_ingestion_time
from streams.stage.flow.ingest import records_of
from streams.stage.flow.judging import Judging
from streams.stage.flow.partition_owner import PartitionOwner
from streams.stage.flow.prefetch import Prefetcher
from streams.stage.flow.writer import Writer, is_level, restore
from streams.store.app import wiring
from streams.store.app.batches import ahead, batches
from streams.store.app.client import Response, is_again, record_of
from streams.store.app.embedding import ChosenModel
from streams.store.app.reading import StoreReader, ends
from streams.store.app.setting_groups import IndexSettings, LogSettings
from streams.store.app.settings import InvalidSettings, Settings
from streams.store.core.figures import Figures
from streams.store.world.store_directory import StoreDirectory, StoreManifest

if TYPE_CHECKING:
    from streams.store.world.log_lines import DecisionLines

_NOT_COMPARED = {
    Reason.SAME_EVENT,
    Reason.SAME_CONTENT,
    Reason.SAME_MEMORY_ID,
    Reason.SUPERSEDES_BY_NAME,
    Reason.SWITCHED_OFF,
    Reason.UNCHECKED,
}


_KEPT_EVERY = 4_096
"""Records that are applied before the index is flushed to disk, which takes .05 to .25 s. After a crash
the next process applies them again from the log, in about a second."""


@dataclass
class RunTally:
    """What a run has done: rows read, decisions by kind, nearest neighbours by band.

    `unlikely` counts events whose time is implausible; `silent`, by who should have judged or
    worded and did not, the events concerned.
    """

    rows: int = 0
    dead_letters: int = 0
    kinds: Counter[str] = field(default_factory=Counter[str])
    bands: Counter[str] = field(default_factory=Counter[str])
    unlikely: int = 0
    unlikely_event: Remember | None = None
    silent: Counter[str] = field(default_factory=Counter[str])

    def add(self, decisions: Sequence[Decision], now: datetime) -> None:
        """Count decisions; `now` is used to find events with implausible times."""
        for decision in decisions:
            if isinstance(decision, Reject):
                self.dead_letters += 1
            if isinstance(decision, Block):
                self.kinds[decision.kind] += 1
            if isinstance(decision, Marker):
                continue
            self.kinds[decision.kind] += 1
            self.silent.update(decision.evidence.degraded)
            if not isinstance(event := decision.event, Remember):
                continue
            if is_unlikely(event.occurred_at, now):
                self.unlikely += 1
                self.unlikely_event = self.unlikely_event or event
            if decision.evidence.reason not in _NOT_COMPARED:
                near = decision.evidence.neighbours
                self.bands[near[0].band.value if near else "none"] += 1

    @property
    def decisions(self) -> int:
        return self.kinds.total()

    def check(self) -> None:
        """Raise Fatal unless every row became a decision or a dead letter."""
        if self.rows != self.decisions + self.dead_letters:
            raise Fatal(
                f"{self.rows} rows, but {self.decisions} decisions and {self.dead_letters} dead "
                "letters: please report this, with the store"
            )


@dataclass(frozen=True)
class EmbeddedPipeline:
    """Takes rows in, decides on them and applies the decisions, batch by batch."""

    log: LocalBroker
    owners: Sequence[Consumer]
    writers: Sequence[Consumer]
    index: Index
    judging: Judging
    watched: "_Watched"
    batch_records: int
    require_space: Callable[[], None]
    foresight: Prefetcher

    @property
    def tally(self) -> RunTally:
        return self.watched.tally

    async def recover(self) -> int:
        """Finish what an earlier process left undone; return the number of rows."""
        await self._apply()
        await self._work()
        await self._apply()  # the fences, if there was nothing to decide
        recovered = self.tally.decisions + self.tally.dead_letters
        self.tally.rows = recovered
        return recovered

    async def run(
        self, source: Source, mapping: FieldMapping | None, progress: Callable[[int], None]
    ) -> None:
        """Process a source, starting where an interrupted run of it stopped.

        `progress` receives the number of rows done since its last call. Reported rows are durable:
        the next run of the source continues behind them, or finds them already decided.
        """
        before = await self.log.mark(source.name) if source.resumable else None
        rows = source.lines(None if before is None or before.complete else before)
        partitions = await self.log.partitions(EVENTS.name)
        last = 0
        published = partial(
            records_of, source=source, mapping=mapping, partitions=partitions, clock=SystemClock()
        )
        coming = batches(rows, published, records_max=self.batch_records)
        async with aclosing(ahead(coming, self.foresight.prefetch)) as foreseen:
            async for batch, records in foreseen:
                self.require_space()
                last = batch[-1].number
                noted = with_ingestion_time(records, SystemClock().now())
                await self.log.ingest(noted, source.name, source.mark(last, complete=False))
                self.tally.rows += len(batch)
                self.tally.dead_letters += sum(r.topic != EVENTS.name for r in records)
                await self._work()
                progress(len(batch))
        await self.log.ingest([], source.name, source.mark(last, complete=True))

    async def take(self, events: Sequence[Event]) -> list[Decision]:
        """Decide on events that are in no file, and apply the decisions; return them."""
        self.require_space()
        partitions = await self.log.partitions(EVENTS.name)
        records = [record_of(event, partitions) for event in events]
        with self.watched.listening() as heard:
            offsets = await self.log.append(with_ingestion_time(records, SystemClock().now()))
            self.tally.rows += len(records)
            await self._work()
        on = {(one.source.partition, one.source.offset): one for one in heard}
        places = [(one.partition, at) for one, at in zip(records, offsets, strict=True)]
        if not on.keys() >= set(places):
            raise Fatal("an event was not decided on: please report this, with the store")
        return [on[place] for place in places]

    async def seed(self, decided: Sequence[tuple[LogRecord, Decision]], token: str) -> None:
        """Copy events together with another log's decisions on them.

        Call it before anything else; it may be called repeatedly. Raises Fatal if something was
        forgotten, since the decisions before that are no longer complete.
        """
        if any(isinstance(decision, Erase) for _, decision in decided):
            raise Fatal("something was forgotten before that place: decide again from the first")
        for partition, taken in groupby(decided, key=lambda one: one[0].partition):
            records = list(taken)
            partitions = await self.log.partitions(EVENTS.name)
            end = await self.log.end(DECISIONS.name, partition)
            fence = fence_record(token, partition, partitions, end)
            [offset] = await self.log.append([fence])
            epoch = Epoch(offset, token)
            await self.log.append(
                [decision_record(d, DECISION.encode(d), partition, epoch) for _, d in records]
            )
            await self.log.mirror([record for record, _ in records])

    async def replay(self, records: Sequence[LogRecord]) -> None:
        """Decide on another log's events, at the same offsets."""
        self.require_space()
        await self.log.mirror(records)
        await self._work()

    async def metrics(self) -> dict[str, Any]:
        """Return the figures of this run so far."""
        return self.watched.figures.as_json(await self.index.count())

    async def reached(self, partition: int) -> int:
        """Return the offset behind the last event taken in."""
        return await self.log.end(EVENTS.name, partition)

    async def _work(self) -> None:
        """Alternate between deciding and applying, since an owner may wait for its writer."""
        for owner, writer in zip(self.owners, self.writers, strict=True):
            while await owner.step(self.batch_records):
                await writer.drain(self.batch_records)

    async def _apply(self) -> None:
        for writer in self.writers:
            await writer.drain(self.batch_records)


class _Watched:
    """Passes a run's progress to everything that counts or logs it."""

    def __init__(self, lines: "DecisionLines | None", report: Callable[[str], None]) -> None:
        self.tally, self.figures = RunTally(), Figures()
        self._lines = lines
        self._observers = (self.figures,) if lines is None else (self.figures, lines)
        self._report = report
        self._heard: list[Decision] | None = None

    @contextmanager
    def listening(self) -> Generator[list[Decision]]:
        """Yield a list that collects every decision made meanwhile."""
        self._heard = heard = list[Decision]()
        try:
            yield heard
        finally:
            self._heard = None

    async def restore(self, index: Index, log: Log) -> None:
        level, seconds = await is_level(index, log), list[float]()
        with timed(seconds.append):
            await restore(index, log, self._report)
        for observer in () if level else self._observers:
            observer.rebuilt(await index.count(), sum(seconds))

    def took(self, seconds: float) -> None:
        for observer in self._observers:
            observer.took(seconds)

    def named(self, titles: Mapping[MemoryId, str]) -> None:
        if self._lines is not None:
            self._lines.named(titles)

    def decided(self, decisions: Sequence[Decision]) -> None:
        self.tally.add(decisions, SystemClock().now())
        if self._heard is not None:
            self._heard += decisions
        for observer in self._observers:
            observer.decided(decisions)

    def failed(self, why: str) -> None:
        self.figures.failed()
        self._report(why)


@asynccontextmanager
async def embedded(
    settings: Settings,
    policy: Policy,
    embedder: Embedder,
    report: Callable[[str], None],
    *,
    forgets: bool = False,
    judging: Judging | None = None,
) -> AsyncGenerator[EmbeddedPipeline]:
    """Open the store for writing, bring it level with its log, and yield its pipeline.

    `forgets`: the pipeline may be asked to forget, so the store gets a secret if it has none.
    Without `judging` the judges of the settings are opened.
    """
    directory, manifest = StoreDirectory(settings.store), _manifest(settings, embedder)
    require_space = partial(directory.require_space, settings.run.free_disk_bytes_min)
    require_space()
    async with AsyncExitStack() as stack:
        stack.enter_context(directory.written_by_us(manifest))
        broker = stack.enter_context(closing(wiring.log(directory, read_only=False)))
        for topic in TOPICS:
            broker.create(topic.name, manifest.partitions)
        directory.complete(manifest, has_records=any(await ends(broker, DECISIONS.name)))
        directory.keep_policy(policy.id, policy.model_dump_json(indent=2))
        index = wiring.index(manifest.index, directory.index, manifest.dimension, require_space)
        stack.push_async_callback(index.close)
        sinks = await stack.enter_async_context(wiring.sinks(settings.sinks, report))
        traced = await stack.enter_async_context(wiring.tracing(settings, None, report))
        watched = _Watched(wiring.decision_lines("run", settings.logging), report)
        await watched.restore(index, broker)
        if judging is None:
            judging = await stack.enter_async_context(wiring.judging(settings, SystemClock()))
        if forgets:
            wiring.new_key(directory)
        key = wiring.forget_key(settings.forget, directory)
        remembering, decided = RememberingEmbedder(embedder), DecidedInLog(broker)
        owner = PartitionOwner(
            Deduplicator(remembering, index, decided, policy, judging, key),
            broker,
            index,
            watched.decided,
            token=wiring.owner_token(),
            clock=SystemClock(),
            limits=wiring.limits(settings.service),
            named=watched.named,
            warn=report,
            screener=wiring.screener(policy),
        )
        writer = Writer(index, broker, report, sinks=sinks, kept_every=_KEPT_EVERY)
        consumers = partial(_consumers, broker, manifest.partitions, wiring.retry(settings.retry))
        pipeline = EmbeddedPipeline(
            broker,
            consumers(traced(TimedProcess(owner, watched.took), "decide"), watched.failed),
            consumers(traced(writer, "apply"), report),
            index,
            judging,
            watched,
            batch_records=settings.run.batch_records,
            require_space=require_space,
            foresight=Prefetcher(remembering, index, decided),
        )
        try:
            yield pipeline
        finally:
            await writer.keep()


def _manifest(settings: Settings, embedder: Embedder) -> StoreManifest:
    """Return what a store is made with. Raises InvalidSettings for the index of the services."""
    kind = settings.index.kind
    if kind.shared:
        raise InvalidSettings("index.kind qdrant is for the services; run takes edge or exact")
    return StoreManifest(
        model=embedder.model,
        dimension=embedder.dimension,
        index=kind,
        partitions=settings.log.partitions,
    )


def _consumers(
    log: Log, partitions: int, retry: RetryPolicy, process: Process, report: Callable[[str], None]
) -> list[Consumer]:
    """Return what drives a process, partition by partition."""
    return [
        Consumer(process, log, partition, retry=retry, sleep=asyncio.sleep, report=report)
        for partition in range(partitions)
    ]


@asynccontextmanager
async def existing_store(
    chosen: ChosenModel, report: Callable[[str], None], judging: Judging | None = None
) -> AsyncGenerator[EmbeddedPipeline]:
    """Open an existing store for writing, with the index and partitions it was made with.

    Pending work in it is finished first. Raises NoStore if there is none, or if another process
    writes it.
    """
    kept = as_made(chosen.settings)
    async with embedded(kept, chosen.policy, chosen.embedder, report, judging=judging) as pipeline:
        await pipeline.recover()
        yield pipeline


def as_made(settings: Settings) -> Settings:
    """Return the settings with an existing store's index and partitions; unchanged without one."""
    made = StoreDirectory(settings.store).manifest()
    if made is None:
        return settings
    kept = {
        "index": IndexSettings(kind=made.index),
        "log": LogSettings(partitions=made.partitions),
    }
    return settings.model_copy(update=kept)


@dataclass(frozen=True)
class StoreClient:
    """Implements Client for an embedded store that this process writes: it decides at once."""

    attempts_left = 0

    pipeline: EmbeddedPipeline
    reader: StoreReader

    async def index(self) -> Index:
        return self.pipeline.index

    async def submit(self, events: Sequence[Event]) -> list[Response]:
        decided = await self.pipeline.take(events)
        again = [one.decision_id for one in decided if is_again(one)]
        first = await self.reader.on_events(again) if again else {}
        return [
            Response(event, own, first.get(own.decision_id) if is_again(own) else None)
            for event, own in zip(events, decided, strict=True)
        ]
