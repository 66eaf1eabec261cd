"""The built-in judge: trained models, offline and deterministic.

A cascade. Trees over words and cosine judge every pair; a cross-encoder reads those that may be one
memory, or contradict each other. One decision weighs both results, with the cosine and the guards'
findings.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple, Self

from schemas.decisions import Finding, Verdict
from streams.judges.cross_encoder import CrossEncoder
from streams.judges.models import PACKAGED, cheap
from streams.model.ports import NoAnswer
from streams.model.verdict import Opinion, Pair
from streams.text.judge.features import features
from streams.text.judge.prepared import Prepared, prepare
from streams.text.judge.weighing import RELATIONS, Row, Told, one_memory
from streams.text.reading import TextAnalyzer

_OPEN = 0.4
"""Pairs that the cheap models rate less likely to be one memory skip the cross-encoder: 1 % of the
development pairs that become one are among them. Reading a pair costs as much as an embedding."""

_OUTDATED = 0.08
"""Pairs that the cheap models rate less likely a contradiction are not read to find one. An update of
a value ("lives in Oslo" after "lives in Bergen") has .09 to .2 there, and .9 once it is read. Of 1,210
facts of conversations, .3 would read 721 pairs and .08 reads 991; neither marks more false conflicts."""

_PREPARED = 2_048
"""The cache size for prepared texts, at about 25 KB each."""

_KEPT = 4_096
"""The cache size for opinions, at about 1.5 KB each: enough for a batch of rows that is decided on
under several policies, which ask about the same pairs."""

_LONGEST = 2_000
"""The longest text that is judged, in characters: the models were trained on sentences, and the
cost grows with the product of both lengths."""

_DECIMALS = 5
"""Enough to rank, and no more than arithmetic on another processor reproduces."""


class BuiltInVerifier:
    """Implements ports.Verifier with the models in `judge/`; needs no embedding model.

    Raises NoModel on first use if one of its files is missing or damaged.
    """

    name = "built-in"

    def __init__(self, readings: TextAnalyzer, folder: Path = PACKAGED) -> None:
        self._readings = readings
        self._folder = folder
        self._prepared = lru_cache(_PREPARED)(self._prepare)
        self._kept = lru_cache(_KEPT)(self._judge)

    async def verify(self, pairs: Sequence[Pair]) -> list[Opinion | NoAnswer]:
        opinions: list[Opinion | NoAnswer] = []
        for pair in pairs:
            opinions.append(self._kept(_Read.of(pair)))
            await asyncio.sleep(0)  # reading takes milliseconds: let other tasks run
        return opinions

    async def close(self) -> None:
        await asyncio.sleep(0)

    def _judge(self, pair: "_Read") -> Opinion:
        if max(len(pair.event), len(pair.memory)) > _LONGEST:
            return Opinion(Verdict.UNSURE, self.name)
        decision = cheap(self._folder).decision
        told = Told(pair.similarity, self._trees(pair), None, pair.findings)
        probabilities = decision.cheap.probabilities(told)
        if pair.deep and _is_open(probabilities):
            cross = self._cross_encoder.logits(pair.event, pair.memory)
            if cross is not None:
                probabilities = decision.deep.probabilities(replace(told, cross=cross))
        return _opinion(probabilities)

    def _trees(self, pair: "_Read") -> Row:
        event, memory = self._prepared(pair.event), self._prepared(pair.memory)
        row = features(event, memory, pair.similarity, self._readings.lexicon)
        # One pair per run: a pair's result never depends on the other pairs asked.
        [told] = cheap(self._folder).trees.run(["probabilities"], {"features": row})
        return told.astype(float)

    def _prepare(self, text: str) -> Prepared:
        return prepare(self._readings.of(text), self._readings.lexicon, cheap(self._folder).words)

    @cached_property
    def _cross_encoder(self) -> CrossEncoder:
        return CrossEncoder(self._folder)


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


def _is_open(probabilities: Row) -> bool:
    """Return whether the cheap models leave open that a pair is one memory, or contradicts."""
    contradicts = float(probabilities[RELATIONS.index(Verdict.CONTRADICTS)])
    return one_memory(probabilities) >= _OPEN or contradicts >= _OUTDATED


def _opinion(row: Row) -> Opinion:
    probabilities = {
        verdict: round(float(p), _DECIMALS) for verdict, p in zip(RELATIONS, row, strict=True)
    }
    likeliest = max(RELATIONS, key=lambda verdict: probabilities[verdict])
    return Opinion(likeliest, BuiltInVerifier.name, probabilities)
