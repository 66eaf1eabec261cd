"""What schedules have brought to light, each in the fewest steps."""

from collections.abc import Awaitable, Callable, Sequence
from copy import deepcopy

import pytest

from schemas.codec import APPLIED, EVENT
from schemas.events import Event, Undo
from schemas.topics import CHANGES, DECISIONS, EVENTS, TOPICS
from streams.index.exact import ExactIndex
from streams.log.consumer import work
from streams.log.local_broker import LocalBroker
from streams.model.embedding import TextVector
from streams.model.identity import decision_id, memory_id
from streams.model.neighbours import StoredMemory
from streams.model.ports.failures import NotYet, Transient
from streams.model.ports.log import CommittedOffset, OutgoingRecord
from streams.stage.flow.decisions import INDEXED
from streams.stage.flow.deduplicate import Deduplicator
from streams.stage.flow.partition_owner import BacklogLimits, PartitionOwner
from streams.stage.flow.writer import WRITER_GROUP, Writer
from tests.builders import event, judging, memory
from tests.fakes.clock import StandingClock
from tests.fakes.sentences import SentenceEmbedder
from tests.simulation.asking import forgetting
from tests.simulation.stream import KEY, STRICT, TABLE


class Interrupted(SentenceEmbedder):
    """Lets something happen while it embeds."""

    def __init__(self) -> None:
        super().__init__(TABLE, characters_max=85)
        self.meanwhile: Callable[[], Awaitable[None]] | None = None

    async def embed(self, texts: Sequence[str]) -> list[TextVector]:
        if self.meanwhile is not None:
            await self.meanwhile()
        return await super().embed(texts)


class Forgetful(ExactIndex):
    """Is gone as soon as something was written, and an empty one is in its place."""

    async def write(self, changes: Sequence[StoredMemory]) -> None:
        await super().write(changes)
        await self.clear()


class Bench:
    """One partition between an owner and a writer that work when they are told."""

    def __init__(self, index: ExactIndex, limits: BacklogLimits | None = None) -> None:
        self.log = LocalBroker(indexed=INDEXED)
        for topic in TOPICS:
            self.log.create(topic.name, 1)
        self.index = index
        self.writer = Writer(index, self.log, lambda _: None)
        self.embedder = Interrupted()
        deduplicator = Deduplicator(
            self.embedder, self.index, self.index, STRICT.policy, judging(), KEY
        )
        self.owner = PartitionOwner(
            deduplicator,
            self.log,
            self.index,
            lambda _: None,
            token="owner",
            clock=StandingClock(),
            limits=limits or BacklogLimits(),
        )

    async def publish(self, *texts: str) -> None:
        await self.send(*(event(text) for text in texts))

    async def send(self, *events: Event) -> None:
        await self.log.append(
            [
                OutgoingRecord(EVENTS.name, 0, one.scope.encode(), EVENT.encode(one))
                for one in events
            ]
        )

    async def decide(self, offset: int, limit: int = 100) -> int:
        """Let the owner decide on what lies behind an offset; return where it goes on."""
        return await work(self.owner, self.log, await self.log.read(EVENTS.name, 0, offset, limit))

    async def apply(self) -> None:
        """Let the writer claim its partition, and apply what there is."""
        offset = await self.writer.claim(0)
        if records := await self.log.read(DECISIONS.name, 0, offset, 100):
            await work(self.writer, self.log, records)

    async def lose_index(self) -> None:
        """Empty the index, and build it anew."""
        await self.index.clear()
        await self.apply()


async def test_what_is_applied_before_its_owner_has_the_answer_is_not_held() -> None:
    """Else it waits for the writer for ever, where that is as much as may wait."""
    bench = Bench(ExactIndex())
    await bench.publish("Ana likes coffee.")
    position = await bench.owner.claim(0)
    handled = await bench.owner.handle(0, await bench.log.read(EVENTS.name, 0, position, 100))
    offsets = await bench.log.append(handled.outgoing)
    await bench.apply()
    await bench.owner.settle(0)
    await handled.appended(offsets)
    await bench.owner.settle(0)
    assert bench.owner.unapplied == 0


async def test_an_index_that_is_lost_and_built_anew_while_it_is_asked_is_noticed() -> None:
    """What it did not have for a moment would be decided on as if nobody had ever said it."""
    bench = Bench(ExactIndex())
    await bench.publish("Ana likes coffee.")
    position = await bench.owner.claim(0)
    await work(bench.owner, bench.log, await bench.log.read(EVENTS.name, 0, position, 100))
    await bench.apply()
    await bench.publish("Ben plays chess.")
    bench.embedder.meanwhile = bench.lose_index
    with pytest.raises(Transient):
        await bench.owner.handle(0, await bench.log.read(EVENTS.name, 0, 1, 100))


async def test_an_index_that_is_lost_within_its_first_window_is_noticed() -> None:
    """What was written to the one that is gone would be missing in the other for ever."""
    bench = Bench(Forgetful())
    await bench.publish("Ana likes coffee.")
    position = await bench.owner.claim(0)
    await work(bench.owner, bench.log, await bench.log.read(EVENTS.name, 0, position, 100))
    with pytest.raises(Transient):
        await bench.apply()


async def test_what_another_index_has_applied_is_not_waited_for_where_no_event_comes() -> None:
    """Else it would count as unapplied for ever, and leave no room for other partitions."""
    bench = Bench(ExactIndex())
    await bench.publish("Ana likes coffee.")
    position = await bench.owner.claim(0)
    await bench.apply()
    await bench.owner.settle(0)
    await work(bench.owner, bench.log, await bench.log.read(EVENTS.name, 0, position, 100))
    await bench.lose_index()
    await bench.owner.settle(0)
    assert bench.owner.unapplied == 0


async def test_an_undo_begins_no_memory_under_the_id_of_an_event_that_is_still_to_come() -> None:
    """Else the event begins it a second time, and the writer takes the index for damaged.

    Seed 2567153520, harder: an event went to the wrong partition, and what asked for its undo was
    decided on before it had been sent on.
    """
    bench = Bench(ExactIndex())
    late = event("Ana likes coffee.")
    meant = decision_id(late.scope, late.event_id)
    undo = Undo.model_validate(
        {
            "event_id": "undo",
            "scope": late.scope,
            "author": "cleo",
            "occurred_at": late.occurred_at,
            "undoes": [meant],
            "memories": [memory("Ana buys cups.", id=memory_id(meant), scope=late.scope)],
        }
    )
    await bench.send(undo, late)
    await bench.decide(await bench.owner.claim(0))
    await bench.apply()
    assert [one.memory.text async for one in bench.index.scan()] == ["Ana likes coffee."]


async def test_a_writer_notices_that_its_index_is_lost_although_nothing_is_decided() -> None:
    """Else an owner that may hold no more waits for it for ever, and so makes no decision.

    Seed 70538, harder: the owner had claimed an index that was being built anew, and that was lost
    again before the owner looked: of the three memories that it held, none was applied by then.
    """
    bench = Bench(ExactIndex(), limits=BacklogLimits(memories_max=1))
    await bench.publish("Ana likes coffee.")
    await bench.decide(await bench.owner.claim(0))
    await bench.index.clear()
    await bench.owner.claim(0)
    await bench.apply()
    await bench.index.clear()
    await bench.publish("Ben plays chess.")
    with pytest.raises(NotYet):
        await bench.decide(1)
    with pytest.raises(Transient, match="rebuilt, replaced or reset"):
        await bench.writer.settle(0)
    await bench.apply()
    await bench.writer.settle(0)
    await bench.decide(1)


async def test_a_writer_notices_an_index_that_was_set_back() -> None:
    """A copy that is older has the same token, and lacks what was applied since."""
    bench = Bench(ExactIndex())
    await bench.publish("Ana likes coffee.")
    await bench.decide(await bench.owner.claim(0))
    await bench.apply()
    older = deepcopy(vars(bench.index))
    await bench.publish("Ben plays chess.")
    await bench.decide(1)
    await bench.apply()
    vars(bench.index).update(older)
    with pytest.raises(Transient, match="reset"):
        await bench.writer.settle(0)
    await bench.apply()
    assert await bench.index.count() == 2


async def test_a_retirement_that_was_undone_is_not_told_as_what_undid_it() -> None:
    """A version has one decision: copies that saw another one named for it would disagree.

    Seed 402454, harder: a writer had written a merge and its undo, and died before it had
    published them; the next one took the merge alone.
    """
    bench = Bench(ExactIndex())
    first, second = event("Ana likes coffee."), event("Ana truly likes coffee.", event_id="second")
    merged = decision_id(second.scope, second.event_id)
    known = memory_id(decision_id(first.scope, first.event_id))
    undo = Undo.model_validate(
        {
            "event_id": "undo",
            "scope": first.scope,
            "author": "cleo",
            "occurred_at": first.occurred_at,
            "undoes": [merged],
            "memories": [memory(first.text, id=known, scope=first.scope, version=3)],
        }
    )
    await bench.send(first, second, undo)
    await bench.decide(await bench.owner.claim(0))
    await bench.apply()
    await bench.log.commit(WRITER_GROUP, DECISIONS.name, 0, CommittedOffset(0))
    await bench.apply()
    records = await bench.log.read(CHANGES.name, 0, 0, 100)
    told = [APPLIED.decode(record.value or b"") for record in records]
    of_known = [(one.memory.version, one.decided.offset) for one in told if one.memory_id == known]
    assert of_known == [(1, 1), (2, 2), (3, 3), (1, 1), (3, 3)]


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("applied", [False, True], ids=["unapplied", "applied"])
async def test_an_id_that_is_forgotten_is_free_at_once(batch: int, *, applied: bool) -> None:
    """Else it depended on the writer whether its next event was a new one or a dead letter.

    Seed 403154, harder: an event that had told again what was forgotten gave its id to another one
    in the batch of the request.
    """
    bench = Bench(ExactIndex())
    first, again = event("Ana likes coffee."), event("Ana likes coffee.", event_id="again")
    await bench.send(first, again)
    at = await bench.decide(await bench.owner.claim(0))
    if applied:
        await bench.apply()
    known = memory_id(decision_id(first.scope, first.event_id))
    [request] = forgetting(known, bench.log, 1)
    await bench.send(request, event("Ben plays chess.", event_id="again"))
    while at < await bench.log.end(EVENTS.name, 0):
        at = await bench.decide(at, batch)
    await bench.apply()
    live = [one.memory.text async for one in bench.index.scan() if one.memory.live]
    assert live == ["Ben plays chess."]
