"""The distributed processes on Kafka: extractor, deduplicator and writer."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TypeVar

from schemas.base import MemoryId
from schemas.decisions import Decision, Reject
from schemas.topics import DECISIONS, EVENTS, TURNS
from streams.clock.stopwatch import TimedProcess
from streams.clock.system import SystemClock
from streams.extract.app import opening
from streams.extract.flow.extract import Maker, TurnResult
from streams.extract.flow.extractor import Extractor
from streams.extract.flow.knowledge import Knowledge
from streams.extract.world.measured import MeasuredExtractor
from streams.judges.language import load_ahead
from streams.log.kafka import topics
from streams.log.kafka.connection import Connection
from streams.log.kafka.log import KafkaLog
from streams.log.kafka.subscribe import Membership
from streams.log.partitions import Partitions
from streams.log.threads import abandonable
from streams.model.policy import Policy
from streams.model.ports.failures import Transient
from streams.model.ports.index import Index, Sink
from streams.model.ports.log import Process
from streams.model.ports.models import Embedder
from streams.services.app.status import ServiceStatus, TopicConsumer
from streams.services.world.health import endpoints, readiness_watched
from streams.stage.flow.deduplicate import Deduplicator
from streams.stage.flow.judging import Judging
from streams.stage.flow.partition_owner import PartitionOwner
from streams.stage.flow.takeover import Claim, applied, require_log, require_model
from streams.stage.flow.writer import Writer, restore
from streams.store.app import policies, wiring
from streams.store.app.settings import InvalidSettings, Settings
from streams.store.world.metrics import MeasuredEmbedder, Metrics
from streams.store.world.signals import stop_signal

Answer = TypeVar("Answer")

_OPERATIONS = {EVENTS.name: "decide", DECISIONS.name: "apply", TURNS.name: "extract"}
"""What is done with the records of a topic, as traces call it."""
_SETTLE_SECONDS = 1
_KEPT_EVERY = 1_000
"""Records that a writer applies under load before it flushes the index to disk."""
_FLUSH_SECONDS = 30
"""How often a writer with an index of its own flushes it otherwise: a flush takes 0.1 s, mostly for
the disk, and blocks every decision of this process. What a crash loses is read from the log."""


@dataclass(frozen=True)
class Roles:
    """The roles of a process; `service` is the command that runs it."""

    service: str
    extracts: bool

    @property
    def deduplicates(self) -> bool:
        return self.service in {"deduplicator", "serve"}

    @property
    def writes(self) -> bool:
        return self.service in {"writer", "serve"}

    @property
    def handles_decisions(self) -> bool:
        return self.deduplicates or self.writes


class Service:
    """Starts what its roles need, waiting for each server to answer, and works until stopped."""

    def __init__(
        self,
        settings: Settings,
        roles: Roles,
        *,
        report: Callable[[str], None],
        warn: Callable[[str], None],
    ) -> None:
        """`report` receives progress lines, `warn` what is waited for or set aside."""
        self._settings = settings
        self._roles = roles
        self._report = report
        self._warn = warn
        self._retry = wiring.retry(settings.retry)
        self._lines = wiring.decision_lines("deduplicator", settings.logging)
        self._metrics = Metrics()
        self._status = ServiceStatus(self._metrics)

    async def run(self) -> None:
        """Work until SIGTERM or SIGINT; raises errors that a retry cannot fix."""
        connection = wiring.connection(self._settings.kafka)
        policy, maker = self._policy(), self._maker()
        decides_by = policy.id if policy is not None and self._roles.deduplicates else ""
        self._metrics.identify(policy=decides_by, log=connection.named(DECISIONS.name))
        if decides_by:
            self._report(f"deciding by policy {decides_by}")
            if wiring.forget_key(self._settings.forget) is None:
                self._report("forget.key is not set: a request to forget would stop this process")
        with stop_signal() as stop:
            async with endpoints(
                self._settings.service.host,
                self._settings.service.port,
                is_live=self._status.is_live,
                waits_for=self._status.waits_for,
                metrics=self._metrics,
                collect=self._status.collect,
            ) as port:
                self._report(f"health and metrics on port {port}")
                working = asyncio.create_task(self._work(connection, policy, maker, stop))
                await self._until_stopped(working, stop)
        self._report("stopped")

    async def _until_stopped(self, working: asyncio.Task[None], stop: asyncio.Future[None]) -> None:
        """Wait for the end of the work; raise the error that ended it."""
        await asyncio.wait({working, stop}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            self._report("stopping")
            if self._status.waits is not None:  # it has not started working
                working.cancel()
            self._status.waits = "its end"
        await asyncio.wait({working})
        if not working.cancelled():
            working.result()
        if stop.done():
            stop.result()

    def _policy(self) -> Policy | None:
        """Return the policy to decide by; None if no role of this process needs the index."""
        asks = self._roles.extracts and self._settings.extraction.llm
        if not (self._roles.handles_decisions or asks):
            return None
        policy = policies.load(self._settings.policy)
        policies.require_model(policy, wiring.shared_model_of(self._settings.embedder))
        both = self._roles.deduplicates and self._roles.writes
        if not (self._settings.index.kind.shared or both):
            raise InvalidSettings(
                f"index.kind {self._settings.index.kind} is for one process; set "
                "MEMSIEVE_INDEX__KIND=qdrant, or run all in one: memsieve service serve"
            )
        return policy

    def _maker(self) -> Maker | None:
        if not self._roles.extracts:
            return None
        wanted = self._settings
        if wanted.kafka.run:
            raise InvalidSettings(
                "kafka.run is set: events of turns are shared by all runs, so extract without it"
            )
        model = opening.llm_extractor(wanted, SystemClock()) if wanted.extraction.llm else None
        measured = None if model is None else MeasuredExtractor(model, self._metrics)
        return opening.maker(wanted.extraction, measured)

    async def _work(
        self,
        connection: Connection,
        policy: Policy | None,
        maker: Maker | None,
        stop: asyncio.Future[None],
    ) -> None:
        """Start the parts in order, work until `stop`, and close them in reverse order."""
        async with AsyncExitStack() as stack:
            tracing = wiring.tracing(self._settings, self._roles.service, self._warn)
            traced = await stack.enter_async_context(tracing)
            log = wiring.kafka_log(self._settings)
            stack.push_async_callback(log.close)
            if maker is not None:
                stack.push_async_callback(maker.close)
            self._status.servers["kafka"] = partial(topics.require, connection)
            await self._answered("Kafka", lambda: topics.require(connection))
            processes: list[Process] = []
            index: Index | None = None
            if policy is not None:
                model = wiring.shared_model_of(self._settings.embedder)
                await self._answered("the log", lambda: require_model(log, model))
                embedder = await self._answered("the embedding model", self._embedder)
                index = await self._index(stack, log)
                if self._roles.handles_decisions:
                    copies = wiring.sinks(self._settings.sinks, self._report)
                    sinks = await stack.enter_async_context(copies) if self._roles.writes else []
                    judged = wiring.judging(self._settings, SystemClock())
                    judging = await stack.enter_async_context(judged)
                    processes += self._processes(policy, embedder, index, log, sinks, judging)
            if maker is not None:
                processes.append(self._extractor(maker, index, log))
            self._status.waits = "its groups"
            subscribed = self._subscribed(connection, processes, log, stop, traced)
            await stack.enter_async_context(subscribed)
            self._report("working")
            async with readiness_watched(
                self._status.waits_for, report=self._report, warn=self._warn
            ):
                for second in count(1):
                    await asyncio.wait({stop}, timeout=_SETTLE_SECONDS)
                    if stop.done():
                        break
                    await self._watch(second, stop)

    async def _watch(self, second: int, stop: asyncio.Future[None]) -> None:
        """Settle idle partitions; stop with the error of a subscription that failed for good."""
        due = [one for one in self._status.consumers if second % one.settle_seconds == 0]
        await asyncio.gather(*(one.partitions.settle() for one in due))
        troubles = (one.subscription.trouble for one in self._status.consumers)
        trouble = next((trouble for trouble in troubles if trouble is not None), None)
        if trouble is not None and not stop.done():
            stop.set_exception(trouble)

    async def _index(self, stack: AsyncExitStack, log: KafkaLog) -> Index:
        self._status.waits = "the index"
        index = await self._answered("the index", lambda: wiring.open_index(self._settings))
        stack.push_async_callback(index.close)
        self._status.servers["index"] = index.level
        if not self._settings.index.kind.shared:
            await self._answered("the log", lambda: _level_with(log, index, self._report))
        return index

    async def _embedder(self) -> Embedder | None:
        if not self._roles.deduplicates:
            return None
        self._status.waits = "the embedding model"
        load = partial(wiring.embedder, self._settings.embedder, self._report)
        made = await abandonable(load)  # a download must not delay the shutdown
        return MeasuredEmbedder(made, self._metrics)

    def _processes(
        self,
        policy: Policy,
        embedder: Embedder | None,
        index: Index,
        log: KafkaLog,
        sinks: Sequence[Sink],
        judging: Judging,
    ) -> list[Process]:
        processes: list[Process] = []
        if embedder is not None:
            policies.require_model(policy, embedder.model)
            if policy.tells_languages:
                load_ahead()
            key = wiring.forget_key(self._settings.forget)
            deduplicator = Deduplicator(embedder, index, index, policy, judging, key)
            owner = PartitionOwner(
                deduplicator,
                log,
                index,
                self._decided,
                token=wiring.owner_token(),
                clock=SystemClock(),
                limits=wiring.limits(self._settings.service),
                claimed=self._claimed,
                named=self._named,
                warn=self._warn,
                screener=wiring.screener(policy),
            )
            self._metrics.removal_rate.set_function(lambda: owner.rates.removals)
            self._metrics.merge_rate.set_function(lambda: owner.rates.merges)
            self._metrics.unapplied.set_function(lambda: owner.unapplied)
            self._metrics.unapplied_seconds.set_function(lambda: owner.unapplied_seconds)
            processes.append(TimedProcess(owner, self._took))
        if self._roles.writes:
            writer = Writer(
                index,
                log,
                self._report,
                sinks=sinks,
                kept_every=min(_KEPT_EVERY, self._settings.service.overlay_scope_memories_max),
                observe=self._metrics.applied,
                refused=self._metrics.refused.labels("writer").inc,
            )
            processes.append(writer)
        return processes

    def _extractor(self, maker: Maker, index: Index | None, log: KafkaLog) -> Extractor:
        wanted = self._settings.extraction
        knowledge = None
        if maker.model is not None and index is not None:
            most, waiting = wanted.known_max, wanted.undecided_max
            knowledge = partial(Knowledge, log, index, known_max=most, undecided_max=waiting)
        return Extractor(
            maker,
            log,
            rules=opening.rules(wanted),
            earlier_turns=wanted.earlier_turns,
            failures_max=wanted.failures_max,
            knowledge=knowledge,
            observe=self._taken,
        )

    def _taken(self, turns: Sequence[TurnResult]) -> None:
        for turn in turns:
            triggers = [one.trigger for one in turn.fired]
            self._metrics.turn(turn.kind, len(turn.events), triggers)
        if aside := sum(turn.letter is not None for turn in turns):
            self._warn(f"{aside:,} turns were set aside: memsieve dead-letters list")

    def _claimed(self, claim: Claim) -> None:
        self._metrics.fences.inc()
        self._metrics.refused.labels("deduplicator").inc(claim.refused)

    def _took(self, seconds: float) -> None:
        self._metrics.decide_seconds.observe(seconds)
        if self._lines is not None:
            self._lines.took(seconds)

    def _named(self, titles: Mapping[MemoryId, str]) -> None:
        if self._lines is not None:
            self._lines.named(titles)

    def _decided(self, decisions: Sequence[Decision]) -> None:
        self._metrics.decided(decisions)
        if self._lines is not None:
            self._lines.decided(decisions)
        if rejected := sum(isinstance(decision, Reject) for decision in decisions):
            self._warn(f"{rejected:,} records were set aside: memsieve dead-letters list")

    @asynccontextmanager
    async def _subscribed(
        self,
        connection: Connection,
        processes: list[Process],
        log: KafkaLog,
        stop: asyncio.Future[None],
        traced: Callable[[Process, str], Process],
    ) -> AsyncGenerator[None]:
        """Join each process's consumer group; on exit, let running batches finish and leave."""
        service = self._settings.service
        membership = Membership(
            connection,
            session_seconds=service.session_seconds,
            drain_seconds=service.drain_seconds,
            fetching=wiring.fetching(self._settings.consumer),
        )
        consumers = [
            self._consumer(process, membership, log, stop, traced) for process in processes
        ]
        self._status.consumers = consumers
        try:
            await self._answered("Kafka", membership.start)
            self._status.waits = None
            yield
        finally:
            self._status.waits = "its end"
            await asyncio.gather(*(one.partitions.close() for one in consumers))
            await membership.stop()

    def _consumer(
        self,
        process: Process,
        membership: Membership,
        log: KafkaLog,
        stop: asyncio.Future[None],
        traced: Callable[[Process, str], Process],
    ) -> TopicConsumer:
        service = self._settings.service
        subscription = membership.subscribe(
            process.topic,
            process.group,
            records_max=self._batch_records(process),
        )

        def give_up(error: Exception) -> None:
            if not stop.done():
                stop.set_exception(error)

        def waits(line: str) -> None:
            self._metrics.failures.labels(process.topic).inc()
            self._warn(line)

        partitions = Partitions(
            traced(process, _OPERATIONS[process.topic]),
            log,
            subscription,
            retry=self._retry,
            revoke_seconds=service.drain_seconds,
            sleep=asyncio.sleep,
            report=waits,
            stop=give_up,
            measured=self._metrics.batch,
            claiming=self._metrics.claim,
        )
        subscription.give_to(partitions, log, self._report)
        flushes = isinstance(process, Writer) and not self._settings.index.kind.shared
        settle_seconds = _FLUSH_SECONDS if flushes else _SETTLE_SECONDS
        return TopicConsumer(process, subscription, partitions, settle_seconds)

    def _batch_records(self, process: Process) -> int:
        """Return the records per batch: few if each may take seconds."""
        if isinstance(process, Extractor) and self._settings.extraction.llm:
            return self._settings.extraction.batch_turns
        return self._settings.service.batch_records

    async def _answered(self, what: str, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """Retry with back-off until there is an answer; warn about each failure."""
        attempt = 0
        while True:
            try:
                return await ask()
            except Transient as error:
                attempt += 1
                delay = self._retry.delay(attempt)
                self._status.waits = str(error)
                self._warn(f"waiting for {what}: {error}; trying again in {delay:.1f} s")
                await asyncio.sleep(delay)


async def _level_with(log: KafkaLog, index: Index, report: Callable[[str], None]) -> None:
    """Bring this process's own index level with all partitions of the log."""
    for partition in range(await log.partitions(DECISIONS.name)):
        await require_log(log, (await applied(index, partition)).reached, partition)
    await restore(index, log, report)
