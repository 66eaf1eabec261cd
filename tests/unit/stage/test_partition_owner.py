"""The owner between log and index: what it relies on, and what it does when that is gone."""

import sqlite3
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from schemas.decisions import Decision
from schemas.events import Remember
from schemas.topics import DECISIONS, EVENTS, TOPICS
from streams.index.exact import ExactIndex
from streams.log.consumer import work
from streams.log.local_broker import LocalBroker
from streams.model.embedding import TextVector
from streams.model.fences import ReadPosition
from streams.model.neighbours import StoredMemory
from streams.model.ports.failures import Fatal, NotYet, Transient
from streams.model.ports.log import CommittedOffset, OutgoingRecord
from streams.stage.flow.decisions import INDEXED, DecisionsReader
from streams.stage.flow.deduplicate import Deduplicator
from streams.stage.flow.incoming import FORWARDED_HEADER
from streams.stage.flow.partition_owner import BacklogLimits, PartitionOwner
from streams.stage.flow.takeover import applied, require_log
from streams.stage.flow.writer import Writer
from tests.builders import event, judging, later, policy, unit
from tests.fakes.clock import StandingClock
from tests.fakes.sentences import SentenceEmbedder

TABLE = {"Ana likes coffee.": unit(1), "Ben plays chess.": unit(0, 0, 1)}


class Bench:
    """One partition between an owner and a writer that work when they are told."""

    def __init__(self, directory: Path, token: str = "o1") -> None:
        self.log = LocalBroker(directory / "log.sqlite3", indexed=INDEXED)
        for topic in TOPICS:
            self.log.create(topic.name, 1)
        self.index = ExactIndex()
        self.decided = list[Decision]()
        embedder = SentenceEmbedder(TABLE, characters_max=200)
        self.clock = StandingClock()
        self.deduplicator = Deduplicator(embedder, self.index, self.index, policy(), judging())
        self.owner = self.made(self.deduplicator, token)
        self.writer = Writer(self.index, self.log, lambda _: None)

    def made(
        self,
        deduplicator: Deduplicator,
        token: str = "o1",
        limits: BacklogLimits | None = None,
    ) -> PartitionOwner:
        return PartitionOwner(
            deduplicator,
            self.log,
            self.index,
            self.decided.extend,
            token=token,
            clock=self.clock,
            limits=limits or BacklogLimits(),
        )

    async def counting(self) -> list[int]:
        """Return the events of the decisions that count, by their offsets."""
        records = await self.log.read(DECISIONS.name, 0, 0, 100)
        return [one.decision.source.offset for one in DecisionsReader().window(records)]

    async def publish(self, *events: Remember) -> None:
        await self.log.append(
            [
                OutgoingRecord(EVENTS.name, 0, one.scope.encode(), one.model_dump_json().encode())
                for one in events
            ]
        )

    async def decide(self, offset: int) -> list[str]:
        """Let the owner work from an offset on; return what kinds of decisions came of it."""
        self.decided.clear()
        await work(self.owner, self.log, await self.log.read(EVENTS.name, 0, offset, 100))
        return [decision.kind for decision in self.decided]

    async def apply(self) -> None:
        offset = await self.writer.claim(0)
        await work(self.writer, self.log, await self.log.read(DECISIONS.name, 0, offset, 100))


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.log.close()


def said(text: str, number: int) -> Remember:
    return event(text, event_id=f"{number}", occurred_at=later(number))


async def known(bench: Bench, texts: Sequence[str] = tuple(TABLE)) -> None:
    """Have these said, decided and applied."""
    await bench.publish(*(said(text, number) for number, text in enumerate(texts)))
    assert await bench.owner.claim(0) == 0
    assert await bench.decide(0) == ["insert"] * len(texts)
    await bench.apply()


async def test_an_index_that_was_lost_meanwhile_is_not_taken_for_an_empty_world(
    bench: Bench,
) -> None:
    await known(bench)
    await bench.publish(said("Ana likes coffee.", 7))
    assert await bench.decide(2) == ["reinforce"]
    await bench.index.clear()
    await bench.publish(said("Ben plays chess.", 8))
    with pytest.raises(
        Transient,
        match=r"held memory\.decisions/0 up to 3 and now up to 0",
    ):
        await bench.decide(3)
    assert await bench.owner.claim(0) == 3
    assert await bench.decide(3) == ["reinforce"]


async def test_an_index_that_is_lost_while_it_is_asked_is_noticed_too(bench: Bench) -> None:
    await known(bench)
    await bench.publish(said("Ana likes coffee.", 7))
    losing = Losing(bench.index)
    deduplicator = Deduplicator(losing, bench.index, bench.index, policy(), judging())
    owner = bench.made(deduplicator)
    assert await owner.claim(0) == 2
    await bench.publish(said("Ana likes coffee a lot.", 8))
    with pytest.raises(Transient, match="is read for what it lacks"):
        await owner.handle(0, await bench.log.read(EVENTS.name, 0, 2, 100))


class Losing(SentenceEmbedder):
    """Loses the index while it embeds."""

    def __init__(self, index: ExactIndex) -> None:
        super().__init__(TABLE, characters_max=200)
        self._index = index

    async def embed(self, texts: Sequence[str]) -> list[TextVector]:
        await self._index.clear()
        return await super().embed(texts)


async def test_decisions_that_are_gone_stop_the_owner(bench: Bench, tmp_path: Path) -> None:
    """What was decided is known by nobody else: to go on would be to forget it."""
    await known(bench)
    (tmp_path / "new").mkdir()
    other = Bench(tmp_path / "new")
    await other.publish(said("Ana likes coffee.", 1), said("Ben plays chess.", 2))
    place = await bench.log.committed(bench.owner.group, EVENTS.name, 0)
    assert place is not None
    await other.log.commit(other.owner.group, EVENTS.name, 0, place)
    with pytest.raises(Fatal, match=r"memory\.decisions/0 is empty, but events up to 2"):
        await other.owner.claim(0)
    other.log.close()


async def test_events_that_are_gone_stop_the_owner(bench: Bench, tmp_path: Path) -> None:
    await known(bench)
    (tmp_path / "new").mkdir()
    other = Bench(tmp_path / "new")
    decisions = await bench.log.read(DECISIONS.name, 0, 0, 10)
    copies = [
        OutgoingRecord(DECISIONS.name, 0, d.key, d.value or b"", d.headers) for d in decisions
    ]
    await other.log.append(copies)
    await other.publish(said("Ana likes coffee.", 1))
    with pytest.raises(Fatal, match=r"memory\.events/0 ends at 1, but events up to 2 were decided"):
        await other.owner.claim(0)
    other.log.close()


async def test_an_index_that_knows_more_than_the_log_is_left_alone(bench: Bench) -> None:
    """It may be the last copy of what the log has lost."""
    await known(bench)
    level = await applied(bench.index, 0)
    await bench.index.keep_level(0, ReadPosition(5), since=level)
    with pytest.raises(Fatal, match=r"followed memory\.decisions/0 to 5, but it ends at 3"):
        await require_log(bench.log, ReadPosition(5), 0)
    with pytest.raises(Fatal, match="restore the log"):
        await bench.writer.claim(0)
    assert await bench.index.count() == 2


async def test_a_claim_makes_up_for_the_commit_of_an_owner_that_died_before_it(
    bench: Bench,
) -> None:
    """Else the group's lag would stand above zero until another event comes."""
    await bench.publish(said("Ana likes coffee.", 0))
    assert await bench.owner.claim(0) == 0
    handled = await bench.owner.handle(0, await bench.log.read(EVENTS.name, 0, 0, 10))
    await bench.log.append(handled.outgoing)
    assert await bench.log.committed(bench.owner.group, EVENTS.name, 0) is None
    assert await bench.made(bench.deduplicator, "next").claim(0) == 1
    assert await bench.log.committed(bench.owner.group, EVENTS.name, 0) == CommittedOffset(1)


class TestOwnership:
    """Two owners of a partition, of which one does not know that it has lost it."""

    @pytest.mark.covers("B76")
    async def test_what_an_owner_that_was_fenced_out_appends_does_not_count(
        self, bench: Bench
    ) -> None:
        await bench.publish(said("Ana likes coffee.", 0))
        late, true = bench.made(bench.deduplicator, "late"), bench.made(bench.deduplicator, "true")
        assert await late.claim(0) == 0
        assert await true.claim(0) == 0
        events = await bench.log.read(EVENTS.name, 0, 0, 10)
        with pytest.raises(Transient, match=r"another owner has taken memory\.decisions/0"):
            await work(late, bench.log, events)
        assert await bench.log.committed(late.group, EVENTS.name, 0) is None
        assert await bench.counting() == []
        await work(true, bench.log, events)
        assert await bench.counting() == [0]

    async def test_late_records_between_its_own_do_not_disturb_an_owner(self, bench: Bench) -> None:
        await bench.publish(said("Ana likes coffee.", 0), said("Ben plays chess.", 1))
        late, true = bench.made(bench.deduplicator, "late"), bench.made(bench.deduplicator, "true")
        first, second = await bench.log.read(EVENTS.name, 0, 0, 10)
        await late.claim(0)
        handled = await late.handle(0, [first])
        await true.claim(0)
        await work(true, bench.log, [first])
        await bench.log.append(handled.outgoing)
        await work(true, bench.log, [second])
        assert await bench.counting() == [0, 1]
        place = await bench.log.committed(true.group, EVENTS.name, 0)
        assert place is not None
        assert place.offset == 2

    async def test_a_fence_that_lands_late_is_seen_before_anything_is_committed(
        self, bench: Bench
    ) -> None:
        await bench.publish(said("Ana likes coffee.", 0), said("Ben plays chess.", 1))
        first, second = await bench.log.read(EVENTS.name, 0, 0, 10)
        true = bench.made(bench.deduplicator, "true")
        await true.claim(0)
        await work(true, bench.log, [first])
        await bench.made(bench.deduplicator, "late").claim(0)
        with pytest.raises(Transient, match="another owner has taken"):
            await work(true, bench.log, [second])
        assert await true.claim(0) == 1
        await work(true, bench.log, [second])
        assert await bench.counting() == [0, 1]

    async def test_a_group_that_lost_its_commits_goes_on_behind_the_last_decision(
        self, bench: Bench
    ) -> None:
        await known(bench)
        await bench.log.commit(bench.owner.group, EVENTS.name, 0, CommittedOffset(0))
        assert await bench.owner.claim(0) == 2

    async def test_a_writer_whose_commit_a_person_reset_knows_the_fence_that_holds_there(
        self, bench: Bench
    ) -> None:
        await known(bench)
        await bench.log.commit(bench.writer.group, DECISIONS.name, 0, CommittedOffset(2))
        assert await bench.writer.claim(0) == 2
        window = await bench.log.read(DECISIONS.name, 0, 2, 10)
        handled = await bench.writer.handle(0, window)
        assert len(handled.outgoing) == 1

    async def test_a_writer_whose_commit_has_expired_publishes_every_change_again(
        self, bench: Bench, tmp_path: Path
    ) -> None:
        await known(bench)
        with sqlite3.connect(tmp_path / "log.sqlite3") as log:
            log.execute("DELETE FROM groups WHERE name = ?", (bench.writer.group,))
        log.close()
        assert await bench.writer.claim(0) == 0


class TestLimits:
    @pytest.mark.covers("B126")
    @pytest.mark.parametrize(
        "limits", [BacklogLimits(memories_max=1), BacklogLimits(scope_memories_max=1)]
    )
    async def test_an_owner_waits_for_a_writer_that_is_too_far_behind(
        self, bench: Bench, limits: BacklogLimits
    ) -> None:
        await bench.publish(*(said(text, n) for n, text in enumerate(TABLE)))
        owner = bench.made(bench.deduplicator, limits=limits)
        await owner.claim(0)
        first, second = await bench.log.read(EVENTS.name, 0, 0, 10)
        await work(owner, bench.log, [first])
        with pytest.raises(NotYet, match="wait to be applied: is the writer running"):
            await owner.handle(0, [second])
        await bench.apply()
        await work(owner, bench.log, [second])
        assert await bench.counting() == [0, 1]

    async def test_what_was_applied_is_let_go_of_where_no_event_comes(self, bench: Bench) -> None:
        await bench.publish(said("Ana likes coffee.", 0))
        await bench.owner.claim(0)
        await bench.decide(0)
        bench.clock.move(seconds=90)
        assert (bench.owner.unapplied, bench.owner.unapplied_seconds) == (1, 90)
        await bench.apply()
        await bench.owner.settle(0)
        assert (bench.owner.unapplied, bench.owner.unapplied_seconds) == (0, 0)


class TestMisrouted:
    """The bench has one partition: what has another key than its scope is misrouted."""

    async def test_an_event_is_sent_on_once_byte_for_byte(self, bench: Bench) -> None:
        value = said("Ana likes coffee.", 0).model_dump_json(indent=1).encode()
        await bench.log.append([OutgoingRecord(EVENTS.name, 0, b"who", value, (("a", b"b"),))])
        await bench.owner.claim(0)
        assert await bench.decide(0) == ["forward"]
        [_, again] = await bench.log.read(EVENTS.name, 0, 0, 10)
        assert (again.key, again.value) == (b"acme/ana", value)
        assert again.headers == (("a", b"b"), (FORWARDED_HEADER, b"memory.events/0/0"))
        assert await bench.decide(1) == ["insert"]

    async def test_the_second_time_it_is_poison(self, bench: Bench) -> None:
        value = said("Ana likes coffee.", 0).model_dump_json().encode()
        sent_on = ((FORWARDED_HEADER, b"memory.events/7/7"),)
        await bench.log.append([OutgoingRecord(EVENTS.name, 0, b"who", value, sent_on)])
        await bench.owner.claim(0)
        assert await bench.decide(0) == ["reject"]


class TestWhatCannotBeRelied:
    """A log that is not the one that was followed is told from one that is."""

    async def test_a_number_of_partitions_that_changed_stops_the_owner(
        self, bench: Bench, tmp_path: Path
    ) -> None:
        await known(bench)
        with sqlite3.connect(tmp_path / "log.sqlite3") as log:
            for topic in (EVENTS.name, DECISIONS.name):
                log.execute("INSERT INTO partitions VALUES (?, 1, 0)", (topic,))
        log.close()
        with pytest.raises(Fatal, match=r"begun with 1 partitions, and memory\.events has 2"):
            await bench.owner.claim(1)

    async def test_a_log_whose_beginning_is_gone_stops_whoever_has_not_read_it(
        self, bench: Bench, tmp_path: Path
    ) -> None:
        await known(bench)
        with sqlite3.connect(tmp_path / "log.sqlite3") as log:
            log.execute('DELETE FROM records WHERE topic = ? AND "offset" < 2', (DECISIONS.name,))
        log.close()
        await bench.writer.claim(0)  # its index is further
        await bench.index.clear()
        for process in (bench.owner, bench.writer):
            with pytest.raises(Fatal, match="begins at 2, but the index has followed it only to 0"):
                await process.claim(0)

    async def test_an_index_of_another_log_stops_the_owner(
        self, bench: Bench, tmp_path: Path
    ) -> None:
        await known(bench)
        (tmp_path / "new").mkdir()
        other = Bench(tmp_path / "new", token="other")
        await known(other)
        stranger = PartitionOwner(
            other.deduplicator,
            bench.log,
            other.index,
            lambda _: None,
            token="stranger",
            clock=StandingClock(),
        )
        with pytest.raises(Fatal, match="is not the fence that the index has followed"):
            await stranger.claim(0)
        other.log.close()


async def test_a_writer_makes_the_index_durable_after_so_many_records_or_when_it_settles(
    bench: Bench,
) -> None:
    bench.writer = Writer(bench.index, bench.log, lambda _: None, kept_every=3)
    await bench.publish(said("Ana likes coffee.", 0), said("Ben plays chess.", 1))
    await bench.owner.claim(0)
    await bench.decide(0)
    await bench.writer.claim(0)
    fence, *decisions = await bench.log.read(DECISIONS.name, 0, 0, 100)

    async def durable() -> int:
        return (await applied(bench.index, 0)).reached.offset

    await work(bench.writer, bench.log, [fence, decisions[0]])
    assert (await durable(), await bench.index.count()) == (0, 1)
    await bench.writer.settle(0)
    assert await durable() == 2
    await bench.publish(*(said("Ana likes coffee.", number) for number in range(2, 5)))
    await bench.decide(2)
    await work(bench.writer, bench.log, await bench.log.read(DECISIONS.name, 0, 2, 100))
    assert await durable() == 6


async def test_what_was_not_durable_yet_is_applied_again_by_the_next_writer(bench: Bench) -> None:
    bench.writer = Writer(bench.index, bench.log, lambda _: None, kept_every=100)
    await known(bench)
    await bench.index.clear()  # as a loss of power leaves it: nothing was flushed
    bench.writer = Writer(bench.index, bench.log, lambda _: None)
    await bench.writer.claim(0)
    assert await bench.index.count() == len(TABLE)


async def test_what_a_window_that_failed_had_read_is_not_taken_for_applied(bench: Bench) -> None:
    class Full(ExactIndex):
        async def write(self, changes: Sequence[StoredMemory]) -> None:
            del changes
            raise Transient("the disk is full for a moment")

    index = Full()
    bench.writer = Writer(index, bench.log, lambda _: None, kept_every=100)
    await bench.publish(said("Ana likes coffee.", 0))
    await bench.owner.claim(0)
    await bench.decide(0)
    await bench.writer.claim(0)
    with pytest.raises(Transient):
        await work(bench.writer, bench.log, await bench.log.read(DECISIONS.name, 0, 0, 100))
    await bench.writer.settle(0)
    assert (await applied(index, 0)).reached.offset == 0
