"""The log lines of decisions: at which level each is told, and with what."""

from typing import Literal

import pytest
import structlog
from structlog.testing import capture_logs

from schemas.decisions import Change
from streams.model.ports.models import NoAnswer
from streams.store.world.log_lines import DecisionLines
from tests.builders import at_cosine, event, later, unit
from tests.support.stage.deciding import World

GOAT, WHITE = "Ada has a goat.", "Ada has a goat with a white beard."


async def merged() -> list[Change]:
    """Return the decisions on a fact and on one that says more, which no model worded."""
    vectors = {GOAT: unit(1), WHITE: at_cosine(0.93)}
    world = World("two-threshold", vectors, wordings=[NoAnswer("timeout")])
    events = (
        event(text, event_id=f"e{at}", title="Goat", occurred_at=later(at))
        for at, text in enumerate(vectors)
    )
    return [await world.tell(one) for one in events]


CHECKED, FAILED = ("event checked", "debug"), ("merge failed", "warning")
MERGED, BATCH = ("near-duplicate superseded", "info"), ("deduplication check", "debug")


@pytest.mark.covers("S1.39")
@pytest.mark.parametrize(
    ("detail", "lines"),
    [("info", [FAILED, MERGED]), ("debug", [CHECKED, CHECKED, FAILED, MERGED, BATCH])],
)
async def test_each_line_has_its_level_and_titles_only_where_they_are_asked_for(
    detail: Literal["info", "debug"], lines: list[tuple[str, str]]
) -> None:
    decisions = await merged()
    with capture_logs() as told:
        DecisionLines(structlog.stdlib.get_logger(), debug=detail == "debug").decided(decisions)
    assert [(line["event"], line["log_level"]) for line in told] == lines
    assert ("Goat" in f"{told}") == (detail == "debug")
    assert GOAT not in f"{told}"
