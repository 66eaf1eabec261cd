"""The rows of `add_many`, and the defaults of searches."""

from collections.abc import Iterable, Mapping
from typing import cast

from memsieve.errors import InvalidRequest
from streams.recall.app import loading, recalling

BUDGET = recalling.BUDGET
LASTING, RECENT = recalling.LASTING_MAX, recalling.RECENT_MAX
LIMIT = loading.LIMIT


def row_of(row: object, scope: str | None, place: str) -> Mapping[str, object]:
    """Return the fields of a row; `scope` is that of rows that name none. Raises InvalidRequest."""
    if isinstance(row, str):
        row = {"text": row}
    if not isinstance(row, Mapping):
        raise InvalidRequest(f"{place}: give a text, or a mapping of an event's fields", place)
    fields = cast("Mapping[str, object]", row)
    return fields if scope is None else {"scope": scope, **fields}


def require_several(rows: object) -> None:
    """Raise InvalidRequest for a single row where several belong."""
    if isinstance(rows, str | bytes | Mapping) or not isinstance(rows, Iterable):
        raise InvalidRequest("rows: give a list of texts or mappings; add takes one", "rows")
