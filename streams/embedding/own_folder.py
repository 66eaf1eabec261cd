"""A user's own embedding model: any folder with an ONNX graph and its tokenizer.

The folder is read in place and never written to. The log identifies the model by the folder's name
and a digest of its content, not by its path: other files are another model, on another machine or
later.
"""

import hashlib
import json
import re
from functools import cache
from pathlib import Path
from typing import Any, cast

from fastembed import TextEmbedding
from fastembed.common.model_description import DenseModelDescription, ModelSource, PoolingType

from streams.model.ports.failures import NoModel

_GRAPHS = ("model.onnx", "onnx/model.onnx")
_TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "config.json")
_POOLING = "1_Pooling/config.json"
_POOLINGS = {
    "pooling_mode_mean_tokens": PoolingType.MEAN,
    "pooling_mode_cls_token": PoolingType.CLS,
    "pooling_mode_lasttoken": PoolingType.LAST_TOKEN,
}
"""Names from sentence-transformers; without any, the default is the mean."""


@cache
def described(folder: Path) -> DenseModelDescription:
    """Register a folder's model with fastembed, and return its description.

    Raises NoModel with what is missing.
    """
    if not folder.is_dir():
        raise NoModel(f"{folder} is not a folder: name the one that holds the model's ONNX graph")
    graph = _present(folder, _GRAPHS, "no ONNX graph")
    for name in _TOKENIZER:
        _present(folder, (name,), "not all of its tokenizer")
    pooling, dimension = _pooling(folder), _json(folder / "config.json").get("hidden_size")
    if not isinstance(dimension, int) or dimension < 1:
        raise NoModel(f"{folder / 'config.json'} does not give hidden_size, the vectors' dimension")
    name = f"folder/{re.sub(r'[^A-Za-z0-9._-]+', '-', folder.name)}-{_digest(folder, graph)}"
    source, known = ModelSource(url=folder.as_uri()), TextEmbedding.list_supported_models()
    if name not in {str(one["model"]) for one in known}:  # two folders may hold the same files
        TextEmbedding.add_custom_model(
            model=name,
            pooling=pooling,
            normalization=True,
            sources=source,
            dim=dimension,
            model_file=graph,
        )
    return DenseModelDescription(
        model=name,
        sources=source,
        dim=dimension,
        model_file=graph,
        description="",
        license="",
        size_in_GB=0.0,
    )


def _present(folder: Path, names: tuple[str, ...], lack: str) -> str:
    found = next((name for name in names if (folder / name).is_file()), None)
    if found is None:
        raise NoModel(f"{folder} holds {lack}: {' or '.join(names)} is missing")
    return found


def _pooling(folder: Path) -> PoolingType:
    """Return how token vectors are pooled. Raises NoModel for an unsupported method."""
    if not (folder / _POOLING).is_file():
        return PoolingType.MEAN
    told = _json(folder / _POOLING)
    wanted = [name for name, on in told.items() if name.startswith("pooling_mode_") and on is True]
    if len(wanted) != 1 or wanted[0] not in _POOLINGS:
        raise NoModel(
            f"{folder / _POOLING} asks for {', '.join(wanted) or 'nothing'}: one of "
            f"{', '.join(_POOLINGS)} is known here"
        )
    return _POOLINGS[wanted[0]]


def _digest(folder: Path, graph: str) -> str:
    """Return the digest of the files that the vectors depend on."""
    digest = hashlib.sha256(graph.encode())
    weights = sorted((folder / graph).parent.glob("*.onnx*"))
    others = (*_TOKENIZER, "special_tokens_map.json", _POOLING)
    for path in (*weights, *(folder / name for name in others)):
        if path.is_file():
            with path.open("rb") as content:
                digest.update(hashlib.file_digest(content, "sha256").digest())
        digest.update(b"\0")
    return digest.hexdigest()[:12]


def _json(path: Path) -> dict[str, Any]:
    try:
        told: object = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise NoModel(f"{path} is not JSON: {error}") from error
    if not isinstance(told, dict):
        raise NoModel(f"{path} is not a JSON object")
    return cast("dict[str, Any]", told)
