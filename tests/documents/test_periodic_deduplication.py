"""ADR-004 on periodic deduplication: what it says becomes of its own texts and numbers.

Under the policy adr-004 at the similarities of its table; by the real model and the default policy
as well.
"""

import pytest

from schemas.decisions import Insert
from streams.model import wordings
from tests.builders import at_cosine, event, later, unit
from tests.support.encoding.models import default_embedder
from tests.support.stage.deciding import World
from tests.support.stage.documents import PENDING, are_apart, consolidated, is_one

PARIS, FRANCE = "Lives in Paris", "Home in Paris, France"
GOOGLE = ("Works at Google", "Software engineer at Google")
COFFEE = ("Likes coffee", "Enjoys croissants")


@pytest.mark.covers("S2.1")
@pytest.mark.parametrize(
    "repeat",
    [
        ("I live in Paris", "My home is in Paris, France"),
        ("I prefer Python", "Python is my favorite language"),
        pytest.param(("I work at Google", "I'm a software engineer at Google"), marks=PENDING),
    ],
)
async def test_users_who_share_the_same_several_times(repeat: tuple[str, str]) -> None:
    await is_one(repeat)


@pytest.mark.covers("S2.10", "S2.12")
@pytest.mark.parametrize(
    ("first", "second", "similarity"),
    [(PARIS, FRANCE, 0.87), ("Prefers Python", "Python is favorite", 0.81)],
)
async def test_the_rows_of_the_table_that_are_duplicates(
    first: str, second: str, similarity: float
) -> None:
    here = World("adr-004", {first: unit(1), second: at_cosine(similarity)})
    await here.tell(event(first, occurred_at=later(0)))
    await here.tell(event(second, event_id="second", occurred_at=later(1)))
    assert [memory.observation_count for memory in await here.memories()] == [2]


@pytest.mark.covers("S2.10")
@pytest.mark.parametrize(("pair", "similarity"), [(GOOGLE, 0.72), (COFFEE, 0.68)])
async def test_the_rows_of_the_table_that_are_none(
    pair: tuple[str, str], similarity: float
) -> None:
    first, second = pair
    here = World("adr-004", {first: unit(1), second: at_cosine(similarity)})
    await here.tell(event(first, occurred_at=later(0)))
    decision = await here.tell(event(second, event_id="second", occurred_at=later(1)))
    assert isinstance(decision, Insert)
    assert await here.texts() == [first, second]


@pytest.mark.covers("S2.10")
@pytest.mark.parametrize("pair", [(PARIS, FRANCE), ("Prefers Python", "Python is favorite")])
async def test_the_duplicates_of_the_table_by_the_real_model(pair: tuple[str, str]) -> None:
    await is_one(pair)


@pytest.mark.covers("S2.1", "S2.10")
@pytest.mark.parametrize(
    "pair",
    [
        (PARIS, FRANCE),
        ("Prefers Python", "Python is favorite"),
        ("I live in Paris", "My home is in Paris, France"),
        ("I prefer Python", "Python is my favorite language"),
    ],
)
async def test_the_policy_thorough_finds_the_duplicates_of_the_table(
    pair: tuple[str, str],
) -> None:
    await is_one(pair, "thorough")


@pytest.mark.covers("S2.10")
@pytest.mark.parametrize("policy", ["default", "thorough"])
@pytest.mark.parametrize("pair", [GOOGLE, COFFEE])
async def test_the_other_rows_by_the_real_model(pair: tuple[str, str], policy: str) -> None:
    await are_apart(pair, policy)


ORDINARY = [
    ("Lives in Paris", "Home in Paris, France"),
    ("Prefers Python", "Python is favorite"),
    ("I live in Paris", "My home is in Paris, France"),
    ("I prefer Python", "Python is my favorite language"),
    ("User is allergic to peanuts.", "The user has a peanut allergy."),
    ("She drives to work every day.", "Every day she commutes to work by car."),
]


@pytest.mark.covers("S2.11", "S2.15")
@pytest.mark.parametrize("pair", ORDINARY)
@pytest.mark.parametrize("important", [0, 1])
async def test_of_ordinary_paraphrases_the_more_important_survives(
    pair: tuple[str, str], important: int
) -> None:
    """By the real model, as they come in and in a pass over what was kept apart."""
    here = World("adr-004", default_embedder())
    said = [
        event(
            text,
            event_id=f"e{at}",
            occurred_at=later(at),
            importance=0.9 if at == important else 0.4,
            tags=[f"topic-{at}"],
        )
        for at, text in enumerate(pair)
    ]
    await here.hear(*said)
    [kept] = await here.memories()
    [passed] = await consolidated(said, "adr-004")
    for memory in (kept, passed):
        assert (memory.text, memory.importance) == (pair[important], 0.9)
        assert set(memory.tags) == {"topic-0", "topic-1"}
        assert {one.text for one in wordings.of(memory)} == set(pair)


@pytest.mark.covers("S2.12")
async def test_in_a_pass_equally_important_ones_are_shown_one_after_the_other() -> None:
    said = [
        event(text, event_id=text[:4], occurred_at=later(at), importance=0.5)
        for at, text in enumerate((PARIS, FRANCE))
    ]
    [memory] = await consolidated(said, "adr-004")
    assert memory.text == "Lives in Paris. Home in Paris, France"


@pytest.mark.covers("S2.36")
async def test_a_language_model_words_both_as_lives_in_paris_france() -> None:
    whole = "Lives in Paris, France"
    vectors = {PARIS: unit(1), FRANCE: at_cosine(0.93), whole: at_cosine(0.97)}
    here = World("two-threshold", vectors, wordings=[whole, whole])
    await here.tell(event(PARIS, occurred_at=later(0)))
    await here.tell(event(FRANCE, event_id="second", occurred_at=later(1)))
    assert await here.texts() == [whole]
