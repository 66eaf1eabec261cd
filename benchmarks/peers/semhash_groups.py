"""SemHash over all texts at once: the representative of each text, at several thresholds.

Started by consolidation.py in an environment that has semhash. Each text that it filters out is
assigned to the nearest text that it keeps.
"""

import json
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

_THRESHOLDS = (0.85, 0.90, 0.95, 0.98)


class _Unasked:
    """The model that SemHash requires; with given vectors it is never called."""

    def encode(self, inputs: Sequence[str], **_: object) -> Any:  # noqa: ANN401 - never returns
        raise AssertionError(f"{len(inputs)} texts have no vector")


def main() -> None:
    directory = Path(sys.argv[1])
    texts: list[str] = json.loads((directory / "texts.json").read_text(encoding="utf-8"))
    vectors = np.load(directory / "vectors.npy")
    made: Any = import_module("semhash").SemHash
    told: list[dict[str, object]] = []
    for threshold in _THRESHOLDS:
        started = time.perf_counter()
        found = made.from_embeddings(vectors, texts, model=_Unasked()).self_deduplicate(
            threshold=threshold
        )
        seconds = time.perf_counter() - started
        kept = set(found.selected)
        stands = {text: text for text in texts}
        for one in found.filtered:
            near = [(score, text) for text, score in one.duplicates if text in kept]
            stands[one.record] = max(near)[1] if near else one.record
        told.append({"threshold": threshold, "seconds": seconds, "stands": stands})
    print(json.dumps(told))


if __name__ == "__main__":
    main()
