"""Evaluation metrics: rates with confidence intervals, AUC, precision-recall curves and B-cubed."""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

_Z = 1.959963984540054
"""The 97.5th percentile of the normal distribution, for 95 % intervals."""


@dataclass(frozen=True)
class Proportion:
    """A count out of a total; undefined if the total is 0."""

    count: int
    of: int

    @property
    def value(self) -> float | None:
        return self.count / self.of if self.of else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % Wilson score interval: valid for few rows and for rates near 0."""
        if not self.of:
            return None
        share, of = self.count / self.of, self.of
        scale = 1 + _Z**2 / of
        middle = share + _Z**2 / (2 * of)
        half = _Z * (share * (1 - share) / of + _Z**2 / (4 * of**2)) ** 0.5
        low, high = (middle - half) / scale, (middle + half) / scale
        return (0.0 if not self.count else low, 1.0 if self.count == of else high)

    def told(self, decimals: int) -> str | None:
        """Write the rate with its interval; None if it is undefined."""
        if self.value is None or self.interval is None:
            return None
        low, high = self.interval
        return f"{self.value:.{decimals}%} ({low:.{decimals}%} to {high:.{decimals}%})"


def rate(marks: Iterable[bool | None]) -> Proportion:
    """Return the rate of true marks; None marks a row that the rate does not cover."""
    counted = Counter(mark for mark in marks if mark is not None)
    return Proportion(counted[True], counted.total())


def needed(upper: float) -> int:
    """Return how many rows without a failure show that the rate is at most `upper`."""
    return int(np.ceil(_Z**2 * (1 - upper) / upper))


def shown(rows: int) -> float:
    """Return the least rate that so many rows without a failure show: the inverse of `needed`."""
    return _Z**2 / (rows + _Z**2)


def auc(positive: Sequence[float], negative: Sequence[float]) -> float | None:
    """Return the area under the ROC curve; ties count half; None if a class is empty."""
    if not positive or not negative:
        return None
    ranked = np.sort(negative)
    below = np.searchsorted(ranked, positive, "left") + np.searchsorted(ranked, positive, "right")
    return float(below.sum()) / (2 * len(positive) * len(negative))


@dataclass(frozen=True)
class PrecisionRecall:
    """Precision and recall where all from a score on are taken."""

    precision: float
    recall: float


def curve(positive: Sequence[float], negative: Sequence[float]) -> list[PrecisionRecall]:
    """Return a point per distinct score, highest first; none if a class is empty."""
    if not positive or not negative:
        return []
    scores = np.unique([*positive, *negative])[::-1]
    found = len(positive) - np.searchsorted(np.sort(positive), scores)
    wrong = len(negative) - np.searchsorted(np.sort(negative), scores)
    precision, recall = found / (found + wrong), found / len(positive)
    return list(map(PrecisionRecall, precision.tolist(), recall.tolist()))


@dataclass(frozen=True)
class BCubed:
    """Precision and recall of a clustering, averaged over its items (Bagga and Baldwin, 1998)."""

    precision: float
    recall: float

    @property
    def f1(self) -> float:
        return 2 * self.precision * self.recall / (self.precision + self.recall)


def b_cubed(items: Iterable[tuple[Hashable, Hashable]]) -> BCubed | None:
    """Return B-cubed of items given as (true cluster, found cluster); None if there are none."""
    together = Counter(items)
    if not together:
        return None
    true, found = Counter[Hashable](), Counter[Hashable]()
    for (one, other), count in together.items():
        true[one] += count
        found[other] += count
    total = together.total()
    return BCubed(
        precision=sum(n * n / found[other] for (_, other), n in together.items()) / total,
        recall=sum(n * n / true[one] for (one, _), n in together.items()) / total,
    )
