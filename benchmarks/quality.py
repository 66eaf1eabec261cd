"""What memsieve finds and what it loses, on labelled pairs, beside a threshold on the cosine.

Usage: python benchmarks/quality.py [--date DATE] [--limit N]

Writes benchmarks/quality.md, benchmarks/results/quality-DATE.json and quality-DATE.html. The pairs of
the directory `shared` beside the project are used where it is there; the page says what was not.
Embeddings are kept in .quality-cache, so that a second run takes minutes less. Nothing is fitted to
the figures: where a threshold has to be chosen, it is on one half of the pairs (by a hash of their
texts), and the figure is that of the other.
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
from typing import Any, cast

import numpy as np

from schemas.base import EventId, ModelId, ScopeName
from schemas.decisions import Band
from schemas.events import Remember
from streams.adapters.clock import SystemClock
from streams.adapters.files import FileSource
from streams.apps import labelled, policies, rehearsing, report, settings
from streams.apps.calibrating import everything, in_first_half
from streams.apps.evaluated import Evaluation, Row, both, measured
from streams.apps.evaluation import evaluate
from streams.apps.labelled import Labelled, pair_of
from streams.apps.rehearsing import Means, rehearse
from streams.core.embedding import Embedded
from streams.core.grading import Truth
from streams.core.measures import Rate, auc
from streams.core.policy import Policy
from streams.core.verdict import Judgement
from streams.flow.judging import Judging, Question
from streams.ports import Embedder

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared" / "data"
CACHE = ROOT / ".quality-cache"
OWN = ROOT / "benchmarks" / "datasets" / "memory_pairs.jsonl"

NATURAL = {"stsb", "sick", "qqp", "mrpc", "snli_contradiction"}
NEAR_MISS = {"apt", "becel", "breaking_nli", "pawsx_dev", "semantoneg", "wikifact_refuted"}
NATURAL_MAX, NEAR_MISS_MAX = 0.01, 0.03
"""Of distinct facts as they occur, and of those built to look alike, so many may be lost."""
COSINE = 0.85
_WARM = 64
BATCH = 256

_INTRODUCTION = """\
Measured by `make quality` on {date}, with the policy `default`; 95 % intervals (Wilson). *cosine*: an
event is taken for known from {cosine} on. *target*: what is aimed at. Facts are lost where only one of two is still said; what is merged
without losing a word is not lost. Methods and data: [README](README.md)."""

_SHORT = """\
## What falls short, and what was tried

- **AUC, and duplicates found at the strict point.** The judge alone ranks `mixed` at .899; guards, whose
  objection is final, put some true duplicates behind everything. Of an earlier fit the trees alone reached
  .879, the attentions .902, their mean .906. Twice as many generated pairs, near-synonyms from
  the dictionary and other weights gave nothing. Many of the false merges at the strict point are labelled
  loosely. The settings were chosen with `mixed` in view, so its figures flatter.
- **Our own pairs, held out.** Facts told in wholly other words are what the judge is weakest at. 1,254 more pairs
  written by hand raised its AUC here from .820 to .836, and what is found without more loss hardly: at
  `same_min` .80 it is 38 % with .8 % lost (two pairs), at .85 36 % with the same two, at .90 what the table says.
  .90 was chosen so, with these figures in view: they flatter by that. Guards that veto true duplicates here
  (modality in reported speech, amounts in words) are among the ones that keep the losses at naught elsewhere.
- **Cost of judging.** About .25 ms a pair for the judge's model and as much for what it looks at, .15 for the
  guards, .3 a text to read, once. Texts that share hardly a word are not judged (`judges.shared_words_min`),
  which spares four of five pairs on that stream.
"""

Ranked = Callable[[Row], float]


@dataclass(frozen=True)
class Figure:
    """One line of the table, with what is aimed at."""

    name: str
    ours: str
    cosine: str = ""
    target: str = ""


@dataclass
class Results:
    """What was measured, and what could not be."""

    figures: list[Figure] = field(default_factory=list[Figure])
    evaluations: dict[str, Evaluation] = field(default_factory=dict[str, Evaluation])
    absent: list[str] = field(default_factory=list[str])


def main() -> None:
    options = _options()
    date = options.date or SystemClock().now().date().isoformat()
    results = asyncio.run(_measure(options.limit))
    page = _page(results, date)
    print(page)
    out = ROOT / "benchmarks" / "results" / f"quality-{date}"
    (ROOT / "benchmarks" / "quality.md").write_text(page, encoding="utf-8")
    out.with_suffix(".json").write_text(_json(results, date), encoding="utf-8")
    # The report quotes its rows: only our own may be.
    own = report.page(results.evaluations["own"])
    out.with_suffix(".html").write_text(own, encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--date", help="the date to write into the results")
    parser.add_argument("--limit", type=int, help="read so many rows of each file at most")
    return parser.parse_args()


async def _measure(limit: int | None) -> Results:
    policy, results = policies.load("default"), Results()
    async with rehearsing.means(settings.load({}), print) as given:
        model = given.embedder.model.replace("/", "--")
        cached = CachedEmbedder(given.embedder, CACHE / f"{model}.npz")
        means = replace(given, embedder=cached)
        try:
            await _on_public_pairs(results, policy, means, limit)
            await _on_own_pairs(results, policy, means, limit)
            await _on_differences(results, policy, means, limit)
        finally:
            cached.save()
        await _on_a_stream(results, policy, given, limit)
    return results


async def _on_public_pairs(
    results: Results, policy: Policy, means: Means, limit: int | None
) -> None:
    mixed = _read(results, "pairs/mixed.jsonl", limit)
    if mixed is not None:
        judged = await evaluate(mixed, everything(policy), means, batch_records=BATCH)
        _ranking(results, judged.rows)
        made = await evaluate(mixed, policy, means, batch_records=BATCH)
        results.evaluations["mixed"] = made
        _default_point(results, "mixed", made.rows)
        vetoed = measured(made.rows, "ours").rates["guard_veto_rate"]
        results.figures.append(
            Figure("mixed: true duplicates vetoed by guards alone", _told(vetoed), "", "≤ 5 %")
        )
    for name in ("negation_antonym", "scoped_negation"):
        pairs = _read(results, f"pairs/{name}.jsonl", limit)
        if pairs is not None:
            made = await evaluate(pairs, policy, means, batch_records=BATCH)
            results.evaluations[name] = made
            title = f"{name}: hidden at the default point"
            _both(results, title, made.rows, "hidden_rate", "≤ .5 %")


def _ranking(results: Results, rows: Sequence[Row]) -> None:
    """Compare how pairs are ranked, whatever the policy's bands are: every pair was judged."""
    rows = [row for row in rows if row.one is not None]
    if not any(row.compared and row.compared.probabilities for row in rows):
        results.absent.append("a judge: no pair has a probability, so there is no ranking of ours")
        return
    one, two = [row for row in rows if row.one], [row for row in rows if not row.one]
    ours, cosine = (auc([by(r) for r in one], [by(r) for r in two]) for by in (_judged, _cosine))
    results.figures.append(Figure("mixed: AUC", f"{ours or 0:.3f}", f"{cosine or 0:.3f}", "≥ .91"))
    title = (
        f"mixed: duplicates found at <= {NATURAL_MAX:.0%} natural and <= {NEAR_MISS_MAX:.0%} "
        "near-miss facts lost"
    )
    results.figures.append(Figure(title, _strict(rows, _judged), _strict(rows, _cosine), "≥ 40 %"))
    recall = sum(_cosine(row) >= COSINE for row in one) / len(one)
    ours, cosine = (_told(_lost_at(rows, by, recall)) for by in (_judged, _cosine))
    title = f"mixed: near-miss facts lost at the recall of cosine {COSINE} ({recall:.1%})"
    results.figures.append(Figure(title, ours, cosine, "≤ 12 %"))


def _judged(row: Row) -> float:
    """Return what a pair is ranked by: what the judge holds of SAME, below all where guards object."""
    return 0.0 if row.score is None else row.score


def _cosine(row: Row) -> float:
    return row.similarity or 0.0


def _strict(rows: Sequence[Row], by: Ranked) -> str:
    """Choose a threshold on one half; tell what it gives on the other."""
    chosen = [row for row in rows if in_first_half(row.event, row.memory)]
    other = [row for row in rows if not in_first_half(row.event, row.memory)]
    bounds = sorted({by(row) for row in chosen} | {2.0})
    threshold = next(bound for bound in bounds if _allowed(chosen, by, bound))
    natural, near_miss = (_above(_two(other, sets), by, threshold) for sets in (NATURAL, NEAR_MISS))
    found = _above([row for row in other if row.one], by, threshold)
    return f"{_told(found)}; natural {natural.value or 0:.1%}, near-miss {near_miss.value or 0:.1%}"


def _allowed(rows: Sequence[Row], by: Ranked, threshold: float) -> bool:
    natural, near_miss = (_above(_two(rows, sets), by, threshold) for sets in (NATURAL, NEAR_MISS))
    return (natural.value or 0.0) <= NATURAL_MAX and (near_miss.value or 0.0) <= NEAR_MISS_MAX


def _lost_at(rows: Sequence[Row], by: Ranked, recall: float) -> Rate:
    """Return the near-miss facts above the threshold that finds so many duplicates."""
    scores = sorted((by(row) for row in rows if row.one), reverse=True)
    threshold = scores[max(0, round(recall * len(scores)) - 1)]
    return _above(_two(rows, NEAR_MISS), by, threshold)


def _two(rows: Sequence[Row], sets: set[str]) -> list[Row]:
    return [row for row in rows if row.one is False and row.set in sets]


def _above(rows: Sequence[Row], by: Ranked, threshold: float) -> Rate:
    return Rate(sum(by(row) >= threshold for row in rows), len(rows))


async def _on_own_pairs(results: Results, policy: Policy, means: Means, limit: int | None) -> None:
    """Measure the half of the project's own pairs that nothing was trained on."""
    rows = [json.loads(line) for line in OWN.read_text("utf-8").splitlines()]
    held_out = [row for row in rows if row["half"] == "held-out"][:limit]
    made = await evaluate(_labelled(held_out, "own"), policy, means, batch_records=BATCH)
    results.evaluations["own"] = made
    _default_point(results, "own pairs, held out", made.rows, "≤ .5 %", "≥ 60 %")
    vetoed = measured(made.rows, "ours").rates["guard_veto_rate"]
    results.figures.append(
        Figure(
            "own pairs, held out: true duplicates vetoed by guards alone",
            _told(vetoed),
            "",
            "≤ 5 %",
        )
    )


async def _on_differences(
    results: Results, policy: Policy, means: Means, limit: int | None
) -> None:
    """Measure pairs that were generated with one difference each."""
    try:
        module = importlib.import_module("benchmarks.datasets.differences")
    except ImportError:
        results.absent.append("benchmarks/datasets/differences.py")
        return
    rows = [_row(pair) for pair in module.pairs()][:limit]
    made = await evaluate(_labelled(rows, "differences"), policy, means, batch_records=BATCH)
    results.evaluations["differences"] = made
    title = "generated pairs with one difference: hidden"
    _both(results, title, made.rows, "hidden_rate", "≤ .5 %")


def _row(pair: Any) -> dict[str, Any]:  # noqa: ANN401 - a mapping or a dataclass
    row = dict(cast("Mapping[str, Any]", pair)) if isinstance(pair, Mapping) else asdict(pair)
    return {"label": "0", **row}


def _labelled(rows: Sequence[Mapping[str, Any]], source: str) -> Labelled:
    return Labelled(
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


async def _on_a_stream(results: Results, policy: Policy, means: Means, limit: int | None) -> None:
    """Measure what judging takes, beside embedding, in one run over one stream of facts."""
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
    # The judge's model and dictionary are read first, as the embedding model was.
    await rehearse(events[:_WARM], policy, means, batch_records=BATCH)
    clocked, judging = ClockedEmbedder(means.embedder), ClockedJudging(means.judging)
    timed = replace(means, embedder=clocked, judging=judging)
    await rehearse(events, policy, timed, batch_records=BATCH)
    results.figures.append(
        Figure(
            f"judged path ÷ embedding, {len(events):,} LoCoMo facts",
            f"{judging.seconds / clocked.seconds:.1%} of {clocked.seconds:.1f} s, "
            f"{judging.pairs:,} pairs near enough to be judged",
            "",
            "≤ 10 %",
        )
    )


def _read(results: Results, name: str, limit: int | None) -> Labelled | None:
    """Read a file of the shared data; None where it is not there."""
    path = SHARED / name
    if not path.exists():
        results.absent.append(f"shared/data/{name}")
        return None
    return labelled.read([FileSource(str(path))], limit)


def _default_point(
    results: Results, name: str, rows: Sequence[Row], hidden: str = "", found: str = ""
) -> None:
    _both(results, f"{name}: hidden at the default point", rows, "hidden_rate", hidden)
    _both(results, f"{name}: found at the default point", rows, "found_rate", found)
    _both(results, f"{name}: lost", rows, "lost_rate", "0")


def _both(results: Results, name: str, rows: Sequence[Row], rate: str, target: str = "") -> None:
    """Add a rate of both ways of deciding."""
    ours, cosine = (_told(measured(rows, way).rates[rate]) for way in ("ours", "cosine"))
    results.figures.append(Figure(name, ours, cosine, target))


def _told(rate: Rate) -> str:
    if rate.value is None or rate.interval is None:
        return "of none"
    low, high = rate.interval
    return f"{rate.value:.1%} ({low:.1%} to {high:.1%}) of {rate.of:,}"


class CachedEmbedder:
    """Implements ports.Embedder: what was embedded in an earlier run is read from a file."""

    def __init__(self, embedder: Embedder, path: Path) -> None:
        self._embedder = embedder
        self._path = path
        self._known = dict(_kept(path))
        self._grown = False

    @property
    def model(self) -> ModelId:
        return self._embedder.model

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    async def embed(self, texts: Sequence[str]) -> list[Embedded]:
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


def _kept(path: Path) -> Iterator[tuple[bytes, Embedded]]:
    if path.exists():
        with np.load(path) as kept:
            columns = zip(kept["digests"], kept["vectors"], kept["truncated"], strict=True)
            for digest, vector, truncated in columns:
                yield digest.tobytes(), Embedded(vector, truncated=bool(truncated))


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


class ClockedEmbedder:
    """Implements ports.Embedder over another, and counts the seconds."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self.seconds = 0.0

    @property
    def model(self) -> ModelId:
        return self._embedder.model

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    async def embed(self, texts: Sequence[str]) -> list[Embedded]:
        started = time.perf_counter()
        made = await self._embedder.embed(texts)
        self.seconds += time.perf_counter() - started
        return made


class ClockedJudging(Judging):
    """Judges as another does, and counts the seconds."""

    def __init__(self, judging: Judging) -> None:
        self._judging = judging
        self.readings, self.wording = judging.readings, judging.wording
        self.seconds = 0.0
        self.pairs = 0

    async def judge(self, questions: Sequence[Question]) -> list[Judgement]:
        started = time.perf_counter()
        judged = await self._judging.judge(questions)
        self.seconds += time.perf_counter() - started
        self.pairs += sum(one.neighbour.band in {Band.MATCH, Band.REVIEW} for one in questions)
        return judged


def _page(results: Results, date: str) -> str:
    """Return the page: the table, and what is not in it."""
    lines = [
        "# Quality",
        "",
        _INTRODUCTION.format(date=date, cosine=COSINE),
        "",
        "| | ours | cosine | target |",
        "|---|---|---|---|",
        *(f"| {one.name} | {one.ours} | {one.cosine} | {one.target} |" for one in results.figures),
    ]
    if results.absent:
        lines += ["", f"Not there in this run: {'; '.join(results.absent)}."]
    return "\n".join(lines) + "\n" + _SHORT


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
        "sets": {name: both(rows) for name, rows in made.by(lambda row: row.set).items()},
    }


if __name__ == "__main__":
    main()
