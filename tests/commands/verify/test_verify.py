"""`memsieve check --full`: a clean store is found clean, and each damage is found and named."""

import asyncio
import json
import re
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import qdrant_edge as engine

from schemas.base import MemoryId, Position
from schemas.codec import APPLIED, DECISION, EVENT
from schemas.decisions import Decision, Insert, Reinforce
from schemas.events import Remember
from schemas.memories import Memory, Persistence, Standing, Superseded
from schemas.topics import DECISIONS, TOPICS
from streams.index.payload import to_payload
from streams.log.local_broker import LocalBroker
from streams.memories_md.core.entries import entries
from streams.memories_md.core.keeping import words_digest
from streams.memories_md.core.parsing import parse
from streams.model.fences import Epoch, ReadPosition
from streams.model.neighbours import StoredMemory
from streams.model.ports.failures import Transient
from streams.model.ports.log import LogRecord, OutgoingRecord
from streams.stage.core.case import Case
from streams.stage.core.decide import forward, recognise
from streams.stage.flow.decisions import decision_record, fence_record
from streams.store.app import wiring
from streams.store.world.store_directory import IndexKind, StoreDirectory
from streams.verify.app.auditing import audited
from streams.verify.app.copies import IndexCopy
from streams.verify.core.copies import HeldMemory
from tests.builders import event, policy
from tests.commands.conftest import Memsieve, start_holding, write_events
from tests.simulation.schedule import Schedule
from tests.support.machine.waiting import wait_until
from tests.support.stage.stores import run

ROOT = Path(__file__).parents[3]
EXAMPLES = [ROOT / "examples" / f"{name}.jsonl" for name in ("coffee", "team", "trap-door")]
EVENTS = (
    event("Ana orders a flat white.", event_id="e0"),
    event("Ana orders a flat white. She has it without sugar.", event_id="e1"),
    event("Bo has a red bicycle.", event_id="e2"),
    event("Bo has a red bicycle.", event_id="e3"),
    event("Bo has a red bicycle.", event_id="e2"),
    event("Ana orders a flat white.", event_id="e5").model_copy(update={"scope": "acme/*"}),
    event("Bo sold the bicycle.", event_id="e2"),
    event("The cellar is flooded.", event_id="e7", scope="acme/ben"),
)
KINDS = ["insert", "merge", "insert", "reinforce", "ignore", "reject", "reject", "insert"]
WHITE, MERGED, BICYCLE, AGAIN, IGNORED, _, REJECTED, CELLAR = range(1, 9)
"""Where the decisions lie: a fence comes before them."""

TABLE, FEED = "memories.sqlite3", "feed"

Found = Mapping[str, Mapping[str, int]]
"""By check, how many of which problem."""


@dataclass(frozen=True)
class Store:
    """A store to be damaged."""

    path: Path

    def sql(self, statement: str, *values: object) -> list[Any]:
        with closing(sqlite3.connect(self.path / "log.sqlite3")) as db, db:
            return db.execute(statement, values).fetchall()

    def value(self, offset: int, topic: str = "memory.decisions") -> bytes:
        query = 'SELECT value FROM records WHERE topic = ? AND "offset" = ?'
        [(value,)] = self.sql(query, topic, offset)
        return value

    def decision(self, offset: int) -> Any:
        return DECISION.decode(self.value(offset))

    def set_value(self, offset: int, value: bytes, topic: str = "memory.decisions") -> None:
        change = 'UPDATE records SET value = ? WHERE topic = ? AND "offset" = ?'
        self.sql(change, value, topic, offset)

    def rewrite(self, offset: int, **fields: object) -> None:
        """Change a decision, or fence, where it lies."""
        changed = self.decision(offset).model_copy(update=fields)
        self.set_value(offset, DECISION.encode(changed))

    def delete(self, offset: int, topic: str = "memory.decisions") -> None:
        self.sql('DELETE FROM records WHERE topic = ? AND "offset" = ?', topic, offset)

    def append(self, *records: OutgoingRecord) -> list[int]:
        with closing(wiring.log(StoreDirectory(self.path), read_only=False)) as log:
            return asyncio.run(log.append(records))

    def publish(self, said: Remember) -> int:
        """Append an event."""
        record = OutgoingRecord("memory.events", 0, said.scope.encode(), EVENT.encode(said))
        return self.append(record)[0]

    def decide(self, *decisions: Decision, epoch: Epoch | None = None) -> list[int]:
        """Append decisions as the owner would."""
        epoch = epoch or Epoch(0, self.decision(0).owner)
        records = [decision_record(one, DECISION.encode(one), 0, epoch) for one in decisions]
        return self.append(*records)

    @contextmanager
    def shard(self) -> Generator[engine.EdgeShard]:
        opened = engine.EdgeShard.load(str(self.path / "index"))
        yield opened
        opened.flush()
        opened.close()

    def put(self, stored: StoredMemory) -> None:
        """Put a point into the index, whatever is there."""
        assert stored.vector is not None
        point = engine.Point(stored.memory.id, stored.vector.tolist(), to_payload(stored))
        with self.shard() as shard:
            shard.update(engine.UpdateOperation.upsert_points([point]))

    def stored(self, offset: int) -> StoredMemory:
        """Return what the index holds of the memory that a decision makes."""
        index = wiring.index(IndexKind.EDGE, self.path / "index", 384)
        identity = self.decision(offset).memory.id

        async def get() -> StoredMemory:
            try:
                return (await index.get([identity]))[identity]
            finally:
                await index.close()

        return asyncio.run(get())

    @property
    def level(self) -> Path:
        return self.path / "index" / "level.json"

    def set_level(self, partition: str = "0", **reached: object) -> None:
        """Say that the index has followed a partition so far."""
        level = json.loads(self.level.read_text("utf-8"))
        followed = level["partitions"]["0"]
        followed = {**followed, "reached": {**followed["reached"], **reached}}
        level["partitions"][partition] = followed
        self.level.write_text(json.dumps(level), "utf-8")


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the store, with sinks beside it, that every test damages a copy of."""
    path = tmp_path_factory.mktemp("sound")
    lines = "".join(f"{one.model_dump_json()}\n" for one in EVENTS)
    (path / "events.jsonl").write_text(lines, "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEMSIEVE_SINKS__SQLITE", str(path / TABLE))
        patch.setenv("MEMSIEVE_SINKS__JSONL", str(path / FEED))
        tally = run([path / "events.jsonl"], path / "store")
    assert (tally.decisions, tally.dead_letters) == (6, 2)
    return path


@pytest.fixture
def store(sound: Path, tmp_path: Path) -> Store:
    shutil.copytree(sound / "store", tmp_path / "store")
    return Store(tmp_path / "store")


def verified(memsieve: Memsieve, code: int = 0, store: str = "store") -> Any:
    result = memsieve("check", "--full", "--store", store, "--json")
    assert result.code == code, result.out + result.err
    return result.json()


def found(report: Any) -> dict[str, dict[str, int]]:
    return {check["name"]: check["found"] for check in report["checks"] if check["found"]}


def named(report: Any, problem: str) -> str:
    """Return all that is said of a problem."""
    findings = [one for check in report["checks"] for one in check["findings"]]
    said = [one for one in findings if one["problem"] == problem]
    assert all(one["remedy"] for one in said)
    return "\n".join(f"{one['place']} {one['what']}" for one in said)


def facts(report: Any) -> dict[str, str]:
    return {check["name"]: check["fact"] for check in report["checks"]}


def test_a_sound_store_is_found_sound(memsieve: Memsieve, store: Store) -> None:
    report = verified(memsieve)
    assert [store.decision(offset).kind for offset in range(1, 9)] == KINDS
    assert (report["healthy"], found(report), report["notes"]) == (True, {}, [])
    assert report["counts"] == {
        "events": 8,
        "decisions": {
            "insert": 3,
            "merge": 1,
            "replace": 0,
            "reinforce": 1,
            "revise": 0,
            "erase": 0,
            "ignore": 1,
            "reject": 2,
            "forward": 0,
            "block": 0,
        },
        "waiting": 0,
        "in_doubt": 0,
        "fences": 1,
        "refused": {"foreign": 0, "stale": 0, "again": 0},
        "memories": {"live": 3, "retired": 1},
    }
    assert list(facts(report)) == [
        *("log", "partitions", "events", "fold", "wordings", "successors", "letters"),
        *("forwards", "counts", "index"),
    ]
    assert "4 memories as the log says" in facts(report)["index"]


@pytest.mark.usefixtures("store")
def test_people_get_a_line_per_check_and_a_table(memsieve: Memsieve) -> None:
    result = memsieve("check", "--full", "--store", "store")
    assert (result.code, result.err) == (0, "")
    assert "ok  events      one decision each; 0 waiting\n" in result.out
    assert "events                8\n  insert              3\n" in result.out
    assert "!!" not in result.out


@pytest.mark.covers("B66", "C9")
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("index", ["edge", "exact"])
def test_what_runs_leave_behind_is_sound(
    partitions: int, index: str, memsieve: Memsieve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMSIEVE_LOG__PARTITIONS", str(partitions))
    monkeypatch.setenv("MEMSIEVE_SINKS__SQLITE", str(tmp_path / "memories.sqlite3"))
    monkeypatch.setenv("MEMSIEVE_SINKS__JSONL", str(tmp_path / "feed"))
    monkeypatch.setenv("MEMSIEVE_INDEX__KIND", index)
    for runs in (1, 2):
        assert memsieve("run", *EXAMPLES, "--store", "store").code == 0
        report = verified(memsieve)
        assert found(report) == {}
        assert facts(report)["sqlite"].endswith("memories as the log says")
        assert facts(report)["jsonl"].endswith("memories as the log says")
        assert report["counts"]["events"] == 22 * runs
        assert report["counts"]["fences"] == partitions * runs


async def test_what_troubled_services_leave_behind_is_sound() -> None:
    """Crashes, stalls, fences, late records, forwards: none of it is taken for damage."""
    refused = sent_on = 0
    for seed in (*range(20), *range(50, 60)):
        schedule = Schedule(seed)
        schedule.run()
        copied = IndexCopy(schedule.cluster.index, "exact", "")
        report = await audited(schedule.cluster.log, [copied], nobody)
        assert [check.findings.shown for check in report.checks if not check.healthy] == []
        refused += report.counts.refused["stale"]
        sent_on += report.counts.decisions["forward"]
    assert refused > 0
    assert sent_on > 0


def nobody(done: int, total: int) -> None:
    """Listen to no progress."""
    del done, total


class GrowingLog(LocalBroker):
    """Shows its decisions up to an offset, until it has grown."""

    shown = 0

    async def read(self, topic: str, partition: int, offset: int, limit: int) -> list[LogRecord]:
        records = await super().read(topic, partition, offset, limit)
        hidden = topic == DECISIONS.name and self.shown > 0
        return [one for one in records if not hidden or one.offset < self.shown]


@dataclass(frozen=True)
class Meanwhile(IndexCopy):
    """An index whose level is known, when decisions are appended and applied to it."""

    log: GrowingLog = field(default_factory=GrowingLog)
    level: int = 0

    async def levels(self, partitions: int) -> Mapping[int, ReadPosition]:
        return dict.fromkeys(range(partitions), ReadPosition(self.level))

    async def scan(self, partitions: int) -> AsyncIterator[HeldMemory]:
        self.log.shown = 0
        async for stored in super().scan(partitions):
            yield stored


async def test_decisions_that_are_applied_meanwhile_are_read_on() -> None:
    schedule = Schedule(0)
    schedule.run()
    log, before = GrowingLog(), schedule.cluster.log
    for topic in TOPICS:
        log.create(topic.name, await before.partitions(topic.name))
        for partition in range(await before.partitions(topic.name)):
            for one in await before.read(topic.name, partition, 0, 10_000):
                await log.append(
                    [OutgoingRecord(one.topic, partition, one.key, one.value or b"", one.headers)]
                )
    log.shown = 3
    copied = Meanwhile(schedule.cluster.index, "exact", "", log=log, level=3)
    report = await audited(log, [copied], nobody)
    assert [check.findings.shown for check in report.checks if not check.healthy] == []
    assert report.counts.waiting == 0


@dataclass(frozen=True)
class Emptied(IndexCopy):
    """An index that is made anew while it is read."""

    asked: list[int] = field(default_factory=list[int])

    async def levels(self, partitions: int) -> Mapping[int, ReadPosition]:
        self.asked.append(partitions)
        return await super().levels(partitions) if len(self.asked) == 1 else {}


async def test_an_index_that_is_made_anew_meanwhile_is_not_judged() -> None:
    schedule = Schedule(0)
    schedule.run()
    with pytest.raises(Transient, match="the index was rebuilt or replaced meanwhile"):
        await audited(schedule.cluster.log, [Emptied(schedule.cluster.index, "", "")], nobody)


def test_nothing_is_changed(memsieve: Memsieve, store: Store) -> None:
    def content() -> dict[Path, bytes]:
        """Return all but what belongs to the engines alone."""
        files = [path for path in store.path.rglob("*") if path.is_file()]
        kept = [
            path for path in files if "sqlite3-" not in path.name and "segments" not in path.parts
        ]
        return {path: path.read_bytes() for path in kept}

    before = content()
    verified(memsieve)
    assert content() == before


def test_a_store_that_is_written_is_read_but_for_what_follows_the_log(
    memsieve: Memsieve, store: Store, tmp_path: Path
) -> None:
    with start_holding("store", cwd=tmp_path) as process:
        lock = store.path / "lock"
        wait_until(lambda: lock.read_text() == str(process.pid), "the store is held")
        report = verified(memsieve)
    assert f"being written by process {process.pid}" in facts(report)["index"]
    assert any("index: being written" in note for note in report["notes"])


def test_a_place_without_a_store_is_told(memsieve: Memsieve) -> None:
    result = memsieve("check", "--full", "--store", "none")
    assert result.code == 3
    assert result.err.startswith("memsieve: none holds no store")


Damage = Callable[[Store], object]


def flipped(value: bytes, at: int) -> bytes:
    return value[:at] + bytes([value[at] ^ 0x80]) + value[at + 1 :]


def future(store: Store) -> None:
    store.set_value(AGAIN, store.value(AGAIN).replace(b'"reinforce"', b'"consolidate"'))


def future_version(store: Store) -> None:
    value = store.value(BICYCLE).replace(b'"schema_version":1', b'"schema_version":2', 1)
    store.set_value(BICYCLE, value)


def headers_lost(store: Store) -> None:
    lose = "UPDATE records SET headers = replace(headers, 'memsieve-event-id', 'x')"
    store.sql(f"{lose} WHERE topic = 'memory.decisions' AND \"offset\" = {CELLAR}")


def another_text(store: Store) -> None:
    made: Insert = store.decision(CELLAR)
    store.rewrite(CELLAR, memory=made.memory.model_copy(update={"text": "The cellar is dry."}))


def reinforced(store: Store, memory: Memory, scope: str | None = None, **fields: Any) -> Reinforce:
    """Publish an event, and return a decision on it that makes a memory something else."""
    said = event(memory.text, event_id=f"forged {' '.join(fields)}", scope=scope or memory.scope)
    source = Position(topic="memory.events", partition=0, offset=store.publish(said))
    made = recognise(Case(said, source, policy()), memory)
    return made.model_copy(update={"memory": made.memory.model_copy(update=fields)})


def superseded(store: Store, memory: Memory, by: str) -> Reinforce:
    why = Superseded(by=MemoryId(by), at=memory.created_at, reason="forged")
    return reinforced(store, memory, status=Standing.SUPERSEDED, superseded=why)


def superseded_by_nothing(store: Store) -> None:
    store.decide(superseded(store, store.decision(CELLAR).memory, "no-memory"))


def superseded_in_a_circle(store: Store) -> None:
    """Let what a merge has retired stand for what it was merged into."""
    first = store.decision(WHITE).memory.id
    store.decide(superseded(store, store.decision(MERGED).memory, first))


def decided_twice(store: Store) -> None:
    said = EVENTS[-1]
    source = Position(topic="memory.events", partition=0, offset=store.publish(said))
    store.decide(recognise(Case(said, source, policy()), store.decision(CELLAR).memory))


def beyond_the_events(store: Store) -> None:
    made = reinforced(store, store.decision(CELLAR).memory)
    store.delete(made.source.offset, "memory.events")
    store.sql("UPDATE partitions SET next_offset = 8 WHERE topic = 'memory.events'")
    store.decide(made)


def not_sent_on(store: Store) -> None:
    said = event("Ana rows.", event_id="rows")
    source = Position(topic="memory.events", partition=0, offset=store.publish(said))
    store.decide(forward(source, said, 0))


def of_another_scope(store: Store) -> None:
    store.decide(reinforced(store, store.decision(CELLAR).memory, scope="acme/ana"))


def another_vector(store: Store) -> None:
    made: Insert = store.decision(CELLAR)
    values = made.embedding.values
    changed = ("B" if values[0] == "A" else "A") + values[1:]
    embedding = made.embedding.model_copy(update={"values": changed})
    store.rewrite(CELLAR, embedding=embedding)


def another_target(store: Store) -> None:
    target = store.decision(AGAIN).target.model_copy(update={"version": 7})
    store.rewrite(AGAIN, target=target)


def index_without(store: Store) -> None:
    with store.shard() as shard:
        shard.update(engine.UpdateOperation.delete_points([store.decision(CELLAR).memory.id]))


def index_with_another_text(store: Store) -> None:
    stored = store.stored(CELLAR)
    another = stored.memory.model_copy(update={"text": "The cellar is dry."})
    store.put(replace(stored, memory=another))


def index_with_an_older_version(store: Store) -> None:
    store.put(replace(store.stored(AGAIN), memory=store.decision(BICYCLE).memory))


def index_with_more(store: Store) -> None:
    stored = store.stored(CELLAR)
    more = stored.memory.model_copy(update={"id": "00000000-0000-5000-8000-000000000001"})
    store.put(replace(stored, memory=more))


def index_with_another_vector(store: Store) -> None:
    stored = store.stored(CELLAR)
    assert stored.vector is not None
    store.put(replace(stored, vector=-stored.vector))


def index_that_is_damaged(store: Store) -> None:
    for wal in (store.path / "index" / "wal").iterdir():
        wal.write_bytes(b"junk")


DAMAGES: Mapping[str, tuple[Damage, Found, str]] = {
    "a decision is gone": (
        lambda store: store.delete(IGNORED),
        {"log": {"record-lost": 1}, "events": {"undecided": 1}, "counts": {"unequal": 1}},
        "memory.decisions/0/5 is not there",
    ),
    "a decision is gone that others build on": (
        lambda store: store.delete(BICYCLE),
        {
            "log": {"record-lost": 1},
            "fold": {"does-not-build": 1},
            "events": {"undecided": 1},
            "counts": {"unequal": 1},
        },
        "memory.decisions/0/3 is not there",
    ),
    "the last decision is gone": (
        lambda store: store.delete(CELLAR),
        {"events": {"undecided": 1}, "counts": {"unequal": 1}, "index": {"extra": 1}},
        "memory.events/0/7 has no decision",
    ),
    "the beginning is gone": (
        lambda store: store.delete(0),
        {"log": {"beginning-lost": 1}},
        "memory.decisions/0/1 is where the decisions begin",
    ),
    "a decision is cut short": (
        lambda store: store.set_value(MERGED, store.value(MERGED)[:-100]),
        {"log": {"cut-short": 1}},
        "memory.decisions/0/2 is not a decision",
    ),
    "a decision is empty": (
        lambda store: store.set_value(MERGED, b""),
        {"log": {"cut-short": 1}},
        "memory.decisions/0/2 is not a decision",
    ),
    "a byte is flipped": (
        lambda store: store.set_value(MERGED, flipped(store.value(MERGED), 30)),
        {"log": {"damaged": 1}},
        "memory.decisions/0/2 is not a decision",
    ),
    "a byte of the last decision is flipped": (
        lambda store: store.set_value(CELLAR, flipped(store.value(CELLAR), 30)),
        {"log": {"damaged": 1}},
        "memory.decisions/0/8 is not a decision",
    ),
    "a text is another": (
        another_text,
        {
            "fold": {"other-words": 1},
            "wordings": {"wording-lost": 1},
            "index": {"differing": 1},
        },
        "memory.decisions/0/8 gives memory",
    ),
    "a vector is another": (another_vector, {"index": {"differing": 1}}, "in: vector"),
    "a kind is from the future": (
        future,
        {"log": {"newer": 1}},
        "memory.decisions/0/4 is not a decision: kind is 'consolidate'",
    ),
    "a version is from the future": (
        future_version,
        {"log": {"newer": 1}},
        "memory.decisions/0/3 is not a decision: schema_version 2",
    ),
    "a fence says it is a decision": (
        lambda store: store.set_value(IGNORED, store.value(0)),
        {"log": {"damaged": 1}},
        "memory.decisions/0/5 is a fence",
    ),
    "headers are lost": (
        headers_lost,
        {"log": {"mislabelled": 1}},
        "memory.decisions/0/8 has a key, or headers",
    ),
    "a key is another": (
        lambda store: store.sql(
            "UPDATE records SET key = x'78' WHERE topic = ? AND \"offset\" = 8", "memory.decisions"
        ),
        {"log": {"mislabelled": 1}},
        "memory.decisions/0/8 has a key, or headers",
    ),
    "a fence is damaged": (
        lambda store: store.set_value(0, b"{"),
        {"log": {"fence-damaged": 1}},
        "memory.decisions/0/0 is a fence that cannot be read",
    ),
    "a fence is without its owner": (
        lambda store: store.rewrite(0, owner="somebody"),
        {"log": {"fence-without-owner": 1}},
        "memory.decisions/0/0 is a fence without its owner's token",
    ),
    "a fence is of other partitions": (
        lambda store: store.rewrite(0, partitions=7),
        {"partitions": {"partitions-differ": 1}},
        "memory.decisions/0/0 is a fence of one among 7",
    ),
    "a fence is of another partition": (
        lambda store: store.rewrite(0, partition=7),
        {"partitions": {"fence-misplaced": 1}},
        "memory.decisions/0/0 is a fence of partition 7",
    ),
    "topics have different partitions": (
        lambda store: store.sql("INSERT INTO partitions VALUES ('memory.events', 1, 0)"),
        {"partitions": {"partitions-differ": 1}},
        "memory.events has 2 partition(s), but memory.decisions has 1",
    ),
    "a target is of another version": (
        another_target,
        {"fold": {"does-not-build": 1}},
        "at version 7, but it was at 1",
    ),
    "a successor is nowhere": (
        superseded_by_nothing,
        {"successors": {"no-successor": 1}},
        "leads to memory no-memory",
    ),
    "successors go in a circle": (
        superseded_in_a_circle,
        {"successors": {"successor-cycle": 2}},
        "leads back to memory",
    ),
    "an event changes memories twice": (
        decided_twice,
        {"events": {"decided-twice": 1}},
        "for event e7, as memory.decisions/0/8 did",
    ),
    "a decision is beyond the events": (
        beyond_the_events,
        {"events": {"beyond-events": 1}, "counts": {"unequal": 1}},
        "memory.decisions/0/9 decides on memory.events/0/8, but the events end at 8",
    ),
    "an event is gone": (
        lambda store: store.delete(2, "memory.events"),
        {"events": {"no-event": 1}, "counts": {"unequal": 1}},
        "memory.decisions/0/3 decides on memory.events/0/2, but there is no such record",
    ),
    "an event is another": (
        lambda store: store.set_value(2, EVENT.encode(EVENTS[0]), "memory.events"),
        {"events": {"other-event": 1}},
        "memory.decisions/0/3 decides on memory.events/0/2, and on another event",
    ),
    "a dead letter is gone": (
        lambda store: store.delete(1, "memory.dead-letters"),
        {"letters": {"no-dead-letter": 1}},
        "memory.decisions/0/7 is a reject",
    ),
    "a dead letter is damaged": (
        lambda store: store.set_value(0, b"{", "memory.dead-letters"),
        {"letters": {"dead-letter-damaged": 1}},
        "memory.dead-letters/0/0 is not a dead letter",
    ),
    "a forwarded event is gone": (
        not_sent_on,
        {"forwards": {"not-forwarded": 1}},
        "memory.events/0/8 was sent on to partition 0",
    ),
    "a memory is of another scope": (
        of_another_scope,
        {"fold": {"other-scope": 2}},
        "memory.decisions/0/9 is on scope acme/ana",
    ),
    "the index lacks a memory": (
        index_without,
        {"index": {"lacking": 1}},
        "it is in the log",
    ),
    "the index has another text": (
        index_with_another_text,
        {"index": {"differing": 1}},
        "differs from the log in: text",
    ),
    "the index has an older version": (
        index_with_an_older_version,
        {"index": {"differing": 1}},
        "is at version 1, and at 2 by the log",
    ),
    "the index has one more": (
        index_with_more,
        {"index": {"extra": 1}},
        "the log knows no such memory",
    ),
    "the index has another vector": (
        index_with_another_vector,
        {"index": {"differing": 1}},
        "in: vector",
    ),
    "the index has forgotten decisions": (
        lambda store: store.put(replace(store.stored(AGAIN), decided=())),
        {"index": {"differing": 1}},
        "in: decisions",
    ),
    "the index is beyond the log": (
        lambda store: store.set_level(offset=99),
        {"index": {"other-log": 1}},
        "the index has followed memory.decisions/0 to 99, but it ends at 9",
    ),
    "the index is of another log": (
        lambda store: store.set_level(epoch={"offset": 0, "owner": "somebody"}),
        {"index": {"other-log": 1}},
        "memory.decisions/0/0 is not the fence that the index has followed",
    ),
    "the index is of more partitions": (
        lambda store: store.set_level(partition="1"),
        {"index": {"other-log": 1}},
        "there is no such partition",
    ),
    "the level of the index is damaged": (
        lambda store: store.level.write_text("{", "utf-8"),
        {"index": {"unusable": 1}},
        "level.json is damaged",
    ),
    "the index is damaged": (index_that_is_damaged, {"index": {"unusable": 1}}, "is damaged"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_each_damage_is_found_and_named(name: str, memsieve: Memsieve, store: Store) -> None:
    damage, expected, said = DAMAGES[name]
    damage(store)
    report = verified(memsieve, code=8)
    assert found(report) == expected
    [problem] = next(iter(expected.values()))
    assert said in named(report, problem)
    assert not report["healthy"]
    unhealthy = {check["name"] for check in report["checks"] if not check["healthy"]}
    assert unhealthy == expected.keys()


def test_people_are_told_what_was_found_and_what_to_do(memsieve: Memsieve, store: Store) -> None:
    index_without(store)
    identity = store.decision(CELLAR).memory.id
    result = memsieve("check", "--full", "--store", "store")
    assert result.code == 8
    assert "!!  index       1 lacking\n" in result.out
    assert f"index: 1 lacking\n  {identity} it is in the log, but not in the copy\n" in result.out
    assert "  to do: delete store/index and run again" in result.out
    assert result.err == "verification failed\n"


def test_of_many_findings_the_first_are_shown(memsieve: Memsieve, tmp_path: Path) -> None:
    write_events(tmp_path / "many.jsonl", *(f"Box {n} is on shelf {n * 7}." for n in range(30)))
    assert memsieve("run", "many.jsonl", "--store", "store").code == 0
    store = Store(tmp_path / "store")
    with store.shard() as shard:
        ids = [store.decision(offset).memory.id for offset in range(1, 31)]
        shard.update(engine.UpdateOperation.delete_points(ids))
    [index] = [check for check in verified(memsieve, code=8)["checks"] if check["findings"]]
    assert (index["found"], len(index["findings"])) == ({"lacking": 30}, 20)
    assert "and 10 more" in memsieve("check", "--full", "--store", "store").out


def again(store: Store) -> None:
    """Append a decision a second time, under the same epoch."""
    store.decide(store.decision(CELLAR))


def foreign(store: Store) -> None:
    store.append(OutgoingRecord("memory.decisions", 0, None, b"hello"))


def stale(store: Store) -> None:
    """Let another owner take the partition, and the first one write on."""
    former = Epoch(0, store.decision(0).owner)
    store.append(fence_record("another", 0, 1))
    store.decide(store.decision(CELLAR), epoch=former)


@pytest.mark.parametrize(
    ("wrong", "why", "note"),
    [
        (again, "again", "memory.decisions/0/9 does not count: its event had been decided on"),
        (foreign, "foreign", "memory.decisions/0/9 does not count: it names no epoch"),
        (stale, "stale", "memory.decisions/0/10 does not count: its owner had been fenced out"),
    ],
)
def test_what_does_not_count_harms_nobody_and_is_noted(
    wrong: Damage, why: str, note: str, memsieve: Memsieve, store: Store
) -> None:
    wrong(store)
    report = verified(memsieve)
    assert report["counts"]["refused"] == {"foreign": 0, "stale": 0, "again": 0, why: 1}
    [said] = report["notes"]
    assert said.startswith(note)
    assert said in memsieve("check", "--full", "--store", "store").out


def test_what_waits_is_counted(memsieve: Memsieve, store: Store) -> None:
    store.publish(event("Ana sails.", event_id="sails"))
    report = verified(memsieve)
    assert (report["counts"]["events"], report["counts"]["waiting"]) == (9, 1)


def test_an_index_that_is_behind_is_compared_as_far_as_it_has_followed(
    memsieve: Memsieve, store: Store
) -> None:
    store.decide(reinforced(store, store.decision(CELLAR).memory))
    assert facts(verified(memsieve))["index"].endswith("as the log says, 1 record behind it")
    index_without(store)
    assert found(verified(memsieve, code=8)) == {"index": {"lacking": 1}}


def test_what_lies_behind_a_damage_is_not_compared_and_that_is_said(
    memsieve: Memsieve, store: Store
) -> None:
    store.set_value(BICYCLE, b"")
    index_without(store)
    report = verified(memsieve, code=8)
    assert found(report) == {"log": {"cut-short": 1}}
    assert facts(report)["index"].endswith("but for what was not compared: partition(s) 0")
    [note] = report["notes"]
    assert "partition 0 was not compared, its decisions do not add up from 3 on" in note


def test_behind_a_fence_that_cannot_be_read_the_next_one_counts(
    memsieve: Memsieve, store: Store, tmp_path: Path
) -> None:
    write_events(tmp_path / "more.jsonl", "Ana sails.")
    assert memsieve("run", "more.jsonl", "--store", "store").code == 0
    store.set_value(0, b"{")
    report = verified(memsieve, code=8)
    assert found(report) == {"log": {"fence-damaged": 1}}
    counts = report["counts"]
    assert (counts["fences"], counts["decisions"]["insert"], counts["in_doubt"]) == (1, 1, 8)
    assert "8 records follow a fence that is gone or cannot be read" in report["notes"]


def test_what_is_not_kept_any_more_is_noted(memsieve: Memsieve, store: Store) -> None:
    for offset in range(3):
        store.delete(offset, "memory.events")
    store.delete(0, "memory.dead-letters")
    not_sent_on(store)
    report = verified(memsieve)
    assert report["counts"]["events"] == 9
    assert report["notes"] == [
        "1 rejects: no dead letter was found, but the first are not kept",
        "memory.events/0 begins at 3: earlier records are not kept",
        "1 forwards: no event was found, but the first are not kept",
    ]


def test_an_index_knows_more_than_a_log_that_was_restored_from_an_older_copy(
    memsieve: Memsieve, store: Store, tmp_path: Path
) -> None:
    older = (store.path / "log.sqlite3").read_bytes()
    write_events(tmp_path / "more.jsonl", "Ana sails.")
    assert memsieve("run", "more.jsonl", "--store", "store").code == 0
    (store.path / "log.sqlite3").write_bytes(older)
    report = verified(memsieve, code=8)
    assert found(report) == {"index": {"other-log": 1}}
    assert "to 11, but it ends at 9" in named(report, "other-log")
    shutil.rmtree(store.path / "index")
    assert memsieve("run", "more.jsonl", "--store", "store").code == 0
    assert found(verified(memsieve)) == {}


@dataclass(frozen=True)
class Sinks:
    """A store with sinks, to be damaged."""

    store: Store
    table: Path
    feed: Path

    def sql(self, statement: str, *values: object) -> None:
        with closing(sqlite3.connect(self.table)) as db, db:
            db.execute(statement, values)

    def lines(self) -> list[bytes]:
        return self.feed.read_bytes().splitlines(keepends=True)

    def set_lines(self, *lines: bytes) -> None:
        """Replace the feed, whatever its size is then; its level says that size."""
        self.feed.write_bytes(b"".join(lines))
        level = self.feed.with_name("memories-0.level.json")
        content = json.loads(level.read_text("utf-8"))
        level.write_text(json.dumps({**content, "size": self.feed.stat().st_size}), "utf-8")


@pytest.fixture
def sinks(sound: Path, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sinks:
    shutil.copy(sound / TABLE, tmp_path)
    shutil.copytree(sound / FEED, tmp_path / FEED)
    monkeypatch.setenv("MEMSIEVE_SINKS__SQLITE", TABLE)
    monkeypatch.setenv("MEMSIEVE_SINKS__JSONL", FEED)
    return Sinks(store, tmp_path / TABLE, tmp_path / FEED / "memories-0.jsonl")


@pytest.mark.usefixtures("sinks")
def test_sinks_hold_what_the_log_says(memsieve: Memsieve) -> None:
    report = verified(memsieve)
    assert found(report) == {}
    assert facts(report)["sqlite"] == "memories.sqlite3: 4 memories as the log says"
    assert facts(report)["jsonl"] == "feed: 4 memories as the log says"


@pytest.mark.usefixtures("store")
def test_sinks_that_are_not_there_are_not_examined(
    memsieve: Memsieve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MEMSIEVE_SINKS__SQLITE", "none.sqlite3")
    monkeypatch.setenv("MEMSIEVE_SINKS__JSONL", "none")
    report = verified(memsieve)
    assert facts(report)["sqlite"] == "none.sqlite3 is not there; not examined"
    assert facts(report)["jsonl"] == "none is not there; not examined"
    assert len(report["notes"]) == 2
    assert not (tmp_path / "none.sqlite3").exists()
    assert not (tmp_path / "none").exists()


@dataclass(frozen=True)
class Markdown:
    """A Memories.md that a run has kept: an entry told twice, one for now, one of no location."""

    path: Path

    def edit(self, old: str, new: str) -> None:
        text = self.path.read_text("utf-8")
        assert text.count(old) == 1
        self.path.write_text(text.replace(old, new), "utf-8")

    @property
    def level(self) -> Path:
        return self.path.with_name("Memories.md.level.json")

    def forge(self, **fields: object) -> None:
        """Change where the level says that the first memory stands."""
        content = json.loads(self.level.read_text("utf-8"))
        first = next(iter(content["memories"]))
        content["memories"][first] |= fields
        self.level.write_text(json.dumps(content), "utf-8")

    def forget(self) -> None:
        """Let the level say nothing of the first memory."""
        content = json.loads(self.level.read_text("utf-8"))
        del content["memories"][next(iter(content["memories"]))]
        self.level.write_text(json.dumps(content), "utf-8")

    def rename(self, identity: str) -> None:
        """Let the level say that the first memory is another one."""
        content = json.loads(self.level.read_text("utf-8"))
        first = next(iter(content["memories"]))
        content["memories"][identity] = content["memories"].pop(first)
        self.level.write_text(json.dumps(content), "utf-8")


@pytest.fixture
def markdown(memsieve: Memsieve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Markdown:
    monkeypatch.setenv("MEMSIEVE_SINKS__MEMORIES_MD", "Memories.md")
    said = [
        event("The ferry leaves at noon.", event_id="m1", scope="world/41"),
        event("The ferry leaves at noon.", event_id="m2", scope="world/41"),
        event("The lamp needs oil.", event_id="m3", scope="world/41"),
        event("Wait here.", event_id="m4", scope="world/42", persistence=Persistence.EPHEMERAL),
        event("Bo has a red bicycle.", event_id="m5", scope="acme/bo"),
    ]
    lines = "".join(EVENT.encode(one).decode() + "\n" for one in said)
    (tmp_path / "said.jsonl").write_text(lines, "utf-8")
    assert memsieve("run", "said.jsonl", "--store", "store").code == 0
    return Markdown(tmp_path / "Memories.md")


@pytest.mark.covers("B66", "C9")
def test_a_memories_md_holds_what_the_log_says_of_its_world(
    memsieve: Memsieve, markdown: Markdown
) -> None:
    report = verified(memsieve)
    assert found(report) == {}
    assert facts(report)["memories_md"] == "Memories.md: 2 memories as the log says"
    assert "Wait here." not in markdown.path.read_text("utf-8")


def test_what_people_wrote_into_a_memories_md_is_theirs(
    memsieve: Memsieve, markdown: Markdown
) -> None:
    text = markdown.path.read_text("utf-8")
    markdown.path.write_text(text + "\n**[NOTE] Mine** *(Ep1)*\nBy hand.\n\nA note.\n", "utf-8")
    assert facts(verified(memsieve))["memories_md"].endswith("2 memories as the log says")
    markdown.edit("\nThe lamp needs oil.\n", "\nThe lamp is dry.\n")
    report = verified(memsieve)
    assert found(report) == {}
    assert facts(report)["memories_md"].endswith("1 of them edited or taken out by hand")


@pytest.mark.parametrize("version", [1, 9])
def test_a_memories_md_at_another_version_is_told(
    memsieve: Memsieve, markdown: Markdown, version: int
) -> None:
    markdown.forge(version=version)
    assert found(verified(memsieve, code=8)) == {"memories_md": {"differing": 1}}


def test_a_memory_that_a_memories_md_lacks_is_told(memsieve: Memsieve, markdown: Markdown) -> None:
    markdown.forget()
    assert found(verified(memsieve, code=8)) == {"memories_md": {"lacking": 1}}


def test_a_memory_that_the_log_does_not_know_is_told(
    memsieve: Memsieve, markdown: Markdown
) -> None:
    markdown.rename("00000000-0000-5000-8000-000000000001")
    assert found(verified(memsieve, code=8)) == {"memories_md": {"lacking": 1, "extra": 1}}


@pytest.mark.covers("B66", "C9")
def test_another_text_below_the_words_that_were_written_is_told(
    memsieve: Memsieve, markdown: Markdown
) -> None:
    """The file and its level agree, and the log says something else."""
    markdown.edit("\nThe ferry leaves at noon.\n", "\nThe ferry leaves at dusk.\n")
    document = parse(markdown.path.read_text("utf-8"))
    changed = next(one.entry for one in entries(document) if "dusk" in one.entry.text)
    markdown.forge(words=words_digest(changed))
    assert found(verified(memsieve, code=8)) == {"memories_md": {"differing": 1}}


def test_a_kept_file_that_is_gone_is_told(memsieve: Memsieve, markdown: Markdown) -> None:
    markdown.path.unlink()
    assert found(verified(memsieve, code=8)) == {"memories_md": {"unusable": 1}}


def changed_line(line: bytes, **fields: object) -> bytes:
    change = APPLIED.decode(line)
    memory = change.memory.model_copy(update=fields)
    return APPLIED.encode(change.model_copy(update={"memory": memory})) + b"\n"


def feed_with_another_text(sinks: Sinks) -> None:
    *lines, last = sinks.lines()
    sinks.set_lines(*lines, changed_line(last, text="Ana rows."))


def feed_with_one_more(sinks: Sinks) -> None:
    *lines, last = sinks.lines()
    sinks.set_lines(*lines, last, changed_line(last, id="another"))


def feed_without_a_line(sinks: Sinks) -> None:
    sinks.feed.write_bytes(b"".join(sinks.lines()[:-1]))


def feed_of_another_log(sinks: Sinks) -> None:
    level = sinks.feed.with_name("memories-0.level.json")
    level.write_text(level.read_text("utf-8").replace('"offset":9', '"offset":99'), "utf-8")


SINK_DAMAGES: Mapping[str, tuple[Callable[[Sinks], object], Found, str]] = {
    "the table lacks a row": (
        lambda sinks: sinks.sql("DELETE FROM memories WHERE text = 'The cellar is flooded.'"),
        {"sqlite": {"lacking": 1}},
        "it is in the log",
    ),
    "the table has one more row": (
        lambda sinks: sinks.sql(
            "INSERT INTO memories SELECT 'x', scope, text, version, status, live, category, "
            "persistence, importance, confidence, tags, sources, observation_count, created_at, "
            "last_seen_at, superseded_by, superseded_at, superseded_reason, decision_id, "
            "json_set(record, '$.id', 'x') FROM memories WHERE text = 'The cellar is flooded.'"
        ),
        {"sqlite": {"extra": 1}},
        "the log knows no such memory",
    ),
    "a column is another": (
        lambda sinks: sinks.sql(
            "UPDATE memories SET text = 'x' WHERE text = 'The cellar is flooded.'"
        ),
        {"sqlite": {"differing": 1}},
        "its columns differ from its record: text",
    ),
    "a time is another": (
        lambda sinks: sinks.sql(
            "UPDATE memories SET created_at = '2026-01-01T00:00:00+00:00' WHERE text = 'The cellar is flooded.'"
        ),
        {"sqlite": {"differing": 1}},
        "its columns differ from its record: created_at",
    ),
    "a record is another": (
        lambda sinks: sinks.sql(
            "UPDATE memories SET text = 'x', record = json_set(record, '$.text', 'x') "
            "WHERE text = 'The cellar is flooded.'"
        ),
        {"sqlite": {"differing": 1}},
        "differs from the log in: text",
    ),
    "a record cannot be read": (
        lambda sinks: sinks.sql(
            "UPDATE memories SET record = '{' WHERE text = 'The cellar is flooded.'"
        ),
        {"sqlite": {"differing": 1}},
        "cannot be read",
    ),
    "a row is of an older version": (
        lambda sinks: sinks.sql(
            "UPDATE memories SET version = 1, record = json_set(record, '$.version', 1) "
            "WHERE version = 2 AND live = 1"
        ),
        {"sqlite": {"differing": 1}},
        "is at version 1, and at 2 by the log",
    ),
    "the table is of another log": (
        lambda sinks: sinks.sql("UPDATE levels SET epoch_owner = 'somebody'"),
        {"sqlite": {"other-log": 1}},
        "is not the fence that sqlite memories.sqlite3 has followed",
    ),
    "the table is no table": (
        lambda sinks: sinks.sql("DROP TABLE levels"),
        {"sqlite": {"unusable": 1}},
        "no such table",
    ),
    "the table is none of ours": (
        lambda sinks: sinks.sql("ALTER TABLE memories RENAME COLUMN record TO data"),
        {"sqlite": {"unusable": 1}},
        "cannot be read",
    ),
    "the feed lacks a memory": (
        lambda sinks: sinks.set_lines(*sinks.lines()[:-1]),
        {"jsonl": {"lacking": 1}},
        "it is in the log",
    ),
    "the feed has another text": (
        feed_with_another_text,
        {"jsonl": {"differing": 1}},
        "differs from the log in: text",
    ),
    "the feed has one more": (
        feed_with_one_more,
        {"jsonl": {"extra": 1}},
        "the log knows no such memory",
    ),
    "the feed was cut": (feed_without_a_line, {"jsonl": {"unusable": 1}}, "bytes shorter"),
    "the feed was torn": (
        lambda sinks: sinks.feed.write_bytes(sinks.feed.read_bytes()[:-1] + b"x"),
        {"jsonl": {"unusable": 1}},
        "was cut or changed at line",
    ),
    "a line is no change": (
        lambda sinks: sinks.set_lines(b"{}\n", *sinks.lines()),
        {"jsonl": {"unusable": 1}},
        "memories-0.jsonl:1 cannot be read",
    ),
    "the feed is gone": (
        lambda sinks: sinks.feed.unlink(),
        {"jsonl": {"unusable": 1}},
        "cannot be read",
    ),
    "the level of the feed is damaged": (
        lambda sinks: sinks.feed.with_name("memories-0.level.json").write_text("{", "utf-8"),
        {"jsonl": {"unusable": 1}},
        "memories-0.level.json cannot be read",
    ),
    "the feed is of another log": (
        feed_of_another_log,
        {"jsonl": {"other-log": 1}},
        "to 99, but it ends at 9",
    ),
}


@pytest.mark.parametrize("name", SINK_DAMAGES)
def test_each_damage_of_a_sink_is_found_and_named(
    name: str, memsieve: Memsieve, sinks: Sinks
) -> None:
    damage, expected, said = SINK_DAMAGES[name]
    damage(sinks)
    report = verified(memsieve, code=8)
    assert found(report) == expected
    [problem] = next(iter(expected.values()))
    assert said in named(report, problem)


def test_one_of_a_kind_is_told_as_one(memsieve: Memsieve, tmp_path: Path) -> None:
    write_events(tmp_path / "facts.jsonl", "Ana lives in Lyon.", "Ana lives in  Lyon now.")
    memsieve("run", "facts.jsonl", "--store", "store", "--policy", "thorough")
    told = memsieve("check", "--full", "--store", "store").out
    assert "add up to 1 memory\n" in told
    assert not re.search(r"\b1 \w+(?<!s)s\b", told)
