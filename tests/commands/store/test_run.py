"""`memsieve run`: what a person who types it sees, and what it leaves behind."""

import asyncio
import gzip
import json
import os
import pty
import re
import shutil
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from streams.index.edge import EdgeIndex
from streams.log.local_broker import LocalBroker
from streams.model.ports.failures import Fatal, Transient
from streams.model.ports.index import UNFOLLOWED
from streams.stage.flow.apply import apply
from streams.stage.flow.decisions import INDEXED, DecisionsReader
from tests.commands.conftest import (
    COMMAND,
    SHALLOW,
    Memsieve,
    start,
    start_holding,
    write_events,
)
from tests.support.machine.waiting import wait_until

TEXTS = ("Ana likes tea.", "Bo works in Lisbon.", "The printer is out of toner.")
EXAMPLE = Path("examples/trap-door.jsonl").absolute()


def kinds(memsieve: Memsieve, store: str = "store") -> Counter[str]:
    """Count a store's decisions by kind."""
    found: list[dict[str, Any]] = memsieve("decisions", "--store", store, "--json").json()
    return Counter(decision["kind"] for decision in found)


def texts(memsieve: Memsieve, store: str = "store") -> list[str]:
    """Return the texts of a store's live memories."""
    return [m["text"] for m in memsieve("memory", "list", "--store", store, "--json").json()]


@pytest.mark.covers("B123")
def test_running_a_file_again_adds_nothing(memsieve: Memsieve, tmp_path: Path) -> None:
    write_events(tmp_path / "facts.jsonl", *TEXTS)
    first = memsieve("run", "facts.jsonl", "--store", "store", "--json").json()
    again = memsieve("run", "facts.jsonl", "--store", "store", "--json").json()
    assert (first["events"], first["decisions"]["insert"]) == (3, 3)
    assert (again["events"], again["decisions"]["ignore"]) == (3, 3)
    assert sorted(texts(memsieve)) == sorted(TEXTS)


def test_a_grown_file_adds_only_its_new_lines(memsieve: Memsieve, tmp_path: Path) -> None:
    write_events(tmp_path / "facts.jsonl", *TEXTS[:2])
    memsieve("run", "facts.jsonl", "--store", "store")
    write_events(tmp_path / "facts.jsonl", *TEXTS)
    grown = memsieve("run", "facts.jsonl", "--store", "store", "--json").json()
    assert grown["decisions"] == {
        "insert": 1,
        "merge": 0,
        "replace": 0,
        "reinforce": 0,
        "ignore": 2,
        "revise": 0,
        "erase": 0,
        "block": 0,
    }


def test_a_moved_and_packed_file_is_the_same_source(memsieve: Memsieve, tmp_path: Path) -> None:
    content = write_events(tmp_path / "facts.jsonl", *TEXTS).read_bytes()
    memsieve("run", "facts.jsonl", "--store", "store")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "facts.jsonl.gz").write_bytes(gzip.compress(content))
    moved = memsieve("run", "elsewhere/facts.jsonl.gz", "--store", "store", "--json").json()
    assert moved["decisions"]["ignore"] == 3


def test_columns_of_a_foreign_file_are_mapped(memsieve: Memsieve, tmp_path: Path) -> None:
    row = {"sample": "c-1", "who": "Caro", "said": "Caro likes jazz.", "n": 7, "mood": "good"}
    (tmp_path / "turns.jsonl").write_text(
        json.dumps({**row, "when": "1:56 pm on 8 May, 2023"}) + "\n", encoding="utf-8"
    )
    memsieve(
        "run",
        "turns.jsonl",
        *("--store", "store", "--text-field", "said", "--id-field", "n", "--time-field", "when"),
        *("--scope-field", "talks/{sample}/{who}"),
    )
    [decision] = memsieve("decisions", "--store", "store", "--json").json()
    event = decision["event"]
    assert {name: event[name] for name in ("event_id", "scope", "text", "occurred_at")} == {
        "event_id": "7",
        "scope": "talks/c-1/Caro",
        "text": "Caro likes jazz.",
        "occurred_at": "2023-05-08T13:56:00Z",
    }
    assert event["metadata"] == {"mood": "good"}


def test_csv_is_read_with_its_quotes_and_line_breaks(memsieve: Memsieve, tmp_path: Path) -> None:
    (tmp_path / "facts.csv").write_text(
        'scope,text,turn,tags\nacme/ana,"Ana likes ""tea"",\nnot coffee.",3,"drinks, morning"\n',
        encoding="utf-8",
    )
    memsieve("run", "facts.csv", "--store", "store")
    [memory] = memsieve("memory", "list", "--store", "store", "--json").json()
    assert memory["text"] == 'Ana likes "tea",\nnot coffee.'
    assert memory["turns"] == {"first": 3, "last": 3}
    assert memory["tags"] == ["drinks", "morning"]


def test_standard_input_is_read(tmp_path: Path) -> None:
    rows = write_events(tmp_path / "facts.jsonl", *TEXTS).read_text(encoding="utf-8")
    process = start("run", "-", "--store", "store", "--json", cwd=tmp_path)
    out, _ = process.communicate(rows, timeout=60)
    assert json.loads(out)["decisions"]["insert"] == 3


def test_a_pipe_with_a_name_is_read_as_standard_input(tmp_path: Path) -> None:
    rows = write_events(tmp_path / "facts.jsonl", *TEXTS).read_bytes()
    for expected in ("insert", "ignore"):
        os.mkfifo(tmp_path / expected)
        with subprocess.Popen(["tee", expected], cwd=tmp_path, stdin=subprocess.PIPE) as tee:
            process = start("run", expected, "--store", "store", "--json", cwd=tmp_path)
            tee.communicate(rows)
            out, _ = process.communicate(timeout=60)
        assert json.loads(out)["decisions"][expected] == 3


def test_a_header_that_names_a_column_twice_is_refused(memsieve: Memsieve, tmp_path: Path) -> None:
    (tmp_path / "facts.csv").write_text("scope,text,text\na/b,Tea.,Cake.\n", encoding="utf-8")
    result = memsieve("run", "facts.csv", "--store", "store")
    assert result.code == 2
    assert not (tmp_path / "store").exists()
    assert "facts.csv cannot be read: the header names the column text twice" in result.err


def test_a_quote_left_open_takes_no_row_along(memsieve: Memsieve, tmp_path: Path) -> None:
    rows = [
        'acme/ana,"Tea is good."',
        'acme/ana,"Cake is',
        "acme/ana,Bread is old.",
        "acme/bo,Salt.",
    ]
    (tmp_path / "facts.csv").write_text("\n".join(["scope,text", *rows]), encoding="utf-8")
    memsieve("run", "facts.csv", "--store", "store")
    assert sorted(texts(memsieve)) == ["Bread is old.", "Salt.", "Tea is good."]
    [letter] = memsieve("dead-letters", "list", "--store", "store", "--json").json()
    assert letter["origin"] == "facts.csv:3"
    assert "is a quote left open?" in letter["error"]


def test_a_corrected_column_gives_other_events(memsieve: Memsieve, tmp_path: Path) -> None:
    rows = [
        {"scope": "acme/ana", "wrong": f"row {n}", "note": text} for n, text in enumerate(TEXTS)
    ]
    (tmp_path / "facts.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    run = ("run", "facts.jsonl", "--store", "store", "--json", "--text-field")
    assert memsieve(*run, "wrong").json()["decisions"]["insert"] == 3
    assert memsieve(*run, "note").json()["decisions"]["insert"] == 3


def test_running_a_file_again_doubles_no_dead_letter(memsieve: Memsieve, tmp_path: Path) -> None:
    rows = [{"scope": "acme/*", "text": "Tea."}, {"scope": "acme/ana"}]
    (tmp_path / "facts.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    for seen in (1, 2):
        memsieve("run", "facts.jsonl", "--store", "store")
        letters = memsieve("dead-letters", "list", "--store", "store", "--json").json()
        assert sorted((letter["origin"], letter["seen"]) for letter in letters) == [
            ("facts.jsonl:1", seen),
            ("facts.jsonl:2", seen),
        ]


def test_a_lost_log_or_manifest_is_not_replaced_by_a_new_one(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    write_events(tmp_path / "facts.jsonl", *TEXTS)
    memsieve("run", "facts.jsonl", "--store", "store")
    for name in ("log.sqlite3", "memsieve.json"):
        content = (tmp_path / "store" / name).read_bytes()
        (tmp_path / "store" / name).unlink()
        result = memsieve("run", "facts.jsonl", "--store", "store")
        assert result.code == 3
        assert f"{name} is gone" in result.err
        (tmp_path / "store" / name).write_bytes(content)
    assert memsieve("run", "facts.jsonl", "--store", "store").code == 0


def test_a_directory_of_other_things_is_not_made_a_store(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("…", encoding="utf-8")
    write_events(tmp_path / "facts.jsonl", *TEXTS)
    result = memsieve("run", "facts.jsonl", "--store", "home")
    assert result.code == 3
    assert "home is not a store and holds other files (thesis.txt, …)" in result.err
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["thesis.txt"]


def test_a_log_restored_from_a_copy_takes_the_index_with_it(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    """What only the index knew must not be reinforced: no decision would ever say it."""
    write_events(tmp_path / "one.jsonl", TEXTS[0])
    write_events(tmp_path / "two.jsonl", TEXTS[1])
    memsieve("run", "one.jsonl", "--store", "store")
    copy = (tmp_path / "store" / "log.sqlite3").read_bytes()
    memsieve("run", "two.jsonl", "--store", "store")
    (tmp_path / "store" / "log.sqlite3").write_bytes(copy)
    write_events(tmp_path / "three.jsonl", TEXTS[1])
    again = memsieve("run", "three.jsonl", "--store", "store", "--json").json()
    assert again["decisions"]["insert"] == 1
    assert sorted(texts(memsieve)) == sorted(TEXTS[:2])


def test_an_index_left_half_rebuilt_is_finished_before_anything_is_decided(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    """A name given new words behind the part that was rebuilt: a count alone would not show it."""
    rows = [{"event_id": "0", "memory_id": "home", "text": "Ana lives in Lisbon."}]
    rows += [{"event_id": f"{n}", "text": "Ana likes tea."} for n in range(1, 9)]
    rows += [{"event_id": "9", "memory_id": "home", "text": "Ana lives in Oslo."}]
    times = [f"2026-03-{day:02d}T00:00:00Z" for day in range(1, 12)]
    lines = [
        json.dumps({**row, "scope": "acme/ana", "occurred_at": at})
        for row, at in zip(rows, times, strict=False)
    ]
    (tmp_path / "facts.jsonl").write_text("\n".join(lines), encoding="utf-8")
    memsieve("run", "facts.jsonl", "--store", "store")
    asyncio.run(_rebuild_in_part(tmp_path / "store", decisions=3))
    bergen = {"memory_id": "home", "text": "Ana lives in Bergen.", "occurred_at": times[10]}
    row = json.dumps({**bergen, "scope": "acme/ana", "event_id": "10"})
    (tmp_path / "more.jsonl").write_text(row, encoding="utf-8")
    more = memsieve("run", "more.jsonl", "--store", "store", "--json").json()
    assert more["decisions"]["replace"] == 1
    assert sorted(texts(memsieve)) == ["Ana likes tea.", "Ana lives in Bergen."]
    assert memsieve("check", "--store", "store").code == 0


async def _rebuild_in_part(store: Path, *, decisions: int) -> None:
    """Leave an index as a process does that is killed while it builds it anew."""
    shutil.rmtree(store / "index")
    index = EdgeIndex(store / "index", 384)
    log = LocalBroker(store / "log.sqlite3", indexed=INDEXED, read_only=True)
    records = await log.read("memory.decisions", 0, 0, decisions)
    reader = DecisionsReader()
    await apply(reader.window(records), index=index)
    await index.keep_level(0, reader.reached, since=UNFOLLOWED)
    await index.close()
    log.close()


BAD_LINES: dict[str, tuple[bytes, str]] = {
    "not JSON": (b"Ana likes tea.", "not JSON"),
    "a JSON array": (b"[1, 2]", "not a JSON object"),
    "a wrong type": (b'{"scope": "a/b", "text": 5}', "text should be a valid string"),
    "a missing scope": (b'{"text": "Ana likes tea."}', "column scope is missing"),
    "an empty scope": (b'{"scope": "", "text": "Ana likes tea."}', "scope"),
    "a wildcard scope": (b'{"scope": "acme/*", "text": "Ana likes tea."}', "wildcard"),
    "a missing text": (b'{"scope": "a/b"}', "column text is missing"),
    "an empty text": (b'{"scope": "a/b", "text": " \\t "}', "text is empty"),
    "NUL": (b'{"scope": "a/b", "text": "Ana \\u0000 tea."}', "U+0000"),
    "broken UTF-8": (b'{"scope": "a/b", "text": "Ana \xff tea."}', "not JSON: invalid unicode"),
    "a long text": (
        b'{"scope": "a/b", "text": "' + b"tea " * 200_000 + b'"}',
        "text should have at most 65536 characters",
    ),
    "deep nesting": (
        b'{"scope": "a/b", "text": "Tea.", "x": ' + b"[" * 10_000 + b"]" * 10_000 + b"}",
        "recursion limit",
    ),
    "a malformed time zone": (
        b'{"scope": "a/b", "text": "Tea.", "occurred_at": "2026-01-01T00:00:00+24:00"}',
        "column occurred_at is not a time",
    ),
    "a day that may be two": (
        b'{"scope": "a/b", "text": "Tea.", "occurred_at": "03/04/2026"}',
        "column occurred_at is ambiguous",
    ),
    "an unknown kind": (b'{"kind": "dream", "schema_version": 1}', "kind is 'dream'"),
    "an unknown version": (
        b'{"kind": "remember", "schema_version": 9}',
        "schema_version 9 of kind remember is newer",
    ),
    "an unknown field": (
        b'{"kind": "remember", "schema_version": 1, "event_id": "1", "mood": "good"}',
        "mood is not a field",
    ),
}


@pytest.mark.parametrize(("line", "problem"), BAD_LINES.values(), ids=BAD_LINES.keys())
def test_a_bad_line_becomes_a_dead_letter_that_says_why_and_the_run_goes_on(
    line: bytes, problem: str, memsieve: Memsieve, tmp_path: Path
) -> None:
    good = json.dumps({"scope": "acme/ana", "text": TEXTS[0]}).encode()
    (tmp_path / "facts.jsonl").write_bytes(good + b"\n" + line + b"\n" + good + b"\n")
    result = memsieve("run", "facts.jsonl", "--store", "store", "--json")
    assert result.code == 0
    assert result.json()["dead_letters"] == 1
    assert result.json()["decisions"]["insert"] == result.json()["decisions"]["reinforce"] == 1
    [letter] = memsieve("dead-letters", "list", "--store", "store", "--json").json()
    assert letter["origin"] == "facts.jsonl:2"
    assert problem in letter["error"]
    assert "\n" not in letter["error"]


@pytest.mark.covers("C11")
def test_without_a_scope_of_its_own_nothing_is_stored_and_two_scopes_share_nothing(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    text = "Ana likes tea."
    wrong: tuple[dict[str, Any], ...] = (
        {},
        {"scope": None},
        {"scope": ""},
        {"scope": "*"},
        {"scope": "acme/*"},
    )
    scopes = ("acme/ana", "acme/bo", "acme/ana")
    rows = [
        *({**row, "text": text} for row in wrong),
        *({"scope": s, "text": text} for s in scopes),
    ]
    (tmp_path / "facts.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert memsieve("run", "facts.jsonl", "--store", "store").code == 0
    letters = memsieve("dead-letters", "list", "--store", "store", "--json").json()
    assert [one["origin"] for one in letters] == [f"facts.jsonl:{n}" for n in range(1, 6)]
    assert all("scope" in one["error"] for one in letters)
    kept = memsieve("memory", "list", "--store", "store", "--json").json()
    assert {one["scope"]: one["observation_count"] for one in kept} == {"acme/ana": 2, "acme/bo": 1}
    assert [one["text"] for one in kept] == [text, text]


@pytest.mark.covers("C13")
def test_what_is_heard_again_changes_no_text_and_raises_the_counts(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    """New events that say what was said: texts converge with the first pass."""
    rows = [json.loads(line) for line in Path(EXAMPLE).read_text("utf-8").splitlines()]
    seen: list[tuple[set[str], int]] = []
    for again in range(3):
        renamed = [row | {"event_id": f"{again}-{n}"} for n, row in enumerate(rows)]
        (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, renamed)), "utf-8")
        assert memsieve("run", "rows.jsonl", "--store", "store").code == 0
        kept = memsieve("memory", "list", "--store", "store", "--json").json()
        seen.append(({one["text"] for one in kept}, sum(one["observation_count"] for one in kept)))
    assert [known for known, _ in seen] == [seen[0][0]] * 3
    # of six, one is outdated by the next: "open" is history, whenever it is heard
    assert [count for _, count in seen] == [5, 10, 15]


TOPICS = (
    "Ana Ruiz works as a vet in Porto and takes care of horses and cows there.",
    "Ana Ruiz has two cats in Porto, and both of them sleep on her bed at night.",
    "Ana Ruiz likes green tea in the morning, and in Porto she buys it at the market.",
    "Ana Ruiz has a sister in Porto, who studies law and lives with their parents.",
    "Ana Ruiz runs along the river in Porto on Sundays, mostly before breakfast, and alone.",
)


@pytest.mark.covers("D19")
def test_five_topics_of_one_person_are_five_memories_though_one_could_hold_them(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    """Together they are as long as the reported memory of five topics, and no merge is too long."""
    assert 390 <= len(" ".join(TOPICS)) < 600
    write_events(tmp_path / "facts.jsonl", *TOPICS)
    memsieve("run", "facts.jsonl", "--store", "store")
    *_, last = memsieve("decisions", "--store", "store", "--json").json()
    assert last["evidence"]["neighbours"], "they are near enough to be looked at"
    memsieve("consolidate", "--now", "--store", "store")
    assert sorted(texts(memsieve)) == sorted(TOPICS)


@pytest.mark.covers("B123", "B11")
def test_an_event_id_used_again_is_ignored_and_with_other_words_refused(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    rows = [
        {"event_id": "1", "scope": "acme/ana", "text": "Ana likes tea."},
        {"event_id": "1", "scope": "acme/ana", "text": "Ana likes tea."},
        {"event_id": "1", "scope": "acme/ana", "text": "Ana likes coffee."},
        {"event_id": "1", "scope": "acme/bo", "text": "Bo likes coffee."},
    ]
    (tmp_path / "facts.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    memsieve("run", "facts.jsonl", "--store", "store")
    assert kinds(memsieve) == Counter(insert=2, ignore=1, reject=1)
    [letter] = memsieve("dead-letters", "list", "--store", "store", "--json").json()
    assert (letter["origin"], letter["field"]) == ("facts.jsonl:3", "event_id")


def test_a_missing_file_changes_nothing(memsieve: Memsieve, tmp_path: Path) -> None:
    write_events(tmp_path / "facts.jsonl", *TEXTS)
    result = memsieve("run", "facts.jsonl", "none.jsonl", "--store", "store")
    assert result.code == 2
    assert result.err == "memsieve: none.jsonl cannot be read: No such file or directory\n"
    assert not (tmp_path / "store").exists()


def test_facts_that_differ_in_a_symbol_or_a_quoted_command_are_kept_apart(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    rows = [
        "The build is ✅.",
        "The build is ❌.",
        "Use C for the driver.",
        "Use C++ for the driver.",
        "Check that status == 200.",
        "Check that status != 200.",
        "Migrations are created with `alembic revision --autogenerate`.",
        "Apply migrations with `alembic upgrade head`.",
    ]
    write_events(tmp_path / "facts.jsonl", *rows)
    for preset in ("default", "thorough"):
        result = memsieve("run", "facts.jsonl", "--policy", preset, "--store", preset)
        assert result.code == 0
        assert sorted(texts(memsieve, preset)) == sorted(rows)


def test_a_damaged_archive_keeps_what_was_read_before_the_damage(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    rows = write_events(tmp_path / "rows", *(f"Fact {n} is known." for n in range(2_000)))
    packed = gzip.compress(rows.read_bytes())
    (tmp_path / "facts.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    result = memsieve("run", "facts.jsonl.gz", "--policy", SHALLOW, "--store", "store")
    assert result.code == 6
    kept = len(texts(memsieve))
    said = result.err.splitlines()[-1]
    assert said.startswith(f"memsieve: facts.jsonl.gz cannot be read: after row {kept:,}: ")
    assert said.endswith("pack the file again, and repeat the command")
    assert memsieve("check", "--store", "store").code == 0
    assert 500 < kept < 2_000
    assert kept % 256 > 0
    (tmp_path / "facts.jsonl.gz").write_bytes(packed)
    assert memsieve("run", "facts.jsonl.gz", "--policy", SHALLOW, "--store", "store").code == 0
    assert len(texts(memsieve)) == 2_000


def test_a_store_of_another_model_is_refused_by_name(memsieve: Memsieve, tmp_path: Path) -> None:
    write_events(tmp_path / "facts.jsonl", *TEXTS)
    memsieve("run", "facts.jsonl", "--store", "store")
    manifest = tmp_path / "store" / "memsieve.json"
    made = json.loads(manifest.read_text(encoding="utf-8"))
    manifest.write_text(
        json.dumps({**made, "model": "another/model", "dimension": 768}), encoding="utf-8"
    )
    result = memsieve("run", "facts.jsonl", "--store", "store")
    assert result.code == 3
    assert "model another/model, not sentence-transformers/all-MiniLM-L6-v2" in result.err
    assert "dimension 768, not 384" in result.err
    assert kinds(memsieve) == Counter(insert=3)


@pytest.mark.covers("B131")
def test_a_store_of_another_precision_is_refused_with_the_remedy(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    write_events(tmp_path / "facts.jsonl", *TEXTS)
    memsieve("run", "facts.jsonl", "--store", "store")
    manifest = tmp_path / "store" / "memsieve.json"
    made = json.loads(manifest.read_text(encoding="utf-8"))
    fast = {**made, "model": f"{made['model']}@bf16"}
    manifest.write_text(json.dumps(fast), encoding="utf-8")
    for command in (("run", "facts.jsonl"), ("check",)):
        result = memsieve(*command, "--store", "store")
        assert result.code == 3
        assert f"{fast['model']}, not {made['model']}: use the embedder.precision" in (
            result.err + result.out
        )


def test_a_store_that_claims_the_index_of_services_is_refused(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    write_events(tmp_path / "facts.jsonl", *TEXTS)
    memsieve("run", "facts.jsonl", "--store", "store", "--index", "exact")
    manifest = tmp_path / "store" / "memsieve.json"
    manifest.write_text(manifest.read_text("utf-8").replace('"exact"', '"qdrant"'), "utf-8")
    result = memsieve("memory", "list", "--store", "store")
    assert (result.code, result.out) == (3, "")
    assert "memsieve.json cannot be read: restore it from a copy" in result.err


def test_a_store_that_cannot_be_written_is_refused(memsieve: Memsieve, tmp_path: Path) -> None:
    write_events(tmp_path / "facts.jsonl", *TEXTS)
    (tmp_path / "store").write_text("a file in its place", encoding="utf-8")
    result = memsieve("run", "facts.jsonl", "--store", "store")
    assert result.code == 3
    assert result.err.count("\n") == 1
    assert (tmp_path / "store").read_text(encoding="utf-8") == "a file in its place"


def test_a_disk_that_is_nearly_full_is_refused_before_anything_is_written(
    memsieve: Memsieve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_events(tmp_path / "facts.jsonl", *TEXTS)
    monkeypatch.setenv("MEMSIEVE_RUN__FREE_DISK_BYTES_MIN", str(10**18))
    result = memsieve("run", "facts.jsonl", "--store", "store")
    assert result.code == 3
    assert "the disk of store is nearly full" in result.err
    assert not (tmp_path / "store").exists()


def test_a_damaged_log_is_refused(memsieve: Memsieve, tmp_path: Path) -> None:
    write_events(tmp_path / "facts.jsonl", *TEXTS)
    memsieve("run", "facts.jsonl", "--store", "store")
    (tmp_path / "store" / "log.sqlite3").write_bytes(b"junk" * 1_000)
    for command in (("run", "facts.jsonl"), ("memory", "list"), ("decisions",)):
        result = memsieve(*command, "--store", "store")
        assert result.code == 3
        assert "damaged" in result.err


@pytest.mark.covers("B130")
@pytest.mark.parametrize(
    "lost", ["**/*", "segments/**/*", "segments/*/mutable_id_tracker.mappings"]
)
def test_what_the_index_has_lost_is_restored_from_the_log(
    lost: str, memsieve: Memsieve, tmp_path: Path
) -> None:
    """The engine opens without a word where some of its files are gone."""
    write_events(tmp_path / "facts.jsonl", *TEXTS)
    memsieve("run", "facts.jsonl", "--store", "store")
    for path in sorted((tmp_path / "store" / "index").glob(lost), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    again = memsieve("run", "facts.jsonl", "--store", "store", "--json").json()
    assert again["decisions"]["ignore"] == 3
    assert "3 memories" in memsieve("check", "--store", "store").out
    write_events(tmp_path / "more.jsonl", TEXTS[0].upper())
    more = memsieve("run", "more.jsonl", "--store", "store", "--json").json()
    assert more["decisions"]["reinforce"] == 1


def test_a_policy_for_another_model_is_refused(memsieve: Memsieve, tmp_path: Path) -> None:
    write_events(tmp_path / "facts.jsonl", *TEXTS)
    result = memsieve("run", "facts.jsonl", "--store", "store", "--model", "BAAI/bge-small-en-v1.5")
    assert result.code == 2
    assert "calibrated for sentence-transformers/all-MiniLM-L6-v2" in result.err
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--scope-field", "team/{a"), 2, "--scope-field"),
        (("--format", "xml"), 2, "--format xml: write jsonl, json, csv or list"),
        (("--policy", "none"), 2, "there is no such policy or file; policies here: adr-004"),
        (("--index", "faiss"), 2, "index.kind: should be 'edge', 'exact' or 'qdrant'"),
        (("--index", "qdrant"), 2, "index.kind qdrant is for the services; run takes edge or"),
        (("--model", "no/model"), 4, "no/model"),
    ],
)
def test_a_wrong_option_is_named(
    arguments: tuple[str, str], code: int, message: str, memsieve: Memsieve, tmp_path: Path
) -> None:
    write_events(tmp_path / "facts.jsonl", *TEXTS)
    result = memsieve("run", "facts.jsonl", "--store", "store", *arguments)
    assert result.code == code
    assert message in result.err
    assert result.err.count("\n") == 1


def test_two_runs_on_one_store_do_not_meet(memsieve: Memsieve, tmp_path: Path) -> None:
    """The first waits for its standard input, holding the store."""
    write_events(tmp_path / "facts.jsonl", *TEXTS)
    first = start_holding("store", "--json", cwd=tmp_path)
    try:
        _wait_for_lock(tmp_path / "store" / "lock")
        second = memsieve("run", "facts.jsonl", "--store", "store")
        assert second.code == 3
        assert f"is being written by another memsieve (process {first.pid})" in second.err
    finally:
        out, _ = first.communicate(json.dumps({"scope": "a/b", "text": "Tea."}), timeout=60)
    assert json.loads(out)["decisions"]["insert"] == 1
    assert texts(memsieve) == ["Tea."]


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_run_goes_on_where_it_was(
    stop: signal.Signals, memsieve: Memsieve, tmp_path: Path
) -> None:
    facts = [f"Sensor {n} is in room {n * 7}." for n in range(200)]
    write_events(tmp_path / "facts.jsonl", *facts)
    (tmp_path / "memsieve.toml").write_text("[run]\nbatch_records = 16\n", encoding="utf-8")
    run = ("run", "facts.jsonl", "--policy", SHALLOW, "--store", "store")
    process = start(*run, cwd=tmp_path)
    _wait_for_decisions(tmp_path / "store" / "log.sqlite3", process, 64)
    process.send_signal(stop)
    _, err = process.communicate(timeout=60)
    assert process.returncode == (130 if stop is signal.SIGINT else -signal.SIGKILL)
    assert stop is signal.SIGKILL or "interrupted; run the same command again" in err
    assert memsieve(*run).code == 0
    memsieve("run", "facts.jsonl", "--policy", SHALLOW, "--store", "whole")
    assert kinds(memsieve) == kinds(memsieve, "whole")
    resumed, whole = (
        memsieve("memory", "list", "--store", s, "--json") for s in ("store", "whole")
    )
    assert resumed.json() == whole.json()


def test_an_interrupted_run_with_a_wrong_column_is_read_again_with_the_right_one(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    rows = [
        {"scope": "acme/ana", "wrong": f"row {n}", "note": f"Sensor {n} is in room {n * 7}."}
        for n in range(80)
    ]
    (tmp_path / "facts.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (tmp_path / "memsieve.toml").write_text("[run]\nbatch_records = 4\n", encoding="utf-8")
    process = start(
        "run",
        "facts.jsonl",
        "--policy",
        SHALLOW,
        "--store",
        "store",
        "--text-field",
        "wrong",
        cwd=tmp_path,
    )
    _wait_for_lock(tmp_path / "store" / "lock")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    memsieve("run", "facts.jsonl", "--policy", SHALLOW, "--store", "store", "--text-field", "note")
    assert {f"Sensor {n} is in room {n * 7}." for n in range(80)} <= set(texts(memsieve))


def test_a_run_that_waits_for_its_input_can_be_interrupted(tmp_path: Path) -> None:
    process = start_holding("store", cwd=tmp_path)
    _wait_for_lock(tmp_path / "store" / "lock")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=20) == 130
    _, told = process.communicate()
    assert told.endswith("memsieve: interrupted\n")  # what the pipe has given is gone


def _wait_for_lock(lock: Path) -> None:
    wait_until(lambda: lock.exists() and lock.read_text() != "", f"{lock} is held")


def _wait_for_decisions(log: Path, process: subprocess.Popen[str], count: int) -> None:
    def enough() -> bool:
        assert process.poll() is None, "the run ended before it could be stopped"
        return log.exists() and _decisions_in(log) >= count

    wait_until(enough, f"{count} decisions are in {log}")


def _decisions_in(log: Path) -> int:
    """Count a growing log's decisions; 0 as long as it is still being made."""
    try:
        broker = LocalBroker(log, indexed=INDEXED, read_only=True)
    except Fatal:
        return 0
    try:
        return asyncio.run(broker.end("memory.decisions", 0))
    except (Fatal, Transient):
        return 0
    finally:
        broker.close()


def test_a_terminal_shows_a_bar_with_rate_and_share(tmp_path: Path) -> None:
    write_events(tmp_path / "facts.jsonl", *TEXTS)
    ours, theirs = pty.openpty()
    command = [*COMMAND, "run", "facts.jsonl", "--store", "store"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=theirs) as run:
        assert run.wait(timeout=60) == 0
    os.close(theirs)
    shown = os.read(ours, 65_536).decode()
    os.close(ours)
    assert "facts.jsonl" in shown
    assert "100 %" in shown
    assert re.search(r"3 events, \d+/s, 0:00 left", shown)
