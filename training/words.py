"""Builds the judge's table of word vectors, words.npz.

A word's vector is the mean of the default model's input embeddings of its word pieces, projected on
the principal components and quantised to one byte per dimension.
"""

import gzip
from importlib import resources
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper
from tokenizers import Tokenizer

from streams.judges.lexicons import english

_WORDS = 30_000
_DIMENSIONS = 64
_ONE_PIECE = 2.0
"""Bonus of words that are a single word piece when the vocabulary is chosen."""


def table(model: Path) -> tuple[bytes, NDArray[np.int8]]:
    """Return the space-separated words and their vectors from an installed model's folder."""
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.no_padding()
    vocabulary = tokenizer.get_vocab()
    pieces = _embeddings(model / "model.onnx")
    pieces = pieces - pieces[[at for token, at in vocabulary.items() if token.isalpha()]].mean(0)
    words = _chosen(vocabulary)
    vectors = np.zeros((len(words), pieces.shape[1]), np.float32)
    for row, encoded in enumerate(tokenizer.encode_batch(words, add_special_tokens=False)):
        vectors[row] = pieces[encoded.ids].mean(0)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True) + 1e-6
    _, directions = np.linalg.eigh(vectors.T @ vectors / len(vectors))
    reduced = vectors @ directions[:, ::-1][:, :_DIMENSIONS]
    reduced /= np.abs(reduced).max(1, keepdims=True)
    return " ".join(words).encode(), np.round(reduced * 127).astype(np.int8)


def write(model: Path, file: Path) -> None:
    words, rows = table(model)
    np.savez_compressed(file, words=np.frombuffer(words, np.uint8), table=rows)


def _chosen(vocabulary: dict[str, int]) -> list[str]:
    lexicon = english()
    known = {word for word in _dictionary() if word.isalpha() and word.isascii()}
    whole = {token for token in vocabulary if token.isalpha() and token.isascii()}
    worth = {
        word: _ONE_PIECE * (word in whole) + float(np.log1p(lexicon.frequency(word)))
        for word in known | whole
    }
    return sorted(worth, key=lambda word: (-worth[word], word))[:_WORDS]


def _dictionary() -> list[str]:
    """Return the words in the last section of the table that `training/lexicon.py` writes."""
    packed = resources.files("streams.judges.lexicons").joinpath("english.txt.gz").read_bytes()
    *_, entries = gzip.decompress(packed).decode().split("\n-\n")
    return [entry.split("\t", 1)[0] for entry in entries.splitlines()]


def _embeddings(file: Path) -> NDArray[np.float32]:
    for tensor in onnx.load(file).graph.initializer:
        if "word_embeddings" in tensor.name:
            return numpy_helper.to_array(tensor).astype(np.float32)
    raise ValueError(f"{file}: no word embeddings in it; give the folder of all-MiniLM-L6-v2")
