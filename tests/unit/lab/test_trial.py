from math import log
from typing import Any

import pytest

from schemas.base import DecisionId, MemoryId, PolicyId, Position
from schemas.decisions import (
    Band,
    Compared,
    Decision,
    Evidence,
    Ignore,
    Insert,
    Merge,
    Reason,
    Reinforce,
    Replace,
    Verdict,
)
from schemas.memories import Memory, Standing, Superseded, Target
from streams.lab.core.grading import Grade, Truth
from streams.lab.core.measures import Proportion
from streams.lab.core.trial import (
    ComparedPair,
    Effect,
    Fate,
    Trial,
    agrees,
    borderline,
    examples,
    not_told_apart,
    recommended,
)
from streams.model.embedding import pack
from streams.store.app import policies
from tests.builders import MODEL, START, event, identity, later, memory, unit

OPEN, CLOSED = "The gate is open.", "The gate is closed."
POLICY = policies.load("default")
EMBEDDING = pack(unit(1), MODEL)


def at(number: int) -> MemoryId:
    return MemoryId(identity(number))


def trial(*decisions: Decision, name: str = "default") -> Trial:
    made = Trial(name, POLICY)
    made.take(decisions)
    return made


def decided(kind: type[Any], text: str, reason: Reason, **fields: Any) -> Any:
    near: tuple[Compared, ...] = fields.pop("near", ())
    said = event(text, occurred_at=fields.pop("at", START))
    return kind(
        decision_id=DecisionId(f"decision on {text}"[:60]),
        event=said,
        source=Position(topic="memory.events", partition=0, offset=0),
        policy_id=PolicyId("default-000000000000"),
        evidence=Evidence(reason=reason, neighbours=near),
        **fields,
    )


def inserted(text: str, number: int, *near: Compared, **fields: Any) -> Insert:
    kept: Memory = fields.pop("memory", memory(text, id=at(number)))
    reason = fields.pop("reason", Reason.DISTINCT)
    return decided(Insert, text, reason, memory=kept, embedding=EMBEDDING, near=near, **fields)


def compared(number: int, verdict: Verdict, one: float, contradicts: float = 0.0) -> Compared:
    rest = round(1 - one - contradicts, 5)
    told = {Verdict.SAME: one, Verdict.CONTRADICTS: contradicts, Verdict.DISTINCT: rest}
    return Compared(
        memory_id=at(number),
        version=1,
        similarity=0.9,
        band=Band.REVIEW,
        verdict=verdict,
        judge="built-in",
        probabilities=told,
    )


def test_a_row_of_its_own_is_kept_and_a_repeat_is_joined() -> None:
    again = decided(
        Reinforce,
        CLOSED.upper(),
        Reason.SAME_FACT,
        memory=memory(CLOSED, id=at(1), version=2),
        target=Target(memory_id=at(1), version=1),
    )
    made = trial(inserted(CLOSED, 1), again)
    assert dict(made.fates) == {Fate.KEPT: 1, Fate.JOINED: 1}
    assert made.effects == [Effect(Fate.JOINED, "acme/ana", CLOSED.upper(), (CLOSED,), CLOSED)]


def test_what_is_merged_says_which_text_then_stands() -> None:
    longer = "The gate is closed at night."
    merge = decided(
        Merge,
        longer,
        Reason.ADDS_TO_KNOWN,
        memory=memory(longer, id=at(2)),
        embedding=EMBEDDING,
        event_embedding=EMBEDDING,
        targets=(Target(memory_id=at(1), version=1),),
    )
    [effect] = trial(inserted(CLOSED, 1), merge).effects
    assert (effect.fate, effect.others, effect.stands) == (Fate.JOINED, (CLOSED,), longer)


def test_the_newer_of_two_stands_whichever_came_first() -> None:
    newer = decided(
        Replace,
        CLOSED,
        Reason.NEWER_CONTRADICTION,
        memory=memory(CLOSED, id=at(2)),
        embedding=EMBEDDING,
        targets=(Target(memory_id=at(1), version=1),),
    )
    [effect] = trial(inserted(OPEN, 1), newer).effects
    assert (effect.fate, effect.others, effect.stands) == (Fate.REPLACED, (OPEN,), CLOSED)
    gone = Superseded(by=at(1), at=START, reason=Reason.OLDER_CONTRADICTION.value)
    late = inserted(
        OPEN,
        2,
        compared(1, Verdict.CONTRADICTS, 0.0, 0.99),
        memory=memory(OPEN, id=at(2), status=Standing.SUPERSEDED, superseded=gone),
        reason=Reason.OLDER_CONTRADICTION,
    )
    [effect] = trial(inserted(CLOSED, 1), late).effects
    assert (effect.fate, effect.others, effect.stands) == (Fate.REPLACED, (CLOSED,), CLOSED)


def test_what_contradicts_a_memory_beside_it_is_in_conflict() -> None:
    second = inserted(CLOSED, 2, compared(1, Verdict.CONTRADICTS, 0.0, 0.9))
    [effect] = trial(inserted(OPEN, 1), second).effects
    assert (effect.fate, effect.others) == (Fate.IN_CONFLICT, (OPEN,))


def test_a_row_that_came_before_is_skipped_and_one_that_the_brake_keeps_is_told() -> None:
    skipped = decided(Ignore, OPEN, Reason.SAME_EVENT)
    made = trial(skipped, inserted(OPEN, 1, reason=Reason.BRAKED))
    assert (made.skipped, made.braked, dict(made.fates)) == (1, 1, {Fate.KEPT: 1})


def test_a_pair_lies_at_the_distance_from_the_threshold_that_it_is_nearest_to() -> None:
    judges = POLICY.judges
    on_joining = compared(1, Verdict.SAME, judges.one_memory_min)
    on_replacing = compared(1, Verdict.CONTRADICTS, 0.0, judges.supersede_min)
    below = compared(1, Verdict.UNSURE, 0.5)
    for near, margin in (
        (on_joining, 0.0),
        (on_replacing, 0.0),
        (below, -log(judges.one_memory_min / (1 - judges.one_memory_min))),
    ):
        [found] = trial(inserted(OPEN, 1), inserted(CLOSED, 2, near)).near
        assert (found.newer, found.older) == (CLOSED, OPEN)
        assert found.margin == pytest.approx(margin, abs=0.001)


def test_what_was_said_later_is_the_newer_of_a_pair() -> None:
    first = inserted(OPEN, 1, memory=memory(OPEN, id=at(1), last_seen_at=later(1)))
    [found] = trial(first, inserted(CLOSED, 2, compared(1, Verdict.UNSURE, 0.5))).near
    assert (found.newer, found.older) == (OPEN, CLOSED)


def near(name: str, margin: float, older: str = "") -> ComparedPair:
    return ComparedPair("acme/ana", name, older or f"older {name}", margin)


def test_the_pairs_nearest_to_a_threshold_come_from_both_sides_of_it() -> None:
    above = [near(f"above {n}", n / 10) for n in range(5)]
    below = [near(f"below {n}", -n / 10) for n in range(1, 5)]
    asked = borderline([*above, *below], [], 4)
    assert [one.margin for one in asked] == [0.0, 0.1, -0.1, -0.2]
    assert len(borderline([*above, *below[:1]], [], 4)) == 4
    assert borderline([], [], 4) == []


def test_what_is_far_or_answered_is_not_asked_and_no_text_too_often() -> None:
    pairs = [near("far", 3.5), near("known", 0.1), near("turned", 0.2)]
    assert borderline(pairs, [("known", "older known"), ("older turned", "turned")], 4) == []
    often = [near(f"row {n}", n / 10, older="the one") for n in range(5)]
    assert [one.newer for one in borderline(often, [], 4)] == ["row 0", "row 1"]


def of(name: str, *texts: str) -> Trial:
    made = Trial(name, POLICY)
    made.effects += [Effect(Fate.JOINED, "acme/ana", text, (), text) for text in texts]
    return made


def test_examples_are_such_as_all_agree_on_and_such_as_only_some_do() -> None:
    trials = [of("careful", "a"), of("thorough", "a", "b", "b", "c")]
    found = examples(trials, Fate.JOINED)
    assert [(one.effect.text, one.policies) for one in found] == [
        ("b", ("thorough",)),
        ("a", ("careful", "thorough")),
        ("c", ("thorough",)),
    ]
    assert examples(trials, Fate.REPLACED) == []


@pytest.mark.parametrize(
    ("truth", "grade", "agreed"),
    [
        (Truth.SAME, Grade(found=True), True),
        (Truth.REFINES, Grade(found=False, kept_twice=True), False),
        (Truth.CONTRADICTS, Grade(hidden=False, superseded=True), True),
        (Truth.CONTRADICTS, Grade(hidden=False, superseded=False), False),
        (Truth.DISTINCT, Grade(hidden=False, displaced=False), True),
        (Truth.DISTINCT, Grade(hidden=False, displaced=True), False),
        (Truth.TWO, Grade(hidden=True), False),
    ],
)
def test_an_answer_is_met_by_what_it_asks_for(truth: Truth, grade: Grade, *, agreed: bool) -> None:
    assert agrees(truth, grade) is agreed


def test_most_answers_choose_and_of_equals_the_usual_policy() -> None:
    agreed = {
        "careful": Proportion(8, 10),
        "default": Proportion(8, 10),
        "thorough": Proportion(3, 10),
    }
    assert recommended(agreed, "default") == "default"
    assert recommended(agreed, "thorough") == "careful"
    assert not_told_apart(agreed, "default") == ["careful", "thorough"]
    many = {"careful": Proportion(90, 100), "thorough": Proportion(30, 100)}
    assert not_told_apart(many, "careful") == []
