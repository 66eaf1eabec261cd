from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.decisions import Verdict
from streams.lab.core.calibration import Sample, Samples, TooFewPairs, fit, fitted
from streams.lab.core.grading import Truth
from streams.model.policy import Policy, parse
from streams.model.verdict import Opinion, by_opinion
from streams.store.core.toml import as_toml
from tests.builders import policy

CAREFUL: dict[str, Any] = {"chain": [], "one_memory_min": 0.97}
"""What finds less than could be found, so that thresholds are fitted."""
JUDGED = [v for v in Verdict if v is not Verdict.UNSURE]


def judged(truth: Truth, same: float, similarity: float = 0.9, **fields: Any) -> Sample:
    """Make a pair that the judge holds to be the same, or distinct."""
    probabilities = dict.fromkeys(JUDGED, 0.0)
    probabilities |= {Verdict.SAME: same, Verdict.DISTINCT: 1 - same}
    return Sample(truth, similarity, probabilities=probabilities, **fields)


def many(count: int, *args: Any, **fields: Any) -> list[Sample]:
    return [judged(*args, **fields)] * count


def test_the_threshold_lies_where_the_wanted_rate_is_still_shown() -> None:
    samples = [
        *many(50, Truth.ONE, 0.95),
        *many(50, Truth.ONE, 0.75),
        *many(50, Truth.ONE, 0.55),
        *many(390, Truth.TWO, 0.1),
        *many(10, Truth.TWO, 0.60),
    ]
    found = fit(samples, policy(), 0.01)
    # 10 of 400 are far more than 1 %: the threshold is put above them, as strict as may be
    assert (found.one_memory_min, found.hidden.count, found.found.count) == (0.75, 0, 100)
    assert found.hidden.interval is not None
    assert found.hidden.interval[1] <= 0.01


def test_what_a_guard_tells_apart_needs_no_threshold() -> None:
    parted = Sample(Truth.TWO, 0.9, vetoed=True, objected=True)
    samples = [*many(50, Truth.ONE, 0.55), *[parted] * 400]
    found = fit(samples, policy(without_verdict={"match": "keep-both"}, judges=CAREFUL), 0.01)
    assert (found.one_memory_min, found.found.count) == (0.55, 50)


def test_thresholds_that_find_as_much_stay() -> None:
    samples = [*many(50, Truth.ONE, 0.95), *many(400, Truth.TWO, 0.1)]
    found = fit(samples, policy(judges=CAREFUL | {"one_memory_min": 0.61}), 0.01)
    assert (found.bands.match, found.one_memory_min) == (0.95, 0.61)
    assert (found.hidden.count, found.found.count) == (0, 50)


def test_bands_hold_nearly_all_that_is_found() -> None:
    samples = [
        *many(99, Truth.ONE, 0.9, similarity=0.823),
        *many(1, Truth.ONE, 0.9, similarity=0.1),
        *many(20, Truth.ONE, 0.1, similarity=0.511),
        *many(400, Truth.TWO, 0.1, similarity=0.7),
    ]
    bands = fit(samples, policy(judges=CAREFUL), 0.01).bands
    assert (bands.match, bands.review, bands.log) == (0.71, 0.71, 0.51)


def test_a_match_is_where_no_distinct_facts_lie() -> None:
    samples = [*many(99, Truth.ONE, 0.9), *many(400, Truth.TWO, 0.1, similarity=0.958)]
    assert fit(samples, policy(), 0.01).bands.match == 0.96


def test_too_few_facts_show_nothing() -> None:
    with pytest.raises(
        TooFewPairs, match="380 pairs of two facts in the half that is fitted, and 381"
    ):
        fit([*many(99, Truth.ONE, 0.9), *many(380, Truth.TWO, 0.1)], policy(), 0.01)


def test_where_no_threshold_is_safe_nothing_is_found() -> None:
    samples = [*many(50, Truth.ONE, 0.999), *many(400, Truth.TWO, 0.999)]
    found = fit(samples, policy(), 0.01)
    assert (found.one_memory_min, found.found.count, found.hidden.count) == (1.0, 0, 0)


@given(
    st.lists(st.integers(0, 20), min_size=len(JUDGED), max_size=len(JUDGED)).filter(any),
    st.sampled_from([0.5, 0.6, 0.75, 1.0]),
    st.sampled_from(["merge", "keep-both"]),
)
def test_the_fit_reads_opinions_as_deciding_does(
    weights: list[int], least: float, refines: str
) -> None:
    probabilities = {v: w / sum(weights) for v, w in zip(JUDGED, weights, strict=True)}
    rules = policy(without_verdict={"match": "keep-both"}, with_verdict={"refines": refines})
    chosen = rules.judges.model_copy(update={"one_memory_min": least})
    verdict = by_opinion(Opinion(Verdict.UNSURE, "built-in", probabilities), chosen)
    seen = Samples([Sample(Truth.ONE, 0.9, probabilities=probabilities)], rules)
    joining = {Verdict.SAME, Verdict.REFINED_BY}
    if refines == "merge":
        joining |= {Verdict.REFINES, Verdict.OVERLAPS}
    assert bool(seen.outcome(1.0, least)[0]) == (verdict in joining)


def test_a_policy_is_written_so_that_it_is_read_back() -> None:
    base = policy(
        scopes={
            "acme/ana": {"bands": {"match": 0.99, "review": 0.9, "log": 0.8}, "enabled": False},
            'Zoë\'s "shop"': {"judges": {"chain": ["llm"]}},
        },
        calibration={"dataset": 'p\x7f\\ "q"\n', "date": "2026-03-01", "command": "x 'y'"},
    )
    written = as_toml(base.model_dump(mode="json"), ["made by hand", "for a test"])
    assert written.startswith("# made by hand\n# for a test\n\n")
    assert parse(written) == base
    assert (
        as_toml(parse(written).model_dump(mode="json"), ["made by hand", "for a test"]) == written
    )


def test_what_was_fitted_takes_the_place_of_the_policys_own() -> None:
    base = policy(without_verdict={"match": "review", "review": "keep-both"})
    found = fit([*many(50, Truth.ONE, 0.9, similarity=0.4), *many(400, Truth.TWO, 0.1)], base, 0.01)
    made = Policy.model_validate(fitted(base, found))
    assert (made.name, made.bands) == (base.name, found.bands)
    assert made.judges.one_memory_min == found.one_memory_min
    assert made.nominate.similarity_min == made.bands.log
    assert made.without_verdict == base.without_verdict
