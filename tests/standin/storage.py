"""The collections and aliases of one data directory, each collection a shard of the engine."""

import itertools
import shutil
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

import qdrant_edge as engine
from pydantic import BaseModel
from qdrant_client.http import models as rest

from tests.standin import translation
from tests.standin.translation import Refused

_FORBIDDEN = set('<>:"/\\|?*\0\x1f')
_LONGEST_NAME = 255


class _Registry(BaseModel):
    """What the engine does not keep: it knows no collections, and no names for them."""

    collections: dict[str, rest.CreateCollection] = {}
    aliases: dict[str, str] = {}


class Collection:
    """A collection, used by one request at a time."""

    def __init__(self, name: str, created: rest.CreateCollection, shard: engine.EdgeShard) -> None:
        self.created = created
        self._name = name
        self._shard = shard
        self._lock = threading.Lock()
        self._open = True
        self._operations = itertools.count()

    @contextmanager
    def shard(self) -> Generator[engine.EdgeShard]:
        with self._lock:
            if not self._open:
                raise _no_collection(self._name)
            yield self._shard

    def update(self, operation: engine.UpdateOperation) -> int:
        """Apply an operation and return its number, counted from the start of the process."""
        with self.shard() as shard:
            shard.update(operation)
            return next(self._operations)

    def delete(self) -> None:
        with self.shard() as shard:
            self._open = False
            shard.close()

    def end(self) -> None:
        """Write everything out, and keep whoever still asks waiting until the process is gone."""
        self._lock.acquire()
        self._shard.flush()
        self._shard.close()


class Storage:
    """All collections; what it returned as done is there again after a kill."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._file = data / "registry.json"
        self._lock = threading.Lock()
        data.mkdir(parents=True, exist_ok=True)
        self._registry = _Registry()
        if self._file.exists():
            self._registry = _Registry.model_validate_json(self._file.read_bytes())
        self._collections = {
            name: Collection(name, created, engine.EdgeShard.load(str(data / name)))
            for name, created in self._registry.collections.items()
        }

    def create(self, name: str, wanted: rest.CreateCollection) -> None:
        _refuse_bad_name(name)
        config = translation.shard(wanted)
        with self._lock:
            _refuse_existing(name, self._registry.collections)
            if name in self._registry.aliases:
                raise Refused(
                    HTTPStatus.BAD_REQUEST,
                    f"Wrong input: Can't create collection with name {name}. "
                    "Alias with the same name already exists",
                )
            path = self._data / name
            shutil.rmtree(path, ignore_errors=True)  # what a kill left of a creation or deletion
            self._collections[name] = Collection(
                name, wanted, engine.EdgeShard.create(str(path), config)
            )
            self._keep({**self._registry.collections, name: wanted}, self._registry.aliases)

    def delete(self, name: str) -> bool:
        """Delete a collection and its aliases; say whether there was one of exactly this name."""
        with self._lock:
            gone = self._collections.pop(name, None)
            if gone is None:
                return False
            collections = {k: v for k, v in self._registry.collections.items() if k != name}
            aliases = {k: v for k, v in self._registry.aliases.items() if v != name}
            self._keep(collections, aliases)
            gone.delete()
            shutil.rmtree(self._data / name)
            return True

    def get(self, name: str) -> Collection:
        """Return a collection by its name or an alias of it."""
        with self._lock:
            known = self._collections.get(self._registry.aliases.get(name, name))
        if known is None:
            raise _no_collection(name)
        return known

    def names(self) -> list[str]:
        with self._lock:
            return sorted(self._collections)

    def exists(self, name: str) -> bool:
        with self._lock:
            return self._registry.aliases.get(name, name) in self._collections

    def aliases(self) -> dict[str, str]:
        with self._lock:
            return self._registry.aliases

    def change_aliases(self, actions: Sequence[rest.AliasOperations]) -> None:
        """Take all the actions, in order, or none of them."""
        with self._lock:
            aliases = dict(self._registry.aliases)
            for action in actions:
                self._change_alias(aliases, action)
            self._keep(self._registry.collections, aliases)

    def _change_alias(self, aliases: dict[str, str], action: rest.AliasOperations) -> None:
        match action:
            case rest.CreateAliasOperation(create_alias=wanted):
                if wanted.collection_name not in self._collections:
                    raise _no_collection(wanted.collection_name)
                _refuse_existing(wanted.alias_name, self._registry.collections)
                aliases[wanted.alias_name] = wanted.collection_name
            case rest.DeleteAliasOperation(delete_alias=wanted):
                aliases.pop(wanted.alias_name, None)
            case rest.RenameAliasOperation(rename_alias=wanted):
                if wanted.old_alias_name not in aliases:
                    raise Refused(
                        HTTPStatus.NOT_FOUND,
                        f"Not found: Alias {wanted.old_alias_name} does not exists!",
                    )
                aliases[wanted.new_alias_name] = aliases.pop(wanted.old_alias_name)

    def end(self) -> None:
        """Write everything out, and keep whoever still asks waiting until the process is gone."""
        self._lock.acquire()
        for collection in self._collections.values():
            collection.end()

    def _keep(self, collections: dict[str, rest.CreateCollection], aliases: dict[str, str]) -> None:
        self._registry = _Registry(collections=collections, aliases=aliases)
        unfinished = self._file.with_suffix(".unfinished")
        unfinished.write_text(self._registry.model_dump_json(exclude_none=True), "utf-8")
        unfinished.replace(self._file)


def _refuse_bad_name(name: str) -> None:
    if not 0 < len(name) <= _LONGEST_NAME or name in {".", ".."} or _FORBIDDEN & set(name):
        raise Refused(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            f"Validation error in path parameters: `{name}` cannot name a collection",
        )


def _refuse_existing(name: str, collections: Mapping[str, object]) -> None:
    if name in collections:
        raise Refused(HTTPStatus.CONFLICT, f"Wrong input: Collection `{name}` already exists!")


def _no_collection(name: str) -> Refused:
    return Refused(HTTPStatus.NOT_FOUND, f"Not found: Collection `{name}` doesn't exist!")
