"""What holds under every policy that ships: traps of real data, and what no rule may lose."""

from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any

import pytest

from schemas.decisions import Insert, Verdict
from schemas.events import Remember
from streams.embedding import DEFAULT_MODEL, HASHING
from streams.model.policy import ANY_MODEL, Expiry
from streams.model.ports.models import NoAnswer, WordingRequest
from streams.model.verdict import Pair
from streams.store.app import policies
from tests.builders import at_cosine, event, later, unit
from tests.fakes.judges import Said
from tests.support.stage.deciding import World

PRESETS = policies.names()
MODELS = {"default-hashing": HASHING, "keep-both": ANY_MODEL}
OWN = {"default", "careful", "thorough", *MODELS}


def said(text: str, hours: float = 1, **fields: Any) -> Remember:
    return event(text, **{"occurred_at": later(hours), **fields})


def same(pair: Pair) -> Said:
    """Call everything the same, as a careless judge would."""
    del pair
    return Verdict.SAME


def silent(pair: Pair) -> Said:
    del pair
    return NoAnswer("timeout")


def newest(request: WordingRequest) -> str:
    """Word a merge by dropping all but the newest text."""
    return request.parts[-1].text


def world(
    preset: str, texts: Sequence[str], similarity: float, judge: Callable[[Pair], Said] = same
) -> World:
    """Return a world where each text is so similar to the first; careless judge and writer."""
    first, *others = texts
    near = {text: at_cosine(similarity, 1 + at) for at, text in enumerate(others)}
    return World(preset, {first: unit(1)} | near, verdicts=judge, wordings=newest)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_names_its_model_says_what_it_is_and_keeps_what_protects(preset: str) -> None:
    policy = policies.load(preset)
    header = policies.text(preset).partition("\n\n")[0]
    assert policy.name == preset, "name the policy like its file"
    assert policy.model == MODELS.get(preset, DEFAULT_MODEL), "name its model in MODELS"
    assert policy.enabled
    assert policy.guards
    assert policy.brake.enabled
    told = header.replace("\n# ", " ")
    answers = ("The rule", "lost" if preset in OWN else "lose", "Choose it")
    assert [one for one in answers if one not in told] == [], "the comment on top says so"


TRAPS = [
    ("The party is on March 14.", "The party is on March 15.", 0.953),
    ("Ana likes cats.", "Ana does not like cats.", 0.921),
    ("Ana has lived here for 5 years.", "Ana has lived here for 6 years.", 0.931),
    ("The blue button does nothing.", "The red button does nothing.", 0.98),
    ("A knife lies on the table.", "No knife lies on the table.", 0.96),
    ("Window entry leads to Kitchen.", "Window entry leads to Chamber.", 0.95),
    ("Ana owes Ben money.", "Ben owes Ana money.", 0.99),
    ("The window can be opened.", "The window cannot be opened.", 0.97),
]


@pytest.mark.covers("D1", "D2", "D5", "D6", "C3")
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize(("first", "second", "similarity"), TRAPS)
async def test_two_facts_stay_two_however_similar_and_whatever_a_judge_holds(
    preset: str, first: str, second: str, similarity: float
) -> None:
    for older, newer in ((first, second), (second, first)):
        here = world(preset, [older, newer], similarity)
        await here.tell(said(older, 0))
        assert isinstance(await here.tell(said(newer)), Insert)
        assert await here.texts() == [older, newer]


@pytest.mark.covers("D16", "D20", "S4.9")
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("similarity", [0.99, 0.92, 0.87, 0.78, 0.66])
async def test_no_judge_and_no_writer_that_fails_costs_a_fact(
    preset: str, similarity: float
) -> None:
    older, newer = "A pile of leaves hides the grating.", "Leaves cover something made of iron."
    here = world(preset, [older, newer], similarity, silent)
    await here.tell(said(older, 0, importance=0.9))
    await here.tell(said(newer, importance=0.2))
    kept = [text for memory in await here.wordings() for text in memory]
    assert {older, newer} <= set(kept)
    await here.retired()


@pytest.mark.covers("B71", "D21")
@pytest.mark.parametrize("preset", PRESETS)
async def test_a_pinned_memory_is_never_touched(preset: str) -> None:
    older, newer = "The boat sails at dawn.", "A boat sails at dawn."
    here = world(preset, [older, newer], 0.99)
    await here.tell(said(older, 0, pinned=True, importance=0.1))
    await here.tell(said(newer, importance=0.9))
    assert older in await here.texts()
    assert await here.retired() == {}


@pytest.mark.covers("D4")
@pytest.mark.parametrize("preset", PRESETS)
async def test_nothing_is_compared_across_scopes(preset: str) -> None:
    older, newer = "The boat sails at dawn.", "A boat sails at dawn."
    here = world(preset, [older, newer], 1.0)
    await here.tell(said(older, 0, scope="acme/ana"))
    decision = await here.tell(said(older, scope="acme/ben", event_id="there"))
    assert isinstance(decision, Insert)
    assert decision.evidence.neighbours == ()
    await here.tell(said(newer, 2, scope="acme/ben"))
    assert await here.texts("acme/ana") == [older]


# Memories of places, as the author of such an agent writes them, and as he decides on them.

BOTTLE = {
    "core": "A glass bottle stands on the counter when the kitchen is first entered.",
    "permanent": "The bottle takes water once somebody fills it at the stream.",
    "ephemeral": "The agent put the empty bottle on the table to fetch it later.",
}


@pytest.mark.covers("D22", "B71")
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("order", list(permutations(BOTTLE)), ids="-".join)
@pytest.mark.parametrize("similarity", [0.97, 0.9, 0.8])
async def test_where_a_thing_begins_how_it_works_and_what_was_done_with_it_are_three_memories(
    preset: str, order: Sequence[str], similarity: float
) -> None:
    texts = [BOTTLE[persistence] for persistence in order]
    here = world(preset, texts, similarity, silent)
    for at, persistence in enumerate(order):
        await here.tell(said(BOTTLE[persistence], at, persistence=persistence))
    kept = {memory.text: str(memory.persistence) for memory in await here.memories()}
    assert kept == {text: persistence for persistence, text in BOTTLE.items()}


@pytest.mark.covers("D2", "D20", "S0.4")
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize(
    "texts",
    [
        pytest.param(
            (
                "The window can be opened with some effort.",
                "The window cannot be taken, it is built into the house.",
            ),
            id="window: open, take",
        ),
        pytest.param(
            (
                "The sword is found here on the first visit.",
                "The sword is mounted on the wall and cannot be taken.",
            ),
            id="sword: spawns, mounted",
        ),
        pytest.param(
            (
                "The chimney is too narrow to climb.",
                "The chimney is wide enough to climb without luggage.",
            ),
            id="chimney: narrow, wide",
        ),
    ],
)
async def test_two_facts_about_one_thing_are_not_taken_for_one(
    preset: str, texts: Sequence[str]
) -> None:
    here = world(preset, texts, 0.8, silent)
    for at, text in enumerate(texts):
        await here.tell(said(text, at))
    live = " ".join(await here.texts())
    assert all(text in live for text in texts)


@pytest.mark.covers("S0.14", "S0.82")
@pytest.mark.parametrize("preset", PRESETS)
async def test_a_gift_that_is_accepted_twice_is_one_memory_and_becomes_certain(
    preset: str,
) -> None:
    text = "The troll accepts the lunch and eats it."
    here = world(preset, [text, text.upper()], 0.9)
    await here.tell(said(text, 0, status="tentative", title="Troll accepts lunch gift"))
    await here.tell(said(text, 1, status="tentative", event_id="2"))
    [guess] = await here.memories()
    assert (str(guess.status), guess.observation_count) == ("tentative", 2)
    await here.tell(said(text.upper(), 2, status="active"))
    [fact] = await here.memories()
    assert (str(fact.status), fact.observation_count) == ("active", 3)
    await here.tell(said(text, 3, status="tentative", event_id="4"))
    [still] = await here.memories()
    assert (str(still.status), still.text) == ("active", text)


@pytest.mark.covers("S2.35", "S3.28")
@pytest.mark.parametrize("preset", PRESETS)
def test_nobody_is_asked_about_a_pair_and_nothing_ends_for_its_age_unless_a_policy_says_so(
    preset: str,
) -> None:
    policy = policies.load(preset)
    pairs = {policy.without_verdict.match, policy.without_verdict.review}
    assert "review" not in {*pairs, policy.with_verdict.contradicts}
    assert policy.expiry == Expiry()
