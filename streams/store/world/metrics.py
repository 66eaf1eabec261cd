"""The metrics of the processes, each with the question that it answers."""

import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from schemas.base import ModelId
from schemas.decisions import KINDS, Decision, Insert, Marker, Reason
from schemas.outcomes import Applied
from streams.model.embedding import Embedded
from streams.model.ports import Embedder

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

disable_created_metrics()  # a creation time for each counter and histogram, which nobody queries


class Metrics:
    """Every metric of a service, with the question that it answers."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.decisions = Counter(
            "memsieve_decisions",
            "How many decisions were published, by kind; reject counts the dead letters.",
            ["kind"],
            registry=self.registry,
        )
        for kind in KINDS:  # start at 0, so that the first increment is visible
            self.decisions.labels(kind)
        self.braked = Counter(
            "memsieve_braked_decisions",
            "How many events were kept beside a memory because the brake was on.",
            registry=self.registry,
        )
        self.judged = Counter(
            "memsieve_judged_pairs",
            "How many pairs of an event and a near memory got a verdict, by who gave it.",
            ["judge", "verdict"],
            registry=self.registry,
        )
        self.unanswered = Counter(
            "memsieve_unanswered_decisions",
            "How many decisions were made without a judge that should have answered, by what kept "
            "it.",
            ["judge"],
            registry=self.registry,
        )
        self.removal_rate = Gauge(
            "memsieve_removal_rate",
            "The share of the newest 1,000 changes of each partition that retire memories, or "
            "would if the brake were off; 0.05 to 0.2 is usual, alert above 0.5.",
            registry=self.registry,
        )
        self.merge_rate = Gauge(
            "memsieve_merge_rate",
            "The share of the newest 1,000 changes of each partition that are merges.",
            registry=self.registry,
        )
        self.changes = Counter(
            "memsieve_changes",
            "How many changes of memories were applied and published.",
            registry=self.registry,
        )
        self.failures = Counter(
            "memsieve_failures",
            "How often a partition had to wait, by topic.",
            ["topic"],
            registry=self.registry,
        )
        self.partitions = Gauge(
            "memsieve_partitions",
            "How many partitions this process has, by topic and state: ready or waiting.",
            ["topic", "state"],
            registry=self.registry,
        )
        self.lag = Gauge(
            "memsieve_lag_records",
            "How many records wait to be worked on, by topic and partition.",
            ["topic", "partition"],
            registry=self.registry,
        )
        self.unapplied = Gauge(
            "memsieve_overlay_memories",
            "How many memories are decided on and not yet in the index.",
            registry=self.registry,
        )
        self.unapplied_seconds = Gauge(
            "memsieve_overlay_seconds",
            "How long the oldest decision that is not yet in the index has been waiting.",
            registry=self.registry,
        )
        self.claim_seconds = Histogram(
            "memsieve_claim_seconds",
            "How long it took to take a partition over, by topic.",
            ["topic"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.fences = Counter(
            "memsieve_fences",
            "How many fences this process has written: how often it took a partition.",
            registry=self.registry,
        )
        self.refused = Counter(
            "memsieve_refused_records",
            "How many records of memory.decisions did not count, by reader: late, or foreign.",
            ["reader"],
            registry=self.registry,
        )
        self.batch_records = Histogram(
            "memsieve_batch_records",
            "How many records a batch had, by topic.",
            ["topic"],
            buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024),
            registry=self.registry,
        )
        self.batch_seconds = Histogram(
            "memsieve_batch_seconds",
            "How long a batch took from its first record to its commit, by topic.",
            ["topic"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.decide_seconds = Histogram(
            "memsieve_decide_seconds",
            "How long it took to decide on a batch, embedding and searching included.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.embed_seconds = Histogram(
            "memsieve_embed_seconds",
            "How long it took to embed the new texts of a batch.",
            buckets=_SECONDS,
            registry=self.registry,
        )

        self.turns = Counter(
            "memsieve_turns",
            "How many turns were worked through, by what came of them: untriggered, nothing, events, "
            "known (taken before), or set-aside (a dead letter).",
            ["outcome"],
            registry=self.registry,
        )
        self.turns.labels("set-aside")  # start at 0, as with the decisions
        self.triggers = Counter(
            "memsieve_turn_triggers",
            "How many turns had a sign that they are worth remembering, by the sign.",
            ["trigger"],
            registry=self.registry,
        )
        self.turn_events = Counter(
            "memsieve_turn_events",
            "How many events were published that were made of turns.",
            registry=self.registry,
        )
        self.extract_failures = Counter(
            "memsieve_extract_failures",
            "How often the language model gave no answer about a turn that can be taken, by the "
            "reason.",
            ["reason"],
            registry=self.registry,
        )
        self.extract_seconds = Histogram(
            "memsieve_extract_seconds",
            "How long the language model took for an answer about a turn.",
            buckets=_SECONDS,
            registry=self.registry,
        )

    def decided(self, decisions: Sequence[Decision]) -> None:
        for decision in decisions:
            self.decisions.labels(decision.kind).inc()
            if isinstance(decision, Insert) and decision.evidence.reason is Reason.BRAKED:
                self.braked.inc()
            if not isinstance(decision, Marker):
                for near in decision.evidence.neighbours:
                    self.judged.labels(near.judge, near.verdict.value).inc()
                for silent in decision.evidence.degraded:
                    self.unanswered.labels(silent).inc()

    def turn(self, outcome: str, events: int, triggers: Iterable[str]) -> None:
        """Count a turn: its outcome, its events and its triggers."""
        self.turns.labels(outcome).inc()
        self.turn_events.inc(events)
        for trigger in triggers:
            self.triggers.labels(trigger).inc()

    def applied(self, changes: Sequence[Applied]) -> None:
        self.changes.inc(len(changes))

    @contextmanager
    def batch(self, topic: str, records: int) -> Generator[None]:
        """Measure a batch that succeeds."""
        started = time.perf_counter()
        yield
        self.batch_seconds.labels(topic).observe(time.perf_counter() - started)
        self.batch_records.labels(topic).observe(records)

    @contextmanager
    def claim(self, topic: str) -> Generator[None]:
        """Measure a claim that succeeds."""
        started = time.perf_counter()
        yield
        self.claim_seconds.labels(topic).observe(time.perf_counter() - started)


class ApiMetrics:
    """Every metric of the HTTP API."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "memsieve_api_requests",
            "How many requests the API has answered, by route and status.",
            ["route", "status"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "memsieve_api_seconds",
            "How long the API took to answer, by route.",
            ["route"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.foreign_scopes = Counter(
            "memsieve_api_foreign_scopes",
            "How often a scope was asked for that the token is not for, by the token's name.",
            ["token"],
            registry=self.registry,
        )

    def answered(self, route: str, status: int, seconds: float) -> None:
        self.requests.labels(route, str(int(status))).inc()
        self.seconds.labels(route).observe(seconds)


class ConsolidationMetrics:
    """Every metric of the consolidator."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.passes = Counter(
            "memsieve_consolidation_passes",
            "How many passes were made.",
            registry=self.registry,
        )
        self.scopes = Counter(
            "memsieve_consolidation_scopes",
            "How many scopes were looked at, by how that ended.",
            ["ended"],
            registry=self.registry,
        )
        self.judged = Counter(
            "memsieve_consolidation_pairs",
            "How many pairs of memories were judged.",
            registry=self.registry,
        )
        self.groups = Counter(
            "memsieve_consolidation_groups",
            "How many groups of memories were joined.",
            registry=self.registry,
        )
        self.refused = Counter(
            "memsieve_consolidation_refused",
            "How many proposals came too late: their memories had changed.",
            registry=self.registry,
        )
        self.removed = Counter(
            "memsieve_consolidation_removed_memories",
            "How many live memories there are fewer.",
            registry=self.registry,
        )
        self.removal_rate = Gauge(
            "memsieve_consolidation_removal_rate",
            "The share of its memories that the last pass has removed; 0.05 to 0.2 is usual, alert "
            "above 0.5.",
            registry=self.registry,
        )
        self.seconds = Gauge(
            "memsieve_consolidation_seconds",
            "How long the last pass took; alert above 60.",
            registry=self.registry,
        )
        self.depth = Gauge(
            "memsieve_consolidation_depth",
            "The most steps from a retired memory to the live one, in the last pass's scopes.",
            registry=self.registry,
        )
        self.churn = Gauge(
            "memsieve_consolidation_churn",
            "The largest share of a scope's memories that the last pass has retired or changed.",
            registry=self.registry,
        )

    def passed(self, told: Mapping[str, Any]) -> None:
        """Count a pass from its own report."""
        self.passes.inc()
        for scope in told["scopes"]:
            self.scopes.labels(scope["ended"]).inc()
        self.judged.inc(told["pairs_judged"])
        self.groups.inc(told["groups"])
        self.refused.inc(told["refused"])
        self.removed.inc(max(0, told["removed_count"]))
        self.removal_rate.set(told["removal_rate"] or 0.0)
        self.seconds.set(told["duration_ms"] / 1_000)
        self.depth.set(told["depth_max"])
        self.churn.set(max((scope["churn"] for scope in told["scopes"]), default=0.0))


class MeasuredEmbedder:
    """Implements ports.Embedder over an embedder, and measures its duration."""

    def __init__(self, embedder: Embedder, metrics: Metrics) -> None:
        self._embedder = embedder
        self._metrics = metrics

    @property
    def model(self) -> ModelId:
        return self._embedder.model

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    async def embed(self, texts: Sequence[str]) -> list[Embedded]:
        with self._metrics.embed_seconds.time():
            return await self._embedder.embed(texts)
