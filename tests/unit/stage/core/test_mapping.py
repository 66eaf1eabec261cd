from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.codec import Unreadable
from streams.model.observed import is_ahead, is_unlikely
from streams.stage.core.mapping import (
    FieldMapping,
    days_first,
    event_fields,
    moment,
    scope_template,
)

AT = datetime(2023, 5, 8, 13, 56, tzinfo=UTC)


def fields(row: dict[str, Any], mapping: FieldMapping | None = None) -> dict[str, Any]:
    return event_fields(row, mapping or FieldMapping())


def test_columns_named_like_fields_are_the_fields_and_all_others_are_metadata() -> None:
    row = {
        "text": "Ana likes tea.",
        "scope": "acme/ana",
        "event_id": "e1",
        "occurred_at": "2023-05-08T13:56:00Z",
        "memory_id": "drink",
        "tags": ["tea"],
        "turn": 3,
        "mood": "calm",
        "depth": {"a": [1]},
        "gone": None,
        "kind": "chat",
    }
    assert fields(row) == {
        "kind": "remember",
        "schema_version": 1,
        "text": "Ana likes tea.",
        "scope": "acme/ana",
        "event_id": "e1",
        "occurred_at": "2023-05-08T13:56:00+00:00",
        "memory_id": "drink",
        "tags": ["tea"],
        "turn": 3,
        "metadata": {"mood": "calm", "depth": {"a": [1]}, "gone": None, "kind": "chat"},
    }


def test_a_row_without_id_and_time_gives_none() -> None:
    assert fields({"text": "Ana likes tea.", "scope": "acme/ana"}) == {
        "kind": "remember",
        "schema_version": 1,
        "text": "Ana likes tea.",
        "scope": "acme/ana",
        "metadata": {},
    }


def test_a_mapping_names_the_columns() -> None:
    mapping = FieldMapping(text="line", scope="locomo/{sample}/{who}", id="dia", time="said")
    row = {"line": "Hi", "sample": 7, "who": "Ana", "dia": 12, "said": 1683554160}
    assert fields(row, mapping) == {
        "kind": "remember",
        "schema_version": 1,
        "text": "Hi",
        "scope": "locomo/7/Ana",
        "event_id": "12",
        "occurred_at": "2023-05-08T13:56:00+00:00",
        "metadata": {},
    }


def test_a_column_that_the_mapping_passes_over_takes_no_fields_place() -> None:
    mapping = FieldMapping(text="line", scope="locomo/{who}", id="dia", time="said")
    row = {"line": "Hi", "who": "Ana", "dia": "d1", "said": "2023-05-08 13:56"}
    other = {"text": "no", "scope": "acme/ben", "event_id": "e1", "occurred_at": "noon"}
    expected = fields(row, mapping)
    assert fields({**row, **other}, mapping) == {**expected, "metadata": other}


@pytest.mark.parametrize(
    ("written", "template"),
    [("user", "{user}"), ("acme/{user}", "acme/{user}"), ("{a}/{b}", "{a}/{b}")],
)
def test_a_scope_is_a_template_or_one_columns_name(written: str, template: str) -> None:
    assert scope_template(written) == template


@pytest.mark.parametrize("template", ["{}", "{", "a}", "{a}{", "{{a}}", "", "/"])
def test_a_broken_template_is_refused(template: str) -> None:
    with pytest.raises(ValueError, match=r"write \{column\}"):
        FieldMapping(scope=template)


@pytest.mark.parametrize("column", ["user id", "user.id", "0", "a!r", "a:>3", "a[0]", "Zürich"])
def test_any_column_can_name_a_scope(column: str) -> None:
    row = {"text": "Hi", column: "ana"}
    assert fields(row, FieldMapping(scope=f"acme/{{{column}}}"))["scope"] == "acme/ana"


ROW = {"text": "Hi", "scope": "acme/ana", "event_id": "e1", "when": "2023-05-08"}


@pytest.mark.parametrize(
    ("without", "mapping", "column"),
    [
        ({"text"}, FieldMapping(), "text"),
        ({"scope"}, FieldMapping(), "scope"),
        (set[str](), FieldMapping(text="line"), "line"),
        (set[str](), FieldMapping(scope="{user}"), "user"),
        (set[str](), FieldMapping(id="number"), "number"),
        ({"when"}, FieldMapping(time="when"), "when"),
    ],
)
def test_a_missing_column_is_named_and_the_columns_that_there_are(
    without: set[str], mapping: FieldMapping, column: str
) -> None:
    row = {name: value for name, value in ROW.items() if name not in without}
    with pytest.raises(Unreadable) as refused:
        fields(row, mapping)
    listed = ", ".join(sorted(row))
    assert str(refused.value) == f"column {column} is missing; the columns are {listed}"
    assert refused.value.field == column


def test_of_many_columns_some_are_listed() -> None:
    with pytest.raises(Unreadable, match=r"the columns are c00, .*, c11, … \(30 in all\)$"):
        fields({f"c{n:02}": 1 for n in range(30)})


@pytest.mark.parametrize("value", [None, "", "  ", True, ["a"], {"a": 1}])
def test_a_part_of_a_scope_is_a_text_or_a_number(value: object) -> None:
    with pytest.raises(Unreadable) as refused:
        fields({**ROW, "scope": value})
    assert refused.value.field == "scope"


@pytest.mark.parametrize(
    "value",
    [
        "2023-05-08T13:56:00Z",
        "2023-05-08T15:56:00+02:00",
        "2023-05-08 13:56",
        "1:56 pm on 8 May, 2023",
        "May 8, 2023 1:56 PM",
        "Mon, 08 May 2023 13:56:00 GMT",
        1683554160,
        1683554160.0,
        1683554160000,
        "1683554160",
        "1683554160.0",
        "1683554160000",
        " 2023-05-08T13:56:00Z ",
    ],
)
def test_times_are_read_as_people_and_machines_write_them(value: object) -> None:
    assert moment(value, "when") == AT
    assert moment(value, "when").tzinfo is UTC


def test_a_day_alone_begins_at_midnight() -> None:
    assert moment("8 May 2023", "when") == datetime(2023, 5, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    ("others", "day_first"),
    [
        (["25.04.2026"], True),
        (["4/25/2026 09:00"], False),
        (["on 25-04-26"], True),
        (["25.04.2026", "04.25.2026"], None),
        (["05.04.2026", "2026-04-25", "25 April 2026", "25.13.2026", 1683554160, None], None),
        ([], None),
    ],
)
def test_one_date_of_a_column_tells_the_order_of_all(
    *, others: list[object], day_first: bool | None
) -> None:
    assert days_first(["03.04.2026", *others]) is day_first


def test_a_date_in_numbers_is_read_in_the_order_of_its_column() -> None:
    assert moment("03.04.2026", "when", day_first=True) == datetime(2026, 4, 3, tzinfo=UTC)
    assert moment("03.04.2026", "when", day_first=False) == datetime(2026, 3, 4, tzinfo=UTC)
    with pytest.raises(Unreadable, match="column when is ambiguous; write 2026-03-14"):
        moment("03.04.2026", "when")


@pytest.mark.parametrize("value", ["May 2023", "2023", "8 May", "13:56", "Monday", "May"])
def test_a_date_that_is_not_given_in_full_is_refused(value: str) -> None:
    with pytest.raises(Unreadable) as refused:
        moment(value, "when")
    assert str(refused.value) == "column when is not a full date; write year, month and day"
    assert refused.value.field == "when"


@pytest.mark.parametrize(
    "value",
    [
        "",
        "soon",
        "2023-13-45",
        "8 May 2023 13:56 XYZ",
        "99999999999999999999",
        True,
        None,
        ["2023-05-08"],
        float("nan"),
        float("inf"),
        1e300,
        10**400,
        "0001-01-01T00:00:00+23:00",
        "9999-12-31T23:59:59-23:00",
    ],
)
def test_what_is_no_time_is_refused(value: object) -> None:
    with pytest.raises(Unreadable) as refused:
        moment(value, "when")
    assert str(refused.value) == (
        "column when is not a time; write ISO 8601, such as 2026-03-14T09:30:00Z"
    )


@pytest.mark.parametrize(
    ("ahead", "unlikely"),
    [
        (timedelta(0), False),
        (timedelta(hours=14), False),
        (timedelta(days=2), True),
        (datetime.max.replace(tzinfo=UTC) - AT, True),
        (timedelta(days=-365 * 50), False),
        (datetime.fromtimestamp(0, UTC) - AT, True),
        (datetime.min.replace(tzinfo=UTC) - AT, True),
    ],
)
def test_what_is_still_to_come_or_the_beginning_of_a_calendar_is_unlikely(
    *, ahead: timedelta, unlikely: bool
) -> None:
    assert is_unlikely(AT + ahead, AT) is unlikely


@pytest.mark.parametrize(("minutes", "too_far"), [(-60, False), (5, False), (6, True)])
def test_the_time_of_an_event_is_as_far_ahead_as_clocks_may_differ(
    *, minutes: int, too_far: bool
) -> None:
    assert is_ahead(AT + timedelta(minutes=minutes), AT) is too_far


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("turn", "12", 12),
        ("turn", "twelve", "twelve"),
        ("importance", "0.5", 0.5),
        ("confidence", "high", "high"),
        ("tags", "tea, drinks,,", ["tea", "drinks"]),
        ("tags", ["tea, green"], ["tea, green"]),
        ("entities", "Ana", ["Ana"]),
        ("session", 7, "7"),
        ("category", 1.5, "1.5"),
        ("memory_id", True, True),
        ("importance", 1, 1),
    ],
)
def test_texts_of_a_table_become_what_the_field_holds(
    column: str, value: object, expected: object
) -> None:
    made = fields({**ROW, column: value})[column]
    assert (made, type(made)) == (expected, type(expected))


def test_an_empty_cell_is_no_value() -> None:
    made = fields({**ROW, "turn": "", "tags": "", "mood": "", "session": None})
    assert made["metadata"] == {"when": "2023-05-08"}
    assert {"turn", "tags", "session"}.isdisjoint(made)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
COLUMNS = st.sampled_from(
    ["text", "scope", "event_id", "occurred_at", "metadata", "turn", "tags", "x"]
)
TIMES = st.from_regex(
    r"[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{1,4}[ T]?([0-9:+ A-Z]{0,12})?", fullmatch=True
)


@given(st.dictionaries(COLUMNS, JSON | TIMES, max_size=8), st.text(min_size=1, max_size=12))
def test_any_row_becomes_fields_or_is_refused(row: dict[str, Any], template: str) -> None:
    try:
        fields(row, FieldMapping(scope=scope_template(template)))
        fields(row, FieldMapping())
    except (Unreadable, ValueError) as refused:
        assert isinstance(refused, Unreadable) or "write {column}" in str(refused)  # noqa: PT017
