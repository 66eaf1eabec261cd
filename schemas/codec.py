"""Converts bytes to models and back. The input is untrusted: errors are named, never guessed."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Generic, TypeVar, cast, get_args

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, from_json, to_json

from schemas.base import METADATA_DEPTH_MAX
from schemas.decisions import Decision, Fence, Marker, OnEvent, kind_of
from schemas.events import Event
from schemas.outcomes import Applied, DeadLetter, Review, Settled
from schemas.turns import Turn

Model = TypeVar("Model", bound=BaseModel)
Other = TypeVar("Other", bound=BaseModel)
Lift = Callable[[dict[str, Any]], dict[str, Any]]
"""Converts a payload from one version to the next; pure."""

LIFTS: Mapping[tuple[str, int], Lift] = {}
"""The conversions by (kind, version): each lifts a payload of that version to version + 1.

Empty while every kind is at version 1.
"""

_PROBLEMS_MAX = 5
_SHOWN_MAX = 40
_PATH_MAX = 160


class Unreadable(ValueError):
    """Bytes that are no record of the expected kind.

    `field` is the path of the offending field, None where the whole record is meant. The message
    is one line and never repeats a memory's text.
    """

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class Codec(Generic[Model]):
    """Reads and writes the records of one topic: a closed set of kinds, each at one version."""

    def __init__(
        self, kinds: Mapping[str, type[Model]], lifts: Mapping[tuple[str, int], Lift] = LIFTS
    ) -> None:
        self._kinds = kinds
        self._lifts = lifts
        self._adapters = {kind: TypeAdapter(model) for kind, model in kinds.items()}

    def __or__(self, other: "Codec[Other]") -> "Codec[Model | Other]":
        """Return a codec of the kinds of both."""
        return Codec({**self._kinds, **other._kinds}, {**self._lifts, **other._lifts})

    def encode(self, record: Model) -> bytes:
        return record.__pydantic_serializer__.to_json(record)

    def decode(self, data: bytes, *, likely: str | None = None) -> Model:
        """Read one record, lifting an old version to the current one.

        `likely` is the kind that is tried first: where it is right, the bytes are read once.
        Raises Unreadable for anything else, however hostile the bytes.
        """
        if likely in self._adapters:
            with suppress(ValidationError):
                return self._adapters[likely].validate_json(data, strict=True)
        payload = _object(data)
        kind = self._kind(payload)
        lifted = self._lift(kind, payload)
        try:
            return self._adapters[kind].validate_json(
                data if lifted is payload else to_json(lifted), strict=True
            )
        except ValidationError as error:
            raise _unreadable(error) from error

    def _kind(self, payload: dict[str, Any]) -> str:
        kind = payload.get("kind")
        if isinstance(kind, str) and kind in self._kinds:
            return kind
        known = ", ".join(sorted(self._kinds))
        named = isinstance(kind, str) and len(kind) <= _SHOWN_MAX and kind.isprintable()
        problem = (
            "is missing" if "kind" not in payload else f"is {repr(kind) if named else _shown(kind)}"
        )
        raise Unreadable(f"kind {problem}; known here: {known}", "kind")

    def _lift(self, kind: str, payload: dict[str, Any]) -> dict[str, Any]:
        current: int = self._kinds[kind].model_fields["schema_version"].default
        if "schema_version" not in payload:
            raise Unreadable(
                f"schema_version is missing; write the number {current}", "schema_version"
            )
        version = payload["schema_version"]
        if type(version) is not int or version < 0:
            raise Unreadable(
                f"schema_version is {_shown(version)}; write the number {current}", "schema_version"
            )
        if version > current:
            raise Unreadable(
                f"schema_version {_shown(version)} of kind {kind} is newer than {current}, the newest that "
                f"this memsieve reads; upgrade it, or publish version {current}",
                "schema_version",
            )
        while version < current:
            lift = self._lifts.get((kind, version))
            if lift is None:
                raise Unreadable(
                    f"schema_version {version} of kind {kind} is no longer read; publish {current}",
                    "schema_version",
                )
            version += 1
            payload = {**lift(payload), "schema_version": version}
        return payload


def _object(data: bytes) -> dict[str, Any]:
    if not data:
        raise Unreadable("the record is empty; publish a JSON object")
    try:
        payload = from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise Unreadable(f"not JSON: {error}; publish one JSON object in UTF-8") from error
    if not isinstance(payload, dict):
        raise Unreadable(f"is a JSON {_json_type(payload)}; publish a JSON object")
    return cast("dict[str, Any]", payload)


def _unreadable(error: ValidationError) -> Unreadable:
    """Tell all that is wrong in one line; the field is the first one's."""
    problems = error.errors(include_url=False, include_input=True)
    message = "; ".join(_problem(problem) for problem in problems[:_PROBLEMS_MAX])
    if len(problems) > _PROBLEMS_MAX:
        message += f"; and {len(problems) - _PROBLEMS_MAX} more"
    return Unreadable(message, _path(problems[0]))


_REMEDIES = {
    "missing": "is missing; add it",
    "extra_forbidden": "is not a field of this record; remove it, or put it into metadata",
}

_ENDLESS = ("recursion_loop", "recursion_depth_exceeded")

_PLAIN = {
    "dict_type": "should be an object",
    "model_type": "should be an object",
    "model_attributes_type": "should be an object",
    "tuple_type": "should be a list",
    "list_type": "should be a list",
    "int_parsing": "should be a valid integer",
    "float_parsing": "should be a valid number",
    "bool_parsing": "should be true or false",
    "invalid-json-value": "should be a JSON value",
    **dict.fromkeys(_ENDLESS, f"is nested deeper than {METADATA_DEPTH_MAX} levels"),
}
"""What pydantic says in words of Python's, or of its own."""

_LENGTHS = {"too_short": ("min_length", "at least"), "too_long": ("max_length", "at most")}
_BOUNDS = {"greater_than", "greater_than_equal", "less_than", "less_than_equal"}

_SELF_EXPLAINING = {
    "character",
    "blank",
    "scope_wildcard",
    "scope_length",
    "scope_form",
    "scope_segment",
    "base64",
    "vector_size",
    "time_range",
    "number_range",
    "depth",
    "turn_length",
    *_ENDLESS,
}


def _problem(problem: ErrorDetails) -> str:
    return f"{_path(problem) or 'the record'} {complaint(problem)}"


def complaint(problem: ErrorDetails) -> str:
    """Tell what is wrong with a field, and what to do; its name belongs before it."""
    if remedy := _REMEDIES.get(problem["type"]):
        return remedy
    message = plain(problem)
    if problem["type"] in _SELF_EXPLAINING:
        return message
    found = problem["input"]
    is_choice = problem["type"] in {"literal_error", "enum"} and isinstance(found, str)
    is_number = problem["type"] in _BOUNDS and isinstance(found, str)
    shown = repr(found[:_SHOWN_MAX]) if is_choice else found if is_number else _shown(found)
    return f"{message}, but it is {shown}"


def plain(problem: ErrorDetails) -> str:
    """Tell what is wrong with a field, never its value; its name belongs before it."""
    kind, message = problem["type"], problem["msg"].removeprefix("Value error, ")
    if kind in _LENGTHS:
        bound, most = _LENGTHS[kind]
        number = problem.get("ctx", {})[bound]
        return f"should have {most} {number} item{'' if number == 1 else 's'}"
    message = _PLAIN.get(kind, message.removeprefix("Input ").removeprefix("String "))
    return message if kind in _SELF_EXPLAINING else f"{message[:1].lower()}{message[1:]}"


def _by_kind(union: object) -> dict[str, Any]:
    """Return the members of a union of records by their kinds."""
    return {kind_of(model): model for model in get_args(union)}


_EVENTS: Mapping[str, type[Event]] = _by_kind(Event)


def _path(problem: ErrorDetails) -> str | None:
    """Name a field; the names in it are untrusted, and may be text by mistake."""
    loc = problem["loc"]
    kinds = {1 + at for at, part in enumerate(loc) if part == "event"}  # the kind, not a field
    parts = (str(part) for at, part in enumerate(loc) if at not in kinds or part not in _EVENTS)
    path = ".".join(part if len(part) <= _SHOWN_MAX else f"{part[:_SHOWN_MAX]}…" for part in parts)
    readable = path if path.isprintable() else path.encode("unicode_escape").decode("ascii")
    return readable[:_PATH_MAX].strip() or None


def _shown(value: object) -> str:
    """Describe a value without its text: that may be a memory."""
    if isinstance(value, str):
        return f"text of {len(value):,} character{'' if len(value) == 1 else 's'}"
    if isinstance(value, bool | int | float) and len(str(value)) <= _SHOWN_MAX:
        return str(value).lower() if isinstance(value, bool) else str(value)
    return f"a JSON {_json_type(value)}"


def _json_type(value: object) -> str:
    names: list[tuple[type | tuple[type, ...], str]] = [
        (dict, "object"),
        (list, "array"),
        (str, "string"),
        (bool, "boolean"),
        ((int, float), "number"),
    ]
    return next((name for type_, name in names if isinstance(value, type_)), "null")


EVENT: Codec[Event] = Codec(_EVENTS)
DECISION: Codec[Decision | Fence] = Codec(_by_kind(OnEvent | Marker | Fence))
REVIEW: Codec[Review] = Codec({"review": Review})
APPLIED: Codec[Applied] = Codec({"applied": Applied})
DEAD_LETTER: Codec[DeadLetter | Settled] = Codec({"dead-letter": DeadLetter, "settled": Settled})
TURN: Codec[Turn] = Codec({"turn": Turn})
INPUT: Codec[Event | Turn] = EVENT | TURN
"""Everything that producers publish, on any topic."""
