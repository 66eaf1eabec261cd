"""The signs that make a turn worth a closer look."""

from typing import Any

import pytest

from schemas.turns import Turn
from streams.extract.core.triggers import (
    FiredTrigger,
    Trigger,
    TriggerRules,
    fired,
    talk_triggers,
    without_request,
)
from streams.extract.core.utterances import heard, recalled_in
from tests.builders import turn

PIER = {"id": 4, "name": "Pier"}
SHED = {"id": 5, "name": "Shed"}


def signs(said: Turn, rules: TriggerRules = TriggerRules()) -> tuple[FiredTrigger, ...]:  # noqa: B008 - frozen
    return fired(said, heard(said, recalled_in([said])), rules)


def changed(**state: Any) -> Turn:
    return turn(("model", "go north"), ("world", "Done."), state=state)


@pytest.mark.covers("S3.9", "S3.16", "S3.18", "B95")
@pytest.mark.parametrize(
    ("state", "trigger", "why"),
    [
        ({"score_before": 5, "score_after": 10}, "score", "score 5 to 10 (+5)"),
        ({"score_before": 5, "score_after": 3}, "score", "score 5 to 3 (-2)"),
        (
            {"location_before": PIER, "location_after": SHED},
            "location",
            "from 4 Pier to 5 Shed",
        ),
        (
            {"inventory_before": ["rope", "coin", "coin"], "inventory_after": ["coin", "lamp"]},
            "inventory",
            "taken lamp; dropped coin, rope",
        ),
        ({"died": True}, "death", "died in this turn"),
        ({"first_visit": True}, "first-visit", "was never here before"),
    ],
)
def test_what_changed_in_a_world_fires(state: dict[str, Any], trigger: str, why: str) -> None:
    assert signs(changed(**state)) == (FiredTrigger(Trigger(trigger), why),)


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"score_before": 5, "score_after": 5},
        {"score_after": 5},
        {"location_before": PIER, "location_after": {"id": 4, "name": "The Pier"}},
        {"location_after": PIER},
        {"inventory_before": ["rope", "coin"], "inventory_after": ["coin", "rope"]},
        {"inventory_after": ["rope"]},
    ],
)
def test_what_did_not_change_or_is_not_known_fires_nothing(state: dict[str, Any]) -> None:
    assert signs(changed(**state)) == ()


@pytest.mark.covers("S3.16")
def test_a_long_answer_of_the_world_fires() -> None:
    just, more = "x" * 100, "x" * 101
    assert signs(turn(("world", just))) == ()
    assert [one.trigger for one in signs(turn(("world", more)))] == [Trigger.LONG_RESPONSE]
    assert signs(turn(("model", more))) == ()
    assert signs(turn(("world", more)), TriggerRules(response_characters=200)) == ()


@pytest.mark.covers("B97")
def test_a_long_answer_that_was_recalled_fires_nothing() -> None:
    long = f"The {'very ' * 30}old lamp."
    assert signs(turn(("recalled", long), ("world", long))) == ()


def test_each_sign_can_be_switched_off() -> None:
    everything = turn(
        ("user", "Please remember that I like tea. I live in Ulm. No, that is wrong."),
        ("world", "x" * 101),
        state={
            "score_before": 0,
            "score_after": 1,
            "location_before": PIER,
            "location_after": SHED,
            "inventory_before": [],
            "inventory_after": ["oar"],
            "first_visit": True,
            "died": True,
        },
    )
    assert [one.trigger for one in signs(everything)] == list(Trigger)
    for trigger in Trigger:
        left = signs(everything, TriggerRules(on=frozenset(Trigger) - {trigger}))
        assert [one.trigger for one in left] == [one for one in Trigger if one is not trigger]


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("Please remember that the gate code is 4711.", {"remember"}),
        ("Don't forget the milk.", {"remember"}),
        ("Can you remember that Eva is allergic to nuts?", {"remember"}),
        ("I really don't like cilantro.", {"preference"}),
        ("My favourite colour is green.", {"preference", "fact"}),
        ("I'd rather sit at the window.", {"preference"}),
        ("I moved to Ulm in May.", {"fact"}),
        ("My sister Eva lives in Oslo.", {"fact"}),
        ("We're a team of five.", {"fact"}),
        ("No, the meeting is on Tuesday.", {"correction"}),
        ("That's wrong.", {"correction"}),
        ("I no longer eat meat.", {"correction"}),
        ("I remember when it was cheap.", set[str]()),
        ("Do you remember my name?", set[str]()),
        ("I'm not sure.", set[str]()),
        ("I have a question.", set[str]()),
        ("Do I like tea?", set[str]()),
        ("Book a table for two.", set[str]()),
    ],
)
def test_a_user_s_words_fire(sentence: str, expected: set[str]) -> None:
    assert set(talk_triggers(sentence)) == expected
    by_user = {one.trigger for one in signs(turn(("user", sentence)))}
    assert by_user == expected
    assert signs(turn(("model", sentence))) == ()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("Please remember that Eva is allergic.", "Eva is allergic."),
        ("Hi! Can you please note that my train leaves at six?", "My train leaves at six?"),
        ("Remember: the key is under the pot.", "The key is under the pot."),
        ("Remember the milk.", "Remember the milk."),
        ("Eva is allergic.", "Eva is allergic."),
    ],
)
def test_a_request_to_remember_is_taken_off(asked: str, said: str) -> None:
    assert without_request(asked) == said
