"""What of a scope goes into a prompt: which memories, in which order, and never over the budget."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.base import MemoryId, ScopeName
from schemas.memories import LIVE, Memory, Persistence, Standing, Superseded
from streams.model.identity import normalised
from streams.recall.core.recall import (
    BUDGET,
    PromptBlock,
    RecalledMemory,
    RecallReason,
    block_of_scope,
    block_of_several,
    choose,
    nearest,
    shared,
)
from tests.builders import START, identity, later, memory

SCOPE = ScopeName("acme/ana")
WARNING = "Uncertain - check before you rely on it:"
CATEGORIES = ("danger", "DANGER", "failure", "success", "discovery", "note", "oddity")
WORDS = ("Stone", "bridge", "\n", "- [DANGER]", "falls.", "(9 more not shown)", "\u2028", "é")


def count_words(text: str) -> int:
    return len(text.split())


def count_badly(text: str) -> int:
    """Count more tokens in a whole than in its lines."""
    return len(text) // 3 + 2 * text.count("\n") ** 2


def of(number: int, text: str = "", **fields: Any) -> Memory:
    """Build a memory that was seen `number` hours after the start."""
    values = {"id": identity(number), "last_seen_at": later(number), **fields}
    return memory(text or f"Fact {number}.", **values)


def retired(number: int, status: Standing = Standing.SUPERSEDED, **fields: Any) -> Memory:
    by = MemoryId(identity(999)) if status is Standing.SUPERSEDED else None
    gone = Superseded(by=by, at=START, reason="said better")
    return of(number, status=status, superseded=gone, **fields)


def lines(block: PromptBlock) -> list[str]:
    return block.text.split("\n")


def block_of(memories: Sequence[Memory], budget: int = 10_000, **limits: Any) -> PromptBlock:
    chosen = choose(memories, **limits)
    return block_of_scope(SCOPE, memories, chosen, count=count_words, budget=budget)


def shown(recalled: Sequence[RecalledMemory]) -> list[str]:
    return [one.memory.text for one in recalled if one.shown]


@st.composite
def scopes_of_memories(draw: st.DrawFn) -> list[Memory]:
    number = draw(st.integers(0, 14))
    return [draw(memories(n)) for n in range(number)]


@st.composite
def memories(draw: st.DrawFn, number: int) -> Memory:
    fields: dict[str, Any] = {
        "category": draw(st.sampled_from([None, *CATEGORIES])),
        "persistence": draw(st.sampled_from([None, *Persistence])),
        "observation_count": draw(st.integers(1, 3)),
        "last_seen_at": later(draw(st.integers(0, 3))),
        "sessions": draw(st.lists(st.sampled_from(["one", "two"]), max_size=1)),
        "title": draw(st.sampled_from([None, "Old bridge"])),
    }
    text = " ".join([*draw(st.lists(st.sampled_from(WORDS), max_size=12)), f"Fact {number}."])
    status = draw(st.sampled_from(Standing))
    if status not in LIVE:
        return retired(number, status, text=text, **fields)
    return of(number, text, status=status, **fields)


@pytest.mark.covers("S3.37")
@given(scopes_of_memories(), st.integers(1, 120), st.sampled_from([count_words, count_badly]))
def test_a_block_is_never_over_the_budget_and_shows_memories_whole(
    known: list[Memory], budget: int, count: Any
) -> None:
    block = block_of_scope(SCOPE, known, choose(known), count=count, budget=budget)
    assert block.tokens == (count(block.text) if block.text else 0) <= budget
    assert bool(block.text) == (block.tokens_min <= budget)
    assert sorted(one.memory.id for one in block.recalled) == sorted(one.id for one in known)
    said = [line for line in lines(block) if line.startswith("- ")]
    texts = shown(block.recalled)
    assert len(said) == len(texts)
    for line, text in zip(said, texts, strict=True):
        assert normalised(text) in normalised(line)
    hidden = sum(not one.shown and one.memory.live for one in block.recalled)
    assert block.text.endswith(f"({hidden:,} more not shown)") == bool(hidden and block.text)


@given(scopes_of_memories(), st.integers(0, 6), st.integers(0, 6))
def test_the_order_of_a_block(known: list[Memory], lasting: int, recent: int) -> None:
    chosen = choose(known, lasting_max=lasting, recent_max=recent)
    block = block_of_scope(SCOPE, known, chosen, count=count_words, budget=10_000)
    seen = [one.memory for one in block.recalled if one.shown]
    live = [one for one in known if one.live]
    assert all(one.live for one in seen)
    assert len(seen) <= lasting + recent
    assert sum(one.why is RecallReason.LASTING for one in block.recalled) <= lasting
    assert len(seen) == len(live) or sum(one.why is RecallReason.RECENT for one in chosen) == recent
    tentative = [one.status is Standing.TENTATIVE for one in seen]
    assert tentative == sorted(tentative)
    for first, second in pairwise(seen):
        if first.status is second.status and (second.category or "").casefold() == "danger":
            assert (first.category or "").casefold() == "danger"


def test_a_pinned_memory_is_lasting() -> None:
    known = [of(n, f"Fact {n}.", last_seen_at=later(n), pinned=n == 0) for n in range(8)]
    assert set(shown(choose(known, recent_max=2))) == {"Fact 0.", "Fact 6.", "Fact 7."}


@given(scopes_of_memories(), st.randoms(use_true_random=False))
def test_the_order_of_the_memories_given_does_not_matter(known: list[Memory], chance: Any) -> None:
    shuffled = list(known)
    chance.shuffle(shuffled)
    assert block_of(shuffled).text == block_of(known).text


@pytest.mark.covers("S0.48")
def test_what_was_seen_before_it_was_imported_counts() -> None:
    """A file that said `seen 3x`, and two observations since."""
    known = of(1, "The ferry leaves at noon.", observation_count=2, metadata={"seen": 3})
    often = of(2, "The quay is wet.", observation_count=3, metadata={"seen": "many"})
    block = block_of([often, known])
    assert lines(block)[1:] == [
        "- The ferry leaves at noon. (seen 4x)",
        "- The quay is wet. (seen 3x)",
    ]
    assert [one["seen"] for one in block.as_json()["memories"]] == [4, 3]


@pytest.mark.covers("S3.35")
def test_a_location_is_headed_as_in_the_document() -> None:
    """Living Room, location 23: five visits, four episodes, and what was found out there."""
    place = {"location_name": "Living Room", "visits": 5}
    entries = {
        "Acquire brass lantern": (
            "SUCCESS",
            (
                "Brass lantern is takeable and provides light source. CRITICAL item for dark areas - "
                "always take before exploring."
            ),
        ),
        "Light lantern": (
            "SUCCESS",
            "Lantern can be lit with simple command. Enables safe navigation of dark rooms.",
        ),
        "Take sword": (
            "FAILURE",
            (
                "Ornamental sword is securely mounted and cannot be taken directly. Likely requires "
                "puzzle solution."
            ),
        ),
        "Navigation options": (
            "NOTE",
            "West exit leads to Kitchen. Room serves as central hub with multiple exits.",
        ),
    }
    known = [
        of(
            -at,
            text,
            title=title,
            category=category,
            scope="zork/23",
            sessions=("1", str(at + 1)),
            metadata=place,
        )
        for at, (title, (category, text)) in enumerate(entries.items())
    ]
    block = block_of_scope(ScopeName("zork/23"), known, choose(known), count=count_words)
    heading, *shown = lines(block)
    assert heading == "Location Memory for Living Room (Location 23): 5 visits, 4 episodes"
    said = [f"- [{category}] {title}: {text}" for title, (category, text) in entries.items()]
    assert shown == [said[2], said[0], said[1], said[3]], "failures come first"
    nameless = [one.model_copy(update={"metadata": {}}) for one in known]
    block = block_of_scope(ScopeName("zork/23"), nameless, choose(nameless), count=count_words)
    assert lines(block)[0] == "Memory of zork/23: 4 sessions"


@pytest.mark.covers("S0.84")
def test_a_block_reads_plainly() -> None:
    known = [
        of(1, "The keeper sleeps upstairs.", sessions=("a",), metadata={"visits": 2}),
        of(2, "Oil burns until dawn.", title="Lamp oil", category="success", sessions=("a", "b")),
        of(3, "The ninth stair\nbreaks.", category="Danger", observation_count=3),
        of(4, "The ferry may come at noon.", status="tentative", category="note"),
        of(
            5,
            "The gate is shut.",
            valid_until=later(48),
            metadata={"location_name": "Lighthouse", "visits": 3},
        ),
        of(6, "The lamp was lit.", observation_count=2),
        retired(7),
    ]
    assert lines(block_of(known)) == [
        "Memory of Lighthouse (acme/ana): 3 visits, 2 sessions",
        "- [DANGER] The ninth stair breaks. (seen 3x)",
        "- [SUCCESS] Lamp oil: Oil burns until dawn.",
        "- The lamp was lit. (seen 2x)",
        "- The gate is shut. (until 2026-03-03)",
        "- The keeper sleeps upstairs.",
        WARNING,
        "- [NOTE] The ferry may come at noon.",
    ]


@pytest.mark.parametrize(
    ("place", "visits"),
    [(None, None), (41, "3"), ("x" * 201, True), ("  ", -1), (["a"], 2.5)],
)
def test_metadata_that_names_no_place_is_passed_over(place: object, visits: object) -> None:
    [heading, _] = lines(block_of([of(1, metadata={"location_name": place, "visits": visits})]))
    assert heading == "Memory of acme/ana"


def test_the_newest_name_of_a_place_counts_and_stays_on_its_line() -> None:
    names = ["Cellar", "Dark\n- [NOTE] cellar"]
    known = [of(n, metadata={"location_name": name}) for n, name in enumerate(names)]
    assert lines(block_of(known))[0] == "Memory of Dark - [NOTE] cellar (acme/ana)"


@pytest.mark.covers("S3.36")
def test_where_nothing_is_known_the_block_says_so() -> None:
    place = block_of_scope(ScopeName("zork/7"), [], [], count=count_words)
    assert place.text == "First visit - no prior experiences"
    assert block_of([]).text == "No memories yet."
    assert block_of([], budget=2).text == ""
    assert lines(block_of([retired(1)])) == ["Memory of acme/ana", "Nothing found."]


@pytest.mark.covers("S3.40")
def test_five_that_last_and_the_five_newest_of_the_others_are_shown() -> None:
    kinds = ("core", "permanent", None, "ephemeral")
    known = [of(n, persistence=kinds[n % 4]) for n in range(24)]
    chosen = choose(known)
    by_why = {why: {one.memory.text for one in chosen if one.why is why} for why in RecallReason}
    assert by_why[RecallReason.LASTING] == {f"Fact {n}." for n in (0, 4, 8, 12, 16, 20)} - {
        "Fact 0."
    }
    assert by_why[RecallReason.RECENT] == {f"Fact {n}." for n in (23, 22, 21, 19, 18)}
    assert len(by_why[RecallReason.BEYOND_NUMBER]) == 14
    assert block_of(known).text.endswith("(14 more not shown)")
    assert len(shown(block_of(known, lasting_max=1, recent_max=0).recalled)) == 1


def test_what_is_dated_in_the_future_is_never_the_newest() -> None:
    known = [of(1), of(2), of(3), of(9_000), of(9_001)]
    assert shown(choose(known, recent_max=3, now=later(4))) == ["Fact 3.", "Fact 2.", "Fact 1."]


def test_a_danger_lasts_unless_it_is_said_to_pass() -> None:
    old = of(0, category="danger")
    passing = of(1, category="danger", persistence="ephemeral")
    chosen = choose([old, passing, *(of(n) for n in range(2, 9))])
    assert {one.memory.id: one.why for one in chosen}[old.id] is RecallReason.LASTING
    assert {one.memory.id: one.why for one in chosen}[passing.id] is RecallReason.BEYOND_NUMBER


def test_what_is_too_long_keeps_nothing_shorter_out() -> None:
    known = [of(1, "word " * 400, category="danger"), of(2, "Short."), of(3, "Brief.")]
    block = block_of(known, budget=BUDGET)
    assert shown(block.recalled) == ["Brief.", "Short."]
    assert [one.why for one in block.recalled if not one.shown] == [RecallReason.OVER_BUDGET]
    assert lines(block)[-1] == "(1 more not shown)"


def test_each_candidate_is_counted_once() -> None:
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return count_words(text)

    known = [of(n) for n in range(1_000)]
    block_of_scope(SCOPE, known, choose(known), count=count)
    single = [text for text in counted if text.startswith("- ")]
    assert len(single) == len(set(single)) == 5  # nothing of these lasts
    assert len(counted) <= len(single) + 3


def test_with_a_query_the_nearest_come_first_and_the_uncertain_last() -> None:
    known = [of(1), of(2), of(3, status="tentative"), of(4), of(5), retired(6)]
    cosines = (0.2, 0.4, 0.9, 0.3, 0.1)
    scores = {one.id: (cosine, None) for one, cosine in zip(known, cosines, strict=False)}
    chosen = nearest(known, scores, number=4)
    assert shown(chosen) == ["Fact 2.", "Fact 4.", "Fact 1.", "Fact 3."]
    assert [(one.why, one.similarity) for one in chosen[4:]] == [
        (RecallReason.BEYOND_NUMBER, 0.1),
        (RecallReason.SUPERSEDED, None),
    ]


def test_across_scopes_each_memory_names_its_own() -> None:
    known = [of(1, scope="acme/ana"), of(2, scope="acme/bo", observation_count=2)]
    chosen = nearest(known, {one.id: (0.5, None) for one in known}, number=9, several=True)
    block = block_of_several("acme", chosen, count=count_words)
    assert lines(block) == [
        "Memory of acme and below",
        "- Fact 1. (acme/ana)",
        "- Fact 2. (acme/bo, seen 2x)",
    ]


def test_what_several_scopes_say_in_the_same_words_is_shared() -> None:
    door = "Doors open inwards."
    known = [
        *(of(n, door, scope=f"acme/{n}") for n in range(1, 6)),
        of(6, f"{door.upper()} ", scope="acme/6", observation_count=4),
        of(7, "Lamps need oil.", scope="acme/1"),
        of(8, "Lamps need oil.", scope="acme/2", status="tentative"),
        of(9, "Twice in one scope.", scope="acme/1"),
        of(10, "Twice in one scope.", scope="acme/1"),
        retired(11, text="Lamps need oil.", scope="acme/3"),
    ]
    block = block_of_several("acme", shared(known, number=10), count=count_words)
    assert lines(block) == [
        "Memory of acme and below",
        "- DOORS OPEN INWARDS. (in 6 scopes: acme/1, acme/2, acme/3, …, seen 4x)",
        "- Lamps need oil. (in 2 scopes: acme/1, acme/2)",
    ]
    assert shown(shared(known, number=1)) == ["DOORS OPEN INWARDS. "]
    nothing = block_of_several("acme", shared(known[6:7], number=10), count=count_words)
    assert lines(nothing) == ["Memory of acme and below", "Nothing found."]


def test_a_block_tells_programs_what_became_of_each_memory() -> None:
    told = block_of([of(1), of(2, category="danger"), retired(3)]).as_json()
    assert told["block"].startswith("Memory of acme/ana")
    assert told["tokens"] == count_words(told["block"])
    assert [(one["id"], one["shown"], one["reason"]) for one in told["memories"]] == [
        (identity(2), True, "lasting"),
        (identity(1), True, "recent"),
        (identity(3), False, "superseded"),
    ]


NEWER = "The office opens at 8 am on all days of the week."
OLDER = "The office opens at 9 am."


def in_conflict(*memories: Memory) -> list[RecalledMemory]:
    """Return memories as recalled in this order, the first in conflict with all others."""
    first, *others = memories
    return [
        RecalledMemory(first, RecallReason.RECENT, conflicts=tuple(others)),
        *(RecalledMemory(one, RecallReason.RECENT, conflicts=(first,)) for one in others),
    ]


def block_with(recalled: Sequence[RecalledMemory], budget: int = 10_000) -> PromptBlock:
    known = [one.memory for one in recalled]
    return block_of_scope(SCOPE, known, recalled, count=count_words, budget=budget)


def test_of_two_shown_memories_in_conflict_the_lower_one_refers_to_the_other() -> None:
    both = in_conflict(of(30, NEWER), of(1, OLDER))
    assert lines(block_with(both))[1:] == [
        f"- {NEWER} (2026-03-02)",
        f"- {OLDER} (2026-03-01; in conflict with the newer memory above)",
    ]
    pinned_first = in_conflict(of(1, OLDER, pinned=True), of(30, NEWER))
    assert lines(block_with(pinned_first))[2] == (
        f"- {NEWER} (2026-03-02; in conflict with the older memory above)"
    )
    at_once = in_conflict(of(1, NEWER), of(1, OLDER, id=identity(2)))
    assert "in conflict with the memory above" in lines(block_with(at_once))[2]


def test_a_memory_in_conflict_with_one_further_above_tells_which() -> None:
    third = "The office opens at 10 am."
    shown_ = lines(block_with(in_conflict(of(30, NEWER), of(2, OLDER), of(1, third))))
    assert (
        shown_[3]
        == f'- {third} (2026-03-01; in conflict with "The office opens at 8 a…" of 2026-03-02)'
    )
    uncertain = in_conflict(of(30, NEWER, status="tentative"), of(1, OLDER))
    assert lines(block_with(uncertain))[1:] == [
        f"- {OLDER} (2026-03-01)",
        WARNING,
        f"- {NEWER} (2026-03-02; in conflict with the older memory above)",
    ]


@pytest.mark.parametrize("budget", range(10, 60))
def test_a_block_with_a_conflict_keeps_the_budget_and_tells_of_what_it_leaves_out(
    budget: int,
) -> None:
    block = block_with(in_conflict(of(30, NEWER), of(1, OLDER)), budget)
    assert block.tokens == count_words(block.text) <= budget
    counted = [one.tokens for one in block.recalled if one.shown]
    assert counted == [count_words(line) for line in lines(block) if line.startswith("- ")]
    if len(shown(block.recalled)) == 1:
        assert f'in conflict with "{OLDER}" of 2026-03-01' in block.text


def test_a_line_says_what_contradicts_it_and_since_when() -> None:
    """What says otherwise is cut, for it is no memory of the block; how many more is counted."""
    other = of(30, "The office opens at 8 am, " + "and that is known to all, " * 5)
    told = RecalledMemory(
        of(1, "The office opens at 9 am."), RecallReason.RECENT, conflicts=(other, of(3))
    )
    block = block_of_scope(SCOPE, [told.memory], [told], count=count_words, budget=100)
    assert lines(block)[1] == (
        '- The office opens at 9 am. (2026-03-01; in conflict with "The office opens at 8 am, and '
        'that is known to all, and that is known to all, a…" of 2026-03-02 and 1 more)'
    )
    [shown_] = block.as_json()["memories"]
    assert [one["memory_id"] for one in shown_["conflicts"]] == [other.id, identity(3)]
