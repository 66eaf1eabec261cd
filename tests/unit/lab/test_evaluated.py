from typing import Any

import pytest

from schemas.base import PolicyId
from schemas.decisions import Band, Compared, Finding, Verdict
from streams.lab.app.evaluated import EvaluatedRow, Evaluation, Item, StreamGrowth, both, measured
from streams.lab.app.labelled import LabelledRow
from streams.lab.core.grading import Grade
from streams.lab.core.measures import Proportion
from tests.builders import event, identity, memory


def row(*, one: bool | None, score: float | None, similarity: float, **fields: Any) -> EvaluatedRow:
    content: dict[str, Any] = {
        "given": LabelledRow("pairs.jsonl:1", "1", "own", "", event("a")),
        "label": "1",
        "memory": "b",
        "decision": "insert",
        "reason": "unsure",
        "result": "a",
        "compared": None,
        "review": False,
        "ours": Grade(),
        "cosine": Grade(),
        **fields,
    }
    return EvaluatedRow(one=one, score=score, similarity=similarity, **content)


def test_judge_and_cosine_are_ranked_on_the_same_judged_rows() -> None:
    rows = [
        row(one=True, score=0.9, similarity=0.8),
        row(one=False, score=0.1, similarity=0.9),
        row(one=None, score=0.5, similarity=0.5),
        row(one=False, score=None, similarity=0.1),
    ]
    ours, cosine = measured(rows, "ours"), measured(rows, "cosine")
    assert (ours.auc, ours.auc_rows) == (1.0, 2)
    assert (cosine.auc, cosine.auc_rows) == (0.0, 2)


@pytest.mark.covers("B41")
def test_guards_veto_where_they_alone_part_one_fact() -> None:
    def compared(outcome: str, judge: str) -> Compared:
        finding = {"guard": "numbers", "outcome": outcome, "what": "5 and 6"}
        return Compared(
            memory_id=memory(id=identity(1)).id,
            version=1,
            similarity=0.9,
            band=Band.REVIEW,
            verdict=Verdict.DISTINCT,
            judge=judge,
            findings=(Finding.model_validate(finding),),
        )

    rows = [
        row(one=True, score=0.0, similarity=0.9, compared=compared("differs", "guard numbers")),
        row(one=True, score=None, similarity=0.9, compared=compared("cannot-tell", "built-in")),
        row(one=True, score=None, similarity=0.2),
        row(one=False, score=0.0, similarity=0.9, compared=compared("differs", "guard numbers")),
    ]
    assert measured(rows, "ours").rates["guard_veto_rate"] == Proportion(1, 3)
    assert measured(rows, "cosine").rates["guard_veto_rate"] == Proportion(0, 0)


def test_groups_without_a_name_are_none() -> None:
    made = Evaluation(PolicyId("p"), "m", 0.85)
    made.rows = [row(one=True, score=None, similarity=0.9)]
    told = made.as_json()
    assert (list(told["sets"]), list(told["kinds"])) == (["own"], [])


def test_nothing_measured_is_null() -> None:
    told = both([])
    assert told["ours"]["lost_rate"] == {
        "rate": None,
        "low": None,
        "high": None,
        "count": 0,
        "of": 0,
    }
    assert (told["cosine"]["auc"], told["cosine"]["b3_precision"]) == (None, None)


def test_b_cubed_is_of_each_way_of_deciding() -> None:
    items = (Item("one", "x", "x"), Item("two", "y", "x"))
    told = both([row(one=False, score=None, similarity=0.9, items=items)])
    assert (told["ours"]["b3_precision"], told["cosine"]["b3_precision"]) == (1.0, 0.5)


@pytest.mark.covers("S2.29", "S2.31")
@pytest.mark.parametrize(
    ("seconds", "duration"), [(29.9, "healthy"), (30.0, "slow"), (60.0, "slow"), (60.1, "alert")]
)
def test_the_time_of_a_thousand_events_is_judged(seconds: float, duration: str) -> None:
    told = StreamGrowth(events=2_000, memories=1_700, seconds=2 * seconds).as_json()
    assert told == {
        "memories_before": 2_000,
        "memories_after": 1_700,
        "removed_count": 300,
        "removal_rate": 0.15,
        "duration_ms": round(2_000 * seconds),
        "seconds_per_1000": seconds,
        "duration": duration,
    }
    assert StreamGrowth(0, 0, 0.0).as_json()["removal_rate"] is None
