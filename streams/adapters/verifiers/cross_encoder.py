"""A network that reads two texts together; each by itself first, and that only once."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.adapters.verifiers.models import PACKAGED, deep

TOKENS_MAX = 128
"""Tokens of a text that is read: it has learnt from shorter ones, and what reads two texts grows
with the square of both lengths."""
_READ = 2_048
"""Texts whose reading is kept, at about 40 KB each."""

_States = NDArray[np.float32]


class CrossEncoder:
    """Tells logits over `core.judge.weighing.RELATIONS`, the same both ways round."""

    def __init__(self, folder: Path = PACKAGED) -> None:
        self._models = deep(folder)
        self._alone = lru_cache(_READ)(self._read)

    def logits(self, first: str, second: str) -> NDArray[np.float64] | None:
        """Return what the first text is to the second; None where one is too long to be read.

        One pair a run: what a pair is told never depends on what is asked beside it.
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
