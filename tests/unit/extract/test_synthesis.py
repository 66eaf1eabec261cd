"""One memory of a turn in a model's words: what it sees, and what of its answer is taken."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.events import Remember
from schemas.memories import Persistence
from streams.extract.core.looking import ExaminedTurn
from streams.extract.core.synthesis import (
    ANSWER,
    Abstention,
    KnownMemory,
    Material,
    RejectedAnswer,
    event_id_of,
    shown,
    understood,
)
from streams.extract.core.triggers import FiredTrigger, Trigger
from streams.extract.core.utterances import recalled_in
from streams.model.identity import decision_id, memory_id
from tests.builders import event, identity, memory, turn

OAR, BOAT, GULL = identity(1), identity(2), identity(3)
PIER = {"id": 4, "name": "Pier"}
TURN = turn(
    ("recalled", "The oar is under the bench."),
    ("model", "take oar"),
    ("world", "The oar is nailed to the bench."),
    turn_id="t-9",
    number=9,
    session="2",
    state={"location_before": PIER, "died": True},
)
KNOWN = (
    KnownMemory.of(memory("The oar is under the bench.", id=OAR, title="Oar", status="tentative")),
    KnownMemory.of(memory("The boat leaks.", id=BOAT, persistence="core", category="DANGER")),
    KnownMemory.of(memory("A gull sits on the bench.", id=GULL)),
)
ANSWERED: dict[str, Any] = {
    "reasoning": "The oar cannot be taken: new.",
    "should_remember": True,
    "category": "failure",
    "memory_title": "Oar is nailed down",
    "memory_text": "On the pier, the oar cannot be taken: it is nailed to the bench.",
    "said_by": "world",
    "persistence": "permanent",
    "status": "active",
    "supersedes": [],
    "invalidates": [],
}


def material(*, retired_max: int = 3, **fields: Any) -> Material:
    looked: dict[str, Any] = {
        "turn": TURN,
        "fired": (FiredTrigger(Trigger.DEATH, "died in this turn"),),
        "heard": (),
        "earlier": (),
        "recalled": recalled_in([TURN]),
        **fields,
    }
    return Material(ExaminedTurn(**looked), KNOWN, retired_max)


def answer(**fields: Any) -> Remember | Abstention | RejectedAnswer:
    return understood(ANSWERED | fields, material())


def refused(**fields: Any) -> str:
    found = answer(**fields)
    assert isinstance(found, RejectedAnswer)
    return found.reason


@pytest.mark.covers("S3.19", "B94")
def test_the_model_sees_the_turn_and_what_is_known() -> None:
    before = turn(("user", "x" * 3_000), number=8)
    assert shown(material(earlier=(before,))) == {
        "place": PIER,
        "known": [
            {
                "id": OAR,
                "title": "Oar",
                "text": "The oar is under the bench.",
                "status": "tentative",
            },
            {
                "id": BOAT,
                "category": "DANGER",
                "text": "The boat leaks.",
                "status": "active",
                "persistence": "core",
            },
            {"id": GULL, "text": "A gull sits on the bench.", "status": "active"},
        ],
        "earlier": [{"turn": 8, "said": [{"by": "user", "text": "x" * 2_000}]}],
        "now": {
            "turn": 9,
            "day": "2026-03-01",
            "said": [
                {"by": "recalled", "text": "The oar is under the bench."},
                {"by": "model", "text": "take oar"},
                {"by": "world", "text": "The oar is nailed to the bench."},
            ],
            "changed": ["died in this turn"],
            "state": {"location_before": PIER, "died": True},
        },
    }


def test_the_model_is_told_what_was_wrong_before() -> None:
    told = shown(material(), "text is blank; fill it in")
    assert isinstance(told, dict)
    assert told["refused"] == "text is blank; fill it in"


@pytest.mark.covers("S3.20", "S3.52", "B98")
def test_an_answer_becomes_an_event() -> None:
    made = answer(supersedes=[OAR], invalidates=[{"id": GULL, "reason": "There is no gull."}])
    assert isinstance(made, Remember)
    assert made.event_id == event_id_of(TURN)
    assert (made.text, made.title) == (ANSWERED["memory_text"], "Oar is nailed down")
    assert (made.category, made.source) == ("FAILURE", "world")
    assert (made.persistence, made.status) == (Persistence.PERMANENT, "active")
    assert (made.turn, made.session) == (9, "2")
    assert made.supersedes == (OAR, GULL)
    assert made.metadata == {
        "turn_id": "t-9",
        "triggers": ["death"],
        "location": 4,
        "location_name": "Pier",
        "reasoning": "The oar cannot be taken: new.",
        "invalidates": {GULL: "There is no gull."},
    }


@pytest.mark.covers("S3.21")
def test_the_documents_own_answer_is_taken() -> None:
    """Its five keys and no others: it rests on what the world said, and holds in later sessions."""
    example: dict[str, Any] = {
        "should_remember": True,
        "category": "FAILURE",
        "memory_title": "Take or break window",
        "memory_text": "Window is part of house structure - cannot be taken, moved, or broken.",
        "reasoning": "Invalid actions worth remembering to prevent repetition",
    }
    made = understood(example, material())
    assert isinstance(made, Remember)
    assert (made.category, made.title) == ("FAILURE", "Take or break window")
    assert made.text == example["memory_text"]
    assert made.metadata["reasoning"] == example["reasoning"]
    assert (made.source, made.persistence, made.status) == ("world", "permanent", "active")
    assert example.keys() <= set(ANSWERED), "and the model is asked for these keys"


def test_who_said_it_is_asked_for_where_several_may_have() -> None:
    several = turn(("user", "Try the oar."), ("world", "The oar is nailed down."))
    refused = understood(ANSWERED | {"said_by": ""}, material(turn=several))
    assert refused == RejectedAnswer("said_by is blank; fill it in")
    alone = understood(ANSWERED | {"said_by": ""}, material(turn=turn(("model", "take oar"))))
    assert alone == RejectedAnswer("said_by is blank; fill it in")


@pytest.mark.covers("B123")
def test_a_turn_has_one_event_whatever_is_said_of_it_and_a_mended_one_another() -> None:
    other = answer(memory_text="The oar on the pier is nailed down.")
    assert isinstance(other, Remember)
    assert other.event_id == event_id_of(TURN)
    assert event_id_of(TURN.model_copy(update={"number": 10})) != other.event_id


@pytest.mark.covers("S3.20")
def test_nothing_is_remembered_where_the_model_says_so() -> None:
    silent: dict[str, Any] = {"should_remember": False, "reasoning": "Known already."}
    assert understood(silent, material()) == Abstention("Known already.")
    assert answer(should_remember=False) == Abstention(ANSWERED["reasoning"])


@pytest.mark.covers("B97", "C12")
def test_a_text_that_was_recalled_makes_no_event() -> None:
    found = answer(memory_text="The oar is under the bench!")
    assert found == Abstention("says only what was recalled into the prompt")


@pytest.mark.covers("B35")
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"supersedes": [identity(9)]}, "1 of the ids to be retired are none of known"),
        ({"supersedes": ["Oar"]}, "1 of the ids to be retired are none of known"),
        (
            {"supersedes": [OAR], "invalidates": [{"id": OAR, "reason": "gone"}]},
            "both supersedes and invalidates",
        ),
        ({"supersedes": [OAR, OAR]}, "named twice"),
        ({"invalidates": [{"id": OAR, "reason": " "}]}, "a reason in invalidates is blank"),
        ({"invalidates": [{"id": OAR}]}, "invalidates.0.reason: Field required"),
        ({"invalidates": [{"id": OAR, "reason": "x" * 201}]}, "invalidates.0.reason: "),
        ({"supersedes": [BOAT]}, "persistence permanent is weaker"),
        ({"should_remember": False, "supersedes": [OAR]}, "nothing is remembered"),
        (
            {"should_remember": False, "invalidates": [{"id": OAR, "reason": "gone"}]},
            "say in memory_text what holds instead",
        ),
    ],
)
def test_memories_are_retired_only_as_they_may_be(fields: dict[str, Any], reason: str) -> None:
    assert reason in refused(**fields)


def test_no_more_memories_are_retired_than_may_be() -> None:
    asked: dict[str, Any] = ANSWERED | {"supersedes": [OAR, GULL]}
    found = understood(asked, material(retired_max=1))
    assert found == RejectedAnswer("2 memories are to be retired; at most 1 may be")
    assert isinstance(understood(asked, material(retired_max=2)), Remember)


@pytest.mark.covers("S3.52")
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"reasoning": "x" * 501}, "reasoning: String should have at most 500 characters"),
        ({"reasoning": "  "}, "reasoning is blank"),
        ({"memory_title": "x" * 101}, "memory_title: "),
        ({"memory_text": "x" * 801}, "memory_text: "),
        ({"memory_text": " "}, "memory_text is blank"),
        ({"memory_title": ""}, "memory_title is blank"),
        ({"category": ""}, "category is blank"),
        ({"category": "A] - B"}, "category has marks in it"),
        ({"said_by": "user"}, "said_by is user, who says nothing in this turn"),
        ({"said_by": "recalled"}, "said_by: should be"),
        ({"persistence": "eternal"}, "persistence: should be"),
        ({"status": "superseded"}, "status: should be"),
        ({"should_remember": "true"}, "should_remember: "),
        ({"supersedes": OAR}, "supersedes: "),
        ({"mood": "good"}, "mood: Extra inputs are not permitted"),
        ({"memory_title": "two\nlines"}, "memory_title: contains the character U+000A"),
        ({"memory_text": "half a \ud800 character"}, ""),
    ],
)
def test_an_answer_that_is_not_right_is_refused(fields: dict[str, Any], reason: str) -> None:
    assert reason in refused(**fields)


@given(st.dictionaries(st.sampled_from(list(ANSWERED)), st.text() | st.none() | st.integers()))
def test_whatever_is_answered_is_an_event_or_told_in_one_line(fields: dict[str, Any]) -> None:
    found = answer(**fields)
    if isinstance(found, RejectedAnswer):
        assert found.reason.isprintable()
        assert len(found.reason) < 300
    elif isinstance(found, Remember):
        assert found.scope == TURN.scope


def test_the_schema_asks_for_all_that_is_read() -> None:
    properties = ANSWER["properties"]
    required = ANSWER["required"]
    assert isinstance(properties, dict)
    assert isinstance(required, list)
    assert set(properties) == set(ANSWERED) == set(required)
    assert json.dumps(ANSWER)


def test_an_event_is_shown_with_the_id_that_its_memory_will_have() -> None:
    coming = KnownMemory.of(event("Ana rows.", event_id="e-1", category="FACT"))
    assert coming.id == memory_id(decision_id("acme/ana", "e-1"))
    assert (coming.text, coming.category, coming.status) == ("Ana rows.", "FACT", "active")
