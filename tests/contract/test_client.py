"""What every Client keeps: a store, a cluster with its services at work, and a dry run."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path

import pytest

from schemas.base import MemoryId
from schemas.decisions import Insert, Reject, Revise
from schemas.events import Event, Pin
from schemas.memories import Memory
from schemas.topics import EVENTS, TOPICS
from streams.index.exact import ExactIndex
from streams.log.consumer import Consumer
from streams.log.kafka.connection import Connection
from streams.log.kafka.log import KafkaLog
from streams.log.local_broker import LocalBroker
from streams.model.fences import ReadPosition
from streams.model.identity import decision_id, memory_id
from streams.model.policy import Policy
from streams.model.ports.failures import Fatal
from streams.model.ports.index import UNFOLLOWED, Index
from streams.model.ports.log import Log, Process
from streams.stage.flow.deduplicate import Deduplicator
from streams.stage.flow.partition_owner import PartitionOwner
from streams.stage.flow.writer import Writer
from streams.store.app import settings, wiring
from streams.store.app.client import (
    ATTEMPTS,
    Client,
    decisions_of,
    is_again,
    is_out_of_date,
    may_retry,
    undecided,
)
from streams.store.app.cluster_client import (
    NO_WAITING,
    ClusterClient,
    Interrupted,
    Waiting,
    watched,
)
from streams.store.app.dry_run import DecidingDependencies, DryRunClient, over
from streams.store.app.embedding import ChosenModel
from streams.store.app.processes import embedded
from streams.store.app.reading import LogTarget
from streams.store.app.requests import open_client
from streams.store.app.setting_groups import RetrySettings
from tests.builders import event, judging, later, policy, unit
from tests.fakes.clock import StandingClock
from tests.fakes.sentences import SentenceEmbedder
from tests.support.servers.kafka_topics import make_topics
from tests.support.stage.stores import quiet

TEA, CHESS = "Ana likes tea.", "Ben plays chess."
FIRST, SECOND = event(TEA, event_id="first"), event(CHESS, event_id="second")
REUSED = event(CHESS, event_id="first")
KNOWN = memory_id(decision_id(FIRST.scope, FIRST.event_id))
EMBEDDER = SentenceEmbedder({TEA: unit(1), CHESS: unit(0, 1)}, characters_max=200)
SECONDS = 60.0
"""Longer than any of the services takes."""

Make = Callable[[pytest.FixtureRequest, Path, Policy], AbstractAsyncContextManager[Client]]


@asynccontextmanager
async def store(_: pytest.FixtureRequest, path: Path, rules: Policy) -> AsyncGenerator[Client]:
    wanted = settings.load({"store": path / "store", "index": {"kind": "exact"}})
    chosen = ChosenModel(wanted, rules, EMBEDDER)
    async with embedded(wanted, rules, EMBEDDER, quiet):
        pass  # now there is one
    target = LogTarget.of_store(wanted)
    async with open_client(target, quiet, NO_WAITING, chosen=lambda: chosen) as client:
        yield client


@asynccontextmanager
async def dry_run(_: pytest.FixtureRequest, __: Path, rules: Policy) -> AsyncGenerator[Client]:
    yield DryRunClient(rules, DecidingDependencies(EMBEDDER, judging(), batch_records=2))


@asynccontextmanager
async def cluster(_: pytest.FixtureRequest, __: Path, rules: Policy) -> AsyncGenerator[Client]:
    log = LocalBroker()
    for topic in TOPICS:
        log.create(topic.name, 1)
    async with served(log, rules) as client:
        yield client


@asynccontextmanager
async def kafka(request: pytest.FixtureRequest, _: Path, rules: Policy) -> AsyncGenerator[Client]:
    prefix: str = request.getfixturevalue("topic_prefix")
    connection = Connection(request.getfixturevalue("kafka_bootstrap"), prefix)
    await make_topics(connection, {topic.name: 1 for topic in TOPICS})
    log = KafkaLog(connection)
    async with served(log, rules) as client:
        yield client
    await log.close()


@asynccontextmanager
async def served(log: Log, rules: Policy) -> AsyncGenerator[ClusterClient]:
    """Yield the client of a log on which an owner and a writer work meanwhile."""
    index = ExactIndex()
    working = asyncio.create_task(_work(log, index, rules))
    try:
        yield client_of(log, Waiting(lambda: SECONDS), index)
    finally:
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working


async def _work(log: Log, index: ExactIndex, rules: Policy) -> None:
    owner = PartitionOwner(
        Deduplicator(EMBEDDER, index, index, rules, judging()),
        log,
        index,
        lambda _: None,
        token="owner",
        clock=StandingClock(),
    )
    deciding, applying = _consumer(owner, log), _consumer(Writer(index, log, quiet), log)
    while True:
        await deciding.step(100)
        await asyncio.sleep(0.01)  # decided, and not applied yet
        await applying.drain(100)


def _consumer(process: Process, log: Log) -> Consumer:
    retry = wiring.retry(RetrySettings())
    return Consumer(process, log, 0, retry=retry, sleep=asyncio.sleep, report=quiet)


def client_of(log: Log, waiting: Waiting, index: Index | None = None) -> ClusterClient:
    async def memories() -> Index:
        return index or ExactIndex()

    return ClusterClient(log, memories, waiting)


CLIENTS: Mapping[str, Make] = {
    "store": store,
    "cluster": cluster,
    "dry run": dry_run,
    "kafka": kafka,
}


def pin(identity: MemoryId = KNOWN, **fields: object) -> Pin:
    values = {
        "event_id": "pin",
        "scope": FIRST.scope,
        "author": "cleo",
        "occurred_at": later(1),
        "memory_id": identity,
        "pinned": True,
    }
    return Pin.model_validate({**values, **fields})


async def live(client: Client) -> dict[str, Memory]:
    found = [one.memory async for one in (await client.index()).scan()]
    return {memory.text: memory for memory in found if memory.live}


class TestClient:
    @pytest.fixture(params=CLIENTS.values(), ids=list(CLIENTS))
    async def client(
        self, request: pytest.FixtureRequest, tmp_path: Path
    ) -> AsyncGenerator[Client]:
        async with request.param(request, tmp_path, policy()) as client:
            yield client

    async def test_each_event_has_its_decision_in_the_order_of_the_events(
        self, client: Client
    ) -> None:
        said = [event(TEA, event_id=f"{at}", occurred_at=later(at)) for at in range(5)]
        events: Sequence[Event] = [SECOND, *said, pin(event_id="of nothing")]
        responses = await client.submit(events)
        assert [one.event for one in responses] == events
        assert undecided(responses) == []
        assert [one.kind for one in decisions_of(responses)] == [
            "insert",
            "insert",
            *["reinforce"] * 4,
            "ignore",
        ]
        assert [one.on_event.event for one in responses] == events

    async def test_the_memories_have_what_was_decided(self, client: Client) -> None:
        await client.submit([FIRST, SECOND])
        assert (await live(client)).keys() == {TEA, CHESS}
        [response] = await client.submit([pin()])
        assert isinstance(response.own, Revise)
        assert (await live(client))[TEA].pinned

    async def test_nothing_submitted_has_no_response(self, client: Client) -> None:
        assert await client.submit([]) == []

    async def test_a_repeated_event_has_the_decision_on_the_first(self, client: Client) -> None:
        first, again = await client.submit([FIRST, FIRST])
        assert is_again(again.own)
        assert again.first == again.decision == first.decision == first.own
        assert first.first is None
        [later_on] = await client.submit([FIRST])
        assert later_on.decision is not None
        assert first.own is not None
        assert later_on.decision.decision_id == first.own.decision_id

    async def test_an_event_that_is_set_aside_has_a_reject_and_the_others_are_decided_on(
        self, client: Client
    ) -> None:
        first, reused, second = await client.submit([FIRST, REUSED, SECOND])
        assert isinstance(first.own, Insert)
        assert isinstance(reused.own, Reject)
        assert isinstance(second.own, Insert)
        with pytest.raises(Fatal, match="first was not decided on: memsieve dead-letters list"):
            _ = reused.on_event

    async def test_a_request_about_what_has_changed_is_out_of_date(self, client: Client) -> None:
        await client.submit([FIRST])
        [pinned, missing] = await client.submit([pin(), pin(MemoryId("none"), event_id="other")])
        assert (is_out_of_date(pinned.decision), is_out_of_date(missing.decision)) == (False, True)

    async def test_a_retry_is_offered_only_where_others_write(self, client: Client) -> None:
        said = list[str]()
        responses = await client.submit([pin()])
        retries = isinstance(client, ClusterClient)
        assert may_retry(client, responses, said.append) is retries
        assert len(said) == retries
        assert not may_retry(client, await client.submit([FIRST]), said.append)

    async def test_a_place_is_told_where_events_wait_for_services(self, client: Client) -> None:
        responses = await client.submit([FIRST, SECOND])
        waits = isinstance(client, ClusterClient)
        places = [f"{EVENTS.name}/0/{at}" if waits else None for at in range(2)]
        assert [one.place for one in responses] == places


class TestClusterClient:
    """What only the client of services does: it waits."""

    @pytest.fixture
    def log(self) -> LocalBroker:
        """Return a log that nobody works on."""
        made = LocalBroker()
        for topic in TOPICS:
            made.create(topic.name, 1)
        return made

    async def test_what_is_not_decided_in_time_stays_published(self, log: LocalBroker) -> None:
        [response] = await client_of(log, Waiting(lambda: 0.01)).submit([FIRST])
        assert (response.own, response.decision) == (None, None)
        assert undecided([response]) == [response]
        with pytest.raises(Fatal):
            _ = response.on_event
        assert await log.end(EVENTS.name, 0) == 1

    async def test_without_time_nobody_is_waited_for_and_nothing_is_retried(
        self, log: LocalBroker
    ) -> None:
        client = client_of(log, NO_WAITING)
        [response] = await client.submit([FIRST])
        assert (response.own, client.attempts_left) == (None, 0)

    async def test_an_attempt_is_counted_and_the_last_one_is_not_repeated(
        self, log: LocalBroker
    ) -> None:
        client = client_of(log, Waiting(lambda: 0.001))
        left = list[int]()
        for _ in range(ATTEMPTS + 1):
            await client.submit([])
            left.append(client.attempts_left)
        assert left == [4, 3, 2, 1, 0, 0]

    async def test_clients_of_one_process_wait_for_what_each_other_was_told(
        self, log: LocalBroker
    ) -> None:
        """The writer is behind at first: only the second look finds it done."""
        index, reached = ExactIndex(), {0: 1}
        looks = list[int]()

        async def memories() -> Index:
            looks.append(len(looks))
            if len(looks) > 1:
                await index.keep_level(0, ReadPosition(1), since=UNFOLLOWED)
            return index

        other = ClusterClient(log, memories, NO_WAITING, reached)
        assert await other.index() is index
        assert (looks, reached) == ([0, 1], {})

    async def test_who_watches_is_told_where_it_lies_and_may_interrupt_the_wait(
        self, log: LocalBroker
    ) -> None:
        said = list[str]()
        client = client_of(log, watched(SECONDS, said.append))
        waiting = asyncio.create_task(client.submit([FIRST, SECOND]))
        await asyncio.sleep(0)
        place = f"{EVENTS.name}/0/0 and 1 more"
        waits = "waiting up to 60 s for the decision (Ctrl-C ends only the waiting)"
        assert said == [f"published as {place}; {waits}"]
        waiting.cancel()
        with pytest.raises(Interrupted, match=f"stays queued, as {place}: memsieve explain first"):
            await waiting

    async def test_who_does_not_watch_is_cancelled_as_any_task(self, log: LocalBroker) -> None:
        waiting = asyncio.create_task(client_of(log, Waiting(lambda: SECONDS)).submit([FIRST]))
        await asyncio.sleep(0)
        assert await log.end(EVENTS.name, 0) == 1
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_a_dry_run_over_memories_leaves_them_as_they_are() -> None:
    means = DecidingDependencies(EMBEDDER, judging())
    kept = DryRunClient(policy(), means)
    await kept.submit([FIRST])
    tried = await over(await kept.index(), policy(), means)
    await tried.submit([pin(), SECOND])
    assert (await live(tried)).keys() == {TEA, CHESS}
    assert [memory.pinned for memory in (await live(kept)).values()] == [False]
