"""The turns before a turn: as many as are asked for, of its scope and session, and none after it."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from schemas.turns import Turn
from streams.extract.core.window import REACH, Window
from tests.builders import later, turn


def at(number: int, **fields: Any) -> Turn:
    """Build the turn that happened in an hour."""
    values = {"turn_id": f"t-{number}", "occurred_at": later(number), **fields}
    return turn(("user", f"Turn {number}."), **values)


def ids(window: Window, place: int, of: Turn) -> list[str]:
    return [one.turn_id for one in window.before(place, of)]


def filled(*turns: Turn, turns_max: int = 3) -> Window:
    window = Window(turns_max)
    for place, one in enumerate(turns):
        window.add(place, one)
    return window


def test_the_newest_turns_of_scope_and_session_are_told_oldest_first() -> None:
    window = filled(*map(at, range(5)), at(5, scope="acme/bo"), at(6, session="2"))
    assert ids(window, 7, at(7)) == ["t-2", "t-3", "t-4"]
    assert ids(window, 7, at(7, scope="acme/bo")) == ["t-5"]
    assert ids(window, 7, at(7, session="2")) == ["t-6"]
    assert ids(window, 7, at(7, scope="acme/cy")) == []
    assert ids(filled(at(0), turns_max=0), 1, at(1)) == []


def test_a_turn_that_comes_late_is_told_what_came_before_it_and_nothing_else() -> None:
    window = filled(at(0), at(1), at(2))
    assert ids(window, 3, at(1)) == ["t-0"]
    window.add(3, at(1))
    assert ids(window, 4, at(3)) == ["t-0", "t-1", "t-2"]


def test_a_turn_that_comes_again_takes_no_second_place() -> None:
    window = filled(at(0), at(1), at(1), at(1))
    assert ids(window, 4, at(2)) == ["t-0", "t-1"]
    assert ids(window, 4, at(1)) == ["t-0"]


def test_a_fork_goes_its_own_way() -> None:
    window = filled(at(0))
    fork = window.fork()
    fork.add(1, at(1))
    assert (ids(window, 2, at(2)), ids(fork, 2, at(2))) == (["t-0"], ["t-0", "t-1"])


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(0, 40))
def test_who_reads_the_last_places_knows_the_same(scopes: list[int], skipped: int) -> None:
    """A window that began REACH places ago is that of one who was there from the beginning."""
    spread = REACH // 20
    turns = [(n * spread, at(n, scope=f"acme/{scope}")) for n, scope in enumerate(scopes)]
    here = (len(turns) + skipped) * spread
    always, began_late = Window(3), Window(3)
    for place, one in turns:
        always.add(place, one)
        if place >= here - REACH:
            began_late.add(place, one)
    for scope in range(4):
        of = at(99, scope=f"acme/{scope}")
        assert always.before(here, of) == began_late.before(here, of)
