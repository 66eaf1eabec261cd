"""Creates the registry's topics in a cluster, and checks them before any of them is used."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import TopicAlreadyExistsError, for_code

from schemas.topics import CHANGES, EVENTS, INPUTS, TOPICS, Topic
from streams.log.kafka.connection import Connection, require_permitted
from streams.log.kafka.log import REQUEST_BYTES_MAX
from streams.model.ports.failures import NoServer, NoStore

EVENT_BYTES: Final = 1_048_576
"""The default limit of clients; larger events are refused anyway."""

_REPLICAS = 3
_REPLICAS_IN_SYNC = 2
_FOREVER = -1
_LOOKED_AT = {
    "cleanup.policy",
    "max.compaction.lag.ms",
    "max.message.bytes",
    "message.timestamp.type",
    "min.insync.replicas",
    "retention.bytes",
    "retention.ms",
}
_COMPACTED_WITHIN = timedelta(days=1)
"""How long erased records may stay in a compacted topic, apart from the cleaning time itself."""
_PAUSE_SECONDS = 0.1


@dataclass(frozen=True)
class ClusterTopic:
    """A topic as found in the cluster; `partitions` is 0 if it does not exist.

    `problems` keep services from starting; `warnings` are settings that may lose what is late.
    """

    name: str
    partitions: int
    replicas: int
    settings: Mapping[str, str]
    problems: Sequence[str]
    warnings: Sequence[str]


async def create(connection: Connection, partitions: int, replicas: int | None) -> list[str]:
    """Create the missing topics; return their names.

    `replicas` None means three, or the number of brokers if there are fewer.
    """
    async with connection.meanings(), _admin(connection) as admin:
        there = await _described(admin, connection)
        _require_partitions(connection, there, partitions)
        wanted = replicas or min(_REPLICAS, len((await admin.describe_cluster())["brokers"]))
        missing = [topic for topic in TOPICS if connection.named(topic.name) not in there]
        for topic in missing:
            await _create(admin, connection.named(topic.name), topic, partitions, wanted)
        # Every broker must learn of a new topic first.
        while len(await _described(admin, connection)) < len(TOPICS):  # noqa: ASYNC110
            await asyncio.sleep(_PAUSE_SECONDS)
    return [connection.named(topic.name) for topic in missing]


async def inspect(connection: Connection, partitions: int | None = None) -> list[ClusterTopic]:
    """Return each topic with its problems, if any.

    `partitions` is the required number for events, turns and decisions; None for any equal number.
    """
    async with connection.meanings(), _admin(connection) as admin:
        there = await _described(admin, connection)
        settings = await _settings(admin, [name for name in there if there[name]])
    events = there.get(connection.named(EVENTS.name), [])
    wanted = partitions or len(events)
    return [
        _found(topic, connection.named(topic.name), there, settings, wanted) for topic in TOPICS
    ]


async def require(connection: Connection) -> int:
    """Return the partitions of events, turns and decisions. Raises NoStore for a wrong layout."""
    found = await inspect(connection)
    problems = [f"{topic.name} {problem}" for topic in found for problem in topic.problems]
    if problems:
        raise NoStore(f"the topics cannot be used: {'; '.join(problems)}")
    return found[0].partitions


def settings_of(topic: Topic, replicas: int) -> dict[str, str]:
    """Return a new topic's settings; incoming records get the broker's time."""
    retention = topic.retention
    settings = {
        "cleanup.policy": _cleanup(topic),
        "max.message.bytes": str(REQUEST_BYTES_MAX),
        "retention.ms": str(
            _FOREVER if retention is None else round(retention.total_seconds() * 1_000)
        ),
        "retention.bytes": "-1",
    }
    if topic.compacted:
        lag = round(_COMPACTED_WITHIN.total_seconds() * 1_000)
        settings["max.compaction.lag.ms"] = str(lag)
    if topic in INPUTS:
        settings["message.timestamp.type"] = "LogAppendTime"
    if replicas >= _REPLICAS:
        settings["min.insync.replicas"] = str(_REPLICAS_IN_SYNC)
    return settings


def _found(
    topic: Topic,
    name: str,
    there: Mapping[str, Sequence[Mapping[str, Any]]],
    settings: Mapping[str, Mapping[str, str]],
    wanted: int,
) -> ClusterTopic:
    partitions = there.get(name, [])
    replicas = min((len(partition["replicas"]) for partition in partitions), default=0)
    found = {key: value for key, value in settings.get(name, {}).items() if key in _LOOKED_AT}
    problems = list(_problems(topic, len(partitions), found, wanted))
    warnings = _warnings(found, settings_of(topic, replicas)) if partitions else []
    return ClusterTopic(name, len(partitions), replicas, found, problems, warnings)


def _problems(
    topic: Topic, partitions: int, settings: Mapping[str, str], wanted: int
) -> Sequence[str]:
    if not partitions:
        return ["does not exist: memsieve service topics create"]
    problems: list[str] = []
    if topic.partitions == "as events" and wanted and partitions != wanted:
        problems.append(
            f"has {partitions} partitions and not {wanted}: turns, events and decisions pair up by "
            "partition, and a scope's partition follows from their number; it cannot be changed: "
            "start over under another kafka.prefix"
        )
    if wrong := _wrong_cleanup(topic, settings.get("cleanup.policy", "delete")):
        problems.append(wrong)
    problems += [
        f"forgets records, but it is the source of truth: set {limit}=-1"
        for limit in ("retention.ms", "retention.bytes")
        if topic.retention is None and settings.get(limit, "-1") != str(_FOREVER)
    ]
    wanted_size = EVENT_BYTES if topic in INPUTS else REQUEST_BYTES_MAX
    if int(settings.get("max.message.bytes", REQUEST_BYTES_MAX)) < wanted_size:
        problems.append(f"refuses large records: set max.message.bytes={REQUEST_BYTES_MAX}")
    return problems


def _warnings(found: Mapping[str, str], wanted: Mapping[str, str]) -> list[str]:
    """Return what may be lost by settings that `create` would make otherwise."""
    warnings: list[str] = []
    retention, lag, clock = "retention.ms", "max.compaction.lag.ms", "message.timestamp.type"
    if 0 <= int(found.get(retention, _FOREVER)) < int(wanted[retention]):
        kept = timedelta(milliseconds=int(found[retention]))
        warnings.append(
            f"what is not read within {kept} is lost: set {retention}={wanted[retention]}"
        )
    if lag in wanted and int(found.get(lag, wanted[lag])) > int(wanted[lag]):
        warnings.append(
            f"what is forgotten may stay for longer than a day: set {lag}={wanted[lag]}"
        )
    if clock in wanted and found.get(clock) != wanted[clock]:
        warnings.append(
            f"producers' clocks decide how long it is kept: set {clock}={wanted[clock]}"
        )
    return warnings


def _require_partitions(
    connection: Connection, there: Mapping[str, Sequence[object]], wanted: int
) -> None:
    """Raise NoStore before creating topics that would not match the existing ones."""
    for topic in (topic for topic in TOPICS if topic.partitions == "as events"):
        found = len(there.get(connection.named(topic.name), ()))
        if found not in {0, wanted}:
            raise NoStore(
                f"{connection.named(topic.name)} has {found} partitions and not {wanted}: give "
                f"--partitions {found}, or start over under another kafka.prefix"
            )


def _cleanup(topic: Topic) -> str:
    return "compact" if topic.compacted else "delete"


def _wrong_cleanup(topic: Topic, found: str) -> str | None:
    """Return what is wrong with a topic's cleanup policy; None if it is right."""
    if topic is CHANGES or found == _cleanup(topic):
        return None
    if not topic.compacted:
        return "is compacted: that deletes records; set cleanup.policy=delete"
    if found == "delete":
        return "is not compacted, so nothing in it can be forgotten: set cleanup.policy=compact"
    return "deletes records, but it is the source of truth: set cleanup.policy=compact"


async def _create(
    admin: AIOKafkaAdminClient, name: str, topic: Topic, partitions: int, replicas: int
) -> None:
    made = NewTopic(name, partitions, replicas, topic_configs=settings_of(topic, replicas))
    answer = await admin.create_topics([made])
    for _, code, reason in answer.topic_errors:
        require_permitted(f"the creation of {name}", code)
        if code and for_code(code) is not TopicAlreadyExistsError:
            raise NoServer(f"topic {name} cannot be made: {reason or for_code(code).__name__}")


async def _described(
    admin: AIOKafkaAdminClient, connection: Connection
) -> dict[str, Sequence[Mapping[str, Any]]]:
    """Return the partitions of our topics that exist."""
    names = [connection.named(topic.name) for topic in TOPICS]
    found = await admin.describe_topics(names)
    for topic in found:
        require_permitted(topic["topic"], topic["error_code"])
    return {
        topic["topic"]: topic["partitions"]
        for topic in found
        if topic["error_code"] == 0 and topic["partitions"]
    }


async def _settings(admin: AIOKafkaAdminClient, names: Sequence[str]) -> dict[str, dict[str, str]]:
    if not names:
        return {}
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    answers = await admin.describe_configs(resources)
    found = [resource for answer in answers for resource in answer.resources]
    for code, _, _, name, _ in found:
        require_permitted(f"the settings of {name}", code)
    return {name: {entry[0]: entry[1] for entry in entries} for _, _, _, name, entries in found}


@asynccontextmanager
async def _admin(connection: Connection) -> AsyncGenerator[AIOKafkaAdminClient]:
    client = AIOKafkaAdminClient(**connection.options())
    try:
        await client.start()
        yield client
    finally:
        await client.close()
