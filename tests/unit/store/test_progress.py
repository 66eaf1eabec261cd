"""What is told of work where there is no terminal."""

import re

import pytest

from streams.store.cli.progress import Meter


def test_work_that_is_done_tells_how_much_it_was_and_estimates_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Meter("rows") as meter:
        meter.advance(2, 5)
        meter.advance(4, 5)
    assert re.fullmatch(r"6 rows, [\d,]+/s\n", capsys.readouterr().err)


def test_work_that_fails_is_not_told_as_done(capsys: pytest.CaptureFixture[str]) -> None:
    def broken() -> None:
        with Meter("rows") as meter:
            meter.advance(2, 5)
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        broken()
    assert capsys.readouterr().err == ""
