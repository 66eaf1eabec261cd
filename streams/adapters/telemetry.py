"""What the process tells of itself: metrics, log lines, and the clock."""

import logging
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from schemas.base import ModelId
from schemas.decisions import Decision, Insert, Marker, Reason
from schemas.outcomes import Applied
from streams.core.embedding import Embedded
from streams.ports import Embedder

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_CHATTY = ("aiokafka", "httpx", "kafka", "uvicorn.error")
"""Libraries that tell of a lost connection at every attempt; we tell once, with what to do."""


class Metrics:
    """Every metric of a service, by the question that it answers."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.decisions = Counter(
            "memsieve_decisions",
            "How many decisions were published, by kind; reject counts the dead letters.",
            ["kind"],
            registry=self.registry,
        )
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
        self.embed_seconds = Histogram(
            "memsieve_embed_seconds",
            "How long it took to embed the new texts of a batch.",
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


class MeasuredEmbedder:
    """Implements ports.Embedder over an embedder, and tells how long it takes."""

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


def log_lines(service: str) -> structlog.stdlib.BoundLogger:
    """Let this process log to standard error, JSON where that is no terminal; return the logger.

    Lines hold ids, places and reasons, never a memory's text.
    """
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer()
        if sys.stderr.isatty()
        else structlog.processors.JSONRenderer(ensure_ascii=False)
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        foreign_pre_chain=shared,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    bound: structlog.stdlib.BoundLogger = structlog.get_logger("memsieve").bind(service=service)
    return bound
