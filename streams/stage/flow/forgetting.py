"""Requests to forget: how a partition's owner checks them, and what its writer erases for them."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from schemas.base import Position
from schemas.codec import DECISION, Unreadable
from schemas.decisions import Change, Decision, Erase, Fence, Marker, OnEvent
from schemas.events import Forget, Remember
from schemas.topics import DECISIONS, EVENTS
from streams.model.identity import decision_id, memory_id, republished_id
from streams.model.ports.log import Log, LogRecord, pages
from streams.model.screening import was_screened
from streams.stage.core.tombstones import TombstoneKey, without
from streams.stage.flow.decisions import CountedDecision

_GAP_MAX = 64
"""The largest gap between two wanted records that is read through: cheaper than another request."""


@dataclass(frozen=True)
class RequestedErasure:
    """What a request to forget asks to be erased, as found in the log.

    `fits`: all of it is in the request's scope, and everything to be republished is there. `again`
    holds the events to republish, without the forgotten sentences: they are published before the
    decision, so that no crash can lose them.
    """

    fits: bool
    again: tuple[Remember, ...]


NOTHING = RequestedErasure(fits=True, again=())


async def looked_at(
    log: Log, partition: int, request: Forget, key: TombstoneKey
) -> RequestedErasure:
    """Read what a request to forget asks to be erased; `key` excuses what is republished."""
    wanted = {one.decision: one for one in request.erased}
    gone = {p for m in request.memories if m.tombstone for p in m.tombstone.fingerprints}
    again: dict[int, Remember] = {}
    renamed: dict[str, str] = {}
    said = set[int]()
    own = decision_id(request.scope, request.event_id)
    async for record in _at(log, partition, sorted(wanted)):
        decision = _decision(record)
        erasure = wanted[record.offset]
        if decision is None or decision.event.scope != request.scope:
            return RequestedErasure(fits=False, again=())
        if decision.source.offset != erasure.event:
            return RequestedErasure(fits=False, again=())
        if erasure.again and isinstance(decision.event, Remember):
            said.add(record.offset)
            text = without(
                decision.event.text, lambda one: key.fingerprint(request.scope, one) in gone
            )
            if not text:
                continue
            base = republished_id(own, decision.decision_id)
            fresh = key.excused(base, request.scope, text)
            update = {"event_id": fresh, "text": text}
            again[record.offset] = decision.event.model_copy(update=update)
            if isinstance(decision, Change):
                renamed[decision.memory.id] = memory_id(decision_id(request.scope, fresh))
    complete = all(one.decision in said for one in request.erased if one.again)
    return RequestedErasure(
        complete, tuple(_renaming(again[offset], renamed) for offset in sorted(again))
    )


def _renaming(event: Remember, renamed: Mapping[str, str]) -> Remember:
    """Replace the ids of superseded memories in an event with their new ids."""
    names = tuple(renamed.get(name, name) for name in event.supersedes)
    return event.model_copy(update={"supersedes": names})


def erased(window: Sequence[CountedDecision]) -> list[Position]:
    """Return the records of a partition that the decisions of a window erase."""
    gone: list[Position] = []
    for logged in window:
        decision, partition = logged.decision, logged.position.partition
        if was_screened(decision):
            gone.append(decision.source)
        elif isinstance(decision, Erase):
            for one in decision.erased:
                gone.append(_place(DECISIONS.name, partition, one.decision))
                if not one.event_stays:
                    gone.append(_place(EVENTS.name, partition, one.event))
    return gone


async def erase(log: Log, gone: Sequence[Position]) -> None:
    """Erase records from the log, topic by topic."""
    places = dict.fromkeys((one.topic, one.partition) for one in gone)
    for topic, partition in places:
        offsets = [one.offset for one in gone if (one.topic, one.partition) == (topic, partition)]
        await log.erase(topic, partition, offsets)


def _place(topic: str, partition: int, offset: int) -> Position:
    return Position(topic=topic, partition=partition, offset=offset)


def _decision(record: LogRecord) -> OnEvent | None:
    """Read a decision on an event; None if the record holds none."""
    try:
        found: Decision | Fence = DECISION.decode(record.value or b"")
    except Unreadable:
        return None
    return None if isinstance(found, Fence | Marker) else found


async def _at(log: Log, partition: int, offsets: Sequence[int]) -> AsyncIterator[LogRecord]:
    """Yield the decisions at ascending offsets that still exist."""
    wanted = set(offsets)
    for first, last in _runs(offsets):
        async for records in pages(log, DECISIONS.name, partition, first, last + 1):
            for record in records:
                if record.offset in wanted and record.value is not None:
                    yield record


def _runs(offsets: Sequence[int]) -> list[tuple[int, int]]:
    """Return the ranges to read for ascending offsets."""
    runs: list[tuple[int, int]] = []
    for offset in offsets:
        if runs and offset - runs[-1][1] <= _GAP_MAX:
            runs[-1] = (runs[-1][0], offset)
        else:
            runs.append((offset, offset))
    return runs
