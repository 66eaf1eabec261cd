import pytest

from streams.lab.core.measures import (
    BCubed,
    PrecisionRecall,
    Proportion,
    auc,
    b_cubed,
    curve,
    needed,
    rate,
)


@pytest.mark.parametrize(
    ("count", "of", "low", "high"),
    [
        (5, 10, 0.2366, 0.7634),
        (1, 10, 0.0179, 0.4042),
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (81, 263, 0.2553, 0.3662),
    ],
)
def test_wilson_intervals_are_those_of_the_textbook(
    count: int, of: int, low: float, high: float
) -> None:
    assert Proportion(count, of).interval == pytest.approx((low, high), abs=5e-5)


def test_of_nothing_there_is_no_rate() -> None:
    assert (Proportion(0, 0).value, Proportion(0, 0).interval) == (None, None)


def test_rows_that_a_rate_is_not_about_do_not_count() -> None:
    assert rate([True, None, False, None, True]) == Proportion(2, 3)
    assert rate([None]) == Proportion(0, 0)


@pytest.mark.parametrize("upper", [0.01, 0.02, 0.1, 0.5])
def test_as_many_rows_as_needed_show_a_rate_and_one_less_does_not(upper: float) -> None:
    enough, less = Proportion(0, needed(upper)).interval, Proportion(0, needed(upper) - 1).interval
    assert enough is not None
    assert less is not None
    assert enough[1] <= upper < less[1]
    assert needed(0.01) == 381


def test_auc_counts_the_pairs_in_order_and_half_of_the_ties() -> None:
    # of six pairs .9 beats three and .4 beats one and ties with one: 4.5 of 6
    assert auc([0.9, 0.4], [0.8, 0.4, 0.1]) == pytest.approx(4.5 / 6)
    assert auc([1.0], [0.0]) == 1.0
    assert auc([0.0], [1.0]) == 0.0
    assert auc([0.5, 0.5], [0.5]) == 0.5


def test_without_both_classes_there_is_no_area_and_no_curve() -> None:
    assert auc([], [0.1]) is None
    assert auc([0.1], []) is None
    assert curve([0.1], []) == []


def test_a_curve_has_a_point_for_each_score_and_ties_stand_together() -> None:
    assert curve([0.9, 0.5], [0.5, 0.1]) == [
        PrecisionRecall(precision=1.0, recall=0.5),
        PrecisionRecall(precision=2 / 3, recall=1.0),
        PrecisionRecall(precision=0.5, recall=1.0),
    ]


def test_b_cubed_of_the_example_of_amigo_and_others() -> None:
    # {a, a, b} and {b}: precision (2/3 + 2/3 + 1/3 + 1) / 4, recall (1 + 1 + 1/2 + 1/2) / 4
    found = b_cubed([("a", 1), ("a", 1), ("b", 1), ("b", 2)])
    assert found is not None
    assert (found.precision, found.recall) == pytest.approx((2 / 3, 3 / 4))
    assert found.f1 == pytest.approx(12 / 17)


def test_b_cubed_of_one_cluster_each_and_of_nothing() -> None:
    assert b_cubed([("a", 1), ("b", 2)]) == BCubed(1.0, 1.0)
    assert b_cubed([]) is None
