"""Keep a PostgreSQL table in step with the topic memory.changes; README.md tells how to run it.

The memories and the offset behind them are written in one transaction. So whatever ends this
program, and however often a record arrives, the table holds each memory's newest version. With
EMBEDDING_MODEL the vectors of all wordings are in it, too.
"""
# ruff: noqa: INP001 - a program, not a package

import argparse
import asyncio
import json
import logging
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError, OffsetOutOfRangeError
from psycopg import AsyncConnection, AsyncCursor, Error, OperationalError
from psycopg.types.json import Json

STORE = """
INSERT INTO memories (
    memory_id, version, scope, text, status, superseded_by, created_at, last_seen_at,
    decision_id, memory
) VALUES (
    %(memory_id)s, %(version)s, %(scope)s, %(text)s, %(status)s, %(superseded_by)s,
    %(created_at)s, %(last_seen_at)s, %(decision_id)s, %(memory)s
)
ON CONFLICT (memory_id) DO UPDATE SET
    version = EXCLUDED.version, scope = EXCLUDED.scope, text = EXCLUDED.text,
    status = EXCLUDED.status, superseded_by = EXCLUDED.superseded_by,
    created_at = EXCLUDED.created_at, last_seen_at = EXCLUDED.last_seen_at,
    decision_id = EXCLUDED.decision_id, memory = EXCLUDED.memory
WHERE EXCLUDED.version > memories.version
"""
WORDINGS = """
SELECT memory_id, memory FROM live_memories WHERE memory_id = ANY(%s)
"""
KNOWN = "SELECT text, embedding::text FROM memory_wordings WHERE memory_id = ANY(%s)"
REMOVE = "DELETE FROM memory_wordings WHERE memory_id = ANY(%s)"
EMBED = """
INSERT INTO memory_wordings (memory_id, number, text, embedding) VALUES (%s, %s, %s, %s)
"""
MOVE = """
INSERT INTO memory_positions (topic, partition, next_offset) VALUES (%s, %s, %s)
ON CONFLICT (topic, partition) DO UPDATE SET next_offset = EXCLUDED.next_offset
"""
POSITIONS = "SELECT partition, next_offset FROM memory_positions WHERE topic = %s"
LOCK = "SELECT pg_try_advisory_lock(hashtextextended(current_schema() || ' ' || %s, 0))"

POLL_MILLISECONDS = 500
ANSWER_SECONDS = 5.0
CONNECT_SECONDS = 10
PAUSE_MIN, PAUSE_MAX = 0.5, 30.0

LOG = logging.getLogger("sink")

Consumer: TypeAlias = "AIOKafkaConsumer[bytes, bytes]"
Record: TypeAlias = "ConsumerRecord[bytes, bytes]"
Database: TypeAlias = AsyncConnection[Any]
Embed: TypeAlias = Callable[[Sequence[str]], list[str]]
"""Gives the vectors of texts, each as pgvector reads it."""


class Stop(Exception):
    """Going on would skip or lose something: a person has to look first."""


class Away(Exception):
    """It cannot be done now; later it may."""


@dataclass(frozen=True)
class Settings:
    bootstrap: str
    topic: str
    group: str
    database: str
    batch_records: int
    until_caught_up: bool
    embed: Embed | None


def main() -> int:
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
    LOG.setLevel(logging.INFO)
    try:
        asyncio.run(run(settings()))
    except Stop as reason:
        LOG.error("stopped: %s", reason)  # noqa: TRY400 - the line says it all
        return 1
    except asyncio.CancelledError:
        LOG.info("ended by a signal")
    return 0


def settings() -> Settings:
    """Read the command line and the environment; README.md lists the variables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--until-caught-up", action="store_true", help="end at the topic's end")
    options = parser.parse_args()
    env = os.environ  # noqa: TID251 - this program is no part of memsieve
    if missing := {"KAFKA_BOOTSTRAP", "DATABASE_URL"} - env.keys():
        raise Stop(f"set {' and '.join(sorted(missing))}; README.md tells to what")
    batch = env.get("BATCH_RECORDS", "500")
    if not (batch.isdecimal() and int(batch) > 0):
        raise Stop(f"BATCH_RECORDS is {batch!r}; give a number from 1 on")
    return Settings(
        bootstrap=env["KAFKA_BOOTSTRAP"],
        topic=env.get("TOPIC", "memory.changes"),
        group=env.get("GROUP", "postgres-sink"),
        database=env["DATABASE_URL"],
        batch_records=int(batch),
        until_caught_up=options.until_caught_up,
        embed=embedder(env["EMBEDDING_MODEL"], env.get("EMBEDDING_DIR"))
        if "EMBEDDING_MODEL" in env
        else None,
    )


def embedder(model: str, folder: str | None) -> Embed:
    """Load a fastembed model, from a folder where one is given."""
    from fastembed import TextEmbedding  # noqa: PLC0415 - needed for vectors only

    try:
        loaded = TextEmbedding(model, specific_model_path=folder)
    except Exception as error:
        raise Stop(f"EMBEDDING_MODEL {model} cannot be loaded: {one_line(error)}") from error
    return lambda texts: [json.dumps(vector.tolist()) for vector in loaded.embed(list(texts))]


async def run(settings: Settings) -> None:
    """Keep up until SIGTERM or SIGINT: what is under way is rolled back then, and read again."""
    work = asyncio.create_task(keep_up(settings))
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, work.cancel)
    await work


async def keep_up(settings: Settings) -> None:
    """Follow the topic; while Kafka or PostgreSQL is away, wait and try again."""
    clock, pause = asyncio.get_running_loop().time, PAUSE_MIN
    while True:
        began = clock()
        try:
            async with opened_database(settings) as database, opened_consumer(settings) as consumer:
                return await follow(consumer, database, settings)
        except (OSError, OperationalError, Away, OffsetOutOfRangeError) as error:
            reason = one_line(error)
        except Error as error:
            raise Stop(f"the database refuses: {one_line(error)}; see README.md, Set up") from error
        except KafkaError as error:
            reason = one_line(error)
            if not error.retriable:
                raise Stop(reason) from error
        pause = PAUSE_MIN if clock() - began > PAUSE_MAX else pause
        LOG.warning("waiting %.1f s: %s", pause, reason)
        await asyncio.sleep(pause)
        pause = min(2 * pause, PAUSE_MAX)


@asynccontextmanager
async def opened_database(settings: Settings) -> AsyncGenerator[Database]:
    """Give the connection that holds the lock on the table: one sink at a time writes it.

    A sink that loses its connection loses the lock, and cannot write any more, either.
    """
    async with await AsyncConnection.connect(
        settings.database, autocommit=True, connect_timeout=CONNECT_SECONDS
    ) as database:
        locked = await (await database.execute(LOCK, [settings.topic])).fetchone()
        if locked != (True,):
            raise Away("another sink writes this table, and this one stands by")
        yield database


@asynccontextmanager
async def opened_consumer(settings: Settings) -> AsyncGenerator[Consumer]:
    """Give a consumer that goes only where it is sent: to no commit, and to no end of the log."""
    consumer: Consumer = AIOKafkaConsumer(
        bootstrap_servers=settings.bootstrap,
        group_id=settings.group,
        enable_auto_commit=False,
        auto_offset_reset="none",
    )
    try:
        await consumer.start()
        yield consumer
    finally:
        with suppress(TimeoutError, KafkaError):
            await asyncio.wait_for(consumer.stop(), ANSWER_SECONDS)


async def follow(consumer: Consumer, database: Database, settings: Settings) -> None:
    places = await partitions(settings)
    await take_up(consumer, database, places)
    goal = await consumer.end_offsets(places)
    while not (settings.until_caught_up and await reached(consumer, goal)):
        fetched = await consumer.getmany(
            timeout_ms=POLL_MILLISECONDS, max_records=settings.batch_records
        )
        for place, records in fetched.items():
            position = await store(database, place, records, settings.embed)
            await tell_kafka(consumer, place, position)
        if consumer.partitions_for_topic(settings.topic) != {place.partition for place in places}:
            raise Away(f"the partitions of {settings.topic} have changed")
    LOG.info("caught up")


async def partitions(settings: Settings) -> list[TopicPartition]:
    admin = AIOKafkaAdminClient(bootstrap_servers=settings.bootstrap)
    try:
        await admin.start()
        [topic] = await admin.describe_topics([settings.topic])
    finally:
        await admin.close()
    if not topic["partitions"]:
        raise Away(f"there is no topic {settings.topic}")
    return sorted(TopicPartition(settings.topic, each["partition"]) for each in topic["partitions"])


async def take_up(consumer: Consumer, database: Database, places: list[TopicPartition]) -> None:
    """Start each partition where the table says; a new one at its first record."""
    rows = await (await database.execute(POSITIONS, [places[0].topic])).fetchall()
    noted = {TopicPartition(places[0].topic, partition): offset for partition, offset in rows}
    first, end = await consumer.beginning_offsets(places), await consumer.end_offsets(places)
    consumer.assign(places)
    for place in places:
        where, offset = f"{place.topic}/{place.partition}", noted.get(place, first[place])
        if not first[place] <= offset <= end[place]:
            raise Stop(
                f"the table stands at {where}/{offset}, but the topic holds {first[place]} to "
                f"{end[place]} there: records are lost to it, so build it anew (README.md)"
            )
        if place not in noted and offset > 0:
            LOG.warning("%s begins at %s: the table will lack what was before", where, offset)
        LOG.info("from %s/%s", where, offset)
        consumer.seek(place, offset)


async def reached(consumer: Consumer, goal: dict[TopicPartition, int]) -> bool:
    return all([await consumer.position(place) >= end for place, end in goal.items()])


async def store(
    database: Database, place: TopicPartition, records: Sequence[Record], embed: Embed | None
) -> int:
    """Write records and the offset behind them in one transaction; return that offset.

    Where a record cannot be used, those before it are written, and Stop is raised.
    """
    rows, problem = usable(records)
    position = records[len(rows)].offset if problem else records[-1].offset + 1
    try:
        async with database.transaction(), database.cursor() as cursor:
            await cursor.executemany(STORE, rows)
            await cursor.execute(MOVE, [*place, position])
            if embed:
                await reword(cursor, [row["memory_id"] for row in rows], embed)
    except OperationalError:
        raise
    except Error as error:
        where = f"{place.topic}/{place.partition}/{records[0].offset} to {position - 1}"
        raise Stop(f"the database refuses {where}: {one_line(error)}") from error
    if problem:
        raise problem
    return position


async def reword(cursor: AsyncCursor[Any], changed: Sequence[str], embed: Embed) -> None:
    """Replace the wordings of memories by those that they have now; a retired memory has none."""
    live = await (await cursor.execute(WORDINGS, [changed])).fetchall()
    wordings = [
        (memory_id, number, text)
        for memory_id, memory in live
        for number, text in enumerate([memory["text"], *texts_of_variants(memory)])
    ]
    vectors = dict(await (await cursor.execute(KNOWN, [changed])).fetchall())
    new = sorted({text for _, _, text in wordings} - vectors.keys())
    vectors |= zip(new, await asyncio.to_thread(embed, new), strict=True)
    await cursor.execute(REMOVE, [changed])
    await cursor.executemany(EMBED, [(*one, vectors[one[2]]) for one in wordings])


def texts_of_variants(memory: dict[str, Any]) -> list[str]:
    return [variant["text"] for variant in memory.get("variants", [])]


def usable(records: Sequence[Record]) -> tuple[list[dict[str, Any]], Stop | None]:
    """Return the rows of the records up to the first that cannot be used, and why it cannot."""
    rows: list[dict[str, Any]] = []
    for record in records:
        try:
            rows.append(row(record.value))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            where = f"{record.topic}/{record.partition}/{record.offset}"
            problem = f"no field {error}" if isinstance(error, LookupError) else one_line(error)
            return rows, Stop(f"{where} cannot be used: {problem}")
    return rows, None


def row(value: bytes | None) -> dict[str, Any]:
    """Read a record. What this program does not know it refuses; nothing is guessed or skipped."""
    if value is None:
        raise ValueError("it is a tombstone, which memsieve does not write")
    change: dict[str, Any] = json.loads(value)
    kind, version = change["kind"], change["schema_version"]
    if (kind, version) != ("applied", 1):
        raise ValueError(f"kind {kind!r} with schema_version {version!r}; update this program")
    memory: dict[str, Any] = change["memory"]
    superseded: dict[str, Any] = memory.get("superseded") or {}
    return {
        "memory_id": change["memory_id"],
        "version": memory["version"],
        "scope": memory["scope"],
        "text": memory["text"],
        "status": memory.get("status", "active"),
        "superseded_by": superseded.get("by"),
        "created_at": memory["created_at"],
        "last_seen_at": memory["last_seen_at"],
        "decision_id": change["decision_id"],
        "memory": Json(memory),
    }


async def tell_kafka(consumer: Consumer, place: TopicPartition, position: int) -> None:
    """Commit for those who watch the group's lag: nothing here reads it, so it may fail."""
    with suppress(TimeoutError, KafkaError):
        await asyncio.wait_for(consumer.commit({place: (position, "")}), ANSWER_SECONDS)


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


if __name__ == "__main__":
    sys.exit(main())
