"""The directory of an embedded store: its manifest, its files, and the lock of its writer.

STORE/memsieve.json     what the store was made for
STORE/log.sqlite3       topics, offsets, groups: the truth
STORE/index/            the searchable copy, can be rebuilt
STORE/policies/         the policies that the decisions name
STORE/passes.sqlite3    when each scope was consolidated, may be deleted
STORE/forget.key        the secret that tombstones are made with, once something was forgotten
STORE/lock              held by the one process that writes
"""

import fcntl
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from pydantic import ValidationError, field_validator

from schemas.base import ModelId, Record
from streams.model.embedding import base_model
from streams.model.ports.failures import NoStore


class IndexKind(StrEnum):
    """The kind of search index: Qdrant's engine on disk, numpy in memory, or a Qdrant server."""

    EDGE = "edge"
    EXACT = "exact"
    QDRANT = "qdrant"

    @property
    def shared(self) -> bool:
        """Whether several processes may use it at once; a store has an index of its own instead."""
        return self is IndexKind.QDRANT

    @property
    def durable(self) -> bool:
        """Whether it outlives the process that uses it."""
        return self is not IndexKind.EXACT


class StoreManifest(Record):
    """What a store was made for; it cannot be used for anything else."""

    format: Literal[1] = 1
    model: ModelId
    dimension: int
    index: IndexKind
    partitions: int

    @field_validator("index")
    @classmethod
    def _is_the_stores_own(cls, kind: IndexKind) -> IndexKind:
        if kind.shared:
            raise ValueError(f"{kind} is no index of a store")
        return kind


class StoreDirectory:
    """The paths of the store's files, and its manifest, lock, policies and key."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = path / "log.sqlite3"
        self.index = path / "index"
        self.passes = path / "passes.sqlite3"
        self._manifest = path / "memsieve.json"
        self._policies = path / "policies"
        self._lock = path / "lock"
        self._key = path / "forget.key"

    def manifest(self) -> StoreManifest | None:
        """Return what the store was made for; None if there is no store.

        Raises NoStore if the manifest cannot be read.
        """
        try:
            return StoreManifest.model_validate_json(self._manifest.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValidationError) as error:
            raise NoStore(
                f"{self._manifest} cannot be read: restore it from a copy, or use another store"
            ) from error

    def require(self) -> StoreManifest:
        """Return what the store was made for. Raises NoStore if there is no store."""
        manifest = self.manifest()
        if manifest is None:
            raise NoStore(
                f"{self.path} holds no store; make one with: memsieve run FILE --store {self.path}"
            )
        return manifest

    @contextmanager
    def written_by_us(self, wanted: StoreManifest) -> Generator[None]:
        """Hold the store for writing. A new one is only a directory until `complete`.

        Raises NoStore, with nothing changed, if another process holds it, it cannot be written, it
        was made for something else, or a part of it is missing.
        """
        self.check(wanted)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            reason = "it is a file" if self.path.is_file() else error.strerror
            raise NoStore(f"{self.path} cannot be used as a store: {reason}") from error
        try:
            self._hold(lock)
            self.check(wanted)
            yield
        finally:
            os.close(lock)

    def complete(self, made: StoreManifest, *, has_records: bool) -> None:
        """Write the manifest of a new store, once its log exists.

        Raises NoStore if the log already has records: then their manifest was lost.
        """
        if self.manifest() is not None:
            return
        if has_records:
            raise NoStore(f"{self._manifest} is gone: restore it from a copy")
        _write(self._manifest, made.model_dump_json(indent=2))

    def holder(self) -> str | None:
        """Return the id of the process that writes the store now; None if there is none."""
        try:
            lock = os.open(self._lock, os.O_RDWR)
        except OSError:
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return _holder(lock)
        else:
            return None
        finally:
            os.close(lock)

    @property
    def read_only(self) -> bool:
        """Whether nothing can be written here: a mount for reading, a backup of somebody else's."""
        return not _is_writable(self.path)

    @contextmanager
    def index_to_read(self) -> Generator[Path]:
        """Give the index to be opened: a copy of it, while it is used, where it cannot be written.

        Its engine writes when it is opened. Raises NoStore where there is no room for a copy.
        """
        if all(map(_is_writable, (self.index, *self.index.rglob("*")))):
            yield self.index
            return
        with TemporaryDirectory() as there:
            copy = Path(there) / self.index.name
            try:
                _copy(self.index, copy)
            except OSError as error:
                raise NoStore(
                    f"{self.index} cannot be written, nor copied into {there} to be read: "
                    f"{error.strerror}; name another directory with TMPDIR"
                ) from error
            yield copy

    def keep_policy(self, policy_id: str, content: str) -> None:
        """Keep a policy next to the decisions that name it, so that they can be explained later."""
        path = self._policies / f"{policy_id}.json"
        if not path.exists():
            self._policies.mkdir(exist_ok=True)
            _write(path, content)

    def policy(self, policy_id: str) -> str | None:
        """Return a policy that decisions of this store name; None if it is not kept."""
        path = self._policies / f"{policy_id}.json"
        return path.read_text(encoding="utf-8") if path.is_file() else None

    def key(self) -> str | None:
        """Return the store's secret; None if nothing was ever forgotten."""
        try:
            return self._key.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise NoStore(f"{self._key} cannot be read: restore it from a copy") from error

    def keep_key(self, secret: str) -> None:
        """Keep a secret for the store, readable only by its owner; an existing one stays."""
        if self.key() is None:
            _write(self._key, secret, mode=0o600)

    def require_space(self, free_bytes_min: int) -> None:
        """Raise NoStore if the disk is nearly full."""
        existing = next(
            path for path in (self.path, *self.path.absolute().parents) if path.exists()
        )
        free = shutil.disk_usage(existing).free
        if free < free_bytes_min:
            raise NoStore(
                f"the disk of {self.path} is nearly full: {free:,} bytes are left, and "
                f"{free_bytes_min:,} are kept free (run.free_disk_bytes_min); free some space, "
                "then start again"
            )

    def _hold(self, lock: int) -> None:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = _holder(lock)
            if holder == str(os.getpid()):
                raise NoStore(
                    f"{self.path} is being written by another memsieve in this process: close that "
                    "one first"
                ) from error
            raise NoStore(
                f"{self.path} is being written by another memsieve (process {holder}); wait until "
                "it ends, or use another store"
            ) from error
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)

    def check(self, wanted: StoreManifest) -> None:
        """Raise NoStore if the store was made for something else, or has lost a part."""
        made = self.manifest()
        if made is None:
            self._require_room()
            return
        if not self.log.is_file() or self.log.stat().st_size == 0:
            raise NoStore(f"{self.log} is gone or empty: restore it from a copy")
        if made == wanted:
            return
        differing = [
            f"{name} {getattr(made, name)}, not {getattr(wanted, name)}"
            for name in ("model", "dimension", "index", "partitions")
            if getattr(made, name) != getattr(wanted, name)
        ]
        of_precision = made.model != wanted.model and base_model(made.model) == base_model(
            wanted.model
        )
        setting = "the embedder.precision" if of_precision else "the setting"
        raise NoStore(
            f"{self.path} was made with {'; '.join(differing)}: use {setting} that it was made "
            "with, or another store"
        )

    def _require_room(self) -> None:
        """Raise NoStore if a new store would share its directory with other files."""
        ours = (self._manifest, self.log, self.index, self._policies, self._lock, self._key)
        stems = {path.name.split(".")[0] for path in ours}
        names = [path.name for path in self.path.iterdir()] if self.path.is_dir() else []
        foreign = [name for name in names if name.split(".")[0] not in stems]
        if foreign:
            raise NoStore(
                f"{self.path} is not a store and holds other files ({foreign[0]}, …): name a new "
                "directory"
            )


def _is_writable(path: Path) -> bool:
    return os.access(path, os.W_OK)


def _copy(directory: Path, to: Path) -> None:
    """Copy a directory's files, but not who may write them."""
    to.mkdir()
    for path in directory.iterdir():
        if path.is_dir():
            _copy(path, to / path.name)
        else:
            shutil.copyfile(path, to / path.name)


def _holder(lock: int) -> str:
    return os.pread(lock, 20, 0).decode("ascii", "replace").strip() or "unknown"


def _write(path: Path, content: str, *, mode: int = 0o666) -> None:
    """Write a file atomically and durably."""
    unfinished = path.with_suffix(".unfinished")
    try:
        unfinished.unlink(missing_ok=True)
        new = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(new, "w", encoding="utf-8") as file:
            file.write(content + "\n")
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError as error:
        raise NoStore(f"{path} cannot be written: {error.strerror}") from error
