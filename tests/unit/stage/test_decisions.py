"""Which records of the decisions topic count, and how everyone comes to the same answer."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from schemas.base import ModelId, Position
from schemas.codec import DECISION
from schemas.decisions import Decision, Fence
from schemas.topics import DECISIONS
from streams.log.local_broker import LocalBroker
from streams.model.embedding import pack
from streams.model.fences import Epoch, ReadPosition
from streams.model.ports.failures import Fatal
from streams.model.ports.log import LogRecord, OutgoingRecord
from streams.stage.core.case import Case, EncodedVector
from streams.stage.core.decide import add, forward
from streams.stage.flow.decisions import (
    EPOCH_HEADER,
    FENCE_HEADER,
    INDEXED,
    CountedDecision,
    DecisionsReader,
    Fences,
    LoggedFence,
    UncountedReason,
    UncountedRecord,
    decision_record,
    epoch_at,
    fence_record,
)
from streams.stage.flow.takeover import require_model
from tests.builders import event, policy, unit


def made(source: int) -> Decision:
    """Return a decision on an event's record; which one does not matter here."""
    return forward(Position(topic="memory.events", partition=0, offset=source), event(), 1)


def decided(source: int, epoch: Epoch) -> OutgoingRecord:
    decision = made(source)
    return decision_record(decision, DECISION.encode(decision), 0, epoch)


def logged(*records: OutgoingRecord) -> list[LogRecord]:
    return [
        LogRecord(DECISIONS.name, 0, offset, one.key, one.value, one.headers)
        for offset, one in enumerate(records)
    ]


def accepted(records: Sequence[LogRecord], reached: ReadPosition | None = None) -> list[int]:
    reader = DecisionsReader() if reached is None else DecisionsReader(reached)
    return [one.decision.source.offset for one in reader.window(records)]


ANA, BEN = Epoch(0, "ana"), Epoch(2, "ben")
STREAM = logged(
    fence_record("ana", 0, 1),
    decided(0, ANA),
    fence_record("ben", 0, 1),
    decided(1, ANA),  # late
    decided(1, BEN),
    decided(2, ANA),  # later still
    decided(2, BEN),
)


def test_only_the_owner_that_fenced_last_is_believed() -> None:
    reader = DecisionsReader()
    kinds = [type(reader.sort(record)) for record in STREAM]
    assert kinds == [
        LoggedFence,
        CountedDecision,
        LoggedFence,
        UncountedRecord,
        CountedDecision,
        UncountedRecord,
        CountedDecision,
    ]
    assert reader.refused == 2
    assert reader.reached == ReadPosition(7, BEN, 3)


@pytest.mark.parametrize("cut", range(len(STREAM) + 1))
def test_a_reader_that_goes_on_sees_what_one_that_never_stopped_sees(cut: int) -> None:
    first = DecisionsReader()
    before = first.window(STREAM[:cut])
    after = DecisionsReader(first.reached).window(STREAM[cut:])
    assert before + after == DecisionsReader().window(STREAM)


def test_a_record_that_names_no_epoch_is_nobodys() -> None:
    foreign = OutgoingRecord(DECISIONS.name, 0, None, b"hello")
    for header in ((), ((EPOCH_HEADER, None),), ((EPOCH_HEADER, b"\xff/x"),), (("who", b"x"),)):
        reader = DecisionsReader(ReadPosition(1, ANA, 0))
        [record] = logged(OutgoingRecord(DECISIONS.name, 0, None, b"hello", header))
        assert isinstance(reader.sort(record), UncountedRecord)
    [_, record] = logged(fence_record("ana", 0, 1), foreign)
    reader = DecisionsReader(ReadPosition(1, ANA, 0))
    refused = reader.sort(record)
    assert isinstance(refused, UncountedRecord)
    assert refused.why is UncountedReason.FOREIGN


def test_an_epoch_of_the_same_offset_and_another_token_is_another() -> None:
    """A log that was restored from an older copy gives an offset twice."""
    records = logged(fence_record("ben", 0, 1), decided(0, Epoch(0, "ana")))
    assert accepted(records) == []


def test_the_first_decision_on_a_record_counts() -> None:
    records = logged(fence_record("ana", 0, 1), decided(0, ANA), decided(0, ANA), decided(1, ANA))
    assert accepted(records) == [0, 1]


def test_nothing_counts_before_a_fence() -> None:
    assert accepted(logged(decided(0, ANA))) == []


TOKENLESS = fence_record("ana", 0, 1)
UNREADABLE_FENCES = {
    "another token than its header's": OutgoingRecord(
        DECISIONS.name, 0, None, TOKENLESS.value, ((FENCE_HEADER, b"ben"),)
    ),
    "no token": OutgoingRecord(DECISIONS.name, 0, None, TOKENLESS.value, ((FENCE_HEADER, None),)),
    "no fence inside": OutgoingRecord(
        DECISIONS.name, 0, None, DECISION.encode(made(0)), TOKENLESS.headers
    ),
    "no owner": OutgoingRecord(
        DECISIONS.name,
        0,
        None,
        DECISION.encode(Fence(owner="ana", partition=0, partitions=1)).replace(b'"owner"', b'"o"'),
        TOKENLESS.headers,
    ),
    "cut": OutgoingRecord(DECISIONS.name, 0, None, TOKENLESS.value[:20], TOKENLESS.headers),
}


@pytest.mark.parametrize("fence", UNREADABLE_FENCES.values(), ids=UNREADABLE_FENCES.keys())
def test_a_fence_that_cannot_be_told_stops_every_reader(fence: OutgoingRecord) -> None:
    [record] = logged(fence)
    with pytest.raises(Fatal, match=r"memory\.decisions/0/0 is a fence .*cannot be told"):
        DecisionsReader().sort(record)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (DECISION.encode(made(0))[:50], "not JSON"),
        (b"", "empty"),
        (DECISION.encode(made(0)).replace(b"forward", b"teleport"), "kind is 'teleport'"),
        (DECISION.encode(made(0)).replace(b'n":1', b'n":99'), "is newer than 1"),
        (TOKENLESS.value, "is a fence and says it is a decision"),
    ],
)
def test_a_decision_that_counts_and_cannot_be_read_stops_every_reader(
    value: bytes, said: str
) -> None:
    broken = OutgoingRecord(DECISIONS.name, 0, None, value, decided(0, ANA).headers)
    _, record = logged(fence_record("ana", 0, 1), broken)
    with pytest.raises(Fatal, match=r"memory\.decisions/0/1") as raised:
        DecisionsReader(ReadPosition(1, ANA, 0)).sort(record)
    assert said in str(raised.value)


def test_nothing_is_read_of_what_does_not_count() -> None:
    stale = OutgoingRecord(DECISIONS.name, 0, None, b"\xff", decided(0, ANA).headers)
    assert accepted(logged(fence_record("ben", 0, 1), stale)) == []


def test_records_picked_out_of_a_log_count_as_they_do_in_their_order() -> None:
    fences = Fences([record for record in STREAM if FENCE_HEADER in dict(record.headers)])
    counting = {one.position.offset for one in DecisionsReader().window(STREAM)}
    assert {r.offset for r in STREAM if fences.admit(r)} == counting


@pytest.mark.parametrize(("offset", "epoch"), [(0, None), (1, ANA), (2, ANA), (3, BEN), (7, BEN)])
async def test_the_fence_that_holds_somewhere_can_be_looked_up(
    offset: int, epoch: Epoch | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.stage.flow.decisions.PAGE", 2)
    log = LocalBroker(tmp_path / "log.sqlite3", indexed=INDEXED)
    log.create(DECISIONS.name, 1)
    await log.append(
        [OutgoingRecord(DECISIONS.name, 0, r.key, r.value or b"", r.headers) for r in STREAM]
    )
    assert await epoch_at(log, 0, offset) == epoch
    log.close()


async def test_a_log_with_another_models_vectors_is_refused() -> None:
    log = LocalBroker(indexed=INDEXED)
    log.create(DECISIONS.name, 2)
    await require_model(log, ModelId("one"))
    await log.append([fence_record("ana", 1, 2), *(inserted(n, ModelId("one")) for n in range(3))])
    await log.append([replace(decided(3, Epoch(0, "ana")), partition=1)])
    await require_model(log, ModelId("one"))
    with pytest.raises(
        Fatal, match=r"decisions/1 holds vectors of one, and this process makes .*two"
    ):
        await require_model(log, ModelId("two"))


def inserted(number: int, model: ModelId) -> OutgoingRecord:
    source = Position(topic="memory.events", partition=1, offset=number)
    said = event(event_id=f"event-{number}")
    decision = add(
        Case(said, source, policy()), EncodedVector(unit(1), pack(unit(1), model), truncated=False)
    )
    return decision_record(decision, DECISION.encode(decision), 1, Epoch(0, "ana"))
