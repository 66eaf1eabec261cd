"""Replay: decides again on a log's events, into a separate store, and compares the decisions."""

import asyncio
import tempfile
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from pydantic import SecretStr, TypeAdapter, ValidationError

from schemas.topics import DECISIONS, EVENTS
from streams.model.ports.log import Log
from streams.replay.core import DecisionDifference, DecisionDifferences
from streams.store.app import policies, processes, wiring
from streams.store.app.processes import EmbeddedPipeline
from streams.store.app.product_settings import ForgetSettings
from streams.store.app.reading import LogTarget, ends, opened
from streams.store.app.setting_groups import IndexSettings, LogSettings, SinkSettings
from streams.store.app.settings import InvalidSettings
from streams.store.flow.past import (
    Bound,
    EventsFromDecisions,
    EventsFromTopic,
    KnownVectors,
    PastDecisions,
    ReplayCursor,
    Selection,
)
from streams.store.world.store_directory import IndexKind, StoreDirectory

_FOLLOW_SECONDS = 0.5


@dataclass(frozen=True)
class ReplayPlan:
    """What is replayed, and how.

    `from_now` starts at the end of the log. `from_events` reads the events topic itself; otherwise
    events are taken from the decisions, which are kept longer. `rate` is the maximum of events per
    second. `follow` continues with new events.
    """

    selection: Selection = field(default_factory=Selection)
    from_now: bool = False
    from_events: bool = False
    rate: float | None = None
    follow: bool = False


@dataclass(frozen=True)
class ReplayIdentity:
    """What a store was started for: only the same replay may be resumed in it."""

    source: str
    policy: str
    plan: ReplayPlan


_BEGUN = TypeAdapter(ReplayIdentity)


class Redecision:
    """Replays a log's events, partition by partition, through a separate pipeline."""

    def __init__(
        self,
        source: Log,
        pipeline: EmbeddedPipeline,
        vectors: KnownVectors,
        plan: ReplayPlan,
        *,
        batch_records: int,
    ) -> None:
        self._source = source
        self._pipeline = pipeline
        self._vectors = vectors
        self._plan = plan
        self._batch_records = batch_records
        self._started = time.perf_counter()
        self._done = 0

    async def run(self, progress: Callable[[int], None]) -> None:
        """Decide on the selected events not yet replayed; with `follow`, until cancelled.

        Events before the selection are copied with their old decisions. `progress` receives the
        number of events done since its last call.
        """
        partitions = range(await self._source.partitions(DECISIONS.name))
        lanes = [await self._lane(partition) for partition in partitions]
        token = wiring.owner_token()
        for lane in lanes:
            while before := await lane.before(self._batch_records):
                known = [(one.record, one.decision) for one in before if one.decision is not None]
                await self._pipeline.seed(known, token)
        await self._pipeline.recover()
        while True:
            for lane in lanes:
                await self._redecide(lane, progress)
            if not self._plan.follow:
                return
            progress(0)
            await asyncio.sleep(_FOLLOW_SECONDS)

    async def _lane(self, partition: int) -> ReplayCursor:
        events = EventsFromTopic if self._plan.from_events else EventsFromDecisions
        selection = self._plan.selection
        if self._plan.from_now:
            end = await self._source.end(EVENTS.name, partition)
            selection = replace(selection, start=Bound(offset=end))
        taken = await self._pipeline.reached(partition)
        return ReplayCursor(events(self._source, partition), selection, taken)

    async def _redecide(self, lane: ReplayCursor, progress: Callable[[int], None]) -> None:
        while batch := await lane.batch(self._batch_records):
            self._vectors.learn([one.decision for one in batch if one.decision is not None])
            await self._pipeline.replay([one.record for one in batch])
            progress(len(batch))
            await self._keep_to_the_rate(len(batch))

    async def _keep_to_the_rate(self, events: int) -> None:
        self._done += events
        if self._plan.rate is not None:
            due = self._done / self._plan.rate
            await asyncio.sleep(max(0.0, self._started + due - time.perf_counter()))


class LogComparison:
    """Compares two logs that decided on the same events, as far as the second has progressed."""

    def __init__(self, before: Log, after: Log) -> None:
        self._before = before
        self._after = after
        self._pasts: dict[int, tuple[PastDecisions, PastDecisions]] = {}
        self.differences = DecisionDifferences()

    async def run(self, told: Callable[[DecisionDifference], None] = lambda _: None) -> None:
        """Compare the decisions since the last call; `told` receives each difference."""
        for partition in range(await self._after.partitions(DECISIONS.name)):
            before, after = self._pasts.setdefault(
                partition,
                (PastDecisions(self._before, partition), PastDecisions(self._after, partition)),
            )
            while page := await after.page():
                for logged in page:
                    known = await before.of(logged.decision.source.offset)
                    difference = self.differences.compare(known, logged.decision)
                    if difference is not None:
                        told(difference)


@dataclass(frozen=True)
class Replay:
    """An open replay: the log it reads, the work to do, and what that decides otherwise."""

    source: Log
    work: Redecision
    comparison: LogComparison


@asynccontextmanager
async def replay(
    log: LogTarget,
    plan: ReplayPlan,
    into: Path | None,
    *,
    report: Callable[[str], None],
) -> AsyncGenerator[Replay]:
    """Open a log for a replay by its settings' policy and model.

    `into` is a new store, or one started for the same replay; None keeps nothing.
    """
    settings = log.settings
    policy = policies.configured(settings)
    async with AsyncExitStack() as stack:
        source = await stack.enter_async_context(opened(log))
        embedder = wiring.embedder(settings.embedder, report)
        begun = ReplayIdentity(log.place, policy.id, plan)
        target = into or Path(stack.enter_context(tempfile.TemporaryDirectory())) / "rehearsal"
        _require_begun_as(target, begun)
        vectors = KnownVectors(embedder)
        wanted = settings.model_copy(
            update={
                "store": target,
                "index": IndexSettings(kind=IndexKind.EXACT if into is None else IndexKind.EDGE),
                "log": LogSettings(partitions=await source.partitions(DECISIONS.name)),
                "sinks": SinkSettings(),
                "forget": _forget_settings(log),
            }
        )
        pipeline = await stack.enter_async_context(
            processes.embedded(wanted, policy, vectors, report)
        )
        if (key := wanted.forget.key) is not None:
            StoreDirectory(target).keep_key(key.get_secret_value())
        (target / "replay.json").write_bytes(_BEGUN.dump_json(begun, indent=2))
        work = Redecision(source, pipeline, vectors, plan, batch_records=settings.run.batch_records)
        made = await stack.enter_async_context(opened(LogTarget.of_store(wanted)))
        yield Replay(source, work, LogComparison(source, made))


def _forget_settings(log: LogTarget) -> ForgetSettings:
    """Return the log's secret, so that what was forgotten there does not come back here."""
    own = None if log.directory is None else log.directory.key()
    if log.settings.forget.key is not None or own is None:
        return log.settings.forget
    return ForgetSettings(key=SecretStr(own))


def _require_begun_as(into: Path, wanted: ReplayIdentity) -> None:
    """Raise InvalidSettings if there is a store that was started for something else."""
    if StoreDirectory(into).manifest() is None:
        return
    try:
        found = _BEGUN.validate_json((into / "replay.json").read_bytes())
    except (OSError, ValidationError) as error:
        raise InvalidSettings(f"{into} is a store, but no replay: name another --into") from error
    if found != wanted:
        differing = [name for name, value in asdict(wanted).items() if asdict(found)[name] != value]
        raise InvalidSettings(
            f"{into} was started with another {' and '.join(differing)}: give the same command "
            "again, or another --into"
        )


async def count(source: Log) -> int:
    """Return the approximate number of events to decide on."""
    return sum(await ends(source, DECISIONS.name))
