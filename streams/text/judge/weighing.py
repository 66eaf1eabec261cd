"""Combines trees, cross-encoder, cosine and guards into one decision about a pair.

A linear model over their log-probabilities and boosted trees over the same inputs, both fitted to
labelled pairs that none of the others was trained on (`training/relations/weighing.py`). Both are
symmetric: swapping a pair swaps its probabilities.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from schemas.decisions import Finding, Verdict

RELATIONS = (
    Verdict.SAME,
    Verdict.REFINES,
    Verdict.REFINED_BY,
    Verdict.OVERLAPS,
    Verdict.CONTRADICTS,
    Verdict.DISTINCT,
)
"""The relations of a pair, in the order of the models' outputs."""
ONE_MEMORY = RELATIONS[:4]
"""The relations that two texts of one memory can have."""
_FLOOR = 1e-4
"""Probabilities below this are treated as equal."""
_DIGITS = 5
"""Decimals of an input: more than this differ between processors."""
_COSINES = (0.6, 0.7, 0.8, 0.9)
"""The knots at which the weight of the cosine may change."""

Row = NDArray[np.float64]


@dataclass(frozen=True)
class PairEvidence:
    """The evidence on a pair; `cross` has the cross-encoder's logits if it was asked."""

    cosine: float
    trees: Row
    cross: Row | None
    findings: Sequence[Finding] = ()


@dataclass(frozen=True)
class Trees:
    """Boosted trees over the inputs: log-odds that one memory stands for both texts.

    Arrays of shape (trees, nodes). Node 0 is the root; where `features` is negative, the node is a
    leaf with its `values`. Else an input of at most `values` leads to the next node `below`, any
    other to the one after that.
    """

    features: NDArray[np.int64]
    values: Row
    below: NDArray[np.int64]
    depth: int

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Self:
        """Read the trees from lists of equal length per tree, padded with leaves."""
        features, below = (np.array(stored[one], np.int64) for one in ("features", "below"))
        return cls(features, np.array(stored["values"]), below, int(stored["depth"]))

    def log_odds(self, row: Row) -> float:
        """Return the sum of the leaves that a row of inputs reaches."""
        every = np.arange(len(self.features))
        at = np.zeros(len(every), np.int64)
        for _ in range(self.depth):
            feature = self.features[every, at]
            after = self.below[every, at] + (row[feature] > self.values[every, at])
            at = np.where(feature < 0, at, after)
        return float(self.values[every, at].sum())


@dataclass(frozen=True)
class Weights:
    """A linear model, with rows by RELATIONS and columns by input name, and trees beside it.

    The linear model tells the relations apart. That one memory stands for both is the mean of what
    it and the trees say, as log-odds.
    """

    names: tuple[str, ...]
    matrix: Row
    biases: Row
    trees: Trees
    turned: NDArray[np.int64]

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Self:
        matrix = np.array([stored["weights"][one.value] for one in RELATIONS])
        biases = np.array([stored["biases"][one.value] for one in RELATIONS])
        names = tuple(stored["inputs"])
        turned = np.array([names.index(turned_name(name)) for name in names])
        return cls(names, matrix, biases, Trees.read(stored["trees"]), turned)

    def probabilities(self, told: PairEvidence) -> Row:
        """Return probabilities over RELATIONS; they sum to 1."""
        row = self._row(told)
        logits = self.matrix @ row + self.biases
        odds = np.exp(logits - logits.max())
        found = odds / odds.sum()
        one = _within(one_memory(found))
        both = (self.trees.log_odds(row) + self.trees.log_odds(row[self.turned])) / 2
        mean = 1 / (1 + exp(-(log_odds(one) + both) / 2))
        found[: len(ONE_MEMORY)] *= mean / one
        found[len(ONE_MEMORY) :] *= (1 - mean) / (1 - one)
        return found / found.sum()

    def _row(self, told: PairEvidence) -> Row:
        """Return the inputs in the order of the columns, to as many digits as all processors agree on."""
        known = inputs(told)
        return np.array([round(known.get(name, 0.0), _DIGITS) for name in self.names])


def turned_name(name: str) -> str:
    """Return the name of an input when the pair is turned round."""
    if name.endswith(" refines"):
        return name.replace(" refines", " refined-by")
    return name.replace(" refined-by", " refines") if name.endswith(" refined-by") else name


def one_memory(probabilities: Row) -> float:
    """Return the probability that one memory stands for both texts."""
    return float(probabilities[: len(ONE_MEMORY)].sum())


def inputs(told: PairEvidence) -> dict[str, float]:
    """Return the model's inputs by name; missing inputs count as 0."""
    trees = np.log(np.maximum(told.trees, _FLOOR))
    row = {f"trees {one.value}": p for one, p in zip(RELATIONS, trees, strict=True)}
    row["cosine"] = told.cosine
    row |= {f"cosine above {least}": max(0.0, told.cosine - least) for least in _COSINES}
    if told.cross is not None:
        row |= _with_cross(told.cross, told.trees, told.cosine)
    for finding in told.findings:
        row[f"{finding.guard} {finding.outcome}"] = 1.0
        row[f"any {finding.outcome}"] = 1.0
    return {name: float(value) for name, value in row.items()}


def _with_cross(logits: Row, trees: Row, cosine: float) -> dict[str, float]:
    """Return the cross-encoder's inputs, and their interactions with the others.

    The interactions let near-identical wordings and dissimilar ones weigh differently: if trees or
    cosine take two texts for one, another word is more likely a detail than another fact.
    """
    log_p = logits - np.logaddexp.reduce(logits)
    row = {f"cross {one.value}": p for one, p in zip(RELATIONS, log_p, strict=True)}
    cross, cheap = _odds(np.exp(log_p)), _odds(trees)
    row |= {"cross odds": cross, "cross odds and cosine": cross * cosine}
    row["cross odds and trees odds"] = cross * cheap
    row["trees odds and cosine"] = cheap * cosine
    return row


_SCALE = 4.0
"""Brings the log-odds to the scale of the other inputs."""


def _odds(probabilities: Row) -> float:
    """Return the log-odds of one memory against two, divided by _SCALE."""
    return log_odds(one_memory(probabilities)) / _SCALE


def log_odds(probability: float) -> float:
    """Return the log-odds of a probability; below .0001 and above .9999 they stay the same."""
    within = _within(probability)
    return log(within / (1 - within))


def _within(probability: float) -> float:
    return min(max(probability, _FLOOR), 1 - _FLOOR)
