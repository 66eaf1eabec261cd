"""The client of a dry run: the real owner and writer over a log and an index in memory."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from pydantic import JsonValue

from schemas.decisions import Decision
from schemas.events import Event, Remember
from schemas.topics import TOPICS
from streams.clock.system import SystemClock
from streams.embedding.remembering import RememberingEmbedder
from streams.index.exact import ExactIndex
from streams.log.consumer import Consumer
from streams.log.local_broker import LocalBroker
from streams.model.policy import Policy, overlaid
from streams.model.ports.index import Index
from streams.model.ports.log import Process
from streams.model.ports.models import Embedder
from streams.stage.flow.deduplicate import Deduplicator
from streams.stage.flow.judging import Judging
from streams.stage.flow.partition_owner import PartitionOwner
from streams.stage.flow.writer import Writer
from streams.store.app import wiring
from streams.store.app.client import Response, decisions_of, is_again, record_of
from streams.store.app.setting_groups import RetrySettings
from streams.store.app.settings import Settings


@dataclass(frozen=True)
class DecidingDependencies:
    """What deciding needs in addition to a log, an index and a policy."""

    embedder: Embedder
    judging: Judging
    batch_records: int = 500

    def knowing(self) -> "DecidingDependencies":
        """Return means that cache embeddings, so that no text is embedded twice."""
        return replace(self, embedder=RememberingEmbedder(self.embedder, texts_max=None))


@asynccontextmanager
async def means(
    settings: Settings, report: Callable[[str], None]
) -> AsyncGenerator[DecidingDependencies]:
    """Open what the settings name: the embedding model, the judges and the wording of merges."""
    embedder = wiring.embedder(settings.embedder, report)
    async with wiring.judging(settings, SystemClock()) as judging:
        yield DecidingDependencies(embedder, judging, settings.run.batch_records)


class DryRunClient:
    """Implements Client in memory: nothing is kept."""

    attempts_left = 0

    def __init__(self, policy: Policy, means: DecidingDependencies) -> None:
        self._index = ExactIndex()
        self._batch_records = means.batch_records
        self._log = LocalBroker()
        for topic in TOPICS:
            self._log.create(topic.name, 1)
        self._decided: list[Decision] = []
        self._first: dict[str, Decision] = {}
        owner = PartitionOwner(
            Deduplicator(means.embedder, self._index, self._index, policy, means.judging),
            self._log,
            self._index,
            self._decided.extend,
            token=wiring.owner_token(),
            clock=SystemClock(),
            screener=wiring.screener(policy),
        )
        self._decider = _consumer(owner, self._log)
        self._applier = _consumer(Writer(self._index, self._log, lambda _: None), self._log)

    async def index(self) -> ExactIndex:
        return self._index

    async def submit(
        self, events: Sequence[Event], done: Callable[[int], None] = lambda _: None
    ) -> list[Response]:
        """Decide on events in order and apply the decisions.

        `done` receives the number of events decided on since its last call.
        """
        before = len(self._decided)
        for start in range(0, len(events), self._batch_records):
            batch = events[start : start + self._batch_records]
            await self._log.append([record_of(event, 1) for event in batch])
            while await self._decider.step(self._batch_records):
                await self._applier.drain(self._batch_records)
            done(len(batch))
        decided = self._decided[before:]
        return [self._response(*one) for one in zip(events, decided, strict=True)]

    def _response(self, event: Event, own: Decision) -> Response:
        if is_again(own):
            return Response(event, own, self._first.get(own.decision_id))
        self._first[own.decision_id] = own
        return Response(event, own)


async def over(memories: Index, policy: Policy, means: DecidingDependencies) -> DryRunClient:
    """Return a dry run that begins with a copy of these memories."""
    client = DryRunClient(policy, means)
    await (await client.index()).write([stored async for stored in memories.scan()])
    return client


async def decide_in_memory(
    events: Sequence[Remember],
    policy: Policy,
    means: DecidingDependencies,
    done: Callable[[int], None] = lambda _: None,
) -> list[Decision]:
    """Return the decisions on events in order, as `memsieve run` makes them in an empty store.

    `done` receives the number of events decided on since its last call.
    """
    return decisions_of(await DryRunClient(policy, means).submit(events, done))


def without_brake(policy: Policy) -> Policy:
    """Return a policy without its brake, since many labelled duplicates are no flood of removals."""
    return _everywhere(policy, {"brake": {"enabled": False}})


def for_repeats(policy: Policy) -> Policy:
    """Return a policy without its brake that removes only repetitions: contradictions stay."""
    return _everywhere(
        policy, {"brake": {"enabled": False}, "with_verdict": {"contradicts": "keep-both"}}
    )


def _everywhere(policy: Policy, rules: dict[str, JsonValue]) -> Policy:
    """Return a policy with these rules in every scope."""
    content = overlaid(policy.model_dump(mode="json"), rules)
    content["scopes"] = {scope: overlaid(own, rules) for scope, own in policy.scopes.items()}
    return Policy.model_validate(content)


def _consumer(process: Process, log: LocalBroker) -> Consumer:
    retry = wiring.retry(RetrySettings())
    return Consumer(process, log, 0, retry=retry, sleep=asyncio.sleep, report=lambda _: None)
