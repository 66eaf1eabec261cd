"""What a cosine threshold finds and what it confuses, on labelled pairs, for the default model.

Usage: python benchmarks/models/bands.py PAIRS_DIRECTORY [--out FILE]

PAIRS_DIRECTORY holds `mixed.jsonl` and `negation_antonym.jsonl`: rows with the texts `a` and `b`,
`label` (1: the same fact, 0: two facts) and, in mixed, the `set` that the pair is from. Nothing is
fitted: the table shows every threshold, and a person chose the default policy's bands from it.
"""

import argparse
import asyncio
import json
from importlib import metadata
from pathlib import Path
from typing import Any

from streams.embedding import DEFAULT_MODEL
from streams.model.embedding import similarity
from streams.store.app import settings, wiring

NEAR_MISS = {"apt", "becel", "breaking_nli", "pawsx_dev", "semantoneg", "wikifact_refuted"}
THRESHOLDS = [0.70, 0.75, 0.80, 0.85, 0.90, 0.93, 0.95, 0.96, 0.97, 0.98, 0.99]
GROUPS = {
    "same": "pairs that say the same",
    "natural": "distinct pairs as they occur",
    "near-miss": "distinct pairs built to look alike",
    "negated": "distinct pairs, one negated or an antonym",
}


def main() -> None:
    options = _options()
    rows = _rows(options.pairs)
    scores = asyncio.run(_similarities(rows))
    table = [_at(threshold, rows, scores) for threshold in THRESHOLDS]
    counts = {group: sum(_group(row) == group for row in rows) for group in GROUPS}
    _print(table, counts)
    if options.out:
        result = {
            "model": DEFAULT_MODEL,
            "fastembed": metadata.version("fastembed"),
            "date": options.date,
            "pairs": counts,
            "share_at_or_above": table,
        }
        options.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pairs", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--date", help="the date to write into the result")
    return parser.parse_args()


def _rows(directory: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for name in ("mixed", "negation_antonym"):
        lines = (directory / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        rows += [{"file": name, **json.loads(line)} for line in lines]
    return [row for row in rows if row["label"] in {0, 1}]


async def _similarities(rows: list[dict[str, Any]]) -> list[float]:
    embedder = wiring.embedder(settings.load({}).embedder, print)
    texts = list(dict.fromkeys(text for row in rows for text in (row["a"], row["b"])))
    embedded = await embedder.embed(texts)
    vectors = {text: made.vector for text, made in zip(texts, embedded, strict=True)}
    return [similarity(vectors[row["a"]], vectors[row["b"]]) for row in rows]


def _group(row: dict[str, Any]) -> str:
    if row["label"] == 1:
        return "same"
    if row["file"] == "negation_antonym":
        return "negated"
    return "near-miss" if row["set"] in NEAR_MISS else "natural"


def _at(threshold: float, rows: list[dict[str, Any]], scores: list[float]) -> dict[str, float]:
    """Return the share of pairs in each group at or above a threshold."""
    above: dict[str, float] = {"threshold": threshold}
    for group in GROUPS:
        members = [s for s, row in zip(scores, rows, strict=True) if _group(row) == group]
        above[group] = round(sum(score >= threshold for score in members) / len(members), 4)
    return above


def _print(table: list[dict[str, float]], counts: dict[str, int]) -> None:
    print("share of pairs at or above the threshold")
    print("cosine    " + "".join(f"{group:>12}" for group in GROUPS))
    for row in table:
        print(f"{row['threshold']:<10}" + "".join(f"{row[group]:>12.1%}" for group in GROUPS))
    print("pairs     " + "".join(f"{counts[group]:>12,}" for group in GROUPS))


if __name__ == "__main__":
    main()
