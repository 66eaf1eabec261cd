"""The Memories.md document, as the policy memories-md does it."""

from collections.abc import Callable
from typing import Any

import pytest

from schemas.decisions import Band, Decision, Insert, Merge, Reason, Reinforce, Replace, Verdict
from schemas.events import Remember
from schemas.memories import Memory
from streams.model.policy import Policy
from streams.model.ports.models import NoAnswer
from streams.model.verdict import Pair
from streams.store.app import policies
from tests.builders import at_cosine, event, later, unit
from tests.fakes.judges import Said
from tests.support.stage.deciding import Verdicts, World, always

HOUSE, ELSEWHERE = "zork/15", "zork/23"
FIXED = "Taking the window fails because the house holds the frame."
GET = "Getting hold of the window fails because the house holds the frame."
"""The same failure in other words."""
OPENS = "Taking the window works with a crowbar."
TITLE = "Take or break window"


def said(text: str, hours: float = 1, **fields: Any) -> Remember:
    return event(text, **{"scope": HOUSE, "occurred_at": later(hours), **fields})


def world(similarity: float, verdicts: Verdicts | None, second: str = GET) -> World:
    vectors = {FIXED: unit(1), second: at_cosine(similarity)}
    return World("memories-md", vectors, verdicts=verdicts)


def silent(pair: Pair) -> Said:
    del pair
    return NoAnswer("timeout")


@pytest.mark.covers("S3.24", "B36")
async def test_the_same_failure_in_other_words_is_not_written_twice() -> None:
    here = world(0.7, {(GET, FIXED): Verdict.SAME})
    await here.tell(said(FIXED, 0, turn=5))
    decision = await here.tell(said(GET, turn=10))
    assert isinstance(decision, Reinforce)
    assert await here.texts() == [FIXED]


@pytest.mark.covers("S3.24", "B4", "D13")
@pytest.mark.parametrize(
    ("title", "similarity", "band"),
    [
        (TITLE, 0.1, Band.MATCH),
        (TITLE.upper(), -0.2, Band.MATCH),
        ("Window", 0.7, Band.REVIEW),
        ("Window", 0.59999, Band.NONE),
        (None, 0.1, Band.NONE),
    ],
)
async def test_one_of_the_same_title_is_asked_about_at_any_distance(
    title: str | None, similarity: float, band: Band
) -> None:
    """The very title, not a part of it; and it only points at what is asked about."""
    here = world(similarity, always(Verdict.DISTINCT))
    await here.tell(said(FIXED, 0, title=TITLE))
    decision = await here.tell(said(GET, title=title))
    assert isinstance(decision, Insert)
    assert [near.band for near in decision.evidence.neighbours] == [band]
    assert here.judge is not None
    assert len(here.judge.asked) == (0 if band is Band.NONE else 1)


@pytest.mark.covers("S3.25", "B2", "B3")
async def test_the_very_words_are_known_without_asking_anybody() -> None:
    here = world(0.0, None)
    await here.tell(said(FIXED, 0, title=TITLE))
    decision = await here.tell(said(FIXED.upper(), event_id="again", title=TITLE))
    assert isinstance(decision, Reinforce)
    assert decision.evidence.reason is Reason.SAME_CONTENT


@pytest.mark.covers("S3.25")
async def test_the_same_title_with_other_words_is_another_memory() -> None:
    here = world(0.1, always(Verdict.DISTINCT))
    await here.tell(said(FIXED, 0, title=TITLE))
    await here.tell(said(GET, title=TITLE))
    assert await here.texts() == [FIXED, GET]


@pytest.mark.covers("S3.26", "B12", "B14")
async def test_what_is_contradicted_gives_way_to_the_newer() -> None:
    here = world(0.7, {(OPENS, FIXED): Verdict.CONTRADICTS}, OPENS)
    await here.tell(said(FIXED, 0))
    decision = await here.tell(said(OPENS))
    assert isinstance(decision, Replace)
    assert await here.retired() == {FIXED: OPENS}


@pytest.mark.covers("S3.26", "D25")
async def test_older_news_that_comes_late_does_not_win() -> None:
    here = world(0.7, {(OPENS, FIXED): Verdict.CONTRADICTS}, OPENS)
    await here.tell(said(FIXED, 5))
    await here.tell(said(OPENS, 1))
    assert await here.texts() == [FIXED]
    assert await here.retired() == {OPENS: FIXED}


@pytest.mark.covers("D16")
@pytest.mark.parametrize("verdicts", [None, silent])
async def test_without_an_answer_both_are_kept(
    verdicts: Callable[[Pair], Said] | None,
) -> None:
    """The document leaves the new memory out; then what nobody looked at would be gone."""
    here = world(0.99, verdicts)
    await here.tell(said(FIXED, 0, title=TITLE))
    decision = await here.tell(said(GET, title=TITLE))
    assert isinstance(decision, Insert)
    [silent] = decision.evidence.degraded
    assert silent.startswith("llm: ")
    assert await here.texts() == [FIXED, GET]


@pytest.mark.covers("S3.20", "D20")
async def test_what_adds_to_a_memory_is_shown_and_the_known_text_stays_a_wording() -> None:
    here = world(0.7, {(GET, FIXED): Verdict.REFINES})
    await here.tell(said(FIXED, 0))
    assert isinstance(await here.tell(said(GET)), Merge)
    assert await here.wordings() == [[GET, FIXED]]


# What an event names to be superseded.

NEWS = "The troll takes the lunch and lets nobody pass."
GUESS = "The troll is peaceful."
NOTE = "The troll likes to eat."
OTHER = "A ladder leads down from here."
PLACES = {NEWS: unit(1), GUESS: unit(0, 1), NOTE: unit(0, 0, 1), OTHER: unit(0, 0, 0, 1)}


async def stored(*events: Remember) -> tuple[World, list[Memory]]:
    here = World("memories-md", PLACES)
    made = [await here.tell(one) for one in events]
    return here, [one.memory for one in made]


@pytest.mark.covers("S3.20", "S3.26", "D9", "D12")
async def test_an_event_supersedes_the_memories_that_it_names() -> None:
    """However unlike they are: 67 % of such updates lie below any bound."""
    here, (guess, note, _) = await stored(said(GUESS, 0), said(NOTE, 0), said(OTHER, 0))
    decision = await here.tell(said(NEWS, supersedes=[guess.id, note.id]))
    assert isinstance(decision, Replace)
    assert decision.evidence.reason is Reason.SUPERSEDES_BY_NAME
    assert await here.texts() == [OTHER, NEWS]
    assert await here.retired() == {GUESS: NEWS, NOTE: NEWS}


@pytest.mark.covers("D12", "D13", "D26")
async def test_what_it_may_not_retire_stays_and_the_evidence_says_why() -> None:
    here, (guess, pinned, elsewhere) = await stored(
        said(GUESS, 0, title="Troll"), said(NOTE, 0, pinned=True), said(OTHER, 0, scope=ELSEWHERE)
    )
    named = [guess.id, pinned.id, elsewhere.id, "Troll"]
    decision = await here.tell(said(NEWS, supersedes=named))
    assert isinstance(decision, Replace)
    assert decision.evidence.refused == (
        f"{pinned.id}: pinned",
        f"{elsewhere.id}: no live memory of this scope",
        "Troll: no live memory of this scope",
    )
    assert await here.retired() == {GUESS: NEWS}


@pytest.mark.covers("D12")
async def test_more_than_the_policy_allows_are_kept() -> None:
    texts = [
        f"The {noun} is dusty."
        for noun in ("lamp", "rug", "sword", "case", "oven", "sink", "shelf", "bowl", "cup")
    ]
    vectors = {text: unit(*[0] * (at % 7), 1, at) for at, text in enumerate(texts)}
    here = World("memories-md", vectors | {NEWS: unit(1)}, verdicts=always(Verdict.DISTINCT))
    made = [await here.tell(said(text, 0)) for text in texts]
    decision = await here.tell(said(NEWS, supersedes=[one.memory.id for one in made]))
    assert isinstance(decision, Replace)
    assert len(decision.targets) == here.policy.supersede.named_max == 8
    assert len(decision.evidence.refused) == 1


@pytest.mark.covers("D12")
async def test_what_it_names_in_vain_does_not_keep_the_event_out() -> None:
    """Marked first and refused then: so two of three superseded memories lost their successor."""
    here, (guess,) = await stored(said(GUESS, 0))
    again = await here.tell(said(NEWS, supersedes=[guess.id]))
    for at, text in enumerate([NOTE, OTHER]):
        decision: Decision = await here.tell(said(text, 2 + at, supersedes=[guess.id]))
        assert isinstance(decision, Insert)
        assert decision.evidence.refused == (f"{guess.id}: no live memory of this scope",)
    assert await here.texts() == [NEWS, NOTE, OTHER]
    assert await here.retired() == {GUESS: again.memory.text}


@pytest.mark.covers("D12")
async def test_a_chain_of_supersessions_ends_at_a_live_memory() -> None:
    here, (first,) = await stored(said(GUESS, 0))
    second = await here.tell(said(NEWS, 1, supersedes=[first.id]))
    await here.tell(said(NOTE, 2, supersedes=[second.memory.id]))
    assert await here.texts() == [NOTE]
    assert await here.retired() == {GUESS: NEWS, NEWS: NOTE}  # and each end was looked up


LADDER = ["ephemeral", "permanent", "core"]


@pytest.mark.covers("D22", "B20", "B71")
@pytest.mark.parametrize("new", LADDER)
@pytest.mark.parametrize("old", LADDER)
async def test_a_memory_never_gives_way_to_one_that_holds_shorter(new: str, old: str) -> None:
    allowed = LADDER.index(new) >= LADDER.index(old)
    here, (guess,) = await stored(said(GUESS, 0, persistence=old))
    decision = await here.tell(said(NEWS, persistence=new, supersedes=[guess.id]))
    assert isinstance(decision, Replace if allowed else Insert)
    assert await here.texts() == ([NEWS] if allowed else [GUESS, NEWS])
    if not allowed:
        assert decision.evidence.refused == (f"{guess.id}: {old} is not replaced by {new}",)


@pytest.mark.covers("D22")
@pytest.mark.parametrize("guards", [True, False])
@pytest.mark.parametrize("new", LADDER)
@pytest.mark.parametrize("old", LADDER)
async def test_nor_where_a_judge_finds_it_contradicted(
    new: str,
    old: str,
    guards: bool,  # noqa: FBT001 - a parameter of pytest
) -> None:
    allowed = LADDER.index(new) >= LADDER.index(old)
    rules = policies.load("memories-md").model_dump(mode="json") | {"guards": guards}
    here = World(
        Policy.model_validate(rules),
        {FIXED: unit(1), OPENS: at_cosine(0.7)},
        verdicts=always(Verdict.CONTRADICTS),
    )
    await here.tell(said(FIXED, 0, persistence=old))
    await here.tell(said(OPENS, persistence=new))
    assert await here.texts() == ([OPENS] if allowed else [FIXED, OPENS])
