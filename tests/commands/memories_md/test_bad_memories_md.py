"""Bad input: a Memories.md as it may come, through every command and through the writer.

The rest works, a line says what is wrong, and no byte is lost.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from streams.memories_md.world.file import BYTES_MAX
from tests.builders import event
from tests.commands.conftest import Memsieve, write_events

GOOD = "## Location 7: Quay\n\n### Memories\n\n**[NOTE] Ferry** *(Ep2, T5)*\nThe ferry leaves at noon.\n"
FILE = "Memories.md"


def write(content: bytes) -> Path:
    path = Path(FILE)
    path.write_bytes(content)
    return path


def too_large() -> None:
    with Path(FILE).open("wb") as file:
        file.truncate(BYTES_MAX + 1)


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "too large": (too_large, "are read at most: split it by location"),
    "a directory": (lambda: Path(FILE).mkdir(), "is a directory: name a file"),
    "two encodings": (
        lambda: write(GOOD.encode() + "Café\n".encode() + "Café\n".encode("latin-1")),
        f"{FILE}:8: byte",
    ),
    "UTF-16": (lambda: write(GOOD.encode("utf-16")), "is UTF-16: save it as UTF-8"),
}


@pytest.mark.covers("D33", "S3.50")
@pytest.mark.parametrize(("make", "reason"), REFUSED.values(), ids=list(REFUSED))
@pytest.mark.parametrize("command", ["memories-md import", "dedupe", "memories-md export", "run"])
def test_what_cannot_be_used_is_refused_with_its_reason_and_stays(
    memsieve: Memsieve,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    make: Callable[[], object],
    reason: str,
) -> None:
    write_events(Path("said.jsonl"), "Ana sails.")
    assert memsieve("run", "said.jsonl", "--store", "store").code == 0
    make()
    before = Path(FILE).stat()
    if command == "run":
        monkeypatch.setenv("MEMSIEVE_SINKS__MEMORIES_MD", FILE)
        refused = memsieve("run", "said.jsonl", "--store", "store")
    else:
        store = () if command == "dedupe" else ("--store", "store")
        refused = memsieve(*command.split(), FILE, *store)
    assert refused.code in {2, 3}
    assert reason in refused.err.replace("\n", " ")
    after = Path(FILE).stat()
    assert (after.st_ino, after.st_size, after.st_mtime_ns) == (
        before.st_ino,
        before.st_size,
        before.st_mtime_ns,
    )


@pytest.mark.covers("D33", "D38", "C17")
@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + GOOD.replace("\n", "\r\n"),
        GOOD.replace("### Memories\n", "### Memories\r\n"),
        GOOD + "\n" + GOOD.replace("Ferry", "Late ferry").replace("noon", "nine"),
    ],
    ids=["mark and CRLF", "both line ends", "two sections of one number"],
)
def test_what_is_unusual_is_kept_by_a_writer_character_by_character(
    memsieve: Memsieve, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("MEMSIEVE_SINKS__MEMORIES_MD", FILE)
    path = write(text.encode())
    said = event("The quay is wet.", event_id="wet", scope="world/7", title="Wet", turn=3)
    Path("said.jsonl").write_text(said.model_dump_json() + "\n", "utf-8")
    assert memsieve("run", "said.jsonl", "--store", "store").code == 0
    now = path.read_bytes().decode()
    added = [line for line in now.splitlines(keepends=True) if line not in text]
    assert [line.rstrip("\r\n") for line in added] == ["**[NOTE] Wet** *(T3)*", "The quay is wet."]
    assert path.with_name(f"{FILE}.backup-1").read_bytes().decode() == text
    for line in added:
        now = now.replace(line, "", 1)
    assert now.split() == text.split()


@pytest.mark.covers("S3.50")
def test_wrong_numbers_of_locations_are_told_and_the_rest_is_taken(memsieve: Memsieve) -> None:
    wrong = "\n## Location seven: Yard\n\n**[NOTE] Pit** *(Ep1, T1)*\nMind the pit.\n"
    write((GOOD + wrong + "\n" + GOOD.replace("noon", "dusk")).encode())
    told = memsieve("memories-md", "import", FILE, "--store", "store", "--json")
    lines = {one["line"]: one["message"] for one in told.json()["problems"]}
    assert "whole number" in lines[8]
    assert "belongs to no location" in lines[10]
    assert "has a section at line 1 already" in lines[13]
    assert told.json()["events"] == 2
    assert "Mind the pit." in Path(FILE).read_text("utf-8")


@pytest.mark.covers("S3.31")
def test_the_lock_of_a_process_that_died_is_no_lock(
    memsieve: Memsieve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMSIEVE_SINKS__MEMORIES_MD", FILE)
    Path(f"{FILE}.lock").write_text("999999999", "utf-8")
    write_events(Path("said.jsonl"), "Ana sails.", scope="world/1")
    assert memsieve("run", "said.jsonl", "--store", "store").code == 0
    assert "Ana sails." in Path(FILE).read_text("utf-8")


def test_a_read_only_file_is_read_and_not_kept(
    memsieve: Memsieve, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(GOOD.encode())
    path.chmod(0o444)
    assert (
        memsieve("memories-md", "import", FILE, "--store", "store", "--json").json()["events"] == 1
    )
    monkeypatch.setenv("MEMSIEVE_SINKS__MEMORIES_MD", FILE)
    write_events(Path("said.jsonl"), "Ana sails.", scope="world/1")
    refused = memsieve("run", "said.jsonl", "--store", "store")
    assert refused.code == 3
    assert "is read-only: make it writable" in refused.err.replace("\n", " ")
    assert path.read_bytes() == GOOD.encode()
