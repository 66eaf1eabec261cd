"""Calibration: fits a policy to labelled pairs or to answered reviews."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from streams.lab.app.evaluated import Measures, measured
from streams.lab.app.evaluation import evaluate
from streams.lab.app.labelled import LabelledPair, LabelledRows, Unmeasurable, pair_of
from streams.lab.core.calibration import TooFewPairs, fit, fitted, sample
from streams.lab.core.grading import Truth
from streams.lab.core.measures import Proportion
from streams.model.embedding import base_model
from streams.model.policy import Calibration, Policy, parse
from streams.reviews.app import labels
from streams.store.app.dry_run import DecidingDependencies
from streams.store.app.reading import StoreReader
from streams.store.core.toml import as_toml

ANSWERS_MIN = 30
"""Fewer answers reflect the people who answered rather than the model."""
HIDDEN_RATE_MAX = 0.5
"""Whoever hides more facts than that might toss a coin."""


@dataclass(frozen=True)
class CalibrationResult:
    """A fitted policy, and its measures on each half of the pairs."""

    policy: Policy
    fitted: Measures
    other: Measures

    def as_json(self) -> dict[str, Any]:
        bands, judges = self.policy.bands, self.policy.judges
        return {
            "policy": self.policy.id,
            "model": self.policy.model,
            "bands": bands.model_dump(),
            "one_memory_min": judges.one_memory_min,
            "calibration": self.policy.calibration.model_dump(),
            "fitted_half": self.fitted.as_json(),
            "other_half": self.other.as_json(),
        }


async def calibrate(
    pairs: Sequence[LabelledPair],
    base: Policy,
    means: DecidingDependencies,
    *,
    name: str,
    wanted: float,
    origin: Calibration,
    done: Callable[[int], None] = lambda _: None,
) -> CalibrationResult:
    """Fit bands and thresholds on one half of the pairs, and measure the policy on both.

    Raises Unmeasurable if the pairs, or other rules of the policy, cannot reach the wanted rate,
    and InvalidPolicy if the name is not valid.
    """
    content = base.model_dump(mode="json") | {
        "name": name,
        "model": base_model(means.embedder.model),
    }
    base = parse(as_toml(content))  # refuse an invalid name before the long work
    known = means.knowing()
    halves: tuple[list[LabelledPair], list[LabelledPair]] = ([], [])
    for pair in pairs:
        halves[not in_first_half(pair.event.text, pair.memory.text)].append(pair)
    judged = await evaluate(LabelledRows(pairs=halves[0]), everything(base), known, done)
    samples = [sample(Truth(row.label), row.similarity or 0.0, row.compared) for row in judged.rows]
    try:
        found = fit(samples, base, wanted)
    except TooFewPairs as few:
        raise Unmeasurable(str(few)) from few
    # Parse it from its TOML, as users will: the id depends on the order of the keys.
    policy = parse(as_toml({**fitted(base, found), "calibration": origin.model_dump()}))
    results: list[Measures] = []
    for half in halves:
        made = await evaluate(LabelledRows(pairs=half), policy, known, done)
        results.append(measured(made.rows, "ours"))
    _require(results[0].rates["hidden_rate"], wanted)
    return CalibrationResult(policy, *results)


def in_first_half(event: str, memory: str) -> bool:
    """Return whether a pair is in the first half; a hash of its texts decides, so never in both."""
    return hashlib.sha256(json.dumps([event, memory]).encode()).digest()[0] % 2 == 0


def digest(pairs: Sequence[LabelledPair]) -> str:
    """Return the hash of the texts and labels, in order, of pairs that come from no file."""
    content = hashlib.sha256()
    for pair in pairs:
        row = json.dumps([pair.event.text, pair.memory.text, pair.truth.value])
        content.update(f"{row}\n".encode())
    return content.hexdigest()


async def answered(reader: StoreReader) -> list[LabelledPair]:
    """Return a store's answered reviews as pairs: the texts shown, and the person's verdict.

    Raises Unmeasurable if there are too few.
    """
    given = await labels(reader)
    if len(given) < ANSWERS_MIN:
        raise Unmeasurable(
            f"{reader.place} has {len(given)} answered reviews, and {ANSWERS_MIN} are needed: "
            "answer more of them, or give a file of labelled pairs"
        )
    return [
        pair_of(
            row,
            Truth(row["label"]),
            place=f"{reader.place}: review {row['id']}",
            set_="answers",
            number=number,
        )
        for number, row in enumerate(given, start=1)
    ]


def everything(base: Policy) -> Policy:
    """Return a policy under which every pair that any bands could reach is judged."""
    content = base.model_dump(mode="json")
    content["scopes"] = {}
    content["bands"] = {"match": 1.0, "review": 0.0, "log": 0.0}
    content["nominate"]["similarity_min"] = -1.0
    content["judges"]["words_below"] = 0.0
    return Policy.model_validate(content)


def _require(hidden: Proportion, wanted: float) -> None:
    """Raise Unmeasurable if rules that are not fitted hide more than wanted."""
    if hidden.interval is not None and hidden.interval[1] > wanted:
        raise Unmeasurable(
            f"the policy hides {hidden.count} of {hidden.of} facts by rules that are not fitted, such "
            "as with_verdict.contradicts = supersede: start from another --policy"
        )
