"""Every setting, in one frozen tree; the only reader of the environment.

Precedence: command-line flags, then `MEMSIEVE_…` variables, then `memsieve.toml`, then defaults.
"""

import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from streams.store.app.product_settings import (
    ApiSettings,
    ConsolidateSettings,
    ExtractionSettings,
    ForgetSettings,
    LoadSettings,
    ReviewSettings,
    WebSettings,
)
from streams.store.app.setting_groups import (
    ConsumerSettings,
    EmbedderSettings,
    IndexSettings,
    KafkaSettings,
    LlmSettings,
    LoggingSettings,
    LogSettings,
    ProducerSettings,
    QdrantSettings,
    RetrySettings,
    RunSettings,
    ServiceSettings,
    SinkSettings,
    TracingSettings,
)
from streams.store.core.suggestions import did_you_mean
from streams.store.core.toml import leaves

CONFIG_FILE = Path("memsieve.toml")
_PREFIX = "MEMSIEVE_"
_CONFIG_VARIABLE = "MEMSIEVE_CONFIG"


class InvalidSettings(ValueError):
    """Invalid settings; the one-line message names each key, its place and the remedy."""


class Settings(BaseSettings):
    """All of memsieve's settings."""

    model_config = SettingsConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        env_prefix=_PREFIX,
        env_nested_delimiter="__",
    )
    store: Path = Path("memsieve-store")
    """The directory of the embedded store."""
    policy: str = "default"
    """A preset or a TOML file; other values for single keys may follow, as in `two-threshold
    {bands.match = 0.97}`."""
    embedder: EmbedderSettings = EmbedderSettings()
    index: IndexSettings = IndexSettings()
    log: LogSettings = LogSettings()
    kafka: KafkaSettings = KafkaSettings()
    qdrant: QdrantSettings = QdrantSettings()
    service: ServiceSettings = ServiceSettings()
    consumer: ConsumerSettings = ConsumerSettings()
    producer: ProducerSettings = ProducerSettings()
    sinks: SinkSettings = SinkSettings()
    llm: LlmSettings = LlmSettings()
    extraction: ExtractionSettings = ExtractionSettings()
    logging: LoggingSettings = LoggingSettings()
    tracing: TracingSettings = TracingSettings()
    reviews: ReviewSettings = ReviewSettings()
    load: LoadSettings = LoadSettings()
    forget: ForgetSettings = ForgetSettings()
    consolidate: ConsolidateSettings = ConsolidateSettings()
    api: ApiSettings = ApiSettings()
    web: WebSettings = WebSettings()
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

    `flags` holds the command-line values, nested like the tree. `config` names the TOML file;
    without it, `MEMSIEVE_CONFIG` does, or `memsieve.toml` is read if it exists.
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
    """Return every setting by its dotted name, as a JSON value; secrets are masked."""
    return {".".join(path): value for path, value in leaves(settings.model_dump(mode="json"))}


def descriptions() -> dict[str, str]:
    """Return the description of each setting by its dotted name."""
    return dict(_described(Settings, ""))


def _described(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, str]]:
    for name, field in model.model_fields.items():
        group = field.annotation
        if isinstance(group, type) and issubclass(group, BaseModel):
            yield from _described(group, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", " ".join((field.description or "").split())


def _refuse_unknown_variables() -> None:
    """Raise InvalidSettings for a misspelt variable, which pydantic would ignore."""
    known = set(descriptions())
    for variable in sorted(os.environ):  # noqa: TID251
        name = variable.removeprefix(_PREFIX).lower().replace("__", ".")
        if variable.startswith(_PREFIX) and variable != _CONFIG_VARIABLE and name not in known:
            raise InvalidSettings(f"{variable} is not a setting{_nearest(name, known)}")


def _nearest(name: str, known: set[str]) -> str:
    return f"{did_you_mean(name, known)}; `memsieve service settings show` lists all of them"


def _problem(problem: ErrorDetails) -> str:
    name = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"{name} is not a setting{_nearest(name, set(descriptions()))}"
    if problem["type"] == "string_pattern_mismatch":
        return f"{name}: {problem['input']!r} is not valid; it is: {descriptions()[name]}"
    return f"{name}: {problem['msg'].removeprefix('Input ')}"


def _configured_file() -> Path | None:
    named = os.environ.get(_CONFIG_VARIABLE)  # noqa: TID251 - this module is the one reader
    if named:
        if not Path(named).is_file():
            raise InvalidSettings(f"{_CONFIG_VARIABLE} names {named}, which is not a file")
        return Path(named)
    return CONFIG_FILE if CONFIG_FILE.is_file() else None
