"""mem0's `add` without inference, one event at a time, into a new store on disk.

Started by beside_libraries.py in an environment that has mem0. Its embedder is replaced by one that
looks up the given vectors; the language model that it requires is never called. With --search each
event is first searched for in its scope, and added only if nothing reaches .85: a common wrapper
around `add`, which by itself stores every text.
"""

import logging
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

os.environ.update(MEM0_TELEMETRY="False", MEM0_DIR=tempfile.mkdtemp(prefix="mem0-"))  # noqa: TID251 - read as it is imported

from rounds import Given, serve

_THRESHOLD = 0.85


class _Memory(Protocol):
    """The part of mem0's Memory that is used here."""

    embedding_model: Any

    def add(self, messages: str, *, user_id: str, infer: bool) -> object: ...

    def search(
        self, query: str, *, top_k: int, filters: Mapping[str, str], threshold: float
    ) -> Mapping[str, list[Mapping[str, Any]]]: ...


class _Lookup:
    """Implements mem0's embedder by looking up vectors computed beforehand."""

    def __init__(self, given: Given) -> None:
        self._vectors = dict(zip(given.texts, given.vectors.tolist(), strict=True))

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        del memory_action
        return self._vectors[text]


def prepare(given: Given) -> Callable[[], int]:
    memory = _opened(given)
    searching = "--search" in sys.argv

    def do() -> int:
        kept = 0
        for scope, text in zip(given.scopes, given.texts, strict=True):
            if not (searching and _known(memory, scope, text)):
                memory.add(text, user_id=scope, infer=False)
                kept += 1
        return kept

    return do


def _opened(given: Given) -> _Memory:
    store = Path(tempfile.mkdtemp(prefix="mem0-"))
    dimension = given.vectors.shape[1]
    unused = {"api_key": "none"}
    memory: _Memory = import_module("mem0").Memory.from_config(
        {
            "vector_store": {
                "provider": "qdrant",
                "config": {
                    "path": str(store / "qdrant"),
                    "embedding_model_dims": dimension,
                    "on_disk": True,
                },
            },
            "embedder": {"provider": "openai", "config": unused},
            "llm": {"provider": "openai", "config": unused},
            "history_db_path": str(store / "history.db"),
        }
    )
    memory.embedding_model = _Lookup(given)
    return memory


def _known(memory: _Memory, scope: str, text: str) -> bool:
    found = memory.search(text, top_k=1, filters={"user_id": scope}, threshold=_THRESHOLD)
    return bool(found["results"])


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    serve(prepare)
