"""`memsieve memories-md import` and `memsieve memories-md export`: a Memories.md into a store, and back."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.commands.conftest import Memsieve

FILE = """\
# Location Memories

## Location 41: Lighthouse
**Visits:** 3 | **Episodes:** 1, 2

### Memories

**[SUCCESS - PERMANENT] Oil the lamp** *(Ep1, T23-24, +5)*
Whale oil from the shed keeps the lamp burning until dawn.

**[DANGER] Ninth stair** *(Ep1, T25→T48, -2, seen 3x)*
The ninth stair breaks under a heavy load.

Bo: I have seen this, too.

**[NOTE - SUPERSEDED] Keeper** *(Ep1, T26, Goal: Find help, food (or both))*
[Superseded at T40 by "Keeper is away"]
~~The keeper is asleep upstairs.~~

---

## Location: Harbour (ID: 7)

**[NOTE - TENTATIVE] Ferry** *(Ep2, T5)*
The ferry may come at noon.
**[DISCOVERY - EPHEMERAL] Crate** *(Ep2, T6)*
A crate of oranges floats in the water.
"""

UNTIDY = """\
Kept by Bo since spring.

## Location 3: Cave

**[note] Bats** *(ep1, dusk)*
Bats leave the cave at sunset.
They come back before dawn.
\\
Nobody knows where they sleep.

**[DANGER - core] Pit**
\\# A deep pit lies behind the second bend.

**[broken header
and what it says

## Cellar

**[NOTE] Homeless** *(Ep1, T5)*
This belongs to no location.
"""

FILES = {
    "tidy": FILE,
    "crlf": FILE.replace("\n", "\r\n"),
    "mark": "\ufeff" + FILE,
    "mark and crlf": "\ufeff" + FILE.replace("\n", "\r\n"),
    "untidy": UNTIDY,
    "no line end": FILE.rstrip("\n"),
    "nothing": "",
    "notes": "# Not ours\n\nOnly words.\n",
}


def write(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def live(memsieve: Memsieve, store: str = "store") -> dict[str, Any]:
    found = memsieve("memory", "list", "--store", store, "--json").json()
    return {memory["title"]: memory for memory in found}


@pytest.mark.parametrize("text", FILES.values(), ids=list(FILES))
@pytest.mark.covers("S0.64", "S3.11", "S3.12", "S3.13", "S3.50", "D38", "C17")
def test_a_file_that_is_imported_and_exported_is_the_same(
    memsieve: Memsieve, tmp_path: Path, text: str
) -> None:
    write(tmp_path / "Memories.md", text)
    copy = write(tmp_path / "copy.md", text)
    imported = memsieve("memories-md", "import", "Memories.md", "--store", "store")
    assert imported.code == 0, imported.err
    exported = memsieve("memories-md", "export", "copy.md", "--store", "store", "--json").json()
    assert exported["left_alone"] == []
    assert copy.read_bytes() == text.encode()
    assert exported["changed"] is False
    assert (tmp_path / "Memories.md").read_bytes() == text.encode()


@pytest.mark.covers("S3.7", "S3.8", "S0.33")
def test_entries_become_memories_of_their_locations(memsieve: Memsieve, tmp_path: Path) -> None:
    write(tmp_path / "Memories.md", FILE)
    told = memsieve(
        "memories-md", "import", "Memories.md", "--world", "coast", "--store", "store", "--json"
    )
    assert told.json() | {"seconds": 0, "problems": []} == {
        "events": 4,
        "retired": 1,
        "unchanged": 0,
        "decisions": {"insert": 4},
        "problems": [],
        "seconds": 0,
    }
    memories = live(memsieve)
    assert {title: memory["scope"] for title, memory in memories.items()} == {
        "Oil the lamp": "coast/41",
        "Ninth stair": "coast/41",
        "Ferry": "coast/7",
        "Crate": "coast/7",
    }
    assert memories["Ninth stair"]["metadata"]["seen"] == 3
    assert memories["Ferry"]["status"] == "tentative"


@pytest.mark.covers("S3.47", "S3.25")
def test_importing_again_changes_nothing(memsieve: Memsieve, tmp_path: Path) -> None:
    file = write(tmp_path / "Memories.md", FILE)
    memsieve("memories-md", "import", "Memories.md", "--store", "store")
    before = live(memsieve)
    os.utime(file, (2_000_000_000, 2_000_000_000))
    again = memsieve("memories-md", "import", "Memories.md", "--store", "store", "--json").json()
    assert again["decisions"] == {"ignore": 4}
    assert live(memsieve) == before


@pytest.mark.covers("S3.7", "S3.52", "S0.36")
def test_a_correction_by_hand_gives_the_memory_its_text(memsieve: Memsieve, tmp_path: Path) -> None:
    file = write(tmp_path / "Memories.md", FILE)
    memsieve("memories-md", "import", "Memories.md", "--store", "store")
    before = live(memsieve)["Ferry"]
    write(file, FILE.replace("may come at noon", "comes on Sundays only"))
    told = memsieve("memories-md", "import", "Memories.md", "--store", "store", "--json").json()
    assert told["decisions"] == {"ignore": 3, "replace": 1}
    after = live(memsieve)["Ferry"]
    assert after["id"] == before["id"]
    assert after["text"] == "The ferry comes on Sundays only."


@pytest.mark.covers("S3.50", "D40")
def test_what_cannot_be_read_is_told_with_its_line(memsieve: Memsieve, tmp_path: Path) -> None:
    twice = "\n**[NOTE] Pit**\nDig.\n\n**[NOTE] Pit**\nDig.\n\n**[NOTE] Nul**\nA \0 here.\n"
    write(tmp_path / "Memories.md", UNTIDY + "\n## Location 9: Yard\n" + twice)
    told = memsieve("memories-md", "import", "Memories.md", "--dry-run", "--json")
    problems = {problem["line"]: problem["message"] for problem in told.json()["problems"]}
    assert "not a header of an entry" in problems[14]
    assert "belongs to no location" in problems[19]
    assert problems[27] == "states the same as line 24; remove one of them"
    assert "text contains the character U+0000" in problems[30]
    assert "Memories.md:14: " in told.err
    assert [entry["title"] for entry in told.json()["entries"]] == ["Bats", "Pit", "Pit"]
    assert not (tmp_path / "memsieve-store").exists()
    shown = memsieve("memories-md", "import", "Memories.md", "--dry-run")
    assert "3 entries to import" in shown.out


@pytest.mark.covers("S0.64")
def test_events_can_be_written_and_run_elsewhere(memsieve: Memsieve, tmp_path: Path) -> None:
    write(tmp_path / "Memories.md", FILE)
    assert memsieve("memories-md", "import", "Memories.md", "--out", "events.jsonl").code == 0
    rows = [json.loads(line) for line in (tmp_path / "events.jsonl").read_bytes().splitlines()]
    assert [row["title"] for row in rows] == ["Oil the lamp", "Ninth stair", "Ferry", "Crate"]
    assert memsieve("run", "events.jsonl", "--store", "store").code == 0
    told = memsieve("memories-md", "import", "Memories.md", "--store", "store", "--json").json()
    assert told["decisions"] == {"ignore": 4}


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("no.md", None, "no.md: there is no such file"),
        ("directory", None, "is a directory: name a file"),
        ("latin.md", b"caf\xe9", "latin.md:1: byte 3 (0xE9) is not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(
    memsieve: Memsieve, tmp_path: Path, name: str, content: bytes | None, reason: str
) -> None:
    (tmp_path / "directory").mkdir()
    if content is not None:
        (tmp_path / name).write_bytes(content)
    refused = memsieve("memories-md", "import", name, "--store", "store")
    assert refused.code == 2
    assert reason in refused.err
    assert memsieve("memories-md", "import", name, "--world", "a//b", "--store", "store").code == 2


@pytest.mark.covers("S3.10", "S3.11", "S3.15", "S0.83", "B106")
def test_a_store_is_written_into_a_new_file(memsieve: Memsieve, tmp_path: Path) -> None:
    write(tmp_path / "Memories.md", FILE)
    memsieve("memories-md", "import", "Memories.md", "--store", "store")
    written = memsieve("memories-md", "export", "new.md", "--store", "store")
    assert written.code == 0
    assert "new.md written: 3 memories" in written.out
    assert (tmp_path / "new.md").read_text("utf-8") == (
        "# Location Memories\n\n"
        "## Location 7: Harbour\n**Visits:** 1 | **Episodes:** 2\n\n### Memories\n\n"
        "**[NOTE - TENTATIVE] Ferry** *(Ep2, T5)*\nThe ferry may come at noon.\n\n---\n\n"
        "## Location 41: Lighthouse\n**Visits:** 1 | **Episodes:** 1\n\n### Memories\n\n"
        "**[SUCCESS - PERMANENT] Oil the lamp** *(Ep1, T23-24, +5)*\n"
        "Whale oil from the shed keeps the lamp burning until dawn.\n\n"
        "**[DANGER] Ninth stair** *(Ep1, T25→T48, -2, seen 3x)*\n"
        "The ninth stair breaks under a heavy load.\n\n---\n"
    )
    assert "unchanged" in memsieve("memories-md", "export", "new.md", "--store", "store").out


def rows(path: Path, *events: dict[str, Any]) -> Path:
    base = {"kind": "remember", "schema_version": 1, "scope": "world/41"}
    lines = (
        json.dumps(
            {**base, "event_id": f"e{n}", "occurred_at": f"2030-01-0{n + 1}T00:00:00Z", **event}
        )
        for n, event in enumerate(events)
    )
    return write(path, "".join(f"{line}\n" for line in lines))


@pytest.mark.covers("S0.15", "S0.35", "S0.48", "S3.11", "S3.26")
def test_what_became_of_the_memories_is_brought_into_the_file(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    file = write(tmp_path / "Memories.md", FILE)
    memsieve("memories-md", "import", "Memories.md", "--store", "store")
    stair = live(memsieve)["Ninth stair"]["id"]
    rows(
        tmp_path / "more.jsonl",
        {
            "text": "Whale oil from the shed keeps the lamp burning until dawn.",
            "session": "2",
            "turn": 60,
        },
        {
            "text": "A carpenter has mended the stairs.",
            "title": "Mended stairs",
            "category": "NOTE",
            "session": "2",
            "turn": 61,
            "supersedes": [stair],
        },
    )
    run = memsieve("run", "more.jsonl", "--store", "store", "--policy", "memories-md")
    assert run.code == 0
    planned = memsieve("memories-md", "export", "Memories.md", "--store", "store", "--dry-run")
    assert "would be written: 4 memories" in planned.out
    assert file.read_text("utf-8") == FILE
    assert memsieve("memories-md", "export", "Memories.md", "--store", "store").code == 0
    expected = FILE.replace(
        "Oil the lamp** *(Ep1, T23-24, +5)*", "Oil the lamp** *(Ep2, T23→T60, +5, seen 2x)*"
    )
    expected = expected.replace(
        "**[DANGER] Ninth stair** *(Ep1, T25→T48, -2, seen 3x)*\n"
        "The ninth stair breaks under a heavy load.\n",
        "**[DANGER - SUPERSEDED] Ninth stair** *(Ep1, T25→T48, -2, seen 3x)*\n"
        '[Superseded by "Mended stairs"]\n'
        "~~The ninth stair breaks under a heavy load.~~\n",
    )
    expected = expected.replace(
        "upstairs.~~\n",
        "upstairs.~~\n\n"
        "**[NOTE] Mended stairs** *(Ep2, T61)*\nA carpenter has mended the stairs.\n",
    )
    assert file.read_text("utf-8") == expected
    assert (tmp_path / "Memories.md.backup-1").read_text("utf-8") == FILE
    memsieve("memories-md", "export", "Memories.md", "--store", "store")
    assert file.read_text("utf-8") == expected


@pytest.mark.covers("S0.64", "S0.35", "D12", "D13")
def test_entries_that_were_joined_say_so(memsieve: Memsieve, tmp_path: Path) -> None:
    start = "## Location 5: Yard\n### Memories\n\n"
    well = "**[NOTE] Well** *(Ep1, T3)*\nThe well behind the barn is empty.\n\n"
    more = "The well behind the barn is empty. The gate is shut at night."
    file = write(tmp_path / "Memories.md", f"{start}{well}**[NOTE] Gate** *(Ep1, T9)*\n{more}\n")
    told = memsieve("memories-md", "import", "Memories.md", "--store", "store", "--json").json()
    assert told["decisions"] == {"insert": 1, "merge": 1}
    assert memsieve("memories-md", "export", "Memories.md", "--store", "store").code == 0
    assert file.read_text("utf-8") == (
        f"{start}**[NOTE - SUPERSEDED] Well** *(Ep1, T3)*\n"
        '[Superseded by "Gate"]\n'
        "~~The well behind the barn is empty.~~\n\n"
        f"**[NOTE] Gate** *(Ep1, T3→T9, seen 2x)*\n{more}\n"
    )
    again = memsieve("memories-md", "export", "Memories.md", "--store", "store")
    assert "unchanged" in again.out
    assert again.err == ""


@pytest.mark.covers("S3.52")
def test_an_edit_that_was_not_imported_is_left_alone(memsieve: Memsieve, tmp_path: Path) -> None:
    file = write(tmp_path / "Memories.md", FILE)
    memsieve("memories-md", "import", "Memories.md", "--store", "store")
    edited = FILE.replace("may come at noon", "comes on Sundays only")
    write(file, edited)
    told = memsieve("memories-md", "export", "Memories.md", "--store", "store")
    assert told.code == 0
    assert 'location 7: "Ferry" was edited by hand and stays so: import it' in told.err
    assert file.read_text("utf-8") == edited
    memsieve("memories-md", "import", "Memories.md", "--store", "store")
    told = memsieve("memories-md", "export", "Memories.md", "--store", "store")
    assert told.err == ""
    assert file.read_text("utf-8") == edited


def test_only_the_world_that_was_asked_for_is_exported(memsieve: Memsieve, tmp_path: Path) -> None:
    write(tmp_path / "Memories.md", FILE)
    memsieve("memories-md", "import", "Memories.md", "--store", "store", "--world", "coast")
    assert "0 memories" in memsieve("memories-md", "export", "no.md", "--store", "store").out
    assert not (tmp_path / "no.md").exists()
    written = memsieve("memories-md", "export", "yes.md", "--store", "store", "--world", "coast")
    assert "3 memories" in written.out


def test_a_file_that_cannot_be_written_is_refused(memsieve: Memsieve, tmp_path: Path) -> None:
    write(tmp_path / "Memories.md", FILE).chmod(0o444)
    memsieve("memories-md", "import", "Memories.md", "--store", "store")
    refused = memsieve("memories-md", "export", "Memories.md", "--store", "store")
    assert refused.code == 3
    assert "is read-only" in refused.err
    assert memsieve("memories-md", "export", "new.md", "--store", "no").code == 3
    write(tmp_path / "kept.md.level.json", "{}")
    refused = memsieve("memories-md", "export", "kept.md", "--store", "store")
    assert refused.code == 2
    assert "is kept by sinks.memories_md already" in refused.err


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Name a file that each run keeps in step."""
    monkeypatch.setenv("MEMSIEVE_SINKS__MEMORIES_MD", "kept.md")
    monkeypatch.setenv("MEMSIEVE_POLICY", "memories-md")
    monkeypatch.setenv("MEMSIEVE_STORE", "store")
    return tmp_path / "kept.md"


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), "utf-8")


@pytest.mark.covers("S3.7", "S3.29", "S3.30", "S3.52", "S0.36")
def test_a_person_and_a_writer_share_a_file(memsieve: Memsieve, tmp_path: Path, kept: Path) -> None:
    rows(tmp_path / "rows.jsonl", {"text": "The gate is locked.", "title": "Gate", "turn": 3})
    assert memsieve("run", "rows.jsonl").code == 0
    assert "**[NOTE] Gate** *(T3)*\nThe gate is locked.\n" in kept.read_text("utf-8")
    told = memsieve("memories-md", "import", "kept.md", "--json").json()
    assert (told["events"], told["unchanged"]) == (0, 1)
    for old, new in [
        ("The gate is locked.", "The gate stands open at noon."),
        ("The gate stands open at noon.", "The gate is guarded by a dog."),
        ("The gate is guarded by a dog.", "The gate stands open at noon."),
        ("The gate stands open at noon.", "The gate is guarded by a dog."),
    ]:
        edit(kept, old, new)
        told = memsieve("memories-md", "import", "kept.md", "--json")
        assert told.json()["decisions"] == {"replace": 1}
        assert "by hand" not in told.err
        assert live(memsieve)["Gate"]["text"] == new
        assert new in kept.read_text("utf-8")
    assert kept.read_text("utf-8").count("**[NOTE") == 1
    assert memsieve("check", "--full", "--store", "store").code == 0


@pytest.mark.covers("S3.7", "S3.52", "B105", "C9", "B15")
@pytest.mark.parametrize(
    ("struck", "note"),
    [
        ("\n~~The gate is locked.~~\n", "struck through by hand"),
        ('\n[Invalidated at T9: "it was sold"]\n~~The gate is locked.~~\n', "it was sold"),
    ],
)
def test_what_a_person_strikes_through_ends(
    memsieve: Memsieve, tmp_path: Path, kept: Path, struck: str, note: str
) -> None:
    gate, ferry = ({"text": text, "turn": 3} for text in ("The gate is locked.", "Ferry at noon."))
    rows(tmp_path / "rows.jsonl", {**gate, "title": "Gate"}, {**ferry, "title": "Ferry"})
    assert memsieve("run", "rows.jsonl").code == 0
    edit(kept, "\nThe gate is locked.\n", struck)
    edited = kept.read_text("utf-8")
    assert "struck through by hand" in memsieve("memories-md", "import", "kept.md", "--dry-run").out
    told = memsieve("memories-md", "import", "kept.md", "--json")
    assert told.json()["decisions"] == {"revise": 1}
    assert list(live(memsieve)) == ["Ferry"]
    assert kept.read_text("utf-8") == edited
    assert "by hand" not in told.err
    [last] = memsieve("decisions", "--json", "--limit", 1).json()
    assert (last["event"]["kind"], last["event"]["reason"]) == ("retire", "invalid")
    assert last["event"]["note"] == note
    again = memsieve("memories-md", "import", "kept.md", "--json").json()
    assert (again["events"], again["unchanged"]) == (0, 2)
    assert memsieve("check", "--full", "--store", "store").code == 0


@pytest.mark.covers("D40")
def test_what_changed_since_it_was_struck_through_does_not_end(
    memsieve: Memsieve, tmp_path: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store has learnt more of it than the person has seen."""
    rows(tmp_path / "rows.jsonl", {"text": "The gate is locked.", "title": "Gate", "turn": 3})
    assert memsieve("run", "rows.jsonl").code == 0
    edit(kept, "\nThe gate is locked.\n", "\n~~The gate is locked.~~\n")
    monkeypatch.delenv("MEMSIEVE_SINKS__MEMORIES_MD")
    again = {"text": "The gate is locked.", "title": "Gate", "turn": 9, "event_id": "later"}
    rows(tmp_path / "more.jsonl", again)
    assert memsieve("run", "more.jsonl").code == 0
    told = memsieve("memories-md", "import", "kept.md", "--json").json()
    assert told["decisions"] == {"ignore": 1}
    assert list(live(memsieve)) == ["Gate"]


@pytest.mark.covers("S0.64", "S3.30")
def test_a_file_that_is_imported_can_be_kept_from_then_on(
    memsieve: Memsieve, tmp_path: Path, kept: Path
) -> None:
    write(kept, FILE)
    told = memsieve("memories-md", "import", "kept.md", "--json")
    assert told.json()["decisions"] == {"insert": 4}
    assert told.json()["problems"] != []
    assert kept.read_text("utf-8") == FILE
    rows(
        tmp_path / "rows.jsonl",
        {"text": "The ferry may come at noon.", "scope": "world/7", "session": "3", "turn": 9},
    )
    assert memsieve("run", "rows.jsonl").code == 0
    seen = FILE.replace("NOTE - TENTATIVE", "NOTE").replace("(Ep2, T5)", "(Ep3, T5→T9, seen 2x)")
    assert kept.read_text("utf-8") == seen


def test_an_export_of_sessions_called_as_episodes_reads_back(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    place = {"scope": "world/7", "turn": 3, "title": "Gate", "session": "Ep01"}
    rows(tmp_path / "rows.jsonl", {"text": "The gate is locked.", **place})
    memsieve("run", "rows.jsonl")
    memsieve("memories-md", "export", "out.md")
    written = (tmp_path / "out.md").read_text("utf-8")
    assert "*(Ep01, T3)*" in written
    memsieve("memories-md", "import", "out.md", "--store", "other")
    memsieve("memories-md", "export", "again.md", "--store", "other")
    assert (tmp_path / "again.md").read_text("utf-8") == written
    memsieve("memories-md", "export", "out.md", "--store", "other")
    assert (tmp_path / "out.md").read_text("utf-8") == written


def test_the_entries_of_a_kept_file_go_whole_into_another_store(
    memsieve: Memsieve, tmp_path: Path, kept: Path
) -> None:
    rows(tmp_path / "rows.jsonl", {"text": "The gate is locked.", "title": "Gate", "turn": 3})
    memsieve("run", "rows.jsonl")
    told = memsieve(
        "memories-md", "import", "kept.md", "--dry-run", "--store", "other", "--json"
    ).json()
    assert told["events"] == 1
    assert memsieve("memories-md", "import", "kept.md", "--out", "events.jsonl").code == 0
    assert (tmp_path / "events.jsonl").read_text("utf-8").count("\n") == 1
    assert kept.is_file()


@pytest.mark.parametrize("command", [("memories-md", "import"), ("dedupe",)])
def test_a_file_without_entries_is_told_what_one_looks_like(
    memsieve: Memsieve, tmp_path: Path, command: tuple[str, ...]
) -> None:
    (tmp_path / "Notes.md").write_text("# Notes\n\n- Ana likes tea.\n")
    told = memsieve(*command, "Notes.md")
    assert "an entry is a line `**[NOTE] Title**` with its text in the next line" in told.err
    (tmp_path / "Notes.md").write_text(FILE)
    assert "an entry is a line" not in memsieve(*command, "Notes.md").err


def test_an_older_entry_below_a_newer_one_does_not_replace_it(
    memsieve: Memsieve, tmp_path: Path
) -> None:
    now = "**[NOTE] Gate** *(Ep2, T5)*\nThe gate is closed.\n"
    before = "**[NOTE] Gate before** *(Ep1, T50)*\nThe gate is open.\n"
    (tmp_path / "gate.md").write_text(f"## Location 3: Gate\n\n{now}\n{before}", "utf-8")
    assert memsieve("memories-md", "import", "gate.md", "--world", "coast").code == 0
    [kept] = memsieve("memory", "list", "--json").json()
    assert kept["text"] == "The gate is closed."
