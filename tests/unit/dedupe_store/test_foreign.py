"""Another program's rows as events: the usual columns found, the others carried along, all untrusted."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.codec import Unreadable
from schemas.events import Remember
from streams.dedupe_store.core import SCOPE, ColumnAssignment, event_of, name_of, written
from streams.store.core.columns import GuessedColumns, NamedColumns

USUAL = ColumnAssignment(NamedColumns(), GuessedColumns())


@pytest.mark.parametrize(
    ("row", "text", "scope"),
    [
        ({"text": "A fact.", "scope": "acme/ana"}, "A fact.", "acme/ana"),
        ({"memory": "A fact.", "user_id": "ana"}, "A fact.", "ana"),
        ({"data": "A fact.", "agent_id": 7}, "A fact.", "7"),
        ({"document": "A fact."}, "A fact.", SCOPE),
        ({"text": "", "page_content": "A fact.", "user_id": None}, "A fact.", SCOPE),
    ],
)
def test_the_usual_columns_are_found(row: dict[str, Any], text: str, scope: str) -> None:
    event = event_of(row, USUAL, 1)
    assert (event.text, event.scope, event.metadata) == (text, scope, {})


def test_columns_that_are_named_come_first() -> None:
    named = NamedColumns(text="said", scope="team/{who}", time="at")
    row = {"text": "no", "said": "yes", "who": "ana", "at": "2026-03-01", "user_id": "x"}
    event = event_of(row, ColumnAssignment(named, GuessedColumns()), 1)
    assert (event.text, event.scope, event.occurred_at.year) == ("yes", "team/ana", 2026)


def test_what_means_the_same_here_is_used_and_all_else_is_left_unread() -> None:
    row = {"text": "A fact.", "importance": 0.7, "tags": "a, b", "source": 5, "status": "odd"}
    event = event_of(row, USUAL, 3)
    assert (event.importance, event.tags, event.source) == (0.7, ("a", "b"), None)
    assert event.status == "active"


def test_rows_without_a_time_are_in_their_own_order() -> None:
    first, second = (event_of({"text": "A fact.", "created_at": None}, USUAL, n) for n in (1, 2))
    assert first.occurred_at < second.occurred_at
    assert first.event_id != second.event_id


def test_a_row_keeps_its_columns_and_gets_the_text_that_stands_for_several() -> None:
    row = {"id": 4, "memory": "A fact.", "hash": "h"}
    assert written(row, USUAL, "A fact.", ["4"]) == row
    assert written(row, USUAL, "A fact. Another.", ["4", "row 2"]) == {
        **row,
        "memory": "A fact. Another.",
        "merged_from": ["4", "row 2"],
    }
    assert (name_of(row, 9), name_of({}, 9)) == ("4", "row 9")


ANY_TEXT = st.text() | st.text(st.characters(categories=["Cs", "L"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)
NAMES = st.sampled_from(
    ["text", "memory", "scope", "user_id", "created_at", "id", "tags", "importance", "pinned", "x"]
)


@given(st.dictionaries(NAMES, JSON))
def test_whatever_a_row_holds_it_is_an_event_or_told_why_not(row: dict[str, Any]) -> None:
    try:
        event = event_of(row, USUAL, 1)
    except Unreadable:
        return
    assert isinstance(event, Remember)
    assert written(row, USUAL, event.text, ["1"]).keys() == row.keys()
