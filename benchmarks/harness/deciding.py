"""An owner and a writer over an index and a log on disk: deciding without a pipeline."""

import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from benchmarks.harness.measuring import Cost, Watch
from schemas.codec import EVENT
from schemas.events import Event, Remember
from schemas.topics import EVENTS, TOPICS
from streams.judges.built_in import BuiltInVerifier
from streams.judges.language import foreign_language
from streams.judges.lexicons import english
from streams.log.consumer import Consumer
from streams.log.failures import RetryPolicy
from streams.log.local_broker import LocalBroker
from streams.model.ports.index import DecidedEvents, Index
from streams.model.ports.log import OutgoingRecord
from streams.model.ports.models import Embedder
from streams.stage.core.tombstones import TombstoneKey
from streams.stage.flow.decisions import INDEXED
from streams.stage.flow.deduplicate import Deduplicator
from streams.stage.flow.judging import Judging
from streams.stage.flow.partition_owner import PartitionOwner
from streams.stage.flow.writer import Writer
from streams.store.app import policies
from streams.text.reading import TextAnalyzer

POLICY = policies.load("default")
START = datetime(2026, 3, 1, tzinfo=UTC)
_BATCH = 256


@asynccontextmanager
async def local_log() -> AsyncGenerator[LocalBroker]:
    """Open an empty log on disk with one partition."""
    with tempfile.TemporaryDirectory() as directory:
        log = LocalBroker(Path(directory) / "log.sqlite3", indexed=INDEXED)
        for topic in TOPICS:
            log.create(topic.name, 1)
        yield log
        log.close()


def event(number: int, scope: str, text: str) -> Remember:
    return Remember.model_validate(
        {"event_id": f"event-{number}", "scope": scope, "text": text, "occurred_at": START}
    )


class Deciding:
    """Decides on events with the default policy, and applies the decisions."""

    def __init__(
        self,
        log: LocalBroker,
        index: Index,
        decided: DecidedEvents,
        embedder: Embedder,
        key: TombstoneKey | None = None,
    ) -> None:
        readings = TextAnalyzer(english(), foreign_language)
        judging = Judging(readings, {"built-in": BuiltInVerifier(readings)})
        deduplicator = Deduplicator(embedder, index, decided, POLICY, judging, key)
        owner = PartitionOwner(
            deduplicator, log, index, lambda _: None, token="bench", clock=_Standing()
        )
        self._log = log
        self._owner, self._writer = (
            Consumer(process, log, 0, retry=RetryPolicy(), sleep=_never, report=print)
            for process in (owner, Writer(index, log, print))
        )

    async def publish(self, events: Sequence[Event]) -> None:
        await self._log.append(
            [OutgoingRecord(EVENTS.name, 0, e.scope.encode(), EVENT.encode(e)) for e in events]
        )

    async def work(self) -> Cost:
        """Decide on the published events and apply the decisions; return the cost."""
        watch = Watch()
        while await self._owner.step(_BATCH):
            await self._writer.drain(_BATCH)
        return watch.lap()


class _Standing:
    """Implements ports.Clock."""

    def now(self) -> datetime:
        return START


async def _never(seconds: float) -> NoReturn:
    raise AssertionError(f"nothing here has to wait for {seconds} s")
