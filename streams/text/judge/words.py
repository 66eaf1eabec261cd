"""Static word vectors, independent of context."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray


class WordVectors:
    """A table of unit vectors; unknown words get the zero vector."""

    def __init__(self, rows: Mapping[str, int], table: NDArray[np.int8]) -> None:
        """`table` has one row per word, shape (words, dimension); its scale is irrelevant."""
        self._rows = rows
        self._table = table

    def of(self, words: Sequence[tuple[str, str]]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return the vectors of words, shape (n, dimension), and which of them are known.

        A word is given as its spelling and its lemma: the first that is known is used.
        """
        found = [self._rows.get(word, self._rows.get(lemma, -1)) for word, lemma in words]
        rows = np.array(found, np.intp).reshape(-1)
        vectors = self._table[rows].astype(np.float32)
        known = rows >= 0
        vectors[~known] = 0.0
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.maximum(norms, 1e-6), known
