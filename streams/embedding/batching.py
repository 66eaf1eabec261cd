"""Groups texts into runs of the encoder with little padding."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

LENGTH_STEP = 8
"""Texts are padded to a multiple of this many tokens; a run has texts of one padded length.

The padding follows from the text alone, and so does its vector: bf16 kernels round differently for
other lengths, by up to 8e-6 of a cosine. Steps of 4, 8 and 16 are equally fast, and no slower than
sorting by length and padding to the longest (`benchmarks/models/encoder.py`).
"""

TOKENS_MAX = 1_024
"""The maximum of padded tokens per run: 512 and 2,048 are equally fast within a tenth."""


@dataclass(frozen=True)
class TokenBatch:
    """A batch for one run: the positions of its texts, each padded to `length` tokens."""

    places: tuple[int, ...]
    length: int

    @property
    def tokens(self) -> int:
        """The tokens that the run computes, padding included."""
        return len(self.places) * self.length


def batches(lengths: Sequence[int]) -> list[TokenBatch]:
    """Return the runs for texts padded to these lengths, the longest first.

    A long text then delays only itself, and the short ones at the end fill the remaining cores.
    """
    by_length = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
    return [
        batch
        for length, places in groupby(by_length, key=lengths.__getitem__)
        for batch in _cut(tuple(places), length)
    ]


def _cut(places: tuple[int, ...], length: int) -> list[TokenBatch]:
    size = max(1, TOKENS_MAX // max(1, length))
    return [TokenBatch(places[at : at + size], length) for at in range(0, len(places), size)]
