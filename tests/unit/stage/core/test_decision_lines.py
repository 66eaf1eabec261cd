"""What a log line tells of a decision."""

from typing import Any

import pytest

from schemas.decisions import Change
from streams.model.ports.models import NoAnswer
from streams.stage.core.decision_lines import Titles, checked, compared, loose, notice, unworded
from tests.builders import at_cosine, event, later, unit
from tests.support.stage.deciding import World

DOOR, AGAIN, FULLER = (
    "The trap door bars after the descent.",
    "Trap door bars after descent.",
    "The heavy old wooden trap door bars quickly after the steep descent.",
)


async def decided(*said: tuple[str, dict[str, Any]], similarity: float = 0.8999) -> list[Change]:
    """Decide on texts that are so similar to DOOR, each in a title of its own."""
    return [decision for decision, _ in await told(*said, similarity=similarity)]


async def told(
    *said: tuple[str, dict[str, Any]], similarity: float = 0.8999
) -> list[tuple[Change, Titles]]:
    """Decide on them, and tell with each decision what the memories beside it are called."""
    near = {text: at_cosine(similarity, 1 + at) for at, text in enumerate((AGAIN, FULLER))}
    world = World("zork-semantic", {DOOR: unit(1)} | near)
    events = [
        event(
            text,
            scope="zork/193",
            event_id=f"e{at}",
            occurred_at=later(at),
            title=f"Title {at}",
            **fields,
        )
        for at, (text, fields) in enumerate(said)
    ]
    return [(await world.tell(one), world.titles) for one in events]


@pytest.mark.covers("S0.67")
async def test_a_repeat_is_told_with_its_memory_and_the_similarity() -> None:
    first, again, exact = await decided((DOOR, {}), (AGAIN, {}), (DOOR.upper(), {}))
    assert notice(first, {}) is None
    near, same = notice(again, {}), notice(exact, {})
    assert near is not None
    assert same is not None
    memory_id = near.fields["memory_id"]
    common = {"action": "metadata_update", "scope": "zork/193", "memory_id": memory_id}
    assert near.what == same.what == "duplicate found"
    assert near.fields == {**common, "event_id": "e1", "similarity": 0.9}
    assert same.fields == {**common, "event_id": "e2", "similarity": 1.0}
    assert near.titles == {"candidate_title": "Title 1", "memory_title": "Title 0"}
    assert [compared(one) for one in (first, again, exact)] == [0, 1, 0]


@pytest.mark.covers("S0.68")
async def test_what_gives_way_is_told_with_both_titles() -> None:
    similarity, action = 0.8999, "supersession"
    (first, _), (fuller, titles) = await told((DOOR, {}), (FULLER, {}), similarity=similarity)
    line = notice(fuller, titles)
    assert line is not None
    assert line.what == "near-duplicate superseded"
    assert (line.fields["action"], line.fields["similarity"]) == (action, round(similarity, 2))
    assert line.fields["scope"] == "zork/193"
    assert line.fields["superseded_ids"] == [first.memory.id]
    assert line.fields["memory_id"] == fuller.memory.id
    assert (line.titles["superseded_titles"], line.titles["memory_title"]) == (
        ["Title 0"],
        "Title 1",
    )


@pytest.mark.covers("S0.11")
@pytest.mark.parametrize("similarity", [0.84999, 0.75])
async def test_what_is_somewhat_like_a_memory_is_told_and_kept(similarity: float) -> None:
    (first, _), (second, titles) = await told((DOOR, {}), (AGAIN, {}), similarity=similarity)
    line = loose(second, titles)
    assert line is not None
    assert line.what == "similar memory kept"
    assert line.fields == {
        "action": "insert",
        "scope": "zork/193",
        "event_id": "e1",
        "memory_id": second.memory.id,
        "similarity": round(similarity, 2),
        "similar_id": first.memory.id,
    }
    assert line.titles["similar_title"] == "Title 0"


@pytest.mark.covers("S0.11")
@pytest.mark.parametrize("similarity", [0.95, 0.85, 0.74999])
async def test_what_is_known_or_far_away_is_not_told_as_somewhat_like(similarity: float) -> None:
    for decision in await decided((DOOR, {}), (AGAIN, {}), similarity=similarity):
        assert loose(decision, {}) is None


@pytest.mark.covers("S0.67", "S0.68")
async def test_nothing_that_is_told_is_a_memorys_text() -> None:
    for decision, titles in await told((DOOR, {}), (AGAIN, {}), (FULLER, {})):
        for line in (checked(decision), notice(decision, titles), loose(decision, titles)):
            assert line is None or DOOR[4:] not in f"{line.fields} {line.titles}"


async def test_each_event_is_told_with_what_is_nearest_and_what_was_done() -> None:
    first, again, exact = await decided((DOOR, {}), (AGAIN, {}), (DOOR.upper(), {}))
    lines = [checked(one) for one in (first, again, exact)]
    assert all(one is not None and one.what == "event checked" for one in lines)
    assert [one.fields for one in lines if one] == [
        {"scope": "zork/193", "event_id": f"e{at}"} | outcome
        for at, outcome in enumerate(
            [
                {"kind": "insert", "reason": "nothing-near", "similarity": None},
                {"kind": "reinforce", "reason": "nearly-identical", "similarity": 0.9},
                {"kind": "reinforce", "reason": "same-content", "similarity": 1.0},
            ]
        )
    ]


GOAT = "Ada has a goat."
WHITE = "Ada has a goat with a white beard."


@pytest.mark.covers("S1.39")
@pytest.mark.parametrize(
    ("wordings", "failed"),
    [
        ([WHITE], None),
        ([NoAnswer("timeout")], "timeout"),
        ([GOAT] * 2, "not what the sources say"),
    ],
)
async def test_a_merge_is_told_with_what_it_joins_and_what_stands_in_for_its_wording(
    wordings: list[str | NoAnswer], failed: str | None
) -> None:
    world = World("two-threshold", {GOAT: unit(1), WHITE: at_cosine(0.93)}, wordings=wordings)
    first = await world.tell(event(GOAT, event_id="e0"))
    merge = await world.tell(event(WHITE, event_id="e1", occurred_at=later(1)))
    line, failure = notice(merge, world.titles), unworded(merge)
    assert line is not None
    assert (line.fields["action"], line.fields["similarity"]) == ("merge", 0.93)
    assert line.fields["superseded_ids"] == [first.memory.id]
    assert (failure is None) == (failed is None)
    if failure is not None:
        assert failure.what == "merge failed"
        assert (failure.fields["reason"], failure.fields["fallback"]) == (failed, "append")
        assert failure.fields["event_id"] == "e1"
