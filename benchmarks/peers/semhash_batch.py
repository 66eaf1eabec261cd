"""SemHash over all texts at once: `self_deduplicate` at .85 on given vectors.

Started by beside_libraries.py in an environment that has semhash. It ignores scopes and order,
keeps no store and explains nothing; a round builds its index and queries it once.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from rounds import Given, serve

_THRESHOLD = 0.85


class _Unasked:
    """The model that SemHash requires; with given vectors it is never called."""

    def encode(self, inputs: Sequence[str], **_: object) -> Any:  # noqa: ANN401 - never returns
        raise AssertionError(f"{len(inputs)} texts have no vector")


def prepare(given: Given) -> Callable[[], int]:
    made: Any = import_module("semhash").SemHash

    def do() -> int:
        index = made.from_embeddings(given.vectors, given.texts, model=_Unasked())
        return len(index.self_deduplicate(threshold=_THRESHOLD).selected)

    return do


if __name__ == "__main__":
    serve(prepare)
