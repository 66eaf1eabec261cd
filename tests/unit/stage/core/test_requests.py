"""Requests for a change, made of the memories that are there: as a whole, or not at all."""

from dataclasses import replace
from typing import Any

import pytest

from schemas.base import EventId, Position
from schemas.decisions import Ignore, Reason, Revise
from schemas.events import Consolidate, Pin, Rate, Retire, Undo
from schemas.memories import Feedback, Memory, Standing, Superseded, Target
from streams.model.embedding import pack
from streams.model.identity import content_key, decision_id, memory_id, request_id
from streams.model.neighbours import StoredMemory
from streams.stage.core.case import Case, EncodedVector
from streams.stage.core.requests import (
    Held,
    WordingVectors,
    ended,
    made_up_for,
    pinned,
    put_back,
    rated,
)
from tests.builders import MODEL, START, identity, later, memory, policy, stored, unit, worded

PLACE = Position(topic="memory.events", partition=0, offset=7)
POLICY = policy()
TEA = stored("Ana likes tea.", version=3)
CAKE = stored("Ana likes cake.", id=identity(2))
PINNED = stored("Ana is allergic to nuts.", id=identity(3), pinned=True)
ELSEWHERE = stored("Ben likes tea.", id=identity(4), scope="acme/ben")
GONE = StoredMemory(
    memory(
        "Ana liked tea.",
        id=identity(5),
        status="superseded",
        superseded={"by": TEA.memory.id, "at": START, "reason": "same-fact"},
    ),
    unit(1),
)
HELD: Held = {one.memory.id: one for one in (TEA, CAKE, PINNED, ELSEWHERE, GONE)}
ASKED: dict[str, Any] = {
    "event_id": "asked",
    "scope": "acme/ana",
    "author": "cleo",
    "occurred_at": later(5),
}

OWN = memory_id(decision_id(CAKE.memory.scope, EventId(ASKED["event_id"])))
"""The id of the one memory that an undo may begin."""


def retire(*targets: tuple[StoredMemory, int], reason: str = "invalid") -> Retire:
    named = [Target(memory_id=one.memory.id, version=version) for one, version in targets]
    return Retire.model_validate({**ASKED, "memories": named, "reason": reason})


def pin(one: StoredMemory, *, on: bool = True) -> Pin:
    return Pin.model_validate({**ASKED, "memory_id": one.memory.id, "pinned": on})


def rate(one: StoredMemory, **told: int) -> Rate:
    return Rate.model_validate({**ASKED, "memory_id": one.memory.id, **told})


def undo(*memories: Memory) -> Undo:
    return Undo.model_validate({**ASKED, "undoes": ["one"], "memories": memories})


def changed(decision: Revise | Ignore) -> list[Memory]:
    assert isinstance(decision, Revise)
    assert decision.decision_id == decision_id(decision.event.scope, decision.event.event_id)
    assert decision.source == PLACE
    assert decision.policy_id == POLICY.id
    return [revised.memory for revised in decision.memories]


@pytest.mark.covers("B70", "B63", "B64", "B15")
def test_a_memory_that_is_ended_keeps_its_text_and_says_why() -> None:
    [tea] = changed(ended(Case(retire((TEA, 3), reason="expired"), PLACE, POLICY), HELD))
    end = Superseded(by=None, at=later(5), reason="expired")
    assert tea == TEA.memory.model_copy(
        update={"status": Standing.SUPERSEDED, "superseded": end, "version": 4}
    )


@pytest.mark.covers("B71")
def test_of_several_those_end_that_may_and_are_what_was_seen() -> None:
    wish = retire((TEA, 2), (CAKE, 1), (PINNED, 1), (ELSEWHERE, 1), (GONE, 1))
    decision = ended(Case(wish, PLACE, POLICY), HELD)
    assert [one.id for one in changed(decision)] == [CAKE.memory.id]
    assert decision.evidence.reason is Reason.ENDED
    assert decision.evidence.refused == (
        f"{TEA.memory.id}: changed since",
        f"{PINNED.memory.id}: pinned",
        f"{ELSEWHERE.memory.id}: changed since",
        f"{GONE.memory.id}: changed since",
    )
    nothing = ended(Case(retire((PINNED, 1)), PLACE, POLICY), HELD)
    assert isinstance(nothing, Ignore)
    assert nothing.evidence.reason is Reason.OUT_OF_DATE
    assert nothing.evidence.refused == (f"{PINNED.memory.id}: pinned",)


@pytest.mark.covers("B71")
def test_a_memory_is_pinned_and_let_go() -> None:
    decision = pinned(Case(pin(TEA), PLACE, POLICY), HELD)
    assert decision.evidence.reason is Reason.PINNED
    assert changed(decision) == [TEA.memory.model_copy(update={"pinned": True, "version": 4})]
    decision = pinned(Case(pin(PINNED, on=False), PLACE, POLICY), HELD)
    assert decision.evidence.reason is Reason.UNPINNED
    assert [one.pinned for one in changed(decision)] == [False]


@pytest.mark.covers("B71", "B123")
def test_what_is_pinned_already_is_pinned_again_so_that_the_request_counts_once() -> None:
    for wish, known in ((pin(PINNED), PINNED.memory), (pin(TEA, on=False), TEA.memory)):
        [again] = changed(pinned(Case(wish, PLACE, POLICY), HELD))
        assert again == known.model_copy(update={"version": known.version + 1})


def test_what_a_memory_was_good_for_is_added_up() -> None:
    [tea] = changed(rated(Case(rate(TEA, helpful=2, accessed=5), PLACE, POLICY), HELD))
    assert tea.feedback == Feedback(accessed=5, helpful=2)
    known = {TEA.memory.id: StoredMemory(tea, TEA.vector)}
    [tea] = changed(rated(Case(rate(TEA, harmful=1), PLACE, POLICY), known))
    assert (tea.feedback, tea.version) == (Feedback(accessed=5, helpful=2, harmful=1), 5)
    assert rated(Case(rate(TEA), PLACE, POLICY), HELD).evidence.reason is Reason.NOTHING_TO_CHANGE


@pytest.mark.parametrize("one", [ELSEWHERE, GONE, stored("Nobody knows.", id=identity(9))])
def test_what_is_not_live_in_the_scope_is_neither_pinned_nor_rated(one: StoredMemory) -> None:
    for decision in (
        pinned(Case(pin(one), PLACE, POLICY), HELD),
        rated(Case(rate(one, helpful=1), PLACE, POLICY), HELD),
    ):
        assert isinstance(decision, Ignore)
        assert decision.evidence.reason is Reason.OUT_OF_DATE


def as_it_was(one: StoredMemory, text: str, version: int) -> Memory:
    key = content_key(one.memory.scope, "a key that the asker has made up")
    update = {"text": text, "version": version, "content_key": key, "status": Standing.ACTIVE}
    return one.memory.model_copy(update={**update, "superseded": None})


@pytest.mark.covers("C6", "B67")
def test_memories_are_put_back_with_the_key_and_vector_of_their_own_words() -> None:
    worded_so = worded(GONE, ("Tea was liked.", unit(3)))
    [variant] = worded_so.memory.variants
    forged = replace(
        worded_so,
        memory=worded_so.memory.model_copy(
            update={
                "variants": (variant.model_copy(update={"content_key": GONE.memory.content_key}),)
            }
        ),
    )
    back, new = as_it_was(forged, "Ana liked tea.", 2), memory("Ana naps.", id=OWN)
    ending = TEA.memory.model_copy(
        update={
            "version": 4,
            "status": Standing.SUPERSEDED,
            "superseded": Superseded(by=None, at=later(5), reason="undone"),
        }
    )
    encoded = {
        one.id: WordingVectors(
            EncodedVector(unit(n), pack(unit(n), MODEL), truncated=n == 2), of_variants
        )
        for n, one, of_variants in ((1, back, (pack(unit(3), MODEL),)), (2, new, ()))
    }
    decision = put_back(Case(undo(back, new, ending), PLACE, POLICY), HELD, encoded)
    made = changed(decision)
    assert [(one.text, one.version, one.live) for one in made] == [
        ("Ana liked tea.", 2, True),
        ("Ana naps.", 1, True),
        ("Ana likes tea.", 4, False),
    ]
    assert [one.content_key for one in made] == [content_key(o.scope, o.text) for o in made]
    assert [one.truncated for one in made] == [False, True, False]
    assert isinstance(decision, Revise)
    vectors = [revised.embedding for revised in decision.memories]
    shown = [encoded[one.id].shown.embedding for one in (back, new)]
    assert vectors == [*shown, None]
    assert made[0].variants == (variant,)
    assert decision.memories[0].variant_embeddings == (pack(unit(3), MODEL),)


@pytest.mark.parametrize(
    "wrong",
    [
        as_it_was(TEA, "Ana likes tea.", 3),
        as_it_was(TEA, "Ana likes tea.", 5),
        memory("Ana naps.", id=identity(8), version=2),
        memory("Ana naps.", id=identity(8), version=1),
        memory("Ana naps.", id=OWN, version=2),
        memory("Ana likes tea.", id=ELSEWHERE.memory.id, version=2),
    ],
    ids=[
        "already there",
        "ahead",
        "unknown",
        "begun for another",
        "begun late",
        "of another scope",
    ],
)
def test_where_one_of_them_is_not_what_was_seen_nothing_is_put_back(wrong: Memory) -> None:
    decision = put_back(Case(undo(as_it_was(CAKE, "Cake.", 2), wrong), PLACE, POLICY), HELD, {})
    assert isinstance(decision, Ignore)
    assert decision.evidence.reason is Reason.OUT_OF_DATE
    assert decision.evidence.refused == (f"{wrong.id}: changed since",)


def test_a_wish_has_an_id_of_who_asks_for_what_and_when() -> None:
    first = request_id(TEA.memory.scope, "pin", "cleo", START, TEA.memory.id)
    assert first == request_id(TEA.memory.scope, "pin", "cleo", START, TEA.memory.id)
    others = {
        request_id(ELSEWHERE.memory.scope, "pin", "cleo", START, TEA.memory.id),
        request_id(TEA.memory.scope, "rate", "cleo", START, TEA.memory.id),
        request_id(TEA.memory.scope, "pin", "dora", START, TEA.memory.id),
        request_id(TEA.memory.scope, "pin", "cleo", later(1), TEA.memory.id),
        request_id(TEA.memory.scope, "pin", "cleo", START, CAKE.memory.id),
    }
    assert len(others | {first}) == 6


def lacking(what: str) -> StoredMemory:
    return stored(
        "Ana rows on Sundays.", unit(0, 1), id=identity(6), unchecked=what, truncated=True
    )


def make_up_for(one: StoredMemory, *, version: int = 1) -> Consolidate:
    target = Target(memory_id=one.memory.id, version=version)
    return Consolidate.model_validate({**ASKED, "members": [target]})


ROWS = EncodedVector(unit(0, 0, 1), pack(unit(0, 0, 1), MODEL), truncated=False)


def test_a_memory_without_a_vector_gets_it_and_is_still_to_be_compared() -> None:
    known = lacking("not-embedded")
    held = {known.memory.id: known}
    made = made_up_for(Case(make_up_for(known), PLACE, POLICY), held, ROWS)
    assert isinstance(made, Revise)
    [revised] = made.memories
    assert made.evidence.reason is Reason.EMBEDDED
    assert revised.embedding == ROWS.embedding
    after = {"version": 2, "unchecked": "not-compared", "truncated": False}
    assert revised.memory == known.memory.model_copy(update=after)


def test_a_memory_that_was_compared_loses_its_mark_and_nothing_else() -> None:
    known = lacking("not-compared")
    made = made_up_for(Case(make_up_for(known), PLACE, POLICY), {known.memory.id: known}, None)
    assert isinstance(made, Revise)
    [revised] = made.memories
    assert (made.evidence.reason, revised.embedding) == (Reason.CHECKED, None)
    assert revised.memory == known.memory.model_copy(update={"version": 2, "unchecked": None})


@pytest.mark.parametrize(
    ("known", "version", "reason"),
    [
        (lacking("not-embedded"), 1, Reason.UNCHECKED),
        (lacking("not-compared"), 2, Reason.OUT_OF_DATE),
        (CAKE, 1, Reason.NOTHING_TO_CHANGE),
        (ELSEWHERE, 1, Reason.OUT_OF_DATE),
        (GONE, 1, Reason.OUT_OF_DATE),
    ],
    ids=["no vector yet", "changed since", "checked", "of another scope", "gone"],
)
def test_what_cannot_be_made_up_for_is_left_as_it_is(
    known: StoredMemory, version: int, reason: Reason
) -> None:
    held = {known.memory.id: known}
    made = made_up_for(Case(make_up_for(known, version=version), PLACE, POLICY), held, None)
    assert isinstance(made, Ignore)
    assert made.evidence.reason is reason
