"""The owner between log and index: what it relies on, and what it does when that is gone."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from schemas.decisions import Decision
from schemas.events import Remember
from schemas.topics import DECISIONS, EVENTS, TOPICS
from streams.adapters.indexes.exact import ExactIndex
from streams.adapters.local_broker import LocalBroker
from streams.core.embedding import Embedded
from streams.flow.deduplicate import Deduplicator
from streams.flow.owner import INDEXED, Owner
from streams.flow.writer import Writer, require_log
from streams.ports import Fatal, Outgoing, Transient
from streams.runtime.consumer import work
from tests.builders import event, later, policy, unit
from tests.fakes.sentences import SentenceEmbedder

TABLE = {"Ana likes coffee.": unit(1), "Ben plays chess.": unit(0, 0, 1)}


class Bench:
    """One partition between an owner and a writer that work when they are told."""

    def __init__(self, directory: Path) -> None:
        self.log = LocalBroker(directory / "log.sqlite3", indexed=INDEXED)
        for topic in TOPICS:
            self.log.create(topic.name, 1)
        self.index = ExactIndex()
        self.decided = list[Decision]()
        embedder = SentenceEmbedder(TABLE, characters_max=200)
        deduplicator = Deduplicator(embedder, self.index, self.index, policy())
        self.owner = Owner(deduplicator, self.log, self.index, self.decided.extend)
        self.writer = Writer(self.index, self.log, lambda _: None)

    async def publish(self, *events: Remember) -> None:
        await self.log.append(
            [
                Outgoing(EVENTS.name, 0, one.scope.encode(), one.model_dump_json().encode())
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
    with pytest.raises(Transient, match=r"held memory\.decisions/0 up to 2 and now up to 0"):
        await bench.decide(3)
    assert await bench.owner.claim(0) == 3
    assert await bench.decide(3) == ["reinforce"]


async def test_an_index_that_is_lost_while_it_is_asked_is_noticed_too(bench: Bench) -> None:
    await known(bench)
    await bench.publish(said("Ana likes coffee.", 7))
    losing = Losing(bench.index)
    deduplicator = Deduplicator(losing, bench.index, bench.index, policy())
    owner = Owner(deduplicator, bench.log, bench.index, bench.decided.extend)
    assert await owner.claim(0) == 2
    await bench.publish(said("Ana likes coffee a lot.", 8))
    with pytest.raises(Transient, match="is built anew"):
        await owner.handle(0, await bench.log.read(EVENTS.name, 0, 2, 100))


class Losing(SentenceEmbedder):
    """Loses the index while it embeds."""

    def __init__(self, index: ExactIndex) -> None:
        super().__init__(TABLE, characters_max=200)
        self._index = index

    async def embed(self, texts: Sequence[str]) -> list[Embedded]:
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
    await other.log.append([Outgoing(DECISIONS.name, 0, d.key, d.value or b"") for d in decisions])
    await other.publish(said("Ana likes coffee.", 1))
    with pytest.raises(Fatal, match=r"memory\.events/0 ends at 1, but events up to 2 were decided"):
        await other.owner.claim(0)
    other.log.close()


async def test_an_index_that_knows_more_than_the_log_is_left_alone(bench: Bench) -> None:
    """It may be the last copy of what the log has lost."""
    await known(bench)
    await bench.index.keep_level(0, 5)
    with pytest.raises(Fatal, match=r"followed memory\.decisions/0 to 5, but it ends at 2"):
        await require_log(bench.index, bench.log, 0)
    with pytest.raises(Fatal, match="restore the log"):
        await bench.writer.claim(0)
    assert await bench.index.count() == 2
