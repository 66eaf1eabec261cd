from typing import Any

import pytest

from schemas.base import DecisionId, PolicyId, Position
from schemas.decisions import (
    Band,
    Compared,
    Evidence,
    Finding,
    Insert,
    Merge,
    MergeProof,
    Reason,
    Reinforce,
    Replace,
    Verdict,
)
from schemas.memories import Target
from streams.core.embedding import pack
from streams.core.grading import (
    KEPT,
    Grade,
    Outcome,
    Truth,
    counted,
    grade,
    outcome,
    score,
    together,
)
from tests.builders import MODEL, event, identity, memory, unit

TEA, MORE = "Ana likes coffee.", "Ana likes coffee. She drinks it at noon."
DROPPED = Outcome(event_stands=False, memory_stands=True, joined=True)
TAKEN_OVER = Outcome(event_stands=True, memory_stands=False, joined=True)
MERGED = Outcome(event_stands=True, memory_stands=True, joined=True, one_text=True)
BY_RULE = Outcome(event_stands=True, memory_stands=False, by_rule=True)


@pytest.mark.parametrize(
    ("truth", "made", "expected"),
    [
        (Truth.TWO, DROPPED, Grade(lost=True, wrong_merge=False)),
        (Truth.DISTINCT, KEPT, Grade(lost=False, wrong_merge=False)),
        (Truth.DISTINCT, MERGED, Grade(lost=False, wrong_merge=True)),
        (Truth.DISTINCT, TAKEN_OVER, Grade(lost=True, wrong_merge=False)),
        (Truth.CONTRADICTS, BY_RULE, Grade(lost=False, wrong_merge=False, superseded=True)),
        (Truth.CONTRADICTS, TAKEN_OVER, Grade(lost=True, wrong_merge=False, superseded=False)),
        (Truth.DISTINCT, BY_RULE, Grade(lost=True, wrong_merge=False)),
        (Truth.ONE, DROPPED, Grade(lost_detail=False, missed=False, found=True)),
        (Truth.SAME, KEPT, Grade(lost_detail=False, missed=True, found=False)),
        (Truth.SAME, TAKEN_OVER, Grade(lost_detail=False, missed=False, found=True)),
        (Truth.REFINES, DROPPED, Grade(lost=True, safe=False)),
        (Truth.REFINES, TAKEN_OVER, Grade(lost=False, safe=True)),
        (Truth.REFINES, MERGED, Grade(lost=False, safe=True)),
        (Truth.REFINED_BY, DROPPED, Grade(lost_detail=False, missed=False, found=True, safe=True)),
        (
            Truth.REFINED_BY,
            TAKEN_OVER,
            Grade(lost_detail=True, missed=False, found=False, safe=False),
        ),
    ],
)
def test_what_is_lost_follows_from_what_stands(
    truth: Truth, made: Outcome, expected: Grade
) -> None:
    assert grade(truth, made) == expected


def test_the_worst_of_several_memories_counts() -> None:
    grades = [grade(Truth.ONE, MERGED), grade(Truth.TWO, TAKEN_OVER)]
    assert together(grades) == Grade(
        lost=True, lost_detail=False, missed=False, found=True, wrong_merge=False
    )


def test_words_that_a_memory_holds_are_not_lost_with_the_event() -> None:
    assert counted(TEA, MORE) == Outcome(event_stands=True, memory_stands=True, joined=True)
    assert counted(MORE, TEA) == DROPPED


def decided(kind: type[Any], text: str, reason: Reason, **fields: Any) -> Any:
    """Make a decision on an event that says MORE, with a memory that says `text`."""
    content: dict[str, Any] = {
        "decision_id": DecisionId("d"),
        "event": event(MORE),
        "source": Position(topic="memory.events", partition=0, offset=0),
        "policy_id": PolicyId("p"),
        "evidence": Evidence(reason=reason, merge=fields.pop("proof", None)),
        "memory": memory(text, id=identity(2), **fields),
        "embedding": pack(unit(1), MODEL),
    }
    if kind is Reinforce:
        content["target"] = Target(memory_id=memory().id, version=1)
    elif kind is not Insert:
        content["targets"] = (Target(memory_id=memory().id, version=1),)
    if kind is Merge:
        content["event_embedding"] = pack(unit(1), MODEL)
    return kind(**content)


def test_what_stands_is_read_from_the_decision() -> None:
    def made(*arguments: Any, **fields: Any) -> Outcome:
        return outcome(decided(*arguments, **fields), event(MORE), memory(TEA))

    assert made(Insert, MORE, Reason.DISTINCT) == KEPT
    assert made(Reinforce, TEA, Reason.SAME_FACT) == DROPPED
    assert made(Replace, "Bo likes tea.", Reason.SAME_FACT) == TAKEN_OVER
    assert made(Replace, "Bo likes tea.", Reason.NEWER_CONTRADICTION) == BY_RULE
    assert made(Merge, MORE, Reason.ADDS_TO_KNOWN) == MERGED
    half = made(Merge, TEA, Reason.ADDS_TO_KNOWN)
    assert half == Outcome(event_stands=False, memory_stands=True, joined=True, one_text=True)


@pytest.mark.parametrize(("by", "stands"), [("midday coffee", True), ("noon", False)])
def test_a_merge_in_other_words_stands_by_its_proof(by: str, stands: bool) -> None:  # noqa: FBT001
    carried = {"origin": event(MORE).event_id, "kind": "word", "item": "noon", "by": by}
    proof = MergeProof.model_validate(
        {"strategy": "llm", "sentences": (), "origins": (), "carried": (carried,)}
    )
    text = "Ana likes coffee; she has midday coffee."
    made = outcome(
        decided(Merge, text, Reason.ADDS_TO_KNOWN, proof=proof), event(MORE), memory(TEA)
    )
    assert made.event_stands is stands
    assert not made.memory_stands


def compared(**fields: Any) -> Compared:
    return Compared(
        memory_id=memory().id,
        version=1,
        similarity=0.9,
        band=Band.REVIEW,
        verdict=Verdict.UNSURE,
        judge="built-in",
        **fields,
    )


def test_a_pair_is_ranked_by_the_judge_and_behind_all_others_where_a_guard_objects() -> None:
    probabilities = dict.fromkeys(Verdict, 0.0) | {Verdict.SAME: 0.9}
    differs = Finding(guard="numbers", outcome="differs", what="5 and 6")
    doubt = Finding(guard="names", outcome="cannot-tell", what="Bo")
    assert score(compared(probabilities=probabilities)) == 0.9
    assert score(compared(probabilities=probabilities, findings=(doubt,))) == 0.9
    assert score(compared(probabilities=probabilities, findings=(doubt, differs))) == 0.0
    assert score(compared(findings=(differs,))) == 0.0
    more = dict.fromkeys(Verdict, 0.0) | {Verdict.SAME: 0.25, Verdict.REFINES: 0.5}
    assert score(compared(probabilities=more)) == 0.5
    assert score(compared()) is None
