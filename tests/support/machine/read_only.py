"""A directory that nobody can write: as a backup is mounted, or as somebody else's looks."""

import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def read_only(directory: Path) -> Generator[None]:
    """Let nothing be written below a directory meanwhile; skip the test where root may not mount."""
    if os.geteuid() != 0:
        with _without_rights(directory):
            yield
        return
    if not _mount("--bind", directory, directory):
        pytest.skip("root may write everywhere, and mount nothing here")
    try:
        assert _mount("-o", "remount,ro,bind", directory)
        yield
    finally:
        subprocess.run(["umount", directory], check=True)


@contextmanager
def _without_rights(directory: Path) -> Generator[None]:
    paths = [directory, *directory.rglob("*")]
    modes = [path.stat().st_mode for path in paths]
    for path, mode in zip(paths, modes, strict=True):
        path.chmod(mode & ~0o222)
    try:
        yield
    finally:
        for path, mode in zip(paths, modes, strict=True):
            path.chmod(mode)


def _mount(*arguments: str | Path) -> bool:
    try:
        return (
            subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode == 0
        )
    except FileNotFoundError:
        return False
