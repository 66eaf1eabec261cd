"""The built-in judge: trained models, offline and deterministic.

Trees over words and cosine judge a pair, and a cross-encoder reads it where the policy says so. One
decision weighs both results, with the cosine and the guards' findings. What can be settled for less
never comes here.
"""

import asyncio
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from schemas.decisions import Finding, Verdict
from streams.judges.models import PACKAGED, DeepModels, cheap, deep
from streams.model.ports.models import NoAnswer
from streams.model.verdict import Opinion, Pair
from streams.text.judge.features import features
from streams.text.judge.prepared import PreparedText, prepare
from streams.text.judge.weighing import RELATIONS, PairEvidence, Row
from streams.text.reading import TextAnalyzer

_PREPARED = 2_048
"""The cache size for prepared texts, at about 25 KB each, and for encoded ones, at about 40 KB."""

_KEPT = 4_096
"""The cache size for opinions, at about 1.5 KB each: enough for a batch of rows that is decided on
under several policies, which ask about the same pairs."""

_AT_ONCE = 1_024
"""Pairs that are read side by side; fewer than the caches hold."""

_LONGEST = 2_000
"""The longest text that is judged, in characters: the models were trained on sentences, and the
cost grows with the product of both lengths."""

_TOKENS_MAX = 128
"""The longest text that the cross-encoder reads, in tokens: it was trained on shorter ones, and the
cost of reading two texts grows with the square of both lengths."""

_DECIMALS = 5
"""Enough to rank, and no more than arithmetic on another processor reproduces."""


class BuiltInVerifier:
    """Implements ports.Verifier with the models in `judge/`; needs no embedding model.

    Raises NoModel on first use if one of its files is missing or damaged.
    """

    name = "built-in"

    def __init__(
        self, readings: TextAnalyzer, folder: Path = PACKAGED, *, threads: int | None = None
    ) -> None:
        """Read `threads` pairs in parallel; None means one per core."""
        self._readings = readings
        self._folder = folder
        self._prepared = lru_cache(_PREPARED)(self._prepare)
        self._compared = lru_cache(_KEPT)(self._compare)
        self._read = lru_cache(_KEPT)(self._read_both)
        self._kept = lru_cache(_KEPT)(self._judge)
        self._readers = ThreadPoolExecutor(threads or os.cpu_count(), thread_name_prefix="judge")

    async def verify(self, pairs: Sequence[Pair]) -> list[Opinion | NoAnswer]:
        asked = [_Read.of(pair) for pair in pairs]
        opinions: list[Opinion | NoAnswer] = []
        for start in range(0, len(asked), _AT_ONCE):
            some = asked[start : start + _AT_ONCE]
            await self._read_all(some)
            opinions += map(self._kept, some)
        return opinions

    async def close(self) -> None:
        self._readers.shutdown(wait=False, cancel_futures=True)
        await asyncio.sleep(0)

    async def _read_all(self, pairs: Sequence["_Read"]) -> None:
        """Let the cross-encoder read, a pair per core, while this thread compares words."""
        loop = asyncio.get_running_loop()
        reading: list[asyncio.Future[Row | None]] = []
        for pair in dict.fromkeys(pairs):
            if pair.is_long:
                continue
            if pair.deep:
                reading.append(
                    loop.run_in_executor(self._readers, self._read, pair.event, pair.memory)
                )
            self._compared(pair)
            await asyncio.sleep(0)  # a comparison takes a part of a millisecond: let others run
        await asyncio.gather(*reading)

    def _judge(self, pair: "_Read") -> Opinion:
        if pair.is_long:
            return Opinion(Verdict.UNSURE, self.name)
        cross = self._read(pair.event, pair.memory) if pair.deep else None
        told = PairEvidence(pair.similarity, self._compared(pair), cross, pair.findings)
        decision = cheap(self._folder).decision
        return _opinion((decision.cheap if cross is None else decision.deep).probabilities(told))

    def _read_both(self, event: str, memory: str) -> Row | None:
        return self._cross_encoder.logits(event, memory)

    def _compare(self, pair: "_Read") -> Row:
        """Return what the trees say of the words."""
        event, memory = self._prepared(pair.event), self._prepared(pair.memory)
        row = features(event, memory, pair.similarity, self._readings.lexicon)
        # One pair per run: a pair's result never depends on the other pairs asked.
        [told] = cheap(self._folder).trees.run(["probabilities"], {"features": row})
        return told.astype(float)

    def _prepare(self, text: str) -> PreparedText:
        return prepare(self._readings.of(text), self._readings.lexicon, cheap(self._folder).words)

    @cached_property
    def _cross_encoder(self) -> "_CrossEncoder":
        return _CrossEncoder(deep(self._folder))


class _CrossEncoder:
    """Reads two texts side by side; it first encodes each alone, and caches that."""

    def __init__(self, models: DeepModels) -> None:
        self._models = models
        self._alone = lru_cache(_PREPARED)(self._encode)

    def logits(self, first: str, second: str) -> Row | None:
        """Return the logits over RELATIONS, symmetric in both texts; None if one is too long.

        One pair per run: a pair's result never depends on the other pairs asked.
        """
        one, other = self._alone(first), self._alone(second)
        if one is None or other is None:
            return None
        [told] = self._models.together.run(["told"], {"first": one, "second": other})
        return told.astype(float)

    def _encode(self, text: str) -> NDArray[np.float32] | None:
        ids = self._models.tokenizer.encode(text).ids
        if len(ids) > _TOKENS_MAX:
            return None
        [states] = self._models.alone.run(["told"], {"ids": np.array(ids, np.int64)})
        return states


class _Read(NamedTuple):
    """What the judge reads of a pair, and nothing else: all that its opinion depends on."""

    event: str
    memory: str
    similarity: float
    findings: tuple[Finding, ...]
    deep: bool

    @classmethod
    def of(cls, pair: Pair) -> Self:
        return cls(pair.event.text, pair.memory.text, pair.similarity, pair.findings, pair.deep)

    @property
    def is_long(self) -> bool:
        """Whether a text is too long to be judged."""
        return max(len(self.event), len(self.memory)) > _LONGEST


def _opinion(row: Row) -> Opinion:
    probabilities = {
        verdict: round(float(p), _DECIMALS) for verdict, p in zip(RELATIONS, row, strict=True)
    }
    likeliest = max(RELATIONS, key=lambda verdict: probabilities[verdict])
    return Opinion(likeliest, BuiltInVerifier.name, probabilities)
