from dataclasses import asdict

from streams.embedding import HASHING
from streams.lab.core.capacity import Costs, plan
from tests.commands.conftest import Memsieve

SPELLING = ("--policy", "default-hashing", "--model", HASHING)
"""What is measured in a second instead of ten."""


def test_what_is_measured_is_what_is_reckoned_with(memsieve: Memsieve) -> None:
    given = ("--rate", "50", "--rate", "2000", "--memories", "1000", "--repeats", "0.5")
    told = memsieve("capacity", *given, "--json").json()
    costs = Costs.model_validate(told["costs"])
    assert min(costs.encode, costs.decide, costs.apply) > 0.0
    assert costs.encode > costs.apply
    assert told["plans"] == [
        asdict(plan(costs, rate, memories=1_000, repeats=0.5)) for rate in (50.0, 2_000.0)
    ]


def test_a_rate_that_no_cluster_has_partitions_for_is_refused(memsieve: Memsieve) -> None:
    refused = memsieve("capacity", "--rate", "100000000", *SPELLING)
    assert refused.code == 2
    assert "share the tenants out over several clusters" in refused.err
