"""Columns guessed from names and values: what is certain is taken, what is not is left open."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.codec import Unreadable
from streams.stage.core.mapping import FieldMapping, event_fields
from streams.store.core.columns import (
    GuessedColumns,
    NamedColumns,
    alike,
    are_events,
    columns_in,
    guessed,
    mapping_of,
)

NOTES = (
    "The printer on the second floor is out of toner.",
    "Invoice 2093 was paid twice.",
    "Bo works in a small shop in Lisbon.",
)
NOBODY = NamedColumns()


def rows(**columns: list[Any]) -> list[dict[str, Any]]:
    """Make rows of columns; beside them each has a note."""
    return [
        {"note": note, **{name: values[n] for name, values in columns.items()}}
        for n, note in enumerate(NOTES)
    ]


def test_a_desks_file_is_understood() -> None:
    table = rows(
        customer=["hill", "hill", "dale"],
        when=["2026-03-02 09:10", "2026-03-02 09:40", "2026-03-03 14:00"],
        ID=["a", "b", "c"],
    )
    assert guessed(table, NOBODY) == GuessedColumns(
        text="note", scope="customer", id="ID", time="when", timed=3, sampled=3
    )


def test_what_is_called_as_memsieve_calls_it_is_that_and_needs_no_mapping() -> None:
    row = {"text": "Tea.", "scope": "a/b", "event_id": "1", "occurred_at": "soon", "note": NOTES[0]}
    guess = guessed([row], NOBODY)
    assert (guess.text, guess.scope) == ("text", "scope")
    assert (guess.id, guess.time) == ("event_id", "occurred_at")
    assert mapping_of(guess, NOBODY, "file", kinds=False) is None
    assert mapping_of(GuessedColumns(), NOBODY, "{scope}", kinds=False) is None


def test_a_row_may_do_without_an_id_or_time_that_is_called_as_usual() -> None:
    table = [{"note": NOTES[0], "event_id": "1"}, {"note": NOTES[1], "occurred_at": "2026-03-01"}]
    mapping = mapping_of(guessed(table, NOBODY), NOBODY, "file", kinds=False)
    assert mapping == FieldMapping(text="note", scope="file")


def test_a_foreign_kind_makes_no_events_of_rows() -> None:
    table = [{"text": "Tea.", "scope": "a/b", "kind": "chat"}]
    assert not are_events(table)
    assert mapping_of(guessed(table, NOBODY), NOBODY, "file", kinds=True) == FieldMapping()


@pytest.mark.parametrize(
    "row", [{"kind": "remember"}, {"kind": "dream", "schema_version": 1}, {"kind": "undo"}]
)
def test_events_are_known_by_their_kind_or_version(row: dict[str, Any]) -> None:
    assert are_events([{"text": "Tea."}, row])


@pytest.mark.parametrize("name", ["Note", "NOTES", "Page Content", "Bemerkung", "what", "x1"])
def test_the_text_is_found_by_its_name_or_as_the_only_column_of_sentences(name: str) -> None:
    table = [{name: note, "n": n, "mood": "good"} for n, note in enumerate(NOTES)]
    assert guessed(table, NOBODY).text == name


def test_of_two_columns_named_like_a_text_the_one_of_sentences_is_taken() -> None:
    assert guessed(rows(comment=["ok", "ok", "-"]), NOBODY).text == "note"


@pytest.mark.parametrize(
    "table",
    [
        [{"question": note, "answer": note} for note in NOTES],
        [{"note": note, "message": note} for note in NOTES],
        [{"a": 1, "b": 2.5}],
        [{"word": "tea"}, {"word": "cake"}],
        [{"title": note} for note in NOTES],
        [{"what": NOTES[0], "n": 1}],
        [{"path": "a/long/path/to-some/file.txt"}, {"path": "another/long/path/to-some/file.txt"}],
    ],
)
def test_a_text_that_is_not_certain_is_left_open(table: list[dict[str, Any]]) -> None:
    assert guessed(table, NOBODY).text is None


def test_the_narrowest_scope_is_taken() -> None:
    table = rows(team=["x"] * 3, user_id=[7, 7, 8], project=["p"] * 3)
    assert guessed(table, NOBODY).scope == "user_id"


def test_a_column_with_one_value_is_no_scope_where_another_tells_rows_apart() -> None:
    table = rows(agent=["x"] * 3, customer=["ana", "bo", "ana"])
    assert guessed(table, NOBODY).scope == "customer"
    assert guessed(rows(agent=["x"] * 3), NOBODY).scope == "agent"


def test_a_scope_that_few_rows_have_is_none() -> None:
    found = guessed(rows(user=["ana", "", None]), NOBODY)
    assert (found.scope, found.perhaps_scope) == (None, ())


@pytest.mark.parametrize("users", [["ana", "bob", ""], ["ana", "ana", None]])
def test_a_scope_that_some_rows_lack_is_asked_about(users: list[str | None]) -> None:
    """As one scope for all, it would mix what two users said."""
    found = guessed(rows(user=users, colour=["red", "blue", "red"]), NOBODY)
    assert (found.scope, found.perhaps_scope[:1]) == (None, ("user",))


def test_a_column_of_times_is_no_scope() -> None:
    found = guessed(rows(noted=["2026-03-01", "2026-03-02", "2026-03-01"]), NOBODY)
    assert found.perhaps_scope == ()


def test_a_column_that_might_be_the_scope_is_asked_about() -> None:
    table = rows(animal=["cat", "dog", "cat"], amount=[1, 1, 2], all=["x"] * 3, key=["a", "b", "c"])
    found = guessed(table, NOBODY)
    assert (found.scope, found.perhaps_scope) == (None, ("animal",))
    assert guessed(table, replace(NOBODY, scope="mine")).perhaps_scope == ()


@pytest.mark.parametrize("values", [["a", "b", "a"], ["a", "b", ""], ["a", "b", None], [True] * 3])
def test_an_id_is_another_one_in_each_row(values: list[Any]) -> None:
    assert guessed(rows(id=values), NOBODY).id is None


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("created_at", ["2026-03-01", "1 May 2026", "2026-03-01T09:00:00Z"]),
        ("ts", [1772355600, 1772355600.5, 1772355600000]),
        ("ts", ["1772355600", "1772355601.25", "1772355600000"]),
        ("year one", ["0001-01-01", "2026-03-01", "9999-12-31"]),
    ],
)
def test_a_time_is_found_by_its_name_or_as_the_only_column_of_dates(
    name: str, values: list[Any]
) -> None:
    assert guessed(rows(**{name: values}), NOBODY).time == name


@pytest.mark.parametrize(
    ("values", "readable"),
    [
        (["03/04/2026", "03/05/2026", "2026-03-02"], 1),
        (["2026-03-01", "", ""], 1),
        (["2026-03-01", "2026-03-02", None], 2),
        (["noon", "noon", "night"], 0),
        ([1, 2, 3], 0),
        (["1", "2", "3"], 0),
    ],
)
def test_a_time_that_too_few_rows_have_is_told_and_not_taken(
    values: list[Any], readable: int
) -> None:
    found = guessed(rows(date=values), NOBODY)
    assert (found.time, found.no_time) == (None, "date")
    assert (found.timed, found.sampled) == (readable, 3)


@pytest.mark.parametrize("odd", ["soon", "03/04/2026", "2026-13-01"])
def test_a_time_is_taken_where_most_values_are_times(odd: str) -> None:
    found = guessed(rows(date=["2026-03-01", odd, "2026-03-02"]), NOBODY)
    assert (found.time, found.no_time, found.timed) == ("date", None, 2)


@pytest.mark.parametrize("blank", ["", None])
def test_a_time_is_taken_where_one_row_in_ten_has_none(blank: str | None) -> None:
    table = [{"note": "A note of some words.", "date": f"2026-03-0{day}"} for day in range(1, 10)]
    assert (
        guessed([*table, {"note": "Another of some words.", "date": blank}], NOBODY).time == "date"
    )


@pytest.mark.parametrize(
    "values",
    [
        [1772355600, 1772355600.5, 1772355600000],
        ["1772355600", "1772355601.25", "1772355600000"],
    ],
)
def test_unix_times_under_an_unknown_name_are_offered_and_not_taken(values: list[Any]) -> None:
    found = guessed(rows(captured=values, n=[1, 2, 3], amount=["12", "15.5", "9"]), NOBODY)
    assert (found.time, found.perhaps_time) == (None, ("captured",))
    assert guessed(rows(captured=values), replace(NOBODY, time="captured")).perhaps_time == ()
    days = ["2026-03-01", "2026-03-02", "2026-03-03"]
    assert guessed(rows(captured=values, when=days), NOBODY).perhaps_time == ()


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("ticket", ["T-10001", "T-10002", "T-10003"]),
        ("which", ["9f0c1d2e", "a7b3c4d5", "00aa11bb"]),
        ("Ticket No", [17, 18, 21]),
        ("order_key", ["ann", "bea", "cat"]),
    ],
)
def test_ids_under_an_unknown_name_are_offered_and_not_taken(name: str, values: list[Any]) -> None:
    found = guessed(rows(**{name: values}), NOBODY)
    assert (found.id, found.perhaps_id) == (None, (name,))
    assert guessed(rows(**{name: values}, id=["a", "b", "c"]), NOBODY).perhaps_id == ()


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("amount", [12, 14, 9]),
        ("mood", ["good", "bad", "mixed"]),
        ("ticket", ["T-10001", "T-10001", "T-10003"]),
        ("ticket", ["T-10001", "T-10002", ""]),
        ("captured", ["2026-03-01T09:00Z", "2026-03-02T09:00Z", "2026-03-03T09:00Z"]),
        ("memo", list(NOTES)),
    ],
)
def test_what_is_no_id_is_not_offered_as_one(name: str, values: list[Any]) -> None:
    assert guessed(rows(**{name: values}), NOBODY).perhaps_id == ()


def test_a_single_row_tells_no_ids() -> None:
    assert guessed([{"note": NOTES[0], "ticket": "T-10001"}], NOBODY).perhaps_id == ()


def test_two_columns_of_dates_with_other_names_are_no_time() -> None:
    days = ["2026-03-01", "2026-03-02", "2026-03-03"]
    assert guessed(rows(begin=days, end=days), NOBODY).time is None


def test_what_somebody_has_named_is_not_guessed_nor_taken_twice() -> None:
    table = rows(user=["ana", "bo", "ana"], owner=["x", "x", "y"])
    named = NamedColumns(text="user", scope="team/{owner}")
    found = guessed(table, named)
    assert (found.text, found.scope) == (None, None)
    mapping = mapping_of(found, named, "file", kinds=False)
    assert mapping == FieldMapping(text="user", scope="team/{owner}")


def test_rows_without_a_scope_are_of_the_one_that_is_given() -> None:
    mapping = mapping_of(guessed(rows(), NOBODY), NOBODY, "file", kinds=False)
    assert mapping == FieldMapping(text="note", scope="file")


@pytest.mark.parametrize(
    ("name", "meant"),
    [("nota", "note"), ("NOTE", "note"), ("user id", "User_ID"), ("xyz", None), ("", None)],
)
def test_a_misspelt_name_is_recognised(name: str, meant: str | None) -> None:
    assert alike(name, ["note", "User_ID", "when"]) == meant


VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from([*NOTES, "2026-03-01", "03.04.2026", "25.04.2026", "ana", 1772355600])
    | st.lists(st.text(max_size=3), max_size=2)
)
COLUMNS = st.sampled_from(
    ["text", "note", "user", "id", "when", "kind", "scope", "tags", "{user}", "", "Ä"]
)
TABLES = st.lists(st.dictionaries(COLUMNS, VALUES, max_size=6), min_size=1, max_size=6)


def test_a_column_with_the_name_of_a_part_is_no_other_part() -> None:
    table = [{"scope": "The printer on the second floor is out of toner."}] * 2
    found = guessed(table, NOBODY)
    assert (found.text, found.scope) == (None, "scope")


@given(TABLES)
def test_whatever_rows_hold_a_guess_names_their_columns_each_once(
    table: list[dict[str, Any]],
) -> None:
    found = guessed(table, NOBODY)
    taken = [one for one in (found.text, found.scope, found.id, found.time) if one is not None]
    assert len(set(taken)) == len(taken)
    offered = {*found.perhaps_scope, *found.perhaps_id, *found.perhaps_time}
    assert {*taken, *offered} <= set(columns_in(table))
    assert guessed(table, NOBODY) == found
    mapping_of(found, NOBODY, "file", kinds=False)


@given(TABLES)
def test_the_rows_that_a_guess_was_made_of_have_the_time_and_id_that_it_names(
    table: list[dict[str, Any]],
) -> None:
    found = guessed(table, NOBODY)
    mapping = FieldMapping(
        text="said",
        scope="file",
        id=None if found.id == "event_id" else found.id,
        time=None if found.time == "occurred_at" else found.time,
        day_first=found.day_first,
    )
    fields = [_fields({"said": "Tea.", **row}, mapping) for row in table]
    read = [one for one in fields if isinstance(one, dict)]
    assert {one for one in fields if isinstance(one, str)} <= {mapping.time}
    assert mapping.time is None or len(read) >= found.timed > 0
    assert mapping.id is None or len({one["event_id"] for one in read}) == len(read)


def _fields(row: dict[str, Any], mapping: FieldMapping) -> dict[str, Any] | str | None:
    """Return a row's event, or the column that cannot be used."""
    try:
        return event_fields(row, mapping)
    except Unreadable as error:
        return error.field
