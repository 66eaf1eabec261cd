"""What every Sink keeps, and what each promises about its files."""

import asyncio
import fcntl
import itertools
import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.base import DecisionId, MemoryId, Position
from schemas.codec import APPLIED
from schemas.memories import Memory, Persistence, Standing, Superseded
from schemas.outcomes import Applied
from streams.memories_md.core.entries import MemoryEntry, SupersededBy, entries
from streams.memories_md.core.keeping import standing
from streams.memories_md.core.mapping import entry_parts
from streams.memories_md.core.parsing import parse
from streams.memories_md.world import file as memories_md_file
from streams.memories_md.world import level as memories_md_level
from streams.memories_md.world import sink as memories_md
from streams.memories_md.world.file import MemoriesFile
from streams.memories_md.world.level import LevelFile, placed_in
from streams.memories_md.world.level import level_of as markdown_level_of
from streams.memories_md.world.sink import MemoriesMdSink
from streams.model.fences import Epoch, ReadPosition
from streams.model.ports.failures import NoStore, Transient
from streams.model.ports.index import Sink
from streams.sinks import jsonl, sqlite
from streams.sinks.jsonl import JsonlSink
from streams.sinks.sqlite import SqliteSink
from tests.builders import identity, later, memory

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Kind:
    """An implementation, and its files as another program finds them.

    `read` gives each memory at its highest version, `seen` as much as that holds of memories;
    `content` all that there is, to be compared. `ahead`: a kill may leave a window that the level
    does not tell of yet.
    """

    make: Callable[[Path], Sink]
    read: Callable[[Path], Mapping[MemoryId, object]]
    content: Callable[[Path], object]
    empty: Callable[[Path], None]
    seen: Callable[[dict[MemoryId, Memory]], Mapping[MemoryId, object]] = dict
    ahead: bool = False

    @asynccontextmanager
    async def opened(self, path: Path) -> AsyncGenerator[Sink]:
        sink = self.make(path)
        try:
            yield sink
        finally:
            await sink.close()


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    """Ask as any program may that can only read."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as db:
        return db.execute(query).fetchall()


def read_table(path: Path) -> dict[MemoryId, Memory]:
    found = rows(path, "SELECT id, record FROM memories")
    return {MemoryId(i): Memory.model_validate_json(record) for i, record in found}


def table_content(path: Path) -> object:
    return rows(path, "SELECT * FROM memories ORDER BY id"), rows(path, "SELECT * FROM levels")


def remove_table(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def complete_lines(directory: Path) -> Iterator[Applied]:
    for level in sorted(directory.glob("*.level.json")):
        size = json.loads(level.read_bytes())["size"]
        feed = level.with_name(level.name.replace(".level.json", ".jsonl"))
        content = feed.read_bytes()[:size] if size else b""
        assert content == b"" or content.endswith(b"\n")
        lines = content.split(b"\n")[:-1]
        yield from (APPLIED.decode(line) for line in lines if line.strip())


def read_feeds(directory: Path) -> dict[MemoryId, Memory]:
    changes = list(complete_lines(directory))
    places = [(c.memory_id, c.decided.partition, c.decided.offset) for c in changes]
    assert len(places) == len(set(places)), "a line stands there twice"
    return latest(changes)


def feeds_content(directory: Path) -> object:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def remove_feeds(directory: Path) -> None:
    for path in directory.iterdir():
        path.unlink()


def unheard(note: str) -> None:
    raise AssertionError(note)


def make_markdown(path: Path) -> Sink:
    return MemoriesMdSink(path, "acme", unheard)


def read_markdown(path: Path) -> dict[MemoryId, object]:
    file = MemoriesFile(path)
    level, text = LevelFile(file).read(), file.read() or ""
    if level is None:
        return {}
    document = parse(text)
    found = {one.at: one.entry for one in entries(document)}
    places = standing(document, placed_in(text, level))
    assert places.keys() == found.keys()
    return {i: (place.version, written(found[at])) for at, (i, place) in places.items()}


def written(entry: MemoryEntry) -> object:
    return entry.header, entry.meta, entry.text, entry.retired, entry.struck


def seen_in_markdown(memories: dict[MemoryId, Memory]) -> dict[MemoryId, object]:
    return {i: (memory.version, entry_of(memory, memories)) for i, memory in memories.items()}


def entry_of(memory: Memory, memories: dict[MemoryId, Memory]) -> object:
    _, header, meta, text = entry_parts(memory)
    if memory.superseded is None:
        return header, meta, text, None, False
    assert memory.superseded.by is not None
    by = SupersededBy(entry_parts(memories[memory.superseded.by])[1].title)
    return replace(header, status=Standing.SUPERSEDED), meta, text, by, True


def markdown_content(path: Path) -> object:
    return path.read_bytes() if path.exists() else b"", markdown_level_of(
        MemoriesFile(path)
    ).read_bytes()


def remove_markdown(path: Path) -> None:
    for found in path.parent.glob(f"{path.name}*"):
        found.unlink()


SINKS: Mapping[str, Kind] = {
    "sqlite": Kind(SqliteSink, read_table, table_content, remove_table),
    "jsonl": Kind(JsonlSink, read_feeds, feeds_content, remove_feeds),
    "memories_md": Kind(
        make_markdown,
        read_markdown,
        markdown_content,
        remove_markdown,
        seen_in_markdown,
        ahead=True,
    ),
}


def latest(changes: Sequence[Applied]) -> dict[MemoryId, Memory]:
    ordered = sorted(changes, key=lambda change: change.memory.version)
    return {change.memory_id: change.memory for change in ordered}


def change(
    offset: int, number: int, version: int = 1, partition: int = 0, **fields: Any
) -> Applied:
    """Build what the decision at an offset made of a memory."""
    text = fields.pop("text", f"Fact {number}, told {version} times.")
    fields = {"scope": "acme/41", "title": f"Fact {number}", **fields}
    return Applied(
        memory_id=MemoryId(identity(number)),
        memory=memory(text, id=identity(number), version=version, **fields),
        decision_id=DecisionId(f"decision {partition}/{offset}"),
        decided=Position(topic="memory.decisions", partition=partition, offset=offset),
    )


def retired(offset: int, number: int, version: int, by: int, **fields: Any) -> Applied:
    superseded = Superseded(by=MemoryId(identity(by)), at=later(offset), reason="same-fact")
    gone: dict[str, Any] = {"status": Standing.SUPERSEDED, "superseded": superseded}
    return change(offset, number, version, **gone, **fields)


def forgotten(offset: int, number: int, version: int) -> Applied:
    superseded = Superseded(by=None, at=later(offset), reason="forgotten")
    gone: dict[str, Any] = {"status": Standing.FORGOTTEN, "superseded": superseded}
    return change(offset, number, version, text="forgotten", title=None, **gone)


def bytes_around(path: Path) -> list[bytes]:
    """Return the content of every file of a sink: what lies at its place, and beside it."""
    return [one.read_bytes() for one in path.parent.rglob("*") if one.is_file()]


@dataclass(frozen=True)
class History:
    """A partition of decisions, and what each of them changed."""

    length: int
    changes: Sequence[Applied]

    def between(self, start: int, end: int) -> list[Applied]:
        return [change for change in self.changes if start <= change.decided.offset < end]

    def state(self, end: int) -> dict[MemoryId, Memory]:
        return latest(self.between(0, end))

    async def write(self, sink: Sink, start: int, end: int, partition: int = 0) -> None:
        await sink.write(partition, self.between(start, end), reached(end))


def reached(offset: int) -> ReadPosition:
    return ReadPosition(offset, Epoch(0, "owner"), next_event=offset * 2)


Plan = Sequence[tuple[str, int]]


def history(plan: Plan, partition: int = 0) -> History:
    """Decide as planned: something new, a memory told again or replaced, or nothing."""
    versions: dict[int, int] = {}
    changes: list[Applied] = []
    for offset, (what, choice) in enumerate(plan):
        known = sorted(versions)
        old = known[choice % len(known)] if known else None
        new = 100 * partition + offset
        if what == "again" and old is not None:
            versions[old] += 1
            changes.append(change(offset, old, versions[old], partition))
        elif what == "replace" and old is not None:
            versions[new] = 1
            gone = versions.pop(old) + 1
            changes.append(change(offset, new, 1, partition))
            changes.append(retired(offset, old, gone, by=new, partition=partition))
        elif what != "nothing":
            versions[new] = 1
            changes.append(change(offset, new, 1, partition))
    return History(len(plan), changes)


PLAN: Plan = [
    ("new", 0),
    ("new", 0),
    ("again", 0),
    ("nothing", 0),
    ("again", 0),
    ("replace", 1),
    ("nothing", 0),
    ("again", 1),
]
HISTORY = history(PLAN)

HOSTILE = {
    "newlines": "Ana\nlikes\r\ntea.\n",
    "separators": "Ana\u2028likes\u2029tea\x85now\x0b\x0c\x1c",
    "quotes": """Robert'); DROP TABLE memories; -- "likes" `tea` \\ \\n %s :id ?""",
    "control characters": "".join(map(chr, range(1, 32))) + "x\x7f",
    "other scripts": "Käse 寿司 🧀 👩\u200d🚀 \u202etfel\u202c",
    "edges": "\ufeff\ufffe\uffff\ue000\U0010ffff",
    "like a number": "0123e5",
    "long": "z" * 65_536,
}


@pytest.fixture(params=SINKS.values(), ids=list(SINKS))
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Name the place of a sink; nothing is there yet."""
    return tmp_path / "sink"


class TestSink:
    async def test_a_new_one_has_followed_nothing(self, kind: Kind, path: Path) -> None:
        async with kind.opened(path) as sink:
            assert await sink.level(0) is None
            assert kind.read(path) == {}

    async def test_is_named_by_its_kind_and_place(self, kind: Kind, path: Path) -> None:
        async with kind.opened(path) as sink:
            assert sink.name in {f"{name} {path}" for name in SINKS}

    async def test_takes_changes_and_how_far_they_go(self, kind: Kind, path: Path) -> None:
        async with kind.opened(path) as sink:
            await HISTORY.write(sink, 0, 3)
            assert await sink.level(0) == reached(3)
            assert kind.read(path) == kind.seen(HISTORY.state(3))
            await HISTORY.write(sink, 3, 8)
            assert await sink.level(0) == reached(8)
            assert kind.read(path) == kind.seen(HISTORY.state(8))

    async def test_a_window_without_changes_is_followed_too(self, kind: Kind, path: Path) -> None:
        async with kind.opened(path) as sink:
            await sink.write(0, [], ReadPosition())
            assert await sink.level(0) == ReadPosition()
            await sink.write(0, [], ReadPosition(5, None, 4))
            assert await sink.level(0) == ReadPosition(5, None, 4)
            assert kind.read(path) == {}

    @pytest.mark.covers("B123")
    async def test_a_window_that_comes_again_changes_nothing(self, kind: Kind, path: Path) -> None:
        async with kind.opened(path) as sink:
            await HISTORY.write(sink, 0, 8)
            before = kind.content(path)
            await HISTORY.write(sink, 0, 8)
            await HISTORY.write(sink, 2, 6)
            assert kind.content(path) == before

    async def test_an_older_version_never_comes_back(self, kind: Kind, path: Path) -> None:
        newer = change(5, 1, version=3)
        async with kind.opened(path) as sink:
            await sink.write(0, [newer], reached(6))
            await sink.write(0, [change(2, 1, version=2)], reached(3))
            assert kind.read(path) == kind.seen(latest([newer]))
            await sink.write(0, [change(7, 1, version=2)], reached(8))
            assert kind.read(path) == kind.seen(latest([newer]))

    async def test_a_level_is_never_lowered(self, kind: Kind, path: Path) -> None:
        async with kind.opened(path) as sink:
            await sink.write(0, [], reached(6))
            await sink.write(0, [], reached(2))
            assert await sink.level(0) == reached(6)

    async def test_partitions_are_followed_apart(self, kind: Kind, path: Path) -> None:
        other = history(PLAN, partition=1)
        async with kind.opened(path) as sink:
            await HISTORY.write(sink, 0, 8)
            assert await sink.level(1) is None
            await other.write(sink, 0, 4, partition=1)
            assert (await sink.level(0), await sink.level(1)) == (reached(8), reached(4))
            assert kind.read(path) == kind.seen({**HISTORY.state(8), **other.state(4)})

    async def test_a_reopened_one_goes_on(self, kind: Kind, path: Path) -> None:
        async with kind.opened(path) as sink:
            await HISTORY.write(sink, 0, 5)
        async with kind.opened(path) as sink:
            assert await sink.level(0) == reached(5)
            await HISTORY.write(sink, 2, 8)
            assert await sink.level(0) == reached(8)
        assert kind.read(path) == kind.seen(HISTORY.state(8))

    @pytest.mark.covers("B62")
    async def test_a_retired_memory_is_kept(self, kind: Kind, path: Path) -> None:
        changes = [change(0, 1), change(1, 2), retired(1, 1, version=2, by=2)]
        async with kind.opened(path) as sink:
            await sink.write(0, changes[:1], reached(1))
            await sink.write(0, changes[1:], reached(2))
        assert kind.read(path) == kind.seen(latest(changes))
        gone = latest(changes)[MemoryId(identity(1))]
        assert (gone.text, gone.status) == ("Fact 1, told 2 times.", Standing.SUPERSEDED)

    @pytest.mark.covers("B135")
    @pytest.mark.parametrize("cut", [[2, 4, 5], [5]], ids=["piece by piece", "at once"])
    async def test_of_a_forgotten_memory_no_byte_is_left(
        self, kind: Kind, path: Path, cut: Sequence[int]
    ) -> None:
        """Whether it was written before, or is forgotten in the very window that brings it."""
        said = [
            change(0, 1, text="The Zyxquorblat opens.", title="Zyxquorblat"),
            change(1, 2),
            change(2, 1, 2, text="The Zyxquorblat is shut.", title="Zyxquorblat"),
            change(3, 3),
        ]
        changes = [*said, forgotten(4, 1, version=3)]
        start = 0
        async with kind.opened(path) as sink:
            for end in cut:
                await sink.write(0, changes[start:end], reached(end))
                start = end
        assert [found for found in bytes_around(path) if b"Zyxquorblat" in found] == []
        others = latest([changes[1], changes[3]])
        read, expected = kind.read(path), kind.seen(others)
        assert {identity: read[identity] for identity in others} == expected

    @pytest.mark.parametrize("text", HOSTILE.values(), ids=list(HOSTILE))
    async def test_any_text_comes_back_as_it_was(self, kind: Kind, path: Path, text: str) -> None:
        label = text.strip()[:200] if text.strip().isprintable() else 'it\'s "so" 🧀'
        hostile = change(0, 1, text=text, category=label, tags=(label,), metadata={label: text})
        async with kind.opened(path) as sink:
            await sink.write(0, [hostile], reached(1))
        assert kind.read(path) == kind.seen(latest([hostile]))

    @pytest.mark.covers("B123")
    @given(
        plan=st.lists(
            st.tuples(st.sampled_from(["new", "again", "replace", "nothing"]), st.integers(0, 9)),
            max_size=12,
        ),
        windows=st.lists(
            st.tuples(st.integers(0, 1), st.integers(0, 12), st.integers(0, 6)), max_size=10
        ),
    )
    @settings(max_examples=15)
    @pytest.mark.parametrize("kind", SINKS.values(), ids=list(SINKS))
    def test_however_windows_are_cut_and_repeated_the_end_is_the_same(
        self, kind: Kind, plan: Plan, windows: list[tuple[int, int, int]]
    ) -> None:
        """Two writers, of which neither begins behind what the sink has."""
        log = history(plan)

        async def follow(path: Path, windows: Sequence[tuple[int, int, int]]) -> None:
            level = 0
            async with kind.opened(path) as one, kind.opened(path) as other:
                for writer, back, length in windows:
                    start = max(0, level - back)
                    end = min(start + length, log.length)
                    await log.write((one, other)[writer], start, end)
                    level = max(level, end)
                    assert await one.level(0) == await other.level(0) == reached(level)
                    assert kind.read(path) == kind.seen(log.state(level))

        with tempfile.TemporaryDirectory() as directory:
            cut, whole = Path(directory, "cut"), Path(directory, "whole")
            asyncio.run(follow(cut, [*windows, (0, 0, log.length)]))
            asyncio.run(follow(whole, [(0, 0, log.length)]))
            assert kind.content(cut) == kind.content(whole)

    async def test_writers_of_one_partition_at_once_come_to_the_same(
        self, kind: Kind, path: Path
    ) -> None:
        """A zombie is a writer whose successor has begun: each follows the log on its own."""

        async def follow(steps: int) -> None:
            async with kind.opened(path) as sink:
                for start in range(0, HISTORY.length, steps):
                    end = min(start + steps, HISTORY.length)
                    await again(lambda start=start, end=end: HISTORY.write(sink, start, end))

        await asyncio.gather(*(follow(steps) for steps in (1, 2, 3, 5)))
        assert kind.read(path) == kind.seen(HISTORY.state(8))
        async with kind.opened(path) as sink:
            assert await sink.level(0) == reached(8)

    async def test_writers_of_other_partitions_at_once_keep_what_each_wrote(
        self, kind: Kind, path: Path
    ) -> None:
        logs = [history(PLAN, partition) for partition in range(4)]

        async def follow(partition: int, log: History) -> None:
            async with kind.opened(path) as sink:
                for end in range(1, log.length + 1):
                    await log.write(sink, end - 1, end, partition)

        await asyncio.gather(*itertools.starmap(follow, enumerate(logs)))
        assert kind.read(path) == kind.seen(
            latest([change for log in logs for change in log.changes])
        )

    async def test_many_may_open_a_new_one_at_the_same_moment(self, kind: Kind, path: Path) -> None:
        together = threading.Barrier(4, timeout=10)

        def make() -> Sink:
            together.wait()
            return kind.make(path)

        sinks = await asyncio.gather(*(asyncio.to_thread(make) for _ in range(4)))
        for partition, sink in enumerate(sinks):
            await sink.write(partition, [], reached(partition))
            await sink.close()
        async with kind.opened(path) as sink:
            assert [await sink.level(p) for p in range(4)] == [reached(p) for p in range(4)]

    async def test_one_that_is_emptied_under_a_writer_is_followed_from_the_first(
        self, kind: Kind, path: Path
    ) -> None:
        """To go on from where the writer is would leave out what lay before, and say nothing."""
        async with kind.opened(path) as sink:
            await HISTORY.write(sink, 0, 5)
            kind.empty(path)
            for _ in range(2):
                with pytest.raises(Transient, match="was emptied or replaced"):
                    await HISTORY.write(sink, 5, 8)
            assert await sink.level(0) is None
            await HISTORY.write(sink, 0, 8)
        assert kind.read(path) == kind.seen(HISTORY.state(8))

    async def test_a_kill_at_any_moment_leaves_one_that_goes_on(
        self, request: pytest.FixtureRequest, kind: Kind, tmp_path: Path
    ) -> None:
        in_process("write_and_be_killed", name_of(request), tmp_path)
        places = [directory / "sink" for directory in listed(tmp_path)]
        assert len(places) > 15
        levels: set[int] = set()
        for place in places:
            async with kind.opened(place) as sink:
                level = await sink.level(0)
                offset = 0 if level is None else level.offset
                levels.add(offset)
                left = [offset, *(end for end in (3, 6, 8) if kind.ahead and end > offset)][:2]
                assert kind.read(place) in [kind.seen(HISTORY.state(end)) for end in left]
                await HISTORY.write(sink, offset, 8)
                assert kind.read(place) == kind.seen(HISTORY.state(8))
        assert levels <= {0, 3, 6, 8}
        assert len(levels) > 2

    async def test_a_write_that_the_disk_refuses_keeps_what_was_acknowledged(
        self, request: pytest.FixtureRequest, kind: Kind, path: Path
    ) -> None:
        """A limit on the size of files stands for any disk that refuses to write."""
        written = in_process("write_until_refused", name_of(request), path)
        acknowledged, message = json.loads(written)
        assert message.startswith(f"{path}: the disk ")
        assert "\n" not in message
        async with kind.opened(path) as sink:
            level = await sink.level(0)
            assert level == reached(acknowledged)
            assert len(kind.read(path)) == acknowledged > 0
            await sink.write(0, [large(acknowledged)], reached(acknowledged + 1))
            assert len(kind.read(path)) == acknowledged + 1


async def again(write: Callable[[], Any]) -> None:
    """Try until nobody else is writing."""
    while True:
        try:
            return await write()
        except Transient:
            await asyncio.sleep(0.001)


def name_of(request: pytest.FixtureRequest) -> str:
    return next(name for name, kind in SINKS.items() if kind is request.getfixturevalue("kind"))


def in_process(function: str, name: str, path: Path) -> str:
    """Run a function of this module in a process of its own; return what it prints."""
    script = f"from tests.contract import test_sinks as here; here.{function}"
    done = subprocess.run(
        [sys.executable, "-c", f"{script}(here.SINKS[{name!r}], here.Path({str(path)!r}))"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


LINES_BETWEEN_KILLS = 11
"""Kills so far apart in the code; the time that they take is what limits them."""


def write_and_be_killed(kind: Kind, directory: Path) -> None:
    """Write the history anew and anew, each time killed a few lines of the sink's code later.

    Every other time it may run on for a moment, to die inside what one of the lines calls.
    """
    for lines, delay in zip(itertools.count(0, LINES_BETWEEN_KILLS), itertools.cycle([0, 0.0005])):
        path = directory / str(lines)
        path.mkdir()
        child = os.fork()
        if child == 0:
            die_after(lines, delay)
            asyncio.run(write_in_three(kind.make(path / "sink")))
            os._exit(0)
        if os.waitpid(child, 0)[1] == 0:
            return


async def write_in_three(sink: Sink) -> None:
    for start, end in ((0, 3), (3, 6), (6, 8)):
        await HISTORY.write(sink, start, end)


def die_after(lines: int, delay: float) -> None:
    """Kill this process once it has run so many lines of the sinks, and for so many seconds."""
    files = {
        one.__file__ for one in (sqlite, jsonl, memories_md, memories_md_file, memories_md_level)
    }
    counted = itertools.count()

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename not in files:
            return None
        if event == "line" and next(counted) == lines:
            if delay == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            signal.setitimer(signal.ITIMER_REAL, delay)  # nobody handles it: it ends the process
        return trace

    sys.settrace(trace)
    threading.settrace(trace)


def large(offset: int) -> Applied:
    return change(offset, offset, text="x" * 5_000)


def write_until_refused(kind: Kind, path: Path) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (70_000, resource.RLIM_INFINITY))
    sink = kind.make(path)
    acknowledged = 0
    try:
        while True:
            asyncio.run(sink.write(0, [large(acknowledged)], reached(acknowledged + 1)))
            acknowledged += 1
    except NoStore as error:
        print(json.dumps([acknowledged, str(error)]))  # noqa: T201 - read by the test


def refused(meaning: str, path: Path) -> pytest.RaisesExc[NoStore]:
    """Expect one line that names the file and says what to do about it."""
    return pytest.RaisesExc(
        NoStore,
        check=lambda error: (
            meaning in str(error) and str(error).startswith(str(path)) and "\n" not in str(error)
        ),
    )


def listed(directory: Path) -> list[Path]:
    return list(directory.iterdir())


def contents(path: Path) -> bytes:
    return path.read_bytes()


def put(path: Path, content: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)


def remove(directory: Path) -> None:
    directory.rmdir()


class TestSqliteSink:
    async def test_a_memory_is_a_row_of_plain_columns(self, path: Path) -> None:
        full = retired(
            7,
            1,
            version=4,
            by=2,
            category="preference",
            persistence=Persistence.CORE,
            importance=0.5,
            confidence=0.25,
            tags=("drinks", "Käse"),
            sources=("user",),
            observation_count=3,
            last_seen_at=later(1.5),
        )
        async with SINKS["sqlite"].opened(path) as sink:
            await sink.write(0, [full], reached(8))
        with closing(sqlite3.connect(path)) as db:
            db.row_factory = sqlite3.Row
            (row,) = [dict(found) for found in db.execute("SELECT * FROM memories")]
        assert Memory.model_validate_json(row.pop("record")) == full.memory
        assert row == {
            "id": identity(1),
            "scope": "acme/41",
            "text": "Fact 1, told 4 times.",
            "version": 4,
            "status": "superseded",
            "live": 0,
            "category": "preference",
            "persistence": "core",
            "importance": 0.5,
            "confidence": 0.25,
            "tags": '["drinks", "Käse"]',
            "sources": '["user"]',
            "observation_count": 3,
            "created_at": "2026-03-01T09:00:00.000000+00:00",
            "last_seen_at": "2026-03-01T10:30:00.000000+00:00",
            "superseded_by": identity(2),
            "superseded_at": "2026-03-01T16:00:00.000000+00:00",
            "superseded_reason": "same-fact",
            "decision_id": "decision 0/7",
        }

    async def test_sql_reaches_into_what_is_json(self, path: Path) -> None:
        async with SINKS["sqlite"].opened(path) as sink:
            hostile = change(0, 1, tags=("a", "b"), metadata={"room": 'the "red" one'})
            await sink.write(0, [hostile], reached(1))
        assert rows(path, "SELECT record ->> '$.metadata.room' FROM memories") == [
            ('the "red" one',)
        ]
        assert rows(path, "SELECT value FROM memories, json_each(tags)") == [("a",), ("b",)]
        assert rows(path, "SELECT date(created_at) FROM memories") == [("2026-03-01",)]

    async def test_times_sort_as_text(self, path: Path) -> None:
        times = [later(hours) for hours in (0, 0.0001, 0.5, 24, 24 * 365)]
        changes = [change(n, n, last_seen_at=moment) for n, moment in enumerate(times)]
        async with SINKS["sqlite"].opened(path) as sink:
            await sink.write(0, changes, reached(9))
        ordered = rows(path, "SELECT id FROM memories ORDER BY last_seen_at")
        assert ordered == [(identity(n),) for n in range(len(times))]

    async def test_live_memories_are_a_view(self, path: Path) -> None:
        async with SINKS["sqlite"].opened(path) as sink:
            await HISTORY.write(sink, 0, 8)
        live = {i for i, found in HISTORY.state(8).items() if found.live}
        assert {i for (i,) in rows(path, "SELECT id FROM live_memories")} == live
        assert 0 < len(live) < len(HISTORY.state(8))

    async def test_a_scope_is_found_by_an_index(self, path: Path) -> None:
        async with SINKS["sqlite"].opened(path):
            pass
        plan = rows(path, "EXPLAIN QUERY PLAN SELECT * FROM live_memories WHERE scope = 'acme/ana'")
        assert "memories_by_scope" in plan[0][-1]

    async def test_the_levels_are_a_table(self, path: Path) -> None:
        async with SINKS["sqlite"].opened(path) as sink:
            await sink.write(2, [], ReadPosition(7, Epoch(3, "owner"), 12))
            await sink.write(3, [], ReadPosition(1, None, 4))
        query = 'SELECT partition, "offset", epoch_offset, epoch_owner, next_event FROM levels'
        assert rows(path, query) == [(2, 7, 3, "owner", 12), (3, 1, None, None, 4)]

    async def test_a_program_that_reads_hinders_nobody(self, path: Path) -> None:
        async with SINKS["sqlite"].opened(path) as sink:
            await HISTORY.write(sink, 0, 3)
            with closing(sqlite3.connect(path, isolation_level=None)) as reader:
                reader.execute("BEGIN")
                before = reader.execute("SELECT id, version FROM memories").fetchall()
                await HISTORY.write(sink, 3, 8)
                assert reader.execute("SELECT id, version FROM memories").fetchall() == before
        assert read_table(path) == HISTORY.state(8)

    async def test_one_that_is_locked_can_be_written_later(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # The wait is tested, its length is not.
        monkeypatch.setattr("streams.sinks.sqlite._BUSY_SECONDS", 0.02)
        async with SINKS["sqlite"].opened(path) as sink:
            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                with pytest.raises(Transient, match="locked by another process"):
                    await HISTORY.write(sink, 0, 8)
                assert await sink.level(0) is None
                other.execute("COMMIT")
            await HISTORY.write(sink, 0, 8)
        assert read_table(path) == HISTORY.state(8)

    def test_a_new_one_that_is_locked_can_be_opened_later(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("streams.sinks.sqlite._BUSY_SECONDS", 0.02)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            with pytest.raises(Transient, match="locked by another process"):
                SqliteSink(path)

    async def test_one_that_was_killed_while_new_is_brought_into_write_ahead_mode(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Which SQLite refuses without any wait while another process writes."""
        monkeypatch.setattr("streams.sinks.sqlite._BUSY_SECONDS", 30.0)
        await SqliteSink(path).close()
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("PRAGMA journal_mode = DELETE")
            other.execute("BEGIN IMMEDIATE")
            opening = asyncio.create_task(asyncio.to_thread(SqliteSink, path))
            await asyncio.sleep(0.05)
            assert not opening.done()
            other.execute("ROLLBACK")
            await (await opening).close()
        assert rows(path, "PRAGMA journal_mode") == [("wal",)]

    async def test_waiting_for_a_lock_leaves_the_loop_to_others(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Only the loop ends the lock: a sink that held the loop would wait in vain."""
        monkeypatch.setattr("streams.sinks.sqlite._BUSY_SECONDS", 30.0)
        async with SINKS["sqlite"].opened(path) as sink:
            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                writing = asyncio.create_task(HISTORY.write(sink, 0, 8))
                for _ in range(5):
                    await asyncio.sleep(0.01)
                assert not writing.done()
                other.execute("COMMIT")
            await writing
        assert read_table(path) == HISTORY.state(8)

    @pytest.mark.parametrize("content", [b"no database\n" * 999, b"\xff" * 9999])
    def test_says_that_a_file_is_no_database(self, path: Path, content: bytes) -> None:
        path.write_bytes(content)
        with refused("it is not a database: name another file", path):
            SqliteSink(path)
        assert path.read_bytes() == content

    @pytest.mark.parametrize("marked", ["CREATE TABLE notes (text)", "PRAGMA application_id = 7"])
    def test_says_that_a_file_belongs_to_another_program(self, path: Path, marked: str) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as foreign:
            foreign.execute(marked)
        content = path.read_bytes()
        with refused("it belongs to another program: name another file", path):
            SqliteSink(path)
        assert path.read_bytes() == content

    def test_says_that_a_file_has_tables_of_another_version(self, path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as foreign:
            foreign.execute("PRAGMA application_id = 1835363700")
            foreign.execute("PRAGMA user_version = 2")
        with refused("another version of memsieve: delete it", path):
            SqliteSink(path)

    async def test_says_that_its_tables_were_changed(self, path: Path) -> None:
        async with SINKS["sqlite"].opened(path) as sink:
            with closing(sqlite3.connect(path)) as other:
                other.execute("ALTER TABLE memories DROP COLUMN record")
            with refused("its tables were changed: delete it", path):
                await HISTORY.write(sink, 0, 8)

    async def test_says_that_pages_are_overwritten(self, path: Path) -> None:
        async with SINKS["sqlite"].opened(path) as sink:
            await sink.write(0, [large(offset) for offset in range(20)], reached(20))
        content = contents(path)
        # Behind the first page, which SQLite checks when it opens the file.
        put(path, content[:4096].ljust(len(content), b"\xab"))
        async with SINKS["sqlite"].opened(path) as sink:
            with refused("it is damaged: delete it", path):
                await sink.level(0)
            with refused("it is damaged: delete it", path):
                await HISTORY.write(sink, 0, 8)

    def test_says_that_its_directory_is_missing(self, tmp_path: Path) -> None:
        with refused("check that its directory is there", tmp_path / "no" / "sink"):
            SqliteSink(tmp_path / "no" / "sink")

    def test_says_that_a_directory_lies_in_its_place(self, tmp_path: Path) -> None:
        with refused("cannot be opened", tmp_path):
            SqliteSink(tmp_path)

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_says_that_its_directory_cannot_be_written(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o500)
        with refused("writable", tmp_path / "sink"):
            SqliteSink(tmp_path / "sink")


class TestJsonlSink:
    async def test_a_line_is_a_change_in_the_order_of_the_log(self, path: Path) -> None:
        async with SINKS["jsonl"].opened(path) as sink:
            await HISTORY.write(sink, 0, 5)
            await HISTORY.write(sink, 5, 8)
        lines = [APPLIED.encode(change) + b"\n" for change in HISTORY.changes]
        assert feed(path).read_bytes() == b"".join(lines)

    async def test_the_level_says_how_far_the_lines_are_complete(self, path: Path) -> None:
        async with SINKS["jsonl"].opened(path) as sink:
            await sink.write(0, HISTORY.between(0, 5), ReadPosition(5, Epoch(3, "owner"), 12))
        assert json.loads(level_of(path).read_bytes()) == {
            "format": 1,
            "reached": {"offset": 5, "epoch": {"offset": 3, "owner": "owner"}, "next_event": 12},
            "size": feed(path).stat().st_size,
        }

    async def test_only_what_it_lacks_of_a_window_is_appended(self, path: Path) -> None:
        async with SINKS["jsonl"].opened(path) as sink:
            await HISTORY.write(sink, 0, 5)
            before = feed(path).read_bytes()
            await HISTORY.write(sink, 2, 8)
        added = [APPLIED.encode(change) + b"\n" for change in HISTORY.between(5, 8)]
        assert feed(path).read_bytes() == before + b"".join(added)

    async def test_a_torn_line_is_cut_off(self, path: Path) -> None:
        async with SINKS["jsonl"].opened(path) as sink:
            await HISTORY.write(sink, 0, 5)
            with feed(path).open("ab") as torn:
                torn.write(APPLIED.encode(HISTORY.between(5, 6)[0])[:-7])
            assert await sink.level(0) == reached(5)
            await HISTORY.write(sink, 5, 8)
        assert list(complete_lines(path)) == HISTORY.changes
        assert feed(path).read_bytes().count(b"\n") == len(HISTORY.changes)

    async def test_lines_whose_level_was_lost_stand_there_once(self, path: Path) -> None:
        """A crash between the feed and its level repeats the window, perhaps with another cut."""
        async with SINKS["jsonl"].opened(path) as sink:
            await HISTORY.write(sink, 0, 3)
            before = level_of(path).read_bytes()
            await HISTORY.write(sink, 3, 8)
        level_of(path).write_bytes(before)
        async with SINKS["jsonl"].opened(path) as sink:
            assert await sink.level(0) == reached(3)
            await HISTORY.write(sink, 3, 6)
            await HISTORY.write(sink, 6, 8)
        assert feed(path).read_bytes().count(b"\n") == len(HISTORY.changes)
        assert list(complete_lines(path)) == HISTORY.changes

    async def test_a_partition_that_is_being_written_can_be_written_later(self, path: Path) -> None:
        async with SINKS["jsonl"].opened(path) as sink:
            lock = os.open(path / "memories-0.lock", os.O_RDWR | os.O_CREAT)
            fcntl.flock(lock, fcntl.LOCK_EX)
            with pytest.raises(Transient, match="is being written by another process"):
                await HISTORY.write(sink, 0, 8)
            await sink.write(1, [], reached(1))
            os.close(lock)
            await HISTORY.write(sink, 0, 8)
        assert read_feeds(path) == HISTORY.state(8)

    @pytest.mark.parametrize("left", [0, 1, -1])
    async def test_says_that_a_feed_was_cut(self, path: Path, left: int) -> None:
        async with SINKS["jsonl"].opened(path) as sink:
            await HISTORY.write(sink, 0, 5)
            content = feed(path).read_bytes()
            feed(path).write_bytes(content[:left])
            await refuses(sink, "was cut or changed: delete it and its level", feed(path))
            assert feed(path).read_bytes() == content[:left]

    async def test_says_that_a_feed_is_gone(self, path: Path) -> None:
        async with SINKS["jsonl"].opened(path) as sink:
            await HISTORY.write(sink, 0, 5)
            feed(path).unlink()
            await refuses(sink, "was cut or changed: delete it and its level", feed(path))

    async def test_says_that_a_feed_has_other_lines(self, path: Path) -> None:
        async with SINKS["jsonl"].opened(path) as sink:
            await HISTORY.write(sink, 0, 5)
            feed(path).write_bytes(feed(path).read_bytes().replace(b"Fact", b"The fact"))
            await refuses(sink, "was cut or changed: delete it and its level", feed(path))

    @pytest.mark.parametrize(
        "damaged",
        [
            b"",
            b"{",
            b"\xff",
            b"[]",
            b"{}",
            b'{"format":2,"reached":null,"size":0}',
            b'{"format":1,"reached":{"offset":"5"},"size":0}',
        ],
    )
    async def test_says_that_a_level_is_damaged(self, path: Path, damaged: bytes) -> None:
        async with SINKS["jsonl"].opened(path) as sink:
            await HISTORY.write(sink, 0, 5)
            level_of(path).write_bytes(damaged)
            await refuses(sink, "is damaged: delete it and its feed", level_of(path))

    async def test_a_file_of_somebody_else_is_not_touched(self, path: Path) -> None:
        put(feed(path), b"mine\n")
        async with SINKS["jsonl"].opened(path) as sink:
            with refused("has no level file: move it away", feed(path)):
                await HISTORY.write(sink, 0, 5)
        assert feed(path).read_bytes() == b"mine\n"

    def test_says_that_a_file_lies_in_its_place(self, path: Path) -> None:
        path.write_bytes(b"mine")
        with refused("it is a file: name a directory", path):
            JsonlSink(path)

    def test_says_that_the_directory_around_it_is_missing(self, path: Path) -> None:
        with refused("is missing: make the directory", path / "no"):
            JsonlSink(path / "no")

    async def test_says_that_its_directory_is_gone(self, path: Path) -> None:
        async with SINKS["jsonl"].opened(path) as sink:
            remove(path)
            with refused("is missing: make the directory", path):
                await HISTORY.write(sink, 0, 5)

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
    def test_says_that_its_directory_cannot_be_written(self, tmp_path: Path) -> None:
        tmp_path.chmod(0o500)
        with refused("it cannot be written: check its permissions", tmp_path):
            JsonlSink(tmp_path)


def feed(directory: Path) -> Path:
    return directory / "memories-0.jsonl"


def level_of(directory: Path) -> Path:
    return directory / "memories-0.level.json"


async def refuses(sink: Sink, meaning: str, path: Path) -> None:
    """Expect that neither the level is told nor a window taken."""
    with refused(meaning, path):
        await sink.level(0)
    with refused(meaning, path):
        await HISTORY.write(sink, 5, 8)
