"""The rules that every record on the wire obeys, and the field types that they share."""

import base64
import binascii
import math
import re
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, NewType, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_core import PydanticCustomError, PydanticKnownError

TEXT_MAX = 65_536
"""The longest memory text in characters: about 30 times what an embedding model reads, and far
below a broker's record limit."""

SCOPE_MAX = 512
"""The longest scope in UTF-8 bytes: a scope is a Kafka key and a payload index entry."""

LABEL_MAX = 200
"""The longest label in characters: it must fit in one line of a log or a terminal."""

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

METADATA_DEPTH_MAX = 32

FEW_MAX = 64
"""The most labels that an event may carry in one field."""


def _refuse(pattern: re.Pattern[str], text: str) -> str:
    if found := pattern.search(text):
        raise PydanticCustomError(
            "character",
            "contains the character U+{code} at position {at}; remove it",
            {"code": f"{ord(found.group()):04X}", "at": found.start()},
        )
    return text


def _storable(text: str) -> str:
    """Refuse NUL and lone surrogates, which databases and UTF-8 cannot hold."""
    return _refuse(_UNSTORABLE, text)


def _printable(name: str) -> str:
    """Refuse control characters and line breaks: names appear in logs, keys and terminals."""
    return name if name.isprintable() else _refuse(_UNPRINTABLE, name)


def _not_blank(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "is empty or only white space; say what is meant")
    return text


def _scope(path: str) -> str:
    """Accept `tenant/part/…`: one exact place, never a pattern and never "all"."""
    for wildcard in "*?":
        if wildcard in path:
            raise PydanticCustomError(
                "scope_wildcard",
                "holds the wildcard {wildcard}; name one exact scope",
                {"wildcard": wildcard},
            )
    if len(path.encode()) > SCOPE_MAX:
        raise PydanticCustomError(
            "scope_length", "is longer than {limit} bytes", {"limit": SCOPE_MAX}
        )
    if not unicodedata.is_normalized("NFC", path):
        raise PydanticCustomError(
            "scope_form", "is not in Unicode normal form C; normalise it before it becomes a key"
        )
    for segment in path.split("/"):
        if not segment or segment != segment.strip() or segment in {".", ".."}:
            raise PydanticCustomError(
                "scope_segment",
                "has the empty, padded or relative segment '{segment}'; write tenant/part/…",
                {"segment": segment},
            )
    return path


_WRITTEN: TypeAdapter[datetime] = TypeAdapter(datetime)


def _moment(value: object) -> datetime:
    """Read a time with a zone. A number, as text too, is none: its unit would be a guess."""
    if isinstance(value, str) and ":" in value:
        with suppress(ValidationError):
            value = _WRITTEN.validate_python(value)
    if not isinstance(value, datetime):
        raise PydanticCustomError(
            "moment", "should be a date and time, such as 2026-03-14T09:30:00Z"
        )
    if value.tzinfo is None:
        raise PydanticKnownError("timezone_aware")
    try:
        return value.astimezone(UTC)
    except OverflowError as error:
        raise PydanticCustomError(
            "time_range", "lies outside the years 1 to 9999 in UTC"
        ) from error


def _tame(metadata: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Refuse what other readers choke on: deep nesting, U+0000, numbers without a value."""
    if not metadata:
        return metadata  # the common case: skip the walk
    level: list[JsonValue] = [metadata]
    for _ in range(METADATA_DEPTH_MAX + 1):
        if any(isinstance(value, float) and not math.isfinite(value) for value in level):
            raise PydanticCustomError("number_range", "holds a number that is not finite")
        for text in (text for value in level for text in _texts(value)):
            _storable(text)
        level = [inner for value in level for inner in _inside(value)]
        if not level:
            return metadata
    raise PydanticCustomError(
        "depth", "is nested deeper than {limit} levels", {"limit": METADATA_DEPTH_MAX}
    )


def _texts(value: JsonValue) -> Iterable[str]:
    """Return the texts that a value is or has as its keys."""
    if isinstance(value, dict):
        return value.keys()
    return (value,) if isinstance(value, str) else ()


def _inside(value: JsonValue) -> Iterable[JsonValue]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


ScopeName = NewType("ScopeName", str)
EventId = NewType("EventId", str)
MemoryId = NewType("MemoryId", str)
DecisionId = NewType("DecisionId", str)
ContentKey = NewType("ContentKey", str)
PolicyId = NewType("PolicyId", str)
ModelId = NewType("ModelId", str)

_line = (
    StringConstraints(min_length=1, max_length=LABEL_MAX, strict=True),
    AfterValidator(_printable),
)

Scope = Annotated[ScopeName, Field(strict=True), AfterValidator(_printable), AfterValidator(_scope)]
Label = Annotated[str, *_line, AfterValidator(_not_blank)]
EventName = Annotated[EventId, *_line, AfterValidator(_not_blank)]
MemoryName = Annotated[MemoryId, *_line, AfterValidator(_not_blank)]
DecisionName = Annotated[DecisionId, *_line, AfterValidator(_not_blank)]
FewLabels = Annotated[tuple[Label, ...], Field(max_length=FEW_MAX)]
Text = Annotated[
    str,
    StringConstraints(max_length=TEXT_MAX, strict=True),
    AfterValidator(_storable),
    AfterValidator(_not_blank),
]
Moment = Annotated[AwareDatetime, BeforeValidator(_moment)]
Unit = Annotated[float, Field(ge=0.0, le=1.0)]
Cosine = Annotated[float, Field(ge=-1.0, le=1.0)]
Count = Annotated[int, Field(ge=0, le=9_007_199_254_740_991)]
"""A whole number below 2**53, which every JSON reader keeps exact."""
Metadata = Annotated[dict[Label, JsonValue], AfterValidator(_tame)]


def _require_discriminators(schema: dict[str, Any]) -> None:
    """On the wire every record names its kind and version, though Python may leave them out."""
    tags = [name for name in ("kind", "schema_version") if name in schema.get("properties", {})]
    if tags:
        schema["required"] = list(dict.fromkeys([*tags, *schema.get("required", [])]))


_set = object.__setattr__


class Record(BaseModel):
    """A frozen value with a closed set of fields; equal content is equal."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        json_schema_extra=_require_discriminators,
    )

    @classmethod
    def trusted(cls, **fields: object) -> Self:
        """Make a record of values that are known to be valid, without looking at them.

        Every field is to be given, in the order of the class, in which they travel. A tenth of the
        time of pydantic's model_construct, and what pydantic notes of a record is shared by all.
        """
        return cls._made(fields)

    def with_values(self, **fields: object) -> Self:
        """Return the record with other values in some fields, as unchecked as in `trusted`."""
        return self._made({**self.__dict__, **fields})

    @classmethod
    def _made(cls, fields: dict[str, Any]) -> Self:
        made = cls.__new__(cls)
        _set(made, "__dict__", fields)
        _set(made, "__pydantic_fields_set__", cls._fields())
        _set(made, "__pydantic_extra__", None)
        _set(made, "__pydantic_private__", None)
        return made

    def compact(self) -> Self:
        """Return the record without what pydantic notes of it alone: 2 KiB and more of a memory."""
        bare = self.__pydantic_fields_set__ is self._fields()
        return self if bare else self._made(self.__dict__.copy())

    @classmethod
    @cache
    def _fields(cls) -> set[str]:
        return set(cls.model_fields)


class Embedding(Record):
    """A vector as it travels: base64 of `dimension` little-endian float32 values.

    `model` names the space: vectors of different models are never compared.
    """

    model: Annotated[ModelId, *_line]
    dimension: Annotated[int, Field(ge=1, le=65_536)]
    values: str

    @model_validator(mode="after")
    def _complete(self) -> Self:
        try:
            size = len(base64.b64decode(self.values, validate=True))
        except binascii.Error as error:
            raise PydanticCustomError("base64", "values is not base64") from error
        if size != 4 * self.dimension:
            raise PydanticCustomError(
                "vector_size",
                "values holds {size} bytes, but dimension {dimension} takes {expected}",
                {"size": size, "dimension": self.dimension, "expected": 4 * self.dimension},
            )
        return self


class Position(Record):
    """Where a record lies in the log."""

    topic: Label
    partition: Count
    offset: Count

    @property
    def place(self) -> str:
        """The position in one word."""
        return f"{self.topic}/{self.partition}/{self.offset}"
