"""Every setting, in one frozen tree; the only reader of the environment.

Precedence: command-line flags, then `MEMSIEVE_…` variables, then `memsieve.toml`, then defaults.
"""

import difflib
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast

from platformdirs import user_cache_path
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from schemas.base import TEXT_MAX, Scope, ScopeName
from schemas.events import MEMBERS_MAX
from streams.embedding import DEFAULT_MODEL, ENDPOINT, HASHING
from streams.extract.core.triggers import RESPONSE_CHARACTERS, Trigger
from streams.store.world.store_directory import IndexKind

CONFIG_FILE = Path("memsieve.toml")
_PREFIX = "MEMSIEVE_"
_CONFIG_VARIABLE = "MEMSIEVE_CONFIG"
_SERVERS = r"^[^\s,]+:\d{1,5}( *, *[^\s,]+:\d{1,5})*$"


class InvalidSettings(ValueError):
    """Invalid settings; the one-line message names each key, its place and the remedy."""


class _Group(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class EndpointSettings(_Group):
    """An OpenAI-compatible endpoint that returns embeddings."""

    base_url: Annotated[str, Field(pattern=r"^https?://[^@?#\s]+$")] | None = Field(
        default=None,
        description=(
            "Where a model named endpoint:NAME is asked for, like http://HOST:PORT/v1. No password "
            "in it."
        ),
    )
    api_key: SecretStr | None = Field(default=None, description="The key that it asks for.")
    timeout_seconds: Annotated[float, Field(gt=0, le=600)] = Field(
        default=30.0,
        description="How long one answer may take, attempts and pauses included.",
    )
    attempts_max: Annotated[int, Field(ge=1, le=10)] = Field(
        default=3, description="Attempts at a request while the endpoint is busy or away."
    )
    concurrency_max: Annotated[int, Field(ge=1, le=256)] = Field(
        default=4, description="Requests that may be under way at once."
    )
    batch_texts: Annotated[int, Field(ge=1, le=2_048)] = Field(
        default=64, description="Texts in a request, at most."
    )
    tokens_max: Annotated[int, Field(ge=16, le=TEXT_MAX)] = Field(
        default=510,
        description=(
            "Tokens that the model reads of a text, those around it left out. No more bytes are "
            "sent, and what is longer is kept beside what it resembles: 8191 for the models of "
            "OpenAI, 510 for most others."
        ),
    )


class EmbedderSettings(_Group):
    """The embedding model."""

    model: Annotated[str, Field(min_length=1, max_length=4_096)] = Field(
        default=DEFAULT_MODEL,
        description=(
            "Any text embedding model that fastembed lists, folder:PATH for an ONNX model of your "
            "own, endpoint:NAME for one behind embedder.endpoint, or "
            f"{HASHING}, which needs neither files nor server."
        ),
    )
    fallback: tuple[Annotated[str, Field(min_length=1, max_length=4_096)], ...] = Field(
        default=(),
        description=(
            "Models for a new store of `run`, in this order, where embedder.model cannot be had. A "
            "store keeps its model. Not for the services."
        ),
    )
    fallback_policies: tuple[str, ...] = Field(
        default=("default-hashing", "keep-both"),
        description=(
            "Policies beside a model of embedder.fallback that `policy` is not for: the first that "
            "is for it."
        ),
    )
    endpoint: EndpointSettings = EndpointSettings()
    cache_dir: Path = Field(
        default_factory=lambda: user_cache_path("memsieve") / "models",
        description="Where models are kept; shared by all stores.",
    )
    threads: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="Batches encoded side by side, a thread each; unset takes one per core.",
    )
    precision: Literal["exact", "fast", "auto"] = Field(
        default="exact",
        description=(
            "exact: fp32. fast: bf16, by memsieve[fast], on processors that have it. auto: fast "
            "where it is possible; for one machine, not for the services. Part of the model's name: "
            "a store made with one is refused with the other. Only models of fastembed have it."
        ),
    )

    @model_validator(mode="after")
    def _endpoint_is_named(self) -> Self:
        asked = [name for name in (self.model, *self.fallback) if name.startswith(ENDPOINT)]
        if asked and self.endpoint.base_url is None:
            raise ValueError(f"{asked[0]} needs an endpoint: set embedder.endpoint.base_url")
        if ENDPOINT in asked:
            raise ValueError(f"write what the endpoint calls the model behind {ENDPOINT}")
        return self


class IndexSettings(_Group):
    """The index in which memories are searched."""

    kind: IndexKind = Field(
        default=IndexKind.EDGE,
        description=(
            "edge: Qdrant's engine on disk, for one process. exact: numpy in memory, rebuilt at "
            "each start. qdrant: a Qdrant server, for the services."
        ),
    )


class LogSettings(_Group):
    """The log of the embedded store."""

    partitions: Annotated[int, Field(ge=1, le=1_024)] = Field(
        default=1, description="Partitions of a new store's topics; fixed once the store is made."
    )


class KafkaSettings(_Group):
    """The Kafka cluster that the services and `publish` work with."""

    bootstrap: Annotated[str, Field(pattern=_SERVERS)] | None = Field(
        default=None, description="Brokers to begin with: HOST:PORT, several with commas."
    )
    prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{0,64}$")] = Field(
        default="", description="Put before the names of all topics and groups."
    )
    run: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{0,32}$")] = Field(
        default="",
        description=(
            "Put behind the names of all topics but memory.events, of groups and of the "
            "collection: services with another run decide on the same events for themselves."
        ),
    )
    tls: bool = Field(default=False, description="Encrypt the connections.")
    ca_file: Path | None = Field(
        default=None, description="Authorities to trust, as PEM; unset takes the system's."
    )
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = Field(
        default=None, description="How to log in; unset does not."
    )
    username: str = Field(default="", description="Whom to log in as.")
    password: SecretStr = Field(default=SecretStr(""), description="The password.")
    request_seconds: Annotated[float, Field(gt=0, le=600)] = Field(
        default=30.0, description="How long an answer may take before it is asked for again."
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.mechanism is None) != (self.username == ""):
            raise ValueError("mechanism and username go together: set both, or neither")
        return self


class QdrantSettings(_Group):
    """The Qdrant server, for index.kind = qdrant."""

    url: Annotated[str, Field(pattern=r"^https?://[^@\s]+$")] = Field(
        default="http://localhost:6333",
        description="Its REST address, http://HOST:PORT; https is TLS. No password in it.",
    )
    api_key: SecretStr | None = Field(default=None, description="The key that it asks for.")
    prefer_grpc: bool = Field(default=True, description="Speak gRPC, which is faster than REST.")
    grpc_port: Annotated[int, Field(ge=1, le=65_535)] = Field(
        default=6334, description="Its gRPC port."
    )
    collection_prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")] = Field(
        default="memsieve", description="Begins the collection's name; model and dimension end it."
    )
    timeout_seconds: Annotated[float, Field(ge=1, le=600)] = Field(
        default=10.0, description="How long an answer may take before it is asked for again."
    )


class ServiceSettings(_Group):
    """The services: deduplicator, writer and serve."""

    host: str = Field(
        default="127.0.0.1", description="Where health and metrics are served; 0.0.0.0 for all."
    )
    port: Annotated[int, Field(ge=0, le=65_535)] = Field(
        default=8080, description="The port of health and metrics; 0 takes a free one."
    )
    batch_records: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=256, description="Records fetched together; the result does not depend on it."
    )
    session_seconds: Annotated[int, Field(ge=6, le=1_800)] = Field(
        default=30, description="How long a process may be silent before others take its work."
    )
    overlay_memories_max: Annotated[int, Field(ge=1, le=10_000_000)] = Field(
        default=100_000,
        description=(
            "Memories that may wait to be applied before a deduplicator pauses; up to 4 KiB of "
            "memory each."
        ),
    )
    overlay_scope_memories_max: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=5_000,
        description="The same for one scope: each of its events is compared with all of them.",
    )
    drain_seconds: Annotated[float, Field(ge=1, le=200)] = Field(
        default=30.0, description="How long a batch under way may take when the service stops."
    )


class ConsumerSettings(_Group):
    """How the services fetch records from Kafka."""

    poll_milliseconds: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=5,
        description=(
            "How long to wait for records before looking again: the latency of sparse traffic. It "
            "does not gather records, fetch_bytes_min does."
        ),
    )
    fetch_bytes_min: Annotated[int, Field(ge=1, le=16_777_216)] = Field(
        default=1,
        description="Bytes that the broker gathers before it answers; more makes larger batches.",
    )
    fetch_wait_milliseconds: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=100, description="How long the broker may wait for fetch_bytes_min."
    )
    heartbeats_per_session: Annotated[int, Field(ge=3, le=100)] = Field(
        default=10,
        description="Signs of life in service.session_seconds: so many may be lost in a row.",
    )
    rebalance_margin_seconds: Annotated[int, Field(ge=5, le=300)] = Field(
        default=30,
        description=(
            "How much longer than service.drain_seconds a rebalance waits for a member that "
            "finishes a batch; the client's own default, 10 s in all, gives up too early."
        ),
    )
    poll_interval_seconds: Annotated[int, Field(ge=30, le=3_600)] = Field(
        default=300,
        description=(
            "How long a batch may take before the group gives the process up. Partitions that "
            "wait are paused, and polled on: waiting does not count."
        ),
    )


class ProducerSettings(_Group):
    """How records are sent to Kafka: idempotently, acknowledged by all replicas in sync."""

    linger_milliseconds: Annotated[int, Field(ge=0, le=1_000)] = Field(
        default=0,
        description=(
            "How long a record waits for others to be sent with it; those of a batch go together "
            "anyway."
        ),
    )
    batch_bytes: Annotated[int, Field(ge=16_384, le=16_777_216)] = Field(
        default=524_288,
        description="Records of a partition sent together; 16 KiB is a third as fast.",
    )
    compression: Literal["lz4", "gzip", "none"] = Field(
        default="lz4", description="Decisions carry vectors and text; lz4 costs next to nothing."
    )


class SinkSettings(_Group):
    """Copies of the memories that the writer maintains for other programs, besides the index."""

    sqlite: Path | None = Field(
        default=None, description="A SQLite file with a table of memories; unset keeps none."
    )
    jsonl: Path | None = Field(
        default=None,
        description="A directory with the changes as lines of JSON, a file per partition.",
    )
    memories_md: Path | None = Field(
        default=None,
        description="A Memories.md that the writer keeps in step; people may edit it meanwhile.",
    )
    memories_md_world: Scope = Field(
        default=ScopeName("world"),
        description=(
            "Whose locations a Memories.md holds: location 41 is the scope WORLD/41. What import "
            "and export-md take without --world."
        ),
    )


class RunSettings(_Group):
    """How `memsieve run` processes its files."""

    batch_records: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=512,
        description="Lines read, embedded and decided together; the result does not depend on it.",
    )
    free_disk_bytes_min: Annotated[int, Field(ge=33_554_432)] = Field(
        default=134_217_728,
        description="A run stops, with nothing half-done, when the disk has less than this left.",
    )


class RetrySettings(_Group):
    """How transient failures are retried."""

    attempts_max: Annotated[int, Field(ge=1)] = Field(
        default=8, description="Attempts in a row before `run` stops; services go on trying."
    )
    delay_max_seconds: Annotated[float, Field(gt=0)] = Field(
        default=10.0,
        description=(
            "The longest wait between two attempts; waits double from 0.1 s, half of each is left "
            "to chance."
        ),
    )


class LoggingSettings(_Group):
    """What is logged."""

    decisions: Literal["none", "info", "debug"] = Field(
        default="none",
        description=(
            "A line for each duplicate found and each memory that gave way to a similar one, and a "
            "warning for each that is kept though it is somewhat like a memory (band log), and for "
            "each merge that no model worded. info: by ids, with the similarity. debug: each event, too, "
            "with titles, and how long each batch took. Never the text of a memory."
        ),
    )


class LoadSettings(_Group):
    """How `load` and the API group search results; nothing stored changes."""

    enabled: bool = Field(
        default=True, description="Show memories of one fact as one; false shows each by itself."
    )
    threshold: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.4, description="The greatest cosine distance of two that are asked about."
    )
    verify: Literal["built-in", "llm", "none"] = Field(
        default="built-in",
        description=(
            "Who tells whether two are one fact. llm: the language model, or where it is away the "
            "built-in judge. none: guards alone."
        ),
    )
    lexical_weight: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.0,
        description=(
            "How much the query's own words count (BM25) beside nearness in meaning; 0.3 is what "
            "hybrid search usually takes. They reorder what was found, and exclude nothing."
        ),
    )
    candidates_max: Annotated[int, Field(ge=1, le=1_000)] = Field(
        default=200, description="Memories that one search may fetch."
    )
    pairs_max: Annotated[int, Field(ge=0, le=10_000)] = Field(
        default=12,
        description=(
            "Pairs that one search may ask about, the nearest first: its time. Others stay apart, "
            "and the next search goes on with them. The commands ask about all."
        ),
    )
    cache_entries: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        default=100_000, description="Verdicts, and texts of several memories, kept in memory."
    )


class ConsolidateSettings(_Group):
    """How memories that were kept apart are re-examined: `consolidate` and its service."""

    memories_min: Annotated[int, Field(ge=0)] = Field(
        default=10, description="Scopes that have no more live memories than this are left alone."
    )
    hours_min: Annotated[float, Field(ge=0)] = Field(
        default=24.0, description="How long a scope is left alone after it was consolidated."
    )
    quiet_minutes: Annotated[float, Field(ge=0)] = Field(
        default=10.0,
        description="How long nothing may have been seen in a scope before it is looked at.",
    )
    neighbours_max: Annotated[int, Field(ge=1, le=64)] = Field(
        default=5, description="Nearest memories that each memory is compared with."
    )
    members_max: Annotated[int, Field(ge=2, le=MEMBERS_MAX)] = Field(
        default=16, description="Memories proposed as one fact, at most."
    )
    rounds_max: Annotated[int, Field(ge=1, le=100)] = Field(
        default=8,
        description=(
            "How often a scope is looked at in one pass: what a proposal has made may be joined "
            "again, and one that came too late is made anew."
        ),
    )
    seconds_max: Annotated[float, Field(gt=0)] = Field(
        default=60.0,
        description="How long one pass over all scopes may take; the next goes on behind it.",
    )
    llm_questions_max: Annotated[int, Field(ge=0)] = Field(
        default=100, description="Pairs that one pass may ask a language model about."
    )
    minutes: Annotated[float, Field(gt=0, le=10_080)] = Field(
        default=15.0, description="How often the service looks which scopes are due."
    )
    state: Path | None = Field(
        default=None,
        description=(
            "A file that remembers when each scope was consolidated; unset takes one in the store, "
            "and on a cluster none: every scope is due when a process starts."
        ),
    )


class ApiSettings(_Group):
    """The HTTP API: `memsieve api`."""

    host: str = Field(default="127.0.0.1", description="Where it is served; 0.0.0.0 for all.")
    port: Annotated[int, Field(ge=0, le=65_535)] = Field(
        default=8090, description="Its port; 0 takes a free one."
    )
    tokens: Path | None = Field(
        default=None, description="A TOML file of the tokens that may be used; without, none may."
    )
    body_bytes_max: Annotated[int, Field(ge=1_024, le=16_777_216)] = Field(
        default=1_048_576, description="The longest body of a request."
    )
    concurrency_max: Annotated[int, Field(ge=1, le=1_024)] = Field(
        default=16, description="Requests worked on at once; beyond, they wait for their turn."
    )
    waiting_max: Annotated[int, Field(ge=0, le=65_536)] = Field(
        default=256, description="Requests that wait; beyond, they are told when to come back."
    )
    decision_seconds: Annotated[float, Field(ge=0, le=600)] = Field(
        default=10.0,
        description="How long a request waits for the decision of a cluster; a store's comes at once.",
    )
    requests_per_minute: Annotated[int, Field(ge=1)] = Field(
        default=6_000, description="Requests of one token in a minute."
    )


class WebSettings(_Group):
    """The page to review and explore: `memsieve web`. Tokens and limits are those of `api`."""

    host: str = Field(default="127.0.0.1", description="Where it is served; 0.0.0.0 for all.")
    port: Annotated[int, Field(ge=0, le=65_535)] = Field(
        default=8091, description="Its port; 0 takes a free one."
    )
    session_minutes: Annotated[int, Field(ge=1, le=43_200)] = Field(
        default=480, description="How long a login holds."
    )


class ReviewSettings(_Group):
    """How people answer reviews."""

    author: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None, description="Who answers, or asks for a change; unset takes the login name."
    )


class ForgetSettings(_Group):
    """How forgotten text is kept from coming back."""

    key: Annotated[SecretStr, Field(min_length=32)] | None = Field(
        default=None,
        description=(
            "A secret of 32 characters or more: by it a text that comes back is recognised. The "
            "same for all services and commands of a log, for ever. Unset, a store makes its own."
        ),
    )


class LlmSettings(_Group):
    """A language model: it judges pairs and words merges if a policy says so, and extracts."""

    base_url: Annotated[str, Field(pattern=r"^https?://[^@?#\s]+$")] | None = Field(
        default=None,
        description=(
            "An OpenAI-compatible endpoint, like http://HOST:PORT/v1; unset asks no language "
            "model. No password in it."
        ),
    )
    model: str = Field(default="", description="What the endpoint calls the model.")
    api_key: SecretStr | None = Field(default=None, description="The key that it asks for.")
    timeout_seconds: Annotated[float, Field(gt=0, le=600)] = Field(
        default=20.0,
        description="How long one answer may take, attempts and pauses included; then there is none.",
    )
    attempts_max: Annotated[int, Field(ge=1, le=10)] = Field(
        default=3, description="Attempts at a question while the endpoint is busy or away."
    )
    concurrency_max: Annotated[int, Field(ge=1, le=256)] = Field(
        default=4, description="Questions that may be under way at once."
    )
    requests_per_minute: Annotated[int, Field(ge=1)] = Field(
        default=120,
        description="Requests of this process in a minute; beyond, both memories are kept.",
    )
    requests_per_minute_tenant: Annotated[int, Field(ge=1)] = Field(
        default=60, description="The same for one tenant: the first segment of a scope."
    )
    cache_entries: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        default=10_000, description="Verdicts kept in memory, so that a pair is asked about once."
    )
    verify_prompt: Path | None = Field(
        default=None, description="A file with other instructions for judging a pair."
    )
    merge_prompt: Path | None = Field(
        default=None, description="A file with other instructions for wording a merge."
    )
    extract_prompt: Path | None = Field(
        default=None, description="A file with other instructions for taking memories from turns."
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.base_url is None) != (self.model == ""):
            raise ValueError("base_url and model go together: set both, or neither")
        return self


class ExtractionSettings(_Group):
    """How `extract` and the extractor make events from turns."""

    triggers: tuple[Trigger, ...] = Field(
        default=tuple(Trigger), description="What makes a turn worth a closer look, any of these."
    )
    response_characters: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        default=RESPONSE_CHARACTERS,
        description="The trigger long-response fires where a world answers more characters.",
    )
    llm: bool = Field(
        default=False,
        description="Let the language model of llm.base_url word memories; else sentences are taken.",
    )
    model: str = Field(
        default="", description="What the endpoint calls the model; unset takes llm.model."
    )
    temperature: Annotated[float, Field(ge=0, le=2)] = Field(
        default=0.3, description="How much of a model's wording is left to chance."
    )
    attempts_max: Annotated[int, Field(ge=1, le=10)] = Field(
        default=2,
        description="Answers asked for before a turn is set aside; each is told what was wrong.",
    )
    earlier_turns: Annotated[int, Field(ge=0, le=20)] = Field(
        default=3, description="Turns before it, of its scope and session, that a model sees."
    )
    known_max: Annotated[int, Field(ge=0, le=1_000)] = Field(
        default=50, description="Memories of the scope that a model sees: those seen last."
    )
    retired_max: Annotated[int, Field(ge=0, le=20)] = Field(
        default=3,
        description=(
            "Memories that one turn may ask to retire. Whether they are retired, the policy says."
        ),
    )
    failures_max: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=20,
        description=(
            "Calls of the model in vain, with growing pauses, before the extractor makes a turn a "
            "dead letter; 20 take about two minutes and a half."
        ),
    )
    batch_turns: Annotated[int, Field(ge=1, le=1_000)] = Field(
        default=8,
        description=(
            "Turns that the extractor works on together where a model is asked, those of different "
            "scopes side by side. All of it has to be done in consumer.poll_interval_seconds."
        ),
    )
    undecided_max: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=10_000,
        description=(
            "Events of a partition that may wait to be decided on and applied before the extractor "
            "asks no model: it would not see what they say."
        ),
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
        default="default",
        description=(
            "A policy that comes with memsieve, or a TOML file; behind it other values for single "
            "keys, as in `two-threshold {bands.match = 0.97}`."
        ),
    )
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
    return dict(_flat(settings.model_dump(mode="json"), ""))


def descriptions() -> dict[str, str]:
    """Return the description of each setting by its dotted name."""
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
    """Raise InvalidSettings for a misspelt variable, which pydantic would ignore."""
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
    if problem["type"] == "string_pattern_mismatch":
        return f"{name}: {problem['input']!r} does not fit; it is: {descriptions()[name]}"
    return f"{name}: {problem['msg'].removeprefix('Input ')}"


def _configured_file() -> Path | None:
    named = os.environ.get(_CONFIG_VARIABLE)  # noqa: TID251 - this module is the one reader
    if named:
        if not Path(named).is_file():
            raise InvalidSettings(f"{_CONFIG_VARIABLE} names {named}, which is no file")
        return Path(named)
    return CONFIG_FILE if CONFIG_FILE.is_file() else None
