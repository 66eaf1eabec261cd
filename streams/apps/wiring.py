"""Which adapter stands behind which port; the only place that names both. Imports lazily."""

import random
import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from schemas.base import ModelId
from streams.adapters.local_broker import LocalBroker
from streams.adapters.store_directory import IndexKind, StoreDirectory
from streams.apps.settings import (
    ConsumerSettings,
    EmbedderSettings,
    InvalidSettings,
    KafkaSettings,
    LlmSettings,
    RetrySettings,
    ServiceSettings,
    Settings,
    SinkSettings,
)
from streams.flow.decisions import INDEXED
from streams.flow.judging import Judging
from streams.flow.owner import Limits
from streams.ports import Clock, Embedder, Index, NoStore, Sink, Verifier, Wording
from streams.runtime.failures import RetryPolicy

if TYPE_CHECKING:
    from streams.adapters.indexes.edge import EdgeIndex
    from streams.adapters.indexes.qdrant import QdrantIndex
    from streams.adapters.kafka.connection import Connection
    from streams.adapters.kafka.log import KafkaLog
    from streams.adapters.kafka.subscribe import Fetching
    from streams.adapters.verifiers.chat import Endpoint
    from streams.adapters.verifiers.extracting import LlmExtractor
    from streams.adapters.verifiers.openai_compatible import LlmVerifier
    from streams.core.policy import JudgeName


def embedder(settings: EmbedderSettings, report: Callable[[str], None]) -> Embedder:
    """Return the embedder, its model installed first where it is not there yet."""
    from streams.adapters.embedders.fastembed_text import FastembedEmbedder
    from streams.adapters.embedders.install import installed

    if installed(settings.model, settings.cache_dir) is None:
        install_model(settings, report, force=False)
    return FastembedEmbedder(
        settings.model,
        settings.cache_dir,
        threads=settings.threads,
        precision=settings.precision,
    )


def token_counter(
    settings: EmbedderSettings, report: Callable[[str], None]
) -> Callable[[str], int]:
    """Return what counts tokens as the embedding model does, which is installed where it is not."""
    from streams.adapters.embedders.install import installed
    from streams.adapters.embedders.tokens import counter

    folder = installed(settings.model, settings.cache_dir)
    return counter(folder or install_model(settings, report, force=False))


def model_of(settings: EmbedderSettings) -> ModelId:
    """Return what the embedder will call itself, without loading it."""
    from streams.adapters.embedders.install import describe
    from streams.adapters.embedders.precision import identity, settled

    described = describe(settings.model)
    return identity(described, settled(settings.precision, described))


def shared_model_of(settings: EmbedderSettings) -> ModelId:
    """Return what all services of a log call their embedder, whatever machine each runs on.

    A writer may do without what makes an embedder fast. Raises InvalidSettings for `auto`.
    """
    from streams.adapters.embedders.install import describe
    from streams.adapters.embedders.precision import identity

    if settings.precision == "auto":
        raise InvalidSettings(
            "embedder.precision auto would give the services of one log different models on "
            "different machines: set it to exact or fast"
        )
    return identity(describe(settings.model), settings.precision)


def install_model(
    settings: EmbedderSettings, report: Callable[[str], None], *, force: bool
) -> Path:
    """Put the model into the cache, undamaged; return its folder."""
    from streams.adapters.embedders.install import install

    return install(settings.model, settings.cache_dir, report=report, force=force)


def verify_model(settings: EmbedderSettings) -> Path:
    """Check every file of the installed model, and its precision; return its folder."""
    from streams.adapters.embedders.install import verify

    model_of(settings)
    return verify(settings.model, settings.cache_dir)


def index(kind: IndexKind, path: Path, dimension: int) -> Index:
    """Return the index of an embedded store."""
    if kind == "exact":
        from streams.adapters.indexes.exact import ExactIndex

        return ExactIndex()
    return edge_index(path, dimension)


def edge_index(path: Path, dimension: int) -> "EdgeIndex":
    """Return the index that the engine keeps in a directory."""
    from streams.adapters.indexes.edge import EdgeIndex

    return EdgeIndex(path, dimension)


async def open_index(settings: Settings, *, create: bool = True) -> Index:
    """Return the index of a service: a server's collection, or this process's own.

    Its name carries model and dimension, so that vectors of two models never meet.
    """
    from streams.adapters.embedders.install import describe
    from streams.adapters.indexes.qdrant import QdrantIndex, collection_name, connect

    model = shared_model_of(settings.embedder)
    dimension = describe(settings.embedder.model).dim or 0
    run = f"-{settings.kafka.run}" if settings.kafka.run else ""
    name = f"{collection_name(settings.qdrant.collection_prefix, model, dimension)}{run}"
    if settings.index.kind != "qdrant":
        if StoreDirectory(settings.store).manifest() is not None:
            raise NoStore(
                f"{settings.store} is the store of `memsieve run`: name another one with --store"
            )
        return index(settings.index.kind, settings.store / name, dimension)
    wanted = settings.qdrant
    client = connect(
        wanted.url,
        api_key=None if wanted.api_key is None else wanted.api_key.get_secret_value(),
        prefer_grpc=wanted.prefer_grpc,
        grpc_port=wanted.grpc_port,
        timeout_seconds=wanted.timeout_seconds,
    )
    made = QdrantIndex(client, name, dimension, wanted.url)
    try:
        await (made.open() if create else made.check())
    except BaseException:
        await made.close()
        raise
    return made


async def open_collection(settings: Settings) -> "QdrantIndex":
    """Return the collection of a server that is there already."""
    from streams.adapters.indexes.qdrant import QdrantIndex

    opened = await open_index(settings, create=False)
    if not isinstance(opened, QdrantIndex):
        raise TypeError("index.kind qdrant gives a QdrantIndex")
    return opened


async def partitions(settings: KafkaSettings) -> int:
    """Return how many partitions events and decisions have; all topics must be as they should."""
    from streams.adapters.kafka import topics

    return await topics.require(connection(settings))


def kafka_log(settings: Settings) -> "KafkaLog":
    """Return the log of a cluster. Raises InvalidSettings where none is named."""
    from streams.adapters.kafka.log import KafkaLog, Sending

    return KafkaLog(connection(settings.kafka), Sending(**settings.producer.model_dump()))


def fetching(settings: ConsumerSettings) -> "Fetching":
    """Return how a service's members ask for records."""
    from streams.adapters.kafka.subscribe import Fetching

    return Fetching(**settings.model_dump())


def connection(settings: KafkaSettings) -> "Connection":
    """Return how the cluster is reached. Raises InvalidSettings where none is named."""
    from streams.adapters.kafka.connection import Connection

    if settings.bootstrap is None:
        raise InvalidSettings(
            "kafka.bootstrap is not set: name a broker with --kafka HOST:PORT or "
            "MEMSIEVE_KAFKA__BOOTSTRAP"
        )
    return Connection(
        bootstrap=settings.bootstrap,
        prefix=settings.prefix,
        run=settings.run,
        tls=settings.tls,
        ca_file=settings.ca_file,
        mechanism=settings.mechanism,
        username=settings.username,
        password=settings.password.get_secret_value(),
        request_seconds=settings.request_seconds,
    )


def must_be_rebuilt(kind: IndexKind, path: Path) -> bool:
    """Tell, before the index is opened, whether it will start empty."""
    return kind == "exact" or not path.exists() or not any(path.iterdir())


def log(directory: StoreDirectory, *, read_only: bool) -> LocalBroker:
    """Return the log of an embedded store."""
    return LocalBroker(directory.log, indexed=INDEXED, read_only=read_only)


@asynccontextmanager
async def sinks(
    settings: SinkSettings, report: Callable[[str], None]
) -> AsyncGenerator[list[Sink]]:
    """Open the copies that the settings ask for; `report` is told what a person should know."""
    from streams.adapters.memories_md.sink import MemoriesMdSink
    from streams.adapters.sinks.jsonl import JsonlSink
    from streams.adapters.sinks.sqlite import SqliteSink

    async with AsyncExitStack() as stack:
        opened: list[Sink] = []
        if settings.sqlite is not None:
            opened.append(SqliteSink(settings.sqlite))
            stack.push_async_callback(opened[-1].close)
        if settings.jsonl is not None:
            opened.append(JsonlSink(settings.jsonl))
            stack.push_async_callback(opened[-1].close)
        if settings.memories_md is not None:
            world = settings.memories_md_world
            opened.append(MemoriesMdSink(settings.memories_md, world, report))
            stack.push_async_callback(opened[-1].close)
        yield opened


def llm_verifier(settings: LlmSettings, clock: Clock) -> "LlmVerifier | None":
    """Return the language model as a judge; None where none is configured."""
    from streams.adapters.verifiers.chat import Chat
    from streams.adapters.verifiers.openai_compatible import LlmVerifier

    if settings.base_url is None:
        return None
    return LlmVerifier(Chat(_endpoint(settings), clock), settings.verify_prompt)


def llm_wording(settings: LlmSettings, verifier: "LlmVerifier | None") -> Wording | None:
    """Return the same language model as a writer, over the judge's client and budget."""
    from streams.adapters.verifiers.openai_compatible import LlmWording

    return None if verifier is None else LlmWording(verifier.chat, settings.merge_prompt)


def llm_extractor(settings: Settings, clock: Clock) -> "LlmExtractor":
    """Return the language model that takes memories from turns.

    Raises InvalidSettings where none is named.
    """
    from streams.adapters.verifiers.chat import Chat
    from streams.adapters.verifiers.extracting import LlmExtractor

    wanted = settings.extraction
    llm = settings.llm.model_copy(update={"model": wanted.model or settings.llm.model})
    return LlmExtractor(
        Chat(_endpoint(llm), clock), llm.extract_prompt, temperature=wanted.temperature
    )


def _endpoint(settings: LlmSettings) -> "Endpoint":
    from streams.adapters.verifiers.chat import Endpoint

    if settings.base_url is None:
        raise InvalidSettings(
            "llm.base_url is not set: name an OpenAI-compatible endpoint and llm.model, with "
            "MEMSIEVE_LLM__BASE_URL and MEMSIEVE_LLM__MODEL"
        )
    return Endpoint(
        base_url=settings.base_url,
        model=settings.model,
        api_key=None if settings.api_key is None else settings.api_key.get_secret_value(),
        timeout_seconds=settings.timeout_seconds,
        attempts_max=settings.attempts_max,
        concurrency_max=settings.concurrency_max,
        requests_per_minute=settings.requests_per_minute,
        requests_per_minute_tenant=settings.requests_per_minute_tenant,
        cache_entries=settings.cache_entries,
    )


def owner_token() -> str:
    """Return a token that no other process has: it tells this owner's fences from all others."""
    return secrets.token_hex(8)


def limits(settings: ServiceSettings) -> Limits:
    return Limits(settings.overlay_memories_max, settings.overlay_scope_memories_max)


@asynccontextmanager
async def judging(settings: Settings, clock: Clock) -> AsyncGenerator[Judging]:
    """Open the judges that the settings give; a policy says which of them are asked."""
    from streams.adapters.lexicons import english
    from streams.adapters.verifiers.built_in import BuiltInVerifier
    from streams.core.language.reading import Readings

    readings = Readings(english())
    verifiers: dict[JudgeName, Verifier] = {"built-in": BuiltInVerifier(readings)}
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
