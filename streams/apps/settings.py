"""Every setting, in one frozen tree; the only reader of the environment.

Precedence: command-line flags, then `MEMSIEVE_…` variables, then `memsieve.toml`, then defaults.
"""

import difflib
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from platformdirs import user_cache_path
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from streams.adapters.embedders import DEFAULT_MODEL

CONFIG_FILE = Path("memsieve.toml")
_PREFIX = "MEMSIEVE_"
_CONFIG_VARIABLE = "MEMSIEVE_CONFIG"


class InvalidSettings(ValueError):
    """Settings that cannot be used; one line, naming each key, its place and the remedy."""


class _Group(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class EmbedderSettings(_Group):
    """The embedding model."""

    model: str = Field(
        default=DEFAULT_MODEL, description="Any text embedding model that fastembed lists."
    )
    cache_dir: Path = Field(
        default_factory=lambda: user_cache_path("memsieve") / "models",
        description="Where models are kept; shared by all stores.",
    )
    threads: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Threads of the encoder; unset takes one per core."
    )


class IndexSettings(_Group):
    """The search index of the embedded store."""

    kind: Literal["edge", "exact"] = Field(
        default="edge",
        description="edge: Qdrant's engine on disk. exact: numpy in memory, rebuilt at each start.",
    )


class LogSettings(_Group):
    """The log of the embedded store."""

    partitions: Annotated[int, Field(ge=1, le=1_024)] = Field(
        default=1, description="Partitions of a new store's topics; fixed once the store is made."
    )


class RunSettings(_Group):
    """How `memsieve run` works through its files."""

    batch_records: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=256,
        description="Lines read, embedded and decided together; the result does not depend on it.",
    )
    free_disk_bytes_min: Annotated[int, Field(ge=33_554_432)] = Field(
        default=134_217_728,
        description="A run stops, with nothing half-done, when the disk has less than this left.",
    )


class RetrySettings(_Group):
    """How a transient failure is tried again."""

    attempts_max: Annotated[int, Field(ge=1)] = Field(
        default=8, description="Attempts in a row before the process stops."
    )
    delay_max_seconds: Annotated[float, Field(gt=0)] = Field(
        default=10.0, description="The longest wait between two attempts; waits double from 0.1 s."
    )


class Settings(BaseSettings):
    """All of memsieve's settings."""

    model_config = SettingsConfigDict(
        frozen=True, extra="forbid", env_prefix=_PREFIX, env_nested_delimiter="__"
    )
    store: Path = Field(
        default=Path("memsieve-store"), description="The directory of the embedded store."
    )
    policy: str = Field(
        default="default", description="A policy that comes with memsieve, or a TOML file."
    )
    embedder: EmbedderSettings = EmbedderSettings()
    index: IndexSettings = IndexSettings()
    log: LogSettings = LogSettings()
    run: RunSettings = RunSettings()
    retry: RetrySettings = RetrySettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read flags, environment and the one TOML file; no dotenv, no secret directories."""
        del dotenv_settings, file_secret_settings
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)


def load(flags: dict[str, Any], config: Path | None = None) -> Settings:
    """Return the settings in force. Raises InvalidSettings.

    `flags` holds what was given on the command line, nested as the tree is. `config` names the
    TOML file; otherwise `MEMSIEVE_CONFIG` does, or `memsieve.toml` where it is there.
    """
    chosen = config or _configured_file()

    class Configured(Settings):
        model_config = SettingsConfigDict(toml_file=chosen)

    try:
        _refuse_unknown_variables()
        return Configured(**flags)
    except ValidationError as error:
        raise InvalidSettings("; ".join(_problem(problem) for problem in error.errors())) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSettings(f"{chosen} is not TOML: {error}") from error
    except SettingsError as error:
        raise InvalidSettings(str(error)) from error


def listing(settings: Settings) -> dict[str, Any]:
    """Return every setting by its dotted name, as JSON values; secrets are masked."""
    return dict(_flat(settings.model_dump(mode="json"), ""))


def descriptions() -> dict[str, str]:
    """Return what each setting is for, by its dotted name."""
    return dict(_described(Settings, ""))


def _flat(tree: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _flat(cast("dict[str, Any]", value), f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _described(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, str]]:
    for name, field in model.model_fields.items():
        group = field.annotation
        if isinstance(group, type) and issubclass(group, BaseModel):
            yield from _described(group, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", field.description or ""


def _refuse_unknown_variables() -> None:
    """Raise InvalidSettings for a misspelt variable, which would otherwise be ignored."""
    known = set(descriptions())
    for variable in sorted(os.environ):  # noqa: TID251
        name = variable.removeprefix(_PREFIX).lower().replace("__", ".")
        if variable.startswith(_PREFIX) and variable != _CONFIG_VARIABLE and name not in known:
            raise InvalidSettings(f"{variable} is no setting{_nearest(name, known)}")


def _nearest(name: str, known: set[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"{hint}; `memsieve config show` lists all of them"


def _problem(problem: ErrorDetails) -> str:
    name = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"{name} is no setting{_nearest(name, set(descriptions()))}"
    return f"{name}: {problem['msg'].removeprefix('Input ')}"


def _configured_file() -> Path | None:
    named = os.environ.get(_CONFIG_VARIABLE)  # noqa: TID251 - this module is the one reader
    if named:
        if not Path(named).is_file():
            raise InvalidSettings(f"{_CONFIG_VARIABLE} names {named}, which is no file")
        return Path(named)
    return CONFIG_FILE if CONFIG_FILE.is_file() else None
