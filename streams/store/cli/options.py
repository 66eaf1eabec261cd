"""The options that several commands share."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from pydantic import BaseModel, TypeAdapter, ValidationError

from schemas.base import MemoryId, Scope, ScopeName
from schemas.codec import plain
from streams.model.scope import lies_in
from streams.store.app import settings
from streams.store.app.failures import UnknownId, UsageError
from streams.store.app.reading import AmbiguousPrefix, LogTarget, StoreReader, only_in, only_one
from streams.store.app.settings import Settings
from streams.store.cli.console import note
from streams.store.flow.past import Bound

Store = Annotated[
    Path | None, typer.Option("--store", help="The store's directory. [memsieve-store]")
]


def _writable(param: typer.CallbackParam, path: Path | None) -> Path | None:
    """Raise UsageError where a file cannot be written, before any work is done for it."""
    if path is None:
        return None
    if path.is_dir():
        problem = "it is a directory"
    elif not path.parent.is_dir():
        problem = f"there is no directory {path.parent}"
    elif not os.access(path if path.exists() else path.parent, os.W_OK):
        problem = "it may not be written"
    else:
        return path
    raise UsageError(f"{param.opts[0]} {path}: {problem}; name another file")


def output(name: str, help_: str, metavar: str = "FILE") -> Any:  # noqa: ANN401 - typer's own kind
    """Return the option of a file that a command writes at its end."""
    return typer.Option(name, metavar=metavar, help=help_, callback=_writable)


Policy = Annotated[
    str | None,
    typer.Option(
        "--policy",
        help="A policy's name or file, and single keys: 'NAME {bands.match = 0.97}'. [default]",
    ),
]
Kafka = Annotated[
    str | None,
    typer.Option("--kafka", metavar="HOST:PORT", help="A Kafka broker. [kafka.bootstrap]"),
]
Config = Annotated[
    Path | None, typer.Option("--config", help="A settings file. [memsieve.toml if there]")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Vectors = Annotated[bool, typer.Option("--vectors", help="Include the vectors in the JSON.")]
Limit = Annotated[
    int | None,
    typer.Option("--limit", min=1, help="Show at most this many. [50; with --json all]"),
]


def _without_wildcards(scope: str | None) -> str | None:
    if scope is not None and (wild := sorted(set(scope) & set("*?"))):
        raise UsageError(
            f"--scope {scope}: holds the wildcard {wild[0]}; name a scope, those below it are included"
        )
    return scope


ScopeBelow = Annotated[
    str | None,
    typer.Option(
        "--scope", callback=_without_wildcards, help="Only this scope and the scopes below it."
    ),
]
OneScope = Annotated[
    str | None, typer.Option("--scope", help="The scope of ID, if several have the name.")
]
Author = Annotated[
    str | None, typer.Option("--author", help="The author. [reviews.author, or the login name]")
]
Note = Annotated[str, typer.Option("--note", help="Why, in a few words.")]
Wait = Annotated[
    int,
    typer.Option(
        "--wait",
        metavar="SECONDS",
        min=0,
        max=86_400,
        help="Seconds to wait for a cluster's decision; 0: only publish.",
    ),
]

From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="TIME|OFFSET",
        help="Start at this time or offset; earlier decisions stay unchanged.",
    ),
]
To = Annotated[
    str | None,
    typer.Option("--to", metavar="TIME|OFFSET", help="Stop before this time or offset."),
]
Rate = Annotated[float | None, typer.Option("--rate", min=0.001, help="Events per second at most.")]
Model = Annotated[
    str | None,
    typer.Option("--model", help="An embedding model: one of fastembed's, or folder:PATH."),
]

_LIMIT = 50
_SCOPE: TypeAdapter[ScopeName] = TypeAdapter(Scope)

_T = TypeVar("_T")
_Asked = TypeVar("_Asked", bound=BaseModel)


@dataclass(frozen=True, kw_only=True)
class LogOptions:
    """The options that name a store or a cluster. Each field is an option; see main/groups.py."""

    store: Store = None
    kafka: Kafka = None
    config: Config = None

    def source(self, **flags: Any) -> LogTarget:  # noqa: ANN401 - see load
        """Return what the options name, else the cluster where the settings have one."""
        if self.store is not None and self.kafka is not None:
            raise UsageError("--store and --kafka name two places: give one of them")
        settings = load(self.config, store=self.store, kafka__bootstrap=self.kafka, **flags)
        return LogTarget.of(settings) if self.store is None else LogTarget.of_store(settings)


@dataclass(frozen=True, kw_only=True)
class ReadOptions(LogOptions):
    """The options of a command that reads a store or a cluster."""

    as_json: AsJson = False

    def to_read(self, **flags: Any) -> LogTarget:  # noqa: ANN401 - see load
        """Do as `source`, and tell a person where the settings alone say that it is a cluster."""
        found = self.source(**flags)
        if not found.embedded and self.kafka is None and not self.as_json:
            note(f"reading the cluster at {found.place}; --store DIR reads a store")
        return found


@dataclass(frozen=True, kw_only=True)
class ChangeOptions(LogOptions):
    """The options of a command that asks for a change, and waits for the decision."""

    policy: Policy = None
    author: Author = None
    wait: Wait = 30
    as_json: AsJson = False

    def source(self, **flags: Any) -> LogTarget:  # noqa: ANN401 - see load
        """Return what the options name, as it is decided on there."""
        return super().source(policy=self.policy, **flags)


@dataclass(frozen=True, kw_only=True)
class OfMemoryOptions(ChangeOptions):
    """The options of a command that asks for a change of memories that it names."""

    scope: OneScope = None


def load(config: Path | None = None, **flags: Any) -> Settings:  # noqa: ANN401 - typer's values
    """Return the settings with the flags that were given; `embedder__model` is embedder.model."""
    tree: dict[str, Any] = {}
    for name, value in flags.items():
        if value is not None:
            group, _, leaf = name.partition("__")
            if leaf:
                tree.setdefault(group, {})[leaf] = value
            else:
                tree[name] = value
    if config is not None and not config.is_file():
        raise UsageError(f"--config {config}: there is no such file")
    return settings.load(tree, config)


def bound(name: str, given: str | None) -> Bound | None:
    """Return the place that `--from` or `--to` names: an offset, or a time in ISO 8601."""
    if given is None:
        return None
    if given.isascii() and given.isdecimal():
        return Bound(offset=int(given))
    return Bound(time=moment(name, given, "an offset, or a time"))


def moment(name: str, given: str, what: str = "a time") -> datetime:
    """Return the time that an option names, in ISO 8601; in UTC where it has no zone."""
    try:
        time = datetime.fromisoformat(given)
    except ValueError as error:
        raise UsageError(f"{name} {given}: write {what} such as 2026-03-01T09:00") from error
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def limit_of(limit: int | None, *, as_json: bool) -> int | None:
    """Return how many items to show; None for all."""
    return limit if limit is not None or as_json else _LIMIT


def below(scope: str, wanted: str | None) -> bool:
    """Tell whether a scope is the wanted one or lies below it."""
    return wanted is None or lies_in(scope, wanted.rstrip("/"))


def exact(scope: str) -> ScopeName:
    """Return the one scope that `--scope` names."""
    try:
        return _SCOPE.validate_python(scope)
    except ValidationError as error:
        raise UsageError(f"--scope {scope}: {error.errors()[0]['msg']}") from error


def only(things: Mapping[str, _T], identity: str, *, what: str, place: str) -> _T:
    """Return the one thing that has the id, or else the one whose id begins so.

    `things` has them by id, and `what` says what each is.
    """
    if not identity:
        raise UsageError("ID is empty")
    if identity in things:
        return things[identity]
    found = [one for one in things if one.startswith(identity)]
    if not found:
        raise UnknownId(f"no {what} in {place} has the id {identity}")
    try:
        return things[only_one(found, identity)]
    except AmbiguousPrefix as error:
        raise UsageError(str(error)) from error


async def memory_id(reader: StoreReader, identity: str, scope: str | None) -> MemoryId:
    """Return the id of the one memory that an id means, as StoreReader.memory_id does.

    In one scope, if `--scope` names it.
    """
    if not identity:
        raise UsageError("ID is empty")
    within = only_in(None if scope is None else exact(scope))
    try:
        found = await reader.memory_id(identity, within)
    except AmbiguousPrefix as error:
        raise UsageError(str(error)) from error
    if found is None:
        raise UnknownId(f"no memory in {reader.place} has the id {identity}")
    return found


def asked(kind: type[_Asked], given: Mapping[str, Any], names: Mapping[str, str]) -> _Asked:
    """Return what is asked for. Raises UsageError that names the option.

    `names` has the options of the fields that are called otherwise.
    """
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        problem = error.errors()[0]
        field = str(problem["loc"][0])
        option = names.get(field, f"--{field}")
        raise UsageError(f"{option} {given[field]}: {plain(problem)}") from error


def refuse(given: Mapping[str, object], why: str) -> None:
    """Raise UsageError that names the first of the options that was given, and says why it is not.

    False and None are what an option holds that was not given.
    """
    for option, value in given.items():
        if value is not None and value is not False:
            raise UsageError(f"{option} {why}")


def write(option: str, path: Path, content: str) -> None:
    """Write what an option asks for. Raises UsageError where that cannot be."""
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{option} {path}: {error.strerror}") from error
