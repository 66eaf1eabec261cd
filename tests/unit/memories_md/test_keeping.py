"""Memories.md: what memories change in it, and what stays a person's."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.base import DecisionId, MemoryId
from schemas.memories import Memory, Turns
from streams.memories_md.core.entries import Document, entries
from streams.memories_md.core.keeping import PlacedEntry, UpdatedFile, in_step, standing
from streams.memories_md.core.mapping import entry_parts
from streams.memories_md.core.parsing import parse
from streams.memories_md.core.rendering import render
from tests.builders import identity, memory

HAND = "Bo's own words.\n\n## Location 1: Pier\n\n**[NOTE] Tide**\nHigh at six.\n\nAsk Ana.\n"


def kept(number: int, version: int, text: str, **fields: Any) -> Memory:
    """Build a version of a memory; those of even numbers are of location 2, the others of 1."""
    scope = f"coast/{2 - number % 2}"
    return memory(text, id=identity(number), version=version, scope=scope, **fields)


def follow(
    document: Document,
    memories: Sequence[Memory],
    placed: Mapping[MemoryId, PlacedEntry] | None = None,
) -> UpdatedFile:
    decided = frozenset[DecisionId]()
    return in_step(document, memories, placed or {}, world="coast", decided=decided, history=True)


_TEXTS = st.text(max_size=30).filter(lambda text: text.strip() and "\0" not in text)
_CHANGES = st.lists(
    st.tuples(st.integers(1, 4), _TEXTS, st.sampled_from(["Door", "Gate", None]), st.integers(0, 9))
)


def versions(changes: Sequence[tuple[int, str, str | None, int]]) -> list[Memory]:
    """Return the versions of memories that are told of one after the other."""
    latest: dict[int, int] = {}
    told: list[Memory] = []
    for number, text, title, turn in changes:
        latest[number] = latest.get(number, 0) + 1
        turns = Turns(first=turn, last=turn + latest[number])
        told.append(kept(number, latest[number], text=text, title=title, turns=turns))
    return told


@given(changes=_CHANGES, cut=st.integers(0, 9), location=st.integers(1, 2))
@pytest.mark.covers("S3.29", "S3.30", "S3.47", "D38")
def test_the_file_says_what_the_memories_say_however_they_come(
    changes: list[tuple[int, str, str | None, int]], cut: int, location: int
) -> None:
    """The section that is there is in front of the one that comes, or behind it."""
    by_hand = HAND.replace("Location 1", f"Location {location}")
    told = versions(changes)
    whole = follow(parse(by_hand), told)
    first = follow(parse(by_hand), told[:cut])
    second = follow(parse(render(first.document)), told[cut:], first.placed)
    assert render(second.document) == render(whole.document)
    assert second.placed == whole.placed
    assert render(follow(parse(render(whole.document)), told, whole.placed).document) == render(
        whole.document
    )
    newest = {one.id: one for one in told}
    document = parse(render(whole.document))
    found = {one.at: one.entry for one in entries(document)}
    places = {identity: at for at, (identity, _) in standing(document, whole.placed).items()}
    assert {
        identity: (found[at].text, found[at].header.title) for identity, at in places.items()
    } == {one.id: (one.text, entry_parts(one)[1].title) for one in newest.values()}
    assert len(found) == len(newest) + 1
    assert whole.notes == ()
    for line in by_hand.splitlines():
        assert line in render(whole.document)


@pytest.mark.covers("S3.15")
def test_a_place_found_later_goes_in_front_of_larger_numbers_and_the_rest_goes_on() -> None:
    """All in one go: what is at the pier is known to have moved when it changes again."""
    pier = kept(2, 1, title="Rope", text="The rope is wet."), kept(4, 1, title="Post", text="Oak.")
    quay = kept(1, 1, title="Tide", text="High at six.")
    dry = kept(2, 2, title="Rope", text="The rope is dry.")
    whole = follow(parse(""), [*pier, quay, dry])
    found = [(one.location and one.location.id, one.entry.text) for one in entries(whole.document)]
    assert found == [(1, "High at six."), (2, "The rope is dry."), (2, "Oak.")]
    again = follow(
        parse(render(whole.document)), [kept(4, 2, title="Post", text="Elm.")], whole.placed
    )
    assert [one.entry.text for one in entries(again.document)][2] == "Elm."
    assert (whole.notes, again.notes) == ((), ())


def visited(number: int, version: int, **entered: int) -> Memory:
    """Return a memory of location 1 with the visits that its sessions had made by then."""
    sessions = tuple(one.removeprefix("ep") for one in entered)
    told = {"entered": dict(zip(sessions, entered.values(), strict=True))}
    return kept(number, version, f"Fact {number}.", sessions=sessions, metadata=told)


@pytest.mark.covers("S3.11")
def test_each_visit_of_a_session_is_counted_once_whichever_memory_tells_of_it() -> None:
    """A person's number stands, and what the sessions in the list did before is in it."""
    first = follow(parse(""), [visited(1, 1, ep1=2)])
    assert "**Visits:** 2 | **Episodes:** 1\n" in render(first.document)
    both = follow(first.document, [visited(3, 1, ep1=3), visited(1, 2, ep1=3)], first.placed)
    assert "**Visits:** 3 | **Episodes:** 1\n" in render(both.document)
    new = follow(both.document, [visited(5, 1, ep2=1), visited(3, 2, ep1=3, ep2=4)], both.placed)
    assert "**Visits:** 7 | **Episodes:** 1, 2\n" in render(new.document)
    by_hand = parse(render(new.document).replace("**Visits:** 7", "**Visits:** 9"))
    later = follow(by_hand, [visited(5, 2, ep2=5)], new.placed)
    assert "**Visits:** 10 | **Episodes:** 1, 2\n" in render(later.document)
    told = "## Location 1: Pier\n**Visits:** 3 | **Episodes:** 1, 2\n"
    read = follow(parse(told), [visited(1, 1, ep2=2), visited(3, 1, ep3=2)])
    assert "**Visits:** 5 | **Episodes:** 1, 2, 3\n" in render(read.document)


@pytest.mark.parametrize(("session", "episode"), [("Ep01", "01"), ("ep_02", "ep_02"), ("Ep", "Ep")])
def test_a_session_that_is_called_as_an_episode_is_written_gets_no_second_prefix(
    session: str, episode: str
) -> None:
    written = follow(parse(""), [kept(1, 1, "It creaks.", title="Door", sessions=(session,))])
    text = render(written.document)
    assert f"**[NOTE] Door** *(Ep{episode})*\n" in text
    assert f"**Visits:** 1 | **Episodes:** {episode}\n" in text
    read = [one.entry.meta.episode for one in entries(parse(text))]
    assert read == [episode]
    again = follow(parse(""), [kept(1, 1, "It creaks.", title="Door", sessions=(episode,))])
    assert render(again.document) == text


def test_two_memories_of_one_title_are_two_entries() -> None:
    told = [
        kept(1, 1, title="Door", text="It creaks."),
        kept(3, 1, title="Door", text="It sticks."),
    ]
    step = follow(parse(""), told)
    again = follow(step.document, [kept(3, 2, title="Door", text="It is mended.")], step.placed)
    assert [one.entry.text for one in entries(again.document)] == ["It creaks.", "It is mended."]


@pytest.mark.covers("S3.42")
def test_a_world_as_large_as_the_document_foresees_is_kept() -> None:
    """110 locations, 5 to 10 memories each, 500 to 800 bytes of text and header for each."""
    numbers = [(place, nth) for place in range(110) for nth in range(5 + place % 6)]
    memories = [
        memory(
            f"Note {nth} of {place}: " + f"the stair breaks under {place * nth} stones. " * 15,
            id=identity(place * 100 + nth),
            scope=f"acme/{place}",
            title=f"Stair {nth}",
            turns=Turns(first=nth, last=nth + 3),
            metadata={"location_name": f"Tower {place}"},
        )
        for place, nth in numbers
    ]
    step = in_step(parse(""), memories, {}, world="acme", decided=(), history=False)
    text = render(step.document)
    sizes = [len(found.entry.written.encode()) for found in entries(step.document)]
    assert (len(sizes), min(sizes) > 500, max(sizes) < 800) == (len(memories), True, True)
    assert render(parse(text)) == text
    again = in_step(parse(text), memories, step.placed, world="acme", decided=(), history=False)
    assert render(again.document) == text
    assert step.notes == again.notes == ()


@pytest.mark.covers("S3.25")
def test_what_a_person_wrote_already_is_not_written_again() -> None:
    step = follow(parse(HAND), [kept(1, 1, title="High tide", text="High at six.")])
    assert render(step.document) == HAND
    assert step.notes == ()
    later = follow(step.document, [kept(1, 2, title="High tide", text="At seven.")], step.placed)
    assert render(later.document) == HAND.replace("High at six.", "At seven.")


def test_a_title_follows_where_the_memory_gets_another_one() -> None:
    step = follow(parse(""), [kept(1, 1, title="Door", text="It creaks.")])
    later = follow(step.document, [kept(1, 2, title="Gate", text="It creaks.")], step.placed)
    assert "**[NOTE] Gate**\nIt creaks.\n" in render(later.document)


@pytest.mark.covers("S3.11")
def test_each_session_that_the_file_does_not_tell_of_is_counted_as_a_visit() -> None:
    told = "## Location 1: Pier\n**Visits:** 7 | **Episodes:** 1, 2\n"
    there = follow(parse(told), [kept(1, 1, "High at six.", sessions=("2", "3"))])
    assert "**Visits:** 8 | **Episodes:** 1, 2, 3\n" in render(there.document)
    again = kept(1, 2, "High at six.", sessions=("2", "3", "4"))
    later = follow(there.document, [again], there.placed)
    assert "**Visits:** 9 | **Episodes:** 1, 2, 3, 4\n" in render(later.document)
    new = follow(parse(""), [kept(2, 1, "It leaks.", sessions=("1", "a, b"))])
    assert "**Visits:** 1 | **Episodes:** 1\n" in render(new.document)
