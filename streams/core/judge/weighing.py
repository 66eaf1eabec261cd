"""One decision about a pair: what trees, cross-encoder, cosine and guards tell, weighed together.

A linear model over their log-probabilities, fitted to labelled pairs that none of them learnt from
(`training/relations/weighing.py`). Its weights are the same both ways round: turning a pair round
turns its probabilities round.
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
"""What is told of a pair, in the order of the models' outputs."""
ONE_MEMORY = RELATIONS[:4]
"""What two texts of one memory may be to each other."""
_FLOOR = 1e-4
"""Below this no difference between probabilities is believed."""
_COSINES = (0.6, 0.7, 0.8, 0.9)
"""Where the weight of the cosine may change."""

Row = NDArray[np.float64]


@dataclass(frozen=True)
class Told:
    """What is known of a pair; the cross-encoder's logits where it was asked."""

    cosine: float
    trees: Row
    cross: Row | None
    findings: Sequence[Finding] = ()


@dataclass(frozen=True)
class Weights:
    """A linear model: rows by RELATIONS, columns by the names of its inputs."""

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
    """Return the model's inputs by name; what is not among them is 0."""
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
    """Return what the cross-encoder tells, and how far the others agree with it.

    A pair of nearly the same words and a strange one are weighed differently: where trees or cosine
    hold two texts for one, another word is rather a detail than another fact.
    """
    log_p = logits - np.logaddexp.reduce(logits)
    row = {f"cross {one.value}": p for one, p in zip(RELATIONS, log_p, strict=True)}
    cross, cheap = _odds(np.exp(log_p)), _odds(trees)
    row |= {"cross odds": cross, "cross odds and cosine": cross * cosine}
    row["cross odds and trees odds"] = cross * cheap
    row["trees odds and cosine"] = cheap * cosine
    return row


_SCALE = 4.0
"""Brings the odds to the size of the other inputs."""


def _odds(probabilities: Row) -> float:
    """Return the logarithm of how much likelier one memory is than two, scaled."""
    one = min(max(one_memory(probabilities), _FLOOR), 1 - _FLOOR)
    return float(np.log(one / (1 - one))) / _SCALE
