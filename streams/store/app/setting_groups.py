"""The settings of log, index, embedder, judge, services and output, group by group."""

from pathlib import Path
from typing import Annotated, Literal, Self

from platformdirs import user_cache_path
from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from schemas.base import TEXT_MAX, Scope, ScopeName
from streams.embedding import DEFAULT_MODEL, ENDPOINT
from streams.store.world.store_directory import IndexKind

_SERVERS = r"^[^\s,]+:\d{1,5}( *, *[^\s,]+:\d{1,5})*$"


class SettingsGroup(BaseModel):
    """Settings under one name; the string behind each says what it does."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class EndpointSettings(SettingsGroup):
    """An OpenAI-compatible endpoint that returns embeddings."""

    base_url: Annotated[str, Field(pattern=r"^https?://[^@?#\s]+$")] | None = None
    """The address for endpoint:NAME models, like http://HOST:PORT/v1. No password in it."""
    api_key: SecretStr | None = None
    """The API key."""
    timeout_seconds: Annotated[float, Field(gt=0, le=600)] = 30.0
    """The time limit of one answer, including retries and pauses."""
    attempts_max: Annotated[int, Field(ge=1, le=10)] = 3
    """Attempts per request while the endpoint is busy or unavailable."""
    concurrency_max: Annotated[int, Field(ge=1, le=256)] = 4
    """Concurrent requests, at most."""
    batch_texts: Annotated[int, Field(ge=1, le=2_048)] = 64
    """Texts per request, at most."""
    tokens_max: Annotated[int, Field(ge=16, le=TEXT_MAX)] = 510
    """Tokens that the model reads of a text, special tokens excluded. No more bytes are sent, and
    longer texts are kept apart from similar ones: 8191 for the models of OpenAI, 510 for most
    others."""


class EmbedderSettings(SettingsGroup):
    """Install and check the embedding model."""

    model: Annotated[str, Field(min_length=1, max_length=4_096)] = DEFAULT_MODEL
    """A text embedding model that fastembed lists, folder:PATH for an ONNX model of your own,
    endpoint:NAME for one behind embedder.endpoint, or memsieve/hashing-ngrams-v1, which needs
    neither files nor server."""
    fallback: tuple[Annotated[str, Field(min_length=1, max_length=4_096)], ...] = ()
    """Models to try in order for a new store of `run` if embedder.model is unavailable. A store
    keeps its model. Not for the services."""
    fallback_policies: tuple[str, ...] = ("default-hashing", "keep-both")
    """Policies for a model of embedder.fallback if `policy` is not for it: the first that is for
    it."""
    endpoint: EndpointSettings = EndpointSettings()
    cache_dir: Path = Field(default_factory=lambda: user_cache_path("memsieve") / "models")
    """The model directory, shared by all stores."""
    threads: Annotated[int, Field(ge=1)] | None = None
    """Batches encoded, and pairs read by the built-in judge, in parallel, one thread each; default:
    one per core, and with `serve --workers` the cores divided by the workers."""
    precision: Literal["exact", "fast", "auto"] = "exact"
    """exact: fp32. fast: bf16, by memsieve[fast], on processors that support it. auto: fast where
    possible; for one machine, not for the services. Part of the model's name: a store made with one
    cannot be opened with the other. Only for fastembed models."""

    @model_validator(mode="after")
    def _endpoint_is_named(self) -> Self:
        asked = [name for name in (self.model, *self.fallback) if name.startswith(ENDPOINT)]
        if asked and self.endpoint.base_url is None:
            raise ValueError(f"{asked[0]} requires an endpoint: set embedder.endpoint.base_url")
        if ENDPOINT in asked:
            raise ValueError(f"write the endpoint's name of the model behind {ENDPOINT}")
        return self


class IndexSettings(SettingsGroup):
    """The vector index of the memories."""

    kind: IndexKind = IndexKind.EDGE
    """edge: Qdrant's engine on disk, for one process. exact: NumPy in memory, rebuilt at each
    start. qdrant: a Qdrant server, for the services."""


class LogSettings(SettingsGroup):
    """The log of the embedded store."""

    partitions: Annotated[int, Field(ge=1, le=1_024)] = 1
    """Partitions of a new store's topics; cannot be changed later."""


class KafkaSettings(SettingsGroup):
    """The Kafka cluster that the services and `publish` work with."""

    bootstrap: Annotated[str, Field(pattern=_SERVERS)] | None = None
    """Bootstrap brokers: HOST:PORT, comma-separated."""
    prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{0,64}$")] = ""
    """The prefix of all topic and group names."""
    run: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{0,32}$")] = ""
    """The suffix of the names of all topics except memory.events, of groups and of the collection:
    services of another run decide on the same events independently."""
    tls: bool = False
    """Encrypt the connections."""
    ca_file: Path | None = None
    """The CA certificates to trust, as PEM; default: the system's."""
    cert_file: Path | None = None
    """The client certificate for mutual TLS, as PEM, with its intermediate ones."""
    key_file: Path | None = None
    """Its private key, as PEM; default: in kafka.cert_file."""
    key_password: SecretStr = SecretStr("")
    """The password of an encrypted private key."""
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    """The SASL mechanism; unset: no login."""
    username: str = ""
    """The user name."""
    password: SecretStr = SecretStr("")
    """The password."""
    request_seconds: Annotated[float, Field(gt=0, le=600)] = 30.0
    """The time limit of one request before it is retried."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.mechanism is None) != (self.username == ""):
            raise ValueError("mechanism and username go together: set both, or neither")
        files = [name for name in ("ca_file", "cert_file", "key_file") if getattr(self, name)]
        if files and not self.tls:
            raise ValueError(f"{files[0]} has no effect without TLS: set tls")
        if self.key_file and not self.cert_file:
            raise ValueError("key_file is the key of a certificate: set cert_file")
        return self


class QdrantSettings(SettingsGroup):
    """The Qdrant server, for index.kind = qdrant."""

    url: Annotated[str, Field(pattern=r"^https?://[^@\s]+$")] = "http://localhost:6333"
    """The REST address, http://HOST:PORT; https for TLS. No password in it."""
    api_key: SecretStr | None = None
    """The API key."""
    prefer_grpc: bool = True
    """Use gRPC, which is faster than REST."""
    grpc_port: Annotated[int, Field(ge=1, le=65_535)] = 6334
    """The gRPC port."""
    collection_prefix: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")] = "memsieve"
    """The collection name's prefix; model and dimension follow."""
    timeout_seconds: Annotated[float, Field(ge=1, le=600)] = 10.0
    """The time limit of one request before it is retried."""


class ServiceSettings(SettingsGroup):
    """The services: deduplicator, writer and serve."""

    host: str = "127.0.0.1"
    """The address of health and metrics; 0.0.0.0 for all."""
    port: Annotated[int, Field(ge=0, le=65_535)] = 8080
    """The port of health and metrics; 0 for any free port."""
    batch_records: Annotated[int, Field(ge=1, le=10_000)] = 256
    """Records fetched at once; the result does not depend on it."""
    session_seconds: Annotated[int, Field(ge=6, le=1_800)] = 30
    """How long a process may be silent before others take over."""
    overlay_memories_max: Annotated[int, Field(ge=1, le=10_000_000)] = 100_000
    """Unapplied memories at which a deduplicator pauses; up to 7 KiB of memory each."""
    overlay_scope_memories_max: Annotated[int, Field(ge=1, le=1_000_000)] = 5_000
    """The same for one scope; each event of the scope is compared with all of them."""
    drain_seconds: Annotated[float, Field(ge=1, le=200)] = 30.0
    """The time to finish the current batch when the service stops."""


class ConsumerSettings(SettingsGroup):
    """How the services fetch records from Kafka."""

    poll_milliseconds: Annotated[int, Field(ge=1, le=10_000)] = 5
    """The interval between polls for records: the latency of sparse traffic. It does not collect
    batches; fetch_bytes_min does."""
    fetch_bytes_min: Annotated[int, Field(ge=1, le=16_777_216)] = 1
    """Bytes that the broker collects before it answers; more makes larger batches."""
    fetch_wait_milliseconds: Annotated[int, Field(ge=1, le=10_000)] = 100
    """How long the broker may wait for fetch_bytes_min."""
    heartbeats_per_session: Annotated[int, Field(ge=3, le=100)] = 10
    """Heartbeats per service.session_seconds: this many may be lost in a row."""
    rebalance_margin_seconds: Annotated[int, Field(ge=5, le=300)] = 30
    """The time beyond service.drain_seconds that a rebalance waits for a member to finish a batch;
    the client's default, 10 s in all, is too short."""
    poll_interval_seconds: Annotated[int, Field(ge=30, le=3_600)] = 300
    """How long fetching may stand still, because service.batch_records wait for slow batches, before
    the group drops the process. Paused partitions do not count."""


class ProducerSettings(SettingsGroup):
    """How records are sent to Kafka: idempotently, acknowledged by all replicas in sync."""

    linger_milliseconds: Annotated[int, Field(ge=0, le=1_000)] = 0
    """How long a record waits for others to be sent with it; those of a batch go together
    anyway."""
    batch_bytes: Annotated[int, Field(ge=16_384, le=16_777_216)] = 524_288
    """The largest send batch of a partition; 16 KiB is a third as fast."""
    compression: Literal["lz4", "gzip", "none"] = "lz4"
    """Decisions carry vectors and text; lz4 costs almost nothing."""


class SinkSettings(SettingsGroup):
    """Copies of the memories that the writer maintains for other programs, besides the index."""

    sqlite: Path | None = None
    """A SQLite file with a table of memories; unset: none."""
    jsonl: Path | None = None
    """A directory for the changes as JSON lines, one file per partition."""
    memories_md: Path | None = None
    """A Memories.md that the writer keeps current; people may edit it meanwhile."""
    memories_md_world: Scope = ScopeName("world")
    """The world of a Memories.md: location 41 is the scope WORLD/41. Also the default of --world
    for memories-md import and export."""


class RunSettings(SettingsGroup):
    """How `memsieve run` processes its files."""

    batch_records: Annotated[int, Field(ge=1, le=10_000)] = 512
    """Lines read, embedded and decided at once; the result does not depend on it."""
    free_disk_bytes_min: Annotated[int, Field(ge=33_554_432)] = 134_217_728
    """A run, or a service with its own index, stops cleanly if less disk space is free."""


class RetrySettings(SettingsGroup):
    """How transient failures are retried."""

    attempts_max: Annotated[int, Field(ge=1)] = 8
    """Consecutive attempts before `run` stops; services keep retrying."""
    delay_max_seconds: Annotated[float, Field(gt=0)] = 10.0
    """The longest wait between attempts; waits double from 0.1 s, and half of each is left to
    chance."""


class LoggingSettings(SettingsGroup):
    """What is logged."""

    decisions: Literal["none", "info", "debug"] = "none"
    """A line for each duplicate and each memory replaced by a similar one, and a warning for each
    event stored although a memory is related (band log), and for each merge without a model's text.
    info: ids and similarity. debug: also each event, with titles, and the time of each batch. Never
    the text of a memory."""


class TracingSettings(SettingsGroup):
    """Traces by OpenTelemetry; where they go to, and how many, the variables OTEL_… say."""

    enabled: bool = False
    """Whether services and `run` send a span for each record that they handle, by OTLP over HTTP to
    OTEL_EXPORTER_OTLP_ENDPOINT. Ids, scopes and kinds; never a text."""


class LlmSettings(SettingsGroup):
    """A language model: it judges pairs and words merges if a policy says so, and extracts."""

    base_url: Annotated[str, Field(pattern=r"^https?://[^@?#\s]+$")] | None = None
    """An OpenAI-compatible endpoint: http://HOST:PORT/v1; unset: no language model. No password in
    it."""
    model: str = ""
    """The endpoint's name of the model."""
    api_key: SecretStr | None = None
    """The API key."""
    timeout_seconds: Annotated[float, Field(gt=0, le=600)] = 20.0
    """The time limit of one answer, including retries and pauses; then none is used."""
    attempts_max: Annotated[int, Field(ge=1, le=10)] = 3
    """Attempts per question while the endpoint is busy or unavailable."""
    concurrency_max: Annotated[int, Field(ge=1, le=256)] = 4
    """Concurrent questions, at most."""
    requests_per_minute: Annotated[int, Field(ge=1)] = 120
    """Requests of this process per minute; above that, both memories are kept."""
    requests_per_minute_tenant: Annotated[int, Field(ge=1)] = 60
    """The same for one tenant: the first segment of a scope."""
    cache_entries: Annotated[int, Field(ge=0, le=1_000_000)] = 10_000
    """Verdicts cached in memory, so that each pair is judged once."""
    verify_prompt: Path | None = None
    """A file with custom instructions for judging a pair."""
    merge_prompt: Path | None = None
    """A file with custom instructions for writing a merged text."""
    extract_prompt: Path | None = None
    """A file with custom instructions for extracting memories."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.base_url is None) != (self.model == ""):
            raise ValueError("base_url and model go together: set both, or neither")
        return self
