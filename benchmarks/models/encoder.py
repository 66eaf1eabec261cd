"""Texts per second of the encoder, exact and fast, beside plain fastembed and a bare session.

Usage: python benchmarks/models/encoder.py [--texts N] [--rounds N] [--out FILE]

All get the same real texts with their models loaded: facts of some 25 tokens, and news of some 50.
Plain fastembed embeds them in file order; ours gets them 256 at a time, as a run does. The bare
session is onnxruntime's own loop over all texts sorted by their tokens, padded to the longest of a
batch, pooled and normalised: what can be had without any of our code. Contestants take turns, so
that a machine that slows down slows all. The drift is that of cosines between any two of the texts.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from fastembed.common.preprocessor_utils import load_tokenizer
from fastembed.common.utils import mean_pooling, normalize
from numpy.typing import NDArray

from benchmarks.harness.embedders import embed, plain_fastembed
from benchmarks.harness.material import STREAMS, Texts, short_texts
from benchmarks.harness.measuring import Result, Rounds, Spread, arguments, in_turn, rate, ratio
from streams.embedding.batching import batches
from streams.embedding.install import describe
from streams.embedding.precision import settled
from streams.embedding.tokens import PaddingTokenizer
from streams.model.ports.models import Embedder
from streams.store.app import settings, wiring

_RUN_RECORDS = 256
_TOKENS_MAX = 1_024
_DRIFT_TEXTS = 500

FASTEMBED, SORTED, EXACT, FAST = "fastembed", "bare session, sorted", "exact", "fast"


def main() -> None:
    parser = arguments(__doc__, rounds=3)
    parser.add_argument("--texts", type=int, default=256, help="of each kind")
    options = parser.parse_args()
    kinds = _material(options.texts)
    ours = _ours()
    plain, bare = plain_fastembed(), _BareSession()
    rounds: dict[str, Rounds] = {}
    for kind, texts in kinds.items():
        print(f"{len(texts.texts):,} texts ({texts.name}), texts per second:")
        contestants: dict[str, Callable[[], float]] = {
            FASTEMBED: lambda texts=texts.texts: rate(len(texts), lambda: embed(plain, texts)),
            SORTED: lambda texts=texts.texts: rate(len(texts), lambda: bare.embed(texts)),
            **{
                name: lambda one=one, texts=texts.texts: rate(
                    len(texts), lambda: asyncio.run(_embed(one, texts))
                )
                for name, one in ours.items()
            },
        }
        rounds[kind] = in_turn(options.rounds, contestants)
    _result(kinds, rounds, ours).give(options.out)


def _material(limit: int) -> dict[str, Texts]:
    news = STREAMS / "agnews.jsonl"
    kinds = {"facts": short_texts(limit=limit)}
    return kinds | ({"news": short_texts(news, limit=limit)} if news.exists() else {})


def _ours() -> dict[str, Embedder]:
    """Return the embedder in each precision that this machine supports."""
    chosen = settings.load({}).embedder
    best = settled("auto", describe(chosen.model))
    return {
        name: wiring.embedder(chosen.model_copy(update={"precision": name}), print)
        for name in dict.fromkeys([EXACT, best])
    }


async def _embed(embedder: Embedder, texts: Sequence[str]) -> NDArray[np.float64]:
    made = [
        one.vector
        for at in range(0, len(texts), _RUN_RECORDS)
        for one in await embedder.embed(texts[at : at + _RUN_RECORDS])
    ]
    return np.array(made, np.float64)


class _BareSession:
    """onnxruntime over the installed model, with its own defaults."""

    def __init__(self) -> None:
        folder = wiring.verify_model(settings.load({}).embedder)
        self._tokenizer, _ = load_tokenizer(folder)
        self._tokenizer.no_padding()
        runtime: Any = import_module("onnxruntime")
        self._session = runtime.InferenceSession(
            str(folder / "model.onnx"), providers=["CPUExecutionProvider"]
        )

    def embed(self, texts: Sequence[str]) -> None:
        read = sorted((one.ids for one in self._tokenizer.encode_batch_fast(texts)), key=len)
        batch: list[list[int]] = []
        for tokens in read:
            if batch and (len(batch) + 1) * len(tokens) > _TOKENS_MAX:
                self._run(batch)
                batch = []
            batch.append(tokens)
        self._run(batch)

    def _run(self, batch: list[list[int]]) -> None:
        inputs = np.zeros((len(batch), len(batch[-1])), np.int64)
        mask = np.zeros_like(inputs)
        for row, tokens in enumerate(batch):
            inputs[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        feed = {"input_ids": inputs, "attention_mask": mask, "token_type_ids": 0 * inputs}
        normalize(mean_pooling(self._session.run(None, feed)[0], mask))


def _result(
    kinds: Mapping[str, Texts], rounds: Mapping[str, Rounds], ours: Mapping[str, Embedder]
) -> Result:
    together = _together(kinds, rounds)
    ratios: dict[str, Spread] = {}
    for suffix, found in {
        "": together,
        **{f"_{kind}": one for kind, one in rounds.items()},
    }.items():
        ratios[f"exact_over_fastembed{suffix}"] = ratio(found[EXACT], found[FASTEMBED])
        ratios[f"exact_over_sorted{suffix}"] = ratio(found[EXACT], found[SORTED])
        if FAST in found:
            ratios[f"fast_over_fastembed{suffix}"] = ratio(found[FAST], found[FASTEMBED])
            ratios[f"fast_over_exact{suffix}"] = ratio(found[FAST], found[EXACT])
    figures: dict[str, Spread | float] = {
        f"{name}_texts_per_second": Spread.of(values) for name, values in together.items()
    }
    return Result(
        benchmark="encoder",
        method=__doc__ or "",
        material={kind: texts.about() for kind, texts in kinds.items()} | _padding(kinds),
        ratios=ratios,
        figures=figures | _drift(kinds, ours),
        rounds={f"{name}, {kind}": v for kind, one in rounds.items() for name, v in one.items()},
        packages=("fastembed", "onnxruntime", "openvino", "numpy", "tokenizers"),
    )


def _together(kinds: Mapping[str, Texts], rounds: Mapping[str, Rounds]) -> Rounds:
    """Return the rates over all kinds of texts for each round."""
    counts = {kind: len(texts.texts) for kind, texts in kinds.items()}
    names = next(iter(rounds.values()))
    return {
        name: [
            sum(counts.values())
            / sum(counts[kind] / rate for kind, rate in zip(counts, each, strict=True))
            for each in zip(*(rounds[kind][name] for kind in counts), strict=True)
        ]
        for name in names
    }


def _padding(kinds: Mapping[str, Texts]) -> dict[str, object]:
    """Return the numbers of real tokens and of padded tokens that our encoder computes."""
    read, _ = load_tokenizer(wiring.verify_model(settings.load({}).embedder))
    tokenizer = PaddingTokenizer(read)
    tokens = padded = 0
    for texts in kinds.values():
        for at in range(0, len(texts.texts), _RUN_RECORDS):
            lengths = tokenizer.read(texts.texts[at : at + _RUN_RECORDS])
            tokens += sum(map(len, lengths))
            padded += sum(run.tokens for run in batches([*map(tokenizer.padded_length, lengths)]))
    return {"tokens": tokens, "padded_tokens": padded}


def _drift(kinds: Mapping[str, Texts], ours: Mapping[str, Embedder]) -> dict[str, float]:
    """Return how far the cosines of fast vectors differ from those of exact vectors."""
    if FAST not in ours:
        return {}
    texts = [text for each in kinds.values() for text in each.texts[: _DRIFT_TEXTS // len(kinds)]]
    exact, fast = (asyncio.run(_embed(ours[name], texts)) for name in (EXACT, FAST))
    drift = np.abs(exact @ exact.T - fast @ fast.T)
    return {"drift_p99": float(np.quantile(drift, 0.99)), "drift_max": float(drift.max())}


if __name__ == "__main__":
    main()
