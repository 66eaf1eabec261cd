"""The topics and the users of the processes as resources of Strimzi's operators."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from schemas.topics import TOPICS
from streams.log.kafka.topics import settings_of
from streams.maintain.app.permissions import Login, Permission
from streams.store.app.failures import UsageError

Resource: TypeAlias = dict[str, Any]

_API = "kafka.strimzi.io/v1beta2"
_CLUSTER = "strimzi.io/cluster"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def topics(
    cluster: str, named: Callable[[str], str], partitions: int, replicas: int
) -> list[Resource]:
    """Return a KafkaTopic for each topic of the registry, as `topics create` would make it."""
    return [
        _resource(
            "KafkaTopic",
            _resource_name(named(topic.name)),
            cluster,
            {
                "topicName": named(topic.name),
                "partitions": partitions,
                "replicas": replicas,
                "config": settings_of(topic, replicas),
            },
        )
        for topic in TOPICS
    ]


def users(
    cluster: str, permissions: Mapping[str, Sequence[Permission]], login: Login
) -> list[Resource]:
    """Return a KafkaUser for each user. Raises UsageError for a name that none can have."""
    for name in permissions:
        if _NAME.fullmatch(name) is None:
            raise UsageError(
                f"--user: {name} is not a valid name of a Kubernetes resource: a-z, 0-9, - and ."
            )
    return [
        _resource(
            "KafkaUser",
            name,
            cluster,
            {
                "authentication": {"type": login.value},
                "authorization": {"type": "simple", "acls": [_rule(one) for one in found]},
            },
        )
        for name, found in permissions.items()
    ]


def _rule(permission: Permission) -> Resource:
    return {
        "resource": {
            "type": permission.resource,
            "name": permission.name,
            "patternType": "literal",
        },
        "operations": list(permission.operations),
    }


def _resource(kind: str, name: str, cluster: str, spec: Resource) -> Resource:
    return {
        "apiVersion": _API,
        "kind": kind,
        "metadata": {"name": name, "labels": {_CLUSTER: cluster}},
        "spec": spec,
    }


def _resource_name(topic: str) -> str:
    """Return a topic's name as Kubernetes allows it; `topicName` has the name itself."""
    parts = re.sub(r"[^a-z0-9.]+", "-", topic.lower()).split(".")
    return ".".join(part.strip("-") for part in parts if part.strip("-"))
