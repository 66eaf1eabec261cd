"""The trained judge as one ONNX graph: boosted trees and an attention, asked both ways round."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from streams.core.judge.prepared import MARKS

Matrix = NDArray[np.float32]

_OPSET = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
_IR_VERSION = 9
_CLIPPED = 4.0
_LEAF, _BRANCH = b"LEAF", b"BRANCH_LEQ"


class Network(NamedTuple):
    """An attention's parameters by name, and the mean and spread of the features it was given."""

    weights: Mapping[str, Matrix]
    mean: Matrix
    spread: Matrix


class Mixture(NamedTuple):
    """How the two sets of scores become probabilities: softmax(trees * . + head * . + bias)."""

    trees: float
    head: float
    biases: Sequence[float]


def graph(
    trees: Sequence[Mapping[str, Any]],
    heads: Sequence[Network],
    mixture: Mixture,
    *,
    columns: Sequence[int],
    classes: Sequence[int],
) -> onnx.ModelProto:
    """Return the model of one pair: its features (1, columns), and each side's tokens and keys.

    `trees` are LightGBM's, tree i adding to the score of class i modulo their number. `columns` and
    `classes` say where each stands when the pair is turned round.
    """
    g = _Graph()
    turned = g.op("Gather", "features", g.constant(np.array(columns, np.int64)), axis=1)
    boosted = _boosted(g, trees, turned, len(classes))
    back = g.constant(np.array(classes, np.int64))
    scores: list[str] = []
    parts = [(boosted, mixture.trees)]
    parts += [(_attended(g, head, turned), mixture.head / len(heads)) for head in heads]
    for (one_way, other_way), weight in parts:
        both = g.op("Add", one_way, g.op("Gather", other_way, back, axis=1))
        scores.append(g.op("Mul", both, g.constant(np.array(weight / 2, np.float32))))
    logits = g.op("Sum", *scores, g.constant(np.array([mixture.biases], np.float32)))
    g.op("Softmax", logits, named="probabilities", axis=1)
    depth = heads[0].weights["here.weight"].shape[1]
    return g.model(
        {
            "features": (TensorProto.FLOAT, [1, len(columns)]),
            "event": (TensorProto.FLOAT, ["event_words", depth]),
            "memory": (TensorProto.FLOAT, ["memory_words", depth]),
            "event_keys": (TensorProto.INT64, ["event_words"]),
            "memory_keys": (TensorProto.INT64, ["memory_words"]),
        },
        {"probabilities": (TensorProto.FLOAT, [1, len(classes)])},
    )


class _Graph:
    """A graph that is written down node by node."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []

    def op(self, kind: str, *inputs: str, named: str = "", domain: str = "", **of: object) -> str:
        """Add a node with one output and return the output's name."""
        output = named or f"v{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, inputs, [output], domain=domain, **of))
        return output

    def constant(self, value: NDArray[Any]) -> str:
        name = f"c{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def model(self, inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> onnx.ModelProto:
        told = [
            [helper.make_tensor_value_info(name, *of) for name, of in ends.items()]
            for ends in (inputs, outputs)
        ]
        body = helper.make_graph(self._nodes, "judge", told[0], told[1], self._constants)
        model = helper.make_model(body, opset_imports=_OPSET, ir_version=_IR_VERSION)
        onnx.checker.check_model(model)
        return model


def _boosted(
    g: _Graph, trees: Sequence[Mapping[str, Any]], turned: str, width: int
) -> tuple[str, str]:
    rows = g.op("Concat", "features", turned, axis=0)
    scores = g.op(
        "TreeEnsembleRegressor", rows, domain="ai.onnx.ml", n_targets=width,
        aggregate_function="SUM", post_transform="NONE", **_flat(trees, width),
    )  # fmt: skip
    one_way, other_way = (g.constant(np.array([row], np.int64)) for row in (0, 1))
    return g.op("Gather", scores, one_way, axis=0), g.op("Gather", scores, other_way, axis=0)


def _attended(g: _Graph, head: Network, turned: str) -> tuple[str, str]:
    """Write `training.head.Head` down, for a pair without padding."""
    weights = {name: g.constant(value.T) for name, value in head.weights.items() if value.ndim > 1}
    biases = {
        name: g.constant(value) for name, value in head.weights.items() if name.endswith(".bias")
    }

    def linear(x: str, name: str) -> str:
        product = g.op("MatMul", x, weights[f"{name}.weight"])
        bias = biases.get(f"{name}.bias")
        return g.op("Add", product, bias) if bias else product

    zeros = g.constant(np.zeros((1, head.weights["here.weight"].shape[1]), np.float32))
    first, last, end = (g.constant(np.array([at], np.int64)) for at in (0, -1, 1 << 30))
    one, marks = (g.constant(np.array([at], np.int64)) for at in (1, MARKS))

    def columns(x: str, start: str, stop: str) -> str:
        return g.op("Slice", x, start, stop, one)

    def mixed(x: str) -> str:
        left = g.op("Concat", zeros, g.op("Slice", x, first, last, first), axis=0)
        right = g.op("Concat", g.op("Slice", x, one, end, first), zeros, axis=0)
        around = g.op("Add", linear(left, "before"), linear(right, "behind"))
        return g.op("Tanh", g.op("Add", linear(x, "here"), around))

    def transposed(x: str) -> str:
        return g.op("Transpose", x, perm=[1, 0])

    width = np.float32(head.weights["asked.weight"].shape[0])
    scales = [g.constant(value) for value in head.weights["scales"].astype(np.float32)]
    root = g.constant(np.sqrt(width))
    texts = {side: (side, mixed(side), columns(side, first, one)) for side in ("event", "memory")}
    vectors = [columns(side, marks, end) for side in texts]
    near = g.op("MatMul", vectors[0], transposed(vectors[1]))
    keys = [
        g.op("Unsqueeze", f"{side}_keys", at) for side, at in (("event", one), ("memory", first))
    ]
    same = g.op("Cast", g.op("Equal", *keys), to=TensorProto.FLOAT)
    places = (texts["event"][2], transposed(texts["memory"][2]))
    apart = g.op("Abs", g.op("Sub", *places))
    known = g.op(
        "Sub",
        g.op("Add", g.op("Mul", near, scales[0]), g.op("Mul", same, scales[1])),
        g.op("Mul", apart, scales[2]),
    )

    def side(
        a: tuple[str, str, str], b: tuple[str, str, str], energy: str, seen: tuple[str, str]
    ) -> str:
        weight = g.op("Softmax", energy, axis=1)
        aligned = g.op("MatMul", weight, b[1])
        moved = g.op("Abs", g.op("Sub", a[2], g.op("MatMul", weight, b[2])))
        best = [g.op("ReduceMax", table, one, keepdims=1) for table in seen]
        difference = g.op("Abs", g.op("Sub", a[1], aligned))
        parts = (a[1], aligned, difference, g.op("Mul", a[1], aligned), *best, moved)
        hidden = g.op("Relu", linear(g.op("Concat", *parts, axis=1), "compared"))
        hidden = g.op("Relu", linear(hidden, "weighed"))
        mean = g.op("ReduceMean", hidden, first, keepdims=1)
        return g.op("Concat", mean, g.op("ReduceMax", hidden, first, keepdims=1), axis=1)

    def way(x: str, y: str, features: str) -> str:
        scaled = g.op("Div", g.op("Sub", features, mean), spread)
        scaled = g.op("Clip", scaled, low, high)
        parts = g.op("Concat", x, y, apart_xy, product_xy, scaled, axis=1)
        return linear(g.op("Relu", linear(parts, "joined")), "told")

    mean, spread = g.constant(head.mean), g.constant(head.spread)
    low, high = (g.constant(np.array(limit, np.float32)) for limit in (-_CLIPPED, _CLIPPED))
    a, b = texts["event"], texts["memory"]
    product = g.op("MatMul", linear(a[1], "asked"), transposed(b[1]))
    energy = g.op("Add", g.op("Div", product, root), known)
    x = side(a, b, energy, (near, same))
    y = side(b, a, transposed(energy), (transposed(near), transposed(same)))
    apart_xy, product_xy = g.op("Abs", g.op("Sub", x, y)), g.op("Mul", x, y)
    return way(x, y, "features"), way(y, x, turned)


def _flat(trees: Sequence[Mapping[str, Any]], width: int) -> dict[str, list[Any]]:
    """Return the trees as ONNX wants them: one list for each property of a node."""
    nodes = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    flat: dict[str, list[Any]] = {f"nodes_{name}": [] for name in nodes}
    flat |= {f"target_{name}": [] for name in ("treeids", "nodeids", "ids", "weights")}
    for number, tree in enumerate(trees):
        _add(flat, tree["tree_structure"], number, number % width)
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
    """Return the largest float32 up to a threshold: what is compared are such numbers."""
    near = np.float32(threshold)
    return float(near if float(near) <= threshold else np.nextafter(near, np.float32(-np.inf)))
