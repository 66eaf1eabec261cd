"""JSON Schema and AsyncAPI documents, generated from the models."""

import json
from importlib import metadata
from pathlib import Path
from typing import Any

from schemas.topics import INPUTS, TOPICS, Topic

ASYNCAPI = "asyncapi.json"


def documents() -> dict[str, dict[str, Any]]:
    """Return all documents by file name."""
    schemas = {f"{topic.name}.schema.json": json_schema(topic) for topic in TOPICS}
    return {**schemas, ASYNCAPI: asyncapi()}


def json_schema(topic: Topic) -> dict[str, Any]:
    """Return the JSON Schema of a topic's records."""
    schemas = [adapter.json_schema(ref_template="#/$defs/{model}") for adapter in topic.payloads]
    definitions = {n: d for schema in schemas for n, d in schema.pop("$defs", {}).items()}
    body = schemas[0] if len(schemas) == 1 else {"oneOf": schemas}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": topic.name,
        "description": topic.purpose,
        **{name: value for name, value in body.items() if name not in {"title", "description"}},
        **({"$defs": definitions} if definitions else {}),
    }


def asyncapi() -> dict[str, Any]:
    """Return an AsyncAPI 3 document: channels, their keys and the direction of their use."""
    return {
        "asyncapi": "3.0.0",
        "info": {"title": "memsieve", "version": metadata.version("memsieve")},
        "defaultContentType": "application/json",
        "channels": {topic.name: _channel(topic) for topic in TOPICS},
        "operations": {_operation_name(topic): _operation(topic) for topic in TOPICS},
    }


def write(directory: Path) -> list[Path]:
    """Write every document; return the paths."""
    directory.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    for name, document in documents().items():
        path = directory / name
        path.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", "utf-8")
        paths.append(path)
    return paths


def _channel(topic: Topic) -> dict[str, Any]:
    retention = "forever" if topic.retention is None else f"{topic.retention.days} days"
    return {
        "address": topic.name,
        "description": (
            f"{topic.purpose} Key: {topic.key}. Partitions: {topic.partitions}. Kept: {retention}."
        ),
        "messages": {
            "record": {
                "payload": {
                    "schemaFormat": "application/schema+json;version=draft-2020-12",
                    "schema": {"$ref": f"./{topic.name}.schema.json"},
                },
            }
        },
    }


def _operation_name(topic: Topic) -> str:
    return f"{'publish' if topic in INPUTS else 'consume'}-{topic.name}"


def _operation(topic: Topic) -> dict[str, Any]:
    """Return the operation from memsieve's side: it receives from producers, and sends the rest."""
    action = "receive" if topic in INPUTS else "send"
    return {"action": action, "channel": {"$ref": f"#/channels/{topic.name}"}}
