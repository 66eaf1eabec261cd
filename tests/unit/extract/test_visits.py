"""Visits: how often a session entered each place, from its turns."""

from typing import Any

import pytest

from schemas.turns import Turn
from streams.extract.core import visits
from streams.extract.core.visits import Visits
from tests.builders import turn

HOUSE, ROOM = 15, 23


def at(number: int, before: int, after: int, session: str | None = "1", **fields: Any) -> Turn:
    """Return a turn filed under the place that was entered, as a scope with {location} does it."""
    return turn(
        ("world", "Ok."),
        turn_id=f"{session}-{number}",
        session=session,
        **{"scope": f"zork/{after}", **fields},
        state={"location_before": {"id": before}, "location_after": {"id": after}},
    )


@pytest.mark.covers("S3.11")
def test_each_entry_into_a_place_is_a_visit() -> None:
    counted = Visits()
    moves = [(HOUSE, HOUSE), (HOUSE, ROOM), (ROOM, ROOM), (ROOM, HOUSE), (HOUSE, ROOM)]
    told = [counted.add(at(number, *move)) for number, move in enumerate(moves)]
    assert [one["1"] for one in told] == [1, 1, 1, 2, 2]
    assert counted.add(at(9, ROOM, HOUSE, session="2")) == {"1": 2, "2": 1}


def test_where_the_move_is_filed_under_the_room_left_the_next_turn_there_is_the_visit() -> None:
    counted = Visits()
    moves = [(HOUSE, HOUSE), (HOUSE, ROOM), (ROOM, HOUSE), (HOUSE, HOUSE)]
    told = [counted.add(at(n, *move, scope=f"zork/{move[0]}")) for n, move in enumerate(moves)]
    assert [one["1"] for one in told] == [1, 1, 1, 2]


def test_a_turn_that_comes_again_is_the_same_visit_and_a_copy_counts_on_by_itself() -> None:
    counted = Visits()
    counted.add(at(1, HOUSE, ROOM))
    again = at(2, HOUSE, ROOM)
    assert [counted.add(again), counted.add(again)] == [{"1": 2}, {"1": 2}]
    copy = counted.fork()
    assert copy.add(at(3, HOUSE, ROOM)) == counted.add(at(4, HOUSE, ROOM)) == {"1": 3}


def test_without_a_place_or_a_session_there_is_no_visit() -> None:
    assert Visits().add(turn(("world", "Ok."), session="1")) == {}
    assert Visits().add(at(1, HOUSE, ROOM, session=None)) == {}


def test_of_too_many_places_the_one_left_alone_longest_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(visits, "PLACES_MAX", 2)
    counted = Visits()
    told = [counted.add(at(n, 0, place))["1"] for n, place in enumerate([1, 2, 1, 3, 1, 2])]
    assert told == [1, 1, 2, 1, 3, 1]


def test_of_too_many_sessions_the_last_ones_are_told() -> None:
    counted = Visits()
    sessions = [str(number) for number in range(visits.SESSIONS_MAX + 2)]
    told = [counted.add(at(1, HOUSE, ROOM, session=one)) for one in sessions]
    assert list(told[-1]) == sessions[2:]
