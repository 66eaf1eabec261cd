"""Calibration of bands and thresholds on labelled pairs, for a maximum rate of hidden facts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schemas.decisions import Compared, Verdict
from streams.lab.core.grading import APART, ONE_FACT, Truth
from streams.lab.core.measures import Proportion, needed
from streams.model.bands import Bands
from streams.model.policy import JOINING, Policy, Rules
from streams.model.verdict import FOREIGN, objection, of_one_memory, vetoed
from streams.text.judge.weighing import ONE_MEMORY

Marks = NDArray[np.bool_]

_STEPS = [step / 100 for step in range(50, 101)]
"""The candidate thresholds for the probability of one memory: below one half, the judge itself
considers the opposite more likely."""
_COSINES = [step / 100 for step in range(100, -1, -1)]
"""The candidate cosines for a band's bound; finer steps would fit the sample's noise."""
_SHARE = 0.99
"""The share that a band must contain: of the duplicates found (review), or of all (log)."""


@dataclass(frozen=True)
class Sample:
    """A labelled pair as judge and guards saw it, whatever its similarity.

    `settled`: the verdict from the sentences alone. `vetoed`: a guard separated the pair.
    `objected`: a guard found a difference, or the texts are not in English, which counts if no
    verdict is sure.
    """

    truth: Truth
    similarity: float
    settled: Verdict | None = None
    vetoed: bool = False
    objected: bool = False
    probabilities: Mapping[Verdict, float] | None = None


def sample(truth: Truth, similarity: float, compared: Compared | None) -> Sample:
    """Return a sample from a decision's evidence; without a comparison, the words were equal."""
    if compared is None:
        return Sample(truth, similarity, settled=Verdict.SAME)
    silent = compared.probabilities is None and not compared.findings
    return Sample(
        truth,
        similarity,
        settled=compared.verdict if silent and compared.verdict is not Verdict.UNSURE else None,
        vetoed=vetoed(compared),
        objected=objection(compared.findings) is not None or compared.judge.startswith(FOREIGN),
        probabilities=compared.probabilities,
    )


@dataclass(frozen=True)
class Fit:
    """The fitted thresholds, and their rates on the samples that they were fitted to."""

    bands: Bands
    one_memory_min: float
    hidden: Proportion
    found: Proportion


class TooFewPairs(ValueError):
    """There are too few pairs of two facts to show that a rate is that low."""


def fit(samples: Sequence[Sample], rules: Rules, wanted: float) -> Fit:
    """Fit thresholds that find the most duplicates with hidden facts below the wanted rate.

    The upper bound of the rate's interval counts. Ties go to the thresholds that `rules` have, then
    to the strictest. Raises TooFewPairs if the sample is too small to show the rate.
    """
    seen = Samples(samples, rules)
    if (have := int(seen.apart.sum())) < needed(wanted):
        raise TooFewPairs(
            f"{have} pairs of two facts in the half that is fitted, and {needed(wanted)} are needed "
            f"to show that at most {wanted:.2%} are hidden: give more pairs, or allow a higher rate"
        )
    match = _match(seen, wanted)
    one_memory_min = _least(seen, match, wanted)
    outcome = seen.outcome(match, one_memory_min)
    known = seen.outcome(rules.bands.match, rules.judges.one_memory_min)
    if _upper(seen.hidden(known)) <= wanted and known[seen.one].sum() >= outcome[seen.one].sum():
        match, one_memory_min, outcome = rules.bands.match, rules.judges.one_memory_min, known
    review = min(match, _holding(seen.similarity[seen.one & outcome]))
    bands = Bands(
        match=match,
        review=review,
        log=min(review, _holding(seen.similarity[seen.one])),
    )
    return Fit(bands, one_memory_min, seen.hidden(outcome), seen.found(outcome))


class Samples:
    """The samples as columns."""

    def __init__(self, samples: Sequence[Sample], rules: Rules) -> None:
        self._rules = rules
        told = [one.probabilities or {} for one in samples]
        known = {Verdict.SAME, Verdict.REFINED_BY}
        adding = {Verdict.REFINES, Verdict.OVERLAPS}
        likeliest = [max(ONE_MEMORY, key=lambda one, p=p: p.get(one, 0.0)) for p in told]
        self.similarity = np.array([one.similarity for one in samples], np.float64)
        self.one = np.array([one.truth in ONE_FACT for one in samples], np.bool_)
        self.apart = np.array([one.truth in APART for one in samples], np.bool_)
        self.objected = np.array([one.objected for one in samples], np.bool_)
        self._judged = np.array([one.probabilities is not None for one in samples], np.bool_)
        self._p_one = np.array([of_one_memory(p) for p in told], np.float64)
        # more likely one fact with an addition than the same
        self._more = np.array([verdict in adding for verdict in likeliest], np.bool_)
        self._open = np.array([s.settled is None and not s.vetoed for s in samples], np.bool_)
        # duplicates by their words alone: no threshold changes that
        self._settled = np.array([one.settled in known for one in samples], np.bool_)

    def hidden(self, joined: Marks) -> Proportion:
        return Proportion(int((self.apart & joined).sum()), int(self.apart.sum()))

    def found(self, joined: Marks) -> Proportion:
        return Proportion(int((self.one & joined).sum()), int(self.one.sum()))

    def outcome(self, match: float, one_memory_min: float) -> Marks:
        """Return which pairs become one memory at these thresholds; see core/verdict.by_opinion."""
        sure = self._judged & (self._p_one >= one_memory_min)
        joined = sure & ~self._more if self._rules.with_verdict.refines == "keep-both" else sure
        unsure = self._open & ~sure & ~self.objected
        rule, near = self._rules.without_verdict, self.similarity >= match
        anyway = np.where(near, rule.match in JOINING, rule.review in JOINING)
        return self._settled | joined | (unsure & anyway)


def _match(seen: Samples, wanted: float) -> float:
    """Return the lowest cosine with few enough distinct facts, not caught by guards, above it."""

    def hides(bound: float) -> float:
        return _upper(seen.hidden(~seen.objected & (seen.similarity >= bound)))

    return min(takewhile(lambda bound: hides(bound) <= wanted, _COSINES), default=1.0)


def _least(seen: Samples, match: float, wanted: float) -> float:
    """Return the probability threshold that finds the most within the wanted rate."""
    outcomes = {least: seen.outcome(match, least) for least in reversed(_STEPS)}
    fine = [least for least, made in outcomes.items() if _upper(seen.hidden(made)) <= wanted]
    return max(fine, key=lambda least: seen.found(outcomes[least]).count, default=1.0)


def _holding(similarities: NDArray[np.float64]) -> float:
    """Return the highest bound with nearly all of these at or above it, else 0; 1 if empty."""
    if not len(similarities):
        return 1.0
    holding = (bound for bound in _COSINES if (similarities >= bound).mean() >= _SHARE)
    return next(holding, 0.0)


def _upper(rate: Proportion) -> float:
    return 1.0 if rate.interval is None else rate.interval[1]


def fitted(base: Policy, found: Fit) -> dict[str, Any]:
    """Return a policy's content with the fitted values in place of its own."""
    content = base.model_dump(mode="json")
    content["bands"] = found.bands.model_dump()
    content["judges"]["one_memory_min"] = found.one_memory_min
    nominate = content["nominate"]
    nominate["similarity_min"] = min(nominate["similarity_min"], found.bands.log)
    return content
