"""Fits the judge's one decision to pairs that neither trees nor cross-encoder learnt from.

    python -m training.relations.weighing DATA STATE OUT

Uses the development cards and the labelled pairs that were left for choosing. Writes
`decision.json` (weights with and without the cross-encoder, and the guards that are right often
enough to forbid) and prints how right each guard is. Nothing that is reported on is looked at.
"""

import argparse
import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from platformdirs import user_cache_path
from tokenizers import Tokenizer

from schemas.base import EventId, MemoryId, ScopeName
from schemas.decisions import Finding
from schemas.events import Remember
from streams.adapters.embedders import DEFAULT_MODEL
from streams.adapters.embedders.fastembed_text import FastembedEmbedder
from streams.adapters.lexicons import english
from streams.adapters.verifiers.built_in import BuiltInVerifier
from streams.core.embedding import similarity
from streams.core.guards.registry import examine
from streams.core.guards.statement import Statement
from streams.core.language.reading import Readings
from streams.core.survivorship import born
from streams.core.verdict import Opinion, Pair
from training.pairs import collect, evaluated_texts, read_collected
from training.relations.evidence import RELATIONS, TREES, Told, inputs
from training.relations.material import (
    ONE_MEMORY,
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
from training.relations.model import TURNED, Relations, started_from
from training.relations.train import Encoded, logits

_SEED = 20261123
_SCOPE = ScopeName("training/pairs")
_WHENEVER = datetime(2026, 1, 1, tzinfo=UTC)
_LABELLED = 4_000
_CARD_SHARE = 1.5
_LEAST_SIMILAR = 0.5
"""Pairs less alike are nominated by nobody."""
_VETO = 0.99
_VETO_CASES = 60
_CAUTION = 2e-3
_STEPS = 200

Matrix = NDArray[np.float64]


def examples(data: Path, collected: Path | None, fits: Callable[[str], bool]) -> list[Example]:
    """Return the pairs that are left for choosing."""
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
    """Asks everybody about pairs of texts: cosine, guards, trees and the cross-encoder."""

    def __init__(self, models: Path, net: Relations, encoded: Encoded) -> None:
        self._net = net
        self._encoded = encoded
        self._readings = Readings(english())
        self._judge = BuiltInVerifier(self._readings)
        self._models = models

    def told(self, pairs: Sequence[tuple[str, str]]) -> list[Told]:
        """Return what each of them tells of each pair."""
        vectors = self._vectors(sorted({text for pair in pairs for text in pair}))
        cross = self._cross(pairs)
        found: list[Told] = []
        for (first, second), logit in zip(pairs, cross, strict=True):
            cosine = similarity(vectors[first], vectors[second])
            trees = self._trees(first, second, cosine)
            found.append(Told(cosine, trees, logit, self._findings(first, second)))
        return found

    def _cross(self, pairs: Sequence[tuple[str, str]]) -> Matrix:
        self._net.eval()
        with torch.no_grad():
            told = [
                logits(self._net, self._encoded, pairs[at : at + 256]).double().numpy()
                for at in range(0, len(pairs), 256)
            ]
        return np.concatenate(told)

    def _trees(self, first: str, second: str, cosine: float) -> Matrix:
        event = Remember(event_id=EventId("event"), scope=_SCOPE, text=first, occurred_at=_WHENEVER)
        known = born(event.model_copy(update={"text": second}), MemoryId("memory"), truncated=False)
        [opinion] = asyncio.run(self._judge.verify([Pair(event, known, cosine)]))
        told = opinion.probabilities if isinstance(opinion, Opinion) else None
        return np.array([1 / len(TREES) if told is None else told[one] for one in TREES])

    def _findings(self, first: str, second: str) -> tuple[Finding, ...]:
        event, memory = (Statement(self._readings.of(text)) for text in (first, second))
        return examine(event, memory, self._readings.lexicon)

    def _vectors(self, texts: Sequence[str]) -> dict[str, Any]:
        async def embedded() -> dict[str, Any]:
            embedder = FastembedEmbedder(DEFAULT_MODEL, self._models)
            made = await embedder.embed(texts)
            return {text: one.vector for text, one in zip(texts, made, strict=True)}

        return asyncio.run(embedded())


def fit(
    names: Sequence[str], rows: Sequence[dict[str, float]], found: Sequence[Example]
) -> dict[str, Any]:
    """Return the weights under which the labels are likeliest, the same both ways round."""
    x = torch.tensor([[row.get(name, 0.0) for name in names] for row in rows], dtype=torch.float64)
    left_open = torch.tensor([[r.value in one.relations for r in RELATIONS] for one in found])
    weight = torch.tensor([one.weight for one in found], dtype=torch.float64)
    columns = torch.tensor([names.index(turned(name)) for name in names])
    turn = torch.tensor(TURNED)
    free = torch.zeros(len(RELATIONS), len(names), dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(len(RELATIONS), dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([free, bias], max_iter=_STEPS, line_search_fn="strong_wolfe")

    def symmetric() -> tuple[torch.Tensor, torch.Tensor]:
        return (free + free[turn][:, columns]) / 2, (bias + bias[turn]) / 2

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
        "inputs": list(names),
        "weights": {
            r.value: [round(w, 5) for w in row.tolist()]
            for r, row in zip(RELATIONS, matrix, strict=True)
        },
        "biases": {r.value: round(b, 5) for r, b in zip(RELATIONS, biases.tolist(), strict=True)},
    }


def turned(name: str) -> str:
    """Return the name of an input when the pair is turned round."""
    if name.endswith(" refines"):
        return name.replace(" refines", " refined-by")
    return name.replace(" refined-by", " refines") if name.endswith(" refined-by") else name


def guards(found: Sequence[Example], told: Sequence[Told]) -> dict[str, tuple[int, float]]:
    """Return, by guard, how often it objects and how often the two are no one memory then."""
    seen: dict[str, list[bool]] = {}
    for one, known in zip(found, told, strict=True):
        relations, joined = set(one.relations), set(ONE_MEMORY)
        if relations & joined and relations - joined:
            continue  # the label does not tell
        for finding in known.findings:
            if finding.outcome == "differs":
                seen.setdefault(finding.guard, []).append(not relations & joined)
    return {name: (len(right), float(np.mean(right))) for name, right in sorted(seen.items())}


def main() -> None:
    options = _options()
    torch.set_num_threads(options.threads)
    model = options.models / "sentence-transformers--all-MiniLM-L6-v2"
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    encoded = Encoded(tokenizer)
    net = started_from(model / "model.onnx")
    net.load_state_dict(torch.load(options.state / "state.pt", weights_only=True)["net"])
    found = examples(options.data, options.collected, encoded.fits)
    told = Witnesses(options.models, net, encoded).told([(one.first, one.second) for one in found])
    alike = [one.cosine >= _LEAST_SIMILAR for one in told]
    found = [one for one, kept in zip(found, alike, strict=True) if kept]
    told = [one for one, kept in zip(told, alike, strict=True) if kept]
    table = guards(found, told)
    stored = {
        "vetoes": [
            n for n, (cases, right) in table.items() if cases >= _VETO_CASES and right >= _VETO
        ]
    }
    for way, known in (("deep", told), ("cheap", [replace(one, cross=None) for one in told])):
        rows = [inputs(one) for one in known]
        seen = {name for row in rows for name in row}
        names = sorted(seen | {turned(name) for name in seen})
        stored[way] = fit(names, rows, found)
    options.out.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
    for name, (cases, right) in table.items():
        print(f"{name:<14} {cases:6,} {right:.3f}")
    print(f"{len(found):,} pairs; vetoes: {', '.join(stored['vetoes'])}")


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
