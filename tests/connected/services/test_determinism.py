"""The same events, the same decisions, byte for byte: whatever the batches, the workers, a kill."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pydantic_core import from_json

from schemas.topics import DECISIONS, EVENTS
from streams.log.kafka.connection import Connection
from streams.log.kafka.log import KafkaLog
from streams.model.ports.log import LogRecord, OutgoingRecord
from tests.chaos import fleet as chaos
from tests.chaos.cluster import settled, whole
from tests.chaos.fleet import Fleet
from tests.chaos.outcome import Sorted, alone, duplicated, kinds, otherwise, sort
from tests.chaos.stream import SECRET, Stream
from tests.support.encoding.models import default_embedder
from tests.support.servers import services
from tests.support.servers.services import Installation, over_rest

PARTITIONS = 3
EVENTS_COUNT = 240
EVERY_KIND = {
    *("insert", "replace", "merge", "reinforce", "ignore", "reject"),
    *("revise", "consolidate", "erase", "block"),
}


class World:
    """An installation with topics and a collection of its own, and the workers to be had there."""

    def __init__(self, installation: Installation, command: Sequence[str]) -> None:
        variables = installation.variables
        self.connection = Connection(
            variables["MEMSIEVE_KAFKA__BOOTSTRAP"], variables["MEMSIEVE_KAFKA__PREFIX"]
        )
        self._installation = installation
        self._command = command

    async def decided(
        self, records: Sequence[OutgoingRecord], *, workers: int, kill: bool = False
    ) -> list[Sorted]:
        """Let so many deduplicators decide; with `kill`, one of them dies over its work.

        Half of the records are there when they come, half come when all of them have partitions.
        """
        self._installation.memsieve("service", "topics", "create", "--partitions", f"{PARTITIONS}")
        log = KafkaLog(self.connection)
        fleet = Fleet(self._installation, {"deduplicator": workers, "writer": 1}, self._command)
        try:
            await log.append(records[: len(records) // 2])
            fleet.fill()
            await until(lambda: all(one.held for one in fleet.of("deduplicator")))
            await log.append(records[len(records) // 2 :])
            if kill:
                await self._kill_at_work(fleet, log)
            reached = await settled(self.connection, 60.0, lambda _: None)
            assert reached.settled, reached
            fleet.stop_all()
            assert fleet.ended == []
        finally:
            fleet.close()
            await log.close()
        return [sort(made) for made in await self.records(DECISIONS.name)]

    async def _kill_at_work(self, fleet: Fleet, log: KafkaLog) -> None:
        before = await self._made(log)
        async with asyncio.timeout(60):
            while await self._made(log) == before:  # noqa: ASYNC110 - other processes make them
                await asyncio.sleep(0.01)
        fleet.kill(fleet.of("deduplicator")[0])
        fleet.fill()

    async def _made(self, log: KafkaLog) -> int:
        return sum([await log.end(DECISIONS.name, p) for p in range(PARTITIONS)])

    async def records(self, topic: str) -> list[list[LogRecord]]:
        return await whole(self.connection, topic, PARTITIONS)


async def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 90
    while not true():
        assert time.monotonic() < end, "the workers did not come to work"
        await asyncio.sleep(0.05)


def stream(seed: int, count: int) -> list[OutgoingRecord]:
    return Stream(Random(seed), PARTITIONS, scopes=12, astray=False).take(count)  # noqa: S311


def placed(records: Sequence[OutgoingRecord]) -> list[list[LogRecord]]:
    """Return the records as they lie in a topic that nobody else writes to."""
    places: list[list[LogRecord]] = [[] for _ in range(PARTITIONS)]
    for one in records:
        place = places[one.partition]
        place.append(
            LogRecord(one.topic, one.partition, len(place), one.key, one.value, one.headers)
        )
    return places


@pytest.fixture
def installed(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str, qdrant_url: str, collection_prefix: str
) -> Callable[[int], Installation]:
    """Return what describes an installation whose batches have so many records."""

    def describe(batch_records: int) -> Installation:
        return Installation.on(
            tmp_path,
            kafka_bootstrap,
            topic_prefix,
            forget__key=SECRET,
            **over_rest(qdrant_url, collection_prefix),
            service__session_seconds="6",
            service__batch_records=f"{batch_records}",
        )

    return describe


@pytest.mark.covers("B128", "C7", "C15")
@pytest.mark.parametrize(
    ("batch_records", "workers", "kill"),
    [(1, 1, False), (7, 3, True), (256, 3, False)],
)
async def test_the_decisions_are_those_of_one_process_that_takes_one_event_at_a_time(
    installed: Callable[[int], Installation],
    tmp_path: Path,
    batch_records: int,
    workers: int,
    *,
    kill: bool,
) -> None:
    """Byte for byte, the places of the events included: all variants publish the same."""
    records = stream(1, EVENTS_COUNT)
    world = World(installed(batch_records), chaos.COMMAND)
    decisions = await world.decided(records, workers=workers, kill=kill)
    expected = await alone(placed(records), tmp_path / "alone", batch_records=1)
    assert Counter(placeless(placed(records))) == Counter(
        placeless(await world.records(EVENTS.name))
    )
    assert set(kinds(expected)) == EVERY_KIND
    assert otherwise(decisions, expected) == []
    assert duplicated(decisions) == []
    assert len({owner for made in decisions for owner in made.owners}) >= workers


def placeless(records: Sequence[Sequence[LogRecord]]) -> list[tuple[Any, ...]]:
    return [(one.place, one.key, one.value, one.headers) for those in records for one in those]


@pytest.mark.covers("C7")
async def test_vectors_made_afresh_change_nothing_but_the_last_digit_of_a_similarity(
    installed: Callable[[int], Installation], tmp_path: Path
) -> None:
    """The real model, asked for other batches: its vectors differ in their last bits."""
    records = stream(2, 150)
    world = World(installed(7), services.COMMAND)
    decisions = await world.decided(records, workers=2)
    expected = await alone(
        placed(records), tmp_path / "alone", embedder=default_embedder, batch_records=256
    )
    here, there = (
        [from_json(one.value) for made in sides for one in made.counting]
        for sides in (decisions, expected)
    )
    assert [similarities(one) for one in here] == [
        pytest.approx(similarities(one), abs=1.1e-5) for one in there
    ]
    assert [without_vectors(one) for one in here] == [without_vectors(one) for one in there]
    assert len({one["kind"] for one in here}) >= 5


def neighbours(decision: dict[str, Any]) -> list[dict[str, Any]]:
    found = decision.get("evidence", {}).get("neighbours", [])
    return sorted(found, key=lambda neighbour: neighbour["memory_id"])


def similarities(decision: dict[str, Any]) -> list[float]:
    return [neighbour["similarity"] for neighbour in neighbours(decision)]


def without_vectors(decision: dict[str, Any]) -> dict[str, Any]:
    """Return all that a decision says, but for vectors and similarities."""
    kept = {name: value for name, value in decision.items() if "embedding" not in name}
    if "evidence" in kept:
        unmeasured = [{**one, "similarity": None} for one in neighbours(decision)]
        kept["evidence"] = {**kept["evidence"], "neighbours": unmeasured}
    return kept
