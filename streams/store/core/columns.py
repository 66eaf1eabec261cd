"""Detects which columns of a file hold what, from names and values, if that is certain."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import cached_property, partial
from itertools import islice
from typing import Any, cast

from schemas.codec import Unreadable
from schemas.decisions import kinds_of
from schemas.events import Event
from streams.stage.core.mapping import OWN, FieldMapping, columns_of, days_first, moment

Row = Mapping[str, Any]

_ROWS_MAX = 200
"""How many rows are sampled: parsing a written date takes a third of a millisecond."""


def _names(listed: str) -> tuple[str, ...]:
    return tuple(listed.split())


_TEXTS = _names(
    "text memory note notes content message body fact statement utterance said description comment"
    " comments observation document pagecontent sentence remark"
    " texte contenu nota texto contenido notiz nachricht bemerkung kommentar beschreibung"
)
_SCOPES = _names(
    "scope userid user username useremail email agentid agent agentname customerid customer"
    " customername clientid client clientname accountid account memberid member personid person"
    " patientid patient employeeid employee owner author speaker who contact"
    " kunde kundennummer nutzer benutzer utilisateur usuario"
    " namespace tenantid tenant projectid project teamid team"
)
"""The narrowest first: in a scope that is too small, facts are kept twice rather than lost."""

_IDS = _names("eventid id uuid guid messageid msgid noteid rowid recordid entryid")
_TIMES = _names(
    "occurredat happenedat saidat when time timestamp datetime date ts at day createdat created"
    " creationdate sentat recordedat loggedat zeit zeitpunkt datum uhrzeit fecha hora horodatage"
    " updatedat updated modifiedat modified"
)

_WORD = re.compile(r"[^\W\d_]+")
_PROSE_WORDS_MIN = 4
_PROSE_SHARE_MIN = 0.6
_FILLED_MIN = 0.5
_NAMED_MIN = 0.9
"""The minimum share of rows with a scope, or with anything in the column of the time: those without
become dead letters."""

_TIMES_MIN = 0.5
"""The share of times among the values of a column named like one that must be exceeded."""

_LABEL_LENGTH_MAX = 40
_ISO_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_KEY = re.compile(r"(?=.*\d)(?=.*[a-z])[\w:-]{6,64}", re.IGNORECASE)
_KEY_NAME = re.compile(r"(?:id|key|no|nr|number|code|ref)$")
_NUMBERED_FROM, _NUMBERED_TO = datetime(1990, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
"""A number counts as a time only if it lies in these years."""


@dataclass(frozen=True)
class NamedColumns:
    """The columns that the user named for an event's parts; `scope` is a template."""

    text: str | None = None
    scope: str | None = None
    id: str | None = None
    time: str | None = None

    def columns(self) -> list[tuple[str, str]]:
        """Return each named column with its part."""
        scopes = () if self.scope is None else columns_of(self.scope)
        parts = [("text", self.text), *(("scope", one) for one in scopes)]
        parts += [("id", self.id), ("time", self.time)]
        return [(part, column) for part, column in parts if column is not None]


@dataclass(frozen=True)
class GuessedColumns:
    """The columns that hold an event's parts; None if no column certainly does.

    `day_first` is the order of the dates in the column of the time, named or guessed. `perhaps_`
    lists candidates for a part if none is certain. `no_time` is a column named like a time of which
    too few rows hold one. `timed` counts the rows that hold one in it, or in the column of the time,
    of the `sampled`.
    """

    text: str | None = None
    scope: str | None = None
    id: str | None = None
    time: str | None = None
    day_first: bool | None = None
    perhaps_scope: tuple[str, ...] = ()
    perhaps_id: tuple[str, ...] = ()
    perhaps_time: tuple[str, ...] = ()
    no_time: str | None = None
    timed: int = 0
    sampled: int = 0


def columns_in(rows: Iterable[Row]) -> list[str]:
    """Return the columns of rows, in the order in which they first appear."""
    return list(dict.fromkeys(name for row in rows for name in row))


def nested_in(rows: Sequence[Row]) -> list[str]:
    """Return the columns that hold objects, or lists of them, and nothing else."""
    values = {
        name: [row[name] for row in rows if row.get(name) is not None] for name in columns_in(rows)
    }
    return [name for name, found in values.items() if found and all(map(_is_nested, found))]


def _is_nested(value: object) -> bool:
    listed = cast("list[object]", value) if isinstance(value, list) else [value]
    return any(isinstance(one, dict) for one in listed)


def may_be_values(columns: Sequence[str]) -> bool:
    """Return whether what should name the columns is a row: it holds a sentence or a date."""
    return any(_is_prose(name) or _is_iso(name) for name in columns)


def are_events(rows: Iterable[Row]) -> bool:
    """Return whether any row is an event in memsieve's own format, valid or not."""
    return any("schema_version" in row or row.get("kind") in _KINDS for row in rows)


_KINDS = kinds_of(Event)


def alike(name: str, columns: Sequence[str]) -> str | None:
    """Return the column most similar to an unknown name; None if none is close."""
    by_plain_name = {_plain(column): column for column in reversed(columns)}
    close = get_close_matches(_plain(name), list(by_plain_name), n=1)
    return by_plain_name[close[0]] if close else None


def guessed(rows: Sequence[Row], named: NamedColumns) -> GuessedColumns:
    """Guess the columns of the parts that the user did not name, from a sample of the rows.

    A column with memsieve's own name for a part is that part, whatever it holds.
    """
    sample = list(islice(rows, _ROWS_MAX))
    columns = {name: _Column(name, sample) for name in columns_in(sample)}
    open_ = _Open(list(columns.values()), named)
    time = open_.take(named.time, "occurred_at", _time)
    identity = open_.take(named.id, "event_id", _id)
    text = open_.take(named.text, "text", _text)
    scope = open_.take(named.scope, "scope", _scope)
    no_time = None if time or named.time else _first(open_.columns, _TIMES)
    dated = columns.get(named.time or time or "")
    tried = columns.get(no_time or "", dated)
    return GuessedColumns(
        text=text,
        scope=scope,
        id=identity,
        time=time,
        day_first=None if dated is None else dated.day_first,
        perhaps_scope=() if scope or named.scope else open_.labels(),
        perhaps_id=() if identity or named.id else open_.fitting(_may_be_id),
        perhaps_time=() if time or named.time else open_.fitting(_may_be_time),
        no_time=no_time,
        timed=0 if tried is None else tried.timed,
        sampled=len(sample),
    )


def mapping_of(
    guess: GuessedColumns, named: NamedColumns, scope: str, *, kinds: bool
) -> FieldMapping | None:
    """Return the mapping of an event's parts; None if all columns have memsieve's own names.

    `scope` applies to all rows if no column has one. `kinds`: rows have a `kind` of their own,
    which without a mapping would make them events.
    """
    found = FieldMapping(
        text=named.text or guess.text or "text",
        scope=named.scope or (f"{{{guess.scope}}}" if guess.scope else scope),
        id=named.id or _unless(guess.id, "event_id"),
        time=named.time or _unless(guess.time, "occurred_at"),
        day_first=guess.day_first,
    )
    return None if named == NamedColumns() and found == FieldMapping() and not kinds else found


def _unless(column: str | None, usual: str) -> str | None:
    """Return a column unless it has the usual name: then a row may lack it."""
    return None if column == usual else column


class _Column:
    """A column's values in a sample of rows."""

    def __init__(self, name: str, rows: Sequence[Row]) -> None:
        self.name = name
        self.plain = _plain(name)
        self.rows = len(rows)
        self.values = [value for row in rows if (value := row.get(name)) not in (None, "")]

    def share(self, holds: Callable[[Any], bool]) -> float:
        """Return the share of all rows whose value satisfies `holds`."""
        return sum(map(holds, self.values)) / self.rows

    @cached_property
    def day_first(self) -> bool | None:
        """Whether the days come first in its dates; None if that is unknown."""
        return days_first(self.values)

    @cached_property
    def timed(self) -> int:
        """The number of rows that hold a time."""
        return sum(map(partial(_is_time, day_first=self.day_first), self.values))

    @property
    def different(self) -> int:
        """The number of different values."""
        return len(set(map(str, self.values)))


class _Open:
    """The columns that are not assigned to a part yet."""

    def __init__(self, columns: Sequence[_Column], named: NamedColumns) -> None:
        taken = {column for _, column in named.columns()}
        self._names = {one.name for one in columns} - taken
        self.columns = [one for one in columns if one.name not in taken | OWN]

    def take(
        self, named: str | None, usual: str, guess: Callable[[list[_Column]], str | None]
    ) -> str | None:
        """Assign and return a part's column: the one with the usual name, else the guess."""
        if named is not None:
            return None
        found = usual if usual in self._names else guess(self.columns)
        self.columns = [one for one in self.columns if one.name != found]
        return found

    def fitting(self, fits: Callable[["_Column"], bool]) -> tuple[str, ...]:
        """Return the columns that fit."""
        return tuple(one.name for one in self.columns if fits(one))

    def labels(self) -> tuple[str, ...]:
        """Return the columns that might group rows, first those named like a scope that have gaps."""
        gappy = [one for one in self.columns if _is_gappy_scope(one)]
        labels = [one for one in self.columns if one not in gappy and _is_label(one)]
        return tuple(one.name for one in gappy + labels)


def _text(columns: list[_Column]) -> str | None:
    """Return the only column named like a text, or else the only one of sentences.

    A single row is not enough for the latter: any of its values may read like a sentence.
    """
    named = [one for one in columns if one.plain in _TEXTS and one.share(_has_word) >= _FILLED_MIN]
    prose = [one for one in columns if one.share(_is_prose) >= _PROSE_SHARE_MIN]
    both = [one for one in named if one in prose]
    if named:
        return _only(named) or _only(both)
    return _only(prose) if columns and columns[0].rows > 1 else None


def _only(columns: Sequence[_Column]) -> str | None:
    return columns[0].name if len(columns) == 1 else None


def _scope(columns: list[_Column]) -> str | None:
    """Return a column named like a scope, one that tells rows apart if there is one.

    Names with braces cannot occur in a template.
    """
    fitting = [one for one in columns if not set(one.name) & set("{}")]
    named = [one for one in fitting if one.share(_is_name) >= _NAMED_MIN]
    telling = [one for one in named if one.different > 1]
    return _first(telling, _SCOPES) or _first(named, _SCOPES)


def _id(columns: list[_Column]) -> str | None:
    """Return a column named like an id that has a unique value in each row."""
    return _first(
        columns,
        _IDS,
        lambda one: one.share(_is_name) == 1 and one.different == one.rows,
    )


def _time(columns: list[_Column]) -> str | None:
    """Return a column named like a time, or else the only one in which each row has a date."""
    dated = [one for one in columns if one.share(_is_iso) == 1 and one.timed == one.rows]
    return _first(columns, _TIMES, _holds_times) or _only(dated)


def _holds_times(column: _Column) -> bool:
    """Return whether nearly all rows have a value, and most values are times."""
    filled = len(column.values)
    return filled >= column.rows * _NAMED_MIN and column.timed > filled * _TIMES_MIN


def _may_be_time(column: _Column) -> bool:
    """Return whether nearly all rows hold a date in ISO 8601, or a number that is a Unix time."""
    written = column.share(lambda value: _is_iso(value) or _is_number(value))
    return written >= _NAMED_MIN and column.timed >= column.rows * _NAMED_MIN


def _may_be_id(column: _Column) -> bool:
    """Return whether each row has another value, and name or values are those of ids."""
    if column.share(_is_name) < 1 or not 1 < column.rows == column.different:
        return False
    named = _KEY_NAME.search(column.plain) and column.share(_is_prose) == 0
    return (bool(named) or column.share(_is_key) == 1) and not _may_be_time(column)


def _first(
    columns: list[_Column], names: Sequence[str], fits: Callable[[_Column], bool] = lambda _: True
) -> str | None:
    """Return the fitting column whose name comes first in `names`."""
    fitting = [one for one in columns if one.plain in names and fits(one)]
    return min(fitting, key=lambda one: names.index(one.plain)).name if fitting else None


def _is_gappy_scope(column: _Column) -> bool:
    """Return whether a column is named like a scope, and most rows have one."""
    return column.plain in _SCOPES and column.share(_is_name) >= _FILLED_MIN


def _is_label(column: _Column) -> bool:
    """Return whether a column has short, repeated values in nearly all rows, other than times."""
    if not any(isinstance(value, str) for value in column.values):
        return False
    short = column.share(lambda value: _is_name(value) and len(str(value)) <= _LABEL_LENGTH_MAX)
    again = 1 < column.different < column.rows
    told = short >= _NAMED_MIN and again and column.share(_is_prose) < _PROSE_SHARE_MIN
    return told and column.timed < column.rows * _FILLED_MIN  # last: parsing dates takes longest


def _plain(name: str) -> str:
    """Return a name without case and punctuation: `Created At` is `createdat`."""
    return re.sub(r"[\W_]+", "", name.casefold())


def _has_word(value: object) -> bool:
    return isinstance(value, str) and _WORD.search(value) is not None


def _is_prose(value: object) -> bool:
    return isinstance(value, str) and sum(map(_has_word, value.split())) >= _PROSE_WORDS_MIN


def _is_name(value: object) -> bool:
    if isinstance(value, str):
        return bool(value.strip()) and not set(value) & set("*?")
    return isinstance(value, int) and not isinstance(value, bool)


def _is_key(value: object) -> bool:
    return isinstance(value, str) and _KEY.fullmatch(value) is not None


def _is_iso(value: object) -> bool:
    return isinstance(value, str) and _ISO_DAY.match(value.strip()) is not None


def _is_time(value: object, *, day_first: bool | None) -> bool:
    try:
        found = moment(value, "", day_first=day_first)
    except Unreadable:
        return False
    return not _is_number(value) or _NUMBERED_FROM <= found < _NUMBERED_TO


def _is_number(value: object) -> bool:
    if isinstance(value, str):
        return _NUMBER.fullmatch(value.strip()) is not None
    return isinstance(value, int | float)
