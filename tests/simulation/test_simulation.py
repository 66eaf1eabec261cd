"""The real owner and writer, under thousands of schedules in which everything goes wrong.

`make sim` plays more of them; `python -m tests.simulation --seed S` tells what happened in one.
"""

import os
from collections.abc import Sequence

import pytest

from tests.simulation.legs import LEGS
from tests.simulation.play import Played, play

RUNS = 500

REGRESSIONS = (0, 2, 18, 38, 109)
"""Seeds that go wrong where a protection is missing."""

FOUND_WITHIN = 1_000
"""Schedules until a protection that is missing must have been missed."""

KINDS = {
    *("insert", "replace", "merge", "reinforce", "revise", "ignore", "reject", "forward"),
    *("consolidate", "erase", "block"),
}
TROUBLES = {
    "a process crashed",
    "somebody stalled",
    "a partition was moved",
    "a commit was refused",
    "a call failed",
    "an answer was lost",
    "something came late",
    "the writer was set back",
    "the index was lost",
    "an owner found that it was fenced out",
    "records were erased",
}


def well(seed: int, *, harder: bool = False) -> Played:
    played = play(seed, harder=harder)
    again = f"python -m tests.simulation --seed {seed}{' --harder' if harder else ''}"
    assert not played.wrong, f"{again}: {played.wrong}"
    return played


@pytest.mark.covers("B66", "B76", "B119", "B123", "B125", "B130", "C7", "C8", "D15", "D28")
@pytest.mark.parametrize(
    ("part", "harder"),
    [("first", False), ("second", False), ("third", False), ("harder", True)],
)
def test_no_schedule_shows_in_what_comes_of_it(part: str, *, harder: bool) -> None:
    base = int.from_bytes(os.urandom(4))
    print(f"{part} {RUNS:,} schedules, from seed {base}")  # noqa: T201
    played = [well(seed, harder=harder) for seed in range(base, base + RUNS)]
    more = (well(seed, harder=harder) for seed in range(base + RUNS, base + 10 * RUNS))
    while kinds_of(played) != KINDS:  # one in eighty schedules joins what was proposed
        played.append(next(more))
    assert set[str]().union(*(one.happened for one in played)) >= TROUBLES


def kinds_of(played: Sequence[Played]) -> set[str]:
    """Return the kinds of decisions that came of schedules."""
    return set[str]().union(*(one.kinds for one in played))


@pytest.mark.parametrize("seed", REGRESSIONS)
def test_a_schedule_that_needs_a_protection_goes_well_with_all(seed: int) -> None:
    well(seed)


def test_a_seed_is_the_same_schedule_again() -> None:
    assert play(7).story == play(7).story


@pytest.mark.covers("B76", "B127", "C8", "D28")
@pytest.mark.parametrize("name", LEGS)
def test_each_protection_is_needed(name: str) -> None:
    """Without it something else comes of a schedule; with all of them nothing does."""
    wrong = (seed for seed in range(FOUND_WITHIN) if play(seed, leg=LEGS[name]).wrong)
    seed = next(wrong, None)
    assert seed is not None, f"nobody missed the {name} in {FOUND_WITHIN:,} schedules"
    print(f"without {name}: schedule {seed + 1} goes wrong")  # noqa: T201
    well(seed)
