"""The script that reckons what a cluster takes."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks.capacity import LOAD_MAX, Costs, main, plan
from streams.embedding import HASHING

COSTS = Costs(encode=0.003, decide=0.001, apply=0.0002, deduplicator=1_000, writer=500, memory=2)


def test_a_trickle_takes_one_of_each() -> None:
    few = plan(COSTS, 0.001, memories=0)
    assert (few.deduplicators, few.writers, few.cores, few.partitions) == (1, 1, 2, 6)
    assert few.bytes == 1_500


@pytest.mark.parametrize("rate", [10.0, 149.0, 151.0, 1_000.0, 100_000.0])
def test_no_core_is_filled_beyond_its_limit_and_no_process_is_spare(rate: float) -> None:
    made = plan(COSTS, rate, memories=0)
    for processes, cost in ((made.deduplicators, 0.004), (made.writers, 0.0002)):
        assert rate * cost / processes <= LOAD_MAX + 1e-9
        assert processes == 1 or rate * cost / (processes - 1) > LOAD_MAX


def test_there_are_partitions_to_spare_and_they_can_be_shared_out() -> None:
    made = plan(COSTS, 10_000.0, memories=0)
    assert made.deduplicators == 67
    assert made.partitions == 192


def test_what_says_known_words_again_is_not_encoded() -> None:
    new, half = (plan(COSTS, 1_000.0, memories=0, repeats=share) for share in (0.0, 0.5))
    assert (new.deduplicators, half.deduplicators) == (7, 5)


def test_memory_grows_with_the_store() -> None:
    made = plan(COSTS, 1.0, memories=1_000_000)
    assert made.bytes == 1_500 + 2_000_000


def test_more_than_one_cluster_can_do_is_refused() -> None:
    with pytest.raises(ValueError, match="several clusters"):
        plan(COSTS, 1_000_000.0, memories=0)


@pytest.mark.process
def test_what_is_measured_is_what_is_reckoned_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the embedder that needs no model."""
    out = tmp_path / "capacity.json"
    spelling = ("--policy", "default-hashing", "--model", HASHING)
    main([*spelling, "--rate", "50", "--memories", "1000", "--repeats", "0.5", "--out", str(out)])
    told = json.loads(out.read_text("utf-8"))
    costs = Costs.model_validate(told["costs"])
    assert min(costs.encode, costs.decide, costs.apply) > 0.0
    assert told["plans"] == [asdict(plan(costs, 50.0, memories=1_000, repeats=0.5))]
    assert "the index holds 1,000 memories" in capsys.readouterr().out


def test_a_rate_that_no_cluster_has_partitions_for_is_refused() -> None:
    with pytest.raises(ValueError, match="distribute the tenants over several clusters"):
        plan(COSTS, 1e8, memories=0)
