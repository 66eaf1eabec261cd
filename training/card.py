"""The card that lies beside the weights: what they were made from, and what they can do."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from streams.core.judge.features import names
from training.export import Mixture
from training.frames import CLASSES, Labelled

Matrix = NDArray[np.float32]

MORE = 0.5
"""How much P(refines) and P(refined-by) count in the score that pairs are ranked by."""

_NATURAL = frozenset(["stsb", "sick", "qqp", "mrpc", "snli_contradiction"])
_POINTS = (0.005, 0.01, 0.03)
_SURE = 0.85

_HEAD = """# The built-in judge

Given two short English texts and the cosine of their all-MiniLM-L6-v2 embeddings: is the first the
same as the second, does it say more (refines) or less (refined-by), does it contradict it, or is it
another fact (distinct)? Calibrated probabilities, no network, the same answer every time.

- **Made** {date} by `python -m training.judge DATA OUT`, with the versions in
  `training/requirements.txt`.
- **Developed on** `mixed`: weights of sources and the score were chosen with it in view, so its
  figures flatter. The held-out half of `memory_pairs` was printed, and nothing in here was chosen by
  it; `same_min` of the default policy was (see `benchmarks/quality.md`).
- **What is in it**: `words.npz`, {words:.2f} MB, 30,000 word vectors taken from the input embeddings
  of all-MiniLM-L6-v2 (Apache-2.0); `judge.onnx`, {judge:.2f} MB, boosted trees on {features} features of the
  pair and two small attentions over the word vectors, their scores added, both ways round averaged.
- **Learnt from** {pairs:,} pairs: the project's own frames and written pairs (`training/material`),
  the train half of `benchmarks/datasets/memory_pairs.jsonl`; the STS benchmark and MED (CC BY-SA
  4.0); and edits by `training/edits.py` of sentences of these, of MSC's personas (CC BY 4.0) and of
  questions of the BYU chitchat dataset (MIT). No text of a set below was learnt from.
- **Calibrated** on the written pairs and the train half, judged by a first fit without them:
  {trees:.3f} of the trees' scores and {head:.3f} of the attention's.
- **Meant for** ranking and routing pairs of memories that are already alike (cosine ≥ 0.6), behind
  the guards, whose objection stands above any probability.
- **Weak at** facts told in wholly other words, exchanged places in long re-worded sentences, what a
  question asks for, near words of one family, added clauses taken for the same, languages other than
  English. Texts are read up to 40 words by the attention.

## Measured

Score: P(same) + {more} (P(refines) + P(refined-by)). A fact is lost where a pair is merged that is not
the same (nor, in `memory_pairs`, refined-by). No guard took part.

"""


def measure(rows: Sequence[Mapping[str, Any]], told: Matrix) -> dict[str, float]:
    """Return figures of one set, by name."""
    worth = told[:, 0] + MORE * (told[:, 1] + told[:, 2])
    labels = [row["label"] for row in rows]
    same = np.array([label in {1, "same"} for label in labels])
    lost = np.array([label in {0, "contradicts", "distinct", "refines"} for label in labels])
    found: dict[str, float] = {"pairs": len(rows)}
    if same.any():
        found["AUC"] = float(roc_auc_score(same[same | lost], worth[same | lost]))
        for point in _POINTS:
            found[f"found at {point:.1%} lost"] = _found(worth, same, lost, point)
    if "set" in rows[0]:
        natural = np.array([row["set"] in _NATURAL for row in rows])
        least = max(_least(worth, lost & natural, 0.01), _least(worth, lost & ~natural, 0.03))
        found["found at 1 % natural, 3 % near-miss lost"] = float((worth[same] > least).mean())
        two_thirds = float(np.quantile(worth[same], 1 - 0.666))
        found["near-miss lost at 66.6 % found"] = float(
            (worth[lost & ~natural] > two_thirds).mean()
        )
    if isinstance(labels[0], str):
        at = np.array([CLASSES.index(label) for label in labels])
        found["right"] = float((told.argmax(1) == at).mean())
        found["log loss"] = float(-np.log(np.maximum(told[np.arange(len(at)), at], 1e-9)).mean())
    found[f"lost at P(same) >= {_SURE}"] = float((told[lost, 0] >= _SURE).mean())
    return found


def _least(worth: Matrix, lost: NDArray[np.bool_], share: float) -> float:
    """Return the score above which no more than a share of the pairs lie that must stay apart."""
    ranked = np.sort(worth[lost])[::-1]
    return float(ranked[min(int(share * len(ranked)), len(ranked) - 1)])


def _found(worth: Matrix, same: NDArray[np.bool_], lost: NDArray[np.bool_], share: float) -> float:
    return float((worth[same] > _least(worth, lost, share)).mean())


def write(
    out: Path,
    pairs: Sequence[Labelled],
    mixture: Mixture,
    measured: Mapping[str, Mapping[str, float]],
) -> None:
    """Write card.md."""
    text = _HEAD.format(
        date=datetime.now(tz=UTC).date().isoformat(),  # noqa: TID251 a card is dated
        words=(out / "words.npz").stat().st_size / 1e6,
        judge=(out / "judge.onnx").stat().st_size / 1e6,
        features=len(names()),
        pairs=len(pairs),
        trees=mixture.trees,
        head=mixture.head,
        more=MORE,
    )
    lines = ["| set | figure | |", "|---|---|---:|"]
    for name, figures in measured.items():
        lines += [f"| {name} | {figure} | {_told(value)} |" for figure, value in figures.items()]
    lines += ["", "## Pairs by source", "", "| source | label | pairs |", "|---|---|---:|"]
    counts = Counter((pair.source, pair.label) for pair in pairs)
    lines += [f"| {source} | {label} | {n:,} |" for (source, label), n in sorted(counts.items())]
    (out / "card.md").write_text(text + "\n".join(lines) + "\n", encoding="utf-8")


def _told(value: float) -> str:
    return f"{value:,.0f}" if value > 1 and value == int(value) else f"{value:.3f}"
