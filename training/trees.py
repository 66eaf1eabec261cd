"""Trains the cheap half of the judge: boosted trees over a pair's lexical features and cosine.

    python -m training.trees DATA OUT [--collected FILE]    writes words.npz and trees.onnx into OUT

The trees and the cross-encoder (`training/relations`) train on the same cards and labelled pairs,
and hold out the same development set. The default embedding model must be installed. The same
material and the versions in training/requirements.txt give the same trees.
"""

import argparse
import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import lightgbm
import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from platformdirs import user_cache_path

from streams.embedding import DEFAULT_MODEL
from streams.embedding.fastembed_text import FastembedEmbedder
from streams.embedding.install import verify
from streams.judges.lexicons import english
from streams.judges.models import word_vectors
from streams.text.judge.features import features, names, turned
from streams.text.judge.prepared import PreparedText, prepare
from streams.text.reading import AnalysedText
from training import words
from training.pairs import collect, evaluated_texts, read_collected
from training.relations.material import (
    ONE_MEMORY,
    RELATIONS,
    TURNED,
    Example,
    cards,
    for_development,
    near_copies,
    of_card,
    of_labelled,
    split,
    strangers,
    without,
)

Matrix = NDArray[np.float32]

_SEED = 20261123
_LEAST_SIMILAR = 0.4
"""Pairs with a lower cosine are never compared: the bands start higher."""
_CARD_SHARE = 0.4
_STRANGERS = 3_000
_ROUNDS = 160
_TREES = {
    "objective": "multiclass", "num_class": len(RELATIONS), "learning_rate": 0.1, "num_leaves": 24,
    "min_data_in_leaf": 40, "lambda_l2": 1.0, "feature_fraction": 0.5, "num_threads": 1,
    "deterministic": True, "force_col_wise": True, "seed": 1, "verbose": -1,
}  # fmt: skip
_LEAF, _BRANCH = b"LEAF", b"BRANCH_LEQ"
_OPSET = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
_IR_VERSION = 9


class Preparation:
    """Turns pairs of texts into feature rows; each text is processed once."""

    def __init__(self, cache: Path, table: Path) -> None:
        self._lexicon = english()
        self._embedder = FastembedEmbedder(DEFAULT_MODEL, cache, threads=1)
        self._words = word_vectors(table.read_bytes())
        self._vectors: dict[str, Matrix] = {}
        self._prepared: dict[str, PreparedText] = {}

    def rows(self, pairs: Sequence[tuple[str, str]]) -> Matrix:
        """Return the features of pairs, shape (n, columns)."""
        found = sorted({text for pair in pairs for text in pair} - self._vectors.keys())
        for text, told in zip(found, asyncio.run(self._embedder.embed(found)), strict=True):
            self._vectors[text] = np.asarray(told.vector, np.float32)
        return np.stack([self._features(*pair) for pair in pairs])

    def _features(self, event: str, memory: str) -> Matrix:
        similarity = float(self._vectors[event] @ self._vectors[memory])
        return features(self._of(event), self._of(memory), similarity, self._lexicon)

    def _of(self, text: str) -> PreparedText:
        if text not in self._prepared:
            reading = AnalysedText(text, self._lexicon)
            self._prepared[text] = prepare(reading, self._lexicon, self._words)
        return self._prepared[text]


def examples(data: Path, collected: Path | None) -> list[Example]:
    """Return the training pairs, each with one relation; retold texts count as `overlaps`."""
    chance = Random(_SEED)
    learnt, _, _ = split(cards())
    made = [one for card in learnt for one in of_card(card, chance, _CARD_SHARE)]
    made += [one for card in learnt for one in near_copies(card, chance)]
    made += strangers(learnt, chance, _STRANGERS)
    labelled = collect(data) if collected is None else read_collected(collected)
    made += [one for one in of_labelled(labelled) if not for_development(one)]
    told = [
        one._replace(relations=("overlaps",)) if one.relations == ONE_MEMORY else one
        for one in made
    ]
    return without(told, evaluated_texts(data), lambda _: True)


def fit(rows: Matrix, found: Sequence[Example]) -> lightgbm.Booster:
    """Train on every pair in both orders."""
    labels = np.array([RELATIONS.index(one.relations[0]) for one in found])
    weights = np.array([one.weight for one in found], np.float32)
    both = lightgbm.Dataset(
        np.vstack([rows, rows[:, list(turned())]]),
        label=np.concatenate([labels, np.array(TURNED)[labels]]),
        weight=np.tile(weights, 2),
    )
    return lightgbm.train(_TREES, both, _ROUNDS)


def graph(trees: Sequence[Mapping[str, Any]]) -> onnx.ModelProto:
    """Return the ONNX model from a pair's features, shape (columns,), to probabilities of RELATIONS.

    The scores of both orders are averaged. Tree i adds to the score of class i mod len(RELATIONS).
    """
    held = {
        "columns": np.array([range(len(turned())), turned()], np.int64),
        "classes": np.array(TURNED, np.int64),
        "here": np.array(0, np.int64),
        "there": np.array(1, np.int64),
        "half": np.array(0.5, np.float32),
    }
    nodes = [
        helper.make_node("Gather", ["features", "columns"], ["both"], axis=0),
        helper.make_node(
            "TreeEnsembleRegressor", ["both"], ["scores"], domain="ai.onnx.ml",
            n_targets=len(RELATIONS), aggregate_function="SUM", post_transform="NONE",
            **_flat(trees),
        ),
        helper.make_node("Gather", ["scores", "here"], ["one way"], axis=0),
        helper.make_node("Gather", ["scores", "there"], ["turned"], axis=0),
        helper.make_node("Gather", ["turned", "classes"], ["other way"], axis=0),
        helper.make_node("Add", ["one way", "other way"], ["sum"]),
        helper.make_node("Mul", ["sum", "half"], ["mean"]),
        helper.make_node("Softmax", ["mean"], ["probabilities"], axis=0),
    ]  # fmt: skip
    body = helper.make_graph(
        nodes,
        "trees",
        [helper.make_tensor_value_info("features", TensorProto.FLOAT, [len(turned())])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [len(RELATIONS)])],
        [numpy_helper.from_array(value, name) for name, value in held.items()],
    )
    model = helper.make_model(body, opset_imports=_OPSET, ir_version=_IR_VERSION)
    onnx.checker.check_model(model)
    return model


def _flat(trees: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the trees in ONNX form: one list for each property of a node."""
    nodes = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    flat: dict[str, list[Any]] = {f"nodes_{name}": [] for name in nodes}
    flat |= {f"target_{name}": [] for name in ("treeids", "nodeids", "ids", "weights")}
    for number, tree in enumerate(trees):
        _add(flat, tree["tree_structure"], number, number % len(RELATIONS))
    return flat


def _add(flat: dict[str, list[Any]], root: Mapping[str, Any], tree: int, target: int) -> None:
    waiting = [(0, root)]
    count = 1
    while waiting:
        number, node = waiting.pop()
        branches = "split_feature" in node
        row = {
            "treeids": tree,
            "nodeids": number,
            "featureids": node["split_feature"] if branches else 0,
            "values": _not_above(node["threshold"]) if branches else 0.0,
            "modes": _BRANCH if branches else _LEAF,
            "truenodeids": count if branches else 0,
            "falsenodeids": count + 1 if branches else 0,
        }
        for name, value in row.items():
            flat[f"nodes_{name}"].append(value)
        if branches:
            waiting += [(count, node["left_child"]), (count + 1, node["right_child"])]
            count += 2
            continue
        weight = float(np.float32(node["leaf_value"]))
        leaf = {"treeids": tree, "nodeids": number, "ids": target, "weights": weight}
        for name, value in leaf.items():
            flat[f"target_{name}"].append(value)


def _not_above(threshold: float) -> float:
    """Return the largest float32 not above a threshold, since the features are float32."""
    near = np.float32(threshold)
    return float(near if float(near) <= threshold else np.nextafter(near, np.float32(-np.inf)))


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the judge's trees.")
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--collected", type=Path, help="what training.pairs wrote")
    parser.add_argument("--models", type=Path, default=user_cache_path("memsieve") / "models")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    words.write(verify(DEFAULT_MODEL, given.models), given.out / "words.npz")
    found = examples(given.data, given.collected)
    rows = Preparation(given.models, given.out / "words.npz").rows(
        [(one.first, one.second) for one in found]
    )
    alike = rows[:, names().index("similarity")] >= _LEAST_SIMILAR
    found = [one for one, kept in zip(found, alike, strict=True) if kept]
    for (source, relation), count in sorted(
        Counter((one.source, one.relations[0]) for one in found).items()
    ):
        print(f"{count:7,} {source:<18} {relation}", flush=True)
    trees = fit(rows[alike], found)
    model = graph(trees.dump_model()["tree_info"])
    (given.out / "trees.onnx").write_bytes(model.SerializeToString(deterministic=True))


if __name__ == "__main__":
    main()
