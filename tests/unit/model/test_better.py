from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.model.better import Preference, better
from streams.model.policy import BetterRule, Quality
from tests.builders import START, event, later, memory

TEXT = "Ana likes tea."
DAY_H = 24
EVENT, MEMORY, TIE = "event", "memory", "tie"


def preference(said: dict[str, Any], known: dict[str, Any], **rule: Any) -> Preference:
    texts = said.pop("text", TEXT), known.pop("text", TEXT)
    return better(event(texts[0], **said), memory(texts[1], **known), BetterRule(**rule))


@pytest.mark.covers("B19", "B21")
@pytest.mark.parametrize(
    ("said", "known", "winner", "by"),
    [
        ({"status": "active"}, {"status": "tentative"}, EVENT, "status"),
        ({"status": "tentative"}, {"status": "active"}, MEMORY, "status"),
        ({"status": "tentative"}, {"status": "tentative"}, TIE, None),
        ({"text": "x" * 16}, {"text": "y" * 10}, EVENT, "length"),
        ({"text": "x" * 15}, {"text": "y" * 10}, TIE, None),
        ({"text": "x" * 15 + "   "}, {"text": "y" * 10}, TIE, None),
        ({"text": "x" * 10}, {"text": "y" * 99}, TIE, None),
        ({"persistence": "permanent"}, {"persistence": "ephemeral"}, EVENT, "persistence"),
        ({"persistence": "core"}, {"persistence": "permanent"}, EVENT, "persistence"),
        ({"persistence": "ephemeral"}, {"persistence": "permanent"}, MEMORY, "persistence"),
        ({"persistence": "permanent"}, {}, TIE, None),
        ({}, {"persistence": "permanent"}, TIE, None),
        ({"text": "x" * 99, "status": "tentative"}, {"text": "y"}, MEMORY, "status"),
        (
            {"text": "x" * 16, "persistence": "ephemeral"},
            {"text": "y" * 10, "persistence": "permanent"},
            EVENT,
            "length",
        ),
        ({}, {}, TIE, None),
    ],
)
def test_the_first_quality_that_tells_them_apart_decides(
    said: dict[str, Any], known: dict[str, Any], winner: Any, by: Quality | None
) -> None:
    assert preference(dict(said), dict(known)) == Preference(winner, by)


@pytest.mark.covers("S2.11", "S2.37", "B18")
@pytest.mark.parametrize(
    ("said", "known", "days", "decay", "winner"),
    [
        (0.6, 0.5, 0, 1.0, EVENT),
        (0.5, 0.6, 0, 1.0, MEMORY),
        (0.5, 0.5, 300, 1.0, TIE),
        (None, 0.5, 0, 1.0, TIE),
        (0.5, None, 0, 1.0, TIE),
        (0.5, 0.5, 30, 0.95, EVENT),
        (0.47, 0.5, 30, 0.95, MEMORY),
        (0.48, 0.5, 30, 0.95, EVENT),
        (0.46, 0.5, 60, 0.95, EVENT),
        (0.45, 0.5, 60, 0.95, MEMORY),
        (0.49, 0.5, 15, 0.95, EVENT),
        (0.48, 0.5, 15, 0.95, MEMORY),
        (0.5, 0.5, -300, 0.95, TIE),
        (0.0, 0.0, 30, 0.95, TIE),
    ],
)
def test_importance_decays_by_the_month_since_the_memory_was_seen(
    said: float | None, known: float | None, days: int, decay: float, winner: Any
) -> None:
    found = preference(
        {"importance": said, "occurred_at": later(days * DAY_H)},
        {"importance": known, "created_at": later(-1000)},
        order=("importance",),
        importance_decay=decay,
    )
    assert found == Preference(winner, None if winner == TIE else "importance")


@pytest.mark.covers("B20")
@pytest.mark.parametrize(("hours", "winner"), [(1, EVENT), (0, TIE), (-1, MEMORY)])
def test_the_later_wins_by_recency(hours: int, winner: Any) -> None:
    found = preference({"occurred_at": later(hours)}, {}, order=("recency",))
    assert found == Preference(winner, None if winner == TIE else "recency")


@pytest.mark.parametrize(
    ("order", "by"), [(("recency", "status"), "recency"), (("status", "recency"), "status")]
)
def test_qualities_count_in_the_order_of_the_rule(order: tuple[Quality, ...], by: Quality) -> None:
    said = {"occurred_at": later(1), "status": "tentative"}
    assert preference(said, {}, order=order).by == by


def test_without_qualities_it_is_a_tie() -> None:
    assert preference({"occurred_at": later(1)}, {}, order=()) == Preference("tie", None)


@given(
    st.none() | st.floats(0, 1),
    st.none() | st.floats(0, 1),
    st.timedeltas(-timedelta(days=9000), timedelta(days=9000)),
    st.floats(0.001, 1),
)
def test_a_preference_names_what_decided_exactly_where_something_did(
    said: float | None, known: float | None, age: timedelta, decay: float
) -> None:
    found = preference(
        {"importance": said, "occurred_at": START + age},
        {"importance": known, "created_at": START - timedelta(days=9000)},
        order=("importance",),
        importance_decay=decay,
    )
    assert (found.by is None) == (found.winner == "tie")


@pytest.mark.parametrize("hours", [25, 24 * 365 * 1_000, -24 * 365 * 60])
def test_a_time_that_cannot_be_is_never_the_more_recent_and_nothing_decays_by_it(
    hours: float,
) -> None:
    """It is to come by more than a day, or lies before 1971."""
    odd, likely = later(hours), START
    recent = BetterRule(order=("recency",))
    said, known = event(occurred_at=likely), memory(last_seen_at=odd)
    assert better(said, known, recent, START) == Preference(EVENT, "recency")
    said, known = event(occurred_at=odd), memory(last_seen_at=likely)
    assert better(said, known, recent, START) == Preference(MEMORY, "recency")
    rated = BetterRule(order=("importance",), importance_decay=0.95)
    said = event(occurred_at=odd, importance=0.5)
    known = memory(last_seen_at=likely, importance=0.51)
    assert better(said, known, rated, START) == Preference(MEMORY, "importance")
