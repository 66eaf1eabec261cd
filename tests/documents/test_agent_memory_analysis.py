"""The agent-memory analysis: what it says becomes of its own texts and numbers.

Under the policy agent-memory at its distances, with a language model that confirms; where it tells
none, the real model and the default policy decide.
"""

import pytest

from schemas.decisions import Insert, Merge, Reinforce, Verdict
from tests.builders import at_cosine, event, later, unit
from tests.support.stage.deciding import World, always
from tests.support.stage.documents import PENDING, are_apart, is_one

USUALLY = "User likes coffee, flat white usually"
ENTHUSIAST = "They are a coffee enthusiast, favorite coffee is flatwhite"
SHORT = "Coffee enthusiast, favorite is flatwhite"
ESPECIALLY = "User loves coffee, especially flat white"


def world(first: str, second: str, distance: float) -> World:
    return World(
        "agent-memory",
        {first: unit(1), second: at_cosine(1 - distance)},
        verdicts=always(Verdict.SAME),
    )


@pytest.mark.covers("S4.11", "S4.36")
@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [
        (USUALLY, SHORT, 0.28),
        (USUALLY, ESPECIALLY, 0.25),
        ("User likes flat white", "User loves flat white", 0.25),
        ("Coffee preference: flat white", "Flat white is preferred", 0.35),
        ("User broke pour-over", "Pour-over set is broken", 0.30),
    ],
)
async def test_repeats_up_to_a_distance_of_35_are_one_memory(
    first: str, second: str, distance: float
) -> None:
    here = world(first, second, distance)
    await here.tell(event(first, occurred_at=later(0)))
    again = await here.tell(event(second, event_id="second", occurred_at=later(1)))
    assert isinstance(again, Reinforce)
    assert await here.texts() == [first]


@pytest.mark.covers("S4.29")
async def test_two_facts_about_coffee_stay_two() -> None:
    flat, broke = "User likes flat white", "User broke pour-over"
    here = World(
        "agent-memory", {flat: unit(1), broke: at_cosine(0.7)}, verdicts=always(Verdict.DISTINCT)
    )
    await here.tell(event(flat, occurred_at=later(0)))
    decision = await here.tell(event(broke, event_id="second", occurred_at=later(1)))
    assert isinstance(decision, Insert)
    await are_apart([flat, broke])


@pytest.mark.covers("S4.7")
async def test_the_first_two_are_worded_as_an_enthusiast_who_prefers_flat_white() -> None:
    merged = "User is a coffee enthusiast who prefers flat white"
    here = World(
        "agent-memory",
        {USUALLY: unit(1), ENTHUSIAST: at_cosine(0.65), merged: at_cosine(0.8)},
        verdicts=always(Verdict.REFINES),
        wordings=[merged, merged],
    )
    await here.tell(event(USUALLY, occurred_at=later(0)))
    decision = await here.tell(event(ENTHUSIAST, event_id="second", occurred_at=later(1)))
    assert isinstance(decision, Merge)
    assert await here.texts() == [merged]


@pytest.mark.covers("S4.2")
@pytest.mark.parametrize(
    "wordings",
    [
        pytest.param((USUALLY, ENTHUSIAST, ESPECIALLY), id="the three of the issue", marks=PENDING),
        pytest.param((USUALLY, SHORT), marks=PENDING),
        (USUALLY, ESPECIALLY),
        ("User likes flat white", "User loves flat white"),
        pytest.param(("Coffee preference: flat white", "Flat white is preferred"), marks=PENDING),
        pytest.param(("User broke pour-over", "Pour-over set is broken"), marks=PENDING),
        ("User likes flat white", "Confirmed: still prefers flat white"),
        pytest.param(("User likes flat white coffee", "User loves flat white"), marks=PENDING),
        pytest.param(
            ("User likes flat white coffee", "flat white is their favorite"), marks=PENDING
        ),
    ],
)
async def test_wordings_of_one_fact_by_the_real_model(wordings: tuple[str, ...]) -> None:
    await is_one(wordings)


@pytest.mark.covers("S4.2")
@pytest.mark.parametrize(
    "wordings",
    [(USUALLY, ENTHUSIAST, ESPECIALLY), (USUALLY, SHORT), (USUALLY, ESPECIALLY)],
)
async def test_the_policy_thorough_takes_the_wordings_of_the_issue_for_one(
    wordings: tuple[str, ...],
) -> None:
    await is_one(wordings, "thorough")


async def test_another_drink_is_another_fact_to_the_real_model() -> None:
    for policy in ("default", "thorough"):
        await are_apart(["User likes flat white coffee", "User prefers espresso drinks"], policy)
