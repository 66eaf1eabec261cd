"""Memories.md: entries become events, and memories become entries."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.base import MemoryId
from schemas.codec import Unreadable
from schemas.events import Remember
from schemas.memories import Memory, Persistence, Standing, Superseded, Turns
from streams.memories_md.core.editing import add_entry
from streams.memories_md.core.entries import Header, Location, Meta, entries
from streams.memories_md.core.mapping import (
    entry_parts,
    event_of,
    in_time,
    location_id,
    numbered,
    written_at_all,
)
from streams.memories_md.core.parsing import parse
from streams.memories_md.core.rendering import render
from streams.model.identity import named_memory_id
from streams.stage.core import survivorship

AT = datetime(2026, 3, 1, 9, tzinfo=UTC)
LATER = datetime(2026, 4, 1, 9, tzinfo=UTC)

FILE = """\
## Location 41: Lighthouse
### Memories

**[SUCCESS - CORE] Oil the lamp** *(Ep1, T23→T40, +5, seen 3x, dusk, Goal: Find help, food (or both))*
Whale oil from the shed keeps the lamp burning until dawn.

**[NOTE - TENTATIVE] Ferry** *(Ep2, T5)*
The ferry may come at noon.

**[NOTE - SUPERSEDED] Keeper** *(Ep1, T26)*
[Superseded at T40 by "Keeper is away"]
~~The keeper is asleep upstairs.~~

**[NOTE] Shed**
~~The shed is locked.~~

**[NOTE] Nothing**

## Elsewhere

**[NOTE] Homeless**
This belongs to no location.
"""


def of_file(text: str, at: datetime = AT) -> list[Remember]:
    told = (
        event_of(found, world="coast", at=at, nth=nth)
        for found, nth in numbered(entries(parse(text)))
    )
    return [event for event in told if event is not None]


def memory_of(event: Remember) -> Memory:
    identity = named_memory_id(event.scope, event.memory_id or "")
    return survivorship.born(event, identity, truncated=False)


def in_place(header: str, text: str = "It creaks.") -> str:
    return f"## Location 41: Lighthouse\n### Memories\n\n{header}\n{text}\n"


@pytest.mark.covers("S3.7", "S3.8", "S3.12", "S3.13", "S0.64")
def test_an_entry_is_an_event_in_the_scope_of_its_location() -> None:
    lamp, ferry = of_file(FILE)
    assert lamp.scope == ferry.scope == "coast/41"
    assert lamp.text == "Whale oil from the shed keeps the lamp burning until dawn."
    assert (lamp.title, lamp.category) == ("Oil the lamp", "SUCCESS")
    assert lamp.persistence is Persistence.CORE
    assert (lamp.session, lamp.turn, lamp.status) == ("1", 23, "active")
    assert (ferry.status, ferry.persistence) == ("tentative", None)
    assert lamp.occurred_at == AT
    assert lamp.metadata == {
        "location_name": "Lighthouse",
        "last_turn": 40,
        "score": 5,
        "seen": 3,
        "goal": "Find help, food (or both)",
        "entry_notes": ["dusk"],
    }


@pytest.mark.covers("S0.14", "D12")
def test_what_is_retired_struck_through_empty_or_homeless_is_no_event() -> None:
    assert [event.title for event in of_file(FILE)] == ["Oil the lamp", "Ferry"]


@pytest.mark.covers("S0.33", "S0.34", "S0.35", "D38")
def test_a_memory_is_written_as_the_entry_that_it_came_from() -> None:
    live = [found for found in entries(parse(FILE)) if found.entry.live][:2]
    for found, event in zip(live, of_file(FILE), strict=True):
        entry = found.entry
        told = entry_parts(memory_of(event))
        assert told == (found.location, entry.header, entry.meta, entry.text)


@pytest.mark.covers("S0.33", "S0.34", "S0.35", "S0.48")
def test_one_seen_again_tells_how_often_and_its_newest_episode() -> None:
    first, *_ = of_file(in_place("**[DANGER] Stair** *(Ep1, T5, -2)*"))
    again = first.model_copy(update={"session": "2", "turn": 48})
    memory = survivorship.seen_again(memory_of(first), again)
    _, _, meta, _ = entry_parts(memory)
    assert meta == Meta("2", Turns(first=5, last=48), -2, 2)
    document = add_entry(parse(""), *_written(memory))
    assert "*(Ep2, T5→T48, -2, seen 2x)*" in render(document)


def _written(memory: Memory) -> tuple[Location, Header, str, Meta]:
    location, header, meta, text = entry_parts(memory)
    return location, header, text, meta


@pytest.mark.covers("S3.47")
def test_the_same_words_are_the_same_event_whenever_they_are_read() -> None:
    once, again = of_file(FILE), of_file(FILE.replace("seen 3x", "seen 4x"), LATER)
    assert [event.event_id for event in once] == [event.event_id for event in again]
    assert [event.memory_id for event in once] == [event.memory_id for event in again]
    moved = of_file(FILE.replace("Location 41", "Location 42"))
    assert {event.event_id for event in moved}.isdisjoint(event.event_id for event in once)


def test_an_edited_text_addresses_the_same_memory() -> None:
    [before] = of_file(in_place("**[NOTE] Door** *(Ep1, T5)*"))
    [after] = of_file(in_place("**[DANGER] Door** *(Ep1, T5, seen 2x)*", "It sticks."))
    assert before.memory_id == after.memory_id
    assert before.event_id != after.event_id


@pytest.mark.covers("D13")
def test_two_entries_of_one_title_are_two_memories() -> None:
    doors = ["**[NOTE] Door** *(Ep1, T5)*", "**[NOTE] Door** *(Ep1, T6)*", "**[NOTE] Door**"]
    text = "\n\n".join(f"{door}\nIt creaks {n} times." for n, door in enumerate([*doors, *doors]))
    file = f"## Location 41: Lighthouse\n\n{text}\n\n## Location 42: Pier\n\n{text}\n"
    named = [(event.scope, event.memory_id) for event in of_file(file)]
    assert len(set(named)) == len(named) == 12
    struck = file.replace("It creaks 0 times.", "~~It creaks 0 times.~~", 1)
    assert [(event.scope, event.memory_id) for event in of_file(struck)] == named[1:]


@pytest.mark.parametrize(
    "header",
    [
        f"**[NOTE] {'long ' * 60}** *(Ep1, T5)*",
        f"**[{'LONG' * 60}] Door** *(Ep1, T5)*",
        f"**[NOTE] Door** *(Ep{'1' * 250}, T5)*",
        "**[NOTE] ** *(Ep1, T5)*",
        "**[NOTE] a&#10;b**",
        "**[NOTE] Door** *(T5, -3, seen 0x, Goal: )*",
        "**[NOTE - EPHEMERAL - TENTATIVE] Door** *(Ep 2025-11-25T14:30, T0)*",
    ],
)
@pytest.mark.covers("D38")
def test_what_is_no_label_is_kept(header: str) -> None:
    file = in_place(header)
    [found] = entries(parse(file))
    [event] = of_file(file)
    _, written, meta, _ = entry_parts(memory_of(event))
    assert (written, meta) == (found.entry.header, found.entry.meta)


def test_what_no_memory_can_hold_is_refused() -> None:
    with pytest.raises(Unreadable, match=r"text contains the character U\+0000 at position 2"):
        of_file(in_place("**[NOTE] Door**", "a \0"))
    [found] = entries(parse(in_place("**[NOTE] Door**")))
    with pytest.raises(Unreadable, match="scope has the empty"):
        event_of(found, world="coast/", at=AT)


@pytest.mark.covers("S0.83", "S3.8")
def test_only_lasting_memories_of_locations_are_written() -> None:
    [event] = of_file(in_place("**[NOTE] Door**"))
    memory = memory_of(event)
    assert written_at_all(memory)
    brief = memory.model_copy(update={"persistence": Persistence.EPHEMERAL})
    assert not written_at_all(brief)
    elsewhere = memory.model_copy(update={"scope": "coast/pier"})
    assert not written_at_all(elsewhere)
    with pytest.raises(ValueError, match="coast/pier is not a location"):
        entry_parts(elsewhere)


@pytest.mark.parametrize(
    ("scope", "world", "number"),
    [
        ("coast/41", "coast", 41),
        ("acme/coast/41", "acme/coast", 41),
        ("acme/coast/41", None, 41),
        ("acme/coast/41", "acme", None),
        ("41", None, None),
        ("coast/041", None, None),
        ("coast/-1", None, None),
        ("coast/٤١", None, None),
        (f"coast/{'9' * 16}", None, None),
    ],
)
def test_a_scope_is_a_location_where_it_ends_with_its_number(
    scope: str, world: str | None, number: int | None
) -> None:
    assert location_id(scope, world) == number


def test_a_retired_memory_has_the_header_of_a_live_one() -> None:
    [event] = of_file(in_place("**[NOTE] Door**"))
    why = Superseded(by=MemoryId("m2"), at=LATER, reason="same-fact")
    _, header, _, _ = entry_parts(survivorship.retired(memory_of(event), why))
    assert header.status is Standing.ACTIVE


_TEXTS = st.text(max_size=40).filter(lambda text: text.strip() and "\0" not in text)
_LABELS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=30).filter(
    str.strip
)
_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    _TEXTS,
    st.just([1]),
)


@given(
    text=_TEXTS,
    labels=st.fixed_dictionaries(
        {},
        optional={
            "title": _LABELS,
            "category": st.one_of(_LABELS, st.sampled_from(["a] b", "X - CORE", "[", "~~"])),
            "session": st.one_of(_LABELS, st.sampled_from([" 1", "1, 2", "1 ", "1, Goal: x"])),
        },
    ),
    metadata=st.dictionaries(
        st.sampled_from(
            ["location_name", "last_turn", "score", "goal", "seen", "entry_notes", "title"]
        ),
        _VALUES,
    ),
    turn=st.one_of(st.none(), st.integers(0, 2**53 - 1)),
)
@pytest.mark.covers("D38")
def test_a_memory_of_any_producer_can_be_written(
    text: str, labels: dict[str, str], metadata: dict[str, Any], turn: int | None
) -> None:
    row = {"event_id": "e", "scope": "coast/41", "text": text, "occurred_at": AT.isoformat()}
    event = Remember.model_validate(
        json.loads(json.dumps({**row, **labels, "metadata": metadata, "turn": turn}))
    )
    location, header, written, meta = _written(memory_of(event))
    [found] = entries(parse(render(add_entry(parse(""), location, header, written, meta))))
    assert (found.location, found.entry.header, found.entry.meta) == (location, header, meta)
    assert found.entry.text == event.text


HEADERS = {
    "newest": " *(Ep10, T3)*",
    "by hand": "",
    "older": " *(Ep9, T50)*",
    "seen again": " *(Ep9, T1→T60)*",
    "no turn": " *(Ep1)*",
    "oldest": " *(Ep2, T70)*",
}


def test_entries_are_put_in_the_order_of_episodes_and_last_turns_of_their_location() -> None:
    """What says no episode and turn stays where a person or an agent has put it."""
    parts = [
        f"**[NOTE] {title}**{when}\nThe {title} bell rings.\n" for title, when in HEADERS.items()
    ]
    other = "## Location 8: Hall\n\n**[NOTE] hall** *(Ep1, T1)*\nThe hall is cold.\n"
    file = parse("\n".join(["## Location 7: Bells\n", *parts, other]))
    found = in_time(list(numbered(entries(file))))
    assert [one.entry.header.title for one, _ in found] == [
        "oldest",
        "by hand",
        "older",
        "seen again",
        "no turn",
        "newest",
        "hall",
    ]
