"""A kept Memories.md, read before it has an entry, and when it is gone."""

from pathlib import Path

import pytest

from schemas.base import MemoryId
from streams.memories_md.core.keeping import PlacedEntry
from streams.memories_md.world.file import MemoriesFile
from streams.memories_md.world.level import FileLevel, LevelFile, PendingChange, digest
from streams.store.app.failures import NoStore
from streams.verify.app.copies import MemoriesMdCopy


def _kept(path: Path, level: FileLevel) -> MemoriesMdCopy:
    file = MemoriesFile(path)
    LevelFile(file).keep(level)
    return MemoriesMdCopy(file, "skerry")


@pytest.mark.parametrize(
    "coming", [None, PendingChange(before=digest(""), after=digest("# Memories\n"), memories={})]
)
async def test_a_file_without_a_memory_yet_holds_nothing(
    tmp_path: Path, coming: PendingChange | None
) -> None:
    copy = _kept(tmp_path / "Kept.md", FileLevel(coming=coming))
    assert [told async for told in copy.scan(1)] == []


async def test_a_file_that_was_there_and_is_gone_is_told(tmp_path: Path) -> None:
    entry = PlacedEntry(1, location=6, title="Door", called="Door", words="", text="")
    copy = _kept(tmp_path / "Kept.md", FileLevel(memories={MemoryId("door"): entry}))
    with pytest.raises(NoStore, match="is gone: restore it from a backup"):
        _ = [told async for told in copy.scan(1)]
