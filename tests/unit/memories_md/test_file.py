"""A Memories.md on disk: replaced whole, kept in backups, and refused where it cannot be used."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from streams.memories_md.world.file import MemoriesFile
from streams.model.ports.failures import NoStore, Transient

ROOT = Path(__file__).parents[3]

KILLED = """
import os, signal, sys
from pathlib import Path
from streams.memories_md.world.file import MemoriesFile

steps = int(sys.argv[2])
def stepping(inner):
    def step(*arguments, **named):
        global steps
        steps -= 1
        if steps < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return inner(*arguments, **named)
    return step
for name in ("open", "fdopen", "fchmod", "fsync", "ftruncate", "pwrite"):
    setattr(os, name, stepping(getattr(os, name)))
Path.replace = stepping(Path.replace)
file = MemoriesFile(Path(sys.argv[1]))
with file.held():
    file.rewrite(lambda text: text + "third\\n")
"""


HOLDING = """
import fcntl, os, sys, time
lock = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(lock, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    # The wait is tested, its length is not.
    monkeypatch.setattr("streams.memories_md.world.file._BUSY_SECONDS", 0.02)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "Memories.md"


def rewritten(path: Path, text: str) -> bool:
    file = MemoriesFile(path)
    with file.held():
        return file.rewrite(lambda _: text)


@pytest.mark.covers("S3.10", "S3.47")
def test_a_file_that_is_not_there_is_made(path: Path) -> None:
    assert MemoriesFile(path).read() is None
    assert rewritten(path, "first\n")
    assert path.read_bytes() == b"first\n"
    assert MemoriesFile(path).read() == "first\n"
    assert {entry.name for entry in path.parent.iterdir()} == {"Memories.md", "Memories.md.lock"}


@pytest.mark.parametrize("content", ["\ufeffa\r\nb\n", "a\rb", "", "\x0bä\u2028🧀"])
def test_no_character_is_changed(path: Path, content: str) -> None:
    path.write_bytes(content.encode())
    assert MemoriesFile(path).read() == content
    rewritten(path, f"{content}+")
    assert path.read_bytes() == f"{content}+".encode()


@pytest.mark.covers("S3.50", "B73", "B102")
def test_three_backups_are_kept_the_newest_first(path: Path) -> None:
    for number in range(6):
        assert rewritten(path, f"{number}\n")
    backups = sorted(path.parent.glob("*.backup-*"))
    assert [backup.name[-1] for backup in backups] == ["1", "2", "3"]
    assert [backup.read_text("utf-8") for backup in backups] == ["4\n", "3\n", "2\n"]


def test_what_changes_nothing_writes_nothing(path: Path) -> None:
    rewritten(path, "first\n")
    before = path.stat().st_ino
    assert not rewritten(path, "first\n")
    assert path.stat().st_ino == before
    assert not list(path.parent.glob("*.backup-*"))


def test_mode_and_link_stay(path: Path) -> None:
    real = path.with_name("real.md")
    real.write_text("first\n", "utf-8")
    real.chmod(0o640)
    path.symlink_to(real.name)
    rewritten(path, "second\n")
    assert path.is_symlink()
    assert real.read_text("utf-8") == "second\n"
    assert real.stat().st_mode & 0o777 == 0o640


@pytest.mark.covers("S3.31")
def test_one_that_is_being_written_can_be_written_later(path: Path) -> None:
    busy = pytest.raises(Transient, match=f"another memsieve \\(process {os.getpid()}\\)")
    with MemoriesFile(path).held(), busy:
        rewritten(path, "first\n")
    assert rewritten(path, "first\n")


@pytest.mark.process
@pytest.mark.covers("S3.31")
def test_a_dead_process_holds_nothing(path: Path) -> None:
    command = [sys.executable, "-c", HOLDING, f"{path}.lock"]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(Transient):
        rewritten(path, "first\n")
    holder.kill()
    holder.communicate()
    assert rewritten(path, "first\n")


@pytest.mark.process
@pytest.mark.covers("S3.32", "S3.47", "D33", "B102")
def test_a_kill_at_any_step_leaves_a_whole_file(tmp_path: Path) -> None:
    (tmp_path / "killed.py").write_text(KILLED, "utf-8")
    seen: list[bytes] = []
    for steps in range(40):
        place = tmp_path / str(steps) / "Memories.md"
        place.parent.mkdir()
        rewritten(place, "first\n")
        rewritten(place, "first\nsecond\n")
        ended = subprocess.run(
            [sys.executable, str(tmp_path / "killed.py"), str(place), str(steps)],
            check=False,
            cwd=ROOT,
        )
        seen.append(place.read_bytes())
        backup = place.with_name("Memories.md.backup-1")
        if ended.returncode == 0:
            break
        assert ended.returncode == -signal.SIGKILL
        assert not backup.exists() or backup.read_bytes() in {b"first\n", b"first\nsecond\n"}
        assert rewritten(place, "after\n")
        assert backup.read_bytes() == seen[-1]
    assert len(seen) > 8
    assert set(seen) == {b"first\nsecond\n", b"first\nsecond\nthird\n"}
    assert seen == sorted(seen, key=len)


@pytest.mark.covers("D33")
def test_what_somebody_else_saves_meanwhile_is_not_lost(path: Path) -> None:
    path.write_text("first\n", "utf-8")
    calls: list[str] = []

    def edit(text: str) -> str:
        calls.append(text)
        if len(calls) == 1:
            path.write_text("by hand\n", "utf-8")
        return f"{text}added\n"

    file = MemoriesFile(path)
    with file.held():
        assert file.rewrite(edit)
    assert calls == ["first\n", "by hand\n"]
    assert path.read_text("utf-8") == "by hand\nadded\n"


def test_one_that_changes_without_end_is_given_up(path: Path) -> None:
    def edit(text: str) -> str:
        path.write_text(f"{text}x", "utf-8")
        return f"{text}added\n"

    file = MemoriesFile(path)
    with file.held(), pytest.raises(Transient, match="again and again"):
        file.rewrite(edit)
    assert path.read_text("utf-8") == "xxxxx"
    assert not path.with_name("Memories.md.unfinished").exists()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"a\nb\ncaf\xe9\n", r"Memories.md:3: byte 7 \(0xE9\) is not UTF-8"),
        ("ä".encode() + "ä".encode("latin-1"), r"Memories.md:1: byte 2 \(0xE4\)"),
        ("a\n".encode("utf-16"), "is UTF-16: save it as UTF-8"),
        (b"x" * 101, "has 101 bytes, and 100 are read at most: split it"),
    ],
)
@pytest.mark.covers("D33")
def test_what_cannot_be_read_is_refused_and_stays(
    path: Path, content: bytes, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.memories_md.world.file.BYTES_MAX", 100)
    path.write_bytes(content)
    file = MemoriesFile(path)
    with pytest.raises(NoStore, match=reason):
        file.read()
    with file.held(), pytest.raises(NoStore, match=reason):
        file.rewrite(lambda _: "lost")
    assert path.read_bytes() == content


def test_one_that_would_be_too_long_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.memories_md.world.file.BYTES_MAX", 100)
    file = MemoriesFile(path)
    with file.held(), pytest.raises(NoStore, match="would be longer than 100 bytes"):
        file.rewrite(lambda _: "x" * 101)
    assert not path.exists()


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoStore, match="is a directory: name a file"):
        MemoriesFile(tmp_path).read()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NoStore, match="is not a regular file"):
        MemoriesFile(tmp_path / "pipe").read()
    missing = MemoriesFile(tmp_path / "no" / "Memories.md")
    with pytest.raises(NoStore, match="directory around it is missing"):
        missing.require_writable()
    with pytest.raises(NoStore, match="directory around it is missing"), missing.held():
        pass
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(NoStore, match="links lead nowhere"):
        MemoriesFile(tmp_path / "loop").read()


def test_a_read_only_one_is_refused(path: Path) -> None:
    path.write_text("first\n", "utf-8")
    path.chmod(0o444)
    with pytest.raises(NoStore, match="is read-only: make it writable"):
        MemoriesFile(path).require_writable()
    path.chmod(0o644)
    MemoriesFile(path).require_writable()


def test_a_full_disk_leaves_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rewritten(path, "first\n")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(NoStore, match="the disk is full"):
        rewritten(path, "second\n")
    assert path.read_text("utf-8") == "first\n"
    assert not path.with_name("Memories.md.unfinished").exists()


def test_the_lock_is_let_go_of(path: Path) -> None:
    rewritten(path, "first\n")
    lock = os.open(f"{path}.lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(lock)
