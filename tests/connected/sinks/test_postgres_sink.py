"""The example consumer, as a process of its own, between a real Kafka and a real PostgreSQL."""

import asyncio
import json
import re
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import psycopg
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from fastembed import TextEmbedding
from psycopg.conninfo import make_conninfo

import memsieve
from schemas.base import DecisionId, MemoryId, Position
from schemas.codec import APPLIED, DECISION
from schemas.decisions import Decision, Reject
from schemas.memories import Memory
from schemas.outcomes import Applied
from schemas.topics import DECISIONS
from streams.embedding import DEFAULT_MODEL
from streams.model.fences import Epoch
from streams.model.neighbours import StoredMemory
from streams.model.ports.log import LogRecord, OutgoingRecord
from streams.stage.core.ledger import fold
from streams.stage.flow.decisions import DecisionsReader, decision_record, fence_record
from tests.builders import START, at_cosine, identity, later, memory, worded
from tests.fakes.embedder import FakeEmbedder
from tests.support.encoding.models import models_dir
from tests.support.stage import stores

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "postgres_sink"
SINK = EXAMPLE / "sink.py"
PAGE = ROOT / "docs" / "consumers.md"
PARTITIONS = 2
OTHERS = """
FROM pg_stat_activity
WHERE application_name = current_setting('application_name') AND pid <> pg_backend_pid()
"""
END_SECONDS = 30.0
PAUSE_SECONDS = 0.01


@dataclass(frozen=True)
class World:
    """A topic, and the schema of a database that shall follow it."""

    bootstrap: str
    topic: str
    database: str

    @property
    def group(self) -> str:
        return f"{self.topic}.sink"


@pytest.fixture
async def world(kafka_bootstrap: str, topic_prefix: str, database_url: str) -> World:
    made = World(kafka_bootstrap, f"{topic_prefix}memory.changes", database_url)
    async with administrator(made) as admin:
        await admin.create_topics([NewTopic(made.topic, PARTITIONS, 1)])
    do(made, (EXAMPLE / "schema.sql").read_text(encoding="utf-8"))
    return made


async def test_each_change_ends_in_the_table(world: World) -> None:
    changes = [
        change(memory("Ana likes tea.", id=identity(1))),
        change(memory("Bo skis.", id=identity(2), scope="acme/bo", metadata={"odd": "a\x01b"})),
        change(memory("Ana likes tea.", id=identity(1), version=2, last_seen_at=later(5))),
    ]
    await publish(world, changes)
    assert await ended(world) == 0
    assert table(world) == newest(changes)


async def test_a_superseded_memory_is_kept_and_is_not_live(world: World) -> None:
    gone = {"by": identity(2), "at": later(1), "reason": "newer-contradiction"}
    old, new = memory("Ana likes tea.", id=identity(1)), memory("Ana hates tea.", id=identity(2))
    retired = memory(
        "Ana likes tea.", id=identity(1), version=2, status="superseded", superseded=gone
    )
    changes = [change(old), change(new), change(retired)]
    await publish(world, changes)
    assert await ended(world) == 0
    assert table(world) == newest(changes)
    replaced = ask(world, "SELECT memory_id FROM memories WHERE superseded_by = %s", identity(2))
    assert replaced == [(identity(1),)]
    assert ask(world, "SELECT memory_id FROM live_memories") == [(identity(2),)]


async def test_a_memory_without_successor_and_a_forgotten_one_are_not_live(world: World) -> None:
    retired = {"by": None, "at": later(1), "reason": "retired"}
    forgotten = {"by": None, "at": later(1), "reason": "forgotten"}
    changes = [
        change(memory("Ana skis.", id=identity(1), status="superseded", superseded=retired)),
        change(memory("forgotten", id=identity(2), status="forgotten", superseded=forgotten)),
        change(memory("Ana might row.", id=identity(3), status="tentative")),
    ]
    await publish(world, changes)
    assert await ended(world) == 0
    assert table(world) == newest(changes)
    assert ask(world, "SELECT memory_id FROM live_memories") == [(identity(3),)]


async def test_an_older_version_or_a_repetition_changes_nothing(world: World) -> None:
    changes = [change(memory(f"Version {n}.", version=n)) for n in (1, 2, 3)]
    await publish(world, changes)
    assert await ended(world) == 0
    assert table(world) == newest(changes)
    written = ask(world, "SELECT xmin::text FROM memories")  # by which transaction
    await publish(world, [*changes[:2], *changes])
    assert await ended(world) == 0
    assert ask(world, "SELECT xmin::text FROM memories") == written
    assert positions(world) == await ends(world)


async def test_kills_lose_and_spoil_nothing(world: World) -> None:
    changes = [
        change(memory(f"Memory {n % 400} at {n}.", id=identity(n % 400), version=1 + n // 400))
        for n in range(2_000)
    ]
    await publish(world, delivered_again(changes, window=150))
    total = sum((await ends(world)).values())
    for goal in (100, 300, 900):
        async with started(world, BATCH_RECORDS="7") as sink:
            await until(lambda goal=goal: followed(world) > goal)
            sink.kill()
            await sink.wait()
        assert goal < followed(world) < total
    assert await ended(world) == 0
    assert followed(world) == total
    assert table(world) == newest(changes)


@pytest.mark.parametrize("waits_for", ["memories", "memory_positions"])
async def test_a_batch_and_its_offset_are_written_together_or_not_at_all(
    world: World, waits_for: str
) -> None:
    changes = [change(memory(f"Memory {n}.", id=identity(n))) for n in range(20)]
    await publish(world, changes)
    async with started(world) as sink:
        with psycopg.connect(world.database) as connection:
            connection.execute(f"LOCK TABLE {waits_for} IN EXCLUSIVE MODE".encode())
            await until(lambda: connected(world, waiting=True) == 1)
            sink.kill()
            await sink.wait()
    await until(lambda: connected(world) == 0)
    assert table(world) == []
    assert positions(world) == {}
    assert await ended(world) == 0
    assert table(world) == newest(changes)


async def test_the_table_alone_says_where_to_go_on_and_can_be_built_anew(world: World) -> None:
    changes = [change(memory(f"Memory {n}.", id=identity(n))) for n in range(20)]
    await publish(world, changes)
    assert await ended(world) == 0
    do(world, "DELETE FROM memories")
    assert await ended(world, GROUP="another") == 0
    assert table(world) == []
    do(world, "TRUNCATE memories, memory_positions")
    assert await ended(world) == 0
    assert table(world) == newest(changes)


async def test_kafka_is_told_for_those_who_watch_the_lag(world: World) -> None:
    await publish(world, [change(memory(f"Memory {n}.", id=identity(n))) for n in range(20)])
    assert await ended(world) == 0
    assert await committed(world) == await ends(world)


UNUSABLE = {
    "a newer version": (
        b'{"kind": "applied", "schema_version": 2}',
        "kind 'applied' with schema_version 2; update this program",
    ),
    "an unknown kind": (
        b'{"kind": "forgotten", "schema_version": 1}',
        "kind 'forgotten' with schema_version 1; update this program",
    ),
    "a tombstone": (None, "it is a tombstone, which memsieve does not write"),
    "no JSON": (b"tea", "Expecting value: line 1"),
    "half a record": (b'{"kind": "applied", "schema_version": 1}', "no field 'memory'"),
}


@pytest.mark.parametrize("what", UNUSABLE)
async def test_what_it_cannot_use_stops_it_and_is_not_passed(world: World, what: str) -> None:
    value, problem = UNUSABLE[what]
    before = [change(memory(f"Memory {n}.", id=identity(n))) for n in range(3)]
    after = change(memory("Memory 0, later.", id=identity(0), version=2))
    await send(world, [*map(APPLIED.encode, before), value, APPLIED.encode(after)], partition=1)
    for _ in range(2):
        line = await stopped(world)
        assert f"{world.topic}/1/3 cannot be used: " in line
        assert problem in line
        assert table(world) == newest(before)
        assert positions(world) == {1: 3}
    assert (await committed(world)).get(1, 0) <= 3


async def test_what_the_database_refuses_stops_it_with_the_place_named(world: World) -> None:
    value = APPLIED.encode(change(memory("Ana likes tea.")))
    await send(world, [value.replace(b"2026-03-01T09", b"some day")], partition=0)
    assert f"the database refuses {world.topic}/0/0 to 0: " in await stopped(world)
    assert positions(world) == {}


async def test_a_position_that_the_topic_does_not_hold_stops_it(world: World) -> None:
    do(world, "INSERT INTO memory_positions VALUES (%s, 1, 7)", world.topic)
    line = await stopped(world)
    assert f"the table stands at {world.topic}/1/7, but the topic holds 0 to 0 there" in line


async def test_without_its_tables_it_says_where_to_look(world: World) -> None:
    do(world, "DROP TABLE memory_positions")
    line = await stopped(world)
    assert 'relation "memory_positions" does not exist' in line
    assert "see README.md, Set up" in line


async def test_without_its_variables_it_names_them() -> None:
    line = await stopped(None)
    assert "set DATABASE_URL and KAFKA_BOOTSTRAP; README.md tells to what" in line


@pytest.mark.parametrize("away", ["Kafka", "PostgreSQL"])
async def test_it_waits_for_what_is_away(world: World, away: str) -> None:
    changes = [change(memory("Ana likes tea."))]
    await publish(world, changes)
    with Door() as door:
        if away == "Kafka":
            host, _, port = world.bootstrap.partition(",")[0].rpartition(":")
            leads_to, outside = (host, int(port)), replace(world, bootstrap=door.address)
        else:
            with psycopg.connect(world.database) as connection:
                leads_to = (connection.info.host, connection.info.port)
            named = make_conninfo(world.database, host=door.host, port=door.port)
            outside = replace(world, database=named)
        async with started(outside, "--until-caught-up") as sink:
            await says(sink, "waiting")
            async with door.opened(*leads_to):
                assert await asyncio.wait_for(sink.wait(), END_SECONDS) == 0
    assert table(world) == newest(changes)


async def test_it_connects_anew_when_its_connection_is_lost(world: World) -> None:
    changes = [change(memory(f"Version {n}.", version=n)) for n in (1, 2)]
    async with started(world) as sink:
        await publish(world, changes[:1])
        await until(lambda: table(world) == newest(changes[:1]))
        ask(world, f"SELECT pg_terminate_backend(pid) {OTHERS}")
        await publish(world, changes[1:])
        await says(sink, "waiting")
        await until(lambda: table(world) == newest(changes))


async def test_a_second_one_stands_by_and_a_signal_ends_the_first(world: World) -> None:
    changes = [change(memory(f"Version {n}.", version=n)) for n in (1, 2)]
    async with started(world) as first:
        await says(first, f"from {world.topic}/1/0")
        async with started(world) as second:
            await says(second, "another sink writes this table, and this one stands by")
            await publish(world, changes[:1])
            await until(lambda: table(world) == newest(changes[:1]))
            first.send_signal(signal.SIGTERM)
            await says(first, "ended by a signal")
            assert await asyncio.wait_for(first.wait(), END_SECONDS) == 0
            await publish(world, changes)
            await until(lambda: table(world) == newest(changes))


def test_it_needs_nothing_but_its_requirements() -> None:
    named = re.findall(r"^[a-z]+", (EXAMPLE / "requirements.txt").read_text("utf-8"), re.MULTILINE)
    imported = re.findall(r"^(?:from|import) (\w+)", SINK.read_text("utf-8"), re.MULTILINE)
    assert set(imported) - sys.stdlib_module_names <= set(named)


def test_what_the_page_quotes_is_the_example() -> None:
    source = "\n".join(line.strip() for line in SINK.read_text("utf-8").splitlines())
    quoted = blocks(PAGE, indent="   ")
    assert len(quoted) == 3
    for block in quoted:
        assert "\n".join(line.strip() for line in block.splitlines()) in source


def test_the_page_believes_the_records_that_memsieve_believes() -> None:
    names = _names_of_code(PAGE)
    reject = Reject(
        decision_id=DecisionId("d"),
        source=Position(topic="memory.events", partition=0, offset=0),
        dead_letter_id="l",
    )
    late, true = Epoch(0, "late"), Epoch(1, "true")
    sent = [
        fence_record("late", 0, 1),
        fence_record("true", 0, 1),
        *(decision_record(reject, DECISION.encode(reject), 0, epoch) for epoch in (late, true)),
        OutgoingRecord(DECISIONS.name, 0, None, b"hello"),
    ]
    partition = names["Partition"]()
    counted = [
        offset for offset, one in enumerate(sent) if partition.counts(offset, dict(one.headers))
    ]
    records = [
        LogRecord(DECISIONS.name, 0, offset, one.key, one.value, one.headers)
        for offset, one in enumerate(sent)
    ]
    assert counted == [one.position.offset for one in DecisionsReader().window(records)] == [3]


def test_the_fold_on_the_page_is_memsieves_own(tmp_path: Path) -> None:
    decided = stores_decisions(tmp_path)
    assert {one.kind for one in decided} == {"insert", "reinforce", "merge", "replace", "ignore"}
    folded, ours = _folded([decision for one in decided for decision in (one, one)])
    assert {one: Memory.model_validate(found) for one, found in folded.items()} == ours
    assert any(not one.live for one in ours.values())


def test_the_fold_on_the_page_forgets_what_memsieve_forgets(tmp_path: Path) -> None:
    with memsieve.Memory(tmp_path / "store") as kept:
        tea = kept.add("Ana likes tea.", scope="acme/ana")
        kept.add("Ana likes tea!", scope="acme/ana")
        kept.add("Bo skis.", scope="acme/ana")
        assert tea.memory_id is not None
        kept.forget(tea.memory_id, author="ana")
        kept.add("Ana likes tea.", scope="acme/ana")
    decided = stores.decisions(tmp_path / "store")
    assert {"erase", "block"} <= {one.kind for one in decided}
    folded, ours = _folded(decided, holed=True)
    assert {one: Memory.model_validate(found) for one, found in folded.items()} == ours
    assert "tea" not in json.dumps(folded)


def _folded(
    decided: Sequence[Decision], *, holed: bool = False
) -> tuple[dict[str, Any], dict[MemoryId, Memory]]:
    """Return the memories that the page's code makes of decisions, and those that memsieve makes."""
    names = _names_of_code(PAGE)
    folded = dict[str, Any]()
    state = dict[MemoryId, StoredMemory]()
    for decision in decided:
        names["fold"](folded, json.loads(DECISION.encode(decision)))
        fold(state, decision, holed=holed)
    return folded, {identity: stored.memory for identity, stored in state.items()}


def _names_of_code(page: Path, language: str = r"\w+") -> dict[str, Any]:
    """Return what the only block of code on a page defines."""
    [code] = blocks(page, language)
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 - it is ours
    return names


async def test_every_wording_of_a_live_memory_is_found_by_vector(world: World) -> None:
    do(world, (EXAMPLE / "vectors.sql").read_text(encoding="utf-8"))
    folder = str(models_dir() / DEFAULT_MODEL.replace("/", "--"))
    with_vectors = {"EMBEDDING_MODEL": DEFAULT_MODEL, "EMBEDDING_DIR": folder}
    gone = {"by": identity(2), "at": later(1), "reason": "newer-contradiction"}
    ana = memory("Ana lives in Lyon.", id=identity(1))
    bo = memory("Bo rows every morning.", id=identity(2))
    said_again = "The city where Ana has her home is Lyon."
    await publish(world, [change(ana), change(bo)])
    assert await ended(world, **with_vectors) == 0
    reworded = worded(StoredMemory(ana, at_cosine(1.0)), (said_again, at_cosine(0.9))).memory
    await publish(world, [change(reworded.model_copy(update={"version": 2}))])
    assert await ended(world, **with_vectors) == 0
    names = _names_of_code(EXAMPLE / "README.md", "python")
    model = TextEmbedding(DEFAULT_MODEL, specific_model_path=folder)

    def found(question: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(world.database) as connection:
            return names["nearest"](connection, model, question, "acme/ana", 1)

    [(memory_id, text, wording, similarity)] = found(said_again)
    assert (memory_id, text, wording) == (ana.id, ana.text, said_again)
    assert similarity == pytest.approx(1.0, abs=1e-4)
    retired = memory(ana.text, id=ana.id, version=3, status="superseded", superseded=gone)
    await publish(world, [change(retired)])
    assert await ended(world, **with_vectors) == 0
    assert [row[0] for row in found(said_again)] == [bo.id]
    assert ask(world, "SELECT count(*) FROM memory_wordings") == [(1,)]


async def test_a_model_that_is_not_there_stops_the_sink(world: World, tmp_path: Path) -> None:
    async with started(world, EMBEDDING_MODEL="nobody/none", EMBEDDING_DIR=str(tmp_path)) as sink:
        _, told = await asyncio.wait_for(sink.communicate(), END_SECONDS)
    assert sink.returncode == 1
    assert "stopped: EMBEDDING_MODEL nobody/none cannot be loaded" in told.decode()


async def test_the_readme_names_every_variable_and_its_statements_run(world: World) -> None:
    readme = (EXAMPLE / "README.md").read_text("utf-8")
    named = re.findall(r'"([A-Z]+_?[A-Z]*)"', SINK.read_text("utf-8"))
    assert [name for name in {*variables(world), *named} if f"`{name}`" not in readme] == []
    for block in blocks(EXAMPLE / "README.md", "sql"):
        do(world, block)


def blocks(page: Path, language: str = r"\w+", indent: str = "") -> list[str]:
    """Return the code of a page that is indented so far."""
    fence = rf"^{indent}```{language}\n(.*?)^{indent}```$"
    return re.findall(fence, page.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def stores_decisions(directory: Path) -> list[Decision]:
    """Return memsieve's decisions on events that bring about each kind of change."""
    tea, more = "Ana likes tea and cake.", "Ana likes tea and cake. She has them at four."
    code, other = "It is 12.", "It is 34."
    near = dict.fromkeys((tea, more), (1, 0, 0))
    vectors = {**near, code: (0, 1, 0), other: (0, 0, 1)}
    rows = [
        {"text": tea, "event_id": "1"},
        {"text": tea, "event_id": "2"},
        {"text": more, "event_id": "3"},
        {"text": code, "event_id": "4", "memory_id": "code"},
        {"text": other, "event_id": "5", "memory_id": "code"},
        {"text": tea, "event_id": "1"},
    ]
    file = directory / "rows.jsonl"
    when = START.isoformat()
    lines = [json.dumps({**row, "scope": "acme/ana", "occurred_at": when}) for row in rows]
    file.write_text("\n".join(lines), encoding="utf-8")
    embedder = FakeEmbedder(vectors, model=DEFAULT_MODEL)
    stores.run([file], directory / "store", embedder=lambda: embedder, index="exact")
    return stores.decisions(directory / "store")


def change(state: Memory) -> Applied:
    """Return the record of a memory that has come to a state."""
    return Applied(
        memory_id=state.id,
        memory=state,
        decision_id=DecisionId(f"decision on {state.id} {state.version}"),
        decided=Position(topic="memory.decisions", partition=0, offset=state.version),
    )


def delivered_again(changes: Sequence[Applied], window: int) -> list[Applied]:
    """Return what a writer publishes that crashes in each window, and then repeats it."""
    windows = [changes[at : at + window] for at in range(0, len(changes), window)]
    return [one for records in windows for one in (*records[: window // 2], *records)]


async def publish(world: World, changes: Sequence[Applied]) -> None:
    """Publish as the writer does: what concerns one memory goes to one partition, in order."""
    for partition in range(PARTITIONS):
        ours = [one for one in changes if int(one.memory_id[-1]) % PARTITIONS == partition]
        await send(world, [APPLIED.encode(one) for one in ours], partition)


async def send(world: World, values: Sequence[bytes | None], partition: int) -> None:
    async with AIOKafkaProducer(bootstrap_servers=world.bootstrap) as producer:
        sent = [await producer.send(world.topic, value, b"id", partition) for value in values]
        await asyncio.gather(*sent)


@asynccontextmanager
async def administrator(world: World) -> AsyncGenerator[AIOKafkaAdminClient]:
    admin = AIOKafkaAdminClient(bootstrap_servers=world.bootstrap)
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()


def places(world: World) -> list[TopicPartition]:
    return [TopicPartition(world.topic, partition) for partition in range(PARTITIONS)]


async def ends(world: World) -> dict[int, int]:
    """Return where the partitions end that hold anything."""
    reader: AIOKafkaConsumer[bytes, bytes] = AIOKafkaConsumer(bootstrap_servers=world.bootstrap)
    async with reader as consumer:
        found = await consumer.end_offsets(places(world))
    return {place.partition: end for place, end in found.items() if end}


async def committed(world: World) -> dict[int, int]:
    """Return what the sink's group has told Kafka."""
    async with administrator(world) as admin:
        found = await admin.list_consumer_group_offsets(world.group, partitions=places(world))
    return {place.partition: told.offset for place, told in found.items() if told.offset >= 0}


def do(world: World, statements: str, *values: object) -> None:
    with psycopg.connect(world.database) as connection:
        connection.execute(statements.encode(), values or None)


def ask(world: World, query: str, *values: object) -> list[tuple[Any, ...]]:
    with psycopg.connect(world.database) as connection:
        return connection.execute(query.encode(), values).fetchall()


def connected(world: World, *, waiting: bool = False) -> int:
    """Return how many others use the database for this test, or wait for a lock in it."""
    query = f"SELECT count(*) {OTHERS} AND (NOT %s OR wait_event_type = 'Lock')"
    [(count,)] = ask(world, query, waiting)
    return int(count)


def positions(world: World) -> dict[int, int]:
    """Return where the table stands."""
    found = ask(world, "SELECT topic, partition, next_offset FROM memory_positions")
    return {partition: offset for topic, partition, offset in found if topic == world.topic}


def followed(world: World) -> int:
    return sum(positions(world).values())


def table(world: World) -> list[tuple[Any, ...]]:
    """Return every row, as `newest` does."""
    query = """
        SELECT memory_id, version, scope, text, status, superseded_by, created_at, last_seen_at,
               decision_id, memory
        FROM memories
    """
    return sorted((*row, Memory.model_validate(whole)) for *row, whole in ask(world, query))


def newest(changes: Sequence[Applied]) -> list[tuple[Any, ...]]:
    """Return the rows that the changes add up to: of each memory its highest version."""
    last = {one.memory_id: one for one in sorted(changes, key=lambda one: one.memory.version)}
    return sorted(map(_row, last.values()))


def _row(one: Applied) -> tuple[Any, ...]:
    state = one.memory
    named = (one.memory_id, state.version, state.scope, state.text, state.status.value)
    by = state.superseded.by if state.superseded else None
    return (*named, by, state.created_at, state.last_seen_at, one.decision_id, state)


@asynccontextmanager
async def started(world: World | None, *options: str, **others: str) -> AsyncGenerator[Process]:
    """Run the example as its own process, which is gone at the end."""
    sink = await asyncio.create_subprocess_exec(
        sys.executable, "-I", SINK, *options, stderr=PIPE, env=variables(world) | others
    )
    try:
        yield sink
    finally:
        with suppress(ProcessLookupError):
            sink.kill()
        await sink.communicate()


def variables(world: World | None) -> dict[str, str]:
    if world is None:
        return {}
    return {
        "KAFKA_BOOTSTRAP": world.bootstrap,
        "DATABASE_URL": world.database,
        "TOPIC": world.topic,
        "GROUP": world.group,
    }


async def ended(world: World, **others: str) -> int:
    """Run it until it has caught up, and return how it ended."""
    async with started(world, "--until-caught-up", **others) as sink:
        await asyncio.wait_for(sink.communicate(), END_SECONDS)
    assert sink.returncode is not None
    return sink.returncode


async def stopped(world: World | None) -> str:
    """Run it until it stops by itself, and return the one line that says why."""
    async with started(world) as sink:
        _, said = await asyncio.wait_for(sink.communicate(), END_SECONDS)
    assert sink.returncode == 1
    [line] = [line for line in said.decode().splitlines() if " stopped: " in line]
    assert said.decode().splitlines()[-1] == line
    return line


async def says(sink: Process, words: str) -> None:
    """Return when a line with these words has come."""
    assert sink.stderr is not None
    heard = b""
    while words not in heard.decode():
        line = await asyncio.wait_for(sink.stderr.readline(), END_SECONDS)
        assert line, f"it never said {words!r}, but: {heard.decode()}"
        heard += line


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(END_SECONDS):
        while not true():  # noqa: ASYNC110 - it becomes true in another process
            await asyncio.sleep(PAUSE_SECONDS)


class Door:
    """A port that refuses everybody, until it is opened and leads to another one."""

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self.host, self.port = self._socket.getsockname()
        self.address = f"{self.host}:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    @asynccontextmanager
    async def opened(self, host: str, port: int) -> AsyncGenerator[None]:
        async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there, back = await asyncio.open_connection(host, port)
            await asyncio.gather(_copy(reader, back), _copy(there, writer))

        async with await asyncio.start_server(lead, sock=self._socket):
            yield


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(65_536):
        target.write(data)
    target.close()
