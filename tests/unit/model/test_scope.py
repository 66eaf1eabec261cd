from typing import TYPE_CHECKING, cast

import pytest
from aiokafka.partitioner import (  # pyright: ignore[reportMissingTypeStubs]
    DefaultPartitioner,
)
from hypothesis import given
from hypothesis import strategies as st

from schemas.base import ScopeName
from streams.model.scope import partition_of, tenant

if TYPE_CHECKING:
    from collections.abc import Callable

kafkas = cast("Callable[[bytes, list[int], list[int]], int]", DefaultPartitioner())


@pytest.mark.parametrize(
    ("scope", "expected"),
    [
        ("acme/ana", [0, 1, 1, 397086]),
        ("zork/location-15", [0, 2, 2, 192576]),
        ("a", [0, 1, 4, 100772]),
        ("abcd", [0, 2, 8, 831631]),
        ("\u65e5\u672c/\u6771\u4eac", [0, 1, 10, 957437]),
    ],
)
def test_a_scope_stays_in_its_partition(scope: str, expected: list[int]) -> None:
    assert [partition_of(ScopeName(scope), n) for n in (1, 3, 12, 1_000_003)] == expected


@given(st.text(), st.integers(1, 10_000))
def test_partition_is_the_one_that_kafka_clients_choose(scope: str, partitions: int) -> None:
    everywhere = list(range(partitions))
    expected = kafkas(scope.encode(), everywhere, everywhere)
    assert partition_of(ScopeName(scope), partitions) == expected


@pytest.mark.parametrize(
    ("scope", "expected"), [("acme/ana/work", "acme"), ("acme/ana", "acme"), ("acme", "acme")]
)
def test_tenant_is_the_first_segment(scope: str, expected: str) -> None:
    assert tenant(ScopeName(scope)) == expected
