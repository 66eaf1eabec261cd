"""Exports the trained network to two ONNX files: `alone.onnx` for a text, `together.onnx` for a pair.

    python -m training.relations.export STATE OUT

Matrices are stored as int8 with one scale per output, and dequantised when the file is opened: all
computation is in float32, and the results agree on all processors to five decimals. There is no
batching and no padding, so a pair's result depends on nothing else.
"""

import argparse
import math
from pathlib import Path

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from platformdirs import user_cache_path

from training.relations.material import RELATIONS, TURNED
from training.relations.model import ALONE, BASE, Layer, Relations, started_from

_OPSET, _IR_VERSION = 20, 9
_EPSILON = 1e-12
_HALF = 0.5


class _Graph:
    """Collects nodes and weights; the methods return the name of the tensor that they make."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._held: dict[str, onnx.TensorProto] = {}

    def node(self, operator: str, *inputs: str, **attributes: object) -> str:
        output = f"{operator}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, inputs, [output], output, **attributes))
        return output

    def hold(self, name: str, value: NDArray[np.generic]) -> str:
        self._held[name] = numpy_helper.from_array(np.asarray(value, order="C"), name)
        return name

    def number(self, value: float) -> str:
        return self.hold(f"number {value}", np.array(value, np.float32))

    def integers(self, *values: int) -> str:
        return self.hold(f"integers {values}", np.array(values, np.int64))

    def matrix(self, name: str, weight: torch.Tensor) -> str:
        """Store a matrix of shape (out, in) as int8; return it dequantised, ready for `x @ w`."""
        bytes_, scales = quantised(weight)
        wide = self.node("Cast", self.hold(f"{name}.bytes", bytes_.T), to=TensorProto.FLOAT)
        return self.node("Mul", wide, self.hold(f"{name}.scales", scales[:, 0]))

    def linear(self, x: str, name: str, layer: torch.nn.Linear) -> str:
        product = self.node("MatMul", x, self.matrix(name, layer.weight))
        return self.node("Add", product, self.hold(f"{name}.bias", _values(layer.bias)))

    def norm(self, x: str, name: str, layer: torch.nn.LayerNorm) -> str:
        weight, bias = _values(layer.weight), _values(layer.bias)
        held = self.hold(f"{name}.weight", weight), self.hold(f"{name}.bias", bias)
        return self.node("LayerNormalization", x, *held, epsilon=_EPSILON)

    def layer(self, x: str, name: str, layer: Layer, bias: str | None) -> str:
        """Add one encoder layer over `x`, shape (tokens, width)."""
        width = layer.out.in_features // layer.heads
        mixed = self.linear(x, f"{name}.mixed", layer.mixed)
        split = self.node("Reshape", mixed, self.integers(0, 3, layer.heads, width))
        q, k, v = (self._part(split, at) for at in range(3))
        scores = self.node("MatMul", q, self.node("Transpose", k, perm=[0, 2, 1]))
        scores = self.node("Div", scores, self.number(math.sqrt(width)))
        if bias is not None:
            scores = self.node("Add", scores, bias)
        read = self.node("MatMul", self.node("Softmax", scores, axis=-1), v)
        read = self.node("Transpose", read, perm=[1, 0, 2])
        read = self.node("Reshape", read, self.integers(0, layer.heads * width))
        read = self.linear(read, f"{name}.out", layer.out)
        x = self.norm(self.node("Add", x, read), f"{name}.norm_attended", layer.norm_attended)
        fed = self.node("Gelu", self.linear(x, f"{name}.rise", layer.rise))
        fed = self.linear(fed, f"{name}.fall", layer.fall)
        return self.norm(self.node("Add", x, fed), f"{name}.norm_fed", layer.norm_fed)

    def _part(self, split: str, at: int) -> str:
        part = self.node("Gather", split, self.hold(f"part {at}", np.array(at, np.int64)), axis=1)
        return self.node("Transpose", part, perm=[1, 0, 2])

    def model(
        self, name: str, inputs: list[onnx.ValueInfoProto], output: str, shape: list[str | int]
    ) -> onnx.ModelProto:
        self._nodes.append(helper.make_node("Identity", [output], ["told"]))
        told = [helper.make_tensor_value_info("told", TensorProto.FLOAT, shape)]
        graph = helper.make_graph(self._nodes, name, inputs, told, list(self._held.values()))
        opset = [helper.make_opsetid("", _OPSET)]
        return helper.make_model(graph, opset_imports=opset, ir_version=_IR_VERSION)


def quantised(weight: torch.Tensor) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return a matrix as int8 and the scales of its rows, shape (rows, 1)."""
    values = _values(weight)
    scales = np.maximum(np.abs(values).max(1, keepdims=True), 1e-12) / 127
    return np.round(values / scales).astype(np.int8), scales.astype(np.float32)


def alone(net: Relations) -> onnx.ModelProto:
    """Return the graph that maps one text's ids, shape (tokens,), to states (tokens, width)."""
    graph = _Graph()
    bytes_, scales = quantised(net.words.weight)
    ids = "ids"
    rows = graph.node("Gather", graph.hold("words.bytes", bytes_), ids)
    wide = graph.node("Cast", rows, to=TensorProto.FLOAT)
    words = graph.node("Mul", wide, graph.node("Gather", graph.hold("words.scales", scales), ids))
    positions = graph.hold("positions", _values(net.positions.weight).astype(np.float16))
    places = graph.node("Slice", positions, graph.integers(0), graph.node("Shape", ids))
    x = graph.node("Add", words, graph.node("Cast", places, to=TensorProto.FLOAT))
    x = graph.norm(x, "norm", net.norm)
    for at, layer in enumerate(net.layers[:ALONE]):
        x = graph.layer(x, f"layer {at}", layer, None)
    given = [helper.make_tensor_value_info(ids, TensorProto.INT64, ["tokens"])]
    return graph.model("alone", given, x, ["tokens", net.words.embedding_dim])


def together(net: Relations) -> onnx.ModelProto:
    """Return the graph that maps two texts' states to logits over RELATIONS, shape (relations,)."""
    graph = _Graph()
    width = net.words.embedding_dim
    x = graph.node("Concat", "first", "second", axis=0)
    apart = _apart(graph)
    for at, layer in enumerate(net.layers[ALONE:]):
        across = graph.hold(f"across {at}", _values(net.across[at])[:, None, None])
        x = graph.layer(x, f"layer {ALONE + at}", layer, graph.node("Mul", apart, across))
    first = graph.node("Slice", x, graph.integers(0), _length(graph, "first"))
    second = graph.node("Slice", x, _length(graph, "first"), graph.integers(2**31))
    u, v = (graph.node("ReduceMean", one, graph.integers(0), keepdims=0) for one in (first, second))
    starts = graph.node(
        "Add",
        *(graph.node("Gather", one, graph.hold("zero", np.array(0))) for one in (first, second)),
    )
    turned = graph.hold("turned", np.array(TURNED, np.int64))
    there = _head(graph, net, u, v, starts, "there")
    back = graph.node("Gather", _head(graph, net, v, u, starts, "back"), turned)
    logits = graph.node("Mul", graph.node("Add", there, back), graph.number(_HALF))
    given = [
        helper.make_tensor_value_info(side, TensorProto.FLOAT, [f"{side} tokens", width])
        for side in ("first", "second")
    ]
    return graph.model("together", given, logits, [len(RELATIONS)])


def _head(graph: _Graph, net: Relations, u: str, v: str, starts: str, _way: str) -> str:
    apart = graph.node("Abs", graph.node("Sub", u, v))
    seen = graph.node("Concat", u, v, apart, graph.node("Mul", u, v), starts, axis=0)
    hidden = graph.node("Tanh", graph.linear(seen, "hidden", net.hidden))
    return graph.linear(hidden, "told by", net.told)


def _apart(graph: _Graph) -> str:
    """Return a mask of shape (1, tokens, tokens): 1 where two tokens are from different texts."""
    sides = [
        graph.node("Expand", graph.number(value), _length(graph, side))
        for value, side in ((0.0, "first"), (1.0, "second"))
    ]
    side = graph.node("Concat", *sides, axis=0)
    rows, columns = (graph.node("Unsqueeze", side, graph.integers(at)) for at in (0, 1))
    return graph.node(
        "Unsqueeze", graph.node("Abs", graph.node("Sub", rows, columns)), graph.integers(0)
    )


def _length(graph: _Graph, side: str) -> str:
    return graph.node("Shape", side, end=1)


def _values(weight: torch.Tensor) -> NDArray[np.float32]:
    return weight.detach().numpy().astype(np.float32)


def write(net: Relations, out: Path) -> None:
    """Write both files."""
    out.mkdir(parents=True, exist_ok=True)
    for name, model in (("alone", alone(net)), ("together", together(net))):
        onnx.checker.check_model(model)
        (out / f"{name}.onnx").write_bytes(model.SerializeToString(deterministic=True))


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the network of relations as ONNX files.")
    parser.add_argument("state", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--models", type=Path, default=user_cache_path("memsieve") / "models")
    arguments = parser.parse_args()
    net = started_from(arguments.models / BASE / "model.onnx")
    net.load_state_dict(torch.load(arguments.state / "state.pt", weights_only=True)["net"])
    write(net.eval(), arguments.out)


if __name__ == "__main__":
    main()
