"""Parses a model's answer as an object; anything else is rejected."""

import json
from collections.abc import Set as AbstractSet
from typing import Any

from pydantic import JsonValue

from streams.model.ports.models import NoAnswer


class _Repeated(ValueError):
    """An object has the same field twice."""


def object_of(
    content: str, *, required: AbstractSet[str], optional: AbstractSet[str] = frozenset()
) -> dict[str, JsonValue] | NoAnswer:
    """Read an object with these fields, each once, and no others."""
    try:
        value: JsonValue = json.loads(content, object_pairs_hook=_each_once)
    except _Repeated:
        return NoAnswer("contradicts itself")
    except (ValueError, RecursionError):
        return NoAnswer("not JSON")
    if not isinstance(value, dict):
        return NoAnswer("not JSON")
    if not required <= value.keys() <= required | optional:
        return NoAnswer("wrong fields")
    return value


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise _Repeated
    return fields
