"""all-MiniLM-L6-v2 in plain numpy and float64, text by text: no graph, no batch, no padding.

It shares nothing with the product but the published weights and tokenizer file, so a mistake in
the graph, in the pooling or in the batching shows as a difference.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load
from tokenizers import Tokenizer

Array = NDArray[np.float64]

MAX_TOKENS = 512
HEADS = 12


@dataclass(frozen=True)
class Reference:
    weights: dict[str, Array]
    tokenizer: Tokenizer

    @classmethod
    def of(cls, folder: Path) -> "Reference":
        tensors = load((folder / "model.safetensors").read_bytes())
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return cls({name: tensor.astype(np.float64) for name, tensor in tensors.items()}, tokenizer)

    def tokens(self, text: str) -> list[int]:
        """Return the text's tokens; of too many the first ones, and the closing token."""
        tokens = self.tokenizer.encode(text).ids
        return tokens if len(tokens) <= MAX_TOKENS else [*tokens[: MAX_TOKENS - 1], tokens[-1]]

    def embed(self, text: str) -> Array:
        """Return the unit mean of the tokens' last states."""
        mean = self.states(self.tokens(text)).mean(axis=0)
        return mean / math.sqrt(float(mean @ mean))

    def states(self, tokens: list[int]) -> Array:
        """Return the last layer's state of each token: shape (tokens, 384)."""
        words = self.weights["embeddings.word_embeddings.weight"][tokens]
        places = self.weights["embeddings.position_embeddings.weight"][: len(tokens)]
        kind = self.weights["embeddings.token_type_embeddings.weight"][0]
        states = self._norm("embeddings.LayerNorm", words + places + kind)
        for layer in range(6):
            states = self._layer(f"encoder.layer.{layer}", states)
        return states

    def _layer(self, name: str, states: Array) -> Array:
        mixed = self._dense(f"{name}.attention.output.dense", self._attention(name, states))
        states = self._norm(f"{name}.attention.output.LayerNorm", states + mixed)
        wide = _gelu(self._dense(f"{name}.intermediate.dense", states))
        narrow = self._dense(f"{name}.output.dense", wide)
        return self._norm(f"{name}.output.LayerNorm", states + narrow)

    def _attention(self, name: str, states: Array) -> Array:
        parts = [
            np.split(self._dense(f"{name}.attention.self.{part}", states), HEADS, axis=1)
            for part in ("query", "key", "value")
        ]
        heads = [_attend(query, key, value) for query, key, value in zip(*parts, strict=True)]
        return np.concatenate(heads, axis=1)

    def _dense(self, name: str, states: Array) -> Array:
        return states @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def _norm(self, name: str, states: Array) -> Array:
        centred = states - states.mean(axis=1, keepdims=True)
        spread = np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-12)
        return centred / spread * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]


def _attend(query: Array, key: Array, value: Array) -> Array:
    scores = query @ key.T / math.sqrt(query.shape[1])
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True) @ value


def _gelu(values: Array) -> Array:
    phi = [0.5 * (1.0 + math.erf(value / math.sqrt(2.0))) for value in values.ravel().tolist()]
    return values * np.array(phi).reshape(values.shape)
