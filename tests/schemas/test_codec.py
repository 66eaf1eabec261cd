"""Bytes to models and back: what goes out comes in again, and hostile bytes are named."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from schemas.base import SCOPE_MAX, TEXT_MAX, DecisionId, MemoryId, Position, Record
from schemas.codec import APPLIED, DEAD_LETTER, DECISION, EVENT, Codec, Lift, Unreadable
from schemas.decisions import (
    Band,
    Compared,
    Composition,
    Evidence,
    Fence,
    Ignore,
    Insert,
    Merge,
    Reason,
    Reinforce,
    Reject,
    Replace,
    Verdict,
)
from schemas.memories import Memory, Persistence, Side, Standing, Superseded, Target, Turns
from schemas.outcomes import Applied, DeadLetter, Settled, Stage
from streams.model.embedding import pack
from streams.stage.core import survivorship
from streams.stage.core.survivorship import seen_again
from tests.builders import MODEL, at_cosine, event, identity, later, memory, unit

PRIVATE = "Ana hides the spare key under the blue pot"
"""The memory's text in every hostile record: no message may repeat it."""

FULL_EVENT = event(
    "Ana moved to Zürich — “for good”.\nShe says 你好 🧀",
    event_id="event 12",
    memory_id="home of ana",
    category="place",
    importance=0.1 + 0.2,
    confidence=1.0,
    tags=["home", "city"],
    entities=["Ana", "Zürich"],
    persistence=Persistence.PERMANENT,
    status="tentative",
    source="user",
    turn=12,
    session="s-7",
    metadata={"list": [1, 1.5, None, True, {"x": "\x01"}], "number": -(2**62), "empty": {}},
)
FULL_MEMORY = memory(
    "Ana moved to Zürich.",
    version=3,
    persistence=Persistence.CORE,
    category="place",
    importance=0.7,
    tags=["home"],
    sources=["user", "import"],
    sessions=["s-1", "s-7"],
    turns=Turns(first=3, last=12),
    metadata={"from": ["a", 1]},
    observation_count=4,
    last_seen_at=later(30),
    truncated=True,
    merged_from=[identity(8), identity(9)],
    kept_apart=[Side(undo=DecisionId("5d0c"), side=MemoryId(identity(7)))],
)
RETIRED = memory(
    "Ana lives in Paris.",
    id=identity(2),
    status=Standing.SUPERSEDED,
    superseded=Superseded(by=FULL_MEMORY.id, at=later(1), reason="newer-contradiction"),
)
EVIDENCE = Evidence(
    reason=Reason.ADDS_TO_KNOWN,
    neighbours=(
        Compared(
            memory_id=RETIRED.id,
            version=2,
            similarity=-0.12345,
            band=Band.REVIEW,
            verdict=Verdict.REFINES,
            judge="rules",
        ),
    ),
    truncated=True,
    degraded=("cross-encoder",),
    merge=Composition(sentences=("A.", "B."), origins=(RETIRED.id, FULL_EVENT.event_id)),
)
SOURCE = Position(topic="memory.events", partition=3, offset=2**40)
DECIDED: Mapping[str, Any] = {
    "decision_id": "3f0e8f1e-7d4e-5b8b-9f0e-0c2f4c1a9d11",
    "event": FULL_EVENT,
    "source": SOURCE,
    "policy_id": "default@1f2e",
    "evidence": EVIDENCE,
}
CHANGED: Mapping[str, Any] = {
    **DECIDED,
    "memory": FULL_MEMORY,
    "embedding": pack(unit(1, 2, 3), MODEL),
}
TARGETS = (Target(memory_id=RETIRED.id, version=1), Target(memory_id=FULL_MEMORY.id, version=2))

RECORDS: list[tuple[Codec[Any], BaseModel]] = [
    (EVENT, event()),
    (EVENT, FULL_EVENT),
    (DECISION, Insert(**CHANGED)),
    (DECISION, Replace(**CHANGED, targets=TARGETS)),
    (DECISION, Merge(**CHANGED, event_embedding=pack(at_cosine(0.9), MODEL), targets=TARGETS)),
    (DECISION, Reinforce(**CHANGED, target=TARGETS[0])),
    (DECISION, Reinforce(**DECIDED, memory=FULL_MEMORY, target=TARGETS[0])),
    (DECISION, Ignore(**DECIDED)),
    (DECISION, Reject(decision_id=DecisionId("d"), source=SOURCE, dead_letter_id="l")),
    (DECISION, Fence(partitions=6, owner="host-1 pid 7", partition=0)),
    (
        APPLIED,
        Applied(memory_id=RETIRED.id, memory=RETIRED, decision_id=DecisionId("d"), decided=SOURCE),
    ),
    (
        DEAD_LETTER,
        DeadLetter(
            id="l",
            stage=Stage.DECODE,
            field="text",
            error="text is missing; add it",
            attempts=2,
            origin="chat.jsonl:7",
            position=SOURCE,
            key="acme/ana",
            value="e30=",
            value_size=2,
            headers=(("trace", "abc"), ("empty", None)),
        ),
    ),
    (DEAD_LETTER, DeadLetter(id="l", stage=Stage.READ, error="e", value="", value_size=0)),
    (DEAD_LETTER, Settled(dead_letter_id="l", how="requeued", attempts=2)),
]


@pytest.mark.covers("B118")
@pytest.mark.parametrize(
    ("codec", "record"), RECORDS, ids=[type(record).__name__ for _, record in RECORDS]
)
def test_every_kind_comes_back_as_it_was(codec: Codec[Any], record: BaseModel) -> None:
    data = codec.encode(record)
    again = codec.decode(data)
    assert again == record
    assert type(again) is type(record)
    assert codec.encode(again) == data


def test_the_wire_is_plain_json_that_names_kind_and_version() -> None:
    for codec, record in RECORDS:
        payload = json.loads(codec.encode(record))
        assert payload["schema_version"] == 1
        assert payload["kind"] == record.model_dump()["kind"]


def test_times_travel_in_utc() -> None:
    data = as_json(occurred_at="2026-03-01T09:00:00.123456+05:30")
    assert json.loads(EVENT.encode(EVENT.decode(data)))["occurred_at"] == (
        "2026-03-01T03:30:00.123456Z"
    )


BASE: Mapping[str, Any] = {
    "kind": "remember",
    "schema_version": 1,
    "event_id": "event 1",
    "scope": "acme/ana",
    "text": PRIVATE,
    "occurred_at": "2026-03-01T09:00:00Z",
}


def as_json(**fields: object) -> bytes:
    return json.dumps({**BASE, **fields}).encode()


def without(field: str) -> bytes:
    return json.dumps({name: value for name, value in BASE.items() if name != field}).encode()


def raw(field: str, value: str) -> bytes:
    """Write a field's value as it stands, valid JSON or not."""
    return json.dumps(BASE).encode()[:-1] + f', "{field}": {value}}}'.encode()


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


NOT_A_RECORD: Mapping[str, bytes] = {
    "empty": b"",
    "white space": b" \n",
    "no JSON": PRIVATE.encode(),
    "half a record": as_json()[:-20],
    "two records": as_json() + as_json(),
    "array": b"[" + as_json() + b"]",
    "string": json.dumps(PRIVATE).encode(),
    "number": b"42",
    "null": b"null",
    "broken UTF-8": as_json().replace(b"hides", b"hid\xff\xfe"),
    "UTF-16": as_json().decode().encode("utf-16"),
    "lone surrogate": as_json(text=PRIVATE + "\ud800"),
    "NaN": raw("importance", "NaN"),
    "NaN inside": raw("metadata", '{"a": [NaN]}'),
    "Infinity": raw("importance", "-Infinity"),
    "deep": b"[" * 10_000,
    "deep inside": raw("metadata", f'{{"a": {nested(10_000)}}}'),
    "a number without end": raw("turn", "9" * 100_000),
}

EMPTY: dict[str, object] = {}

WRONG_FIELD: list[tuple[str, bytes]] = [
    ("kind", without("kind")),
    ("kind", as_json(kind="imagine")),
    ("kind", as_json(kind="Remember")),
    ("kind", as_json(kind=PRIVATE)),
    ("kind", as_json(kind="a\nb")),
    ("kind", as_json(kind=None)),
    ("kind", as_json(kind=["remember"])),
    ("schema_version", without("schema_version")),
    ("schema_version", as_json(schema_version=2)),
    ("schema_version", as_json(schema_version=10**40)),
    ("schema_version", as_json(schema_version=0)),
    ("schema_version", as_json(schema_version=-1)),
    ("schema_version", as_json(schema_version="1")),
    ("schema_version", as_json(schema_version=1.0)),
    ("schema_version", as_json(schema_version=True)),
    ("schema_version", as_json(schema_version=None)),
    *((name, without(name)) for name in ("event_id", "scope", "text", "occurred_at")),
    *(
        (name, as_json(**{name: value}))
        for name in ("event_id", "scope", "text", "occurred_at")
        for value in (None, True, 7, 1.5, EMPTY, [PRIVATE])
    ),
    ("text", as_json(text="")),
    ("text", as_json(text=" \n\t\u2003")),
    ("text", as_json(text=f"{PRIVATE}\0")),
    ("text", as_json(text="x" * (TEXT_MAX + 1))),
    ("text", as_json(text=PRIVATE * 120_000)),  # 5 MB
    ("scope", as_json(scope="*")),
    ("scope", as_json(scope="acme/*")),
    ("scope", as_json(scope="acme/an?")),
    ("scope", as_json(scope="")),
    ("scope", as_json(scope=" ")),
    ("scope", as_json(scope="/acme")),
    ("scope", as_json(scope="acme/")),
    ("scope", as_json(scope="acme//ana")),
    ("scope", as_json(scope="acme/ ana")),
    ("scope", as_json(scope="acme/../other")),
    ("scope", as_json(scope="acme/./ana")),
    ("scope", as_json(scope="acme\nana")),
    ("scope", as_json(scope="acme/a\u0308")),
    ("scope", as_json(scope="a" * (SCOPE_MAX + 1))),
    ("scope", as_json(scope="ä" * (SCOPE_MAX // 2 + 1))),
    ("event_id", as_json(event_id="")),
    ("event_id", as_json(event_id="  ")),
    ("event_id", as_json(event_id="e" * 201)),
    ("event_id", as_json(event_id="e\x1b[31m")),
    ("occurred_at", as_json(occurred_at="2026-03-01T09:00:00")),
    ("occurred_at", as_json(occurred_at="2026-03-01")),
    ("occurred_at", as_json(occurred_at="yesterday")),
    ("occurred_at", as_json(occurred_at="1732000000")),
    ("occurred_at", as_json(occurred_at="2026-02-30T09:00:00Z")),
    ("category", as_json(category="a\nb")),
    ("category", as_json(category="a\u2028b")),
    ("category", as_json(category="")),
    ("category", as_json(category="c" * 201)),
    ("tags", as_json(tags="tea")),
    ("tags", as_json(tags=["tea"] * 65)),
    ("tags.1", as_json(tags=["tea", "\t"])),
    ("tags.0", as_json(tags=[7])),
    ("importance", as_json(importance=1.01)),
    ("importance", as_json(importance=-0.01)),
    ("importance", as_json(importance="0.5")),
    ("importance", raw("importance", "1e999")),
    ("turn", as_json(turn=-1)),
    ("turn", as_json(turn=1.5)),
    ("status", as_json(status="superseded")),
    ("persistence", as_json(persistence=PRIVATE)),
    ("metadata", as_json(metadata=[PRIVATE])),
    ("metadata", as_json(metadata={str(n): n for n in range(257)})),
    ("colour", as_json(colour=PRIVATE)),
    ("Text", as_json(Text=PRIVATE)),
]

AWKWARD = [
    ("occurred_at", as_json(occurred_at="0001-01-01T00:00:00+05:00")),
    ("occurred_at", as_json(occurred_at="9999-12-31T23:59:59-05:00")),
    ("metadata", raw("metadata", '{"a": 1e999}')),
    ("schema_version", as_json(schema_version=10**4_000)),
    ("a", as_json(**{"a\nb": 1})),
    ("metadata", as_json(metadata={"a\nb": 1})),
    ("metadata", as_json(metadata={"a": [{"b": "tea\x00"}]})),
    ("metadata", as_json(metadata={"a": {"b\x00": 1}})),
    ("metadata", as_json(metadata={PRIVATE * 5: 1})),
]


def refusal(codec: Codec[Any], data: bytes) -> Unreadable:
    """Expect one short line that does not repeat the memory."""
    with pytest.raises(Unreadable) as refused:
        codec.decode(data)
    message = str(refused.value)
    assert message == message.strip()
    assert message.isprintable()
    assert len(message) < 1_500
    assert PRIVATE not in message
    return refused.value


@pytest.mark.parametrize("data", NOT_A_RECORD.values(), ids=list(NOT_A_RECORD))
def test_what_is_no_record_is_refused(data: bytes) -> None:
    assert refusal(EVENT, data).field is None


@pytest.mark.parametrize(
    ("field", "data"), [*WRONG_FIELD, *AWKWARD], ids=lambda value: str(value)[-70:]
)
def test_names_the_field_that_is_wrong(field: str, data: bytes) -> None:
    error = refusal(EVENT, data)
    assert error.field is not None
    assert error.field.startswith(field)
    assert field in str(error)


@pytest.mark.covers("B57", "D26")
@pytest.mark.parametrize(
    "data",
    [without("scope"), *(as_json(scope=scope) for scope in (None, "", "*", "acme/*", "/", "all/"))],
    ids=["missing", "null", "empty", "wildcard", "part", "slash", "trailing"],
)
def test_no_scope_is_never_every_scope(data: bytes) -> None:
    """An event that does not say where it belongs is refused, whatever stands in the field."""
    assert refusal(EVENT, data).field == "scope"


@pytest.mark.covers("B28")
@pytest.mark.parametrize("text", ["", " ", "\n\t", "\u3000\u2003"])
def test_a_blank_text_is_refused(text: str) -> None:
    error = refusal(EVENT, as_json(text=text))
    assert error.field == "text"
    assert str(error) == "text is empty or only white space; say what is meant"


def test_tells_every_fault_and_what_to_do_about_it() -> None:
    data = as_json(scope="acme/*", text=None, importance=3, colour="red", turn=-1, status=1, tags=1)
    assert str(refusal(EVENT, data)) == (
        "scope holds the wildcard *; name one exact scope; "
        "text should be a valid string, but it is a JSON null; "
        "importance should be less than or equal to 1, but it is 3; "
        "tags should be a list, but it is 1; "
        "status should be 'active' or 'tentative', but it is 1; "
        "and 2 more"
    )


@pytest.mark.parametrize("field", ["text", "scope", "category", "event_id"])
def test_the_longest_that_is_allowed_is_read(field: str) -> None:
    longest = {"text": TEXT_MAX, "scope": SCOPE_MAX, "category": 200, "event_id": 200}
    decoded = EVENT.decode(as_json(**{field: "x" * longest[field]}))
    assert getattr(decoded, field) == "x" * longest[field]


def test_a_topic_reads_its_own_kinds_only() -> None:
    for codec, record in RECORDS:
        for other in (EVENT, DECISION, APPLIED, DEAD_LETTER):
            if other is not codec:
                assert refusal(other, codec.encode(record)).field == "kind"


def edited(record: BaseModel, **fields: object) -> bytes:
    return json.dumps({**record.model_dump(mode="json"), **fields}).encode()


INSERT = Insert(**CHANGED)
VECTOR = INSERT.embedding.model_dump(mode="json")
KNOWN, GONE = FULL_MEMORY.model_dump(mode="json"), RETIRED.model_dump(mode="json")


@pytest.mark.parametrize(
    ("field", "data"),
    [
        ("embedding", edited(INSERT, embedding={**VECTOR, "values": "not base64!"})),
        ("embedding", edited(INSERT, embedding={**VECTOR, "values": VECTOR["values"][:-4]})),
        ("embedding.dimension", edited(INSERT, embedding={**VECTOR, "dimension": 0})),
        ("memory.version", edited(INSERT, memory={**KNOWN, "version": 0})),
        ("memory", edited(INSERT, memory={**KNOWN, "status": "superseded"})),
        ("memory", edited(INSERT, memory={**GONE, "id": GONE["superseded"]["by"]})),
        ("event.text", edited(INSERT, event={**BASE, "text": "\0"})),
        ("evidence.reason", edited(INSERT, evidence={"reason": "because"})),
        ("targets", edited(Replace(**CHANGED, targets=TARGETS), targets=[])),
        ("partition", edited(Fence(partitions=6, owner="o", partition=0), partition=-1)),
    ],
    ids=lambda value: str(value)[:30],
)
def test_names_what_is_wrong_inside_a_decision(field: str, data: bytes) -> None:
    error = refusal(DECISION, data)
    assert error.field is not None
    assert error.field.startswith(field)


@pytest.mark.parametrize("value", ["e30", "{}", "ä", "e30=\n"])
def test_a_dead_letter_whose_bytes_cannot_be_had_is_refused(value: str) -> None:
    letter = DeadLetter(id="l", stage=Stage.READ, error="e", value="", value_size=0)
    assert str(refusal(DEAD_LETTER, edited(letter, value=value))) == "value is not base64"


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4)
    ),
    max_leaves=10,
)
NAMES = st.sampled_from(sorted(type(FULL_EVENT).model_fields)) | st.text(max_size=10)


def decode_or_refuse(data: bytes) -> None:
    try:
        record = EVENT.decode(data)
    except Unreadable:
        return
    assert EVENT.decode(EVENT.encode(record)) == record


@given(data=st.binary(max_size=200))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    decode_or_refuse(data)


@given(value=JSON_VALUES)
def test_no_json_raises_anything_else(value: object) -> None:
    decode_or_refuse(json.dumps(value).encode("utf-8", "surrogatepass"))


@given(fields=st.dictionaries(NAMES, JSON_VALUES, max_size=3))
def test_no_field_of_an_event_raises_anything_else(fields: dict[str, object]) -> None:
    decode_or_refuse(as_json(**fields))


@given(at=st.integers(0, len(as_json()) - 1), byte=st.integers(0, 255))
def test_no_broken_byte_raises_anything_else(at: int, byte: int) -> None:
    data = bytearray(as_json())
    data[at] = byte
    decode_or_refuse(bytes(data))


def test_what_was_read_can_be_decided_on() -> None:
    """The decision carries the event one level further down; it must be readable too."""
    decoded = EVENT.decode(raw("metadata", f'{{"a": {nested(31)}}}'))
    decision = Ignore(**DECIDED).model_copy(update={"event": decoded})
    assert DECISION.decode(DECISION.encode(decision)) == decision


def test_a_memory_may_know_more_than_one_event_can_say() -> None:
    known = memory(metadata={f"first {n}": n for n in range(40)})
    again = event(metadata={f"second {n}": n for n in range(40)})
    decision = Reinforce(**DECIDED, memory=seen_again(known, again), target=TARGETS[0])
    assert DECISION.decode(DECISION.encode(decision)) == decision


class Note(Record):
    """A kind that has been through two changes: `body` was `message`, `words` was not there."""

    kind: Literal["note"] = "note"
    schema_version: Literal[3] = 3
    body: str
    words: int


def renamed(payload: dict[str, Any]) -> dict[str, Any]:
    return {"body": payload["message"], **{k: v for k, v in payload.items() if k != "message"}}


def counted(payload: dict[str, Any]) -> dict[str, Any]:
    return {**payload, "words": len(payload["body"].split())}


LIFTS: Mapping[tuple[str, int], Lift] = {("note", 1): renamed, ("note", 2): counted}


def note(version: int, **fields: object) -> bytes:
    return json.dumps({"kind": "note", "schema_version": version, **fields}).encode()


@pytest.mark.covers("B120")
@pytest.mark.parametrize(
    "data",
    [
        note(1, message="two words"),
        note(2, body="two words"),
        note(3, body="two words", words=2),
    ],
    ids=["version 1", "version 2", "version 3"],
)
def test_an_old_version_is_lifted_to_the_current_one(data: bytes) -> None:
    codec = Codec({"note": Note}, LIFTS)
    current = Note(body="two words", words=2)
    assert codec.decode(data) == current
    assert codec.decode(data) == current  # lifting leaves nothing behind
    assert codec.decode(codec.encode(current)) == current


@pytest.mark.covers("B120")
@pytest.mark.parametrize(
    ("lifts", "version", "meaning"),
    [
        (LIFTS, 0, "is no longer read; publish 3"),
        (LIFTS, 4, "is newer than 3"),
        ({}, 2, "is no longer read; publish 3"),
        ({("note", 2): counted}, 1, "is no longer read; publish 3"),
        ({("note", 1): renamed}, 1, "is no longer read; publish 3"),
        ({("other", 1): renamed, ("other", 2): counted}, 1, "is no longer read; publish 3"),
    ],
    ids=["too old", "too new", "no lift", "first missing", "last missing", "of another kind"],
)
def test_a_version_that_no_lift_reaches_is_refused(
    lifts: Mapping[tuple[str, int], Callable[[dict[str, Any]], dict[str, Any]]],
    version: int,
    meaning: str,
) -> None:
    codec = Codec({"note": Note}, lifts)
    error = refusal(codec, note(version, message="two words", body="two words"))
    assert error.field == "schema_version"
    assert meaning in str(error)


def test_what_a_lift_yields_is_checked_like_any_record() -> None:
    error = refusal(Codec({"note": Note}, LIFTS), note(1, message="two words", extra=1))
    assert error.field == "extra"


def test_a_trusted_record_travels_as_a_checked_one_does() -> None:
    born = survivorship.born(event(), MemoryId(identity(1)), truncated=False)
    checked = Memory.model_validate(born.model_dump())
    assert born == checked
    assert born.model_dump_json() == checked.model_dump_json()
    assert checked.compact() == checked
    assert checked.compact().model_dump_json() == checked.model_dump_json()
    assert born.compact() is born


def test_a_changed_record_is_a_copy_with_other_values() -> None:
    checked = Memory.model_validate(
        survivorship.born(event(), MemoryId(identity(1)), truncated=False).model_dump()
    )
    changed, copied = checked.with_values(pinned=True), checked.model_copy(update={"pinned": True})
    assert (checked.pinned, changed.pinned) == (False, True)
    assert changed == copied
    assert changed.model_dump_json() == copied.model_dump_json()


def test_a_copy_of_a_trusted_record_leaves_the_others_alone() -> None:
    born = survivorship.born(event(), MemoryId(identity(1)), truncated=False)
    changed = born.model_copy(update={"pinned": True})
    assert (born.pinned, changed.pinned, changed.compact().pinned) == (False, True, True)
