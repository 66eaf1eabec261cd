"""Mapping of foreign rows to events: the columns for text, scope, id and time."""

import re
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, cast

from dateutil import parser as dates
from pydantic import TypeAdapter, ValidationError

from schemas.base import Scope, ScopeName
from schemas.codec import Unreadable
from schemas.events import Remember

OWN = frozenset(Remember.model_fields) - {"kind", "schema_version", "metadata"}
"""Columns with these names are the event's fields; every other column is metadata."""

_NUMBERS = {"turn": int, "importance": float, "confidence": float}
_LISTS = frozenset({"tags", "entities"})
_MILLISECONDS_FROM = 100_000_000_000
"""A larger number is in milliseconds: as seconds, it would be after the year 5138."""


@dataclass(frozen=True)
class FieldMapping:
    """The columns that hold an event's parts.

    `scope` is a template: `locomo/{sample}/{speaker}` fills in two columns. If `id` or `time` is
    None, a column named event_id or occurred_at is used if there is one. `day_first` is the order
    of the column's dates, such as 03.04.2026: None if that is unknown.
    """

    text: str = "text"
    scope: str = "{scope}"
    id: str | None = None
    time: str | None = None
    day_first: bool | None = None

    def __post_init__(self) -> None:
        columns_of(self.scope)


def scope_template(text: str) -> str:
    """Return a scope template: the text itself if it has braces, else the column of that name."""
    return text if "{" in text else f"{{{text}}}"


def event_fields(row: Mapping[str, Any], mapping: FieldMapping) -> dict[str, Any]:
    """Return the unvalidated fields of a `remember` event; id and time only if the row has them.

    Raises Unreadable, with the column's name, if a part is missing or cannot be converted.
    """
    scope_columns = columns_of(mapping.scope)
    id_column, time_column = mapping.id or "event_id", mapping.time or "occurred_at"
    event: dict[str, Any] = {"kind": "remember", "schema_version": 1}
    event["scope"] = _PLACE.sub(lambda place: _name(row, place.group(1)), mapping.scope)
    event["text"] = _column(row, mapping.text)
    if mapping.id or id_column in row:
        event["event_id"] = _name(row, id_column)
    if mapping.time or time_column in row:
        event["occurred_at"] = moment(
            _column(row, time_column), time_column, day_first=mapping.day_first
        ).isoformat()
    used = {*scope_columns, mapping.text, id_column, time_column}
    rest = {name: value for name, value in row.items() if name not in used and value != ""}
    own = {name: rest.pop(name) for name in list(rest) if name in OWN and name not in event}
    event.update({name: _own(name, value) for name, value in own.items() if value is not None})
    given = rest.pop("metadata", None)
    if given is not None:
        rest |= cast("dict[str, Any]", given) if isinstance(given, dict) else {"metadata": given}
    event["metadata"] = rest
    return event


def moment(value: object, column: str, *, day_first: bool | None = None) -> datetime:
    """Parse a time: ISO 8601, Unix seconds or milliseconds, or a date as people write it.

    A time without a zone is UTC. Raises Unreadable if the value is no time, or if its date is
    incomplete, or ambiguous where it is not known whether the day comes first.
    """
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            seconds = value / 1000 if abs(value) >= _MILLISECONDS_FROM else value
            return datetime.fromtimestamp(seconds, UTC)
        if isinstance(value, str):
            found = _written(value.strip(), column, day_first=day_first)
            return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError, OSError, dates.UnknownTimezoneWarning) as error:
        if isinstance(error, Unreadable):
            raise
        raise _no_time(column) from error
    raise _no_time(column)


def days_first(values: Iterable[object]) -> bool | None:
    """Return whether the days come first in a column's dates; None if none shows it, or two differ.

    25.04.2026 shows it, 03.04.2026 does not.
    """
    dates_ = (_IN_NUMBERS.search(value) for value in values if isinstance(value, str))
    days = {
        (int(found["first"]) > _MONTHS, int(found["second"]) > _MONTHS)
        for found in dates_
        if found is not None
    }
    telling = days - {(False, False), (True, True)}
    return telling.pop()[0] if len(telling) == 1 else None


_MONTHS = 12
_IN_NUMBERS = re.compile(r"(?<!\d)(?P<first>\d{1,2})([./-])(?P<second>\d{1,2})\2\d{2}")


_TWO_DAYS = (datetime(2001, 1, 1, tzinfo=None), datetime(2002, 2, 2, tzinfo=None))  # noqa: DTZ001
"""Defaults for dateutil: if the result depends on them, the text lacks a part of the date."""


def _written(text: str, column: str, *, day_first: bool | None) -> datetime:
    if _UNIX.fullmatch(text):
        return moment(float(text), column)
    with suppress(ValueError):
        return datetime.fromisoformat(text)
    with warnings.catch_warnings():
        warnings.simplefilter("error", dates.UnknownTimezoneWarning)
        found, filled = (dates.parse(text, default=default) for default in _TWO_DAYS)
        european = dates.parse(text, default=_TWO_DAYS[0], dayfirst=True)
    if found != filled:
        raise Unreadable(f"column {column} is not a full date; write year, month and day", column)
    if found != european and day_first is None:
        raise Unreadable(f"column {column} is ambiguous; write 2026-03-14", column)
    return european if day_first else found


_UNIX = re.compile(r"\d{10}(?:\.\d+)?|\d{13}")
"""Unix seconds or milliseconds since 2001, written as text in a table."""


def _no_time(column: str) -> Unreadable:
    return Unreadable(
        f"column {column} is not a time; write ISO 8601, such as 2026-03-14T09:30:00Z", column
    )


_PLACE = re.compile(r"\{([^{}]+)\}")


@lru_cache
def columns_of(template: str) -> tuple[str, ...]:
    """Return the columns of a scope template. Raises ValueError if it is malformed."""
    if not template.strip("/ ") or set(_PLACE.sub("", template)) & set("{}"):
        raise ValueError(f"write {{column}} for a column's value, and text around it: {template!r}")
    return tuple(_PLACE.findall(template))


def _column(row: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401 - JSON is what it is
    if row.get(name) is None:
        raise Unreadable(f"column {name} is missing; the columns are {listed(row)}", name)
    return row[name]


def _name(row: Mapping[str, Any], column: str) -> str:
    """Return a column's value as a part of a name: text, or a number as text."""
    value = _column(row, column)
    if isinstance(value, bool | dict | list):
        raise Unreadable(f"column {column} is not a name; give it a text or a number", column)
    if not str(value).strip():
        raise Unreadable(f"column {column} is empty; give it a text or a number", column)
    return str(value)


def _own(field: str, value: Any) -> Any:  # noqa: ANN401
    """Convert a column named like an event's field; leave unconvertible values to validation."""
    if field in _LISTS and isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    if field in _NUMBERS and isinstance(value, str):
        try:
            return _NUMBERS[field](value)
        except ValueError:
            return value
    if isinstance(value, int | float) and not isinstance(value, bool) and field not in _NUMBERS:
        return str(value)
    return value


def listed(columns: Iterable[str]) -> str:
    """Return the columns' names for a message, the first 12 if there are many."""
    names = sorted(columns)
    shown = ", ".join(names[:12])
    return f"{shown}, … ({len(names)} in all)" if len(names) > len(names[:12]) else shown or "none"


LOCATION = "{location}"


_SCOPE: TypeAdapter[ScopeName] = TypeAdapter(Scope)


def scope_of_turns(template: str) -> str:
    """Check the default scope of turns. Raises ValueError if it is invalid."""
    try:
        _SCOPE.validate_python(template.replace(LOCATION, "0"))
    except ValidationError as error:
        raise ValueError(error.errors()[0]["msg"]) from error
    if set("{}") & set(template.replace(LOCATION, "")):
        raise ValueError("only {location} is filled in")
    return template
