"""A kept Memories.md, read while its first entries are being written."""

from pathlib import Path

import pytest

from streams.memories_md.world.file import MemoriesFile
from streams.memories_md.world.level import Coming, Level, LevelFile, digest
from streams.store.app.failures import NoStore
from streams.verify.app.copies import MemoriesMdCopy


def _kept(path: Path, level: Level) -> MemoriesMdCopy:
    file = MemoriesFile(path)
    LevelFile(file).keep(level)
    return MemoriesMdCopy(file, "skerry")


async def test_a_file_that_is_announced_and_not_yet_written_holds_nothing(tmp_path: Path) -> None:
    coming = Coming(before=digest(""), after=digest("# Memories\n"), memories={})
    copy = _kept(tmp_path / "Kept.md", Level(coming=coming))
    assert [told async for told in copy.scan(1)] == []


async def test_a_file_that_was_there_and_is_gone_is_told(tmp_path: Path) -> None:
    copy = _kept(tmp_path / "Kept.md", Level())
    with pytest.raises(NoStore, match="is gone: restore it from a backup"):
        _ = [told async for told in copy.scan(1)]
