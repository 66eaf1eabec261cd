"""The composition of adapters and ports; the only module that names both.

Adapters are imported lazily.
"""

import asyncio
import logging
import random
import secrets
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from schemas.base import ModelId
from streams.embedding import ENDPOINT, FOLDER, HASHING
from streams.log.failures import RetryPolicy
from streams.log.local_broker import LocalBroker
from streams.model.policy import Policy
from streams.model.ports.clock import Clock
from streams.model.ports.failures import NoModel, NoStore, Unusable
from streams.model.ports.index import Index, Sink
from streams.model.ports.log import Process
from streams.model.ports.models import Embedder, Screener, Verifier, Wording
from streams.stage.core.tombstones import TombstoneKey
from streams.stage.flow.decisions import INDEXED
from streams.stage.flow.judging import Judging
from streams.stage.flow.partition_owner import BacklogLimits
from streams.store.app.product_settings import ForgetSettings
from streams.store.app.setting_groups import (
    ConsumerSettings,
    EmbedderSettings,
    KafkaSettings,
    LlmSettings,
    LoggingSettings,
    RetrySettings,
    ServiceSettings,
    SettingsGroup,
    SinkSettings,
)
from streams.store.app.settings import InvalidSettings, Settings
from streams.store.world.extras import how_to_install, require
from streams.store.world.store_directory import IndexKind, StoreDirectory

if TYPE_CHECKING:
    from streams.embedding.openai_compatible import EndpointEmbedder
    from streams.index.edge import EdgeIndex
    from streams.index.qdrant import QdrantIndex
    from streams.judges.chat import Endpoint
    from streams.judges.openai_compatible import LlmVerifier
    from streams.log.kafka.connection import Connection
    from streams.log.kafka.log import KafkaLog
    from streams.log.kafka.subscribe import Fetching
    from streams.model.policy import JudgeName
    from streams.store.world.log_lines import DecisionLines


def embedder(settings: EmbedderSettings, report: Callable[[str], None]) -> Embedder:
    """Return the embedder; install its model first if it is missing.

    Raises NoModel if the model is unavailable, and Unreachable or NoServer for an endpoint.
    """
    if settings.model == HASHING:
        from streams.embedding.hashing import HashingEmbedder

        return HashingEmbedder()
    if settings.model.startswith(ENDPOINT):
        with ThreadPoolExecutor(1) as beside:  # an event loop may be running here
            return beside.submit(asyncio.run, _endpoint_embedder(settings)).result()
    from streams.embedding.fastembed_text import FastembedEmbedder
    from streams.embedding.install import installed

    if installed(settings.model, settings.cache_dir) is None:
        install_model(settings, report, force=False)
    return FastembedEmbedder(
        settings.model,
        settings.cache_dir,
        threads=settings.threads,
        precision=settings.precision,
    )


async def _endpoint_embedder(settings: EmbedderSettings) -> "EndpointEmbedder":
    from streams.clock.system import SystemClock
    from streams.embedding.openai_compatible import EmbeddingEndpoint, connect

    if settings.endpoint.base_url is None:
        raise InvalidSettings(f"{settings.model} needs embedder.endpoint.base_url")
    model = settings.model.removeprefix(ENDPOINT)
    endpoint = EmbeddingEndpoint(model=model, **_values(settings.endpoint))
    return await connect(endpoint, SystemClock())


def _has_files(settings: EmbedderSettings) -> bool:
    """Return whether fastembed loads the model from files."""
    return settings.model != HASHING and not settings.model.startswith(ENDPOINT)


def token_counter(
    settings: EmbedderSettings, report: Callable[[str], None]
) -> Callable[[str], int]:
    """Return a counter of the embedding model's tokens; install the model if it is missing."""
    from streams.embedding.install import installed
    from streams.embedding.tokens import counter, estimated

    if not _has_files(settings):
        return estimated
    folder = installed(settings.model, settings.cache_dir)
    return counter(folder or install_model(settings, report, force=False))


def model_of(settings: EmbedderSettings) -> ModelId:
    """Return the id that the embedder will report, without loading the model."""
    from streams.embedding.install import describe
    from streams.embedding.precision import identity, settled

    if not _has_files(settings):
        return ModelId(settings.model)
    described = describe(settings.model)
    return identity(described, settled(settings.precision, described))


def base_model_of(settings: EmbedderSettings) -> str:
    """Return the model's name, whatever its precision. Raises NoModel if there is no such model."""
    from streams.embedding.install import describe

    return describe(settings.model).model if _has_files(settings) else settings.model


def named_model(settings: EmbedderSettings) -> str:
    """Return the name that a policy gives the configured model; a folder is named by its content."""
    return base_model_of(settings) if settings.model.startswith(FOLDER) else settings.model


def shared_model_of(settings: EmbedderSettings) -> ModelId:
    """Return the embedder id that all services of a log share, whatever machine each runs on.

    A writer does not need the packages that make an embedder fast. Raises InvalidSettings for
    precision `auto` and for fallback models.
    """
    from streams.embedding.install import describe
    from streams.embedding.precision import identity

    if settings.fallback:
        raise InvalidSettings(
            "embedder.fallback would give the services of one log different models: name the one "
            "that the log was begun with in embedder.model, and set no fallback"
        )
    if not _has_files(settings):
        return ModelId(settings.model)
    if settings.precision == "auto":
        raise InvalidSettings(
            "embedder.precision auto would give the services of one log different models on "
            "different machines: set it to exact or fast"
        )
    return identity(describe(settings.model), settings.precision)


async def _dimension_of(settings: EmbedderSettings) -> int:
    """Return the dimension of the model's vectors; for an endpoint, ask it."""
    from streams.embedding import hashing
    from streams.embedding.install import describe

    if settings.model == HASHING:
        return hashing.DIMENSION
    if settings.model.startswith(ENDPOINT):
        return (await _endpoint_embedder(settings)).dimension
    return describe(settings.model).dim or 0


def install_model(
    settings: EmbedderSettings, report: Callable[[str], None], *, force: bool
) -> Path:
    """Install the model into the cache and verify it; return its folder."""
    from streams.embedding.install import install

    if not _has_files(settings):
        raise NoModel(f"{settings.model} has no files: there is nothing to install")
    return install(settings.model, settings.cache_dir, report=report, force=force)


def verify_model(settings: EmbedderSettings) -> Path:
    """Check every file of the installed model, and its precision; return its folder."""
    from streams.embedding.install import verify

    model_of(settings)
    return verify(settings.model, settings.cache_dir)


async def examined_model(settings: EmbedderSettings) -> str:
    """Describe a usable model without loading it. Raises what `embedder` would raise."""
    model = model_of(settings)
    if _has_files(settings):
        return f"{model}, every file checked, in {verify_model(settings)}"
    dimension = await _dimension_of(settings)
    if settings.model == HASHING:
        return f"{model}, {dimension} dimensions, needs no files: it finds no other wordings"
    return f"{model}, {dimension} dimensions, answers at {settings.endpoint.base_url}"


def index(
    kind: IndexKind, path: Path, dimension: int, require_space: Callable[[], None] = lambda: None
) -> Index:
    """Return the index of an embedded store; `require_space` is called before it grows on disk."""
    match kind:
        case IndexKind.EDGE:
            return edge_index(path, dimension, require_space)
        case IndexKind.EXACT:
            from streams.index.exact import ExactIndex

            return ExactIndex()
        case IndexKind.QDRANT:
            raise TypeError(f"index.kind {kind} is no index of a store")


def edge_index(
    path: Path, dimension: int, require_space: Callable[[], None] = lambda: None
) -> "EdgeIndex":
    """Return the index that the embedded engine stores in a directory."""
    from streams.index.edge import EdgeIndex

    return EdgeIndex(path, dimension, require_space)


async def open_index(settings: Settings) -> Index:
    """Return the index of a service: a collection on a server, or a local index of this process.

    Its name contains the model and the dimension, so that vectors of two models never mix.
    """
    if settings.index.kind.shared:
        return await open_collection(settings, create=True)
    name, dimension = await _collection_of(settings)
    directory = StoreDirectory(settings.store)
    if directory.manifest() is not None:
        raise NoStore(
            f"{settings.store} is the store of `memsieve run`: name another one with --store"
        )
    require_space = partial(directory.require_space, settings.run.free_disk_bytes_min)
    return index(settings.index.kind, settings.store / name, dimension, require_space)


async def open_collection(settings: Settings, *, create: bool = False) -> "QdrantIndex":
    """Return the collection of a server."""
    name, dimension = await _collection_of(settings)
    from streams.index.qdrant import QdrantIndex, connect

    client = connect(**_values(settings.qdrant, "collection_prefix"))
    made = QdrantIndex(client, name, dimension, settings.qdrant.url)
    try:
        await (made.open() if create else made.check())
    except BaseException:
        await made.close()
        raise
    return made


async def _collection_of(settings: Settings) -> tuple[str, int]:
    """Return the name of an index of the services, and the dimension of its vectors."""
    require("kafka", "the index of a cluster")
    from streams.index.qdrant import collection_name

    model = shared_model_of(settings.embedder)
    dimension = await _dimension_of(settings.embedder)
    run = f"-{settings.kafka.run}" if settings.kafka.run else ""
    return collection_name(settings.qdrant.collection_prefix, model, dimension) + run, dimension


async def partitions(settings: KafkaSettings) -> int:
    """Return the number of partitions of events and decisions; require all topics to be valid."""
    there = connection(settings)
    from streams.log.kafka import topics

    return await topics.require(there)


def kafka_log(settings: Settings) -> "KafkaLog":
    """Return the log of a cluster. Raises InvalidSettings if no broker is configured."""
    there = connection(settings.kafka)
    from streams.log.kafka.log import KafkaLog, Sending

    return KafkaLog(there, Sending(**_values(settings.producer)))


def fetching(settings: ConsumerSettings) -> "Fetching":
    """Return how a service's consumers fetch records."""
    from streams.log.kafka.subscribe import Fetching

    return Fetching(**_values(settings))


def names(settings: KafkaSettings) -> Callable[[str], str]:
    """Return what names a topic or group in the cluster, whichever broker it has."""
    from streams.log.kafka.connection import Connection

    return Connection("", settings.prefix, settings.run).named


def connection(settings: KafkaSettings) -> "Connection":
    """Return how to connect to the cluster. Raises InvalidSettings if no broker is configured."""
    require("kafka", "a Kafka cluster")
    from streams.log.kafka.connection import Connection

    if settings.bootstrap is None:
        raise InvalidSettings(
            "kafka.bootstrap is not set: name a broker with --kafka HOST:PORT or "
            "MEMSIEVE_KAFKA__BOOTSTRAP"
        )
    return Connection(**_values(settings))


def must_be_rebuilt(kind: IndexKind, path: Path) -> bool:
    """Return, before the index is opened, whether it will start empty."""
    return not kind.durable or not path.exists() or not any(path.iterdir())


def log(directory: StoreDirectory, *, read_only: bool) -> LocalBroker:
    """Return the log of an embedded store."""
    return LocalBroker(directory.log, indexed=INDEXED, read_only=read_only)


@asynccontextmanager
async def sinks(
    settings: SinkSettings, report: Callable[[str], None]
) -> AsyncGenerator[list[Sink]]:
    """Open the copies that the settings request; `report` receives what a person should know."""
    from streams.memories_md.world.sink import MemoriesMdSink
    from streams.sinks.jsonl import JsonlSink
    from streams.sinks.sqlite import SqliteSink

    async with AsyncExitStack() as stack:
        opened: list[Sink] = []

        def keep(sink: Sink) -> None:
            opened.append(sink)
            stack.push_async_callback(sink.close)

        if settings.sqlite is not None:
            keep(SqliteSink(settings.sqlite))
        if settings.jsonl is not None:
            keep(JsonlSink(settings.jsonl))
        if settings.memories_md is not None:
            keep(MemoriesMdSink(settings.memories_md, settings.memories_md_world, report))
        yield opened


def forget_key(
    settings: ForgetSettings, directory: StoreDirectory | None = None
) -> TombstoneKey | None:
    """Return the key of tombstones; None if neither the settings nor the store has one yet."""
    given = None if settings.key is None else settings.key.get_secret_value()
    secret = given or (None if directory is None else directory.key())
    return None if secret is None else TombstoneKey(secret.encode())


def new_key(directory: StoreDirectory) -> None:
    """Give a store a secret of its own."""
    directory.keep_key(secrets.token_hex(32))


def llm_verifier(settings: LlmSettings, clock: Clock) -> "LlmVerifier | None":
    """Return the language model as a judge; None if none is configured."""
    if settings.base_url is None:
        return None
    from streams.judges.chat import Chat
    from streams.judges.openai_compatible import LlmVerifier

    return LlmVerifier(Chat(llm_endpoint(settings), clock), settings.verify_prompt)


def llm_wording(settings: LlmSettings, verifier: "LlmVerifier | None") -> Wording | None:
    """Return the same language model for wording merges; it shares the judge's client and budget."""
    if verifier is None:
        return None
    from streams.judges.openai_compatible import LlmWording

    return LlmWording(verifier.chat, settings.merge_prompt)


def decision_lines(process: str, settings: LoggingSettings) -> "DecisionLines | None":
    """Return the logger of a process's decisions; None if they are not to be logged."""
    if settings.decisions == "none":
        return None
    from streams.store.world.log_lines import DecisionLines, log_lines

    debug = settings.decisions == "debug"
    log = log_lines(process, logging.DEBUG if debug else logging.INFO)
    return DecisionLines(log, debug=debug)


@asynccontextmanager
async def tracing(
    settings: Settings, service: str | None, warn: Callable[[str], None]
) -> AsyncGenerator[Callable[[Process, str], Process]]:
    """Give what traces the processes of a service, or without one of an embedded store.

    It gets a process and what it does, in a word; it returns the process to use instead, which is
    the same one where tracing is off. `warn` is told that spans are lost.
    """
    if not settings.tracing.enabled:
        yield lambda process, _operation: process
        return
    require("otel", "tracing.enabled")
    from streams.tracing.flow import Messaging, TracedProcess
    from streams.tracing.world import OpenTelemetry

    if service is None:
        messaging, opened = Messaging("memsieve", str), OpenTelemetry("memsieve", warn)
    else:
        messaging = Messaging("kafka", names(settings.kafka))
        opened = OpenTelemetry(f"memsieve-{service}", warn)
    try:
        yield lambda process, operation: TracedProcess(process, opened, messaging, operation)
    finally:
        await opened.close()


def llm_endpoint(settings: LlmSettings) -> "Endpoint":
    from streams.judges.chat import Endpoint

    if settings.base_url is None:
        raise InvalidSettings(
            "llm.base_url is not set: name an OpenAI-compatible endpoint and llm.model, with "
            "MEMSIEVE_LLM__BASE_URL and MEMSIEVE_LLM__MODEL"
        )
    return Endpoint(**_values(settings, "verify_prompt", "merge_prompt", "extract_prompt"))


def _values(settings: SettingsGroup, *others: str) -> dict[str, Any]:
    """Return the settings that an adapter calls by the same names, all but `others`."""
    return {
        name: value.get_secret_value() if isinstance(value, SecretStr) else value
        for name, value in settings
        if name not in others
    }


def owner_token() -> str:
    """Return a token unique to this process, which distinguishes this owner's fences from others."""
    return secrets.token_hex(8)


def limits(settings: ServiceSettings) -> BacklogLimits:
    return BacklogLimits(settings.overlay_memories_max, settings.overlay_scope_memories_max)


def screener(policy: Policy) -> Screener | None:
    """Return the screener, or None if the policy has none. Raises Unusable if it is not installed."""
    if not policy.screens:
        return None
    try:
        from streams.judges.screening import TextScreener
    except ImportError as error:
        raise Unusable(
            f"policy {policy.name} looks for secrets or personal data: "
            f"{how_to_install('privacy')} ({error.name} is missing), or remove its table [privacy]"
        ) from error
    return TextScreener()


@asynccontextmanager
async def judging(settings: Settings, clock: Clock) -> AsyncGenerator[Judging]:
    """Open the judges that the settings configure; a policy chooses which of them are asked."""
    from streams.judges.built_in import BuiltInVerifier
    from streams.judges.language import foreign_language
    from streams.judges.lexicons import english
    from streams.text.reading import TextAnalyzer

    readings = TextAnalyzer(english(), foreign_language)
    verifiers: dict[JudgeName, Verifier] = {
        "built-in": BuiltInVerifier(readings, threads=settings.embedder.threads)
    }
    model = llm_verifier(settings.llm, clock)
    if model is not None:
        verifiers["llm"] = model
    try:
        yield Judging(readings, verifiers, llm_wording(settings.llm, model))
    finally:
        for verifier in verifiers.values():
            await verifier.close()


def retry(settings: RetrySettings) -> RetryPolicy:
    return RetryPolicy(settings.attempts_max, settings.delay_max_seconds, chance=random.random)
