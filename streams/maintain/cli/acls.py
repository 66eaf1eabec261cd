"""`memsieve service topics acls`: the permissions that each process needs."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated

import typer

from streams.maintain.app.permissions import PROCESSES, Login, Permission, permissions
from streams.store.app import wiring
from streams.store.cli import options
from streams.store.cli.console import say, say_json, say_object
from streams.store.cli.options import UsageError
from streams.store.world.extras import require


class AclFormat(StrEnum):
    """What the permissions are written for."""

    TEXT = "text"
    KAFKA_ACLS = "kafka-acls"
    STRIMZI = "strimzi"


def acls(
    processes: Annotated[
        list[str] | None,
        typer.Argument(metavar="PROCESS", help=f"{', '.join(p.name for p in PROCESSES)} [all]"),
    ] = None,
    *,
    user: Annotated[
        str,
        typer.Option("--user", help="The user of a process; {process} becomes its name."),
    ] = "memsieve-{process}",
    format_: Annotated[
        AclFormat,
        typer.Option(
            "--format",
            help="kafka-acls: one line of arguments per call. strimzi: KafkaTopics and KafkaUsers.",
        ),
    ] = AclFormat.TEXT,
    cluster: Annotated[
        str, typer.Option("--cluster", help="strimzi: the name of the Kafka resource.")
    ] = "kafka",
    login: Annotated[
        Login, typer.Option("--login", help="strimzi: how the users log in.")
    ] = Login.SCRAM,
    partitions: Annotated[
        int, typer.Option("--partitions", min=1, max=10_000, help="strimzi: of each topic.")
    ] = 6,
    replicas: Annotated[
        int, typer.Option("--replicas", min=1, max=100, help="strimzi: of each topic.")
    ] = 3,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """List the Kafka permissions that each process needs.

    `api` is also for `service web`; `operator` is for all other commands on a cluster, including
    `topics create`. The command contacts no cluster: kafka.prefix and kafka.run determine the
    names.
    """
    require("kafka", "a Kafka cluster")
    from streams.maintain.app import strimzi  # noqa: PLC0415 - Kafka's libraries take a second

    named = wiring.names(options.load(config).kafka)
    wanted = _wanted(processes or [])
    found = {
        user.replace("{process}", one.name): permissions(one, named)
        for one in PROCESSES
        if one.name in wanted
    }
    if len(found) < len(wanted):
        raise UsageError("--user gives processes one name: write {process} in it")
    if as_json:
        say_json({"user": who, **asdict(one)} for who, all_ in found.items() for one in all_)
    elif format_ is AclFormat.STRIMZI:
        topics = strimzi.topics(cluster, named, partitions, replicas)
        users = strimzi.users(cluster, found, login)
        say_object({"apiVersion": "v1", "kind": "List", "items": topics + users})
    elif format_ is AclFormat.KAFKA_ACLS:
        _say_arguments(found)
    else:
        _say_lists(found)


def _wanted(processes: Sequence[str]) -> set[str]:
    known = [one.name for one in PROCESSES]
    if unknown := sorted({*processes} - {*known}):
        raise UsageError(f"{unknown[0]} is not a process; known: {', '.join(known)}")
    return {*processes} or {*known}


def _say_lists(found: Mapping[str, Sequence[Permission]]) -> None:
    for user, permitted in found.items():
        say(user, style="bold")
        for one in permitted:
            say(f"  {one.resource} {one.name}: {', '.join(one.operations)}")


def _say_arguments(found: Mapping[str, Sequence[Permission]]) -> None:
    for user, permitted in found.items():
        for one in permitted:
            operations = [word for name in one.operations for word in ("--operation", name)]
            who = ["--add", "--allow-principal", f"User:{user}"]
            say(shlex.join([*who, *operations, f"--{one.resource}", one.name]))
