"""Functions for scripts: they use the commands' settings, with nothing to open or close."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import TypeVar

from memsieve.errors import checked, translated
from memsieve.results import SearchResult, result_of
from streams.publish import app as publishing
from streams.recall.app import loading, recalling
from streams.recall.app.loading import Loading, SearchRequest
from streams.recall.app.recalling import Recaller, RecallRequest
from streams.store.app import settings as configuration
from streams.store.app.reading import LogTarget
from streams.store.app.settings import Settings

_Opened = TypeVar("_Opened", Loading, Recaller)
_Asked = TypeVar("_Asked", SearchRequest, RecallRequest)
_Answer = TypeVar("_Answer")


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
    asked = partial(_request, SearchRequest, query=query, limit=limit)
    found = _read(_every_pair, Loading.search, asked, scope, store)
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
    asked = partial(_request, RecallRequest, query=query, budget=budget)
    return _read(recalling.recalling, Recaller.recall, asked, scope, store).text


def partition_of(scope: str, partitions: int) -> int:
    """Return the partition of a topic with so many partitions in which a scope's events belong."""
    with checked():
        return publishing.partition_for(scope, partitions)


def _request(kind: type[_Asked], scope: str, **fields: object) -> _Asked:
    return kind.model_validate({"scope": scope, **fields})


def _every_pair(target: LogTarget) -> AbstractAsyncContextManager[Loading]:
    return loading.loading(LogTarget.of_store(loading.thorough(target.settings)))


def _read(
    opening: Callable[[LogTarget], AbstractAsyncContextManager[_Opened]],
    ask: Callable[[_Opened, _Asked], Awaitable[_Answer]],
    asked: Callable[[str], _Asked],
    scope: str | None,
    store: Path | str | None,
) -> _Answer:
    """Ask a store that is opened for this, in a scope, or the only one that has memories."""

    async def answer(settings: Settings, named: _Asked | None) -> _Answer:
        async with opening(LogTarget.of_store(settings)) as opened:
            return await ask(opened, named or asked(await loading.only_scope(opened.scopes)))

    with translated(), checked():
        named = None if scope is None else asked(scope)
        settings = configuration.load({} if store is None else {"store": store})
        return asyncio.run(answer(settings, named))
