"""What was found, put together for a reader."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.decisions import Band, Finding, Verdict
from schemas.memories import Memory
from streams.model.embedding import Vector
from streams.model.neighbours import Neighbour
from streams.model.verdict import Judgement
from streams.recall.core.loading import Candidate, EntryText, FactEntry, entries, near, tell
from streams.stage.core.consolidation import RelatedPair
from streams.text.reading import TextAnalyzer
from tests.builders import at_cosine, later, memory, policy, unit
from tests.support.stage.deciding import lexicon

READINGS = TextAnalyzer(lexicon())
MOST = 600


def found(name: str, vector: Vector | None = None, hours: float = 0, **fields: Any) -> Candidate:
    known = memory(name, id=name, last_seen_at=later(hours), **fields)
    return Candidate(known, unit(1) if vector is None else vector)


def related(
    newer: Candidate, older: Candidate, verdict: Verdict, *findings: Finding
) -> RelatedPair:
    neighbour = Neighbour(older.memory, 0.8, Band.REVIEW)
    return RelatedPair(newer.memory, neighbour, Judgement(verdict, "test", findings=findings))


def together(all_of: Sequence[Memory]) -> EntryText:
    return EntryText(" / ".join(one.id for one in all_of), "joined")


def texts(shown: Sequence[FactEntry]) -> list[str]:
    return [entry.told.text for entry in shown]


@pytest.mark.covers("S4.14", "S4.18")
def test_what_is_as_similar_as_the_threshold_is_a_pair_the_nearest_first() -> None:
    far, edge, close = (
        found(name, at_cosine(cosine, axis))
        for axis, (name, cosine) in enumerate(
            {"far": 0.59999, "edge": 0.6, "close": 0.9}.items(), 1
        )
    )
    query = found("query", hours=1)
    pairs = near([far, edge, close, query], similarity_min=0.6)
    assert [(newer.id, older.memory.id) for newer, older in pairs] == [
        ("query", "close"),
        ("query", "edge"),
    ]
    assert pairs[1][1].similarity == 0.6


def test_the_later_of_two_is_compared_with_the_earlier() -> None:
    [(newer, older)] = near([found("b", hours=2), found("a", hours=5)], similarity_min=0.6)
    assert (newer.id, older.memory.id) == ("a", "b")
    assert near([], similarity_min=0.6) == []


def test_what_is_believed_is_no_pair_with_what_is_tentative() -> None:
    assert near([found("a"), found("b", status="tentative")], similarity_min=0.6) == []


def test_what_an_undo_took_apart_is_not_shown_as_one() -> None:
    a, b = (found(name, kept_apart=[{"undo": "undo", "side": name}]) for name in ("a", "b"))
    assert near([a, b], similarity_min=0.6) == []
    relations = [related(b, a, Verdict.SAME)]
    assert texts(entries([a, b], relations, policy(), together)) == ["a", "b"]


@pytest.mark.covers("B33", "S4.29")
def test_a_chain_is_not_one_fact() -> None:
    a, b, c = found("a"), found("b"), found("c")
    same = [related(b, a, Verdict.SAME), related(c, b, Verdict.SAME)]
    apart = related(c, a, Verdict.DISTINCT)
    assert texts(entries([a, b, c], [*same, apart], policy(), together)) == ["a / b", "c"]


def test_what_a_guard_has_found_something_about_stays_apart_whatever_the_verdict() -> None:
    a, b = found("a"), found("b")
    doubt = Finding(guard="numbers", outcome="cannot-tell", what="number")
    for findings, shown in (((), ["a / b"]), ((doubt,), ["a", "b"])):
        relations = [related(b, a, Verdict.REFINES, *findings)]
        assert texts(entries([a, b], relations, policy(), together)) == shown


def test_what_cannot_be_told_as_one_falls_apart_again() -> None:
    a, b, c = found("a"), found("b"), found("c")
    relations = [related(c, a, Verdict.SAME)]

    def refuse(all_of: Sequence[Memory]) -> EntryText | None:
        return None if len(all_of) > 1 else EntryText(all_of[0].text, "alone")

    assert texts(entries([a, b, c], relations, policy(), refuse)) == ["a", "b", "c"]


@pytest.mark.covers("B34", "D17")
@given(
    count=st.integers(0, 7),
    verdicts=st.dictionaries(
        st.tuples(st.integers(0, 6), st.integers(0, 6)), st.sampled_from(list(Verdict))
    ),
)
def test_every_memory_is_in_exactly_one_entry_whatever_judges_say_or_leave_out(
    count: int, verdicts: dict[tuple[int, int], Verdict]
) -> None:
    every = [found(f"memory {number}") for number in range(count)]
    relations = [
        related(every[newer], every[older], verdict)
        for (newer, older), verdict in verdicts.items()
        if older < newer < count
    ]
    shown = entries(every, relations, policy(), together)
    assert sorted(one.memory.id for entry in shown for one in entry.members) == [
        one.memory.id for one in every
    ]
    first = [every.index(entry.members[0]) for entry in shown]
    assert first == sorted(first)


def told(*said: str, most: int = MOST) -> EntryText | None:
    memories = [
        memory(text, id=f"memory {at}", last_seen_at=later(at)) for at, text in enumerate(said)
    ]
    return tell(memories, READINGS, characters_max=most)


@pytest.mark.covers("S4.15")
def test_the_most_complete_member_stands_where_it_says_all() -> None:
    assert told("Ana likes tea.") == EntryText("Ana likes tea.", "alone")
    assert told("Ana likes tea.", "Ana likes hot tea.", "ana likes  tea") == EntryText(
        "Ana likes hot tea.", "says-all"
    )


@pytest.mark.covers("S4.15", "S4.29")
def test_otherwise_all_sentences_are_shown_each_once_and_oldest_first() -> None:
    assert told("Ana likes tea.", "Ana likes tea. She has it at four.") == EntryText(
        "Ana likes tea. She has it at four.", "says-all"
    )
    assert told("Ana likes strong coffee.", "Strong coffee keeps Ana awake.") == EntryText(
        "Ana likes strong coffee. Strong coffee keeps Ana awake.", "joined"
    )


@pytest.mark.covers("B53")
def test_a_text_of_many_is_no_longer_than_a_merge_may_be() -> None:
    said = "Ana likes strong coffee.", "Strong coffee keeps Ana awake."
    assert told(*said, most=40) is None
    assert told(said[0], said[0], most=5) == EntryText(said[0], "says-all")
