"""Scores become probabilities that mean what they say."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from training.export import Mixture

Matrix = NDArray[np.float32]


def probabilities(trees: Matrix, head: Matrix, mixture: Mixture) -> Matrix:
    """Return the probabilities, shape (n, classes), of both models' scores."""
    logits = mixture.trees * trees + mixture.head * head + np.array(mixture.biases)
    odds = np.exp(logits - logits.max(1, keepdims=True))
    return (odds / odds.sum(1, keepdims=True)).astype(np.float32)


def calibrate(
    trees: Matrix, head: Matrix, labels: NDArray[np.int64], turned: Sequence[int]
) -> Mixture:
    """Return the mixture under which the labels are likeliest; both models count alike.

    A class and the one it turns into keep the same bias, so that the judge stays symmetric.
    """
    groups = [min(at, other) for at, other in enumerate(turned)]

    def mixture_of(values: NDArray[np.float64]) -> Mixture:
        scale = float(np.exp(values[0]))
        biases = [0.0 if group == 0 else float(values[group]) for group in groups]
        return Mixture(scale, scale, biases)

    def surprise(values: NDArray[np.float64]) -> float:
        told = probabilities(trees, head, mixture_of(values))[np.arange(len(labels)), labels]
        return float(-np.log(np.maximum(told, 1e-9)).mean() + _CAUTION * (values[1:] ** 2).sum())

    start = np.zeros(len(turned))
    found = minimize(surprise, start, method="Nelder-Mead", options={"maxiter": 4000})
    return mixture_of(found.x)


_CAUTION = 0.01
"""Holds the classes' biases near none: few pairs tell how common each class is."""
