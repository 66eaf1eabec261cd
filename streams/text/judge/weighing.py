"""Combines trees, cross-encoder, cosine and guards into one decision about a pair.

A linear model over their log-probabilities, fitted to labelled pairs that none of them was trained
on (`training/relations/weighing.py`). Its weights are symmetric: swapping a pair swaps its
probabilities.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
_COSINES = (0.6, 0.7, 0.8, 0.9)
"""The knots at which the weight of the cosine may change."""

Row = NDArray[np.float64]


@dataclass(frozen=True)
class Told:
    """The evidence on a pair; `cross` has the cross-encoder's logits if it was asked."""

    cosine: float
    trees: Row
    cross: Row | None
    findings: Sequence[Finding] = ()


@dataclass(frozen=True)
class Weights:
    """A linear model: one row per relation in RELATIONS, one column per named input."""

    names: tuple[str, ...]
    matrix: Row
    biases: Row

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Self:
        matrix = np.array([stored["weights"][one.value] for one in RELATIONS])
        biases = np.array([stored["biases"][one.value] for one in RELATIONS])
        return cls(tuple(stored["inputs"]), matrix, biases)

    def probabilities(self, told: Told) -> Row:
        """Return probabilities over RELATIONS, which add up to 1."""
        known = inputs(told)
        row = np.array([known.get(name, 0.0) for name in self.names])
        logits = self.matrix @ row + self.biases
        odds = np.exp(logits - logits.max())
        return odds / odds.sum()


def one_memory(probabilities: Row) -> float:
    """Return the probability that one memory stands for both texts."""
    return float(probabilities[: len(ONE_MEMORY)].sum())


def inputs(told: Told) -> dict[str, float]:
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
"""Scales the odds to the range of the other inputs."""


def _odds(probabilities: Row) -> float:
    """Return the scaled log-odds of one memory against two."""
    one = min(max(one_memory(probabilities), _FLOOR), 1 - _FLOOR)
    return float(np.log(one / (1 - one))) / _SCALE
