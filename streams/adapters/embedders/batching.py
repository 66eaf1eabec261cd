"""Which texts share a run of the encoder, so that little is computed for nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

LENGTH_STEP = 8
"""Texts are padded to a multiple of so many tokens, and share a run with their like alone.

How far a text is padded follows from the text, so its vector does, too: bf16 kernels round
differently for other lengths, by up to 8e-6 of a cosine. Steps of 4, 8 and 16 are equally fast,
and no slower than sorting by length and padding to the longest (`benchmarks/encoder.py`).
"""

TOKENS_MAX = 1_024
"""Padded tokens of a run at most: 512 and 2,048 are equally fast within a tenth."""


@dataclass(frozen=True)
class Batch:
    """The places of texts that are encoded in one run, each padded to `length` tokens."""

    places: tuple[int, ...]
    length: int

    @property
    def tokens(self) -> int:
        """What the run computes, padding included."""
        return len(self.places) * self.length


def batches(lengths: Sequence[int]) -> list[Batch]:
    """Return the runs for texts that are padded to these lengths, the costliest kind first.

    A long text delays nothing but itself, and the short ones at the end fill what cores are left.
    """
    by_length = sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True)
    return [
        batch
        for length, places in groupby(by_length, key=lengths.__getitem__)
        for batch in _cut(tuple(places), length)
    ]


def _cut(places: tuple[int, ...], length: int) -> list[Batch]:
    size = max(1, TOKENS_MAX // max(1, length))
    return [Batch(places[at : at + size], length) for at in range(0, len(places), size)]
