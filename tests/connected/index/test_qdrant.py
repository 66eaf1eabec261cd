"""What QdrantIndex promises beyond the contract: a collection made right, and failures understood."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import httpx
import pytest
from qdrant_client import AsyncQdrantClient, models

from schemas.base import ModelId, ScopeName
from streams.index.qdrant import (
    FULL_SCAN_KILOBYTES,
    QdrantIndex,
    collection_name,
    connect,
)
from streams.model.fences import ReadPosition
from streams.model.ports.failures import Fatal, NoServer, NoStore, Transient, Unreachable
from streams.model.ports.index import UNFOLLOWED, IndexLevel, PartitionLevel, Query
from tests.builders import DIMENSION, MODEL, identity, stored, unit
from tests.standin.process import StandIn
from tests.support.servers.kafka import free_port
from tests.support.servers.qdrant_clients import rest_client
from tests.support.servers.services import Installation, over_rest

NAME = collection_name("test", MODEL, DIMENSION)
OTHER = f"{NAME}.2"
EVERYTHING = Query(ScopeName("acme/ana"), unit(1), 10, -1.0)


@pytest.fixture
async def index(own_qdrant: StandIn) -> AsyncGenerator[QdrantIndex]:
    """Open an index on a server of its own."""
    opened = QdrantIndex(rest_client(own_qdrant.url), NAME, DIMENSION)
    await opened.open()
    yield opened
    await opened.close()


@pytest.mark.covers("B131")
def test_vectors_of_two_models_are_never_in_one_collection() -> None:
    other = ModelId("somebody/another-model")
    assert collection_name("a", MODEL, 384) != collection_name("a", other, 384)
    assert collection_name("acme", MODEL, 384).startswith("acme-")
    assert collection_name("acme", MODEL, 384).endswith("-384")
    assert collection_name("a", MODEL, 384) != collection_name("a", MODEL, 768)
    assert "/" not in collection_name("a", MODEL, 384)


@pytest.mark.covers("B133")
async def test_a_new_collection_has_a_tenant_index_and_a_graph_per_scope_only(
    index: QdrantIndex, own_qdrant: StandIn
) -> None:
    await index.open()  # what is there is left as it is
    client = rest_client(own_qdrant.url)
    found = await client.get_collection(NAME)
    graph = found.config.hnsw_config
    assert (graph.m, graph.payload_m, graph.full_scan_threshold) == (0, 16, FULL_SCAN_KILOBYTES)
    assert found.payload_schema.keys() == {
        "scope",
        "content_key",
        "status",
        "version",
        "decision_ids",
        "contradicted",
        "level.index",
        "level.offset",
    }
    keywords = {
        field: indexed.params.is_tenant
        for field, indexed in found.payload_schema.items()
        if isinstance(indexed.params, models.KeywordIndexParams)
    }
    assert keywords == {
        field: field == "scope"
        for field in (
            "scope",
            "content_key",
            "status",
            "decision_ids",
            "contradicted",
            "level.index",
        )
    }
    aliases = (await client.get_aliases()).aliases
    assert [(one.alias_name, one.collection_name) for one in aliases] == [(NAME, f"{NAME}.1")]
    await client.close()


async def test_processes_that_start_together_make_one_collection(own_qdrant: StandIn) -> None:
    several = [QdrantIndex(rest_client(own_qdrant.url), NAME, DIMENSION) for _ in range(4)]
    await asyncio.gather(*(one.open() for one in several))
    await several[0].write([stored(id=identity(1))])
    assert [await one.count() for one in several] == [1] * 4
    for one in several:
        await one.close()


async def test_of_those_who_write_at_once_the_latest_version_stays(
    index: QdrantIndex, own_qdrant: StandIn
) -> None:
    others = [QdrantIndex(rest_client(own_qdrant.url), NAME, DIMENSION) for _ in range(4)]
    await index.write([stored(id=identity(n)) for n in range(10)])
    versions = [3, 9, 2, 8, 5, 7, 4, 6]
    await asyncio.gather(
        *(
            writer.write([stored(id=identity(n), version=version) for n in range(10)])
            for writer, version in zip([*others, *others], versions, strict=True)
        )
    )
    assert {one.memory.version async for one in index.scan()} == {9}
    for other in others:
        await other.close()


@pytest.fixture
async def other(own_qdrant: StandIn) -> AsyncGenerator[QdrantIndex]:
    """Make another collection, which no alias names."""
    client = rest_client(own_qdrant.url)
    vectors = models.VectorParams(size=DIMENSION, distance=models.Distance.COSINE)
    await client.create_collection(OTHER, vectors_config=vectors)
    opened = QdrantIndex(client, OTHER, DIMENSION)
    yield opened
    await opened.close()


def told(reached: int, since: int) -> str:
    """Return the pattern of what an index says that is not the one of before."""
    return rf"decisions/0 to {reached}, and is not the one that had to {since}: .*replaced"


async def swap(server: StandIn) -> None:
    """Put the other collection behind the alias."""
    client = rest_client(server.url)
    given = models.CreateAlias(collection_name=OTHER, alias_name=NAME)
    await client.update_collection_aliases([models.CreateAliasOperation(create_alias=given)])
    await client.close()


@pytest.mark.parametrize("there", [None, 3, 7, 12, 20])
async def test_a_collection_that_takes_the_place_of_another_is_noticed(
    index: QdrantIndex, other: QdrantIndex, own_qdrant: StandIn, there: int | None
) -> None:
    """However far the other one has been followed: what was just written it never got."""
    since = await index.keep_level(0, ReadPosition(7), since=UNFOLLOWED)
    if there is not None:
        await other.keep_level(0, ReadPosition(there), since=UNFOLLOWED)
    level = await other.level()
    await index.write([stored(id=identity(1))])
    await swap(own_qdrant)
    with pytest.raises(Transient, match=told(there or 0, 7)):
        await index.keep_level(0, ReadPosition(12), since=since)
    assert (await other.level(), await other.count()) == (level, 0)


@pytest.mark.parametrize("there", [0, 7, 12, 20])
async def test_who_begins_with_a_collection_does_not_go_on_with_another(
    index: QdrantIndex, other: QdrantIndex, own_qdrant: StandIn, there: int
) -> None:
    kept = await other.keep_level(0, ReadPosition(there), since=UNFOLLOWED)
    await index.write([stored(id=identity(1))])
    await swap(own_qdrant)
    with pytest.raises(Transient, match=told(there, 0)):
        await index.keep_level(0, ReadPosition(12), since=UNFOLLOWED)
    assert await other.level() == IndexLevel({0: kept}, 0)


def before(
    client: AsyncQdrantClient, method: str, happens: Callable[[], Awaitable[object]]
) -> None:
    """Let something happen before each time that points are put (PUT), or read by id (POST)."""

    async def observed(
        request: httpx.Request, send: Callable[[httpx.Request], Awaitable[httpx.Response]]
    ) -> httpx.Response:
        if request.method == method and request.url.path.endswith("/points"):
            await happens()
        return await send(request)

    client.http.client.add_middleware(observed)


@pytest.mark.parametrize("method", ["PUT", "POST"])
@pytest.mark.parametrize("here", [0, 7])
@pytest.mark.parametrize("there", [None, 0, 7, 8, 12, 20])
async def test_a_swap_while_a_level_is_kept_is_noticed(
    other: QdrantIndex, own_qdrant: StandIn, method: str, here: int, there: int | None
) -> None:
    """Before it is written, or before it is read again, by whoever has kept one before."""
    client = rest_client(own_qdrant.url)
    index = QdrantIndex(client, NAME, DIMENSION)
    await index.open()
    since = await index.keep_level(0, ReadPosition(here), since=UNFOLLOWED)
    if there is not None:
        await other.keep_level(0, ReadPosition(there), since=UNFOLLOWED)
    level = await other.level()
    before(client, method, lambda: swap(own_qdrant))
    with pytest.raises(Transient, match=told(there or 0, here)):
        await index.keep_level(0, ReadPosition(12), since=since)
    assert await other.level() == level
    await index.close()


async def test_of_those_who_begin_at_once_one_goes_on(
    index: QdrantIndex, own_qdrant: StandIn
) -> None:
    several = [QdrantIndex(rest_client(own_qdrant.url), NAME, DIMENSION) for _ in range(4)]
    answers = await asyncio.gather(
        *(
            one.keep_level(0, ReadPosition(5 + n), since=UNFOLLOWED)
            for n, one in enumerate(several)
        ),
        return_exceptions=True,
    )
    [kept] = [answer for answer in answers if isinstance(answer, PartitionLevel)]
    assert sum(isinstance(answer, Transient) for answer in answers) == 3
    assert await index.level() == IndexLevel({0: kept}, 0)
    for one in several:
        await one.close()


async def kept_around(
    index: QdrantIndex, url: str, method: str, *, since: PartitionLevel
) -> list[PartitionLevel | Transient]:
    """Keep a level at 12 and, before one of its requests, another at 20; return what each heard."""
    heard: list[PartitionLevel | Transient] = []

    async def keep(by: QdrantIndex, offset: int) -> None:
        try:
            heard.append(await by.keep_level(0, ReadPosition(offset), since=since))
        except Transient as told:
            heard.append(told)

    client = rest_client(url)
    interrupted = QdrantIndex(client, NAME, DIMENSION)
    before(client, method, lambda: keep(index, 20))
    await keep(interrupted, 12)
    await interrupted.close()
    return heard[::-1]


@pytest.mark.parametrize(("method", "kept"), [("PUT", [None, 20]), ("POST", [12, None])])
async def test_who_begins_while_another_does_is_told(
    index: QdrantIndex, own_qdrant: StandIn, method: str, kept: list[int | None]
) -> None:
    heard = await kept_around(index, own_qdrant.url, method, since=UNFOLLOWED)
    assert [
        one.reached.offset if isinstance(one, PartitionLevel) else None for one in heard
    ] == kept
    [winner] = [one for one in heard if isinstance(one, PartitionLevel)]
    assert await index.level() == IndexLevel({0: winner}, 0)


@pytest.mark.parametrize("method", ["PUT", "POST"])
async def test_of_two_who_raise_a_level_at_once_the_higher_one_stays(
    index: QdrantIndex, own_qdrant: StandIn, method: str
) -> None:
    since = await index.keep_level(0, ReadPosition(7), since=UNFOLLOWED)
    higher = PartitionLevel(ReadPosition(20), since.index)
    assert await kept_around(index, own_qdrant.url, method, since=since) == [higher] * 2
    assert await index.level() == IndexLevel({0: higher}, 0)


async def test_a_collection_of_another_dimension_is_refused(
    index: QdrantIndex, own_qdrant: StandIn
) -> None:
    del index
    other = QdrantIndex(rest_client(own_qdrant.url), NAME, 3)
    with pytest.raises(
        NoStore, match=r"was not made for memories of several vectors of 3 dimensions.*prefix"
    ):
        await other.open()
    await other.close()


async def test_points_of_somebody_else_are_not_taken_for_memories(
    index: QdrantIndex, own_qdrant: StandIn
) -> None:
    client = rest_client(own_qdrant.url)
    payload = {"scope": "acme/ana", "status": "active"}
    point = models.PointStruct(id=1, vector=unit(1).tolist(), payload=payload)
    await client.upsert(NAME, [point])
    with pytest.raises(NoStore, match="a point that memsieve did not write"):
        await index.search([EVERYTHING])
    await client.close()


@pytest.mark.parametrize("version", ["1.18.4", "0.9.0", "unheard of"])
async def test_a_server_that_is_too_old_is_refused(tmp_path: Path, version: str) -> None:
    with StandIn(tmp_path, version=version) as server:
        index = QdrantIndex(rest_client(server.url), NAME, DIMENSION)
        with pytest.raises(NoServer, match=f"version {version}; memsieve needs 1.19 or newer"):
            await index.open()
        await index.close()


@pytest.mark.parametrize("key", [None, "wrong"])
async def test_a_wrong_key_is_refused_and_never_told(tmp_path: Path, key: str | None) -> None:
    with StandIn(tmp_path, api_key="right") as server:
        client = connect(server.url, api_key=key, prefer_grpc=False, grpc_port=1, timeout_seconds=5)
        index = QdrantIndex(client, NAME, DIMENSION)
        with pytest.raises(NoServer, match=r"rejects us.*check qdrant\.api_key") as told:
            await index.open()
        assert "right" not in str(told.value)
        await index.close()


async def test_a_moment_of_silence_is_bridged(index: QdrantIndex, own_qdrant: StandIn) -> None:
    await index.write([stored(id=identity(1))])
    own_qdrant.fail(2, status=503)
    assert len((await index.search([EVERYTHING]))[0]) == 1


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_server_that_stays_silent_is_unreachable(
    index: QdrantIndex, own_qdrant: StandIn, status: int
) -> None:
    own_qdrant.fail(1_000, status=status)
    with pytest.raises(Unreachable):
        await index.write([stored(id=identity(1))])
    own_qdrant.well()
    assert await index.count() == 0


async def test_a_slow_server_is_given_up_in_time(own_qdrant: StandIn) -> None:
    client = connect(
        own_qdrant.url, api_key=None, prefer_grpc=False, grpc_port=1, timeout_seconds=1
    )
    index = QdrantIndex(client, NAME, DIMENSION)
    own_qdrant.slow(5)
    with pytest.raises(Unreachable, match=r"does not answer; is it running.*ReadTimeout"):
        await index.open()
    own_qdrant.well()
    await index.close()


async def test_a_collection_that_is_gone_is_no_empty_one_until_a_service_refills_it(
    index: QdrantIndex, own_qdrant: StandIn
) -> None:
    """Where it is only read it is not made, else an empty answer would count."""
    client = rest_client(own_qdrant.url)
    reading = QdrantIndex(client, NAME, DIMENSION)
    for ask in (index.level, index.count, lambda: index.search([EVERYTHING])):
        await client.delete_collection(f"{NAME}.1")
        with pytest.raises(NoStore, match="is gone: start memsieve service writer"):
            await reading.level()
        with pytest.raises(Transient, match="was gone: the writer refills it"):
            await ask()
        assert await index.level() is None
        assert await reading.level() is None
    await client.close()


async def test_a_closed_grpc_port_is_unreachable() -> None:
    client = connect(
        f"http://127.0.0.1:{free_port()}",
        api_key=None,
        prefer_grpc=True,
        grpc_port=free_port(),
        timeout_seconds=1,
    )
    index = QdrantIndex(client, NAME, DIMENSION)
    for ask in (index.open, index.level, lambda: index.search([EVERYTHING])):
        with pytest.raises(Unreachable):
            await ask()
    await index.close()


@pytest.fixture
def grpc_port() -> Generator[int]:
    """Serve gRPC, but none of Qdrant's methods; in threads, which need no event loop."""
    server = grpc.server(ThreadPoolExecutor(1))
    port: int = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield port
    server.stop(None).wait()


async def test_a_grpc_server_that_is_no_qdrant_is_fatal(grpc_port: int) -> None:
    port = grpc_port
    client = AsyncQdrantClient(
        url=f"http://127.0.0.1:{port}", prefer_grpc=True, grpc_port=port, check_compatibility=False
    )
    index = QdrantIndex(client, NAME, DIMENSION)
    with pytest.raises(Fatal, match="UNIMPLEMENTED"):
        await index.level()
    await index.close()


def test_the_services_tell_in_one_line_what_is_wrong_with_their_server(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str
) -> None:
    with StandIn(tmp_path / "old", version="1.18.0") as old:
        installation = Installation.on(
            tmp_path,
            kafka_bootstrap,
            topic_prefix,
            index__kind="qdrant",
            qdrant__url=old.url,
            qdrant__prefer_grpc="false",
        )
        installation.memsieve("service", "topics", "create", "--partitions", "1")
        said = installation.memsieve("service", "writer", code=7)
    lines = [line for line in said.splitlines() if line.startswith("memsieve:")]
    assert lines == ["memsieve: Qdrant is version 1.18.0; memsieve needs 1.19 or newer"]


def test_doctor_compares_the_collection_with_the_log(
    tmp_path: Path,
    kafka_bootstrap: str,
    topic_prefix: str,
    qdrant_url: str,
    collection_prefix: str,
) -> None:
    installation = Installation.on(
        tmp_path,
        kafka_bootstrap,
        topic_prefix,
        **over_rest(qdrant_url, collection_prefix),
    )
    installation.memsieve("service", "topics", "create", "--partitions", "1")
    assert "is gone: start memsieve" in installation.memsieve("check", code=3)
    with installation.running("writer") as writer:
        writer.wait_until_ready()
    said = installation.memsieve("check")
    assert "ok  index   0 memories, 0 retired, all as the log says" in said
