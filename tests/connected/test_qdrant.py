"""What QdrantIndex promises beyond the contract: a collection made right, and failures understood."""

import asyncio
import time
from collections.abc import AsyncGenerator, Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from qdrant_client import AsyncQdrantClient, models

from schemas.base import ModelId, ScopeName
from streams.adapters.indexes.qdrant import (
    FULL_SCAN_KILOBYTES,
    QdrantIndex,
    collection_name,
    connect,
)
from streams.ports import Fatal, Level, NoServer, NoStore, Query, Unreachable
from tests.builders import DIMENSION, MODEL, identity, stored, unit
from tests.standin.process import StandIn
from tests.support.kafka import free_port
from tests.support.qdrant import rest_client
from tests.support.services import Installation

NAME = collection_name("test", MODEL, DIMENSION)
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
        "decision_ids",
        "level.offset",
    }
    scope = found.payload_schema["scope"].params
    assert isinstance(scope, models.KeywordIndexParams)
    assert scope.is_tenant is True
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


async def test_a_level_is_never_lowered(index: QdrantIndex) -> None:
    await index.keep_level(0, 12)
    await index.keep_level(0, 7)
    await index.keep_level(1, 3)
    assert await index.level() == Level({0: 12, 1: 3}, 0)
    assert await index.search([EVERYTHING]) == [[]]
    assert [one async for one in index.scan()] == []


async def test_a_collection_of_another_dimension_is_refused(
    index: QdrantIndex, own_qdrant: StandIn
) -> None:
    del index
    other = QdrantIndex(rest_client(own_qdrant.url), NAME, 3)
    with pytest.raises(NoStore, match=r"was not made for vectors of 3 dimensions.*prefix"):
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
        with pytest.raises(NoServer, match=r"refuses us.*check qdrant\.api_key") as told:
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
    started = time.monotonic()
    with pytest.raises(Unreachable, match=r"does not answer; is it running.*ReadTimeout"):
        await index.open()
    assert time.monotonic() - started < 20
    own_qdrant.well()
    await index.close()


async def test_a_collection_that_is_gone_is_no_empty_one(
    index: QdrantIndex, own_qdrant: StandIn
) -> None:
    client = rest_client(own_qdrant.url)
    await client.delete_collection(f"{NAME}.1")
    await client.close()
    for ask in (index.level, index.count, lambda: index.search([EVERYTHING])):
        with pytest.raises(NoStore, match="is gone: start memsieve again"):
            await ask()


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
        installation.memsieve("topics", "create", "--partitions", "1")
        said = installation.memsieve("writer", code=7)
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
        index__kind="qdrant",
        qdrant__url=qdrant_url,
        qdrant__prefer_grpc="false",
        qdrant__collection_prefix=collection_prefix,
    )
    installation.memsieve("topics", "create", "--partitions", "1")
    assert "is gone: start memsieve" in installation.memsieve("doctor", code=3)
    with installation.running("writer") as writer:
        writer.wait_until_ready()
    said = installation.memsieve("doctor")
    assert "ok  index   0 memories, 0 retired, all as the log says" in said
