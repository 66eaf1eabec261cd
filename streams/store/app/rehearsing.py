"""Rehearsal: the real owner and writer over an in-memory log and index; nothing is kept."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from pydantic import JsonValue

from schemas.codec import EVENT
from schemas.decisions import Decision
from schemas.events import Event, Remember
from schemas.topics import EVENTS, TOPICS
from streams.clock.system import SystemClock
from streams.embedding.remembering import RememberingEmbedder
from streams.index.exact import ExactIndex
from streams.log.consumer import Consumer
from streams.log.memory_log import MemoryLog
from streams.model.policy import Policy, overlaid
from streams.model.ports import Embedder, Outgoing, Process
from streams.stage.flow.deduplicate import Deduplicator
from streams.stage.flow.judging import Judging
from streams.stage.flow.owner import Owner
from streams.stage.flow.writer import Writer
from streams.store.app import wiring
from streams.store.app.setting_groups import RetrySettings
from streams.store.app.settings import Settings


@dataclass(frozen=True)
class Means:
    """What deciding needs in addition to a log, an index and a policy."""

    embedder: Embedder
    judging: Judging

    def knowing(self) -> "Means":
        """Return means that cache embeddings, so that no text is embedded twice."""
        return replace(self, embedder=RememberingEmbedder(self.embedder, texts_max=None))


@asynccontextmanager
async def means(settings: Settings, report: Callable[[str], None]) -> AsyncGenerator[Means]:
    """Open what the settings name: the embedding model, the judges and the wording of merges."""
    embedder = wiring.embedder(settings.embedder, report)
    async with wiring.judging(settings, SystemClock()) as judging:
        yield Means(embedder, judging)


class Rehearsal:
    """The real owner and writer over a log and an index in memory."""

    def __init__(self, policy: Policy, means: Means) -> None:
        self.index = ExactIndex()
        self._log = MemoryLog()
        for topic in TOPICS:
            self._log.create(topic.name, 1)
        self._decided: list[Decision] = []
        owner = Owner(
            Deduplicator(means.embedder, self.index, self.index, policy, means.judging),
            self._log,
            self.index,
            self._decided.extend,
            token=wiring.owner_token(),
            clock=SystemClock(),
            screener=wiring.screener(policy),
        )
        self._decider = _consumer(owner, self._log)
        self._applier = _consumer(Writer(self.index, self._log, _quiet), self._log)

    async def hear(
        self,
        events: Sequence[Event],
        *,
        batch_records: int,
        done: Callable[[int], None] = lambda _: None,
    ) -> list[Decision]:
        """Decide on events in order and apply the decisions; return them.

        `done` receives the number of events decided on since its last call.
        """
        before = len(self._decided)
        for start in range(0, len(events), batch_records):
            batch = events[start : start + batch_records]
            await self._log.append([_record(event) for event in batch])
            while await self._decider.step(batch_records):
                await self._applier.drain(batch_records)
            done(len(batch))
        return self._decided[before:]


async def rehearse(
    events: Sequence[Remember],
    policy: Policy,
    means: Means,
    *,
    batch_records: int,
    done: Callable[[int], None] = lambda _: None,
) -> list[Decision]:
    """Return the decisions on events in order, as `memsieve run` makes them in an empty store.

    `done` receives the number of events decided on since its last call.
    """
    rehearsal = Rehearsal(policy, means)
    return await rehearsal.hear(events, batch_records=batch_records, done=done)


def unbraked(policy: Policy) -> Policy:
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


def _consumer(process: Process, log: MemoryLog) -> Consumer:
    retry = wiring.retry(RetrySettings())
    return Consumer(process, log, 0, retry=retry, sleep=asyncio.sleep, report=_quiet)


def _record(event: Event) -> Outgoing:
    return Outgoing(EVENTS.name, 0, event.scope.encode(), EVENT.encode(event))


def _quiet(_: str) -> None:
    """Discard a progress report."""
