"""The topics in a cluster: made as they must be, and told apart from those that are not."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from aiokafka.admin import NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from schemas.topics import CHANGES, DEAD_LETTERS, DECISIONS, EVENTS, REVIEWS, TOPICS, TURNS
from streams.log.kafka import topics
from streams.log.kafka.connection import Connection
from streams.log.kafka.log import REQUEST_BYTES_MAX
from streams.model.ports.failures import Fatal, NoStore, Unreachable
from tests.support.servers.kafka_topics import administered

NAMES = [topic.name for topic in TOPICS]
A_MONTH = str(30 * 24 * 60 * 60 * 1_000)
A_QUARTER = str(90 * 24 * 60 * 60 * 1_000)
LARGE = {"max.message.bytes": str(REQUEST_BYTES_MAX)}


@dataclass(frozen=True)
class Made:
    """A topic as somebody else may have made it."""

    partitions: int = 2
    settings: Mapping[str, str] = field(default_factory=lambda: LARGE)


GOOD: Mapping[str, Made] = {
    EVENTS.name: Made(),
    DECISIONS.name: Made(settings={**LARGE, "retention.ms": "-1", "cleanup.policy": "compact"}),
    CHANGES.name: Made(partitions=1),
    REVIEWS.name: Made(),
    DEAD_LETTERS.name: Made(partitions=3),
    TURNS.name: Made(),
}


@pytest.fixture
def connection(kafka_bootstrap: str, topic_prefix: str) -> Connection:
    """Describe a cluster in which nobody has made our topics yet."""
    return Connection(kafka_bootstrap, topic_prefix, request_seconds=10.0)


async def make(connection: Connection, layout: Mapping[str, Made]) -> None:
    """Make topics without memsieve, and wait until the cluster knows of them."""
    names = [connection.named(name) for name in layout]
    wanted = [
        NewTopic(connection.named(name), made.partitions, 1, topic_configs=made.settings)
        for name, made in layout.items()
    ]
    async with administered(connection) as admin, asyncio.timeout(30):
        answer = await admin.create_topics(wanted)
        assert [(code, reason) for _, code, reason in answer.topic_errors if code] == []
        while any(one["error_code"] for one in await admin.describe_topics(names)):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def settings(connection: Connection) -> dict[str, dict[str, str]]:
    """Return what the cluster says of each of our topics."""
    resources = [ConfigResource(ConfigResourceType.TOPIC, connection.named(n)) for n in NAMES]
    async with administered(connection) as admin:
        answers = await admin.describe_configs(resources)
    found = [resource for answer in answers for resource in answer.resources]
    prefix = len(connection.prefix)
    return {one[3][prefix:]: {entry[0]: entry[1] for entry in one[4]} for one in found}


async def warnings(connection: Connection) -> dict[str, list[str]]:
    """Return what may be lost by topic; those that lose nothing are left out."""
    found = await topics.inspect(connection)
    prefix = len(connection.prefix)
    return {one.name[prefix:]: list(one.warnings) for one in found if one.warnings}


async def problems(connection: Connection, partitions: int | None = None) -> dict[str, list[str]]:
    """Return what is wrong by topic; those with which nothing is wrong are left out."""
    found = await topics.inspect(connection, partitions)
    prefix = len(connection.prefix)
    return {topic.name[prefix:]: list(topic.problems) for topic in found if topic.problems}


class TestCreate:
    async def test_it_makes_the_topics_with_what_each_must_keep_and_take(
        self, connection: Connection
    ) -> None:
        made = await topics.create(connection, partitions=2, replicas=1)
        assert made == [connection.named(name) for name in NAMES]
        found = await settings(connection)
        for name in NAMES:
            assert found[name]["max.message.bytes"] == "16777216"
            is_erasable = name == DECISIONS.name
            assert found[name]["cleanup.policy"] == ("compact" if is_erasable else "delete")
            assert found[name]["retention.bytes"] == "-1"
        kept = {name: found[name]["retention.ms"] for name in NAMES}
        others = {DECISIONS.name: "-1", REVIEWS.name: A_QUARTER}
        assert kept == {**dict.fromkeys(NAMES, A_MONTH), **others}
        stamped = [n for n in NAMES if found[n]["message.timestamp.type"] == "LogAppendTime"]
        assert stamped == [EVENTS.name, TURNS.name]

    async def test_what_it_has_made_can_be_used(self, connection: Connection) -> None:
        await topics.create(connection, partitions=3, replicas=None)
        assert await problems(connection) == {}
        assert await topics.require(connection) == 3
        found = await topics.inspect(connection)
        assert {topic.partitions for topic in found} == {3}
        assert {topic.replicas for topic in found} == {1}  # as many as there are brokers

    async def test_creating_again_changes_nothing(self, connection: Connection) -> None:
        await topics.create(connection, partitions=2, replicas=1)
        before = await settings(connection)
        assert await topics.create(connection, partitions=2, replicas=3) == []
        assert await settings(connection) == before
        assert await topics.require(connection) == 2

    async def test_what_is_there_is_left_as_it_is_and_the_rest_is_made(
        self, connection: Connection
    ) -> None:
        """An operator may have made some of them, or have changed what is kept for how long."""
        mine = Made(settings={"retention.ms": "1234567", "max.message.bytes": "2000000"})
        await make(connection, {EVENTS.name: mine})
        made = await topics.create(connection, partitions=2, replicas=1)
        assert made == [connection.named(name) for name in NAMES if name != EVENTS.name]
        found = (await settings(connection))[EVENTS.name]
        assert {name: found[name] for name in mine.settings} == mine.settings
        assert found["message.timestamp.type"] == "CreateTime"

    @pytest.mark.parametrize("there", [EVENTS.name, DECISIONS.name])
    async def test_beside_topics_with_other_partitions_nothing_is_made(
        self, connection: Connection, there: str
    ) -> None:
        """It would be of no use: events and decisions pair up by partition."""
        await make(connection, {there: GOOD[there]})
        with pytest.raises(NoStore, match=rf"{there} has 2 partitions and not 3"):
            await topics.create(connection, partitions=3, replicas=1)
        assert set(await problems(connection)) == {*NAMES} - {there}

    async def test_more_replicas_than_brokers_are_refused_with_the_clusters_reason(
        self, connection: Connection
    ) -> None:
        name = connection.named(EVENTS.name)
        with pytest.raises(Fatal, match=rf"^topic {name} cannot be made: .*replicat") as error:
            await topics.create(connection, partitions=2, replicas=99)
        assert "99" in str(error.value)
        assert "\n" not in str(error.value)


MISSING = "does not exist: memsieve service topics create"
COMPACTED = "is compacted: that deletes records; set cleanup.policy=delete"
FORGETS = "forgets records, but it is the source of truth: set"
REFUSES = "refuses large records: set max.message.bytes=16777216"
UNERASABLE = "is not compacted, so nothing in it can be forgotten: set cleanup.policy=compact"
DELETES = "deletes records, but it is the source of truth: set cleanup.policy=compact"
FOREVER = {**LARGE, "retention.ms": "-1", "cleanup.policy": "compact"}

WRONG: dict[str, tuple[Mapping[str, Made | None], Mapping[str, list[str]]]] = {
    "one is missing": ({DEAD_LETTERS.name: None}, {DEAD_LETTERS.name: [MISSING]}),
    "all are missing": (dict.fromkeys(NAMES), {name: [MISSING] for name in NAMES}),
    "only the decisions are there": (
        dict.fromkeys(name for name in NAMES if name != DECISIONS.name),
        {name: [MISSING] for name in NAMES if name != DECISIONS.name},
    ),
    "decisions have more partitions than events": (
        {DECISIONS.name: Made(3, FOREVER)},
        {DECISIONS.name: ["has 3 partitions and not 2"]},
    ),
    "decisions have fewer partitions than events": (
        {DECISIONS.name: Made(1, FOREVER)},
        {DECISIONS.name: ["has 1 partitions and not 2"]},
    ),
    "decisions are not compacted": (
        {DECISIONS.name: Made(2, {**FOREVER, "cleanup.policy": "delete"})},
        {DECISIONS.name: [UNERASABLE]},
    ),
    "decisions compacted and deleted": (
        {DECISIONS.name: Made(2, {**FOREVER, "cleanup.policy": "compact,delete"})},
        {DECISIONS.name: [DELETES]},
    ),
    "turns have more partitions than events": (
        {TURNS.name: Made(3)},
        {TURNS.name: ["has 3 partitions and not 2"]},
    ),
    "compacted events": (
        {EVENTS.name: Made(2, {**LARGE, "cleanup.policy": "compact"})},
        {EVENTS.name: [COMPACTED]},
    ),
    "decisions are kept as long as others by default": (
        {DECISIONS.name: Made(2, {**LARGE, "cleanup.policy": "compact"})},
        {DECISIONS.name: [f"{FORGETS} retention.ms=-1"]},
    ),
    "decisions are kept for a while": (
        {DECISIONS.name: Made(2, {**FOREVER, "retention.ms": "31536000000"})},
        {DECISIONS.name: [f"{FORGETS} retention.ms=-1"]},
    ),
    "so many bytes of decisions are kept": (
        {DECISIONS.name: Made(2, {**FOREVER, "retention.bytes": "1000000000"})},
        {DECISIONS.name: [f"{FORGETS} retention.bytes=-1"]},
    ),
    "decisions are small": (
        {DECISIONS.name: Made(2, {"retention.ms": "-1", "cleanup.policy": "compact"})},
        {DECISIONS.name: [REFUSES]},
    ),
    "dead letters are small": (
        {DEAD_LETTERS.name: Made(1, {"max.message.bytes": "8388608"})},
        {DEAD_LETTERS.name: [REFUSES]},
    ),
    "events are small": (
        {EVENTS.name: Made(2, {"max.message.bytes": "100000"})},
        {EVENTS.name: [REFUSES]},
    ),
    "everything at once": (
        {DECISIONS.name: Made(1, {"cleanup.policy": "delete"})},
        {
            DECISIONS.name: [
                "has 1 partitions and not 2",
                UNERASABLE,
                f"{FORGETS} retention.ms=-1",
                REFUSES,
            ]
        },
    ),
}

RIGHT: dict[str, Mapping[str, Made]] = {
    "as they should be": {},
    "events take what clients send by default": {EVENTS.name: Made(2, {})},
    "compacted changes": {CHANGES.name: Made(1, {**LARGE, "cleanup.policy": "compact"})},
    "events are kept for an hour": {EVENTS.name: Made(2, {**LARGE, "retention.ms": "3600000"})},
}


class TestInspect:
    async def test_it_warns_of_settings_that_may_lose_what_is_late(
        self, connection: Connection
    ) -> None:
        await topics.create(connection, partitions=2, replicas=1)
        assert await warnings(connection) == {}

    async def test_such_a_setting_is_named_with_the_usual_one(self, connection: Connection) -> None:
        lagging = {**FOREVER, "max.compaction.lag.ms": "172800000"}
        short = {**LARGE, "retention.ms": "60000", "message.timestamp.type": "LogAppendTime"}
        clocked = {**LARGE, "retention.ms": "2592000000"}
        changes = {
            DECISIONS.name: Made(2, lagging),
            EVENTS.name: Made(2, short),
            TURNS.name: Made(2, clocked),
        }
        await make(connection, {**GOOD, **changes})
        found = await warnings(connection)
        assert await problems(connection) == {}
        assert found[DECISIONS.name] == [
            "what is forgotten may stay for longer than a day: set max.compaction.lag.ms=86400000"
        ]
        assert found[EVENTS.name] == [
            "what is not read within 0:01:00 is lost: set retention.ms=2592000000"
        ]
        assert found[TURNS.name] == [
            "producers' clocks decide how long it is kept: set message.timestamp.type=LogAppendTime"
        ]

    @pytest.mark.parametrize(("changes", "expected"), WRONG.values(), ids=list(WRONG))
    async def test_it_tells_what_is_wrong_and_how_to_set_it_right(
        self,
        connection: Connection,
        changes: Mapping[str, Made | None],
        expected: Mapping[str, list[str]],
    ) -> None:
        layout = {name: made for name, made in {**GOOD, **changes}.items() if made is not None}
        if layout:
            await make(connection, layout)
        found = await problems(connection)
        assert set(found) == set(expected)
        for name, beginnings in expected.items():
            assert len(found[name]) == len(beginnings)
            for problem, beginning in zip(found[name], beginnings, strict=True):
                assert problem.startswith(beginning)

    @pytest.mark.parametrize("changes", RIGHT.values(), ids=list(RIGHT))
    async def test_what_can_be_used_is_not_found_fault_with(
        self, connection: Connection, changes: Mapping[str, Made]
    ) -> None:
        await make(connection, {**GOOD, **changes})
        assert await problems(connection) == {}
        assert await topics.require(connection) == 2

    async def test_it_tells_where_there_are_not_as_many_partitions_as_were_asked_for(
        self, connection: Connection
    ) -> None:
        await make(connection, GOOD)
        assert await problems(connection, partitions=2) == {}
        found = await problems(connection, partitions=5)
        assert set(found) == {EVENTS.name, DECISIONS.name, TURNS.name}
        assert found[EVENTS.name][0].startswith("has 2 partitions and not 5")

    async def test_it_shows_what_is_there(self, connection: Connection) -> None:
        await make(connection, {EVENTS.name: Made(2, {**LARGE, "retention.ms": "1234567"})})
        events, decisions, *_ = await topics.inspect(connection)
        assert (events.name, events.partitions) == (connection.named(EVENTS.name), 2)
        assert (events.replicas, events.settings["retention.ms"]) == (1, "1234567")
        assert (decisions.partitions, decisions.replicas, decisions.settings) == (0, 0, {})


class TestRequire:
    async def test_it_names_all_that_is_wrong_in_one_line(self, connection: Connection) -> None:
        await make(connection, {EVENTS.name: Made(), DECISIONS.name: Made(3, {})})
        with pytest.raises(NoStore) as error:
            await topics.require(connection)
        line = str(error.value)
        assert line.startswith("the topics cannot be used: ")
        assert "\n" not in line
        for name, found in (await problems(connection)).items():
            for problem in found:
                assert f"{connection.named(name)} {problem}" in line

    async def test_where_nobody_answers_it_can_be_asked_again(self) -> None:
        away = Connection("127.0.0.1:1")
        for question in (topics.require(away), topics.inspect(away), topics.create(away, 1, 1)):
            with pytest.raises(Unreachable, match="cannot be reached"):
                await question
