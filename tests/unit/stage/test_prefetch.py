"""What is encoded ahead, what is remembered, and that a batch is only looked at, never lost."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterator, Sequence
from pathlib import Path

import pytest

from schemas.codec import EVENT
from schemas.events import Remember
from schemas.topics import EVENTS
from streams.embedding.remembering import RememberingEmbedder
from streams.index.exact import ExactIndex
from streams.model.embedding import TextVector
from streams.model.ports.failures import Transient
from streams.model.ports.log import OutgoingRecord
from streams.model.ports.sources import SourceLine, SourceMark
from streams.stage.core.mapping import FieldMapping
from streams.stage.flow.prefetch import Prefetcher
from streams.store.app import policies, settings
from streams.store.app.batches import Batch, ahead
from streams.store.app.processes import embedded
from streams.store.world.files import FileSource
from tests.builders import event, stored, unit
from tests.fakes.embedder import FakeEmbedder
from tests.support.encoding.models import default_embedder
from tests.support.stage.deciding import NothingBefore
from tests.support.stage.stores import quiet

TABLE = {"tea": [1.0, 0.0], "cake": [0.0, 1.0], "coffee": [1.0, 1.0]}


class Counting(FakeEmbedder):
    """Notes what it is asked to encode; fails so many times first."""

    def __init__(self, failures: int = 0) -> None:
        super().__init__(TABLE)
        self.asked: list[Sequence[str]] = []
        self._failures = failures

    async def embed(self, texts: Sequence[str]) -> list[TextVector]:
        self.asked.append(list(texts))
        await asyncio.sleep(0)
        if self._failures:
            self._failures -= 1
            raise Transient("the encoder is away")
        return await super().embed(texts)


async def test_a_text_is_encoded_once() -> None:
    inner = Counting()
    embedder = RememberingEmbedder(inner)
    first = await embedder.embed(["tea", "cake", "tea"])
    again = await embedder.embed(["cake", "coffee"])
    assert inner.asked == [["tea", "cake"], ["coffee"]]
    assert first[0].vector is first[2].vector
    assert first[1].vector is again[0].vector


async def test_what_is_expected_is_encoded_beside_and_waited_for() -> None:
    inner = Counting()
    embedder = RememberingEmbedder(inner)
    embedder.expect(["tea", "cake", "tea"])
    embedder.expect(["cake"])
    assert embedder.is_known("tea")
    assert not embedder.is_known("coffee")
    await embedder.embed(["cake", "coffee"])
    assert inner.asked == [["tea", "cake"], ["coffee"]]


async def test_a_failure_ahead_is_met_by_whoever_asks() -> None:
    inner = Counting(failures=2)
    embedder = RememberingEmbedder(inner)
    embedder.expect(["tea"])
    with pytest.raises(Transient):
        await embedder.embed(["tea"])
    assert [one.truncated for one in await embedder.embed(["tea"])] == [False]
    assert inner.asked == [["tea"]] * 3


@pytest.mark.covers("B80", "S0.25")
async def test_the_oldest_texts_are_forgotten() -> None:
    inner = Counting()
    embedder = RememberingEmbedder(inner, texts_max=2)
    assert len(await embedder.embed(["tea", "cake", "coffee"])) == 3
    assert [embedder.is_known(text) for text in TABLE] == [False, True, True]


async def test_long_texts_are_forgotten_sooner() -> None:
    long = ["a" * 9_000_000, "b" * 9_000_000]
    embedder = RememberingEmbedder(FakeEmbedder(dict.fromkeys(long, (1.0,))))
    await embedder.embed(long)
    assert [embedder.is_known(text) for text in long] == [False, True]


async def test_only_what_neither_index_nor_log_has_is_encoded_ahead() -> None:
    inner = Counting()
    embedder = RememberingEmbedder(inner)
    index = ExactIndex()
    await index.write([stored("tea", unit(1))])
    foresight = Prefetcher(embedder, index, NothingBefore())
    records = [
        published(event("TEA")),
        published(event("cake")),
        OutgoingRecord(EVENTS.name, 0, None, b"no event"),
    ]
    await foresight.prefetch(records)
    await embedder.embed(["cake"])
    assert inner.asked == [["cake"]]


async def test_every_batch_comes_once_in_order_and_is_looked_at_before_its_turn() -> None:
    told: list[str] = []

    async def prefetch(records: Sequence[OutgoingRecord]) -> None:
        told.append(f"looked at {records[0].value.decode()}")

    async for _, records in ahead(three(), prefetch):
        told.append(f"turn of {records[0].value.decode()}")
        await asyncio.sleep(0.01)
    assert told == ["turn of 0", "looked at 1", "turn of 1", "looked at 2", "turn of 2"]


async def test_a_batch_that_cannot_be_read_ends_the_loop_with_its_error() -> None:
    async def broken() -> AsyncGenerator[Batch]:
        async for batch in three():
            yield batch
            raise Transient("the file is gone")

    async def prefetch(_: Sequence[OutgoingRecord]) -> None: ...

    seen: list[Batch] = []

    async def read() -> None:
        async for batch in ahead(broken(), prefetch):
            seen.append(batch)  # noqa: PERF401 - what came before the error counts

    with pytest.raises(Transient):
        await read()
    assert len(seen) == 1


async def three() -> AsyncGenerator[Batch]:
    for number in range(3):
        yield [], [OutgoingRecord(EVENTS.name, 0, None, str(number).encode())]


def published(said: Remember) -> OutgoingRecord:
    return OutgoingRecord(EVENTS.name, 0, said.scope.encode(), EVENT.encode(said))


class Waiting(FileSource):
    """A file whose second row comes when `more` is set."""

    more = threading.Event()

    def lines(self, after: SourceMark | None) -> Iterator[SourceLine]:
        for number, line in enumerate(super().lines(after)):
            if number:
                self.more.wait()
            yield line


@pytest.mark.process
async def test_a_run_that_fails_leaves_no_prefetch_behind(tmp_path: Path) -> None:
    class Stopped(Exception): ...

    def stop(_: int) -> None:
        raise Stopped

    file = tmp_path / "rows.jsonl"
    file.write_text("".join(f'{{"text": "Ana has {n} cats.", "scope": "a"}}\n' for n in (2, 3, 4)))
    chosen = settings.load({"store": tmp_path / "store", "run": {"batch_records": 1}})
    source = Waiting(str(file))
    async with embedded(chosen, policies.load("default"), default_embedder(), quiet) as pipeline:
        with pytest.raises(Stopped):
            await pipeline.run(source, FieldMapping(), stop)
        waiting = [repr(task.get_coro()) for task in asyncio.all_tasks()]
        source.more.set()
        assert not [one for one in waiting if "ahead.<locals>.following" in one]
