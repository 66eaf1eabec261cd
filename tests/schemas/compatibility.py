"""Whether what was valid under one JSON Schema is still valid under another.

The question of a producer who has not changed: does the new schema accept every record that the old
one accepts? Only what pydantic generates is understood; an unknown keyword is refused, not ignored.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

Schema: TypeAlias = Mapping[str, Any]

_AT_LEAST = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_AT_MOST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_EXACTLY = ("pattern", "format", "multipleOf", "uniqueItems")
_UNIONS = ("anyOf", "oneOf")
_SAYS_NOTHING = frozenset(
    {"$defs", "$schema", "default", "deprecated", "description", "discriminator", "examples"}
    | {"title"}
)
_UNDERSTOOD = _SAYS_NOTHING.union(
    _AT_LEAST,
    _AT_MOST,
    _EXACTLY,
    _UNIONS,
    {"$ref", "type", "const", "enum", "properties", "required", "additionalProperties"},
    {"propertyNames", "items", "prefixItems"},
)


def breaking_changes(old: Schema, new: Schema) -> list[str]:
    """Say in one line each, by the path of the field, which old records are refused by the new.

    An empty list: every record of the old schema is one of the new. Raises ValueError where a
    schema uses a keyword that this function cannot judge.
    """
    return _Comparison(old, new).changes(old, new, "")


class _Comparison:
    """Two documents, each with its own definitions."""

    def __init__(self, old: Schema, new: Schema) -> None:
        self._old = old
        self._new = new

    def changes(self, old: Schema, new: Schema, path: str) -> list[str]:
        before, after = _alternatives(old, self._old), _alternatives(new, self._new)
        return [change for one in before for change in self._accepted_by_one(one, after, path)]

    def _accepted_by_one(self, old: Schema, candidates: list[Schema], path: str) -> list[str]:
        """Compare with the nearest of several schemas: none may accept it all."""
        refusals = [(self._between(old, candidate, path), candidate) for candidate in candidates]
        if any(not changes for changes, _ in refusals):
            return []
        alike = [
            changes
            for changes, candidate in refusals
            if len(candidates) == 1 or _name(candidate) == _name(old)
        ]
        return min(alike, key=len, default=[f"{_at(path)}: {_name(old)} is no longer accepted"])

    def _between(self, old: Schema, new: Schema, path: str) -> list[str]:
        if wrong := _types(old, new, path):
            return wrong  # what follows would only repeat it
        return [
            *_values(old, new, path),
            *_bounds(old, new, path),
            *self._fields(old, new, path),
            *self._rest("additionalProperties", "other fields", old, new, path),
            *self._nested("propertyNames", old, new, f"{path}{{name}}"),
            *self._elements(old, new, path),
        ]

    def _fields(self, old: Schema, new: Schema, path: str) -> list[str]:
        before: Schema = old.get("properties", {})
        after: Schema = new.get("properties", {})
        required = set(new.get("required", ())) - set(old.get("required", ()))
        found = [f"{_at(path, name)}: the field is gone" for name in before if name not in after]
        found += [f"{_at(path, name)}: is now required" for name in sorted(required)]
        for name, field in before.items():
            if name in after:
                found += self.changes(field, after[name], _at(path, name))
        return found

    def _elements(self, old: Schema, new: Schema, path: str) -> list[str]:
        before: list[Schema] = old.get("prefixItems", [])
        after: list[Schema] = new.get("prefixItems", [])
        found = self._rest("items", "further elements", old, new, f"{path}[]")
        for place, element in enumerate(after):
            was: Schema = before[place] if place < len(before) else old.get("items", {})
            found += self.changes(was, element, f"{path}[{place}]")
        return found

    def _rest(self, keyword: str, meaning: str, old: Schema, new: Schema, path: str) -> list[str]:
        """Compare what is allowed beyond what is listed: anything, a schema, or nothing."""
        before, after = old.get(keyword, True), new.get(keyword, True)
        if before is False or after is True:
            return []
        if after is False:
            return [f"{_at(path)}: {meaning} are no longer allowed"]
        return self.changes({} if before is True else before, after, f"{path}{{}}")

    def _nested(self, keyword: str, old: Schema, new: Schema, path: str) -> list[str]:
        return self.changes(old.get(keyword, {}), new[keyword], path) if keyword in new else []


def _alternatives(schema: Schema, document: Schema) -> list[Schema]:
    """Follow references and unfold unions, until each schema stands for itself."""
    if unknown := schema.keys() - _UNDERSTOOD:
        raise ValueError(f"cannot judge {', '.join(sorted(unknown))}")
    if not isinstance(schema.get("type", ""), str):
        raise ValueError("cannot judge several types in one schema; write anyOf")  # noqa: TRY004
    if "$ref" in schema:
        return _alternatives(_resolved(schema["$ref"], document), document)
    for union in _UNIONS:
        if union in schema:
            return [one for part in schema[union] for one in _alternatives(part, document)]
    return [schema]


def _resolved(reference: str, document: Schema) -> Schema:
    target: Schema = document
    for step in reference.removeprefix("#/").split("/"):
        target = target[step]
    return target


def _types(old: Schema, new: Schema, path: str) -> list[str]:
    before, after = old.get("type", "anything"), new.get("type", "anything")
    wider = {before, "anything"} | ({"number"} if before == "integer" else set[str]())
    return [] if after in wider else [f"{_at(path)}: {before} became {after}"]


def _values(old: Schema, new: Schema, path: str) -> list[str]:
    before, after = _allowed(old), _allowed(new)
    if after is None:
        return []
    if before is None:
        return [f"{_at(path)}: only {_shown(after)} allowed from now on"]
    lost = [value for value in before if value not in after]
    if "const" in old and "const" in new and lost:
        return [f"{_at(path)}: changed from {_shown(before)} to {_shown(after)}"]
    return [f"{_at(path)}: {_shown(lost)} no longer allowed"] if lost else []


def _allowed(schema: Schema) -> list[object] | None:
    return [schema["const"]] if "const" in schema else schema.get("enum")


def _shown(values: list[object]) -> str:
    return ", ".join(repr(value) for value in values)


def _bounds(old: Schema, new: Schema, path: str) -> list[str]:
    tighter = [
        keyword
        for keywords, sign in ((_AT_LEAST, 1), (_AT_MOST, -1))
        for keyword in keywords
        if keyword in new and (keyword not in old or sign * new[keyword] > sign * old[keyword])
    ]
    other = [keyword for keyword in _EXACTLY if keyword in new and new[keyword] != old.get(keyword)]
    return [
        f"{_at(path)}: {keyword} went from {old.get(keyword, 'none')} to {new[keyword]}"
        for keyword in (*tighter, *other)
    ]


def _name(schema: Schema) -> str:
    """Say what kind of thing a schema describes: what alternatives are told apart by."""
    kind = schema.get("properties", {}).get("kind", {}).get("const")
    return f"kind {kind}" if kind else str(schema.get("type", "anything"))


def _at(path: str, field: str = "") -> str:
    return ".".join(part for part in (path, field) if part) or "the record"
