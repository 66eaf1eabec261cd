import pytest
from pydantic import ValidationError

from schemas.decisions import Band
from streams.model.bands import Bands

BANDS = Bands(match=0.95, review=0.85, log=0.75)


@pytest.mark.covers("S0.12", "S1.7", "B8")
@pytest.mark.parametrize(
    ("similarity", "band"),
    [
        (1.0, Band.MATCH),
        (0.95, Band.MATCH),
        (0.94999, Band.REVIEW),
        (0.85, Band.REVIEW),
        (0.84999, Band.LOG),
        (0.75, Band.LOG),
        (0.74999, Band.NONE),
        (0.0, Band.NONE),
        (-1.0, Band.NONE),
    ],
)
def test_lower_bounds_are_inclusive(similarity: float, band: Band) -> None:
    assert BANDS.of(similarity) is band


def test_the_ends_of_the_range_are_bounds() -> None:
    bands = Bands(match=1.0, review=0.0, log=0.0)
    assert [bands.of(1.0), bands.of(0.0), bands.of(-0.00001)] == [
        Band.MATCH,
        Band.REVIEW,
        Band.NONE,
    ]


def test_equal_bounds_leave_no_band_between() -> None:
    bands = Bands(match=0.9, review=0.9, log=0.9)
    assert [bands.of(0.9), bands.of(0.89999)] == [Band.MATCH, Band.NONE]


@pytest.mark.covers("B109", "D32")
@pytest.mark.parametrize(
    ("match", "review", "log"), [(0.8, 0.9, 0.7), (0.9, 0.7, 0.8), (0.7, 0.8, 0.9)]
)
def test_bounds_that_do_not_fall_are_refused(match: float, review: float, log: float) -> None:
    with pytest.raises(ValidationError, match="bands must fall"):
        Bands(match=match, review=review, log=log)


@pytest.mark.covers("B108", "S0.22", "S1.26", "S1.27")
@pytest.mark.parametrize(
    ("match", "review", "log"),
    [
        (1.1, 0.9, 0.8),
        (1.00001, 0.9, 0.8),
        (0.9, -0.5, -0.5),
        (-0.5, -0.5, -0.5),
        (0.9, 0.8, -0.00001),
        (float("nan"), 0.8, 0.7),
        (float("inf"), 0.8, 0.7),
    ],
)
def test_bounds_outside_of_0_to_1_are_refused(match: float, review: float, log: float) -> None:
    with pytest.raises(ValidationError):
        Bands(match=match, review=review, log=log)
