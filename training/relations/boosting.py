"""Fits the decision's boosted trees, and splits pairs so that no fold shares a text with another."""

from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

import lightgbm
import numpy as np
from numpy.typing import NDArray

from training.relations.material import Example

Matrix = NDArray[np.float64]

FOLDS = 5
_ROUNDS = 300
_TREES = {
    "objective": "binary", "num_leaves": 7, "learning_rate": 0.05, "min_data_in_leaf": 40,
    "feature_fraction": 0.6, "bagging_fraction": 0.7, "bagging_freq": 1, "lambda_l2": 5.0,
    "num_threads": 1, "deterministic": True, "force_col_wise": True, "seed": 1, "verbose": -1,
}  # fmt: skip


def fit(
    rows: Matrix, turned: Sequence[int], joined: Sequence[bool], weights: Sequence[float]
) -> dict[str, Any]:
    """Return trees for the log-odds that a pair is one memory, as `weighing.Trees` reads them.

    `rows` has shape (pairs, inputs); `turned` are the columns of a pair that is turned round.
    """
    scale = len(weights) / sum(weights)
    both = lightgbm.Dataset(
        np.vstack([rows, rows[:, turned]]),
        label=np.tile(np.array(joined, float), 2),
        weight=np.tile(np.array(weights) * scale, 2),
    )
    model = lightgbm.train(_TREES, both, _ROUNDS).dump_model()
    return _packed([tree["tree_structure"] for tree in model["tree_info"]])


def folds(found: Sequence[Example]) -> NDArray[np.int64]:
    """Return the fold of each pair; pairs that share a text, by whatever chain, share the fold."""
    parent: dict[str, str] = {}

    def root(text: str) -> str:
        while parent.setdefault(text, text) != text:
            text = parent[text]
        return text

    for one in found:
        if one.source != "strangers":  # these would chain the cards of a domain together
            parent[root(one.first)] = root(one.second)
    return np.array([crc32(root(one.first).encode()) % FOLDS for one in found])


def _packed(trees: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the trees as lists of nodes, padded with leaves to one length."""
    flat = [_nodes(tree) for tree in trees]
    size = max(map(len, flat))
    padded = [[*tree, *[_NOTHING] * (size - len(tree))] for tree in flat]
    columns = ("features", "values", "below")
    lists = {
        name: [[node[at] for node in tree] for tree in padded] for at, name in enumerate(columns)
    }
    return {"depth": max(map(_depth, trees)), **lists}


_NOTHING = (-1, 0.0, 0)


def _nodes(root: Mapping[str, Any]) -> list[tuple[int, float, int]]:
    """Return a tree's nodes in breadth-first order: feature, threshold or value, first child."""
    waiting = [root]
    nodes: list[tuple[int, float, int]] = []
    for node in waiting:
        if "split_feature" in node:
            nodes.append((node["split_feature"], round(node["threshold"], 6), len(waiting)))
            waiting += [node["left_child"], node["right_child"]]
        else:
            nodes.append((-1, round(node["leaf_value"], 6), 0))
    return nodes


def _depth(node: Mapping[str, Any]) -> int:
    if "split_feature" not in node:
        return 0
    return 1 + max(_depth(node["left_child"]), _depth(node["right_child"]))
