"""The files of the built-in judge, opened once per process."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module, resources
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from streams.model.ports.failures import NoModel
from streams.text.judge.prepared import WordVectors
from streams.text.judge.weighing import Weights

PACKAGED = Path(str(resources.files("streams.judges"))) / "judge"
"""The folder of the bundled files."""
_REMEDY = "install memsieve again: pip install --force-reinstall memsieve"


_Opened = TypeVar("_Opened")


class Graph(Protocol):
    """The part of onnxruntime's session that is used; the library has no types."""

    def run(
        self, outputs: Sequence[str], given: Mapping[str, NDArray[Any]], /
    ) -> Sequence[NDArray[np.float32]]: ...


class DecisionWeights(NamedTuple):
    """The weights of the final linear model, with and without the cross-encoder."""

    cheap: Weights
    deep: Weights


class CheapModels(NamedTuple):
    """The models that judge every pair."""

    words: WordVectors
    trees: Graph
    decision: DecisionWeights


class DeepModels(NamedTuple):
    """The cross-encoder: its tokenizer, the encoder of one text, and the model over two."""

    tokenizer: Tokenizer
    alone: Graph
    together: Graph


@cache
def cheap(folder: Path = PACKAGED) -> CheapModels:
    """Load the models that judge every pair. Raises NoModel if a file is missing or damaged."""
    return CheapModels(
        _opened(folder / "words.npz", word_vectors),
        _opened(folder / "trees.onnx", _graph),
        _opened(folder / "decision.json", _decision),
    )


@cache
def deep(folder: Path = PACKAGED) -> DeepModels:
    """Load the cross-encoder. Raises NoModel if a file is missing or damaged."""
    return DeepModels(
        _opened(folder / "tokenizer.json", _tokenizer),
        _opened(folder / "alone.onnx", _graph),
        _opened(folder / "together.onnx", _graph),
    )


def _opened(file: Path, read: Callable[[bytes], _Opened]) -> _Opened:
    """Read a file. Whatever a library raises for a damaged file means the same."""
    try:
        return read(file.read_bytes())
    except OSError as error:
        raise NoModel(f"the built-in judge's file {file} cannot be read: {_REMEDY}") from error
    except Exception as error:
        raise NoModel(f"the built-in judge's file {file} is damaged: {_REMEDY}") from error


def word_vectors(content: bytes) -> WordVectors:
    """Read the content of words.npz."""
    with np.load(BytesIO(content)) as stored:
        words = bytes(stored["words"]).decode().split()
        return WordVectors({word: row for row, word in enumerate(words)}, stored["table"])


def _decision(content: bytes) -> DecisionWeights:
    stored = json.loads(content)
    return DecisionWeights(Weights.read(stored["cheap"]), Weights.read(stored["deep"]))


def _tokenizer(content: bytes) -> Tokenizer:
    found = Tokenizer.from_str(content.decode())
    found.no_padding()
    found.no_truncation()
    return found


def _graph(content: bytes) -> Graph:
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1  # a pair is too little work to split
    options.log_severity_level = 3
    return runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
