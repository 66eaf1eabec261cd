"""Damaged supersession: found with line and reason, mended, and no fact lost on the way."""

import sys
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.memories_md.core.entries import (
    Document,
    Invalidation,
    MemoryEntry,
    SupersededBy,
    entries,
)
from streams.memories_md.core.parsing import parse
from streams.memories_md.core.rendering import render
from streams.memories_md.core.supersession import damages, repaired


def entry(title: str, text: str, by: str | None = None) -> str:
    if by is None:
        return f"**[NOTE] {title}** *(Ep1, T5)*\n{text}\n\n"
    note = f'[Superseded at T9 by "{by}"]\n'
    return f"**[NOTE - SUPERSEDED] {title}** *(Ep1, T5)*\n{note}~~{text}~~\n\n"


def at_the_pier(*written: str) -> Document:
    return parse("## Location 7: Pier\n\n" + "".join(written))


def told(document: Document) -> list[tuple[int, str]]:
    return [(one.found.line, one.kind) for one in damages(document)]


def mended(document: Document) -> Document:
    made, refused = repaired(document, damages(document))
    assert refused == ()
    assert damages(made) == ()
    return made


def live_texts(document: Document) -> list[str]:
    return [found.entry.text for found in entries(document) if found.entry.live]


@pytest.mark.covers("D12")
def test_what_supersedes_itself_is_active_again() -> None:
    document = at_the_pier(entry("Ferry", "The ferry leaves at 9.", by="Ferry"))
    [damage] = damages(document)
    assert (damage.found.line, damage.kind) == (3, "itself")
    assert damage.why == 'it is superseded by "Ferry", which is its own title, and no other\'s'
    assert damage.repair == "it is active again"
    made = mended(document)
    assert render(made) == render(at_the_pier(entry("Ferry", "The ferry leaves at 9.")))


@pytest.mark.covers("D12")
def test_a_title_that_nobody_has_brings_the_memory_back() -> None:
    document = at_the_pier(
        entry("Ferry", "It leaves at 9.", by="Ferry times"), entry("Boat", "It leaks.")
    )
    [damage] = damages(document)
    assert (damage.found.line, damage.kind) == (3, "nobody")
    assert "in its location nothing has that title" in damage.why
    assert live_texts(mended(document)) == ["It leaves at 9.", "It leaks."]


@pytest.mark.covers("D12")
def test_of_a_circle_the_newest_is_active_again() -> None:
    document = at_the_pier(
        entry("A", "One.", by="B"), entry("B", "Two.", by="C"), entry("C", "Three.", by="A")
    )
    assert told(document) == [(3, "follows"), (7, "follows"), (11, "circle")]
    assert damages(document)[2].why.startswith("the entries at the lines 3, 7, 11 are superseded")
    assert live_texts(mended(document)) == ["Three."]


@pytest.mark.covers("D12")
def test_what_leads_to_damage_needs_no_repair_of_its_own() -> None:
    document = at_the_pier(entry("A", "One.", by="B"), entry("B", "Two.", by="B"))
    assert told(document) == [(3, "follows"), (7, "itself")]
    assert "line 7" in damages(document)[0].why
    assert live_texts(mended(document)) == ["Two."]


def test_a_memory_may_be_superseded_by_another_one_of_its_title() -> None:
    assert damages(at_the_pier(entry("A", "One.", by="A"), entry("A", "One, two."))) == ()
    twice = at_the_pier(entry("A", "One.", by="A"), entry("A", "Two.", by="A"))
    assert told(twice) == [(3, "follows"), (7, "circle")]
    assert live_texts(mended(twice)) == ["Two."]


@pytest.mark.covers("D13")
def test_a_title_is_the_whole_title_in_any_case() -> None:
    assert told(at_the_pier(entry("A", "One.", by="Ferry"), entry("Ferry times", "Two."))) == [
        (3, "nobody")
    ]
    spelt = at_the_pier(entry("A", "One.", by="ferry  TIMES"), entry("Ferry times", "Two."))
    assert damages(spelt) == ()


def test_a_successor_is_looked_for_in_the_location_alone() -> None:
    inn = "## Location 8: Inn\n\n" + entry("Ferry", "It leaves at 10.")
    here = "## Location 7: Pier again\n\n" + entry("Ferry", "It leaves at 10.")
    start = render(at_the_pier(entry("A", "It leaves at 9.", by="Ferry")))
    assert told(parse(start + inn)) == [(3, "nobody")]
    assert told(parse(start + here)) == []


def test_what_was_found_wrong_ends_a_chain() -> None:
    wrong = '**[NOTE - SUPERSEDED] B** *(Ep1, T5)*\n[Invalidated at T8: "no"]\n~~Two.~~\n\n'
    assert damages(at_the_pier(entry("A", "One.", by="B"), wrong)) == ()
    struck = "**[NOTE] B** *(Ep1, T5)*\n~~Two.~~\n\n"
    assert damages(at_the_pier(entry("A", "One.", by="B"), struck)) == ()


def test_what_nobody_explains_stays_and_says_so() -> None:
    document = at_the_pier("**[NOTE - SUPERSEDED] Ferry** *(Ep1, T5)*\n~~It leaves at 9.~~\n\n")
    assert told(document) == [(3, "unexplained")]
    [found] = entries(mended(document))
    assert found.entry.retired == Invalidation("superseded, and by what is not known")
    assert (found.entry.text, found.entry.live) == ("It leaves at 9.", False)


def test_an_entry_struck_through_by_hand_is_freed_of_both_marks() -> None:
    document = at_the_pier('**[NOTE] Ferry** *(Ep1, T5)*\n[Superseded by "Ferry"]\n~~At 9.~~\n')
    assert told(document) == [(3, "itself")]
    [found] = entries(mended(document))
    assert (found.entry.text, found.entry.live, found.entry.retired) == ("At 9.", True, None)


def test_what_cannot_be_written_stays_and_is_told() -> None:
    header = "**[NOTE - SUPERSEDED - SUPERSEDED] Ferry** *(Ep1, T5)*\n"
    document = at_the_pier(f'{header}[Superseded by "Ferry"]\n~~At 9.~~\n')
    made, [problem] = repaired(document, damages(document))
    assert render(made) == render(document)
    assert problem.line == 3
    assert "not repaired" in problem.message


TITLES = st.sampled_from("ABCDE")


@pytest.mark.covers("D12")
@given(st.lists(st.tuples(TITLES, st.none() | TITLES | st.just("F")), max_size=12))
def test_any_damage_is_mended_at_once_and_nothing_is_lost(
    chains: list[tuple[str, str | None]],
) -> None:
    document = at_the_pier(
        *(entry(title, f"Fact {n}.", by) for n, (title, by) in enumerate(chains))
    )
    found = damages(document)
    made = mended(document)
    before, after = ([one.entry for one in entries(each)] for each in (document, made))
    assert [one.text for one in before] == [one.text for one in after]
    assert {one.found.entry.text for one in found} == {
        one.text for one in before if not _reaches_a_live_one(one, before)
    }
    assert all(_reaches_a_live_one(one, after) for one in after)
    assert all(was == now for was, now in zip(before, after, strict=True) if was.live)


def test_many_of_one_title_take_no_more_steps_than_many_of_different_ones() -> None:
    """Each compared with each other one would be ten times as many."""
    many = 300
    alike = at_the_pier(*(entry("A", f"Fact {n}.", by="A") for n in range(many)))
    unlike = at_the_pier(
        *(entry(f"A{n}", f"Fact {n}.", by=f"A{(n + 1) % many}") for n in range(many))
    )
    for document in (alike, unlike):
        kinds = [kind for _, kind in told(document)]
        assert sorted(kinds) == ["circle", *["follows"] * (many - 1)]
    assert steps(alike) < 2 * steps(unlike)


def steps(document: Document) -> int:
    """Count the instructions of Python that it takes to find the damages: no clock, no luck."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        damages(document)
    finally:
        sys.settrace(before)
    return count


def _reaches_a_live_one(start: MemoryEntry, all_: list[MemoryEntry]) -> bool:
    """Tell whether some way of successors, each another entry, leads to a live one."""
    seen: list[MemoryEntry] = []
    open_ = [start]
    while open_:
        one = open_.pop()
        if one.live:
            return True
        if any(one is other for other in seen) or not isinstance(one.retired, SupersededBy):
            continue
        seen.append(one)
        title = one.retired.title
        open_ += [other for other in all_ if other is not one and other.header.title == title]
    return False


def test_a_repair_leaves_the_rest_of_the_file_alone() -> None:
    text = "\ufeff## Location 7: Pier\r\n\r\nAna: really?\r\n\r\n"
    text += entry("Ferry", "At 9.", by="Ferry").replace("\n", "\r\n") + "---\r\nEnd"
    made = render(mended(parse(text)))
    assert made == text.replace(" - SUPERSEDED", "").replace("~~", "").replace(
        '[Superseded at T9 by "Ferry"]\r\n', ""
    )


def test_nothing_is_wrong_with_an_empty_file() -> None:
    assert damages(parse("")) == ()
    assert repaired(parse(""), ()) == (parse(""), ())
