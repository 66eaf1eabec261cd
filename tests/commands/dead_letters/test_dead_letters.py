"""`memsieve dead-letters`: what could not be used is looked at, mended, requeued or dropped."""

import asyncio
import base64
import json
import os
import pty
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from schemas.codec import DEAD_LETTER
from schemas.outcomes import DeadLetter, Stage
from streams.model.ports.log import OutgoingRecord
from streams.store.app import wiring
from streams.store.world.store_directory import StoreDirectory
from tests.builders import event
from tests.commands.conftest import COMMAND, Memsieve, Result, start, write_events

STORE = ("--store", "store")
EVENT = event("Ana keeps bees.", event_id="bees")
WILD = json.dumps({**EVENT.model_dump(mode="json"), "scope": "acme/*"})
REUSED = EVENT.model_copy(update={"text": "Ana keeps goats."}).model_dump_json()


@pytest.fixture(autouse=True)
def _store(memsieve: Memsieve, tmp_path: Path) -> None:
    """Make a store with one memory, and an empty file to run."""
    run(memsieve, tmp_path, "good.jsonl", EVENT.model_dump_json())
    (tmp_path / "nothing.jsonl").touch()


def run(memsieve: Memsieve, path: Path, name: str, *lines: str) -> None:
    (path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    assert memsieve("run", name, *STORE).code in {0, 2}  # 2: no row of the file could be used


def decided(memsieve: Memsieve) -> dict[str, Any]:
    """Run what waits; return the figures of the run."""
    return memsieve("run", "nothing.jsonl", *STORE, "--json").json()


def listed(memsieve: Memsieve, *options: str) -> list[Any]:
    return memsieve("dead-letters", "list", *STORE, "--json", *options).json()


def letters(memsieve: Memsieve, command: str, *arguments: object) -> Result:
    return memsieve("dead-letters", command, *arguments, *STORE)


def as_bytes(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command whose output is not text."""
    return subprocess.run([*COMMAND, *arguments], capture_output=True, check=False)


def left_behind(*left: DeadLetter) -> None:
    """Put letters into the store as an earlier memsieve might have left them."""
    records = [
        OutgoingRecord("memory.dead-letters", 0, None, DEAD_LETTER.encode(one)) for one in left
    ]
    with closing(wiring.log(StoreDirectory(Path("store")), read_only=False)) as log:
        asyncio.run(log.append(records))


def of(value: bytes, name: str) -> DeadLetter:
    encoded = base64.b64encode(value).decode()
    return DeadLetter(id=name, stage=Stage.DECODE, error="e", value=encoded, value_size=len(value))


@pytest.mark.covers("B125")
def test_a_row_that_could_not_be_used_is_mended_requeued_and_decided(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    run(memsieve, tmp_path, "bad.jsonl", WILD)
    [letter] = listed(memsieve)
    assert (letter["state"], letter["seen"]) == ("open", 1)
    shown = as_bytes("dead-letters", "show", letter["id"], *STORE, "--value")
    assert (shown.stdout, shown.stderr) == (WILD.encode(), b"")
    mended = {**json.loads(shown.stdout), "scope": "acme/ben"}
    (tmp_path / "event.json").write_text(json.dumps(mended, indent=2) + "\n", encoding="utf-8")
    result = letters(memsieve, "requeue", letter["id"][:8], "--with", "event.json")
    assert (result.code, result.out) == (0, f"requeued  {letter['id']}  bad.jsonl:1\n")
    assert result.err == "decided at the next memsieve run\n"
    assert decided(memsieve)["decisions"]["insert"] == 1
    assert memsieve("memory", "list", *STORE, "--scope", "acme/ben", "--json").json()[0][
        "text"
    ] == ("Ana keeps bees.")
    assert listed(memsieve) == []
    assert "no open dead letters" in letters(memsieve, "list").err
    assert [one["state"] for one in listed(memsieve, "--all")] == ["requeued"]
    assert f"decode  requeued  {letter['id']}" in letters(memsieve, "list", "--all").out


@pytest.mark.covers("B125")
def test_an_event_is_published_unchanged_and_counts_once(memsieve: Memsieve) -> None:
    left_behind(of(event("Bo sails.", event_id="sail").model_dump_json().encode(), "one"))
    assert letters(memsieve, "requeue", "one").code == 0
    assert decided(memsieve)["decisions"]["insert"] == 1
    left_behind(of(event("Bo sails.", event_id="sail").model_dump_json().encode(), "two"))
    assert letters(memsieve, "requeue", "--all-open").code == 0
    assert decided(memsieve)["decisions"]["ignore"] == 1
    assert listed(memsieve) == []


def test_an_event_that_fails_again_is_open_again_and_its_attempts_are_counted(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    run(memsieve, tmp_path, "reused.jsonl", REUSED)
    [first] = listed(memsieve)
    assert (first["stage"], first["attempts"]) == ("decide", 1)
    for attempts in (2, 3):
        assert letters(memsieve, "requeue", first["id"]).code == 0
        assert listed(memsieve) == []
        assert decided(memsieve)["dead_letters"] == 1
        [again] = listed(memsieve)
        assert (again["id"], again["origin"]) == (first["id"], "reused.jsonl:1")
        assert (again["attempts"], again["seen"], again["state"]) == (attempts, attempts, "open")
    assert f"attempts {attempts}" in letters(memsieve, "show", first["id"]).out


def test_what_was_requeued_is_not_requeued_or_dropped_before_it_fails_again(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    run(memsieve, tmp_path, "reused.jsonl", REUSED)
    [letter] = listed(memsieve)
    assert letters(memsieve, "requeue", letter["id"], letter["id"][:9]).out.count("requeued") == 1
    for command in ("requeue", "drop"):
        result = letters(memsieve, command, letter["id"])
        assert result.code == 2
        assert "was requeued already" in result.out
    assert decided(memsieve)["events"] == 1


def test_what_is_dropped_stays_in_the_topic_and_may_be_requeued_after_all(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    run(memsieve, tmp_path, "reused.jsonl", REUSED)
    [letter] = listed(memsieve)
    result = letters(memsieve, "drop", "--all-open")
    assert (result.code, result.out) == (0, f"dropped  {letter['id']}  reused.jsonl:1\n")
    assert listed(memsieve) == []
    assert listed(memsieve, "--all") == [{**letter, "state": "dropped"}]
    assert "was dropped already" in letters(memsieve, "drop", letter["id"]).out
    assert letters(memsieve, "requeue", "--all-open").err == "no open dead letters\n"
    assert letters(memsieve, "requeue", letter["id"]).code == 0
    assert decided(memsieve)["dead_letters"] == 1


@pytest.mark.parametrize(("command", "what"), [("requeue", "requeued"), ("drop", "dropped")])
def test_a_dry_run_says_what_would_be_done_and_changes_nothing(
    memsieve: Memsieve, tmp_path: Path, command: str, what: str
) -> None:
    run(memsieve, tmp_path, "reused.jsonl", REUSED)
    before = listed(memsieve, "--all")
    log = (tmp_path / "store" / "log.sqlite3").read_bytes()
    result = letters(memsieve, command, "--all-open", "--dry-run")
    assert result.code == 0
    assert result.out == f"would be {what}  {before[0]['id']}  reused.jsonl:1\n"
    assert (tmp_path / "store" / "log.sqlite3").read_bytes() == log
    assert listed(memsieve, "--all") == before
    assert decided(memsieve)["events"] == 0


def test_of_all_that_are_open_those_that_would_only_fail_again_are_left(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    run(memsieve, tmp_path, "bad.jsonl", WILD, REUSED, "{")
    result = letters(memsieve, "requeue", "--all-open")
    assert result.code == 0
    [done, row, wild] = result.out.splitlines()
    assert done.startswith("requeued  ")
    assert "bad.jsonl:1: would fail again: scope holds the wildcard *" in wild
    assert "bad.jsonl:3: is a row of a file, not an event; correct the file" in row
    assert [one["origin"] for one in listed(memsieve)] == ["bad.jsonl:3", "bad.jsonl:1"]
    result = letters(memsieve, "requeue", "--all-open")
    assert result.code == 2
    assert "dead letters not requeued: 2 of 2" in result.err
    result = letters(memsieve, "requeue", "--all-open", "--json")
    told = json.loads(result.out)
    assert told["requeued"] == []
    assert [one["id"] for one in told["refused"]] == [one["id"] for one in listed(memsieve)]
    assert told["refused"][0]["error"].startswith("is a row of a file")
    assert json.loads(result.err) == {"error": "dead letters not requeued: 2 of 2", "exit_code": 2}
    dropped = letters(memsieve, "drop", "--all-open", "--json").json()
    assert dropped == {"dropped": [one["id"] for one in told["refused"]], "refused": []}


def test_who_names_a_letter_that_cannot_be_requeued_is_told_by_the_exit_code(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    run(memsieve, tmp_path, "bad.jsonl", WILD, REUSED)
    names = [one["id"] for one in listed(memsieve)]
    result = letters(memsieve, "requeue", *names)
    assert result.code == 2
    assert "dead letters not requeued: 1 of 2" in result.err
    assert decided(memsieve)["events"] == 1


def test_a_mended_event_must_be_an_event(memsieve: Memsieve, tmp_path: Path) -> None:
    run(memsieve, tmp_path, "bad.jsonl", WILD)
    [letter] = listed(memsieve)
    for content, reason in {
        WILD: "scope holds the wildcard *",
        "": "the record is empty",
        "{": "not JSON",
        '{"scope": "acme/ana"}': "kind is missing",
        " " * 2_000_000: "is 1,048,577 bytes long; at most 1,048,576 are read",
    }.items():
        (tmp_path / "event.json").write_text(content, encoding="utf-8")
        result = letters(memsieve, "requeue", letter["id"], "--with", "event.json")
        assert (result.code, result.out) == (2, "")
        assert f"--with event.json: {reason}" in result.err
    assert listed(memsieve) == [letter]
    assert decided(memsieve)["events"] == 0


def test_what_is_asked_for_must_be_clear(memsieve: Memsieve) -> None:
    (Path("event.json")).write_text(EVENT.model_dump_json(), encoding="utf-8")
    for arguments, reason in {
        ("requeue",): "give the ids of dead letters, or --all-open",
        ("drop",): "give the ids of dead letters, or --all-open",
        ("requeue", "x", "--all-open"): "give the ids of dead letters, or --all-open",
        ("requeue", "--all-open", "--with", "event.json"): "--with replaces one dead letter",
        ("requeue", "x", "y", "--with", "event.json"): "--with replaces one dead letter",
        ("requeue", "x", "--with", "none"): "--with none: No such file or directory",
        ("requeue", "x", "--with", "."): "--with .: Is a directory",
        ("requeue", ""): "ID is empty",
        ("show", ""): "ID is empty",
        ("show", "x", "--value", "--json"): "two ways to print",
    }.items():
        result = letters(memsieve, *arguments)
        assert (result.code, result.out) == (2, "")
        assert reason in result.err


def test_an_id_that_no_letter_has_is_told_and_nothing_is_done(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    run(memsieve, tmp_path, "reused.jsonl", REUSED)
    [letter] = listed(memsieve)
    for command in ("show", "requeue", "drop"):
        known = () if command == "show" else (letter["id"],)
        result = letters(memsieve, command, *known, "nothing")
        assert (result.code, result.out) == (5, "")
        assert "no dead letter in store has the id nothing" in result.err
    assert listed(memsieve) == [letter]


def test_a_beginning_that_several_letters_share_is_not_guessed_at(memsieve: Memsieve) -> None:
    left_behind(of(b"{", "twins-1"), of(b"{", "twins-12"))
    for command in ("dead-letters show", "dead-letters requeue", "dead-letters drop", "explain"):
        for named, said in (
            ("twins-", "2 ids begin with twins-"),
            ("twins", "twins is no id or name"),
        ):
            result = memsieve(*command.split(), named, "--store", "store")
            assert (result.code, result.out) == (2, "")
            assert said in result.err
    assert letters(memsieve, "show", "twins-1").code == 0


def test_a_letter_is_shown_with_all_it_came_with(memsieve: Memsieve, tmp_path: Path) -> None:
    run(memsieve, tmp_path, "bad.jsonl", WILD)
    [letter] = listed(memsieve)
    told = letters(memsieve, "show", letter["id"]).out
    for part in (
        letter["id"],
        "open, seen 1x, attempts 1",
        "bad.jsonl:1",
        "decode",
        "scope holds the wildcard *; name one exact scope",
        "memory.events/0/1",
        "acme/*",
        "memsieve-origin: bad.jsonl:1",
        WILD,
    ):
        assert part in told
    assert letters(memsieve, "show", letter["id"], "--json").json() == letter
    assert memsieve("explain", letter["id"], *STORE, "--json").json() == [letter]


def test_of_a_record_that_was_too_long_to_keep_the_first_part_is_there(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    row = json.dumps({"scope": "acme/ana", "text": "Ana likes tea."})
    run(memsieve, tmp_path, "long.jsonl", row, "x" * 9_000_000)
    [letter] = listed(memsieve)
    told = letters(memsieve, "show", letter["id"]).out
    assert "9,000,000 bytes, of which 8,388,608 were kept" in told
    assert len(told) < 10_000
    shown = as_bytes("dead-letters", "show", letter["id"], *STORE, "--value")
    assert shown.stdout == b"x" * 8_388_608
    assert b"only the first 8,388,608 of 9,000,000 bytes were kept" in shown.stderr
    assert "only the first 8,388,608" in letters(memsieve, "requeue", letter["id"]).out


def test_what_was_published_cannot_steer_the_terminal(memsieve: Memsieve, tmp_path: Path) -> None:
    hostile = b"\x1b[2J\xff\x9b31m\nrequeued  all is well\x00"
    left_behind(of(hostile, "x"))
    for arguments in (("list",), ("show", "x"), ("requeue", "x")):
        printed = letters(memsieve, *arguments).out
        assert "\x1b" not in printed
        assert "\x00" not in printed
        assert not any(line.startswith("requeued") for line in printed.splitlines())
    value = ("dead-letters", "show", "x", *STORE, "--value")
    assert as_bytes(*value).stdout == hostile
    ours, theirs = pty.openpty()
    try:
        on_a_terminal = subprocess.run(
            [*COMMAND, *value], stdout=theirs, stderr=subprocess.PIPE, cwd=tmp_path, check=False
        )
        assert on_a_terminal.returncode == 2
        assert b"--value writes raw bytes" in on_a_terminal.stderr
        os.set_blocking(ours, False)
        with pytest.raises(BlockingIOError):
            os.read(ours, 1)
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_store_that_is_being_written_is_read_and_not_written(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    run(memsieve, tmp_path, "reused.jsonl", REUSED)
    directory = StoreDirectory(Path("store"))
    with directory.written_by_us(directory.require()):
        for command in ("requeue", "drop"):
            result = letters(memsieve, command, "--all-open")
            assert (result.code, result.out) == (3, "")
            assert "is being written by another memsieve" in result.err
            assert letters(memsieve, command, "--all-open", "--dry-run").code == 0
        assert len(listed(memsieve)) == 1


def test_a_place_without_a_store_is_told(memsieve: Memsieve, tmp_path: Path) -> None:
    write_events(tmp_path / "ana.jsonl", "Ana likes tea.")
    for command in ("list", "show x", "requeue --all-open", "drop --all-open"):
        result = memsieve("dead-letters", *command.split(), "--store", "none")
        assert result.code == 3
        assert "none holds no store" in result.err
    assert not Path("none").exists()


def test_a_reader_that_leaves_at_once_does_not_stop_the_work(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    """More letters than are settled together, and whoever reads of them is gone before the first."""
    rows = [{"event_id": f"e{n}", "scope": "acme/*", "text": "Ana likes tea."} for n in range(250)]
    (tmp_path / "many.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    assert memsieve("run", "many.jsonl", "--store", "many").code == 2  # no row was usable
    with start("dead-letters", "drop", "--all-open", "--store", "many", cwd=tmp_path) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(60) == 0
    found = memsieve("dead-letters", "list", "--store", "many", "--all", "--json").json()
    assert {letter["state"] for letter in found} == {"dropped"}
    assert len(found) == 250
