"""The Memories.md specification: what it says becomes of its own texts and numbers."""

import pytest

from schemas.decisions import Reinforce, Verdict
from schemas.memories import Turns
from streams.memories_md.core.entries import Header, Location, Meta, VisitTally, entries
from streams.memories_md.core.parsing import parse
from streams.memories_md.core.rendering import render
from tests.builders import at_cosine, event, later, unit
from tests.support.stage.deciding import World, always
from tests.support.stage.documents import PENDING, are_apart, is_one

HOUSE = "zork/15"
WINDOW = "Window is part of structure, cannot be taken"
EXAMPLE = """\
# Location Memories

## Location 15: West of House
**Visits:** 3 | **Episodes:** 1, 2, 3

### Memories

**[SUCCESS] Open and enter window** *(Ep1, T23-24, +0)*
Window can be opened with effort and used as alternative entrance to house. Must squeeze through opening.

**[FAILURE] Take or break window** *(Ep1, T25-26)*
Window is part of house structure - cannot be taken, moved, or broken. Violence not effective.

**[DISCOVERY] Mailbox location** *(Ep1, T20, +0)*
Small mailbox located here contains advertising leaflet. Likely tutorial document.

---

## Location 23: Living Room
**Visits:** 5 | **Episodes:** 1, 2, 3, 4

### Memories

**[SUCCESS] Acquire brass lantern** *(Ep1, T45, +5)*
Brass lantern is takeable and provides light source. CRITICAL item for dark areas - always take before exploring.

**[SUCCESS] Light lantern** *(Ep1, T46, +0)*
Lantern can be lit with simple command. Enables safe navigation of dark rooms.

**[FAILURE] Take sword** *(Ep1, T47)*
Ornamental sword is securely mounted and cannot be taken directly. Likely requires puzzle solution.

**[NOTE] Navigation options** *(Ep1, T50, +0)*
West exit leads to Kitchen. Room serves as central hub with multiple exits.

---
"""


@pytest.mark.covers("S3.10", "S3.11", "S3.12", "S3.13")
def test_the_documents_file_is_read_and_written_as_it_is() -> None:
    document = parse(EXAMPLE)
    assert render(document) == EXAMPLE
    tallies = [
        part for one in document.sections for part in one.parts if isinstance(part, VisitTally)
    ]
    assert [(tally.visits, tally.episodes) for tally in tallies] == [
        (3, ("1", "2", "3")),
        (5, ("1", "2", "3", "4")),
    ]
    found = [(one.location, one.entry.header, one.entry.meta) for one in entries(document)]
    house, room = Location(15, "West of House"), Location(23, "Living Room")
    assert found == [
        (house, Header("SUCCESS", "Open and enter window"), Meta("1", Turns(first=23, last=24), 0)),
        (house, Header("FAILURE", "Take or break window"), Meta("1", Turns(first=25, last=26))),
        (house, Header("DISCOVERY", "Mailbox location"), Meta("1", Turns(first=20, last=20), 0)),
        (room, Header("SUCCESS", "Acquire brass lantern"), Meta("1", Turns(first=45, last=45), 5)),
        (room, Header("SUCCESS", "Light lantern"), Meta("1", Turns(first=46, last=46), 0)),
        (room, Header("FAILURE", "Take sword"), Meta("1", Turns(first=47, last=47))),
        (room, Header("NOTE", "Navigation options"), Meta("1", Turns(first=50, last=50), 0)),
    ]


async def test_what_the_documents_file_holds_are_seven_facts() -> None:
    await are_apart([one.entry.text for one in entries(parse(EXAMPLE))])


@pytest.mark.covers("S3.23", "S3.25")
async def test_take_window_fails_at_turn_5_is_known_at_turn_10_and_shown_at_turn_15() -> None:
    here = World("memories-md", {WINDOW: unit(1)})
    at_5 = event(WINDOW, scope=HOUSE, turn=5, category="FAILURE", occurred_at=later(5))
    at_10 = event(
        WINDOW, scope=HOUSE, event_id="again", turn=10, category="FAILURE", occurred_at=later(10)
    )
    await here.tell(at_5)
    assert isinstance(await here.tell(at_10), Reinforce)
    [shown] = await here.memories(HOUSE)
    assert (shown.text, shown.category, shown.turns) == (WINDOW, "FAILURE", Turns(first=5, last=10))


TAKE, GET = '"take window" fails', '"get window" fails'


@pytest.mark.covers("S3.24")
async def test_take_window_and_get_window_are_the_same_failure_to_a_language_model() -> None:
    here = World(
        "memories-md", {TAKE: unit(1), GET: at_cosine(0.746)}, verdicts=always(Verdict.SAME)
    )
    await here.tell(event(TAKE, scope=HOUSE, occurred_at=later(0)))
    again = event(GET, scope=HOUSE, event_id="again", occurred_at=later(1))
    assert isinstance(await here.tell(again), Reinforce)
    assert await here.texts() == [TAKE]


@PENDING
@pytest.mark.covers("S3.24")
async def test_they_are_to_the_judge_that_we_ship() -> None:
    await is_one([TAKE, GET])
