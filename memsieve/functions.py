"""Functions for scripts: they use the commands' settings, with nothing to open or close."""

from pathlib import Path

from memsieve.errors import checked, translated
from memsieve.results import SearchResult, result_of
from streams.publish import app as publishing
from streams.recall.app import loading, recalling


def search(
    query: str,
    *,
    scope: str | None = None,
    store: Path | str | None = None,
    limit: int = loading.LIMIT,
) -> list[SearchResult]:
    """Return the facts of a store that are nearest to a query, as `Memory.search` does.

    The store, `memsieve-store` where none is named, is only read; another process may write it.
    """
    with translated(), checked():
        found = loading.load(scope, query, store=store, limit=limit)
    return [result_of(entry) for entry in found.entries]


def recall(
    query: str | None = None,
    *,
    scope: str | None = None,
    store: Path | str | None = None,
    budget: int = recalling.BUDGET,
) -> str:
    """Return the prompt block of a scope of a store, as `Memory.recall` does.

    The store, `memsieve-store` where none is named, is only read; another process may write it.
    """
    with translated(), checked():
        return recalling.recall(scope, query=query, store=store, budget=budget)


def partition_of(scope: str, partitions: int) -> int:
    """Return the partition of a topic with so many partitions in which a scope's events belong."""
    with checked():
        return publishing.partition_for(scope, partitions)
