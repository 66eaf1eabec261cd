"""What memsieve finds and what it hides, on labelled pairs, beside thresholds on the cosine.

Usage: python -m benchmarks.quality [--date DATE] [--limit N] [--policy NAME]

Writes benchmarks/quality.md, benchmarks/results/quality-DATE.json and quality-DATE.html; with
--policy another than the default, prints only. The pairs of the directory `shared` beside the
project are used where it is there; the page says what was not. Embeddings are kept in
.quality-cache, so that a second run takes minutes less. Nothing is fitted to the figures: where a
threshold has to be chosen, it is on one half of the pairs (by a hash of their texts), and the figure
is that of the other. benchmarks/quality-notes.md, written by hand, ends the page.
"""

import argparse
import asyncio
import hashlib
import importlib
import json
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import metadata
from pathlib import Path
from random import Random
from typing import Any, cast

import numpy as np

from schemas.base import EventId, ScopeName
from schemas.decisions import Band
from schemas.events import Remember
from streams.clock.system import SystemClock
from streams.lab.app import labelled, report
from streams.lab.app.calibrating import everything, in_first_half
from streams.lab.app.evaluated import EvaluatedRow, Evaluation, both, measured
from streams.lab.app.evaluation import evaluate
from streams.lab.app.labelled import LabelledRows, pair_of
from streams.lab.core.grading import APART, ONE_FACT, Truth
from streams.lab.core.measures import Proportion, auc
from streams.model.embedding import TextVector
from streams.model.policy import Policy
from streams.model.ports.models import Embedder
from streams.model.verdict import Judgement
from streams.model.wrapping import WrappedEmbedder
from streams.stage.flow.judging import CandidatePair, Judging
from streams.store.app import dry_run, policies, settings
from streams.store.app.dry_run import DecidingDependencies, decide_in_memory
from streams.store.world.files import FileSource
from training.relations.material import Example, cards, of_card, split

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared" / "data"
CACHE = ROOT / ".quality-cache"
OWN = ROOT / "benchmarks" / "datasets" / "memory_pairs.jsonl"
UPDATES = ROOT / "benchmarks" / "datasets" / "updates.jsonl"
NOTES = ROOT / "benchmarks" / "quality-notes.md"

NATURAL = {"stsb", "sick", "qqp", "mrpc", "snli_contradiction"}
NEAR_MISS = {"apt", "becel", "breaking_nli", "pawsx_dev", "semantoneg", "wikifact_refuted"}
NATURAL_MAX, NEAR_MISS_MAX = 0.01, 0.03
"""The maximum hidden rates: of naturally occurring distinct facts, and of near-misses."""
COSINE, SEMHASH = 0.85, 0.90
CARD_SHARE = 0.4
"""The share of a card's possible pairs that is used."""
_SEED = 20261123
_WARM = 64
BATCH = 256

_INTRODUCTION = """\
This page was measured by `make quality` on {date}, with the policy `{policy}` and no language model. *Found*: of the pairs
that one memory should stand for, those that became one. *Hidden*: of two facts, one became a wording of the other.
*Lost*: a statement is in no wording of any memory. *Superseded*: of contradicted facts, those that the newer one
retired. *Displaced*: other facts that it retired. The columns *0.85* and *0.90* (SemHash's rule) take an event for known
from that cosine up. *Best* uses the lowest cosine that hides at most 1 % on one half of the pairs, and shows the result on
the other half. Methods and data: [README](README.md)."""

Ranked = Callable[[EvaluatedRow], float]


@dataclass(frozen=True)
class Figure:
    """One line of the table, with its goal."""

    name: str
    ours: str
    cosine: str = ""
    best: str = ""
    semhash: str = ""
    goal: str = ""


@dataclass
class Results:
    """The figures, and the files that were missing."""

    figures: list[Figure] = field(default_factory=list[Figure])
    evaluations: dict[str, Evaluation] = field(default_factory=dict[str, Evaluation])
    absent: list[str] = field(default_factory=list[str])


def main() -> None:
    options = _options()
    date = options.date or SystemClock().now().date().isoformat()
    policy = policies.load(options.policy)
    results = asyncio.run(_measure(policy, options.limit))
    page = _page(results, date, policy)
    print(page)
    if options.policy != "default":
        return
    out = ROOT / "benchmarks" / "results" / f"quality-{date}"
    (ROOT / "benchmarks" / "quality.md").write_text(page, encoding="utf-8")
    out.with_suffix(".json").write_text(_json(results, date), encoding="utf-8")
    # The report quotes its rows, and only our own data may be quoted.
    own = report.page(results.evaluations["own pairs, held-out half"])
    out.with_suffix(".html").write_text(own, encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--date", help="the date to write into the results")
    parser.add_argument("--limit", type=int, help="read so many rows of each file at most")
    parser.add_argument("--policy", default="default", help="a policy's name or file")
    return parser.parse_args()


async def _measure(policy: Policy, limit: int | None) -> Results:
    results = Results()
    async with dry_run.means(settings.load({}), print) as given:
        model = given.embedder.model.replace("/", "--")
        cached = CachedEmbedder(given.embedder, CACHE / f"{model}.npz")
        means = replace(given, embedder=cached, batch_records=BATCH)
        try:
            for name, pairs, goals in _sets(results, limit):
                made = await evaluate(pairs, policy, means)
                results.evaluations[name] = made
                _point(results, name, made.rows, goals)
                if name == "mixed":
                    judged = await evaluate(pairs, everything(policy), means)
                    _ranking(results, judged.rows)
        finally:
            cached.save()
        await _on_a_stream(results, policy, given, limit)
    return results


@dataclass(frozen=True)
class Goals:
    """The goals: the minimum share found, and the maximum share hidden."""

    found: str = ""
    hidden: str = ""


def _sets(results: Results, limit: int | None) -> Iterator[tuple[str, LabelledRows, Goals]]:
    yield "cards of five held-out domains", _cards(limit), Goals("≥ 75 %", "≤ 1.5 %")
    rows = [json.loads(line) for line in OWN.read_text("utf-8").splitlines()]
    own = [row for row in rows if row["half"] == "held-out"][:limit]
    yield "own pairs, held-out half", _labelled(own, "own"), Goals("≥ 65 %", "≤ 1 %")
    updates = [json.loads(line) for line in UPDATES.read_text("utf-8").splitlines()][:limit]
    yield "updates and near-misses", _labelled(updates, "updates"), Goals("", "≤ 1 %")
    for name, goals in (
        ("mixed", Goals()),
        ("negation_antonym", Goals("", "≤ 0.5 %")),
        ("scoped_negation", Goals("", "≤ 0.5 %")),
    ):
        pairs = _read(results, f"pairs/{name}.jsonl", limit)
        if pairs is not None:
            yield name, pairs, goals
    module = importlib.import_module("benchmarks.datasets.differences")
    different = [_row(pair) for pair in module.pairs()][:limit]
    yield "generated, one difference", _labelled(different, "differences"), Goals("", "≤ 0.5 %")


def _cards(limit: int | None) -> LabelledRows:
    """Return pairs of the cards of the test domains, unused in training and model selection."""
    *_, held_out = split(cards())
    chance = Random(_SEED)  # noqa: S311 - a sample, and the same each time
    drawn = [(one, card) for card in held_out for one in of_card(card, chance, CARD_SHARE)][:limit]
    rows = [
        {"a": one.first, "b": one.second, "label": _label(one), "kind": card.kind}
        for one, card in drawn
    ]
    return _labelled(rows, "cards")


def _label(one: Example) -> str:
    """Return the only relation of a pair; a retold text counts as `overlaps`."""
    return one.relations[0] if len(one.relations) == 1 else "overlaps"


def _row(pair: Any) -> dict[str, Any]:  # noqa: ANN401 - a mapping or a dataclass
    row = dict(cast("Mapping[str, Any]", pair)) if isinstance(pair, Mapping) else asdict(pair)
    return {"label": "0", **row}


def _labelled(rows: Sequence[Mapping[str, Any]], source: str) -> LabelledRows:
    return LabelledRows(
        pairs=[
            pair_of(
                row,
                Truth(str(row["label"])),
                place=f"{source}:{number}",
                set_=source,
                number=number,
            )
            for number, row in enumerate(rows, start=1)
        ],
        read=len(rows),
    )


def _read(results: Results, name: str, limit: int | None) -> LabelledRows | None:
    """Read a file of the shared data; None if it is missing."""
    path = SHARED / name
    if not path.exists():
        results.absent.append(f"shared/data/{name}")
        return None
    return labelled.read([FileSource(str(path))], limit)


def _point(results: Results, name: str, rows: Sequence[EvaluatedRow], goals: Goals) -> None:
    """Add what the policy's decisions find, hide and lose, next to three cosine thresholds."""
    best = _best(rows)
    for what, truths, goal in (("found", ONE_FACT, goals.found), ("hidden", APART, goals.hidden)):
        of = [row for row in rows if Truth(row.label) in truths]
        if of:
            ours = measured(rows, "ours").rates[f"{what}_rate"]
            unseen = [row for row in of if not _is_fitted(row)]
            figure = Figure(
                f"{name}: {what}",
                _told(ours),
                _share(of, COSINE),
                f"{_share(unseen, best)} from {best:.2f}",
                _share(of, SEMHASH),
                goal,
            )
            results.figures.append(figure)
    rates = measured(rows, "ours").rates
    for what, goal in (("lost", "0"), ("superseded", ""), ("displaced", "≤ 0.3 %")):
        if rates[f"{what}_rate"].of:
            told = _told(rates[f"{what}_rate"])
            results.figures.append(Figure(f"{name}: {what}", told, goal=goal))


def _best(rows: Sequence[EvaluatedRow]) -> float:
    """Return the lowest cosine threshold that hides at most 1 % of the facts of one half."""
    apart = [row for row in rows if Truth(row.label) in APART and _is_fitted(row)]
    hidden = (
        (step / 100, _above(apart, _cosine, step / 100).value or 0.0) for step in range(50, 101)
    )
    return next((bound for bound, share in hidden if share <= NATURAL_MAX), 1.01)


def _share(rows: Sequence[EvaluatedRow], bound: float) -> str:
    return f"{_above(rows, _cosine, bound).value or 0.0:.1%}"


def _ranking(results: Results, rows: Sequence[EvaluatedRow]) -> None:
    """Compare the rankings of pairs, all of which were judged, whatever the policy's bands."""
    one = [row for row in rows if Truth(row.label) in ONE_FACT]
    two = [row for row in rows if Truth(row.label) in APART]
    ours, cosine = (auc([by(r) for r in one], [by(r) for r in two]) for by in (_judged, _cosine))
    results.figures.append(
        Figure("mixed: AUC", f"{ours or 0:.3f}", f"{cosine or 0:.3f}", goal="≥ 0.93")
    )
    title = (
        f"mixed: found where ≤ {NATURAL_MAX:.0%} natural and ≤ {NEAR_MISS_MAX:.0%} near-miss facts "
        "are hidden"
    )
    strict = [_strict(rows, by) for by in (_judged, _cosine)]
    results.figures.append(Figure(title, strict[0], strict[1], goal="≥ 50 %"))


def _is_fitted(row: EvaluatedRow) -> bool:
    return in_first_half(row.given.event.text, row.memory)


def _judged(row: EvaluatedRow) -> float:
    return 0.0 if row.score is None else row.score


def _cosine(row: EvaluatedRow) -> float:
    return row.similarity or 0.0


def _strict(rows: Sequence[EvaluatedRow], by: Ranked) -> str:
    """Choose a threshold on one half; describe its result on the other."""
    chosen = [row for row in rows if _is_fitted(row)]
    other = [row for row in rows if not _is_fitted(row)]
    bounds = sorted({by(row) for row in chosen} | {2.0})
    threshold = next(bound for bound in bounds if _allowed(chosen, by, bound))
    natural, near_miss = (_above(_two(other, sets), by, threshold) for sets in (NATURAL, NEAR_MISS))
    found = _above([row for row in other if row.one], by, threshold)
    return (
        f"{_told(found)} from {threshold:.3f}; hidden {natural.value or 0:.1%} natural, "
        f"{near_miss.value or 0:.1%} near-miss"
    )


def _allowed(rows: Sequence[EvaluatedRow], by: Ranked, threshold: float) -> bool:
    natural, near_miss = (_above(_two(rows, sets), by, threshold) for sets in (NATURAL, NEAR_MISS))
    return (natural.value or 0.0) <= NATURAL_MAX and (near_miss.value or 0.0) <= NEAR_MISS_MAX


def _two(rows: Sequence[EvaluatedRow], sets: set[str]) -> list[EvaluatedRow]:
    return [row for row in rows if row.one is False and row.given.set in sets]


def _above(rows: Sequence[EvaluatedRow], by: Ranked, threshold: float) -> Proportion:
    return Proportion(sum(by(row) >= threshold for row in rows), len(rows))


async def _on_a_stream(
    results: Results, policy: Policy, means: DecidingDependencies, limit: int | None
) -> None:
    """Measure the time of judging relative to embedding, in one run over a stream of facts."""
    path = SHARED / "streams" / "locomo_observations.jsonl"
    if not path.exists():
        results.absent.append("shared/data/streams/locomo_observations.jsonl")
        return
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()][:limit]
    events = [
        Remember(
            event_id=EventId(f"{number}"),
            scope=ScopeName(f"locomo/{row['sample']}/{row['speaker']}"),
            text=row["text"],
            occurred_at=SystemClock().now(),
        )
        for number, row in enumerate(rows)
    ]
    # Load the judge's model and lexicon beforehand; the embedding model is already loaded.
    await decide_in_memory(events[:_WARM], policy, means)
    for name, one, goal in (
        ("", policy, "≤ 60 %"),
        (", the cheap part alone", _cheap(policy), "≤ 25 %"),
    ):
        clocked, judging = ClockedEmbedder(means.embedder), ClockedJudging(means.judging)
        timed = replace(means, embedder=clocked, judging=judging)
        await decide_in_memory(events, one, timed)
        told = (
            f"{judging.seconds / clocked.seconds:.0%} of {clocked.seconds:.1f} s, {judging.pairs:,} "
            "pairs near enough to be judged"
        )
        title = f"judged path ÷ embedding, {len(events):,} LoCoMo facts{name}"
        results.figures.append(Figure(title, told, goal=goal))


def _cheap(policy: Policy) -> Policy:
    judges = policy.judges.model_copy(update={"deep": False})
    return policy.model_copy(update={"judges": judges})


def _told(rate: Proportion) -> str:
    shown = rate.told(1)
    return "of none" if shown is None else f"{shown} of {rate.of:,}"


class CachedEmbedder(WrappedEmbedder):
    """Implements ports.Embedder with a file cache of the embeddings of earlier runs."""

    def __init__(self, embedder: Embedder, path: Path) -> None:
        super().__init__(embedder)
        self._path = path
        self._known = dict(_kept(path))
        self._grown = False

    async def embed(self, texts: Sequence[str]) -> list[TextVector]:
        missing = [text for text in dict.fromkeys(texts) if _digest(text) not in self._known]
        if missing:
            made = zip(missing, await self._embedder.embed(missing), strict=True)
            self._known.update((_digest(text), one) for text, one in made)
            self._grown = True
        return [self._known[_digest(text)] for text in texts]

    def save(self) -> None:
        if not self._grown:
            return
        self._path.parent.mkdir(exist_ok=True)
        known = list(self._known.values())
        np.savez(
            self._path,
            digests=np.frombuffer(b"".join(self._known), np.uint8).reshape(-1, 32),
            vectors=np.stack([one.vector for one in known]),
            truncated=np.array([one.truncated for one in known]),
        )


def _kept(path: Path) -> Iterator[tuple[bytes, TextVector]]:
    if path.exists():
        with np.load(path) as kept:
            columns = zip(kept["digests"], kept["vectors"], kept["truncated"], strict=True)
            for digest, vector, truncated in columns:
                yield digest.tobytes(), TextVector(vector, truncated=bool(truncated))


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


class ClockedEmbedder(WrappedEmbedder):
    """Implements ports.Embedder over another embedder, and counts its seconds."""

    def __init__(self, embedder: Embedder) -> None:
        super().__init__(embedder)
        self.seconds = 0.0

    async def embed(self, texts: Sequence[str]) -> list[TextVector]:
        started = time.perf_counter()
        made = await self._embedder.embed(texts)
        self.seconds += time.perf_counter() - started
        return made


class ClockedJudging(Judging):
    """Delegates judging, and counts its seconds and its pairs."""

    def __init__(self, judging: Judging) -> None:
        self._judging = judging
        self.readings, self.wording = judging.readings, judging.wording
        self.seconds = 0.0
        self.pairs = 0

    async def judge(self, pairs: Sequence[CandidatePair]) -> list[Judgement]:
        started = time.perf_counter()
        judged = await self._judging.judge(pairs)
        self.seconds += time.perf_counter() - started
        self.pairs += sum(one.neighbour.band in {Band.MATCH, Band.REVIEW} for one in pairs)
        return judged


def _page(results: Results, date: str, policy: Policy) -> str:
    """Return the page: the table, the missing data, and the handwritten notes."""
    lines = [
        "# Quality",
        "",
        _INTRODUCTION.format(date=date, policy=policy.name),
        "",
        "| | memsieve | 0.85 | best | 0.90 | goal |",
        "|---|---|---|---|---|---|",
        *(
            f"| {one.name} | {one.ours} | {one.cosine} | {one.best} | {one.semhash} | {one.goal} |"
            for one in results.figures
        ),
    ]
    if results.absent:
        lines += ["", f"Missing in this run: {'; '.join(results.absent)}."]
    return "\n".join(lines) + "\n\n" + NOTES.read_text(encoding="utf-8")


def _json(results: Results, date: str) -> str:
    content = {
        "date": date,
        "machine": f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}",
        "versions": {name: metadata.version(name) for name in ("memsieve", "fastembed", "numpy")},
        "figures": [asdict(one) for one in results.figures],
        "absent": results.absent,
        "evaluations": {
            name: {"policy": made.policy, "model": made.model, **_groups(made)}
            for name, made in results.evaluations.items()
        },
    }
    return json.dumps(content, indent=2) + "\n"


def _groups(made: Evaluation) -> dict[str, Any]:
    return {
        "overall": both(made.rows),
        "sets": {name: both(rows) for name, rows in made.by("set").items()},
    }


if __name__ == "__main__":
    main()
