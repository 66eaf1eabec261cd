"""Which memories are in conflict: read from the decisions, for as long as both still say it."""

from collections.abc import Sequence

import pytest

from schemas.base import DecisionId, EventId, MemoryId, Position
from schemas.decisions import (
    Band,
    Compared,
    Decision,
    Evidence,
    Insert,
    Reason,
    Reinforce,
    Replace,
    Revise,
    Revised,
    Verdict,
)
from schemas.events import CONTRADICTED_MAX, Answer, Remember, Seen
from schemas.memories import Memory, Superseded, Target
from streams.model.embedding import pack
from streams.model.neighbours import StoredMemory
from streams.stage.core import survivorship
from streams.stage.core.cannot_link import are_apart
from streams.stage.core.case import Case, EncodedVector
from streams.stage.core.decide import recognise, rename, revise
from streams.stage.core.ledger import fold
from streams.stage.core.lineage import Wish, plan
from streams.stage.core.reviewing import answered
from streams.store.core.conflicts import conflicts, newer_first
from tests.builders import MODEL, at_cosine, event, identity, later, memory, policy, unit

NINE = memory("The office opens at 9 am.")
EIGHT = memory("The office opens at 8 am.", id=identity(2), last_seen_at=later(1))
SEVEN = memory("The office opens at 7 am.", id=identity(3), last_seen_at=later(2))


def case(text: str, number: int = 0) -> Case[Remember]:
    said = event(text, event_id=f"event {number}: {text}", occurred_at=later(number))
    return Case(said, Position(topic="memory.events", partition=0, offset=number), policy())


def evidence(*others: Memory, verdict: Verdict = Verdict.CONTRADICTS) -> Evidence:
    return Evidence(
        reason=Reason.CONTRADICTS_KNOWN,
        neighbours=tuple(
            Compared(
                memory_id=other.id,
                version=other.version,
                similarity=0.9,
                band=Band.REVIEW,
                verdict=verdict,
                judge="built-in",
            )
            for other in others
        ),
    )


def insert(known: Memory, because: Evidence) -> Insert:
    asked = case(known.text, int(known.id[-12:]))
    return Insert(
        decision_id=asked.decision_id,
        event=asked.event,
        source=asked.source,
        policy_id=asked.policy.id,
        evidence=because,
        memory=known,
        embedding=pack(unit(1), MODEL),
    )


def made() -> dict[MemoryId, StoredMemory]:
    """Return a state in which two are live that contradict each other."""
    state: dict[MemoryId, StoredMemory] = {}
    fold(state, insert(NINE, Evidence(reason=Reason.NOTHING_NEAR)))
    fold(state, insert(EIGHT, evidence(NINE)))
    return state


def texts(state: dict[MemoryId, StoredMemory]) -> dict[str, list[str]]:
    """Return what each memory is in conflict with, by what they say."""
    found = conflicts(state.values())
    return {state[one].memory.text: [other.text for other in found[one]] for one in found}


def revised(after: Memory) -> Revise:
    asked = case(f"version {after.version}", 9)
    return Revise.model_validate(
        {
            "decision_id": asked.decision_id,
            "event": asked.event,
            "source": asked.source,
            "policy_id": asked.policy.id,
            "evidence": Evidence(reason=Reason.ENDED),
            "memories": ({"memory": after},),
        }
    )


def undone(log: Sequence[Decision], meant: DecisionId, number: int) -> Revise:
    """Return the decision to undo one of these."""
    request = plan(log, meant, Wish("cleo", later(number))).request
    asked = Case(request, case(NINE.text, number).source, policy())
    return revise(asked, Reason.UNDONE, [Revised(memory=one) for one in request.memories])


BOTH = {NINE.text: [EIGHT.text], EIGHT.text: [NINE.text]}


def test_what_was_found_to_contradict_and_stayed_is_told_on_both_sides() -> None:
    assert texts(made()) == BOTH


@pytest.mark.parametrize("verdict", [one for one in Verdict if one is not Verdict.CONTRADICTS])
def test_no_other_verdict_makes_a_conflict(verdict: Verdict) -> None:
    state: dict[MemoryId, StoredMemory] = {}
    fold(state, insert(NINE, Evidence(reason=Reason.NOTHING_NEAR)))
    fold(state, insert(EIGHT, evidence(NINE, verdict=verdict)))
    assert texts(state) == {}


def test_the_last_seen_of_several_comes_first() -> None:
    state = made()
    fold(state, insert(SEVEN, evidence(NINE, EIGHT)))
    assert texts(state)[NINE.text] == [SEVEN.text, EIGHT.text]


@pytest.mark.parametrize("said", [NINE, EIGHT])
def test_it_lasts_while_either_is_only_seen_again(said: Memory) -> None:
    state = made()
    fold(state, recognise(case(said.text, 5), said))
    assert texts(state) == BOTH


@pytest.mark.parametrize("changed", [NINE, EIGHT])
def test_it_ends_where_either_gets_other_words(changed: Memory) -> None:
    state = made()
    words = EncodedVector(at_cosine(0.2), pack(at_cosine(0.2), MODEL), truncated=False)
    fold(state, rename(case("The office is in Bonn.", 5), changed, words))
    assert texts(state) == {}


@pytest.mark.parametrize("gone", [NINE, EIGHT])
def test_it_ends_where_either_is_retired_and_is_back_where_that_is_undone(gone: Memory) -> None:
    state = made()
    ended = Superseded(by=None, at=later(9), reason="invalid")
    fold(state, revised(survivorship.retired(gone, ended)))
    assert texts(state) == {}
    fold(state, revised(gone.model_copy(update={"version": 3})))
    assert texts(state) == BOTH


def test_undoing_a_replacement_leaves_both_in_conflict() -> None:
    state: dict[MemoryId, StoredMemory] = {}
    fold(state, insert(NINE, Evidence(reason=Reason.NOTHING_NEAR)))
    targets = (Target(memory_id=NINE.id, version=NINE.version),)
    made_of = dict(insert(EIGHT, evidence(NINE))) | {"kind": "replace", "targets": targets}
    fold(state, Replace.model_validate(made_of))
    assert texts(state) == {}
    fold(state, revised(NINE.model_copy(update={"version": 3})))
    assert texts(state) == BOTH


def test_a_known_fact_that_is_said_again_beside_its_contradiction_is_in_conflict() -> None:
    """Of a reinforcement the comparison with the other memory counts as well."""
    state: dict[MemoryId, StoredMemory] = {}
    fold(state, insert(NINE, Evidence(reason=Reason.NOTHING_NEAR)))
    fold(state, insert(EIGHT, Evidence(reason=Reason.DISTINCT)))
    asked = case("The office opens at eight.", 5)
    again = Reinforce(
        decision_id=asked.decision_id,
        event=asked.event,
        source=asked.source,
        policy_id=asked.policy.id,
        evidence=evidence(NINE),
        memory=EIGHT.model_copy(update={"version": 2}),
        target={"memory_id": EIGHT.id, "version": 1},  # pyright: ignore[reportArgumentType] - read as one
    )
    fold(state, again)
    assert texts(state) == BOTH


def both_right(newer: Memory, older: Memory) -> Revise:
    """Return the decision on the answer of a person who found two memories distinct."""
    said = Answer(
        event_id=EventId("answer"),
        scope=newer.scope,
        review_id="r1",
        newer=Seen(memory_id=newer.id, content_key=newer.content_key),
        older=Seen(memory_id=older.id, content_key=older.content_key),
        verdict="distinct",
        author="cleo",
        occurred_at=later(9),
    )
    held = (StoredMemory(newer, unit(1)), StoredMemory(older, unit(1)))
    decision = answered(Case(said, case(newer.text).source, policy()), *held, MODEL)
    assert isinstance(decision, Revise)
    return decision


def test_it_ends_where_a_person_finds_both_right_whatever_a_judge_thinks_later() -> None:
    state = made()
    fold(state, both_right(EIGHT, NINE))
    assert texts(state) == {}
    again = recognise(case(EIGHT.text, 10), state[EIGHT.id].memory)
    fold(state, again.model_copy(update={"evidence": evidence(state[NINE.id].memory)}))
    assert texts(state) == {}


def test_it_is_back_where_the_answer_is_undone_and_ends_where_that_is_undone() -> None:
    state = made()
    log: list[Decision] = [insert(NINE, Evidence(reason=Reason.NOTHING_NEAR))]
    log += [insert(EIGHT, evidence(NINE)), both_right(EIGHT, NINE)]
    fold(state, log[-1])
    log.append(undone(log, log[-1].decision_id, 20))
    fold(state, log[-1])
    assert texts(state) == BOTH
    assert not are_apart(state[NINE.id].memory, state[EIGHT.id].memory)
    fold(state, undone(log, log[-1].decision_id, 21))
    assert texts(state) == {}
    assert are_apart(state[NINE.id].memory, state[EIGHT.id].memory)


def test_it_is_back_where_an_undo_of_an_earlier_decision_takes_the_answer_with_it() -> None:
    state = made()
    log: list[Decision] = [insert(NINE, Evidence(reason=Reason.NOTHING_NEAR))]
    log += [insert(EIGHT, evidence(NINE)), recognise(case(NINE.text, 5), NINE)]
    fold(state, log[-1])
    log.append(both_right(EIGHT, state[NINE.id].memory))
    fold(state, log[-1])
    fold(state, undone(log, log[2].decision_id, 20))
    assert texts(state) == BOTH
    assert not are_apart(state[NINE.id].memory, state[EIGHT.id].memory)


def test_what_an_undo_took_apart_is_in_conflict_again_where_an_answer_is_undone() -> None:
    """Both stand on different sides of the undo, too: which tells nothing of who is right."""
    state: dict[MemoryId, StoredMemory] = {}
    log: list[Decision] = [insert(NINE, Evidence(reason=Reason.NOTHING_NEAR))]
    targets = (Target(memory_id=NINE.id, version=NINE.version),)
    made_of = dict(insert(EIGHT, evidence(NINE))) | {"kind": "replace", "targets": targets}
    log.append(Replace.model_validate(made_of))
    log.append(undone(log, log[1].decision_id, 20))
    for one in log:
        fold(state, one)
    assert are_apart(state[NINE.id].memory, state[EIGHT.id].memory)
    assert texts(state) == BOTH
    log.append(both_right(state[EIGHT.id].memory, state[NINE.id].memory))
    fold(state, log[-1])
    assert texts(state) == {}
    fold(state, undone(log, log[-1].decision_id, 21))
    assert texts(state) == BOTH


def test_it_is_back_where_the_other_says_something_else_that_contradicts() -> None:
    state = made()
    fold(state, both_right(EIGHT, NINE))
    words = EncodedVector(at_cosine(0.2), pack(at_cosine(0.2), MODEL), truncated=False)
    said = case("The office opens at ten.", 10)
    fold(state, rename(said, state[NINE.id].memory, words))
    again = recognise(case(EIGHT.text, 11), state[EIGHT.id].memory)
    fold(state, again.model_copy(update={"evidence": evidence(state[NINE.id].memory)}))
    assert texts(state) == {said.event.text: [EIGHT.text], EIGHT.text: [said.event.text]}


def test_an_answer_about_another_pair_ends_nothing() -> None:
    state = made()
    fold(state, insert(SEVEN, Evidence(reason=Reason.NOTHING_NEAR)))
    fold(state, both_right(SEVEN, NINE))
    assert texts(state) == BOTH


def test_a_memory_remembers_the_newest_of_many_that_it_contradicts() -> None:
    state = made()
    others = [
        memory(f"The office opens at {n} pm.", id=identity(10 + n))
        for n in range(CONTRADICTED_MAX + 2)
    ]
    for version, other in enumerate(others, start=2):
        fold(state, insert(other, Evidence(reason=Reason.NOTHING_NEAR)))
        seen = EIGHT.model_copy(update={"version": version})
        before = state[EIGHT.id].memory
        asked = recognise(case(EIGHT.text, 20 + version), before)
        fold(state, asked.model_copy(update={"evidence": evidence(other), "memory": seen}))
    assert len(state[EIGHT.id].contradicted) == CONTRADICTED_MAX
    assert texts(state)[others[-1].text] == [EIGHT.text]
    assert others[0].text not in texts(state)


def ranked(*places: Memory, pairs: Sequence[tuple[Memory, Memory]]) -> list[str]:
    """Return what is said, in the order in which results are shown."""
    known: dict[MemoryId, list[Memory]] = {}
    for one, other in pairs:
        known.setdefault(one.id, []).append(other)
        known.setdefault(other.id, []).append(one)
    shown = newer_first(places, lambda one: [one], known, later(1_000))
    return [one.text for one in shown]


OTHER = memory("The office is in Bonn.", id=identity(4), last_seen_at=later(9))
SIX = memory("The office opens at 6 am.", id=identity(5), last_seen_at=later(3))


def test_the_newer_stands_directly_before_the_older_and_the_rest_stays_where_it_is() -> None:
    pairs = [(EIGHT, NINE)]
    assert ranked(NINE, OTHER, EIGHT, pairs=pairs) == [EIGHT.text, NINE.text, OTHER.text]
    assert ranked(EIGHT, OTHER, NINE, pairs=pairs) == [EIGHT.text, OTHER.text, NINE.text]
    assert ranked(OTHER, NINE, EIGHT, pairs=pairs) == [OTHER.text, EIGHT.text, NINE.text]


def test_of_a_chain_of_conflicts_the_newest_comes_first() -> None:
    """The oldest is in conflict with the newest by way of others only."""
    pairs = [(EIGHT, NINE), (SEVEN, EIGHT), (SIX, SEVEN)]
    newest_first = [SIX.text, SEVEN.text, EIGHT.text, NINE.text]
    assert ranked(NINE, EIGHT, SEVEN, SIX, pairs=pairs) == newest_first
    assert ranked(NINE, SIX, EIGHT, SEVEN, pairs=pairs) == newest_first


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ({"pinned": True}, {}),
        ({}, {"status": "tentative"}),
        ({"persistence": "core"}, {"persistence": "ephemeral"}),
        ({}, {"last_seen_at": later(2_000)}),
        ({}, {"last_seen_at": NINE.last_seen_at}),
    ],
    ids=["pinned", "tentative", "shorter-lived", "still to come", "as old"],
)
def test_what_a_newer_memory_could_not_replace_does_not_yield_to_it(
    older: dict[str, object], newer: dict[str, object]
) -> None:
    nine = Memory.model_validate({**dict(NINE), **older})
    eight = Memory.model_validate({**dict(EIGHT), **newer})
    assert ranked(nine, eight, pairs=[(eight, nine)]) == [NINE.text, EIGHT.text]


def test_a_result_of_several_memories_is_as_new_as_the_newest_of_them() -> None:
    known = {NINE.id: [EIGHT], EIGHT.id: [NINE]}
    results = [[NINE, SIX], [EIGHT]]
    assert newer_first(results, list, known, later(1_000)) == results
    assert newer_first([[NINE], [EIGHT, SIX]], list, known, later(1_000)) == [[EIGHT, SIX], [NINE]]
