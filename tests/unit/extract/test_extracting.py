"""What extraction knows while it works through turns, and the turns it reads."""

import pytest

from schemas.base import TEXT_MAX, ScopeName
from schemas.codec import TURN, Unreadable
from streams.extract.core.notes import Notes
from streams.model.identity import decision_id, memory_id
from streams.stage.core.mapping import scope_of_turns
from tests.builders import event, identity, later, memory, turn

ANA = ScopeName("acme/ana")
OLD = memory("The oar is here.", id=identity(1), last_seen_at=later(1))
NEW = memory("The boat leaks.", id=identity(2), last_seen_at=later(2))
GONE = memory(
    "The tide is low.",
    id=identity(3),
    status="superseded",
    superseded={"by": identity(1), "at": later(1), "reason": "it rose"},
)


def texts(notes: Notes) -> list[str]:
    return [known.text for known in notes.of(ANA)]


def test_those_seen_last_are_shown_and_what_was_taken_comes_behind_them() -> None:
    notes = Notes([NEW, OLD, GONE], [event("A gull sits here.")], known_max=10)
    assert texts(notes) == ["The oar is here.", "The boat leaks.", "A gull sits here."]
    assert texts(Notes([NEW, OLD], known_max=1)) == ["The boat leaks."]
    assert texts(Notes([NEW, OLD])) == []
    assert notes.of(ScopeName("acme/bo")) == ()


def test_what_an_event_retires_is_shown_no_more() -> None:
    notes = Notes([NEW, OLD], known_max=10)
    notes.add(event("The oar is gone.", supersedes=(OLD.id,)))
    assert texts(notes) == ["The boat leaks.", "The oar is gone."]


def test_what_says_the_same_or_is_in_the_store_already_is_shown_once() -> None:
    taken = event("A gull sits here.", event_id="e-1")
    stored = memory_id(decision_id(ANA, taken.event_id))
    retired = GONE.model_copy(update={"id": stored})
    notes = Notes([OLD, retired], [taken, event("THE OAR IS HERE.")], known_max=10)
    assert [known.id for known in notes.of(ANA)] == [OLD.id]
    assert notes.taken(ANA, taken.event_id)
    assert not notes.taken(ScopeName("acme/bo"), taken.event_id)


@pytest.mark.parametrize("template", ["a/*", "", "a//b", "a/{room}", "a/{location", "a/{}"])
def test_a_scope_for_turns_is_one_exact_place(template: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        scope_of_turns(template)


def test_a_turn_is_as_long_as_a_memory_at_most() -> None:
    half = "x" * (TEXT_MAX // 2)
    whole = turn(("user", half), ("model", half))
    assert TURN.decode(TURN.encode(whole)) == whole
    longer = TURN.encode(whole).replace(b'"by":"user","text":"', b'"by":"user","text":"y')
    with pytest.raises(Unreadable, match="said holds 65537 characters in all") as refused:
        TURN.decode(longer)
    assert refused.value.field == "said"


@pytest.mark.parametrize(
    ("spelt", "reason"),
    [
        (b'"by":"system"', "said.0.by should be"),
        (b'"by":"user","when":1', "said.0.when is not a field"),
    ],
)
def test_a_turn_has_known_speakers_and_fields(spelt: bytes, reason: str) -> None:
    with pytest.raises(Unreadable, match=reason):
        TURN.decode(TURN.encode(turn(("user", "Hello."))).replace(b'"by":"user"', spelt))
