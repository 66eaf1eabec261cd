"""The metrics of the processes, each with its meaning."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.metrics_core import Metric

from schemas.decisions import KINDS, Decision, Insert, Marker, Reason
from schemas.outcomes import Applied
from streams.clock.stopwatch import timed
from streams.model.embedding import TextVector
from streams.model.ports.models import Embedder
from streams.model.wrapping import WrappedEmbedder

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

disable_created_metrics()  # a creation time for each counter and histogram, which nobody queries


class ProcessMetrics:
    """The metrics that every process exposes, and the registry of all that it exposes."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._common: Mapping[str, str] = {}
        self.build_info = Gauge(
            "memsieve_build_info",
            "Always 1; version of memsieve, and policy by which the process decides or consolidates.",
            ["version", "policy"],
            registry=self.registry,
        )
        self.ready = Gauge(
            "memsieve_ready",
            "1 if the process is ready, as /ready answers at that moment, else 0.",
            registry=self.registry,
        )

    def identify(self, *, policy: str = "", log: str = "") -> None:
        """Tell which process this is. `log`, the topic of decisions, becomes a label of all metrics."""
        self._common = {"log": log} if log else {}
        self.build_info.labels(metadata.version("memsieve"), policy).set(1)

    def exposed(self) -> bytes:
        """Return all metrics in Prometheus's format."""
        return generate_latest(_Labelled(self.registry, self._common))


@dataclass(frozen=True)
class _Labelled:
    """A registry whose samples all have these labels, too."""

    registry: CollectorRegistry
    labels: Mapping[str, str]

    def collect(self) -> Generator[Metric]:
        for metric in self.registry.collect():
            metric.samples = [
                one._replace(labels={**self.labels, **one.labels}) for one in metric.samples
            ]
            yield metric


class Metrics(ProcessMetrics):
    """Every metric of a service, with the question that it answers."""

    def __init__(self) -> None:
        super().__init__()
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, buckets=_SECONDS, registry=self.registry)
        self.decisions = counter(
            "memsieve_decisions",
            "Decisions published, by kind; reject counts the dead letters.",
            ["kind"],
        )
        for kind in KINDS:  # start at 0, so that the first increment is visible
            self.decisions.labels(kind)
        self.braked = counter(
            "memsieve_braked_decisions",
            "Events stored as separate memories because the brake was on.",
        )
        self.judged = counter(
            "memsieve_judged_pairs",
            "Pairs of an event and a similar memory that were judged, by judge and verdict.",
            ["judge", "verdict"],
        )
        self.unanswered = counter(
            "memsieve_unanswered_decisions",
            "Decisions made without a judge that should have answered, by what prevented it.",
            ["judge"],
        )
        self.removal_rate = gauge(
            "memsieve_removal_rate",
            "The share of the latest 1,000 changes of each partition that retire memories, or "
            "would with the brake off; 0.05 to 0.2 is normal, alert above 0.5.",
        )
        self.merge_rate = gauge(
            "memsieve_merge_rate",
            "The share of the latest 1,000 changes of each partition that are merges.",
        )
        self.changes = counter("memsieve_changes", "Changes of memories applied and published.")
        self.failures = counter(
            "memsieve_failures",
            "Times a partition had to wait after a failure, by topic.",
            ["topic"],
        )
        self.partitions = gauge(
            "memsieve_partitions",
            "Partitions assigned to this process, by topic and state: ready or waiting.",
            ["topic", "state"],
        )
        self.lag = gauge(
            "memsieve_lag_records",
            "Records waiting to be processed, by topic and partition.",
            ["topic", "partition"],
        )
        self.unapplied = gauge(
            "memsieve_overlay_memories", "Memories that are decided but not yet in the index."
        )
        self.unapplied_seconds = gauge(
            "memsieve_overlay_seconds",
            "The age of the oldest decision that is not yet in the index.",
        )
        self.claim_seconds = histogram(
            "memsieve_claim_seconds",
            "The time to take over a partition, by topic.",
            ["topic"],
        )
        self.fences = counter(
            "memsieve_fences",
            "Fences written by this process, one for each partition it took over.",
        )
        self.refused = counter(
            "memsieve_refused_records",
            "Records of memory.decisions that did not count, late or foreign, by reader.",
            ["reader"],
        )
        self.batch_records = histogram(
            "memsieve_batch_records",
            "Records in a batch, by topic.",
            ["topic"],
            buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024),
        )
        self.batch_seconds = histogram(
            "memsieve_batch_seconds",
            "The time of a batch from its first record to its commit, by topic.",
            ["topic"],
        )
        self.decide_seconds = histogram(
            "memsieve_decide_seconds",
            "The time to decide a batch, including embedding and search.",
        )
        self.embed_seconds = histogram(
            "memsieve_embed_seconds",
            "The time to embed the new texts of a batch.",
        )

        self.turns = counter(
            "memsieve_turns",
            "Turns processed, by outcome: untriggered, nothing, events, "
            "known (already processed), or set-aside (a dead letter).",
            ["outcome"],
        )
        self.turns.labels("set-aside")  # start at 0, as with the decisions
        self.triggers = counter(
            "memsieve_turn_triggers", "Turns that matched a trigger, by trigger.", ["trigger"]
        )
        self.turn_events = counter(
            "memsieve_turn_events", "Events extracted from turns and published."
        )
        self.extract_failures = counter(
            "memsieve_extract_failures",
            "How often the language model gave no usable answer about a turn, by reason.",
            ["reason"],
        )
        self.extract_seconds = histogram(
            "memsieve_extract_seconds",
            "The time of the language model's answer about a turn.",
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
        with timed(lambda seconds: self.batch_seconds.labels(topic).observe(seconds)):
            yield
        self.batch_records.labels(topic).observe(records)

    @contextmanager
    def claim(self, topic: str) -> Generator[None]:
        """Measure a claim that succeeds."""
        with timed(lambda seconds: self.claim_seconds.labels(topic).observe(seconds)):
            yield


class ApiMetrics(ProcessMetrics):
    """Every metric of the HTTP API."""

    def __init__(self) -> None:
        super().__init__()
        counter = partial(Counter, registry=self.registry)
        histogram = partial(Histogram, buckets=_SECONDS, registry=self.registry)
        self.requests = counter(
            "memsieve_api_requests",
            "Requests answered by the API, by route and status.",
            ["route", "status"],
        )
        self.seconds = histogram(
            "memsieve_api_seconds",
            "The response time of the API, by route.",
            ["route"],
        )
        self.foreign_scopes = counter(
            "memsieve_api_foreign_scopes",
            "Requests for a scope that the token does not cover, by the token's name.",
            ["token"],
        )

    def answered(self, route: str, status: int, seconds: float) -> None:
        self.requests.labels(route, str(int(status))).inc()
        self.seconds.labels(route).observe(seconds)


class ConsolidationMetrics(ProcessMetrics):
    """Every metric of the consolidator."""

    def __init__(self) -> None:
        super().__init__()
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        self.passes = counter("memsieve_consolidation_passes", "Consolidation passes made.")
        self.scopes = counter(
            "memsieve_consolidation_scopes",
            "Scopes examined, by how the examination ended.",
            ["ended"],
        )
        self.judged = counter("memsieve_consolidation_pairs", "Pairs of memories judged.")
        self.groups = counter("memsieve_consolidation_groups", "Groups of memories merged.")
        self.refused = counter(
            "memsieve_consolidation_refused",
            "Proposals refused because their memories had changed meanwhile.",
        )
        self.removed = counter(
            "memsieve_consolidation_removed_memories",
            "The net reduction of live memories by consolidation.",
        )
        self.removal_rate = gauge(
            "memsieve_consolidation_removal_rate",
            "The share of its memories that the last pass removed; 0.05 to 0.2 is normal, alert "
            "above 0.5.",
        )
        self.seconds = gauge(
            "memsieve_consolidation_seconds", "How long the last pass took; alert above 60."
        )
        self.depth = gauge(
            "memsieve_consolidation_depth",
            "The longest chain of successors to a live memory, in the last pass's scopes.",
        )
        self.churn = gauge(
            "memsieve_consolidation_churn",
            "The largest share of a scope's memories that the last pass retired or changed.",
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


class MeasuredEmbedder(WrappedEmbedder):
    """Implements ports.Embedder over an embedder, and measures its duration."""

    def __init__(self, embedder: Embedder, metrics: Metrics) -> None:
        super().__init__(embedder)
        self._metrics = metrics

    async def embed(self, texts: Sequence[str]) -> list[TextVector]:
        with self._metrics.embed_seconds.time():
            return await self._embedder.embed(texts)
