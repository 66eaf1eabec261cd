"""`memsieve service topics acls`: the permissions of each process, as text, for Kafka and Strimzi."""

import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from schemas.topics import TOPICS
from streams.maintain.app.permissions import PROCESSES
from tests.commands.conftest import Memsieve

ACLS = ("service", "topics", "acls")
NAME = {
    "type": "string",
    "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
}


def exactly(required: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with these fields and no other."""
    return {
        "type": "object",
        "properties": required,
        "required": list(required),
        "additionalProperties": False,
    }


METADATA = exactly({"name": NAME, "labels": exactly({"strimzi.io/cluster": {"const": "main"}})})
TOPIC = exactly(
    {
        "topicName": {"type": "string"},
        "partitions": {"type": "integer", "minimum": 1},
        "replicas": {"type": "integer", "minimum": 1, "maximum": 32_767},
        "config": {"type": "object", "additionalProperties": {"type": "string"}},
    }
)
OPERATIONS = [
    *("Read", "Write", "Create", "Delete", "Alter", "Describe", "ClusterAction", "All"),
    *("AlterConfigs", "DescribeConfigs", "IdempotentWrite"),
]
RULE = exactly(
    {
        "resource": exactly(
            {
                "type": {"enum": ["topic", "group", "cluster", "transactionalId"]},
                "name": {"type": "string"},
                "patternType": {"enum": ["literal", "prefix"]},
            }
        ),
        "operations": {"type": "array", "items": {"enum": OPERATIONS}, "minItems": 1},
    }
)
USER = exactly(
    {
        "authentication": exactly({"type": {"enum": ["tls", "tls-external", "scram-sha-512"]}}),
        "authorization": exactly(
            {"type": {"const": "simple"}, "acls": {"type": "array", "items": RULE, "minItems": 1}}
        ),
    }
)


def resource(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    version = {"const": "kafka.strimzi.io/v1beta2"}
    return exactly(
        {"apiVersion": version, "kind": {"const": kind}, "metadata": METADATA, "spec": spec}
    )


SPECS = {"KafkaTopic": resource("KafkaTopic", TOPIC), "KafkaUser": resource("KafkaUser", USER)}
"""The fields of Strimzi's API that are used, as its documentation has them."""


def test_it_names_each_topic_once_for_each_process_and_the_groups_that_it_joins(
    memsieve: Memsieve,
) -> None:
    found = memsieve(*ACLS, "--json").json()
    for process in PROCESSES:
        mine = [one for one in found if one["user"] == f"memsieve-{process.name}"]
        named = [one["name"] for one in mine if one["resource"] == "topic"]
        assert named == [topic.name for topic in TOPICS]
        assert all(one["operations"] for one in mine)
    [group] = [
        one for one in found if one["user"] == "memsieve-writer" and one["resource"] == "group"
    ]
    assert (group["name"], group["operations"]) == ("memsieve-writer", ["Read"])


def test_only_the_deduplicator_and_the_writer_write_decisions(memsieve: Memsieve) -> None:
    found = memsieve(*ACLS, "--json").json()
    writers = {
        one["user"]
        for one in found
        if one["name"] == "memory.decisions" and "Write" in one["operations"]
    }
    assert writers == {"memsieve-deduplicator", "memsieve-writer", "memsieve-serve"}


def test_names_have_the_prefix_and_the_run(
    memsieve: Memsieve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMSIEVE_KAFKA__PREFIX", "acme.")
    monkeypatch.setenv("MEMSIEVE_KAFKA__RUN", "two")
    names = [one["name"] for one in memsieve(*ACLS, "deduplicator", "--json").json()]
    assert names[:2] == ["acme.memory.events", "acme.memory.decisions.two"]
    assert names[-1] == "acme.memsieve-deduplicator.two"


def test_for_kafka_each_line_is_the_arguments_of_one_call(memsieve: Memsieve) -> None:
    done = memsieve(*ACLS, "writer", "--user", "CN={process}", "--format", "kafka-acls")
    first, *_, last = done.out.splitlines()
    assert first == (
        "--add --allow-principal User:CN=writer --operation Describe --operation DescribeConfigs "
        "--topic memory.events"
    )
    assert last == "--add --allow-principal User:CN=writer --operation Read --group memsieve-writer"


def strimzi(memsieve: Memsieve, *arguments: str) -> Iterator[dict[str, Any]]:
    """Return the resources, each of which has the fields of its kind and no other."""
    done = memsieve(*ACLS, "--format", "strimzi", "--cluster", "main", *arguments)
    found = done.json()
    assert (found["apiVersion"], found["kind"]) == ("v1", "List")
    for one in found["items"]:
        jsonschema.validate(one, SPECS[one["kind"]])
        yield one


def test_for_strimzi_it_makes_each_topic_and_each_user(memsieve: Memsieve) -> None:
    found = list(strimzi(memsieve, "--partitions", "12"))
    topics = {one["spec"]["topicName"]: one for one in found if one["kind"] == "KafkaTopic"}
    assert list(topics) == [topic.name for topic in TOPICS]
    assert {one["spec"]["partitions"] for one in topics.values()} == {12}
    decisions = topics["memory.decisions"]["spec"]
    assert decisions["replicas"] == 3
    assert decisions["config"]["cleanup.policy"] == "compact"
    assert decisions["config"]["min.insync.replicas"] == "2"
    users = {one["metadata"]["name"]: one["spec"] for one in found if one["kind"] == "KafkaUser"}
    assert list(users) == [f"memsieve-{process.name}" for process in PROCESSES]
    assert {one["authentication"]["type"] for one in users.values()} == {"scram-sha-512"}
    rules = users["memsieve-writer"]["authorization"]["acls"]
    assert {
        "resource": {"type": "group", "name": "memsieve-writer", "patternType": "literal"},
        "operations": ["Read"],
    } in rules


def test_strimzis_users_may_log_in_by_certificate(memsieve: Memsieve) -> None:
    *_, user = strimzi(memsieve, "writer", "--login", "tls")
    assert user["spec"]["authentication"] == {"type": "tls"}


def test_names_that_kubernetes_does_not_take_are_written_as_it_does(
    memsieve: Memsieve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMSIEVE_KAFKA__PREFIX", "Acme_Labs-.")
    first, *_ = strimzi(memsieve, "writer")
    assert first["metadata"]["name"] == "acme-labs.memory.events"
    assert first["spec"]["topicName"] == "Acme_Labs-.memory.events"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["reader"], "reader is not a process; known: deduplicator, writer,"),
        (["--user", "memsieve"], "--user gives processes one name: write {process} in it"),
        (
            ["--user", "CN={process}", "--format", "strimzi"],
            "--user: CN=deduplicator is not a valid name",
        ),
    ],
)
def test_what_cannot_be_listed_is_refused(
    memsieve: Memsieve, arguments: list[str], line: str
) -> None:
    done = memsieve(*ACLS, *arguments)
    assert done.code == 2
    assert re.match(rf"memsieve: {re.escape(line)}", done.err)
    assert done.err.count("\n") == 1
