"""The registry's topics in a cluster: made as they must be, and refused where they are not."""

from collections.abc import AsyncGenerator, Mapping

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from schemas.topics import CHANGES, DEAD_LETTERS, DECISIONS, EVENTS, TOPICS
from streams.adapters.kafka import topics
from streams.adapters.kafka.connection import Connection
from streams.adapters.kafka.log import REQUEST_BYTES_MAX
from streams.ports import Fatal, NoStore

THIRTY_DAYS = str(30 * 24 * 3_600 * 1_000)


@pytest.fixture
def connection(kafka_bootstrap: str, topic_prefix: str) -> Connection:
    return Connection(kafka_bootstrap, topic_prefix)


@pytest.fixture
async def admin(connection: Connection) -> AsyncGenerator[AIOKafkaAdminClient]:
    client = AIOKafkaAdminClient(**connection.options())
    await client.start()
    yield client
    await client.close()


async def alter(
    admin: AIOKafkaAdminClient, connection: Connection, topic: str, settings: Mapping[str, str]
) -> None:
    """Give a topic settings; those that are not named fall to their defaults."""
    name = connection.named(topic)
    await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, settings)])


async def test_topics_are_made_so_that_nothing_is_lost(connection: Connection) -> None:
    made = await topics.create(connection, 3, None)
    assert made == [connection.named(topic.name) for topic in TOPICS]
    found = {one.name: one for one in await topics.inspect(connection)}
    assert [one.problems for one in found.values()] == [[]] * len(TOPICS)
    assert {one.partitions for one in found.values()} == {3}
    events = found[connection.named(EVENTS.name)].settings
    decisions = found[connection.named(DECISIONS.name)].settings
    assert events["message.timestamp.type"] == "LogAppendTime"
    assert (events["retention.ms"], decisions["retention.ms"]) == (THIRTY_DAYS, "-1")
    for one in found.values():
        assert one.settings["cleanup.policy"] == "delete"
        assert one.settings["max.message.bytes"] == str(REQUEST_BYTES_MAX)
    assert await topics.require(connection) == 3


async def test_making_them_again_changes_nothing(connection: Connection) -> None:
    await topics.create(connection, 2, 1)
    before = await topics.inspect(connection)
    assert await topics.create(connection, 2, 3) == []
    assert await topics.inspect(connection) == before


async def test_nothing_is_made_beside_what_has_other_partitions(
    connection: Connection, admin: AIOKafkaAdminClient
) -> None:
    await admin.create_topics([NewTopic(connection.named(EVENTS.name), 3, 1)])
    with pytest.raises(NoStore, match=r"events has 3 partitions and not 6: give --partitions 3"):
        await topics.create(connection, 6, 1)
    assert [one.partitions for one in await topics.inspect(connection)] == [3, 0, 0, 0]


async def test_only_what_is_missing_is_made(
    connection: Connection, admin: AIOKafkaAdminClient
) -> None:
    await admin.create_topics([NewTopic(connection.named(CHANGES.name), 1, 1)])
    made = await topics.create(connection, 2, 1)
    assert connection.named(CHANGES.name) not in made
    assert len(made) == len(TOPICS) - 1


async def test_every_problem_is_named_in_one_line(
    connection: Connection, admin: AIOKafkaAdminClient
) -> None:
    await admin.create_topics(
        [
            NewTopic(connection.named(EVENTS.name), 3, 1),
            NewTopic(connection.named(DECISIONS.name), 2, 1),
            NewTopic(connection.named(CHANGES.name), 1, 1),
        ]
    )
    await alter(
        admin, connection, DECISIONS.name, {"cleanup.policy": "compact", "retention.bytes": "9999"}
    )
    await alter(
        admin, connection, EVENTS.name, {"cleanup.policy": "compact", "max.message.bytes": "1000"}
    )
    with pytest.raises(NoStore) as told:
        await topics.require(connection)
    said = str(told.value)
    for problem in (
        f"{DECISIONS.name} has 2 partitions and not 3",
        f"{DECISIONS.name} is compacted",
        f"{DECISIONS.name} forgets records, and it is the source of truth: set retention.ms=-1",
        f"{DECISIONS.name} forgets records, and it is the source of truth: set retention.bytes=-1",
        f"{EVENTS.name} is compacted",
        f"{EVENTS.name} refuses large records",
        f"{CHANGES.name} refuses large records",
        f"{DEAD_LETTERS.name} does not exist: memsieve topics create",
    ):
        assert f"{connection.prefix}{problem}" in said
    assert "\n" not in said


async def test_the_wanted_number_of_partitions_is_compared_with_both(
    connection: Connection,
) -> None:
    await topics.create(connection, 2, 1)
    found = await topics.inspect(connection, 4)
    assert [bool(one.problems) for one in found] == [True, True, False, False]


async def test_more_replicas_than_brokers_are_refused_with_the_brokers_reason(
    connection: Connection,
) -> None:
    with pytest.raises(Fatal, match=r"memory\.events cannot be made: .*[Rr]eplication factor"):
        await topics.create(connection, 1, 9)
