"""A cross-encoder for two texts; it first encodes each alone, and caches that."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.judges.models import PACKAGED, deep

TOKENS_MAX = 128
"""The longest text that is read, in tokens: the model was trained on shorter ones, and the cost of
reading two texts grows with the square of both lengths."""
_READ = 2_048
"""The cache size for encoded texts, at about 40 KB each."""

_States = NDArray[np.float32]


class CrossEncoder:
    """Returns logits over `core.judge.weighing.RELATIONS`, symmetric in the two texts."""

    def __init__(self, folder: Path = PACKAGED) -> None:
        self._models = deep(folder)
        self._alone = lru_cache(_READ)(self._read)

    def logits(self, first: str, second: str) -> NDArray[np.float64] | None:
        """Return the logits of the first text's relation to the second; None if one is too long.

        One pair per run: a pair's result never depends on the other pairs asked.
        """
        one, other = self._alone(first), self._alone(second)
        if one is None or other is None:
            return None
        given: dict[str, NDArray[Any]] = {"first": one, "second": other}
        [told] = self._models.together.run(["told"], given)
        return told.astype(np.float64)

    def _read(self, text: str) -> _States | None:
        ids = self._models.tokenizer.encode(text).ids
        if len(ids) > TOKENS_MAX:
            return None
        [states] = self._models.alone.run(["told"], {"ids": np.array(ids, np.int64)})
        return states
