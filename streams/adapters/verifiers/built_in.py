"""The judge that comes with memsieve: a small trained model, offline, the same answer every time."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib import import_module, resources
from io import BytesIO
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from schemas.decisions import Verdict
from streams.core.judge.features import features
from streams.core.judge.prepared import Prepared, prepare
from streams.core.judge.words import WordVectors
from streams.core.language.reading import Readings
from streams.core.verdict import Opinion, Pair
from streams.ports import NoAnswer

CLASSES = (
    Verdict.SAME,
    Verdict.REFINES,
    Verdict.REFINED_BY,
    Verdict.CONTRADICTS,
    Verdict.DISTINCT,
)
"""The model's outputs, in order."""

_PREPARED = 2_048
"""Texts whose preparation is kept, at about 25 KB each."""

_LONGEST = 2_000
"""Characters of a text that is judged: the model has learnt from sentences, and what is compared
grows with the product of both lengths."""

_DECIMALS = 6
"""Enough to rank, and no more than another processor's arithmetic repeats."""


class _Model(Protocol):
    """What of onnxruntime's session is used; the library comes without types."""

    def run(
        self, outputs: Sequence[str], given: Mapping[str, NDArray[Any]], /
    ) -> Sequence[NDArray[np.float32]]: ...


class BuiltInVerifier:
    """Implements ports.Verifier with the model in `judge/`; needs no embedding model of its own."""

    name = "built-in"

    def __init__(self, readings: Readings) -> None:
        self._readings = readings
        self._prepared = lru_cache(_PREPARED)(self._prepare)

    async def verify(self, pairs: Sequence[Pair]) -> list[Opinion | NoAnswer]:
        return [self._judge(pair) for pair in pairs]

    async def close(self) -> None:
        await asyncio.sleep(0)

    def _judge(self, pair: Pair) -> Opinion:
        if max(len(pair.event.text), len(pair.memory.text)) > _LONGEST:
            return Opinion(Verdict.UNSURE, self.name)
        event, memory = self._prepared(pair.event.text), self._prepared(pair.memory.text)
        row = features(event, memory, pair.similarity, self._readings.lexicon)
        # One pair a run: what a pair is judged by never depends on what is asked beside it.
        [told] = _model().run(
            ["probabilities"],
            {
                "features": row[None],
                "event": event.tokens,
                "memory": memory.tokens,
                "event_keys": event.keys,
                "memory_keys": memory.keys,
            },
        )
        return _opinion(told[0].astype(np.float64))

    def _prepare(self, text: str) -> Prepared:
        return prepare(self._readings.of(text), self._readings.lexicon, _words())


def _opinion(row: NDArray[np.float64]) -> Opinion:
    probabilities = {
        verdict: round(float(p), _DECIMALS) for verdict, p in zip(CLASSES, row, strict=True)
    }
    likeliest = max(CLASSES, key=lambda verdict: probabilities[verdict])
    return Opinion(likeliest, BuiltInVerifier.name, probabilities)


@cache
def _model() -> _Model:
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1  # a pair is too little work to share
    options.log_severity_level = 3
    return runtime.InferenceSession(
        _file("judge.onnx"), options, providers=["CPUExecutionProvider"]
    )


@cache
def _words() -> WordVectors:
    with np.load(BytesIO(_file("words.npz"))) as stored:
        words = bytes(stored["words"]).decode().split()
        return WordVectors({word: row for row, word in enumerate(words)}, stored["table"])


def _file(name: str) -> bytes:
    return resources.files("streams.adapters.verifiers").joinpath("judge", name).read_bytes()
