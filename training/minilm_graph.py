"""Builds the ONNX graph of all-MiniLM-L6-v2, without its weights.

    python -m training.minilm_graph WEIGHTS OUT    WEIGHTS is the published model.safetensors

A BERT encoder as in the paper: embeddings, then six layers of attention and feed-forward, each
followed by a residual sum and a normalisation. Only standard operators, no training parts, no
pooling: fastembed averages the tokens. The weights stay where they are published: the graph has
the place of each in a copy of that file, which lies beside it.
"""

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from streams.embedding.install import GRAPH_WEIGHTS

LAYERS = 6
HEADS = 12
HIDDEN = 384
HEAD_WIDTH = HIDDEN // HEADS
NORM_EPSILON = 1e-12
OPSET = 17  # the first with LayerNormalization
IR_VERSION = 8


def built(safetensors: Path) -> bytes:
    """Return the graph over the weights of a file."""
    graph = _Graph(_places(safetensors))
    bias = _padding_bias(graph)
    hidden = _embeddings(graph)
    for number in range(LAYERS):
        hidden = _layer(graph, f"encoder.layer.{number}", hidden, bias)
    return graph.model(hidden).SerializeToString(deterministic=True)


def _places(safetensors: Path) -> dict[str, TensorProto]:
    """Return the float32 tensors of a file as references to their bytes in it.

    The file begins with the size of its header, and offsets in the header count from behind it.
    """
    with safetensors.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header: dict[str, Any] = json.loads(file.read(size))
    places: dict[str, TensorProto] = {}
    for name, told in header.items():
        if told.get("dtype") == "F32":
            first, end = told["data_offsets"]
            places[name] = _reference(name, told["shape"], 8 + size + first, end - first)
    return places


def _reference(name: str, shape: Sequence[int], offset: int, length: int) -> TensorProto:
    tensor = TensorProto(
        name=name,
        data_type=TensorProto.FLOAT,
        dims=shape,
        data_location=TensorProto.EXTERNAL,
    )
    told = {"location": GRAPH_WEIGHTS, "offset": str(offset), "length": str(length)}
    for key, value in told.items():
        tensor.external_data.add(key=key, value=value)
    return tensor


class _Graph:
    """Collects nodes and weights; every method returns the name of the tensor it made."""

    def __init__(self, weights: Mapping[str, TensorProto]) -> None:
        self._weights = weights
        self._nodes: list[NodeProto] = []
        self._initializers: dict[str, TensorProto] = {}

    def node(self, operator: str, *inputs: str, **attributes: float | list[int]) -> str:
        output = f"{operator}_{len(self._nodes)}"
        node = helper.make_node(operator, inputs, [output], output)
        node.attribute.extend(
            helper.make_attribute(key, value) for key, value in attributes.items()
        )
        self._nodes.append(node)
        return output

    def scalar(self, value: float) -> str:
        return self._keep(f"scalar {value}", np.array(value, np.float32))

    def integers(self, *values: int) -> str:
        return self._keep(f"integers {values}", np.array(values, np.int64))

    def weight(self, name: str) -> str:
        self._initializers[name] = self._weights[name]
        return name

    def transposed(self, name: str) -> str:
        """Return a weight ready for `x @ w`: the file holds (out, in), as PyTorch does.

        The runtime transposes it once, when it loads the graph.
        """
        return self.node("Transpose", self.weight(name), perm=[1, 0])

    def model(self, output: str) -> ModelProto:
        self._nodes.append(helper.make_node("Identity", [output], ["last_hidden_state"]))
        tokens = ["batch", "length"]
        inputs = [
            _tensor(name, TensorProto.INT64, tokens)
            for name in ("input_ids", "attention_mask", "token_type_ids")
        ]
        outputs = [_tensor("last_hidden_state", TensorProto.FLOAT, [*tokens, HIDDEN])]
        graph = helper.make_graph(
            self._nodes, "all-MiniLM-L6-v2", inputs, outputs, list(self._initializers.values())
        )
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
        )

    def _keep(self, name: str, values: NDArray[np.float32] | NDArray[np.int64]) -> str:
        if name not in self._initializers:
            self._initializers[name] = numpy_helper.from_array(values, name)
        return name


def _tensor(name: str, kind: int, shape: Sequence[str | int]) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def _padding_bias(graph: _Graph) -> str:
    """Return the attention bias of each position: 0 for a token, -10000 for padding.

    exp(-10000) is exactly 0 in float32, so padding changes no vector.
    """
    mask = graph.node("Cast", "attention_mask", to=TensorProto.FLOAT)
    per_key = graph.node("Unsqueeze", mask, graph.integers(1, 2))
    absent = graph.node("Sub", per_key, graph.scalar(1.0))
    return graph.node("Mul", absent, graph.scalar(10_000.0))


def _embeddings(graph: _Graph) -> str:
    words = graph.node("Gather", graph.weight("embeddings.word_embeddings.weight"), "input_ids")
    kinds = graph.node(
        "Gather", graph.weight("embeddings.token_type_embeddings.weight"), "token_type_ids"
    )
    length = graph.node("Shape", "input_ids", start=1, end=2)
    table = graph.weight("embeddings.position_embeddings.weight")
    positions = graph.node("Slice", table, graph.integers(0), length, graph.integers(0))
    summed = graph.node("Add", graph.node("Add", words, kinds), positions)
    return _normalised(graph, "embeddings.LayerNorm", summed)


def _layer(graph: _Graph, layer: str, hidden: str, bias: str) -> str:
    attended = _attention(graph, f"{layer}.attention.self", hidden, bias)
    mixed = _linear(graph, f"{layer}.attention.output.dense", attended)
    summed = graph.node("Add", mixed, hidden)
    hidden = _normalised(graph, f"{layer}.attention.output.LayerNorm", summed)

    wide = _gelu(graph, _linear(graph, f"{layer}.intermediate.dense", hidden))
    narrow = _linear(graph, f"{layer}.output.dense", wide)
    return _normalised(graph, f"{layer}.output.LayerNorm", graph.node("Add", narrow, hidden))


def _attention(graph: _Graph, part: str, hidden: str, bias: str) -> str:
    """Return softmax(Q·Kᵀ / √width + bias) · V, with all heads concatenated."""
    query = _heads(graph, f"{part}.query", hidden, order=[0, 2, 1, 3])
    key = _heads(graph, f"{part}.key", hidden, order=[0, 2, 3, 1])
    value = _heads(graph, f"{part}.value", hidden, order=[0, 2, 1, 3])

    products = graph.node("MatMul", query, key)
    scores = graph.node("Div", products, graph.scalar(math.sqrt(HEAD_WIDTH)))
    shares = graph.node("Softmax", graph.node("Add", scores, bias), axis=-1)
    per_head = graph.node("MatMul", shares, value)

    by_token = graph.node("Transpose", per_head, perm=[0, 2, 1, 3])
    return graph.node("Reshape", by_token, graph.integers(0, 0, HIDDEN))


def _heads(graph: _Graph, name: str, hidden: str, *, order: list[int]) -> str:
    """Project, split into heads, and put the axes (batch, token, head, width) in `order`."""
    projected = _linear(graph, name, hidden)
    cut = graph.node("Reshape", projected, graph.integers(0, 0, HEADS, HEAD_WIDTH))
    return graph.node("Transpose", cut, perm=order)


def _linear(graph: _Graph, name: str, hidden: str) -> str:
    product = graph.node("MatMul", hidden, graph.transposed(f"{name}.weight"))
    return graph.node("Add", product, graph.weight(f"{name}.bias"))


def _normalised(graph: _Graph, name: str, hidden: str) -> str:
    scale, shift = graph.weight(f"{name}.weight"), graph.weight(f"{name}.bias")
    return graph.node("LayerNormalization", hidden, scale, shift, axis=-1, epsilon=NORM_EPSILON)


def _gelu(graph: _Graph, hidden: str) -> str:
    """Return the exact x · (1 + erf(x / √2)) / 2; the tanh approximation would change vectors."""
    share = graph.node("Erf", graph.node("Div", hidden, graph.scalar(math.sqrt(2.0))))
    weighted = graph.node("Mul", hidden, graph.node("Add", share, graph.scalar(1.0)))
    return graph.node("Mul", weighted, graph.scalar(0.5))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    given.out.write_bytes(built(given.weights))
