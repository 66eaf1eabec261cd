"""`memsieve service topics`: the topics in the cluster."""

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from streams.store.app import wiring
from streams.store.cli import options
from streams.store.cli.console import mark_of, say, say_json
from streams.store.world.extras import require

if TYPE_CHECKING:
    from streams.log.kafka.topics import ClusterTopic


Partitions = Annotated[
    int | None,
    typer.Option(
        "--partitions",
        min=1,
        max=10_000,
        help="Partitions of turns, events and decisions. [create: 6; check: as found]",
    ),
]


def create(
    *,
    partitions: Partitions = None,
    replicas: Annotated[
        int | None,
        typer.Option(
            "--replicas",
            min=1,
            max=100,
            help="Copies of each partition. [3, or as many as there are brokers]",
        ),
    ] = None,
    kafka: options.Kafka = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Create missing topics, and check those that exist.

    The number of partitions cannot be changed later, because it determines each scope's partition.
    """
    require("kafka", "a Kafka cluster")
    from streams.log.kafka import topics  # noqa: PLC0415 - Kafka's libraries take a second

    settings = options.load(config, kafka__bootstrap=kafka)
    connection = wiring.connection(settings.kafka)
    made = asyncio.run(topics.create(connection, partitions or _PARTITIONS, replicas))
    if not as_json:
        for name in made:
            say(f"created {name}")
    _check(asyncio.run(topics.inspect(connection, partitions)), as_json=as_json)


def check(
    *,
    partitions: Partitions = None,
    kafka: options.Kafka = None,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Check that the topics exist, and that they lose nothing."""
    require("kafka", "a Kafka cluster")
    from streams.log.kafka import topics  # noqa: PLC0415

    settings = options.load(config, kafka__bootstrap=kafka)
    found = asyncio.run(topics.inspect(wiring.connection(settings.kafka), partitions))
    _check(found, as_json=as_json)


_PARTITIONS = 6


def _check(found: "list[ClusterTopic]", *, as_json: bool) -> None:
    if as_json:
        say_json(asdict(topic) for topic in found)
    else:
        for topic in found:
            _show(topic)
    if any(topic.problems for topic in found):
        raise typer.Exit(3)


def _show(topic: "ClusterTopic") -> None:
    mark, style = mark_of(healthy=not topic.problems, warned=bool(topic.warnings))
    facts = f"{topic.partitions} partition(s), {topic.replicas} replica(s)"
    say(f"{mark}  {topic.name}: {facts if topic.partitions else 'not there'}", style=style)
    for found in (*topic.problems, *topic.warnings):
        say(f"    {found}")
