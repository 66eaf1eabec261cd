"""A policy's content as TOML, so that it can be read back, and the values of nested tables."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast


def as_toml(content: Mapping[str, Any], comment: Sequence[str] = ()) -> str:
    """Return a policy's content as TOML that `parse` reads, with a comment on top."""
    head = [f"# {line}" for line in comment]
    return "\n".join([*head, "", *_table(content, ())]).lstrip() + "\n"


def leaves(
    tree: Mapping[str, object], at: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yield each value that is no table, with its path."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from leaves(cast("dict[str, object]", value), (*at, key))
        else:
            yield (*at, key), value


def _table(content: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines of a table, its values before its subtables; skip None: TOML has no null."""
    given = {key: one for key, one in content.items() if one is not None}
    values = {key: one for key, one in given.items() if not isinstance(one, dict)}
    if path and (values or not content):
        yield f"\n[{'.'.join(_key(part) for part in path)}]"
    for key, value in values.items():
        yield f"{_key(key)} = {_value(value)}"
    for key, value in given.items():
        if isinstance(value, dict):
            yield from _table(cast("dict[str, Any]", value), (*path, key))


def _key(name: str) -> str:
    bare = name.replace("_", "").replace("-", "")
    return name if bare.isascii() and bare.isalnum() else _value(name)


def _value(value: object) -> str:
    """Return a value as TOML: JSON strings, numbers and lists are valid TOML except for U+007F."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
