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
    Reason,
    Reinforce,
    Replace,
    Verdict,
)
from schemas.memories import Target, Variant
from streams.lab.core.grading import (
    KEPT,
    Grade,
    PairOutcome,
    Truth,
    dropped,
    grade,
    outcome,
    score,
    together,
)
from streams.model.embedding import pack
from tests.builders import MODEL, event, identity, memory, unit

TEA, MORE = "Ana likes coffee.", "Ana likes coffee. She drinks it at noon."
DROPPED = PairOutcome(event_stands=False, memory_stands=True, joined=True)
TAKEN_OVER = PairOutcome(event_stands=True, memory_stands=False, joined=True)
MERGED = PairOutcome(event_stands=True, memory_stands=True, joined=True)
BY_RULE = PairOutcome(event_stands=True, memory_stands=False, by_rule=True)


def one_fact(*, joined: bool, lost: bool = False) -> Grade:
    return Grade(found=joined, kept_twice=not joined, lost=lost, displaced=False)


@pytest.mark.parametrize(
    ("truth", "made", "expected"),
    [
        (Truth.TWO, DROPPED, Grade(hidden=True, lost=True)),
        (Truth.DISTINCT, KEPT, Grade(hidden=False, lost=False, displaced=False)),
        (Truth.DISTINCT, MERGED, Grade(hidden=True, lost=False, displaced=False)),
        (Truth.DISTINCT, BY_RULE, Grade(hidden=False, lost=False, displaced=True)),
        (Truth.CONTRADICTS, BY_RULE, Grade(hidden=False, lost=False, superseded=True)),
        (Truth.CONTRADICTS, MERGED, Grade(hidden=True, lost=False, superseded=False)),
        (
            Truth.REFINED_BY,
            BY_RULE,
            Grade(found=False, kept_twice=False, lost=False, displaced=True),
        ),
        (Truth.ONE, DROPPED, one_fact(joined=True)),
        (Truth.SAME, KEPT, one_fact(joined=False)),
        (Truth.SAME, TAKEN_OVER, one_fact(joined=True)),
        (Truth.REFINES, DROPPED, one_fact(joined=True, lost=True)),
        (Truth.REFINES, TAKEN_OVER, one_fact(joined=True)),
        (Truth.REFINED_BY, DROPPED, one_fact(joined=True)),
        (Truth.REFINED_BY, TAKEN_OVER, one_fact(joined=True, lost=True)),
        (Truth.OVERLAPS, MERGED, one_fact(joined=True)),
        (Truth.OVERLAPS, DROPPED, one_fact(joined=True, lost=True)),
    ],
)
def test_what_is_found_hidden_and_lost_follows_from_what_stands(
    truth: Truth, made: PairOutcome, expected: Grade
) -> None:
    assert grade(truth, made) == expected


def test_the_worst_of_several_memories_counts() -> None:
    grades = [grade(Truth.ONE, MERGED), grade(Truth.TWO, DROPPED)]
    assert together(grades) == Grade(
        found=True, kept_twice=False, hidden=True, lost=True, displaced=False
    )


def test_words_that_a_memory_holds_are_not_lost_with_the_event() -> None:
    assert dropped(TEA, MORE) == MERGED
    assert dropped(MORE, TEA) == DROPPED


def decided(kind: type[Any], text: str, reason: Reason, **fields: Any) -> Any:
    """Make a decision on an event that says MORE, with a memory that says `text`."""
    content: dict[str, Any] = {
        "decision_id": DecisionId("d"),
        "event": event(MORE),
        "source": Position(topic="memory.events", partition=0, offset=0),
        "policy_id": PolicyId("p"),
        "evidence": Evidence(reason=reason),
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


def variant(text: str) -> Variant:
    known = memory(text)
    return Variant(
        text=text,
        content_key=known.content_key,
        seen=1,
        first_seen_at=known.created_at,
        last_seen_at=known.created_at,
    )


def test_what_stands_is_read_from_the_wordings_of_the_decisions_memory() -> None:
    def made(*arguments: Any, **fields: Any) -> PairOutcome:
        return outcome(decided(*arguments, **fields), event(MORE), memory(TEA))

    assert made(Insert, MORE, Reason.DISTINCT) == KEPT
    assert made(Reinforce, TEA, Reason.SAME_FACT, variants=(variant(MORE),)) == MERGED
    assert made(Reinforce, TEA, Reason.SAME_FACT) == DROPPED
    assert made(Replace, MORE, Reason.BETTER_THAN_KNOWN, variants=(variant(TEA),)) == MERGED
    assert made(Replace, MORE, Reason.BETTER_THAN_KNOWN) == TAKEN_OVER
    assert made(Replace, MORE, Reason.NEWER_CONTRADICTION) == BY_RULE
    both = (variant(TEA), variant(MORE))
    assert made(Merge, "Ana has coffee at noon.", Reason.OVERLAPS_KNOWN, variants=both) == MERGED
    folded = made(Merge, MORE, Reason.OVERLAPS_KNOWN, variants=(), folded=1)
    assert folded == MERGED, "what was folded is counted, and in the log"


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


def test_a_pair_is_ranked_by_the_judge_and_behind_all_others_where_a_guard_parts_it() -> None:
    probabilities = dict.fromkeys(Verdict, 0.0) | {Verdict.SAME: 0.9}
    differs = Finding(guard="numbers", outcome="differs", what="5 and 6")
    doubt = Finding(guard="names", outcome="cannot-tell", what="Bo")
    assert score(compared(probabilities=probabilities)) == 0.9
    assert score(compared(probabilities=probabilities, findings=(doubt,))) == 0.9
    assert score(compared(probabilities=probabilities, findings=(doubt, differs))) == 0.9
    parted = compared(findings=(differs,)).model_copy(update={"judge": "guard numbers"})
    assert score(parted) == 0.0
    more = dict.fromkeys(Verdict, 0.0) | {Verdict.SAME: 0.25, Verdict.REFINES: 0.5}
    assert score(compared(probabilities=more)) == 0.75
    assert score(compared()) is None
