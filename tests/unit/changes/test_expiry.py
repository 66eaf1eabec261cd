"""When memories end by themselves."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.memories import Feedback, Persistence, Standing
from streams.changes.core.expiry import Due, due
from tests.builders import START, memory, policy

DAY = timedelta(days=1)
ALL = policy(
    better={"importance_decay": 0.95},
    expiry={
        "after_validity_days": 0,
        "ephemeral_days": 1,
        "tentative_days": 30,
        "unseen_days": 365,
        "harmful_min": 3,
        "importance_min": 0.1,
    },
)


@pytest.mark.covers("B70", "S4.31")
@pytest.mark.parametrize(
    ("fields", "days", "reason"),
    [
        ({}, 365, None),
        ({}, 366, "unused"),
        ({"valid_until": START + 9 * DAY}, 9, None),
        ({"valid_until": START + 9 * DAY}, 10, "expired"),
        ({"persistence": Persistence.EPHEMERAL}, 1, None),
        ({"persistence": Persistence.EPHEMERAL}, 2, "expired"),
        ({"status": Standing.TENTATIVE}, 30, None),
        ({"status": Standing.TENTATIVE}, 31, "expired"),
        ({"feedback": Feedback(harmful=3, helpful=2)}, 0, "harmful"),
        ({"feedback": Feedback(harmful=3, helpful=3)}, 0, None),
        ({"feedback": Feedback(harmful=2)}, 0, None),
        ({"last_seen_at": START + 300 * DAY}, 366, None),
    ],
)
def test_a_memory_ends_when_its_time_is_over_it_misled_or_nobody_needs_it(
    fields: dict[str, Any], days: int, reason: Due | None
) -> None:
    assert due(memory(**fields), START + days * DAY, ALL) == reason


@pytest.mark.covers("S4.27")
@pytest.mark.parametrize(("accessed", "reason"), [(None, "unused"), (2, "unused"), (3, None)])
def test_what_is_found_often_needs_not_be_said_again(
    accessed: int | None, reason: Due | None
) -> None:
    rules = policy(expiry={"unseen_days": 365, "accessed_min": 3})
    told = None if accessed is None else Feedback(accessed=accessed)
    assert due(memory(feedback=told), START + 366 * DAY, rules) == reason


@pytest.mark.covers("S2.37")
def test_importance_decays_by_five_percent_a_month_until_it_is_worth_nothing() -> None:
    """.15 * .95 ** (237 / 30) is .10003, and a day later it is .09986."""
    faint = memory(importance=0.15)
    assert due(faint, START + 237 * DAY, ALL) is None
    assert due(faint, START + 238 * DAY, ALL) == "unused"


@pytest.mark.covers("S3.28")
def test_without_rules_nothing_ends() -> None:
    old = memory(persistence=Persistence.EPHEMERAL, valid_until=START, importance=0.0)
    assert due(old, START + 9000 * DAY, policy()) is None


@pytest.mark.covers("B71")
@given(days=st.integers(0, 90_000), harmful=st.integers(0, 9))
def test_what_is_pinned_or_core_never_ends(days: int, harmful: int) -> None:
    told: dict[str, Any] = {
        "feedback": Feedback(harmful=harmful),
        "importance": 0.0,
        "valid_until": START,
    }
    now = START + days * DAY
    assert due(memory(**told, pinned=True), now, ALL) is None
    assert due(memory(**told, persistence=Persistence.CORE), now, ALL) is None


@given(days=st.integers(0, 9_000))
def test_a_clock_that_is_behind_ends_nothing(days: int) -> None:
    fresh = memory(importance=0.2, persistence=Persistence.EPHEMERAL)
    assert due(fresh, START - days * DAY, ALL) is None
