"""The relation network: a cross-encoder that reads two texts alone, then together, symmetrically.

The lower layers read each text by itself, so a text that is compared with many is encoded once. The
upper layers read both together; a learnt attention bias per head distinguishes a text's own tokens
from the other's. Nothing depends on which text is first, so swapping the texts gives exactly the
converse outputs. Training starts from the weights of an encoder with BERT's layers.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import numpy_helper
from torch import Tensor, nn
from torch.nn import functional

from training.relations.material import RELATIONS, TURNED

BASE = "sentence-transformers--all-MiniLM-L6-v2"
"""The folder of the encoder that training starts from, among the installed models."""
ALONE = 2
"""The number of layers that read a text by itself."""
_DROPOUT = 0.1
_EPSILON = 1e-12
_BLOCKED = -1e9


class Texts(NamedTuple):
    """Padded token ids of texts, shape (n, longest), and the mask of real tokens."""

    ids: Tensor
    there: Tensor


class Layer(nn.Module):
    """One encoder layer of BERT's architecture."""

    def __init__(self, width: int, inner: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.mixed = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm_attended = nn.LayerNorm(width, _EPSILON)
        self.rise = nn.Linear(width, inner)
        self.fall = nn.Linear(inner, width)
        self.norm_fed = nn.LayerNorm(width, _EPSILON)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        """Encode `x`, shape (n, tokens, width); `bias` is added to the attention scores."""
        n, tokens, width = x.shape
        q, k, v = (
            self.mixed(x).view(n, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        )
        read = functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        read = self.out(read.transpose(1, 2).reshape(n, tokens, width))
        x = self.norm_attended(x + functional.dropout(read, _DROPOUT, self.training))
        fed = self.fall(functional.gelu(self.rise(x)))
        return self.norm_fed(x + functional.dropout(fed, _DROPOUT, self.training))


class Relations(nn.Module):
    """The network that returns logits over RELATIONS for pairs of texts."""

    def __init__(
        self,
        layers: int,
        width: int = 384,
        inner: int = 1536,
        heads: int = 12,
        words: int = 30_522,
        positions: int = 512,
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.positions = nn.Embedding(positions, width)
        self.norm = nn.LayerNorm(width, _EPSILON)
        self.layers = nn.ModuleList(Layer(width, inner, heads) for _ in range(layers))
        self.across = nn.Parameter(torch.zeros(layers - ALONE, heads))
        self.hidden = nn.Linear(5 * width, width)
        self.told = nn.Linear(width, len(RELATIONS))

    def alone(self, texts: Texts) -> Tensor:
        """Return the states of each text by itself, shape (n, longest, width)."""
        x = self.norm(self.words(texts.ids) + self.positions.weight[: texts.ids.shape[1]])
        bias = torch.where(texts.there, 0.0, _BLOCKED)[:, None, None, :]
        for layer in self.layers[:ALONE]:
            x = layer(x, bias)
        return x

    def together(
        self, alone: Tensor, lengths: Sequence[int], pairs: Sequence[tuple[int, int]]
    ) -> Tensor:
        """Return the logits, shape (pairs, relations), of pairs of texts that `alone` has read."""
        joined, of_first, of_second = _joined(alone, lengths, pairs)
        there = of_first | of_second
        apart = of_first[:, None, :, None] != of_first[:, None, None, :]
        x = joined
        for layer, across in zip(self.layers[ALONE:], self.across, strict=True):
            bias = torch.where(apart, across[None, :, None, None], 0.0)
            x = layer(x, bias.masked_fill(~there[:, None, None, :], _BLOCKED))
        u, v = _mean(x, of_first), _mean(x, of_second)
        second_starts = torch.tensor([lengths[first] for first, _ in pairs])
        starts = x[:, 0] + x[torch.arange(len(pairs)), second_starts]
        turned = self._head(v, u, starts)[:, TURNED]
        return (self._head(u, v, starts) + turned) / 2

    def _head(self, u: Tensor, v: Tensor, starts: Tensor) -> Tensor:
        seen = torch.cat([u, v, (u - v).abs(), u * v, starts], -1)
        seen = functional.dropout(seen, _DROPOUT, self.training)
        return self.told(functional.dropout(torch.tanh(self.hidden(seen)), _DROPOUT, self.training))


def _joined(
    alone: Tensor, lengths: Sequence[int], pairs: Sequence[tuple[int, int]]
) -> tuple[Tensor, Tensor, Tensor]:
    """Concatenate the tokens of each pair's texts without padding; return the masks of both."""
    longest = alone.shape[1]
    total = max(lengths[first] + lengths[second] for first, second in pairs)
    place = np.zeros((len(pairs), total), np.int64)
    side = np.zeros((len(pairs), total), np.int8)
    for row, (first, second) in enumerate(pairs):
        a, b = lengths[first], lengths[second]
        place[row, :a] = first * longest + np.arange(a)
        place[row, a : a + b] = second * longest + np.arange(b)
        side[row, :a], side[row, a : a + b] = 1, 2
    flat = alone.reshape(-1, alone.shape[-1])
    sides = torch.from_numpy(side)
    x = flat[torch.from_numpy(place.ravel())].view(len(pairs), total, -1)
    return x, sides == 1, sides == 2


def _mean(x: Tensor, side: Tensor) -> Tensor:
    weights = side[..., None].float()
    return (x * weights).sum(1) / weights.sum(1)


def texts_of(ids: Sequence[Sequence[int]]) -> Texts:
    """Return texts of different lengths, padded to the longest."""
    longest = max(map(len, ids))
    rows = np.zeros((len(ids), longest), np.int64)
    there = np.zeros((len(ids), longest), bool)
    for row, one in enumerate(ids):
        rows[row, : len(one)] = one
        there[row, : len(one)] = True
    return Texts(torch.from_numpy(rows), torch.from_numpy(there))


def started_from(file: Path) -> Relations:
    """Return a network initialised from an ONNX file of an encoder with BERT's layers."""
    weights = _Weights(file)
    layers = weights.layers()
    net = Relations(layers)
    with torch.no_grad():
        net.words.weight.copy_(weights.of("embeddings.word_embeddings.weight"))
        segment = weights.of("embeddings.token_type_embeddings.weight")[0]
        net.positions.weight.copy_(weights.of("embeddings.position_embeddings.weight") + segment)
        weights.copy(net.norm, "embeddings.LayerNorm")
        for at, layer in enumerate(net.layers):
            weights.fill(layer, f"encoder.layer.{at}.")
    return net


def packaged_in(folder: Path, base: Path) -> Relations:
    """Return the network of the files that `training.relations.export` wrote into a folder.

    Weights are those of the files, a byte each; the words' are taken from `base` in full.
    """
    net = started_from(base)
    held = {
        tensor.name: numpy_helper.to_array(tensor)
        for name in ("alone", "together")
        for tensor in onnx.load(folder / f"{name}.onnx").graph.initializer
    }
    with torch.no_grad():
        net.across.copy_(
            torch.stack([_tensor(held[f"across {at}"])[:, 0, 0] for at in range(len(net.across))])
        )
        for name, weight in net.named_parameters():
            stored = _stored_name(name)
            if stored in held:
                weight.copy_(_tensor(held[stored]))
            elif f"{stored.removesuffix('.weight')}.bytes" in held and name != "words.weight":
                wide = held[f"{stored.removesuffix('.weight')}.bytes"].astype(np.float32)
                scales = held[f"{stored.removesuffix('.weight')}.scales"]
                weight.copy_(_tensor(wide * scales).T)
    return net


def _stored_name(name: str) -> str:
    """Return the name under which the export stores a parameter."""
    if name == "positions.weight":
        return "positions"
    return name.replace("layers.", "layer ", 1).replace("told.", "told by.", 1)


def _tensor(value: NDArray[np.generic]) -> Tensor:
    return torch.from_numpy(value.astype(np.float32))


class _Weights:
    """The weights of an installed embedding model, by name in its ONNX file."""

    def __init__(self, file: Path) -> None:
        self._held = {
            tensor.name: numpy_helper.to_array(tensor)
            for tensor in onnx.load(file).graph.initializer
        }

    def layers(self) -> int:
        return sum(
            name.endswith("output.dense.bias") and ".attention." not in name for name in self._held
        )

    def of(self, name: str) -> Tensor:
        found = self._held.get(name)
        if found is None:
            return torch.from_numpy(self._held[f"{name}.T"].T.astype(np.float32))
        return torch.from_numpy(found.astype(np.float32))

    def copy(self, module: nn.Linear | nn.LayerNorm, name: str) -> None:
        module.weight.copy_(self.of(f"{name}.weight"))
        module.bias.copy_(self.of(f"{name}.bias"))

    def fill(self, layer: nn.Module, prefix: str) -> None:
        if not isinstance(layer, Layer):
            raise TypeError(f"{prefix} is filled into a {type(layer).__name__}")
        reads = [f"{prefix}attention.self.{name}" for name in ("query", "key", "value")]
        layer.mixed.weight.copy_(torch.cat([self.of(f"{name}.weight") for name in reads]))
        layer.mixed.bias.copy_(torch.cat([self.of(f"{name}.bias") for name in reads]))
        self.copy(layer.out, f"{prefix}attention.output.dense")
        self.copy(layer.norm_attended, f"{prefix}attention.output.LayerNorm")
        self.copy(layer.rise, f"{prefix}intermediate.dense")
        self.copy(layer.fall, f"{prefix}output.dense")
        self.copy(layer.norm_fed, f"{prefix}output.LayerNorm")
