"""Reversible writing of a Memories.md, by means of `FILE.undo.json`.

The file is written only if it is still what was read, and restored only if it is still what was
written: edits made in between are never overwritten.
"""

import stat
from typing import Literal

from pydantic import ValidationError

from schemas.base import Record
from streams.memories_md.world.file import BACKUPS, UNDO, MemoriesFile, meanings, write_durably
from streams.memories_md.world.level import digest
from streams.model.ports.failures import Fatal, Unusable


class _Undo(Record):
    """A file's text before it was written, and the SHA-256 of the texts before and after."""

    format: Literal[1] = 1
    before: str
    before_sha256: str
    after_sha256: str


def write(file: MemoriesFile, before: str, after: str) -> None:
    """Replace a file's text, after writing the undo file.

    Raises Fatal, with nothing changed, if the file is no longer what was read.
    """
    file.require_writable()
    undo = _Undo(before=before, before_sha256=digest(before), after_sha256=digest(after))

    def edit(now: str) -> str:
        if now != before:
            raise Fatal(f"{file.path} has changed meanwhile; nothing was written: run again")
        return after

    with file.held():
        edit(file.read() or "")
        _keep(file, undo)
        file.rewrite(edit)


def restore(file: MemoriesFile) -> None:
    """Restore a file to what it was before `write` last changed it.

    Raises Unusable if there is nothing to undo, and Fatal, with nothing changed, if the file was
    edited since.
    """
    undo = _read(file)
    file.require_writable()

    def edit(now: str) -> str:
        if digest(now) not in {undo.after_sha256, undo.before_sha256}:
            raise Fatal(
                f"{file.path} was edited since; nothing was changed. Its previous text is in "
                f"{file.beside(UNDO).name}"
            )
        return undo.before

    with file.held():
        file.rewrite(edit)
        with meanings(file.path):
            file.beside(UNDO).unlink()


def _keep(file: MemoriesFile, undo: _Undo) -> None:
    """Write the undo file atomically, with the file's own permissions."""
    unfinished, kept = file.beside(f"{UNDO}-unfinished"), file.beside(UNDO)
    with meanings(kept):
        mode = stat.S_IMODE(file.path.stat().st_mode)
        write_durably(unfinished, undo.model_dump_json(indent=2).encode(), mode)
        unfinished.replace(kept)


def _read(file: MemoriesFile) -> _Undo:
    path = file.beside(UNDO)
    name = path.name
    if not path.is_file():
        raise Unusable(
            f"{name} does not exist: {file.path} was not cleaned, or the cleaning was undone"
        )
    try:
        with meanings(path):
            undo = _Undo.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise Unusable(
            f"{name} is not an undo file; put one of {_backups(file)} back by hand"
        ) from error
    if digest(undo.before) != undo.before_sha256:
        raise Unusable(f"{name} is damaged; put one of {_backups(file)} back by hand")
    return undo


def _backups(file: MemoriesFile) -> str:
    return f"{file.beside('backup-1').name} to -{BACKUPS}"
