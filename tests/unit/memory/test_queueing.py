"""Events of many callers: what waits is decided on together, and a cluster is waited for so long."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from schemas.decisions import Insert
from schemas.events import Event
from streams.memory.app.queueing import BATCH_EVENTS, Cluster, Queue
from streams.model.ports.failures import Unreachable
from streams.model.ports.index import Index
from streams.store.app.client import Response, is_again
from streams.store.app.cluster_client import NO_WAITING, ClusterClient, Waiting
from streams.store.app.reading import StoreReader
from tests.builders import event, later, policy, unit
from tests.support.stage.bench import Bench

COFFEE, CHESS = "Ana likes coffee.", "Ben plays chess."
FIRST, SECOND = event(COFFEE, event_id="first"), event(CHESS, event_id="second")
REUSED = event(CHESS, event_id="first")


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(tmp_path, policy(), {COFFEE: unit(1), CHESS: unit(0, 0, 1)}, recalls=True)
    await made.take_over()
    yield made
    made.close()


class Taking:
    """A queue over a bench, whose client it is, and how many were decided on at a time."""

    attempts_left = 0

    def __init__(self, bench: Bench, *, masked: bool = False) -> None:
        self.batches: list[int] = []
        self.trouble: Exception | None = None
        self._bench = bench
        self._reader = StoreReader(bench.log, "here", lambda _: None)
        self.queue = Queue(self, bench.log, masked=masked)

    async def index(self) -> Index:
        return self._bench.index

    async def submit(self, events: Sequence[Event]) -> list[Response]:
        self.batches.append(len(events))
        if self.trouble is not None:
            raise self.trouble
        made = (await self._bench.say(*events))[-len(events) :]
        first = await self._reader.on_events([one.decision_id for one in made if is_again(one)])
        of_events = zip(events, made, strict=True)
        return [
            Response(event, one, first.get(one.decision_id) if is_again(one) else None)
            for event, one in of_events
        ]


def of_cluster(bench: Bench, seconds: float) -> Cluster:
    async def index() -> Index:
        return bench.index

    def waiting() -> ClusterClient:
        return ClusterClient(bench.log, index, Waiting(lambda: seconds))

    return Cluster(waiting, ClusterClient(bench.log, index, NO_WAITING), bench.log)


async def together(queue: Queue, *asked: Sequence[Event]) -> list[list[Response]]:
    return await asyncio.gather(*(queue.decide(events) for events in asked))


def texts(count: int, since: int) -> list[Event]:
    """Return events that say the same words, each with an id of its own."""
    return [event(COFFEE, event_id=f"{number}") for number in range(since, since + count)]


async def test_what_waits_is_decided_on_together_and_each_hears_of_its_own(bench: Bench) -> None:
    taking = Taking(bench)
    [[first], second] = await together(taking.queue, [FIRST], [SECOND, event(COFFEE, event_id="3")])
    assert taking.batches == [3]
    assert isinstance(first.decision, Insert)
    assert [one.event for one in (first, *second)] == [FIRST, SECOND, event(COFFEE, event_id="3")]
    assert [one.decision.kind for one in second if one.decision] == ["insert", "reinforce"]


async def test_not_more_are_decided_on_together_than_one_has_to_wait_for(bench: Bench) -> None:
    taking = Taking(bench)
    most = BATCH_EVENTS
    await together(taking.queue, texts(most, 0), texts(2, most), texts(most - 1, most + 2))
    assert taking.batches == [most, 2, most - 1]


async def test_what_comes_again_has_the_decision_that_was_made_on_it(bench: Bench) -> None:
    taking = Taking(bench)
    [[first], [at_once]] = await together(taking.queue, [FIRST], [FIRST])
    [later_on] = await taking.queue.decide([FIRST])
    assert [one.repeated for one in (first, at_once, later_on)] == [False, True, True]
    assert first.decision == at_once.decision == later_on.decision


@pytest.mark.parametrize("masked", [False, True])
async def test_an_id_with_another_text_is_refused_and_nothing_else_with_it(
    bench: Bench, *, masked: bool
) -> None:
    """Where texts are masked, only the owner knows what the first one said."""
    taking = Taking(bench, masked=masked)
    [[first], [reused, second]] = await together(taking.queue, [FIRST], [REUSED, SECOND])
    assert isinstance(first.decision, Insert)
    assert isinstance(second.decision, Insert)
    assert reused.refused is not None
    assert reused.refused.field == "event_id"
    assert f"{reused.refused}".removeprefix("event_id ").startswith("was used before in this scope")
    assert taking.batches == [3 if masked else 2]


async def test_a_failure_is_told_everybody_whom_it_concerns_and_the_next_are_decided_on(
    bench: Bench,
) -> None:
    taking = Taking(bench)
    taking.trouble = Unreachable("away")
    failed = await asyncio.gather(
        *(taking.queue.decide([one]) for one in (FIRST, SECOND)), return_exceptions=True
    )
    assert [f"{one}" for one in failed] == ["away", "away"]
    taking.trouble = None
    [told] = await taking.queue.decide([FIRST])
    assert isinstance(told.decision, Insert)


async def test_nobody_writes_while_one_is_alone_and_all_is_done_when_it_closes(
    bench: Bench,
) -> None:
    taking = Taking(bench)
    async with taking.queue.alone() as client:
        waiting = asyncio.create_task(taking.queue.decide([SECOND]))
        await asyncio.sleep(0)
        await client.submit([FIRST])
        assert not waiting.done()
    await taking.queue.close()
    assert taking.batches == [1, 1]
    assert [one.event for one in await waiting] == [SECOND]


async def test_a_cluster_is_waited_for_so_long_and_its_dead_letters_are_read(bench: Bench) -> None:
    await bench.say(FIRST)
    cluster = of_cluster(bench, seconds=5)
    asked = asyncio.create_task(cluster.decide([SECOND, REUSED]))
    await asyncio.sleep(0)
    await bench.decide()
    second, reused = await asked
    assert isinstance(second.decision, Insert)
    assert reused.refused is not None
    assert reused.refused.field == "event_id"


async def test_what_a_cluster_has_not_decided_in_time_stays_published(bench: Bench) -> None:
    [told] = await of_cluster(bench, seconds=0.01).decide([FIRST])
    [published] = await of_cluster(bench, seconds=5).publish([event(CHESS, occurred_at=later(1))])
    assert (told.decision, published.decision) == (None, None)
    await bench.decide()
    assert len(await bench.decisions()) == 2
