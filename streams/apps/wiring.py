"""Which adapter stands behind which port; the only place that names both. Imports lazily."""

from collections.abc import Callable
from pathlib import Path

from streams.adapters.local_broker import LocalBroker
from streams.adapters.store_directory import IndexKind, StoreDirectory
from streams.apps.settings import EmbedderSettings
from streams.flow.owner import INDEXED
from streams.ports import Embedder, Index


def embedder(settings: EmbedderSettings, report: Callable[[str], None]) -> Embedder:
    """Return the embedder, its model installed first where it is not there yet."""
    from streams.adapters.embedders.fastembed_text import FastembedEmbedder
    from streams.adapters.embedders.install import installed

    if installed(settings.model, settings.cache_dir) is None:
        install_model(settings, report, force=False)
    return FastembedEmbedder(settings.model, settings.cache_dir, threads=settings.threads)


def install_model(
    settings: EmbedderSettings, report: Callable[[str], None], *, force: bool
) -> Path:
    """Put the model into the cache, undamaged; return its folder."""
    from streams.adapters.embedders.install import install

    return install(settings.model, settings.cache_dir, report=report, force=force)


def verify_model(settings: EmbedderSettings) -> Path:
    """Check every file of the installed model; return its folder."""
    from streams.adapters.embedders.install import verify

    return verify(settings.model, settings.cache_dir)


def index(kind: IndexKind, path: Path, dimension: int) -> Index:
    """Return the index of an embedded store."""
    if kind == "exact":
        from streams.adapters.indexes.exact import ExactIndex

        return ExactIndex()
    from streams.adapters.indexes.edge import EdgeIndex

    return EdgeIndex(path, dimension)


def must_be_rebuilt(kind: IndexKind, path: Path) -> bool:
    """Tell, before the index is opened, whether it will start empty."""
    return kind == "exact" or not path.exists() or not any(path.iterdir())


def log(directory: StoreDirectory, *, read_only: bool) -> LocalBroker:
    """Return the log of an embedded store."""
    return LocalBroker(directory.log, indexed=INDEXED, read_only=read_only)
