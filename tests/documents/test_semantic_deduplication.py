"""The semantic deduplication specification: what it says becomes of its own texts and numbers.

Where it tells a similarity, that is given by a table of vectors, under the policy zork-semantic;
where it tells none, the real model and the default policy decide.
"""

from typing import Any

import pytest

from schemas.base import MemoryId
from schemas.decisions import Insert, Reason, Reinforce, Replace
from schemas.events import Remember
from schemas.memories import Standing, Turns
from streams.memories_md.core.editing import add_entry
from streams.memories_md.core.entries import entries
from streams.memories_md.core.mapping import entry_parts, event_of, numbered
from streams.memories_md.core.parsing import parse
from streams.memories_md.core.rendering import render
from streams.stage.core import survivorship
from tests.builders import at_cosine, event, identity, later, unit
from tests.support.stage.deciding import World
from tests.support.stage.documents import PENDING, is_one


def said(text: str, hours: float, place: int, **fields: Any) -> Remember:
    return event(text, scope=f"zork/{place}", occurred_at=later(hours), **fields)


def world(first: str, second: str, similarity: float) -> World:
    return World("zork-semantic", {first: unit(1), second: at_cosine(similarity)})


@pytest.mark.covers("S0.48", "S0.8")
async def test_scenario_1_the_same_fact_again_at_location_193() -> None:
    fact = "Trap door bars after descending"
    here = world(fact, "", 0)
    await here.tell(said(fact, 0, 193, turn=25, session="Ep01"))
    again = await here.tell(said(fact, 1, 193, turn=48, session="Ep01", event_id="again"))
    assert isinstance(again, Reinforce)
    [memory] = await here.memories()
    assert (memory.observation_count, memory.turns) == (2, Turns(first=25, last=48))


@pytest.mark.covers("S0.49")
async def test_scenario_2_a_tentative_troll_is_superseded_at_88() -> None:
    friendly, attacks = "Troll might be friendly", "Troll attacks unprovoked"
    here = world(friendly, attacks, 0.88)
    await here.tell(said(friendly, 0, 5, status="tentative"))
    assert isinstance(await here.tell(said(attacks, 1, 5)), Replace)
    [memory] = await here.memories()
    assert (memory.text, memory.status) == (attacks, Standing.ACTIVE)
    assert await here.retired() == {friendly: attacks}


@pytest.mark.covers("S0.50")
async def test_scenario_3_two_windows_at_79_and_134() -> None:
    kitchen, chamber = "Window entry leads to Kitchen", "Window entry leads to Chamber"
    here = world(kitchen, chamber, 1.0)
    await here.tell(said(kitchen, 0, 79))
    assert isinstance(await here.tell(said(chamber, 1, 134)), Insert)
    assert await here.texts("zork/79") == [kitchen]
    assert await here.texts("zork/134") == [chamber]


@pytest.mark.covers("S0.45")
async def test_case_does_not_matter() -> None:
    here = world("Trap door bars", "trap door bars", 0)
    await here.tell(said("Trap door bars", 0, 193))
    again = await here.tell(said("trap door bars", 1, 193))
    assert again.evidence.reason is Reason.SAME_CONTENT
    assert await here.texts() == ["Trap door bars"]


@pytest.mark.covers("S0.45")
@pytest.mark.parametrize("similarity", [0.95, 0.85])
async def test_a_paraphrase_is_one_memory_from_the_lower_threshold_on(similarity: float) -> None:
    ajar, slightly = "Window is ajar", "Window slightly open"
    here = world(ajar, slightly, similarity)
    await here.tell(said(ajar, 0, 81))
    await here.tell(said(slightly, 1, 81))
    assert [memory.observation_count for memory in await here.memories()] == [2]


@PENDING
@pytest.mark.covers("S0.45")
async def test_the_same_paraphrase_by_the_real_model() -> None:
    await is_one(["Window is ajar", "Window slightly open"])


NINE = (
    "Trap door bars after descending",
    "Trap door bars itself after descending.",
    "The trap door bars after descending.",
    "Trap door bars after you descend.",
    "After descending, the trap door bars.",
    "After descending the trap door bars itself.",
    "The trap door bars itself after you descend.",
    "Trap door bars after one descends.",
    "The trap door bars behind you after descending.",
)
WINDOW = ("Window is ajar", "The window is ajar.", "Window is slightly ajar.")


@pytest.mark.covers("S0.2", "S0.47")
@pytest.mark.parametrize(
    ("policy", "sightings"),
    [
        pytest.param("default", NINE, id="9 of the trap door at location 193", marks=PENDING),
        pytest.param("zork-semantic", NINE, id="the same, by the document's own rules"),
        pytest.param("zork-semantic", WINDOW, id="the window at location 81"),
    ],
)
async def test_what_motivated_the_document_is_one_memory_where_one_agent_words_it(
    policy: str, sightings: tuple[str, ...]
) -> None:
    await is_one(sightings, policy)


@pytest.mark.covers("S0.2", "S0.47")
@pytest.mark.parametrize(
    "sightings",
    [
        pytest.param(
            [
                "Trap door bars after descending",
                "The trap door is barred once you have gone down.",
                "After you descend, somebody bars the trap door.",
                "Going down makes the trap door bar itself behind you.",
                "You go down, and the trap door gets barred above you.",
                "Once you are below, the trap door is barred.",
                "The trap door bars behind anyone who descends.",
                "Descending leads to the trap door being barred.",
                "When you climb down, the trap door above is barred.",
            ],
            id="9 of the trap door at location 193",
            marks=PENDING,
        ),
        pytest.param(
            ["Window is ajar", "The window stands ajar.", "A window here has been left ajar."],
            id="the window at location 81",
        ),
    ],
)
async def test_what_motivated_the_document_is_one_memory_in_whatever_words(
    sightings: list[str],
) -> None:
    """It tells what the entries say, and not how they are worded: no two are worded alike here."""
    await is_one(sightings)


@pytest.mark.covers("S0.35", "S0.34", "S0.33")
def test_the_old_header_becomes_the_new_one_after_two_more_sightings() -> None:
    old = "**[DISCOVERY - PERMANENT] Title** *(Ep01, T25, +5)*"
    new = "**[DISCOVERY - PERMANENT] Title** *(Ep01, T25→T48, +5, seen 3x)*"
    file = f"## Location 193: Cellar\n### Memories\n\n{old}\nTrap door bars.\n"
    [(found, nth)] = numbered(entries(parse(file)))
    first = event_of(found, world="zork", at=later(0), nth=nth)
    assert first is not None
    memory = survivorship.born(first, MemoryId(identity(1)), truncated=False)
    for turn in (30, 48):
        memory = survivorship.seen_again(memory, first.model_copy(update={"turn": turn}))
    location, header, meta, text = entry_parts(memory)
    written = render(add_entry(parse(""), location, header, text, meta))
    assert f"\n{new}\nTrap door bars.\n" in written
