"""Events without a language model."""

from typing import Any

import pytest

from schemas.codec import EVENT, TURN
from schemas.events import Remember
from schemas.turns import Turn
from streams.extract.core.looking import look
from streams.extract.core.sentences import events_of, is_informative
from streams.extract.core.stating import only_names
from streams.extract.core.triggers import Trigger, TriggerRules
from streams.extract.core.window import Window
from tests.builders import START, turn
from tests.support.stage.deciding import lexicon

PIER = {"id": 4, "name": "Pier"}
SHED = {"id": 5, "name": "Shed"}
ROPE = "The rope on the bollard is frayed."


def taken(said: Turn, rules: TriggerRules = TriggerRules()) -> tuple[Remember, ...]:  # noqa: B008 - frozen
    return events_of(look(said, 1, Window(0), rules), lexicon())


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
        "location": 5,
        "location_name": "Shed",
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
    without = TriggerRules(on=frozenset({Trigger.FACT}))
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


HOUSE = {"id": 15, "name": "West of House"}
ROOM = {"id": 23, "name": "Living Room"}
MOVED = {"location_before": HOUSE, "location_after": ROOM}


@pytest.mark.covers("S3.8")
@pytest.mark.parametrize(
    ("state", "scope", "place"),
    [
        pytest.param(MOVED, "zork", 23, id="a move: the room entered"),
        pytest.param(MOVED | {"died": True}, "zork", 15, id="a death: where it happened"),
        pytest.param({"location_before": HOUSE}, "zork", 15, id="it stays where it is"),
        pytest.param({"location_after": ROOM}, "zork", 23, id="nobody knows where it was"),
        pytest.param(MOVED, "zork/15", 15, id="a producer files it under the room left"),
        pytest.param(MOVED, "zork/23", 23, id="a producer files it under the room entered"),
    ],
)
def test_what_follows_a_move_is_of_the_room_entered(
    state: dict[str, Any], scope: str, place: int
) -> None:
    said = turn(
        ("model", "west"), ("world", ROPE), scope=scope, state=state | {"first_visit": True}
    )
    assert [event.metadata["location"] for event in taken(said)] == [place]


@pytest.mark.covers("S3.16")
def test_of_a_room_its_name_is_no_memory_and_its_description_is() -> None:
    field = "You are standing in an open field west of a white house, with a boarded front door."
    said = turn(("world", f"West of House\n{field}\nA small mailbox."), state={"first_visit": True})
    assert texts(said) == [field]


@pytest.mark.covers("S3.16", "S3.12")
@pytest.mark.parametrize(
    ("said", "text"),
    [
        ((("model", "take lantern"), ("world", "Taken.")), "take lantern: Taken."),
        ((("model", "I need light.\ntake lantern"), ("world", "Taken.")), "take lantern: Taken."),
        ((("model", "go west"), ("world", "Living Room")), "go west: Living Room"),
        ((("world", "Taken."),), "Taken."),
        ((("model", "pull rope"), ("world", f"Oh! {ROPE}")), ROPE),
    ],
)
def test_taken_with_a_change_of_the_score_is_a_memory_of_what_was_done(
    said: tuple[tuple[str, str], ...], text: str
) -> None:
    """The document's Acquire brass lantern, which was worth five points."""
    [event] = taken(turn(*said, state={"score_before": 0, "score_after": 5}))
    assert (event.text, event.category, event.source) == (text, "SUCCESS", "world")
    assert event.metadata["score"] == 5


@pytest.mark.parametrize(
    "state",
    [
        {"score_before": 5, "score_after": 5, "first_visit": True},
        {"inventory_before": [], "inventory_after": ["lantern"]},
    ],
)
def test_taken_without_one_is_none(state: dict[str, Any]) -> None:
    assert texts(turn(("model", "take lantern"), ("world", "Taken."), state=state)) == []


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("West of House.", True),
        ("West of House", True),
        ("North of the white house", True),
        ("Entrance to Hades", True),
        ("Land of the Living Dead", True),
        ("A sword of great antiquity.", True),
        ("A brass lantern and a leaflet.", True),
        ("West exit leads to Kitchen.", False),
        ("Violence not effective.", False),
        ("There is a small mailbox here.", False),
        ("That's not something you can take.", False),
        ("The keepers sleep upstairs.", False),
        ("Mind the third step.", False),
        ("Total price: 35 euros", False),
        ("Der Hund bellt laut im Hof", False),
    ],
)
def test_a_sentence_without_a_verb_only_names_things(sentence: str, *, expected: bool) -> None:
    """What is not English is left to whoever reads it."""
    assert only_names(sentence, lexicon()) is expected


def test_what_a_user_asks_to_remember_needs_no_verb() -> None:
    assert texts(turn(("user", "Please remember: the dentist in the old town."))) == [
        "The dentist in the old town."
    ]


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
