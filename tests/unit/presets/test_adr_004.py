"""The decision record on periodic deduplication, as the policy adr-004 does it."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.decisions import Band, Insert, Merge, Reason, Reinforce, Replace
from schemas.events import Remember
from tests.builders import at_cosine, event, later, unit
from tests.support.stage.deciding import World

DAY_H = 24
TEA = "Ana drinks green tea at breakfast."
TEA_AGAIN = "Ana drinks a green tea at breakfast."
"""Says what TEA says, and the other way round."""
TEA_TOO = "In the morning Ana has a pot of sencha."
"""The same, as a similarity may have it; its words do not tell."""


def said(text: str, hours: float = 1, **fields: Any) -> Remember:
    return event(text, **{"scope": "users/ana", "occurred_at": later(hours), **fields})


def world(first: str, second: str, similarity: float) -> World:
    return World("adr-004", {first: unit(1), second: at_cosine(similarity)})


@pytest.mark.covers("S2.8", "S2.9", "B8")
@pytest.mark.parametrize(
    ("similarity", "kind", "band"),
    [
        (1.0, Merge, Band.MATCH),
        (0.9, Merge, Band.MATCH),
        (0.75001, Merge, Band.MATCH),
        (0.75, Insert, Band.LOG),
        (0.5, Insert, Band.LOG),
        (0.49999, Insert, None),
    ],
)
async def test_more_than_three_quarters_is_a_duplicate(
    similarity: float, kind: type, band: Band | None
) -> None:
    here = world(TEA, TEA_AGAIN, similarity)
    await here.tell(said(TEA, 0))
    decision = await here.tell(said(TEA_AGAIN))
    assert isinstance(decision, kind)
    assert [near.band for near in decision.evidence.neighbours] == ([band] if band else [])


@pytest.mark.covers("S2.12", "D8")
@pytest.mark.parametrize(
    ("first", "second", "similarity", "kind"),
    [
        ("Lives in Grenoble", "Home in Grenoble, France", 0.87, Merge),
        ("Prefers programming in Python", "Python is favorite", 0.81, Merge),
        ("Works at Google", "Software engineer at Google", 0.72, Insert),
        ("Likes coffee", "Enjoys croissants", 0.68, Insert),
    ],
)
async def test_texts_like_those_of_the_documents_table_at_its_similarities(
    first: str, second: str, similarity: float, kind: type
) -> None:
    here = world(first, second, similarity)
    await here.tell(said(first, 0))
    assert isinstance(await here.tell(said(second)), kind)
    joined = [f"{first}. {second}"]
    assert await here.texts() == (joined if kind is Merge else [first, second])


HIGH: dict[str, Any] = {"importance": 0.9}
LOW: dict[str, Any] = {"importance": 0.4}


@pytest.mark.covers("S2.11", "S2.12", "S2.3", "B18")
@pytest.mark.parametrize(
    ("new", "old", "kind", "text"),
    [
        pytest.param(HIGH, LOW, Replace, TEA_AGAIN, id="the new one is more important"),
        pytest.param(LOW, HIGH, Reinforce, TEA, id="the old one is"),
        pytest.param(HIGH, HIGH, Merge, TEA, id="both alike"),
        pytest.param({}, HIGH, Merge, TEA, id="nobody rated the new one"),
    ],
)
async def test_the_more_important_stands_and_equal_ones_are_joined(
    new: dict[str, Any], old: dict[str, Any], kind: type, text: str
) -> None:
    here = world(TEA, TEA_AGAIN, 0.8)
    await here.tell(said(TEA, 0, **old))
    assert isinstance(await here.tell(said(TEA_AGAIN, **new)), kind)
    assert await here.texts() == [text]
    assert await here.retired() == ({} if kind is Reinforce else {TEA: text})


@pytest.mark.covers("S2.15", "S2.19", "S2.25", "D14", "D20")
@pytest.mark.parametrize(
    ("new", "old", "kept"), [(HIGH, LOW, [TEA_TOO, TEA]), (LOW, HIGH, [TEA, TEA_TOO])]
)
async def test_what_the_less_important_one_alone_says_stays_a_wording_of_the_survivor(
    new: dict[str, Any], old: dict[str, Any], kept: list[str]
) -> None:
    here = world(TEA, TEA_TOO, 0.8)
    await here.tell(said(TEA, 0, **old))
    await here.tell(said(TEA_TOO, **new))
    assert await here.wordings() == [kept]
    [memory] = await here.memories()
    assert memory.importance == 0.9


@pytest.mark.covers("S2.12")
async def test_of_two_that_are_equally_important_every_sentence_is_shown() -> None:
    here = world(TEA, TEA_TOO, 0.8)
    await here.tell(said(TEA, 0))
    assert isinstance(await here.tell(said(TEA_TOO)), Merge)
    assert await here.texts() == [f"{TEA} {TEA_TOO}"]


@pytest.mark.covers("S2.13", "B48")
@pytest.mark.parametrize(
    ("new", "old", "kind"),
    [(HIGH, LOW, Replace), (LOW, HIGH, Reinforce), (HIGH, HIGH, Merge)],
)
async def test_the_topics_of_both_are_kept_whoever_survives(
    new: dict[str, Any], old: dict[str, Any], kind: type
) -> None:
    here = world(TEA, TEA_AGAIN, 0.8)
    await here.tell(said(TEA, 0, tags=["tea", "habits"], **old))
    assert isinstance(await here.tell(said(TEA_AGAIN, tags=["habits", "food"], **new)), kind)
    [memory] = await here.memories()
    assert memory.tags == ("tea", "habits", "food")


@pytest.mark.covers("S2.14")
@pytest.mark.parametrize(("importance", "kind"), [(0.9, Replace), (0.5, Merge)])
async def test_a_survivor_with_a_new_text_has_the_newest_id(importance: float, kind: type) -> None:
    here = world(TEA, TEA_AGAIN, 0.8)
    first = await here.tell(said(TEA, 0, importance=0.5))
    second = await here.tell(said(TEA_AGAIN, importance=importance))
    assert isinstance(second, kind)
    [memory] = await here.memories()
    assert memory.id == second.memory.id != first.memory.id


@pytest.mark.covers("S2.37", "B70")
@pytest.mark.parametrize(
    ("days", "kind"),
    [
        (0, Reinforce),
        (21, Reinforce),  # .80 has become .7718
        (22, Replace),  # .7705
        (30, Replace),  # .76
    ],
)
async def test_importance_fades_by_a_twentieth_a_month(days: int, kind: type) -> None:
    here = world(TEA, TEA_AGAIN, 0.8)
    await here.tell(said(TEA, 0, importance=0.8))
    decision = await here.tell(said(TEA_AGAIN, days * DAY_H, importance=0.771))
    assert isinstance(decision, kind)
    [memory] = await here.memories()
    assert memory.importance == 0.8  # what was rated stays; it fades only where it is compared


@pytest.mark.covers("S2.12", "S2.37")
@pytest.mark.parametrize(("hours", "kind"), [(23.9, Merge), (24, Replace)])
async def test_two_that_are_rated_alike_are_equal_for_a_day(hours: float, kind: type) -> None:
    here = world(TEA, TEA_AGAIN, 0.8)
    await here.tell(said(TEA, 0, importance=0.8))
    assert isinstance(await here.tell(said(TEA_AGAIN, hours, importance=0.8)), kind)


@pytest.mark.covers("S2.17")
async def test_the_five_nearest_are_compared() -> None:
    topics = ["chess", "rowing", "opera", "sailing", "pottery", "fencing", "karate"]
    texts = [f"Ana teaches {topic} in the evening." for topic in topics]
    vectors = {text: at_cosine(0.60 + at / 100, at + 1) for at, text in enumerate(texts)}
    here = World("adr-004", {TEA: unit(1)} | vectors)
    await here.hear(*(said(text, 0) for text in texts))
    decision = await here.tell(said(TEA))
    assert [near.similarity for near in decision.evidence.neighbours] == [
        0.66,
        0.65,
        0.64,
        0.63,
        0.62,
    ]


@pytest.mark.covers("S2.30", "C19")
async def test_more_removals_than_the_documents_alert_stop_by_themselves() -> None:
    articles = ["", "the ", "a "]
    texts = [
        f"Ana pours {one}cup of {two}tea at {three}table near {four}window."
        for one, two, three, four in product(articles, repeat=4)
    ][:60]
    here = World("adr-004", dict.fromkeys(texts, unit(1)))
    decided = [
        await here.tell(said(text, at, importance=at / 100)) for at, text in enumerate(texts)
    ]
    kinds = [decision.kind for decision in decided]
    assert kinds == ["insert", *["replace"] * 49, *["insert"] * 10]
    assert {decision.evidence.reason for decision in decided[50:]} == {Reason.BRAKED}
    assert await here.texts() == texts[49:]


MORNING = [
    "Ana drinks green tea at breakfast.",
    "In the morning Ana has a pot of sencha.",
    "Breakfast starts with leaves brewed by Ana.",
    "Ana wakes up over something hot and green.",
]


@pytest.mark.covers("D14", "C9", "B66")
@given(st.lists(st.sampled_from([0.1, 0.4, 0.7]), min_size=4, max_size=4))
async def test_whatever_is_important_each_fact_is_left_in_a_live_memory(
    importances: list[float],
) -> None:
    here = World("adr-004", {text: at_cosine(0.95, at + 1) for at, text in enumerate(MORNING)})
    for at, (text, importance) in enumerate(zip(MORNING, importances, strict=True)):
        await here.tell(said(text, at, importance=importance))
    assert len(await here.memories()) < len(MORNING)
    kept = [text for memory in await here.wordings() for text in memory]
    assert set(MORNING) <= set(kept)
