"""How well the hashing embedder finds texts that belong together, compared with the default model.

Usage: python benchmarks/models/spelling.py

For our own labelled pairs and, if the directory `shared` is next to the project, for the naturally
occurring pairs of its `mixed` set, it prints: the similarity that 0.1 % of unrelated pairs exceed,
the share of the pairs of one fact that reach it, and the texts embedded per second. Texts of
different pairs count as unrelated.
"""

import asyncio
import json
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks.quality import NATURAL, OWN, SHARED
from streams.embedding import hashing
from streams.embedding.hashing import HashingEmbedder
from streams.model.ports.models import Embedder
from streams.store.app import settings, wiring

_SAME = {1, "same", "refines", "refined-by"}
_UNRELATED = 0.999


def main() -> None:
    sets = {"own": _rows(OWN, lambda _: True)}
    if (mixed := SHARED / "pairs" / "mixed.jsonl").is_file():
        sets["natural"] = _rows(mixed, lambda row: row["set"] in NATURAL)
    variants = {"DIMENSION": (384, 512, 1_024), "_FORM_WEIGHT": (1.0, 0.25)}
    for name, rows in sets.items():
        print(
            f"{name}, the default model: {_told(wiring.embedder(settings.load({}).embedder, print), rows)}"
        )
        for constant, values in variants.items():
            for value in values:
                with _set(constant, value):
                    print(f"{name}, {constant} {value}: {_told(HashingEmbedder(), rows)}")


def _rows(file: Path, wanted: Callable[[dict[str, str]], bool]) -> list[dict[str, str]]:
    rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    return [row for row in rows if wanted(row) and row["a"].strip() and row["b"].strip()]


@contextmanager
def _set(constant: str, value: float) -> Generator[None]:
    before = hashing.__dict__[constant]
    hashing.__dict__[constant] = value
    yield
    hashing.__dict__[constant] = before


def _told(embedder: Embedder, rows: list[dict[str, str]]) -> str:
    texts = sorted({row[side] for row in rows for side in ("a", "b")})
    started = time.perf_counter()
    made = asyncio.run(embedder.embed(texts))
    rate = len(texts) / (time.perf_counter() - started)
    vectors = {text: one.vector for text, one in zip(texts, made, strict=True)}
    first, second = (np.array([vectors[row[side]] for row in rows]) for side in ("a", "b"))
    every = first @ second.T
    bound = float(np.quantile(every[~np.eye(len(rows), dtype=bool)], _UNRELATED))
    same = every.diagonal()[[row["label"] in _SAME for row in rows]]
    return f"{np.mean(same >= bound):.1%} of {len(same):,} above {bound:.2f}; {rate:,.0f} texts/s"


if __name__ == "__main__":
    main()
