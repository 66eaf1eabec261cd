"""Exports of other memory stores: told apart by content, and read as rows of ours."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from streams.model.ports.failures import Fatal
from streams.stage.core.mapping import FieldMapping, event_fields
from streams.store.world.files import FileSource
from tests.commands.conftest import Memsieve, write_events

PEERS = Path(__file__).parents[3] / "examples" / "peers"

MADE = "2026-03-01T08:00:00Z"


def rows(path: Path) -> tuple[str | None, list[dict[str, Any]]]:
    source = FileSource(str(path), exports=True)
    found = [line.row for line in source.lines(None)]
    assert str([line.row for line in source.sample()]) == str(found)
    name = None if source.export is None else source.export.name
    return name, [row if isinstance(row, dict) else {"poison": str(row)} for row in found]


def event(row: dict[str, Any]) -> dict[str, Any]:
    found = event_fields(row, FieldMapping())
    return {name: value for name, value in found.items() if name not in {"kind", "schema_version"}}


def test_memories_that_we_listed_or_exported(memsieve: Memsieve, tmp_path: Path) -> None:
    said = {"text": "Ana likes tea.", "scope": "acme/ana", "event_id": "e1", "source": "ben"}
    fields = {"occurred_at": MADE, "title": "Tea", "tags": ["taste"], "mood": "calm"}
    again = {**said, "event_id": "e2", "occurred_at": "2026-03-02T08:00:00Z"}
    other = {**said, "event_id": "e3", "text": "Bo works in Lisbon.", "occurred_at": MADE}
    lines = [json.dumps(one) for one in ({**said, **fields}, again, other)]
    (tmp_path / "facts.jsonl").write_text("\n".join(lines), encoding="utf-8")
    memsieve("run", "facts.jsonl", "--store", "store")
    listed = memsieve("memory", "list", "--store", "store", "--json").out
    (tmp_path / "listed.json").write_text(listed, encoding="utf-8")
    memsieve("store", "export", "--tenant", "acme", "--out", "all", "--store", "store")
    kept, seen_once = sorted(json.loads(listed), key=lambda one: one["text"])
    for path in ("listed.json", "all/memories.jsonl"):
        name, read = rows(tmp_path / path)
        tea, lisbon = sorted(read, key=lambda one: one["text"])
        assert name == "memsieve"
        assert event(tea) == {
            "text": "Ana likes tea.",
            "scope": "acme/ana",
            "status": "active",
            "event_id": kept["id"],
            "occurred_at": "2026-03-02T08:00:00+00:00",
            "title": "Tea",
            "tags": ["taste"],
            "entities": [],
            "pinned": False,
            "source": "ben",
            "metadata": {"seen": 2, "mood": "calm"},
        }
        assert (lisbon["event_id"], lisbon["metadata"]) == (seen_once["id"], {})
        told = memsieve("run", path, "--store", "copy")
        assert f"{path}: read as an export of memsieve\n" in told.err
    copy = memsieve("memory", "list", "--store", "copy", "--json").json()
    same = ("text", "scope", "tags", "sources", "last_seen_at")
    assert sorted([one[name] for name in same] for one in copy) == sorted(
        [one[name] for name in same] for one in json.loads(listed)
    )


def test_of_our_own_memories_the_retired_are_left_out(memsieve: Memsieve, tmp_path: Path) -> None:
    write_events(tmp_path / "facts.jsonl", "Ana likes tea.", "Ana lives in Lyon.", "It rains.")
    memsieve("run", "facts.jsonl", "--store", "store")
    listed = memsieve("memory", "list", "--store", "store", "--json").json()
    for one in listed[::2]:
        memsieve("memory", "retire", one["id"], "--reason", "ended", "--store", "store")
    memsieve("store", "export", "--tenant", "acme", "--out", "all", "--store", "store")
    for _ in range(2):
        told = memsieve("run", "all/memories.jsonl", "--store", "copy", "--json")
        assert told.code == 0, told.err
        assert told.json()["dead_letters"] == 0
    copy = memsieve("memory", "list", "--store", "copy", "--json").json()
    assert [one["text"] for one in copy] == [listed[1]["text"]]


def test_mem0() -> None:
    name, [first, changed, agents, _] = rows(PEERS / "mem0.json")
    assert name == "mem0"
    assert event(first) == {
        "scope": "ana",
        "text": "Ana lives in Lyon.",
        "event_id": "5b0c1f1e-1",
        "occurred_at": "2026-03-02T09:00:00+00:00",
        "session": "chat-1",
        "metadata": {
            "category": "home",
            "hash": "h0",
            "created_at": "2026-03-02T09:00:00+00:00",
            "updated_at": "2026-03-02T09:00:00+00:00",
            "user_id": "ana",
            "run_id": "chat-1",
        },
    }
    assert event(changed)["occurred_at"] == "2026-03-04T09:00:00+00:00"  # when it was written last
    assert (agents["scope"], agents["metadata"]["actor_id"]) == ("coder", "june")


def test_redis_agent_memory_server() -> None:
    name, [first, _, trip, _] = rows(PEERS / "redis.json")
    assert name == "redis agent-memory-server"
    found = event(first)
    assert (found["scope"], found["event_id"], found["session"]) == ("acme/bo", "01JNA1", "s-1")
    assert (found["tags"], found["entities"]) == (["work"], ["Bo", "Lisbon"])
    assert trip["metadata"]["event_date"] == "2026-03-01T07:00:00Z"


def test_langmem() -> None:
    name, [said, _, nested, card] = rows(PEERS / "langmem.json")
    assert name == "LangMem"
    assert (event(said)["scope"], said["text"]) == ("memories/cleo", "Cleo is allergic to peanuts.")
    assert (nested["text"], nested["event_id"]) == ("Cleo prefers dark mode.", "profile")
    assert nested["metadata"]["kind"] == "Memory"
    assert "text" not in card  # a form, not a sentence


def test_chroma() -> None:
    name, [first, _, third, empty] = rows(PEERS / "chroma.json")
    assert name == "Chroma"
    assert (first["scope"], first["event_id"], first["session"]) == ("dana", "c1", "x")
    assert (third["text"], third["metadata"]) == ("Dana's car is red.", {"source": "note.md"})
    assert "text" not in empty


@pytest.mark.parametrize("name", ["mem0", "redis", "langmem", "chroma"])
def test_gzipped_or_on_one_line_it_is_the_same(tmp_path: Path, name: str) -> None:
    document = json.loads((PEERS / f"{name}.json").read_text("utf-8"))
    packed = tmp_path / f"{name}.json.gz"
    packed.write_bytes(gzip.compress(json.dumps(document).encode()))
    assert rows(packed) == rows(PEERS / f"{name}.json")


def test_one_longer_than_what_is_looked_at_is_read_to_its_end(tmp_path: Path) -> None:
    row = {"memory": "Ana likes tea. " * 9, "user_id": "ana", "created_at": MADE}
    many = [{"id": f"m{n}", **row} for n in range(1000)]
    (tmp_path / "many.json").write_text(json.dumps({"count": 1000, "results": many}))
    source = FileSource(str(tmp_path / "many.json"), exports=True)
    assert source.export is not None
    assert [line.number for line in source.lines(None)] == list(range(1, 1001))


@pytest.mark.parametrize(
    "row",
    [
        {"text": "Ana likes tea.", "items": [{"sku": 1}]},
        {"id": 1, "key": "a", "value": {}},
        {"id": "h0", "memory": "Ana likes tea.", "user": "ana", "when": "2026-03-01T08:00:00Z"},
    ],
    ids=["a-list-in-a-row", "part-of-the-marks", "names-that-anybody-may-use"],
)
def test_what_is_no_export_is_read_as_before(tmp_path: Path, row: dict[str, Any]) -> None:
    (tmp_path / "rows.json").write_text(json.dumps(row))
    assert rows(tmp_path / "rows.json") == (None, [row])


def test_a_broken_entry_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    rest = {"memory": "Ana likes tea.", "created_at": MADE}
    entries = [{"id": "a", **rest}, "lost", {"id": "b", **rest}]
    (tmp_path / "mem0.json").write_text(json.dumps({"results": entries}))
    _, [first, broken, last] = rows(tmp_path / "mem0.json")
    assert "is not a JSON object" in broken["poison"]
    assert (first["scope"], last["scope"]) == ("imported", "imported")


def test_metadata_takes_the_place_of_no_column(tmp_path: Path) -> None:
    metadata = {"id": "b", "memory": "c", "d": 1}
    given = {"id": "a", "memory": "Ana likes tea.", "created_at": MADE, "metadata": metadata}
    (tmp_path / "mem0.json").write_text(json.dumps([given]))
    _, [row] = rows(tmp_path / "mem0.json")
    assert (row["event_id"], row["text"]) == ("a", "Ana likes tea.")
    assert row["metadata"] == {"d": 1, "created_at": MADE}


def test_an_export_of_chroma_without_texts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "chroma.json").write_text(json.dumps({"ids": ["a"], "documents": None}))
    with pytest.raises(Fatal, match="differ in length"):
        FileSource(str(tmp_path / "chroma.json"))


def test_named_columns_are_those_of_the_export(memsieve: Memsieve) -> None:
    path = str(PEERS / "redis.json")
    ours = memsieve("try", path, "--scope-field", "team/{user_id}")
    assert "read as an export of redis agent-memory-server" in ours.err
    theirs = memsieve("try", path, "--text-field", "text", "--scope-field", "user_id")
    assert (theirs.code, "export of" in theirs.err) == (0, False)


@pytest.mark.parametrize(
    ("wanted", "meant"),
    [("user", "did you mean --scope-field user_id? "), ("when", "")],
)
def test_of_an_export_only_columns_that_it_has_are_offered(
    wanted: str, meant: str, memsieve: Memsieve
) -> None:
    path = str(PEERS / "mem0.json")
    result = memsieve("run", path, "--store", "store", "--scope-field", wanted)
    assert result.code == 2
    assert result.err == (
        f"memsieve: {path} has no column {wanted}: {meant}"
        "It is an export of mem0; a scope can be made of agent_id, run_id, user_id\n"
    )
