"""The two-threshold design: what it says becomes of its own texts and numbers.

Under the policy two-threshold at the similarity that it tells; where it tells none, the real model
and the default policy decide.
"""

import pytest

from schemas.decisions import Insert, Merge, Replace
from tests.builders import at_cosine, event, later, unit
from tests.support.stage.deciding import World
from tests.support.stage.documents import is_one

CAT, WHISKERS = "Alice has a cat", "Alice has a tabby cat named Whiskers"


@pytest.mark.covers("S1.5")
async def test_alice_has_a_cat_is_merged_at_93_into_a_tabby_cat_named_whiskers() -> None:
    vectors = {CAT: unit(1), WHISKERS: at_cosine(0.93)}
    here = World("two-threshold", vectors, wordings=[WHISKERS, WHISKERS])
    await here.tell(event(CAT, occurred_at=later(0)))
    merge = await here.tell(event(WHISKERS, event_id="second", occurred_at=later(1)))
    assert isinstance(merge, Merge)
    assert await here.texts() == [WHISKERS]
    assert await here.retired() == {CAT: WHISKERS}


@pytest.mark.covers("S1.4")
async def test_from_95_on_the_newer_likely_more_detailed_one_takes_the_place() -> None:
    here = World("two-threshold", {CAT: unit(1), WHISKERS: at_cosine(0.95)})
    await here.tell(event(CAT, occurred_at=later(0)))
    replaced = await here.tell(event(WHISKERS, event_id="second", occurred_at=later(1)))
    assert isinstance(replaced, Replace)
    assert await here.texts() == [WHISKERS]


async def test_below_90_the_two_are_two() -> None:
    here = World("two-threshold", {CAT: unit(1), WHISKERS: at_cosine(0.89999)})
    await here.tell(event(CAT, occurred_at=later(0)))
    decision = await here.tell(event(WHISKERS, event_id="second", occurred_at=later(1)))
    assert isinstance(decision, Insert)
    assert await here.texts() == [CAT, WHISKERS]


@pytest.mark.covers("S1.17")
@pytest.mark.parametrize("policy", ["default", "thorough"])
async def test_the_same_two_by_the_real_model(policy: str) -> None:
    await is_one([CAT, WHISKERS], policy)
