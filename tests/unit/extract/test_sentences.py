"""Events without a language model."""

from typing import Any

import pytest

from schemas.codec import EVENT, TURN
from schemas.events import Remember
from schemas.turns import Turn
from streams.extract.core.hearing import heard, recalled_in
from streams.extract.core.sentences import events_of, is_informative
from streams.extract.core.triggers import Rules, Trigger, fired
from tests.builders import START, turn

PIER = {"id": 4, "name": "Pier"}
SHED = {"id": 5, "name": "Shed"}
ROPE = "The rope on the bollard is frayed."


def taken(said: Turn, rules: Rules = Rules()) -> tuple[Remember, ...]:  # noqa: B008 - frozen
    sentences = heard(said, recalled_in([said]))
    return events_of(said, sentences, fired(said, sentences, rules))


def texts(said: Turn) -> list[str]:
    return [event.text for event in taken(said)]


@pytest.mark.covers("B98", "S3.8")
def test_an_event_says_where_when_and_by_whom() -> None:
    said = turn(
        ("model", "pull rope"),
        ("world", ROPE),
        turn_id="t-7",
        number=7,
        session="episode-2",
        state={
            "location_before": PIER,
            "location_after": SHED,
            "score_before": 1,
            "score_after": 1,
        },
    )
    (event,) = taken(said)
    assert (event.text, event.source, event.scope) == (ROPE, "world", "acme/ana")
    assert (event.turn, event.session, event.occurred_at) == (7, "episode-2", START)
    assert event.category == "DISCOVERY"
    assert event.metadata == {
        "turn_id": "t-7",
        "triggers": ["location"],
        "location": 4,
        "location_name": "Pier",
        "score": 0,
    }
    assert EVENT.decode(EVENT.encode(event)) == event


@pytest.mark.covers("B123")
def test_the_same_turn_gives_the_same_ids_and_each_sentence_its_own() -> None:
    said = turn(("world", f"{ROPE} A crow sits on the bollard. {ROPE}"), state={"died": True})
    first, again = taken(said), taken(TURN.decode(TURN.encode(said)))
    assert [event.text for event in first] == [ROPE, "A crow sits on the bollard."]
    assert first == again
    assert len({event.event_id for event in first}) == 2
    other = turn(("world", ROPE), turn_id="another", state={"died": True})
    elsewhere = turn(("world", ROPE), turn_id=said.turn_id, scope="acme/bo", state={"died": True})
    ids = {event.event_id for one in (said, other, elsewhere) for event in taken(one)[:1]}
    assert len(ids) == 3


@pytest.mark.covers("S3.14")
@pytest.mark.parametrize(
    ("state", "text", "category"),
    [
        ({"died": True, "score_before": 0, "score_after": 9}, ROPE, "DANGER"),
        ({"score_before": 9, "score_after": 0}, ROPE, "DANGER"),
        ({"score_before": 0, "score_after": 9}, ROPE, "SUCCESS"),
        ({"inventory_before": [], "inventory_after": ["rope"]}, ROPE, "SUCCESS"),
        ({"first_visit": True}, ROPE, "DISCOVERY"),
        ({"inventory_before": ["rope"], "inventory_after": []}, ROPE, "NOTE"),
        (
            {"inventory_before": ["rope"], "inventory_after": []},
            "You can't tie the rope to the bollard.",
            "FAILURE",
        ),
    ],
)
def test_what_happened_names_the_category(state: dict[str, Any], text: str, category: str) -> None:
    assert [event.category for event in taken(turn(("world", text), state=state))] == [category]


def test_of_a_talk_only_sentences_with_a_sign_of_their_own_are_taken() -> None:
    said = turn(
        ("user", "Hello there my friend. I like strong tea. My desk is on the third floor."),
        ("model", "I like strong tea, too. The library has five floors."),
        ("user", "Please remember that Bo is away on Monday. What is for lunch today?"),
    )
    assert [(event.text, event.category, event.source) for event in taken(said)] == [
        ("I like strong tea.", "PREFERENCE", "user"),
        ("My desk is on the third floor.", "FACT", "user"),
        ("Bo is away on Monday.", "NOTE", "user"),
    ]
    without = Rules(on=frozenset({Trigger.FACT}))
    assert [event.category for event in taken(said, without)] == ["FACT"]


def test_a_sign_in_the_talk_does_not_open_the_world() -> None:
    said = turn(("user", "I like strong tea."), ("world", ROPE))
    assert texts(said) == ["I like strong tea."]


@pytest.mark.covers("B97", "C12", "D36")
def test_an_echo_makes_no_event() -> None:
    said = turn(
        ("recalled", f"{ROPE} Ana likes strong tea."),
        ("world", f"{ROPE} The tide comes in fast."),
        ("user", "Ana likes strong tea."),
        state={"first_visit": True},
    )
    assert texts(said) == ["The tide comes in fast."]


def test_without_a_sign_nothing_is_taken() -> None:
    assert taken(turn(("world", ROPE))) == ()


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        (ROPE, True),
        ("Taken.", False),
        ("You have died.", False),
        ("It is what it is.", False),
        ("Is the rope on the bollard frayed?", False),
        ("…!", False),
    ],
)
def test_a_sentence_is_informative_where_it_stands_alone(sentence: str, *, expected: bool) -> None:
    assert is_informative(sentence) is expected
