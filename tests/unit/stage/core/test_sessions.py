"""The counts of a session: what each kind of decision adds to them."""

from typing import Any

import pytest

from schemas.base import Position
from schemas.decisions import (
    Decision,
    Evidence,
    Ignore,
    Insert,
    Merge,
    Reason,
    Reinforce,
    Reject,
    Replace,
)
from schemas.events import Answer, Seen
from schemas.memories import Memory, Superseded, Target
from streams.model.embedding import pack
from streams.stage.core.sessions import SessionCounter, SessionCounts
from streams.stage.core.survivorship import retired
from tests.builders import MODEL, event, identity, later, memory, policy, unit

VECTOR = pack(unit(1), MODEL)
PLACE = Position(topic="memory.events", partition=0, offset=0)
NEW, KNOWN, OTHER = (memory(id=identity(number)) for number in (1, 2, 3))


def made(reason: Reason, **fields: Any) -> dict[str, Any]:
    """Return what all decisions on an event have."""
    common = {"decision_id": "d", "source": PLACE, "policy_id": policy().id, "embedding": VECTOR}
    said = event(session="one", occurred_at=later(1))
    return {**common, "event": said, "evidence": Evidence(reason=reason), "memory": NEW, **fields}


def insert(kept: Memory = NEW, **fields: Any) -> Insert:
    return Insert.model_validate(made(Reason.NOTHING_NEAR, memory=kept, **fields))


def reinforce() -> Reinforce:
    target = Target(memory_id=NEW.id, version=1)
    return Reinforce.model_validate(made(Reason.SAME_FACT, target=target))


def replace(reason: Reason, *targets: Memory, **fields: Any) -> Replace:
    taken = tuple(Target(memory_id=one.id, version=1) for one in targets)
    return Replace.model_validate(made(reason, targets=taken, **fields))


def merge(*targets: Memory) -> Merge:
    taken = tuple(Target(memory_id=one.id, version=1) for one in targets)
    fields = made(Reason.NEARLY_IDENTICAL, targets=taken, event_embedding=VECTOR)
    return Merge.model_validate(fields)


def ignore() -> Ignore:
    fields = made(Reason.SAME_EVENT)
    return Ignore.model_validate({key: fields[key] for key in fields if key in Ignore.model_fields})


def count(*decisions: Decision) -> list[SessionCounts]:
    counted = SessionCounter()
    for decision in decisions:
        counted.add(decision)
    return counted.all()


OUTDATED = retired(NEW, Superseded(by=KNOWN.id, at=later(1), reason="older-contradiction"))


@pytest.mark.covers("S0.71")
@pytest.mark.parametrize(
    ("decision", "told"),
    [
        (insert(), {"memories_added": 1}),
        (insert(OUTDATED), {"memories_added": 1, "supersessions": 1}),
        (reinforce(), {"duplicates_prevented": 1, "metadata_updates": 1}),
        (
            merge(KNOWN, OTHER),
            {"supersessions": 2, "supersessions_from_near_duplicates": 2},
        ),
        (
            replace(Reason.BETTER_THAN_KNOWN, KNOWN),
            {"supersessions": 1, "supersessions_from_near_duplicates": 1},
        ),
        (replace(Reason.NEWER_CONTRADICTION, KNOWN), {"supersessions": 1}),
        (replace(Reason.SUPERSEDES_BY_NAME, KNOWN), {"supersessions": 1}),
        (replace(Reason.SAME_MEMORY_ID, NEW), {}),
    ],
)
def test_what_a_decision_adds(decision: Decision, told: dict[str, int]) -> None:
    [session] = count(decision)
    record = session.as_json()
    counts = {key: value for key, value in record.items() if isinstance(value, int) and value}
    assert counts == {"events": 1, **told}


def test_what_came_again_and_what_is_no_memory_is_passed_over() -> None:
    answer = Answer(
        event_id=event().event_id,
        scope=NEW.scope,
        review_id="r",
        newer=Seen(memory_id=NEW.id, content_key=NEW.content_key),
        older=Seen(memory_id=KNOWN.id, content_key=KNOWN.content_key),
        verdict="refines",
        author="cleo",
        occurred_at=later(1),
    )
    answered = replace(Reason.ANSWERED, NEW, KNOWN, event=answer)
    rejected = Reject(decision_id=answered.decision_id, source=PLACE, dead_letter_id="letter")
    assert count(ignore(), answered, rejected) == []


@pytest.mark.covers("S0.73")
def test_sessions_are_told_apart_and_the_newest_comes_last() -> None:
    two = insert(event=event(session="two", occurred_at=later(0)))
    none = insert(event=event(occurred_at=later(2)))
    found = count(insert(), none, two, two)
    assert [(one.name, one.events) for one in found] == [("two", 2), ("one", 1), (None, 1)]
    assert found[0].as_json() == {
        "timestamp": later(0).isoformat(),
        "event_type": "deduplication_metrics",
        "episode_id": "two",
        "events": 2,
        "memories_added": 2,
        "duplicates_prevented": 0,
        "metadata_updates": 0,
        "supersessions": 0,
        "supersessions_from_near_duplicates": 0,
    }
