"""A run: workers decide and apply while events come and trouble goes on; then all is compared."""

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from schemas.topics import CHANGES, DECISIONS, EVENTS, TOPICS
from streams.log.kafka.connection import Connection
from streams.log.kafka.log import KafkaLog
from streams.model.ports.failures import Transient
from streams.model.ports.log import OutgoingRecord
from streams.stage.flow.decisions import UncountedReason
from tests.chaos import outcome
from tests.chaos.cluster import Progress, progress, publish, settled, whole
from tests.chaos.fleet import ROOT, Fleet
from tests.chaos.outcome import Recovery, Sorted, Topics
from tests.chaos.stream import SECRET, Stream
from tests.chaos.trouble import SESSION_SECONDS, Say, Trouble
from tests.standin.process import StandIn
from tests.support.servers.kafka import NativeKafka
from tests.support.servers.services import COMMAND, Installation

_TELL_SECONDS = 5.0
_START_SECONDS = 120.0
_BURST_SECONDS = 3.0
_PAUSE_SECONDS = 0.05


@dataclass(frozen=True)
class Options:
    """What a run is like. The events come, and the trouble goes on, for so many `seconds`."""

    seed: int
    events: int = 20_000
    seconds: float = 240.0
    deduplicators: int = 2
    writers: int = 2
    partitions: int = 6
    scopes: int = 60
    settle_seconds: float = 300.0


@dataclass(frozen=True)
class Servers:
    """The servers by their addresses, and those of them that may be hurt."""

    kafka: str
    qdrant: str
    brokers: Sequence[NativeKafka] = ()
    index: StandIn | None = None


@dataclass
class Report:
    """What was done and what came of it. `differences` says, line by line, what should not be."""

    options: Options
    counts: Counter[str] = field(default_factory=Counter[str])
    kinds: Counter[str] = field(default_factory=Counter[str])
    recovery: dict[str, Recovery] = field(default_factory=dict[str, Recovery])
    numbers: dict[str, int] = field(default_factory=dict[str, int])
    lost: int = 0
    duplicated: int = 0
    seconds: float = 0.0
    differences: list[str] = field(default_factory=list[str])

    def lines(self) -> list[str]:
        """Return the report for people."""
        recovery = [
            f"  {role}: {_spread(times.seconds)}; with no other trouble meanwhile: "
            f"{_spread(times.alone)}"
            for role, times in self.recovery.items()
        ]
        return [
            f"seed {self.options.seed}, {self.seconds:.0f} s in all",
            f"trouble: {_counted(self.counts)}",
            f"decisions: {_counted(self.kinds)}",
            *(f"{what}: {number:,}" for what, number in self.numbers.items()),
            "from a kill or stop to the next answer in each partition that was hit:",
            *recovery,
            f"lost/duplicated: {self.lost:,}/{self.duplicated:,}",
            *(self.differences or ["all is as one undisturbed process would have it"]),
        ]


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{what} {count:,}" for what, count in sorted(counts.items()))


def _spread(times: Sequence[float]) -> str:
    if not times:
        return "none"
    return f"p50 {statistics.median(times):.1f} s, max {max(times):.1f} s, of {len(times)}"


class Run:
    """One run in a directory of its own, which holds all that a person needs afterwards."""

    def __init__(self, options: Options, servers: Servers, directory: Path, say: Say) -> None:
        self._options = options
        self._servers = servers
        self._directory = directory
        self._started = time.monotonic()
        self._tell = say
        prefix = directory.name[:60]
        self._installation = Installation.on(
            directory,
            servers.kafka,
            f"{prefix}.",
            index__kind="qdrant",
            forget__key=SECRET,
            qdrant__url=servers.qdrant,
            qdrant__prefer_grpc="false",
            qdrant__collection_prefix=prefix,
            service__session_seconds=f"{SESSION_SECONDS}",
            service__drain_seconds="10",
            kafka__request_seconds="10",
            retry__delay_max_seconds="2",
        )
        self._connection = Connection(servers.kafka, f"{prefix}.", request_seconds=5.0)
        self._fleet = Fleet(
            self._installation,
            {"deduplicator": options.deduplicators, "writer": options.writers},
        )
        self._sent = Counter[OutgoingRecord]()
        self._bursts = 0
        self._failed = 0
        self._report = Report(options)

    async def run(self) -> Report:
        """Do it, and return the report. No worker is left over, however it ends."""
        partitions = f"{self._options.partitions}"
        await asyncio.to_thread(
            self._installation.memsieve, "service", "topics", "create", "--partitions", partitions
        )
        try:
            trouble = await self._trouble()
            await self._settle()
            await asyncio.to_thread(self._end)
        finally:
            self._fleet.close()
        await self._compare(trouble)
        self._report.seconds = time.monotonic() - self._started
        return self._report

    async def _trouble(self) -> Trouble:
        """Publish the events while trouble goes on."""
        options, servers = self._options, self._servers
        trouble = Trouble(
            self._fleet,
            Random(f"trouble {options.seed}"),  # noqa: S311
            self._say,
            brokers=servers.brokers,
            index=servers.index,
            burst=self._burst,
        )
        self._fleet.fill()
        await self._begun()
        telling = asyncio.create_task(self._tell_progress())
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(trouble.run(options.seconds))
                group.create_task(self._publish())
        finally:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)
        self._report.counts = trouble.counts
        return trouble

    async def _begun(self) -> None:
        """Wait until every worker works: those that still start cannot be hit."""
        async with asyncio.timeout(_START_SECONDS):
            while not all(one.works for role in self._fleet.roles for one in self._fleet.of(role)):
                await asyncio.sleep(_PAUSE_SECONDS)
                self._fleet.mend()
        self._say("all workers work")

    async def _publish(self) -> None:
        """Publish in bursts, evenly over the time of the trouble."""
        options = self._options
        rng = Random(f"events {options.seed}")  # noqa: S311
        stream = Stream(rng, options.partitions, scopes=options.scopes)
        log = KafkaLog(self._connection)
        started, done = time.monotonic(), 0
        try:
            while done < options.events:
                most = max(2, round(2 * options.events / options.seconds))
                records = stream.take(min(rng.randint(1, most), options.events - done))
                self._failed += await publish(log, records)
                self._sent.update(records)
                self._bursts += 1
                done += len(records)
                due = started + options.seconds * done / options.events
                await asyncio.sleep(max(0.0, due - time.monotonic()))
        finally:
            await log.close()

    async def _burst(self) -> None:
        """Wait for the next events, for a while: the broker may be away, or all events be there."""
        before = self._bursts
        with suppress(TimeoutError):
            async with asyncio.timeout(_BURST_SECONDS):
                while self._bursts == before:  # noqa: ASYNC110 - it is no more than a hint
                    await asyncio.sleep(_PAUSE_SECONDS)

    async def _tell_progress(self) -> None:
        log = KafkaLog(self._connection)
        try:
            while True:
                await asyncio.sleep(_TELL_SECONDS)
                with suppress(Transient):
                    self._say(f"{await progress(log)}")
        finally:
            await log.close()

    async def _settle(self) -> None:
        """Let all workers run until there is nothing left to do."""
        self._say("the trouble is over")
        told = time.monotonic()

        def meanwhile(now: Progress) -> None:
            nonlocal told
            self._fleet.mend()
            if time.monotonic() - told > _TELL_SECONDS:
                told = time.monotonic()
                self._say(f"{now}")

        reached = await settled(self._connection, self._options.settle_seconds, meanwhile)
        self._say(f"{reached}")
        if not reached.settled:
            self._report.differences.append(f"does not come to an end: {reached}")

    def _end(self) -> None:
        """Stop all workers in order."""
        self._fleet.stop_all()
        self._report.differences += [
            f"{one.worker} ended by itself with code {one.code}: {one.last_words}"
            for one in self._fleet.ended
        ]

    async def _compare(self, trouble: Trouble) -> None:
        """Compare topics, memories and index with what they should be."""
        self._say("comparing with one process alone")
        topics: Topics = {
            topic.name: await whole(self._connection, topic.name, self._options.partitions)
            for topic in TOPICS
        }
        decisions = [outcome.sort(records) for records in topics[DECISIONS.name]]
        store = self._directory / "alone"
        expected = await outcome.alone(topics[EVENTS.name], store)
        lost = outcome.lost(topics, decisions, self._sent)
        duplicated = outcome.duplicated(decisions)
        self._report.lost, self._report.duplicated = len(lost), len(duplicated)
        for differences in (
            lost,
            duplicated,
            outcome.otherwise(decisions, expected),
            outcome.learnt_again(decisions),
            outcome.unforwarded(topics, decisions),
            outcome.without_letter(topics, decisions),
            outcome.changed_otherwise(topics, expected),
            await self._memories_otherwise(store),
            await self._unsound(),
        ):
            self._report.differences += outcome.listed(differences)
        self._count(topics, decisions, trouble)

    def _count(self, topics: Topics, decisions: Sequence[Sorted], trouble: Trouble) -> None:
        report = self._report
        refused = sum((made.refused for made in decisions), Counter[UncountedReason]())
        report.kinds = outcome.kinds(decisions)
        report.numbers = {
            "events published": self._sent.total(),
            "publications repeated because the answer was missing": self._failed,
            "records in memory.events, copies of those sent on included": sum(
                len(records) for records in topics[EVENTS.name]
            ),
            "workers": len(self._fleet.all()),
            "assignments by rebalances": sum(one.assignments for one in self._fleet.all()),
            "fences written": sum(len(made.owners) for made in decisions),
            "takeovers from another owner": sum(made.takeovers for made in decisions),
            "records refused by fence": refused[UncountedReason.STALE],
            "records refused otherwise": refused.total() - refused[UncountedReason.STALE],
        }
        counting = [[one.record for one in made.counting] for made in decisions]
        report.recovery = {
            "deduplicators": outcome.recovery(trouble, "deduplicator", counting),
            "writers": outcome.recovery(trouble, "writer", topics[CHANGES.name]),
        }

    async def _memories_otherwise(self, store: Path) -> list[str]:
        asked = ("memory", "list", "--retired", "--json")
        here = await self._memsieve(*asked)
        there = await self._memsieve(*asked, "--store", str(store))
        same = here == there and here[0] == 0
        return [] if same else ["`memsieve memory list` is not what it is after the run alone"]

    async def _unsound(self) -> list[str]:
        code, said = await self._memsieve("check", "--full")
        wrong = [f"memsieve check --full: {line}" for line in said.splitlines() if ": " in line]
        return [f"memsieve check --full: exit code {code}", *wrong] if code else []

    async def _memsieve(self, *arguments: str) -> tuple[int, str]:
        """Run a command to its end; return its exit code and what it printed."""
        process = await asyncio.create_subprocess_exec(
            *COMMAND,
            *arguments,
            env=self._installation.environment,
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await process.communicate()
        return process.returncode or 0, said.decode()

    def _say(self, line: str) -> None:
        self._tell(f"{time.monotonic() - self._started:6.1f} s  {line}")
