"""The options that several commands share."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from streams.apps import settings
from streams.apps.settings import Settings


class UsageError(Exception):
    """What was asked for cannot be done as asked."""


class NotFound(Exception):
    """Nothing has the id that was asked for."""


Store = Annotated[
    Path | None, typer.Option("--store", help="The store's directory. [memsieve-store]")
]
Policy = Annotated[str | None, typer.Option("--policy", help="A policy's name or file. [default]")]
Kafka = Annotated[
    str | None,
    typer.Option("--kafka", metavar="HOST:PORT", help="A Kafka broker. [kafka.bootstrap]"),
]
Config = Annotated[
    Path | None, typer.Option("--config", help="A settings file. [memsieve.toml if there]")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Limit = Annotated[
    int | None,
    typer.Option("--limit", min=1, help="Show at most this many. [50; with --json all]"),
]
ScopeBelow = Annotated[
    str | None, typer.Option("--scope", help="Only this scope and the scopes below it.")
]

_LIMIT = 50


@dataclass(frozen=True)
class Source:
    """What a command reads: the embedded store of the settings, or their cluster."""

    settings: Settings
    embedded: bool


def source(config: Path | None, store: Path | None, kafka: str | None) -> Source:
    """Return what to read: what the options name, else the cluster where the settings have one."""
    if store is not None and kafka is not None:
        raise UsageError("--store and --kafka name two places: give one of them")
    settings = load(config, store=store, kafka__bootstrap=kafka)
    return Source(settings, embedded=store is not None or settings.kafka.bootstrap is None)


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


def limit_of(limit: int | None, *, as_json: bool) -> int | None:
    """Return how many items to show; None for all."""
    return limit if limit is not None or as_json else _LIMIT


def below(scope: str, wanted: str | None) -> bool:
    """Tell whether a scope is the wanted one or lies below it."""
    return wanted is None or scope == wanted or scope.startswith(f"{wanted.rstrip('/')}/")
