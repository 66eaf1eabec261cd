"""Makes the weights of the built-in judge from the material and from sets that may be used.

    python -m training.judge DATA OUT    writes words.npz, judge.onnx and card.md into OUT

See `pairs` for DATA. The default embedding model must be installed. About half an hour on one core;
the same material and the versions in training/requirements.txt give the same judge.
"""

import argparse
import asyncio
import json
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import lightgbm
import numpy as np
from numpy.typing import NDArray
from platformdirs import user_cache_path

from streams.adapters.embedders import DEFAULT_MODEL
from streams.adapters.embedders.fastembed_text import FastembedEmbedder
from streams.adapters.embedders.install import verify
from streams.adapters.lexicons import english
from streams.core.judge.features import features, names, turned
from streams.core.judge.prepared import Prepared, prepare
from streams.core.judge.words import WordVectors
from streams.core.language.reading import read
from training import card, head, words
from training.calibration import calibrate, probabilities
from training.export import Mixture, Network, graph
from training.frames import CLASSES, CONVERSE, Labelled
from training.pairs import collect

Matrix = NDArray[np.float32]
Ints = NDArray[np.int64]

TURNED = tuple(CLASSES.index(CONVERSE.get(label, label)) for label in CLASSES)
"""Where each class stands when the pair is turned round."""

_LEAST_SIMILAR = 0.4
"""Pairs less alike are never compared: bands begin higher."""

_CALIBRATING = ("memories", "written")
"""Sources whose texts are like those to be judged, and whose labels were given by hand."""

_TREES = {
    "objective": "multiclass", "num_class": len(CLASSES), "learning_rate": 0.1, "num_leaves": 24,
    "min_data_in_leaf": 40, "lambda_l2": 1.0, "feature_fraction": 0.5, "num_threads": 1,
    "deterministic": True, "force_col_wise": True, "seed": 1, "verbose": -1,
}  # fmt: skip
_ROUNDS = 150
_EPOCHS = 5
_FIRST_EPOCHS = 3
_SEEDS = (1, 2)
"""Of the attentions, whose mean is better than either."""


class Learnt(NamedTuple):
    """What one fit gives."""

    trees: lightgbm.Booster
    heads: Sequence[tuple[head.Head, head.Scale]]


class Set(NamedTuple):
    """Pairs as the models take them."""

    texts: Sequence[head.Text]
    rows: head.Rows

    def only(self, kept: NDArray[np.bool_]) -> "Set":
        rows = self.rows
        return Set(self.texts, head.Rows(rows.event[kept], rows.memory[kept], rows.features[kept]))


class Preparation:
    """Turns texts into what the models take; a text is worked on once."""

    def __init__(self, cache: Path, table: Path) -> None:
        self._lexicon = english()
        self._embedder = FastembedEmbedder(DEFAULT_MODEL, cache, threads=1)
        with np.load(table) as stored:
            rows = {word: at for at, word in enumerate(bytes(stored["words"]).decode().split())}
            self._words = WordVectors(rows, stored["table"])
        self._vectors: dict[str, Matrix] = {}
        self._prepared: dict[str, Prepared] = {}

    def set_of(self, pairs: Sequence[tuple[str, str]]) -> Set:
        found = sorted({text for pair in pairs for text in pair} - self._vectors.keys())
        for text, told in zip(found, asyncio.run(self._embedder.embed(found)), strict=True):
            self._vectors[text] = np.asarray(told.vector, np.float32)
        at = {text: place for place, text in enumerate(dict.fromkeys(t for p in pairs for t in p))}
        texts = [self._of(text) for text in at]
        rows = np.stack([self._features(*pair) for pair in pairs])
        event, memory = (np.array([at[pair[side]] for pair in pairs]) for side in (0, 1))
        return Set(
            [head.Text(text.tokens, text.keys) for text in texts], head.Rows(event, memory, rows)
        )

    def _features(self, event: str, memory: str) -> Matrix:
        similarity = float(self._vectors[event] @ self._vectors[memory])
        return features(self._of(event), self._of(memory), similarity, self._lexicon)

    def _of(self, text: str) -> Prepared:
        if text not in self._prepared:
            reading = read(text, self._lexicon)
            self._prepared[text] = prepare(reading, self._lexicon, self._words)
        return self._prepared[text]


def fit(given: Set, labels: Ints, weights: Matrix, epochs: int, seeds: Sequence[int]) -> Learnt:
    """Train the trees, with both ways round of every pair, and the attention."""
    rows = np.vstack([given.rows.features, given.rows.features[:, list(turned())]])
    both = lightgbm.Dataset(
        rows, label=np.concatenate([labels, np.array(TURNED)[labels]]), weight=np.tile(weights, 2)
    )
    trees = lightgbm.train(_TREES, both, _ROUNDS)
    heads = [
        head.fit(
            given.texts, given.rows, labels, weights,
            turned=turned(), classes=TURNED, epochs=epochs, seed=seed,
        )
        for seed in seeds
    ]  # fmt: skip
    return Learnt(trees, heads)


def scores(learnt: Learnt, given: Set) -> tuple[Matrix, Matrix]:
    """Return the trees' and the attention's scores, both ways round averaged."""
    rows = given.rows.features
    told = partial(learnt.trees.predict, raw_score=True)
    here, there = np.asarray(told(rows)), np.asarray(told(rows[:, list(turned())]))
    boosted = (here + there[:, list(TURNED)]) / 2
    attended = [
        head.answers(attention, scale, given.texts, given.rows, turned(), TURNED)
        for attention, scale in learnt.heads
    ]
    return boosted.astype(np.float32), np.mean(attended, axis=0)


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the built-in judge's weights.")
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--models", type=Path, default=user_cache_path("memsieve") / "models")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    words.write(verify(DEFAULT_MODEL, arguments.models), arguments.out / "words.npz")
    preparation = Preparation(arguments.models, arguments.out / "words.npz")
    pairs = collect(arguments.data)
    given = preparation.set_of([(pair.event, pair.memory) for pair in pairs])
    alike = given.rows.features[:, names().index("similarity")] >= _LEAST_SIMILAR
    pairs = [pair for pair, kept in zip(pairs, alike, strict=True) if kept]
    given = given.only(alike)
    print(f"{len(pairs):,} pairs of {len(given.texts):,} texts", flush=True)
    mixture, learnt = train(pairs, given)
    model = graph(
        learnt.trees.dump_model()["tree_info"],
        [
            Network(head.weights_of(attention), scale.mean, scale.spread)
            for attention, scale in learnt.heads
        ],
        mixture,
        columns=turned(),
        classes=TURNED,
    )
    (arguments.out / "judge.onnx").write_bytes(model.SerializeToString(deterministic=True))
    measured = {
        name: card.measure(rows, probabilities(*scores(learnt, preparation.set_of(texts)), mixture))
        for name, rows, texts in evaluated(arguments.data)
    }
    card.write(arguments.out, pairs, mixture, measured)


def train(pairs: Sequence[Labelled], given: Set) -> tuple[Mixture, Learnt]:
    """Calibrate on pairs written by hand, kept from a first fit; then fit on all."""
    labels = np.array([CLASSES.index(pair.label) for pair in pairs])
    weights = np.array([pair.weight for pair in pairs], np.float32)
    kept = np.array([pair.source in _CALIBRATING for pair in pairs])
    first = fit(given.only(~kept), labels[~kept], weights[~kept], _FIRST_EPOCHS, _SEEDS[:1])
    mixture = calibrate(*scores(first, given.only(kept)), labels[kept], TURNED)
    print(f"calibrated on {kept.sum()} pairs: {mixture}", flush=True)
    return mixture, fit(given, labels, weights, _EPOCHS, _SEEDS)


def evaluated(data: Path) -> Iterable[tuple[str, list[dict[str, Any]], list[tuple[str, str]]]]:
    """Yield the sets that are reported on, none of which is learnt from."""
    own = Path(__file__).parent.parent / "benchmarks" / "datasets" / "memory_pairs.jsonl"
    for name, file in (
        ("mixed", data / "pairs" / "mixed.jsonl"),
        ("negation_antonym", data / "pairs" / "negation_antonym.jsonl"),
        ("scoped_negation", data / "pairs" / "scoped_negation.jsonl"),
        ("memory_pairs", own),
    ):
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        if name == "memory_pairs":
            rows = [row for row in rows if row["half"] == "held-out"]
        if name == "scoped_negation":
            rows = [row for row in rows if row["label"] == 0]
        yield name, rows, [(row["a"], row["b"]) for row in rows]


if __name__ == "__main__":
    main()
