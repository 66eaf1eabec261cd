"""Decisions that whoever has published waits for: their own, and of the owner that counts."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from schemas.decisions import Insert, Reject, Revise
from schemas.events import Event, Pin
from schemas.topics import EVENTS
from streams.log.consumer import work
from streams.model.identity import decision_id, memory_id
from streams.store.app.client import Response, is_out_of_date, undecided
from streams.store.app.cluster_client import PublishedEvents, publish
from tests.builders import event, later, policy, unit
from tests.support.stage.bench import Bench, evidence_of

COFFEE, CHESS = "Ana likes coffee.", "Ben plays chess."
FIRST = event(COFFEE, event_id="first")
KNOWN = memory_id(decision_id(FIRST.scope, FIRST.event_id))


def pin(number: int = 0, **fields: object) -> Pin:
    values = {
        "event_id": f"pin {number}",
        "scope": FIRST.scope,
        "author": "cleo",
        "occurred_at": later(1),
        "memory_id": KNOWN,
        "pinned": True,
    }
    return Pin.model_validate({**values, **fields})


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    """Make a log in which one memory is known."""
    made = Bench(tmp_path, policy(), {COFFEE: unit(1), CHESS: unit(0, 0, 1)})
    await made.take_over()
    await made.say(FIRST)
    yield made
    made.close()


async def heard(published: PublishedEvents) -> list[Response]:
    """Return the responses, all of which must be there."""
    assert await published.are_decided()
    assert undecided(published.responses) == []
    return published.responses


async def test_responses_come_in_the_order_of_the_questions(bench: Bench) -> None:
    await bench.publish(event(CHESS, event_id="of somebody else"))
    asked: list[Event] = [pin(1), pin(2, pinned=False), pin(3, memory_id="none")]
    published = await publish(bench.log, asked)
    assert not await published.are_decided()
    assert [one.place for one in undecided(published.responses)] == [
        f"{EVENTS.name}/0/{offset}" for offset in (2, 3, 4)
    ]
    await bench.decide_next(3)
    assert not await published.are_decided()
    assert [one.event for one in undecided(published.responses)] == asked[2:]
    await bench.decide()
    on, off, none = await heard(published)
    assert [one.event for one in (on, off, none)] == asked
    assert isinstance(on.decision, Revise)
    assert on.decision.memories[0].memory.pinned
    assert isinstance(off.decision, Revise)
    assert not off.decision.memories[0].memory.pinned
    assert [is_out_of_date(one.decision) for one in (on, off, none)] == [False, False, True]


async def test_what_was_asked_twice_has_the_decision_that_was_heeded(bench: Bench) -> None:
    await bench.publish(pin())
    published = await publish(bench.log, [pin()])
    await bench.decide()
    assert [evidence_of(one).reason for one in (await bench.decisions())[1:]] == [
        "pinned",
        "same-event",
    ]
    [response] = await heard(published)
    assert response.decision == (await bench.decisions())[1]


async def test_what_an_owner_that_was_fenced_out_decides_is_no_response(bench: Bench) -> None:
    published = await publish(bench.log, [event(CHESS)])
    [record] = await bench.log.read(EVENTS.name, 0, 1, 10)
    late = bench.owner
    handled = await late.handle(0, [record])
    await bench.take_over()
    await bench.log.append(handled.outgoing)
    assert not await published.are_decided()
    await work(bench.owner, bench.log, [record])
    [response] = await heard(published)
    assert isinstance(response.decision, Insert)


async def test_a_request_that_was_set_aside_is_not_waited_for(bench: Bench) -> None:
    """The same id for something else is poison: its marker names no event."""
    await bench.say(pin())
    published = await publish(bench.log, [pin(memory_id="another")])
    await bench.decide()
    [response] = await heard(published)
    assert isinstance(response.decision, Reject)


async def test_nothing_published_is_decided_at_once(bench: Bench) -> None:
    assert await heard(await publish(bench.log, [])) == []
