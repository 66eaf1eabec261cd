"""Commands that are killed in their middle: nothing is lost, and giving them again ends them."""

import json
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.commands.conftest import Memsieve, start

TEXTS = ("Ana likes tea.", "Ben keeps bees.", "Ana likes tea, says Ben.", "Cleo plays chess.")
TWICE = ("Bus 4 stops at the old mill at gate 8.", "At the old mill, bus 4 stops at gate 8.")
PARTS = (0.65, 0.8, 0.95)
"""How far a command has come when it is killed, as a part of the time that it takes."""

COMMANDS: Mapping[str, Sequence[str]] = {
    "pin": ("memory", "pin", "{first}"),
    "retire": ("memory", "retire", "{first}", "--reason", "invalid"),
    "forget": ("forget", "{first}"),
    "scrub": ("store", "scrub"),
    "consolidate": ("consolidate", "--now", "--force"),
    "expire": ("memory", "expire", "--policy", "short.toml"),
    "export": ("store", "export", "--tenant", "acme", "--out", "written"),
    "dedupe": ("dedupe", "in.jsonl", "--out", "written"),
}
DONE = ("is not live: ended: invalid", "already exists")
"""What is said where there was nothing left to be done."""
WITHOUT_STORE = frozenset({"dedupe"})


@pytest.fixture
def made(memsieve: Memsieve, tmp_path: Path) -> Path:
    """Make a store that has something to do for every command."""
    lines = [
        json.dumps(
            {
                "event_id": f"e-{number}",
                "scope": "acme/ana",
                "text": text,
                "persistence": "ephemeral" if number == 1 else "permanent",
                "occurred_at": "2026-03-01T09:00:00Z",
            }
        )
        for number, text in enumerate((*TEXTS, *TWICE))
    ]
    (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    short = memsieve("policy", "show", "default").out
    expiry = "[expiry]\nephemeral_days = 2\n"
    (tmp_path / "short.toml").write_text(f"{short}\n{expiry}", encoding="utf-8")
    store = tmp_path / "made"
    assert memsieve("run", "in.jsonl", "--policy", "keep-both", "--store", store).code == 0
    return store


@pytest.mark.parametrize("name", COMMANDS)
def test_killed_anywhere_it_is_ended_by_giving_it_again(
    memsieve: Memsieve, tmp_path: Path, made: Path, name: str
) -> None:
    first = _memories(memsieve, made)[TEXTS[0]]["id"]
    command = [part.format(first=first) for part in COMMANDS[name]]
    if name not in WITHOUT_STORE:
        command += ["--store", "store"]
    if name == "scrub":
        assert memsieve("forget", first, "--later", "--store", made).code == 0
    before = _outcome(memsieve, made, tmp_path / "written")
    _begin(made, tmp_path)
    started = time.monotonic()
    process = start(*command, cwd=tmp_path)
    process.communicate()
    seconds = time.monotonic() - started
    assert process.returncode == 0
    expected = _outcome(memsieve, tmp_path / "store", tmp_path / "written")
    assert expected != before
    for part in PARTS:
        _begin(made, tmp_path)
        process = start(*command, cwd=tmp_path)
        time.sleep(part * seconds)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        checked = memsieve("check", "--full", "--store", "store")
        assert checked.code == 0, checked.out
        again = memsieve(*command)
        assert again.code == 0 or any(said in again.err for said in DONE), again.err
        assert _outcome(memsieve, tmp_path / "store", tmp_path / "written") == expected


def _begin(made: Path, directory: Path) -> None:
    """Put everything back to where it was before the command."""
    for name in ("store", "written"):
        shutil.rmtree(directory / name, ignore_errors=True)
        (directory / name).unlink(missing_ok=True)
    shutil.copytree(made, directory / "store")


def _memories(memsieve: Memsieve, store: Path) -> dict[str, Any]:
    found = memsieve("memory", "list", "--store", store, "--json").json()
    return {one["text"]: one for one in found}


def _outcome(memsieve: Memsieve, store: Path, written: Path) -> list[object]:
    """Return what a command can have changed: memories, bytes that were forgotten, files."""
    live = {text: (one["pinned"], one["id"]) for text, one in _memories(memsieve, store).items()}
    said = TEXTS[0].encode()
    telling = {
        file.name for file in store.rglob("*") if file.is_file() if said in file.read_bytes()
    }
    files = [written] if written.is_file() else sorted(written.rglob("*"))
    return [live, bool(telling), {one.name: one.read_bytes() for one in files if one.is_file()}]
