"""The result of an evaluation: its rows, and the measures over any subset of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from schemas.base import PolicyId
from schemas.decisions import Compared, Composition
from streams.consolidate.core.redundancy import Removal, rounded
from streams.lab.app.labelled import LabelledRow
from streams.lab.core.grading import Grade
from streams.lab.core.measures import BCubed, Proportion, auc, b_cubed, rate
from streams.model.verdict import vetoed

Way = Literal["ours", "cosine"]
"""How rows were decided on: by the policy, or by a threshold on cosine similarity alone."""

DURATION_HEALTHY_SECONDS = 30.0
DURATION_ALERT_SECONDS = 60.0
"""Per 1,000 events; slower than the alert points to broken batching or a broken index."""


@dataclass(frozen=True)
class Item:
    """One statement of a fact: its true cluster, and the clusters it was assigned to."""

    true: str
    ours: str
    cosine: str


@dataclass(frozen=True)
class EvaluatedRow:
    """A labelled row, the decision on it, and its grades.

    `result` is the text that stands after the decision, `similarity` that of the two texts.
    `compared` is the evidence about the memory, `score` the row's rank key. `one` says whether both
    sides state the same fact; None if one side says more. `made_of` says how a merged text was
    composed.
    """

    given: LabelledRow
    label: str
    memory: str
    decision: str
    reason: str
    result: str
    similarity: float | None
    compared: Compared | None
    score: float | None
    one: bool | None
    review: bool
    ours: Grade
    cosine: Grade
    made_of: Composition | None = None
    items: tuple[Item, ...] = ()

    def graded(self, way: Way) -> Grade:
        return self.ours if way == "ours" else self.cosine

    @property
    def vetoed(self) -> bool | None:
        """Whether only a guard kept apart what is one fact; None if it is not one fact."""
        if not self.one:
            return None
        return self.compared is not None and vetoed(self.compared)

    def as_json(self) -> dict[str, Any]:
        """Return the row for programs, with stable keys."""
        near = None if self.compared is None else self.compared.model_dump(mode="json")
        return {
            "place": self.given.place,
            "id": self.given.id,
            "set": self.given.set,
            "kind": self.given.kind,
            "label": self.label,
            "a": self.given.event.text,
            "b": self.memory,
            "decision": self.decision,
            "reason": self.reason,
            "result": self.result,
            "similarity": self.similarity,
            "band": near and near["band"],
            "verdict": near and near["verdict"],
            "judge": near and near["judge"],
            "probabilities": near and near["probabilities"],
            "findings": near["findings"] if near else [],
            "score": self.score,
            "review": self.review,
            "made_of": None if self.made_of is None else self.made_of.model_dump(mode="json"),
            **vars(self.ours),
            "cosine": vars(self.cosine),
        }


@dataclass(frozen=True)
class Measures:
    """The measures of one way of deciding: rates by name, AUC and B-cubed.

    For both ways, `auc` covers only the rows that have a score; `auc_rows` is their number.
    """

    rates: dict[str, Proportion]
    auc: float | None
    auc_rows: int
    b3: BCubed | None

    def as_json(self) -> dict[str, Any]:
        """Return the measures under their stable names; null if no row contributes."""
        told: dict[str, Any] = {name: rate_json(one) for name, one in self.rates.items()}
        told |= {"auc": rounded(self.auc), "auc_rows": self.auc_rows}
        for name in ("precision", "recall", "f1"):
            told[f"b3_{name}"] = None if self.b3 is None else rounded(getattr(self.b3, name))
        return told


@dataclass(frozen=True)
class StreamGrowth:
    """The growth of a stream: its events, the live memories at the end, and the time taken."""

    events: int
    memories: int
    seconds: float

    def as_json(self) -> dict[str, Any]:
        """Return S2's metrics; `duration` rates the time per 1,000 events."""
        removal = Removal(self.events, self.memories)
        per_1000 = 1_000 * self.seconds / self.events if self.events else None
        return {
            "memories_before": self.events,
            "memories_after": self.memories,
            "removed_count": removal.removed,
            "removal_rate": rounded(removal.removal_rate),
            "duration_ms": round(self.seconds * 1_000),
            "seconds_per_1000": rounded(per_1000),
            "duration": None if per_1000 is None else _duration(per_1000),
        }


@dataclass
class Evaluation:
    """All rows of a run. `rejected` rows had no decision; `growth` is set for a stream."""

    policy: PolicyId
    model: str
    threshold: float
    read: int = 0
    skipped: int = 0
    rejected: int = 0
    rows: list[EvaluatedRow] = field(default_factory=list[EvaluatedRow])
    growth: StreamGrowth | None = None

    def by(self, column: Literal["set", "kind"]) -> dict[str, list[EvaluatedRow]]:
        """Return the rows grouped by a column, without those in which it is empty."""
        groups: dict[str, list[EvaluatedRow]] = {}
        for row in self.rows:
            if name := getattr(row.given, column):
                groups.setdefault(name, []).append(row)
        return dict(sorted(groups.items()))

    def as_json(self) -> dict[str, Any]:
        return {
            "policy": self.policy,
            "model": self.model,
            "cosine_threshold": self.threshold,
            "rows": {
                "read": self.read,
                "measured": len(self.rows),
                "skipped": self.skipped,
                "rejected": self.rejected,
            },
            "overall": both(self.rows),
            "sets": {name: both(rows) for name, rows in self.by("set").items()},
            "kinds": {name: both(rows) for name, rows in self.by("kind").items()},
            "stream": None if self.growth is None else self.growth.as_json(),
        }


def both(rows: Sequence[EvaluatedRow]) -> dict[str, Any]:
    """Return the measures of both ways side by side."""
    return {
        "rows": len(rows),
        "ours": measured(rows, "ours").as_json(),
        "cosine": measured(rows, "cosine").as_json(),
    }


def measured(rows: Sequence[EvaluatedRow], way: Way) -> Measures:
    """Return the measures of a way of deciding on these rows."""
    grades = [row.graded(way) for row in rows]
    ours = way == "ours"
    one, two = scores(rows, way)
    return Measures(
        rates={
            "found_rate": rate(grade.found for grade in grades),
            "hidden_rate": rate(grade.hidden for grade in grades),
            "kept_twice_rate": rate(grade.kept_twice for grade in grades),
            "lost_rate": rate(grade.lost for grade in grades),
            "superseded_rate": rate(grade.superseded for grade in grades),
            "displaced_rate": rate(grade.displaced for grade in grades),
            "review_rate": rate(row.review if ours else None for row in rows),
            "guard_veto_rate": rate(row.vetoed if ours else None for row in rows),
        },
        auc=auc(one, two),
        auc_rows=len(one) + len(two),
        b3=b_cubed(
            (item.true, item.ours if ours else item.cosine) for row in rows for item in row.items
        ),
    )


def scores(rows: Sequence[EvaluatedRow], way: Way) -> tuple[list[float], list[float]]:
    """Return the rank keys of a way, for rows of one fact and for rows of two facts.

    Only rows with a score count, so that both ways are ranked on the same rows.
    """
    one: list[float] = []
    two: list[float] = []
    for row in rows:
        if row.one is not None and row.score is not None and row.similarity is not None:
            (one if row.one else two).append(row.score if way == "ours" else row.similarity)
    return one, two


def rate_json(one: Proportion) -> dict[str, Any]:
    """Return a rate with its interval and counts; the rate of no rows is null."""
    low, high = one.interval or (None, None)
    return {
        "rate": rounded(one.value),
        "low": rounded(low),
        "high": rounded(high),
        "count": one.count,
        "of": one.of,
    }


def _duration(seconds_per_1000: float) -> str:
    if seconds_per_1000 < DURATION_HEALTHY_SECONDS:
        return "healthy"
    return "alert" if seconds_per_1000 > DURATION_ALERT_SECONDS else "slow"
