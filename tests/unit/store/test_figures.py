"""The figures of a run: counts by session, and what deciding took on average."""

import pytest

from streams.store.core.figures import Figures
from tests.builders import at_cosine, event, later, unit
from tests.support.stage.deciding import World

DOOR, AGAIN = "The trap door bars after the descent.", "Trap door bars after descent."


@pytest.mark.covers("S0.71", "S0.72", "S0.73")
async def test_what_a_batch_took_is_shared_by_its_events_session_by_session() -> None:
    world = World("zork-semantic", {DOOR: unit(1), AGAIN: at_cosine(0.96)})
    figures = Figures()
    sessions = ((DOOR, "one", 0.030), (AGAIN, "one", 0.010), (DOOR.upper(), "two", 0.005))
    for at, (text, session, seconds) in enumerate(sessions):
        said = event(text, event_id=f"e{at}", session=session, occurred_at=later(at))
        figures.took(seconds)
        figures.decided(await world.hear(said))
    figures.failed()
    figures.rebuilt(7, 1.234)
    told = figures.as_json(indexed=9)
    one, two = told.pop("sessions")
    assert told == {
        "duplicates_prevented": 2,
        "metadata_updates": 2,
        "supersessions_from_near_duplicates": 0,
        "avg_deduplication_time_ms": 15.0,
        "embedding_cache_size": 9,
        "embedding_cache_rebuild_count": 1,
        "embedding_cache_rebuild_seconds": 1.23,
        "deduplication_error_count": 1,
    }
    assert (one["episode_id"], one["avg_check_time_ms"]) == ("one", 20.0)
    assert (two["episode_id"], two["avg_check_time_ms"]) == ("two", 5.0)
    assert {one["event_type"], two["event_type"]} == {"deduplication_metrics"}


def test_where_nothing_was_decided_there_is_no_average() -> None:
    told = Figures().as_json(indexed=0)
    assert (told["avg_deduplication_time_ms"], told["sessions"]) == (None, [])
