"""Fits the judge's final decision on pairs that neither trees nor cross-encoder trained on.

    python -m training.relations.weighing DATA STATE OUT

Uses the development cards and the labelled pairs of the development set. OUT holds the trees;
`decision.json` is written next to them, with weights with and without the cross-encoder. Prints the
precision of each guard and the operating points. No evaluation data is used.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray
from platformdirs import user_cache_path
from tokenizers import Tokenizer

from schemas.decisions import Finding, Verdict
from streams.judges.lexicons import english
from streams.text.guards.registry import examine, may_be_of_two
from streams.text.guards.statement import StatementReading
from streams.text.judge.features import names
from streams.text.judge.weighing import (
    RELATIONS,
    PairEvidence,
    Weights,
    inputs,
    turned_name,
)
from streams.text.reading import TextAnalyzer
from training.pairs import collect, evaluated_texts, read_collected
from training.relations import boosting
from training.relations.material import (
    ONE_MEMORY,
    TURNED,
    Example,
    cards,
    for_development,
    inferences,
    near_copies,
    of_card,
    of_labelled,
    split,
    strangers,
    without,
)
from training.relations.model import BASE, Relations, started_from
from training.relations.train import Encoded, logits
from training.trees import Preparation

_SEED = 20261123
_LABELLED = 4_000
_CARD_SHARE = 1.5
_LEAST_SIMILAR = 0.5
"""Pairs with a lower cosine are never nominated."""
_CAUTION = 2e-4
_STEPS = 600
_CARDS = ("card", "near-copy", "strangers", "diary")
"""How the sources of pairs begin that were made from cards."""

Matrix = NDArray[np.float64]
Mask = NDArray[np.bool_]
Point: TypeAlias = tuple[float, float, float, float]
"""A threshold, the share of the pairs meant that reach it, and the shares of two kinds of others."""


def examples(data: Path, collected: Path | None, fits: Callable[[str], bool]) -> list[Example]:
    """Return the pairs of the development set."""
    chance = Random(_SEED)
    _, development, _ = split(cards())
    made = [one for card in development for one in of_card(card, chance, _CARD_SHARE)]
    made += [one for card in development for one in near_copies(card, chance)]
    made += strangers(development, chance, len(development))
    labelled = collect(data) if collected is None else read_collected(collected)
    loose = [*of_labelled(labelled), *inferences(data / "train", Random(20261122))]
    left = [one for one in loose if for_development(one)]
    made += chance.sample(left, min(_LABELLED, len(left)))
    return without(made, evaluated_texts(data), fits)


class Witnesses:
    """Collects all evidence on pairs of texts: cosine, guards, trees and cross-encoder."""

    def __init__(self, models: Path, trees: Path, net: Relations, encoded: Encoded) -> None:
        """`trees` is the folder of words.npz and trees.onnx."""
        self._net = net
        self._encoded = encoded
        self._readings = TextAnalyzer(english())
        self._preparation = Preparation(models, trees / "words.npz")
        self._trees = onnxruntime.InferenceSession(trees / "trees.onnx")

    def told(self, pairs: Sequence[tuple[str, str]]) -> list[PairEvidence]:
        """Return the evidence of all witnesses on each pair."""
        rows = self._preparation.rows(pairs)
        cosines = rows[:, names().index("similarity")].astype(float)
        found: list[PairEvidence] = []
        for pair, row, cosine, logit in zip(pairs, rows, cosines, self._cross(pairs), strict=True):
            [trees] = self._trees.run(["probabilities"], {"features": row})
            found.append(
                PairEvidence(float(cosine), trees.astype(float), logit, self._findings(*pair))
            )
        return found

    def _cross(self, pairs: Sequence[tuple[str, str]]) -> Matrix:
        self._net.eval()
        with torch.no_grad():
            told = [
                logits(self._net, self._encoded, pairs[at : at + 256]).double().numpy()
                for at in range(0, len(pairs), 256)
            ]
        return np.concatenate(told)

    def _findings(self, first: str, second: str) -> tuple[Finding, ...]:
        event, memory = (StatementReading(self._readings.of(text)) for text in (first, second))
        return examine(event, memory, self._readings.lexicon)


def fit(
    columns: Sequence[str], rows: Sequence[dict[str, float]], found: Sequence[Example]
) -> dict[str, Any]:
    """Return the regularised maximum-likelihood weights, symmetric under swapping the texts."""
    x = torch.tensor(
        [[row.get(name, 0.0) for name in columns] for row in rows], dtype=torch.float64
    )
    left_open = torch.tensor([[r.value in one.relations for r in RELATIONS] for one in found])
    weight = torch.tensor(_balanced(found), dtype=torch.float64)
    places = torch.tensor([columns.index(turned_name(name)) for name in columns])
    turn = torch.tensor(TURNED)
    free = torch.zeros(len(RELATIONS), len(columns), dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(len(RELATIONS), dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([free, bias], max_iter=_STEPS, line_search_fn="strong_wolfe")

    def symmetric() -> tuple[torch.Tensor, torch.Tensor]:
        return (free + free[turn][:, places]) / 2, (bias + bias[turn]) / 2

    def surprise() -> torch.Tensor:
        optimiser.zero_grad()
        matrix, biases = symmetric()
        log_p = torch.log_softmax(x @ matrix.T + biases, -1)
        missed = -torch.logsumexp(log_p.masked_fill(~left_open, -1e9), -1)
        loss = (missed * weight).sum() / weight.sum() + _CAUTION * (matrix**2).sum()
        loss.backward()
        return loss

    optimiser.step(surprise)
    matrix, biases = symmetric()
    return {
        "inputs": list(columns),
        "weights": {
            r.value: [round(w, 5) for w in row.tolist()]
            for r, row in zip(RELATIONS, matrix, strict=True)
        },
        "biases": {r.value: round(b, 5) for r, b in zip(RELATIONS, biases.tolist(), strict=True)},
        "trees": _trees(x.numpy(), places.tolist(), found, weight.tolist()),
    }


def _trees(
    rows: Matrix, turned: Sequence[int], found: Sequence[Example], weights: Sequence[float]
) -> dict[str, Any]:
    """Fit the trees to the pairs whose label says whether they are one memory."""
    told = [(at, joined) for at, one in enumerate(found) if (joined := _joined(one)) is not None]
    kept = [at for at, _ in told]
    return boosting.fit(rows[kept], turned, [j for _, j in told], [weights[at] for at in kept])


def _joined(one: Example) -> bool | None:
    """Return whether a pair is one memory; None if its label is ambiguous."""
    relations, joined = set(one.relations), set(ONE_MEMORY)
    return None if relations & joined and relations - joined else bool(relations & joined)


def _balanced(found: Sequence[Example]) -> list[float]:
    """Return the pairs' weights, scaled so that card pairs weigh as much as all others together."""
    card = [one.source.startswith(_CARDS) for one in found]
    every = {
        kind: sum(one.weight for one, of in zip(found, card, strict=True) if of is kind)
        for kind in (True, False)
    }
    return [one.weight / max(every[of], 1e-9) for one, of in zip(found, card, strict=True)]


def guards(found: Sequence[Example], told: Sequence[PairEvidence]) -> dict[str, tuple[int, float]]:
    """Return, by guard, the number of its objections and the share of them that are right."""
    seen: dict[str, list[bool]] = {}
    for one, known in zip(found, told, strict=True):
        joined = _joined(one)
        if joined is None:
            continue
        for finding in known.findings:
            if finding.outcome == "differs":
                seen.setdefault(finding.guard, []).append(not joined)
    return {name: (len(right), float(np.mean(right))) for name, right in sorted(seen.items())}


def weigh(found: Sequence[Example], told: Sequence[PairEvidence]) -> dict[str, Any]:
    """Return the decision's weights with and without the cross-encoder.

    They are fitted on pairs similar enough to be compared.
    """
    alike = [one.cosine >= _LEAST_SIMILAR for one in told]
    found = [one for one, kept in zip(found, alike, strict=True) if kept]
    told = [one for one, kept in zip(told, alike, strict=True) if kept]
    stored: dict[str, Any] = {}
    for way, known in (("deep", told), ("cheap", [replace(one, cross=None) for one in told])):
        rows = [inputs(one) for one in known]
        seen = {name for row in rows for name in row}
        columns = sorted(seen | {turned_name(name) for name in seen})
        stored[way] = fit(columns, rows, found)
    return stored


def out_of_fold(found: Sequence[Example], told: Sequence[PairEvidence]) -> Matrix:
    """Return each pair's probabilities by a decision that was fitted without its fold.

    The trees know the pairs that they were fitted on too well to choose thresholds on those.
    """
    fold = boosting.folds(found)
    probabilities = np.zeros((len(found), len(RELATIONS)))
    for number in range(boosting.FOLDS):
        learnt = np.flatnonzero(fold != number)
        stored = weigh([found[at] for at in learnt], [told[at] for at in learnt])
        decision = Weights.read(stored["deep"])
        for at in np.flatnonzero(fold == number):
            probabilities[at] = decision.probabilities(told[at])
    return probabilities


_NATURAL = frozenset(["sts", "strangers", "memories", "written", "card-sightings", "diary"])
"""Sources of naturally occurring pairs, labelled by a person; in the others a word was changed on
purpose, or the label follows from the construction."""
_GOALS = {"careful": (0.003, 0.01), "balanced": (0.01, 0.03), "thorough": (0.05, 0.10)}
"""The maximum hidden rates: of natural pairs that are compared at all, and of such near-misses."""


def points(
    found: Sequence[Example], told: Sequence[PairEvidence], probabilities: Matrix
) -> dict[str, Point]:
    """Return, by preset, the threshold on the probability of one memory, its recall, and hidden rates.

    The threshold is the lowest, in steps of 0.001, at which neither hidden rate exceeds `_GOALS`.
    """
    near = np.array([one.cosine >= _LEAST_SIMILAR for one in told])
    worth = probabilities[:, : len(ONE_MEMORY)].sum(1) * near
    joined, apart = (
        np.array([set(one.relations) <= which for one in found])
        for which in (set(ONE_MEMORY), set(RELATIONS) - set(ONE_MEMORY))
    )
    natural = np.array([one.source in _NATURAL for one in found])
    wrong = (apart & near & natural, apart & near & ~natural)
    found_at = {name: _lowest(worth, joined, wrong, goals) for name, goals in _GOALS.items()}
    return {name: point for name, point in found_at.items() if point is not None}


def _lowest(
    worth: Matrix, meant: Mask, others: tuple[Mask, Mask], goals: tuple[float, float]
) -> Point | None:
    """Return the lowest threshold, in steps of 0.001 from 0.5, at which both shares meet the goals."""
    for step in range(500, 1_000):
        over = worth >= step / 1_000
        first, second = (float(over[of].mean()) for of in others)
        if first <= goals[0] and second <= goals[1]:
            return step / 1_000, float(over[meant].mean()), first, second
    return None


_DISPLACED = 0.00075
"""The maximum share of the cards' pairs of two facts in which one may be taken for an update."""


def update_point(
    found: Sequence[Example], told: Sequence[PairEvidence], probabilities: Matrix
) -> Point | None:
    """Return the probability threshold above which a contradiction may retire the older memory.

    Also return the shares of the cards' pairs that reach it: of contradictions, of two facts, and of
    one fact, whose newer wording may stand for it. Other sources only tell what is not one memory,
    be it another fact or a contradiction. None if no threshold meets `_DISPLACED`.
    """
    at = RELATIONS.index(Verdict.CONTRADICTS)
    may_retire = np.array(
        [one.cosine >= _LEAST_SIMILAR and not may_be_of_two(one.findings) for one in told]
    )
    worth = probabilities[:, at] * may_retire
    card = np.array([one.source.startswith(_CARDS) for one in found])
    updates, distinct = (
        np.array([one.relations == (relation,) for one in found]) & card
        for relation in ("contradicts", "distinct")
    )
    joined = np.array([set(one.relations) <= set(ONE_MEMORY) for one in found]) & card
    return _lowest(worth, updates, (distinct, joined), (_DISPLACED, 1.0))


_FALSE_CONFLICTS = (0.02, 0.03)
"""The maximum shares of pairs without a contradiction that may be marked as in conflict: of natural
pairs, and of near-misses."""


def conflict_point(
    found: Sequence[Example], told: Sequence[PairEvidence], probabilities: Matrix
) -> Point | None:
    """Return the probability from which two memories are marked as in conflict.

    Also return the share of the contradictions that reach it, and of the other pairs, natural ones
    and near-misses. None if no threshold meets `_FALSE_CONFLICTS`.
    """
    at = RELATIONS.index(Verdict.CONTRADICTS)
    near = np.array([one.cosine >= _LEAST_SIMILAR for one in told])
    worth = probabilities[:, at] * (probabilities.argmax(1) == at)
    conflicts = np.array([one.relations == ("contradicts",) for one in found]) & near
    others = np.array(["contradicts" not in one.relations for one in found]) & near
    natural = np.array([one.source in _NATURAL for one in found])
    return _lowest(worth, conflicts, (others & natural, others & ~natural), _FALSE_CONFLICTS)


def main() -> None:
    options = _options()
    torch.set_num_threads(options.threads)
    model = options.models / BASE
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    encoded = Encoded(tokenizer)
    net = started_from(model / "model.onnx")
    net.load_state_dict(torch.load(options.state / "state.pt", weights_only=True)["net"])
    found = examples(options.data, options.collected, encoded.fits)
    asked = Witnesses(options.models, options.out, net, encoded)
    told = asked.told([(one.first, one.second) for one in found])
    stored = weigh(found, told)
    content = json.dumps(stored) + "\n"
    (options.out / "decision.json").write_text(content, encoding="utf-8")
    for name, (cases, right) in guards(found, told).items():
        print(f"guard {name:<14} objects {cases:6,} times, right in {right:.1%}")
    probabilities = out_of_fold(found, told)
    for name, figures in points(found, told, probabilities).items():
        print(
            "{}: from {:.3f}, found {:.1%}, hidden {:.2%} natural, {:.2%} near-miss".format(
                name, *figures
            )
        )
    print("updates, displaced facts and wordings:", update_point(found, told, probabilities))
    print("conflicts, false natural and near-miss:", conflict_point(found, told, probabilities))
    print(f"{len(found):,} pairs")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Fit the judge's decision.")
    parser.add_argument("data", type=Path)
    parser.add_argument("state", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--collected", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--models", type=Path, default=user_cache_path("memsieve") / "models")
    return parser.parse_args()


if __name__ == "__main__":
    main()
