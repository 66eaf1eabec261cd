"""`memsieve forget`: gone from every file, kept from coming back, and nothing else lost."""

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.commands.conftest import Memsieve
from tests.fakes.clock import StandingClock
from tests.support.machine.commands import start

ROOT = Path(__file__).parents[3]
CENTURY = 36_525 * 86_400.0

WORD = "Zyxquorblat"
"""No word of any other text, and no part of one."""

VAULT = f"The {WORD} vault opens with the code 47115820."
TEA = "Ana likes green tea."
MEETING = "The weekly meeting takes place on Tuesday."


def rows(path: Path, *texts: str, scope: str = "acme/ana", **fields: Any) -> Path:
    """Write events, each with an id of its own."""
    common = {"scope": scope, "occurred_at": "2026-03-01T09:00:00Z", **fields}
    lines = [
        json.dumps({"event_id": f"{path.stem}-{number}", "text": text, **common})
        for number, text in enumerate(texts)
    ]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def memories(memsieve: Memsieve, *arguments: object) -> dict[str, dict[str, Any]]:
    """Return the live memories of the store, by their texts."""
    found = memsieve("memory", "list", "--store", "store", "--json", *arguments).json()
    return {one["text"]: one for one in found}


def texts(memsieve: Memsieve) -> set[str]:
    return set(memories(memsieve))


def files_with(root: Path, words: Sequence[str]) -> list[str]:
    """Return the files below a directory that hold any of some words, whatever they are for."""
    return [
        str(path.relative_to(root))
        for path in sorted(root.rglob("*"))
        if path.is_file()
        for held in [_without_holes(path)]
        if any(word.encode() in held for word in words)
    ]


def _without_holes(path: Path) -> bytes:
    """Return what a file holds; most of an index's 190 MB was never written."""
    parts: list[bytes] = []
    end = path.stat().st_size
    with path.open("rb") as file:
        while file.tell() < end:
            try:
                start = file.seek(file.tell(), os.SEEK_DATA)
            except OSError:  # none is left
                break
            size = file.seek(start, os.SEEK_HOLE) - start
            file.seek(start)
            parts.append(file.read(size))
    return b"\0".join(parts)


def healthy(memsieve: Memsieve) -> None:
    found = memsieve("check", "--full", "--store", "store", "--json")
    assert found.code == 0, found.out


@pytest.fixture
def vault(memsieve: Memsieve, tmp_path: Path) -> str:
    """Make a store of three facts; return the id of the one that is to be forgotten."""
    assert (
        memsieve("run", rows(tmp_path / "in.jsonl", VAULT, TEA, MEETING), "--store", "store").code
        == 0
    )
    return memories(memsieve)[VAULT]["id"]


def test_what_was_compared_with_a_forgotten_memory_is_known_when_it_comes_again(
    memsieve: Memsieve,
) -> None:
    """Its decisions are erased, because they quote the forgotten one; the memories stay as they are."""
    file = ROOT / "examples/trap-door.jsonl"
    memsieve("run", file, "--store", "store")
    kept = memories(memsieve)
    [gone] = [text for text in kept if "way out" in text]
    forgot = memsieve("forget", kept[gone]["id"], "--store", "store")
    assert forgot.code == 0, forgot.err
    left = memories(memsieve)
    again = memsieve("run", file, "--store", "store", "--json")
    assert again.json()["decisions"]["ignore"] == 2
    assert memories(memsieve) == left
    healthy(memsieve)


@pytest.mark.covers("B135")
def test_no_file_of_the_store_holds_a_forgotten_word(
    memsieve: Memsieve, tmp_path: Path, vault: str
) -> None:
    assert files_with(tmp_path / "store", [WORD, "47115820"])
    told = memsieve("forget", vault[:8], "--store", "store")
    assert told.code == 0, told.err
    assert files_with(tmp_path / "store", [WORD, "47115820"]) == []
    assert texts(memsieve) == {TEA, MEETING}
    healthy(memsieve)


def test_later_leaves_the_files_to_scrub(memsieve: Memsieve, tmp_path: Path, vault: str) -> None:
    assert memsieve("forget", vault, "--later", "--store", "store").code == 0
    assert texts(memsieve) == {TEA, MEETING}
    assert memsieve("store", "scrub", "--store", "store").code == 0
    assert files_with(tmp_path / "store", [WORD, "47115820"]) == []
    assert memsieve("store", "scrub", "--store", "store", "--json").json() == {"records": 0}
    healthy(memsieve)


def test_a_dry_run_tells_what_would_go_and_changes_nothing(
    memsieve: Memsieve, tmp_path: Path, vault: str
) -> None:
    told = memsieve("forget", vault, "--dry-run", "--store", "store")
    assert VAULT in told.out
    assert texts(memsieve) == {VAULT, TEA, MEETING}
    assert not (tmp_path / "store" / "forget.key").exists()


def test_a_second_time_there_is_nothing_to_forget(memsieve: Memsieve, vault: str) -> None:
    assert memsieve("forget", vault, "--store", "store").code == 0
    again = memsieve("forget", vault, "--store", "store")
    assert again.code == 0
    assert "forgotten already" in again.out


def test_a_second_time_by_the_event_that_made_it_there_is_nothing_to_forget(
    memsieve: Memsieve, vault: str
) -> None:
    """The log has no event id any more; the memory's id is derived from it."""
    assert memsieve("forget", "in-0", "--store", "store").code == 0
    again = memsieve("forget", "in-0", "--store", "store")
    assert (again.code, again.out) == (0, "it is forgotten already\n")
    said = memsieve("explain", vault, "--store", "store").out
    assert "it says" not in said
    assert "forgotten" in said


def test_a_dry_run_tells_each_wording_that_goes_and_that_a_memory_is_pinned(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    first, second = "Mira is allergic to penicillin.", "Mira has a penicillin allergy."
    file = rows(tmp_path / "mira.jsonl", first, second)
    assert memsieve("run", file, "--store", "store").code == 0
    [mira] = memories(memsieve).values()
    assert memsieve("memory", "pin", mira["id"], "--store", "store").code == 0
    dry = ("forget", mira["id"], "--dry-run", "--store", "store")
    assert memsieve(*dry).out.splitlines()[:3] == [
        f"forget  {mira['id']}  pinned",
        f'        "{first}"',
        f'with it "{second}"',
    ]
    assert memsieve(*dry, "--json").json()["said_it_too"] == ["mira-1"]


def test_what_nothing_has_cannot_be_forgotten(memsieve: Memsieve, vault: str) -> None:
    assert vault
    assert memsieve("forget", "ffffffff", "--store", "store").code == 5
    assert memsieve("forget", "--scope", "acme/nobody", "--store", "store").code == 5
    assert memsieve("forget", "--tenant", "acm", "--store", "store").code == 5
    assert memsieve("forget", "--store", "store").code == 2
    assert memsieve("forget", vault, "--tenant", "acme", "--store", "store").code == 2
    assert "acme" in memsieve("memory", "list", "--store", "store").out


@pytest.mark.covers("B136", "D41")
@pytest.mark.parametrize(
    "said",
    [
        VAULT,
        VAULT.upper(),
        f"The  {WORD} vault opens with the code 47115820!",
        f"The vault {WORD} opens with code 47115820.",
    ],
    ids=["again", "in capitals", "with other marks", "reworded"],
)
def test_it_is_not_learnt_again(memsieve: Memsieve, tmp_path: Path, vault: str, said: str) -> None:
    assert memsieve("forget", vault, "--store", "store").code == 0
    assert memsieve("run", rows(tmp_path / "new.jsonl", said), "--store", "store").code == 0
    assert texts(memsieve) == {TEA, MEETING}
    assert files_with(tmp_path / "store", [WORD, WORD.upper()]) == []
    healthy(memsieve)


@pytest.mark.covers("B136", "D41", "C10")
def test_the_same_file_does_not_bring_it_back(
    memsieve: Memsieve, tmp_path: Path, vault: str
) -> None:
    assert memsieve("forget", vault, "--store", "store").code == 0
    ran = memsieve("run", tmp_path / "in.jsonl", "--store", "store", "--json")
    assert ran.code == 0
    assert texts(memsieve) == {TEA, MEETING}
    assert files_with(tmp_path / "store", [WORD]) == []


@pytest.mark.covers("B135", "B136", "D41")
@pytest.mark.parametrize("jump", [-CENTURY, CENTURY], ids=["set back", "years ahead"])
def test_a_clock_that_jumps_forgets_all_the_same_and_keeps_it_forgotten(
    memsieve: Memsieve, tmp_path: Path, clock: StandingClock, vault: str, jump: float
) -> None:
    """The order of the log counts, and not when a request or an event claims to be from."""
    clock.move(jump)
    assert memsieve("forget", vault, "--store", "store").code == 0
    clock.move(-jump)
    assert texts(memsieve) == {TEA, MEETING}
    for year in (1926, 2026, 2126):
        said = rows(tmp_path / f"{year}.jsonl", VAULT, occurred_at=f"{year}-03-02T09:00:00Z")
        told = memsieve("run", said, "--store", "store", "--json").json()
        assert told["decisions"]["block"] == 1
    assert texts(memsieve) == {TEA, MEETING}
    assert files_with(tmp_path / "store", [WORD]) == []
    healthy(memsieve)


@pytest.mark.covers("B135")
@pytest.mark.parametrize("year", [1926, 2126])
def test_what_was_said_long_before_or_is_dated_ahead_is_forgotten_now(
    memsieve: Memsieve, tmp_path: Path, year: int
) -> None:
    said = rows(tmp_path / "in.jsonl", VAULT, TEA, occurred_at=f"{year}-03-01T09:00:00Z")
    assert memsieve("run", said, "--store", "store").code == 0
    assert memsieve("forget", memories(memsieve)[VAULT]["id"], "--store", "store").code == 0
    assert texts(memsieve) == {TEA}
    assert files_with(tmp_path / "store", [WORD]) == []
    healthy(memsieve)


def test_another_number_is_another_fact(memsieve: Memsieve, tmp_path: Path, vault: str) -> None:
    other = VAULT.replace("47115820", "90356142")
    assert memsieve("forget", vault, "--store", "store").code == 0
    assert memsieve("run", rows(tmp_path / "new.jsonl", other), "--store", "store").code == 0
    assert texts(memsieve) == {TEA, MEETING, other}


@pytest.mark.covers("B136", "D41", "C10")
def test_a_copy_that_is_built_anew_does_not_have_it(
    memsieve: Memsieve, tmp_path: Path, vault: str
) -> None:
    assert memsieve("forget", vault, "--store", "store").code == 0
    assert memsieve("store", "replay", "rematerialise", "--store", "store").code == 0
    assert texts(memsieve) == {TEA, MEETING}
    assert files_with(tmp_path / "store", [WORD]) == []
    healthy(memsieve)


@pytest.mark.covers("B136", "D41", "C10")
def test_deciding_anew_does_not_bring_it_back(
    memsieve: Memsieve, tmp_path: Path, vault: str
) -> None:
    assert memsieve("forget", vault, "--store", "store").code == 0
    assert memsieve("store", "replay", "redecide", "--store", "store", "--into", "anew").code == 0
    assert files_with(tmp_path / "anew", [WORD]) == []
    assert memsieve("run", tmp_path / "in.jsonl", "--store", "anew").code == 0
    found = memsieve("memory", "list", "--store", "anew", "--json").json()
    assert {one["text"] for one in found} == {TEA, MEETING}


@pytest.mark.covers("B136", "D41", "C10")
def test_it_cannot_be_undone(memsieve: Memsieve, vault: str) -> None:
    made = next(
        one
        for one in memsieve("decisions", "--store", "store", "--json").json()
        if one["event"]["text"] == VAULT
    )
    assert memsieve("forget", vault, "--store", "store", "--json").code == 0
    erased = memsieve("decisions", "--store", "store", "--json").json()[-1]
    assert erased["kind"] == "erase"
    assert memsieve("undo", made["decision_id"], "--store", "store").code == 5
    assert memsieve("undo", erased["decision_id"], "--store", "store").code == 2
    assert texts(memsieve) == {TEA, MEETING}


@pytest.mark.covers("B142")
def test_a_tenant_is_exported_and_then_forgotten(memsieve: Memsieve, tmp_path: Path) -> None:
    assert memsieve("run", rows(tmp_path / "a.jsonl", VAULT, TEA), "--store", "store").code == 0
    file = rows(tmp_path / "b.jsonl", MEETING, scope="acme/ben")
    assert memsieve("run", file, "--store", "store").code == 0
    file = rows(tmp_path / "c.jsonl", TEA, scope="other/ana")
    assert memsieve("run", file, "--store", "store").code == 0
    assert (
        memsieve("store", "export", "--tenant", "nobody", "--out", "x", "--store", "store").code
        == 5
    )
    told = memsieve(
        "store", "export", "--tenant", "acme", "--out", "out", "--store", "store", "--json"
    )
    assert told.json()["memories"] == 3
    lines = (tmp_path / "out" / "memories.jsonl").read_text(encoding="utf-8").splitlines()
    assert {json.loads(line)["text"] for line in lines} == {VAULT, TEA, MEETING}
    assert (
        memsieve("store", "export", "--tenant", "acme", "--out", "out", "--store", "store").code
        == 2
    )
    assert memsieve("forget", "--tenant", "acme", "--store", "store").code == 0
    left = memsieve("memory", "list", "--store", "store", "--json").json()
    assert [(one["scope"], one["text"]) for one in left] == [("other/ana", TEA)]
    assert files_with(tmp_path / "store", [WORD, "Tuesday"]) == []
    healthy(memsieve)


def test_an_export_that_was_killed_is_written_anew(memsieve: Memsieve, tmp_path: Path) -> None:
    assert memsieve("run", rows(tmp_path / "a.jsonl", VAULT, TEA), "--store", "store").code == 0
    export = ("store", "export", "--tenant", "acme", "--out", "out", "--store", "store")
    assert memsieve(*export).code == 0
    out = tmp_path / "out"
    whole = {file.name: file.read_bytes() for file in out.iterdir()}
    (out / "memories.jsonl").rename(out / "memories.jsonl.unfinished")
    (out / "memories.jsonl.unfinished").write_bytes(whole["memories.jsonl"][:40])
    assert memsieve(*export).code == 0
    assert {file.name: file.read_bytes() for file in out.iterdir()} == whole


def test_a_scope_is_forgotten_and_its_neighbours_are_not(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    assert memsieve("run", rows(tmp_path / "a.jsonl", VAULT, TEA), "--store", "store").code == 0
    below = rows(tmp_path / "b.jsonl", MEETING, scope="acme/ana/work")
    assert memsieve("run", below, "--store", "store").code == 0
    assert memsieve("forget", "--scope", "acme/ana", "--store", "store").code == 0
    assert texts(memsieve) == {MEETING}
    healthy(memsieve)


def refused(path: Path) -> Path:
    """Write events that say what is to be forgotten, each unusable for a reason of its own."""
    said = {"kind": "remember", "schema_version": 1, "scope": "acme/ana", "text": VAULT}
    said |= {"event_id": "x", "occurred_at": "2026-03-01T09:00:00Z"}
    reused = {**said, "event_id": "in-1", "text": f"{VAULT[:-1]}!"}
    events = ({**said, "importance": 7}, {**said, "scope": "acme/*"}, reused)
    path.write_text("".join(json.dumps(one) + "\n" for one in events), encoding="utf-8")
    return path


@pytest.mark.covers("B136", "D41")
def test_a_dead_letter_that_is_requeued_does_not_bring_it_back(
    memsieve: Memsieve, tmp_path: Path, vault: str
) -> None:
    """As it was, where only its id was wrong, and mended where it could not be read."""
    assert memsieve("run", refused(tmp_path / "bad.jsonl"), "--store", "store").code == 2
    forgotten = ("forget", vault, "--later", "--store", "store")
    assert memsieve(*forgotten).code == 0
    mended = {"kind": "remember", "schema_version": 1, "event_id": "y", "scope": "acme/ana"}
    mended |= {"text": VAULT, "occurred_at": "2026-03-01T09:00:00Z"}
    (tmp_path / "mended.json").write_text(json.dumps(mended), encoding="utf-8")
    letters = memsieve("dead-letters", "list", "--store", "store", "--json").json()
    assert sorted(one["stage"] for one in letters) == ["decide", "decode", "decode"]
    for letter in letters:
        with_ = () if letter["stage"] == "decide" else ("--with", "mended.json")
        requeue = ("dead-letters", "requeue", letter["id"], *with_, "--store", "store")
        assert memsieve(*requeue).code == 0
    (tmp_path / "nothing.jsonl").touch()
    told = memsieve("run", "nothing.jsonl", "--store", "store", "--json").json()
    assert (told["events"], told["decisions"]["block"], told["dead_letters"]) == (3, 3, 0)
    assert texts(memsieve) == {TEA, MEETING}
    (tmp_path / "mended.json").unlink()
    assert memsieve("store", "scrub", "--store", "store").code == 0
    assert files_with(tmp_path / "store", [WORD]) == []
    healthy(memsieve)


@pytest.mark.covers("B135", "B136", "D41")
def test_a_dead_letter_that_says_it_goes_with_it_and_cannot_be_requeued(
    memsieve: Memsieve, tmp_path: Path, vault: str
) -> None:
    assert memsieve("run", refused(tmp_path / "bad.jsonl"), "--store", "store").code == 2
    letters = memsieve("dead-letters", "list", "--store", "store", "--json").json()
    assert len(letters) == 3
    assert memsieve("forget", vault, "--store", "store").code == 0
    assert memsieve("dead-letters", "list", "--all", "--store", "store", "--json").json() == []
    for letter in letters:
        assert memsieve("dead-letters", "requeue", letter["id"], "--store", "store").code == 5
    assert texts(memsieve) == {TEA, MEETING}
    assert files_with(tmp_path / "store", [WORD]) == []
    healthy(memsieve)


@pytest.mark.covers("B135", "B136")
@pytest.mark.parametrize("whole", [("--scope", "acme/ana"), ("--tenant", "acme")])
@pytest.mark.parametrize("later", [False, True])
@pytest.mark.usefixtures("vault")
def test_what_a_whole_scope_left_in_dead_letters_goes_with_it(
    memsieve: Memsieve, tmp_path: Path, whole: tuple[str, str], *, later: bool
) -> None:
    """Whatever it says: a letter that says something new has no tombstone."""
    reused = rows(tmp_path / "in.jsonl", "Bo collects stamps.", "Cleo sails.", scope="acme/ana")
    rows(tmp_path / "other.jsonl", "Dan skates.", scope="other/dan")
    rows(tmp_path / "none.jsonl", "Dan skates on ice.", scope="other/dan", importance=7)
    given = (reused, tmp_path / "other.jsonl", tmp_path / "none.jsonl")
    assert memsieve("run", *given, "--store", "store", "--json").json()["dead_letters"] == 3
    asked = ("forget", *whole, *(("--later",) if later else ()), "--store", "store")
    assert memsieve(*asked, "--dry-run").code == 0
    assert files_with(tmp_path / "store", ["stamps"])
    assert memsieve(*asked).code == 0
    if later:
        assert memsieve("store", "scrub", "--store", "store").code == 0
    assert files_with(tmp_path / "store", [WORD, "stamps", "sails"]) == []
    [left] = memsieve("dead-letters", "list", "--all", "--store", "store", "--json").json()
    assert left["origin"].endswith("none.jsonl:1")
    healthy(memsieve)


@pytest.mark.covers("B135")
@pytest.mark.parametrize(
    "broken",
    [
        f'{{"text": "{VAULT}", "scope": "acme/ana", "tags": [',
        f'{{"text": "{VAULT}", "scope": acme/ana}}',
        VAULT,
    ],
    ids=["cut short", "damaged", "no JSON"],
)
def test_a_row_that_could_not_be_read_loses_its_words_too(
    memsieve: Memsieve, tmp_path: Path, vault: str, broken: str
) -> None:
    good = json.dumps({"text": TEA, "scope": "acme/ana"})
    (tmp_path / "broken.jsonl").write_text(f"{good}\n{broken}\n", encoding="utf-8")
    ran = memsieve("run", "broken.jsonl", "--store", "store", "--json").json()
    assert ran["dead_letters"] == 1
    assert memsieve("forget", vault, "--store", "store").code == 0
    assert files_with(tmp_path / "store", [WORD, "47115820"]) == []
    healthy(memsieve)


@pytest.mark.covers("B135")
def test_an_event_that_was_refused_loses_its_words_too(
    memsieve: Memsieve, tmp_path: Path, vault: str
) -> None:
    reused = rows(tmp_path / "reused.jsonl", VAULT)
    reused.write_text(reused.read_text().replace("reused-0", "in-1"), encoding="utf-8")
    assert memsieve("run", reused, "--store", "store", "--json").json()["dead_letters"] == 1
    assert memsieve("forget", vault, "--store", "store").code == 0
    assert files_with(tmp_path / "store", [WORD, "47115820"]) == []
    healthy(memsieve)


@pytest.mark.covers("B136", "D41")
def test_the_import_of_an_older_memories_md_does_not_bring_it_back(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    place = {"scope": "house/41", "persistence": "permanent", "title": "Vault"}
    assert memsieve("run", rows(tmp_path / "a.jsonl", VAULT, **place), "--store", "store").code == 0
    place["title"] = "Tea"
    assert memsieve("run", rows(tmp_path / "b.jsonl", TEA, **place), "--store", "store").code == 0
    file = tmp_path / "Memories.md"
    assert memsieve("memories-md", "export", file, "--world", "house", "--store", "store").code == 0
    assert WORD in file.read_text(encoding="utf-8")
    assert memsieve("forget", memories(memsieve)[VAULT]["id"], "--store", "store").code == 0
    assert memsieve("memories-md", "import", file, "--world", "house", "--store", "store").code == 0
    assert texts(memsieve) == {TEA}
    assert files_with(tmp_path / "store", [WORD]) == []
    healthy(memsieve)


def test_a_kill_in_the_middle_is_finished_by_the_next_command(
    memsieve: Memsieve, tmp_path: Path, vault: str
) -> None:
    """Killed anywhere, what was asked for is done in full once it is asked for again."""
    said, environment = tmp_path / "said", dict(os.environ)  # noqa: TID251
    for seconds in (0.05, 0.1, 0.15, 0.2, 0.25, 0.3):
        forgetting = ("forget", vault, "--store", "store")
        process = start(
            *forgetting, environment=environment, directory=tmp_path, out=said, err=said
        )
        time.sleep(seconds)
        process.kill()
        process.join()
        assert TEA in texts(memsieve)
    assert memsieve("forget", vault, "--store", "store").code == 0
    assert memsieve("store", "scrub", "--store", "store").code == 0
    assert texts(memsieve) == {TEA, MEETING}
    assert files_with(tmp_path / "store", [WORD, "47115820"]) == []
    healthy(memsieve)


def test_the_copies_lose_it_too(memsieve: Memsieve, tmp_path: Path, monkeypatch: Any) -> None:
    copies = tmp_path / "copies"
    copies.mkdir()
    monkeypatch.setenv("MEMSIEVE_SINKS__SQLITE", str(copies / "memories.sqlite3"))
    monkeypatch.setenv("MEMSIEVE_SINKS__JSONL", str(copies / "lines"))
    monkeypatch.setenv("MEMSIEVE_SINKS__MEMORIES_MD", str(copies / "Memories.md"))
    monkeypatch.setenv("MEMSIEVE_SINKS__MEMORIES_MD_WORLD", "house")
    place = {"scope": "house/41", "persistence": "permanent", "title": f"{WORD} vault"}
    assert memsieve("run", rows(tmp_path / "a.jsonl", VAULT, **place), "--store", "store").code == 0
    place["title"] = "Tea"
    assert memsieve("run", rows(tmp_path / "b.jsonl", TEA, **place), "--store", "store").code == 0
    place["title"] = "Meeting"
    file = rows(tmp_path / "c.jsonl", MEETING, **place)
    assert memsieve("run", file, "--store", "store").code == 0
    before = files_with(copies, [WORD])
    assert {"Memories.md", "lines/memories-0.jsonl"} <= set(before)
    assert memsieve("forget", memories(memsieve)[VAULT]["id"], "--store", "store").code == 0
    assert files_with(copies, [WORD, "47115820"]) == []
    assert TEA in (copies / "Memories.md").read_text(encoding="utf-8")
    healthy(memsieve)
