"""The stand-in for a Qdrant server answers the real client as the server does."""

import asyncio
import http.client
import itertools
import json
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from qdrant_client import AsyncQdrantClient
from qdrant_client.http import models
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from tests.standin.process import StandIn
from tests.support.machine.waiting import wait_until

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
EAST = [1.0, 0.0, 0.0]
NORTH = [0.0, 1.0, 0.0]
NORTH_EAST = [0.6, 0.8, 0.0]
TEXT_ID = "0b5e6c1e-5c8a-4f0e-9d3a-1f2e3d4c5b6a"

_names = (f"collection-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def standin(tmp_path_factory: pytest.TempPathFactory) -> Generator[StandIn]:
    with StandIn(tmp_path_factory.mktemp("standin")) as running:
        yield running


@pytest.fixture
async def client(standin: StandIn) -> AsyncGenerator[AsyncQdrantClient]:
    standin.well()
    connected = connection(standin)
    yield connected
    await connected.close()


@pytest.fixture
async def name(client: AsyncQdrantClient) -> str:
    """Name a new, empty collection."""
    new = next(_names)
    await create(client, new)
    return new


def connection(standin: StandIn, api_key: str | None = None) -> AsyncQdrantClient:
    """Connect, without loading certificates that plain HTTP has no use for."""
    return AsyncQdrantClient(
        url=standin.url, api_key=api_key, check_compatibility=False, verify=False
    )


async def create(client: AsyncQdrantClient, name: str) -> None:
    await client.create_collection(
        name,
        vectors_config=models.VectorParams(size=3, distance=models.Distance.COSINE),
        hnsw_config=models.HnswConfigDiff(m=0, payload_m=16, full_scan_threshold=2_000),
    )


def point(id_: int | str, vector: Any = EAST, **payload: Any) -> models.PointStruct:
    return models.PointStruct(id=id_, vector=vector, payload=payload)


def is_(key: str, value: str | int) -> models.FieldCondition:
    return models.FieldCondition(key=key, match=models.MatchValue(value=value))


def where(key: str, value: str | int) -> models.Filter:
    return models.Filter(must=[is_(key, value)])


async def payloads(client: AsyncQdrantClient, name: str) -> dict[Any, Any]:
    records, _ = await client.scroll(name, limit=100)
    return {record.id: record.payload for record in records}


def of(refusal: pytest.ExceptionInfo[UnexpectedResponse]) -> tuple[int | None, Any]:
    """Return the status of a refused request, and what the server said was wrong."""
    return refusal.value.status_code, json.loads(refusal.value.content)["status"]["error"]


def plain(standin: StandIn, method: str, path: str, body: str = "") -> tuple[int, bytes]:
    """Send what the client would not."""
    connection = http.client.HTTPConnection(standin.url.removeprefix("http://"))
    connection.request(method, path, body)
    response = connection.getresponse()
    answer = response.status, response.read()
    connection.close()
    return answer


async def test_a_new_collection_tells_how_it_was_made(client: AsyncQdrantClient, name: str) -> None:
    info = await client.get_collection(name)
    vectors = info.config.params.vectors
    assert isinstance(vectors, models.VectorParams)
    assert (vectors.size, vectors.distance) == (3, models.Distance.COSINE)
    graph = info.config.hnsw_config
    assert (graph.m, graph.payload_m, graph.full_scan_threshold) == (0, 16, 2_000)
    assert (info.status, info.points_count) == (models.CollectionStatus.GREEN, 0)


async def test_collections_are_listed_until_they_are_deleted(
    client: AsyncQdrantClient, name: str
) -> None:
    listed = await client.get_collections()
    assert name in [collection.name for collection in listed.collections]
    assert await client.collection_exists(name)
    assert await client.delete_collection(name)
    assert not await client.delete_collection(name)
    assert not await client.collection_exists(name)


async def test_a_name_is_given_once(client: AsyncQdrantClient, name: str) -> None:
    with pytest.raises(UnexpectedResponse) as refusal:
        await create(client, name)
    assert of(refusal) == (409, f"Wrong input: Collection `{name}` already exists!")


async def test_indexes_are_described(client: AsyncQdrantClient, name: str) -> None:
    tenant = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
    await client.create_payload_index(name, "scope", tenant)
    await client.create_payload_index(name, "status", models.PayloadSchemaType.KEYWORD)
    await client.create_payload_index(name, "offset", models.PayloadSchemaType.INTEGER)
    await client.upsert(name, [point(1, scope="a"), point(2, scope="b", offset=4)])
    schema = (await client.get_collection(name)).payload_schema
    assert schema["scope"].params == tenant
    assert {key: (index.data_type.value, index.points) for key, index in schema.items()} == {
        "scope": ("keyword", 2),
        "status": ("keyword", 0),
        "offset": ("integer", 1),
    }


async def test_points_come_back_as_they_were_put(client: AsyncQdrantClient, name: str) -> None:
    payload = {"text": "naïve 寿司", "n": 2**53 + 1, "deep": {"list": [1, 2.5, None, True]}}
    result = await client.upsert(name, [point(TEXT_ID, NORTH_EAST, **payload), point(7)])
    assert result.status is models.UpdateStatus.COMPLETED
    [found] = await client.retrieve(name, [TEXT_ID, 404], with_payload=True, with_vectors=True)
    assert (found.id, found.payload) == (TEXT_ID, payload)
    assert found.vector == pytest.approx(NORTH_EAST)
    [bare] = await client.retrieve(name, [7], with_payload=False)
    assert (bare.id, bare.payload, bare.vector) == (7, None, None)


async def test_a_point_may_lack_its_vector(client: AsyncQdrantClient, name: str) -> None:
    await client.upsert(name, [point(1, {}, text="bare"), point(2)])
    [found] = await client.retrieve(name, [1], with_vectors=True)
    assert (found.payload, found.vector) == ({"text": "bare"}, {})
    nearest = await client.query_points(name, query=EAST)
    assert [hit.id for hit in nearest.points] == [2]


async def test_points_are_put_in_columns_too(client: AsyncQdrantClient, name: str) -> None:
    batch = models.Batch(ids=[1, 2], vectors=[EAST, NORTH], payloads=[{"n": 1}, {"n": 2}])
    await client.upsert(name, batch)
    assert await payloads(client, name) == {1: {"n": 1}, 2: {"n": 2}}


@pytest.mark.parametrize(
    ("mode", "kept"),
    [
        (None, {1: "new", 2: "old", 3: "new"}),
        (models.UpdateMode.UPSERT, {1: "new", 2: "old", 3: "new"}),
        (models.UpdateMode.INSERT_ONLY, {1: "old", 2: "old", 3: "new"}),
        (models.UpdateMode.UPDATE_ONLY, {1: "new", 2: "old"}),
    ],
)
async def test_a_conditional_upsert_judges_only_what_is_there(
    client: AsyncQdrantClient, name: str, mode: models.UpdateMode | None, kept: dict[int, str]
) -> None:
    await client.upsert(name, [point(1, epoch=1, v="old"), point(2, epoch=2, v="old")])
    changes = [point(id_, epoch=3, v="new") for id_ in (1, 2, 3)]
    await client.upsert(name, changes, update_filter=where("epoch", 1), update_mode=mode)
    assert {id_: found["v"] for id_, found in (await payloads(client, name)).items()} == kept


@pytest.mark.parametrize(
    ("mode", "kept"),
    [
        (models.UpdateMode.UPSERT, {1: "new", 2: "new"}),
        (models.UpdateMode.INSERT_ONLY, {1: "old", 2: "new"}),
        (models.UpdateMode.UPDATE_ONLY, {1: "new"}),
    ],
)
async def test_a_mode_needs_no_filter(
    client: AsyncQdrantClient, name: str, mode: models.UpdateMode, kept: dict[int, str]
) -> None:
    await client.upsert(name, [point(1, v="old")])
    await client.upsert(name, [point(1, v="new"), point(2, v="new")], update_mode=mode)
    assert {id_: found["v"] for id_, found in (await payloads(client, name)).items()} == kept


@pytest.mark.parametrize("condition", [None, where("v", "old")])
async def test_the_last_of_one_id_wins_though_the_first_would_change_the_judgement(
    client: AsyncQdrantClient, name: str, condition: models.Filter | None
) -> None:
    await client.upsert(name, [point(1, v="old")])
    twice = [point(1, v="first"), point(2, v="first"), point(1, v="last"), point(2, v="last")]
    await client.upsert(name, twice, update_filter=condition)
    assert await payloads(client, name) == {1: {"v": "last"}, 2: {"v": "last"}}


@pytest.mark.parametrize(
    ("mode", "kept"),
    [
        (None, {1: "old", 2: "new", 3: "old", 4: "new", 5: "new", 6: "new"}),
        (models.UpdateMode.UPDATE_ONLY, {1: "old", 2: "new", 3: "old", 4: "new", 5: "new"}),
    ],
)
async def test_each_point_of_an_upsert_may_have_a_condition_of_its_own(
    client: AsyncQdrantClient, name: str, mode: models.UpdateMode | None, kept: dict[int, str]
) -> None:
    before = {1: 5, 2: 5, 3: 8, 4: 8}
    await client.upsert(name, [point(5, v="old")])
    await client.upsert(name, [point(id_, n=n, v="old") for id_, n in before.items()])
    has_5 = models.Filter(must=[field("n", range=models.Range(gte=5)), has_id(1, 5, 6)])
    has_9 = models.Filter(must=[field("n", range=models.Range(gte=9)), has_id(2, 4)])
    has_7 = models.Filter(must=[field("n", range=models.Range(gte=7)), has_id(3)])
    condition = models.Filter(must_not=[has_5, has_9, has_7])
    changes = [point(id_, v="new") for id_ in range(1, 7)]
    await client.upsert(name, changes, update_filter=condition, update_mode=mode)
    assert {id_: found["v"] for id_, found in (await payloads(client, name)).items()} == kept


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize(
    ("mode", "kept"),
    [
        (models.UpdateMode.UPDATE_ONLY, {1: "new", 2: "old", 3: "old", 4: "old", 5: "old"}),
        (models.UpdateMode.INSERT_ONLY, dict.fromkeys(range(1, 6), "old") | {6: "new"}),
    ],
)
async def test_an_upsert_may_be_judged_by_what_lies_inside_an_object(
    client: AsyncQdrantClient,
    name: str,
    mode: models.UpdateMode,
    kept: dict[int, str],
    *,
    indexed: bool,
) -> None:
    if indexed:
        keyword = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD)
        await client.create_payload_index(name, "level.index", keyword)
        await client.create_payload_index(name, "level.offset", models.PayloadSchemaType.INTEGER)
    levels = [("a", 7), ("b", 7), ("a", 9), ("a", 4)]
    before = [
        point(id_, {}, level={"index": index, "offset": offset}, v="old")
        for id_, (index, offset) in enumerate(levels, 1)
    ]
    await client.upsert(name, [*before, point(5, v="old")])
    between = field("level.offset", range=models.Range(gte=5, lt=9))
    condition = models.Filter(must=[is_("level.index", "a"), between])
    changes = [point(id_, {}, v="new") for id_ in range(1, 7)]
    await client.upsert(name, changes, update_filter=condition, update_mode=mode)
    assert {id_: found["v"] for id_, found in (await payloads(client, name)).items()} == kept


def has_id(*ids: int) -> models.HasIdCondition:
    return models.HasIdCondition(has_id=[*ids])


async def test_a_batch_applies_its_operations_in_order(
    client: AsyncQdrantClient, name: str
) -> None:
    points = models.PointsList(points=[point(id_, a=1, b=1) for id_ in (1, 2, 3)])
    results = await client.batch_update_points(
        name,
        [
            models.UpsertOperation(upsert=points),
            models.SetPayloadOperation(set_payload=models.SetPayload(payload={"a": 2}, points=[1])),
            models.OverwritePayloadOperation(
                overwrite_payload=models.SetPayload(payload={"c": 3}, filter=where("a", 1))
            ),
            models.DeleteOperation(delete=models.PointIdsList(points=[3])),
            models.UpsertOperation(
                upsert=models.PointsList(points=[point(1, d=4)], update_filter=where("a", 1))
            ),
        ],
    )
    assert len(results) == 5
    assert await payloads(client, name) == {1: {"a": 2, "b": 1}, 2: {"c": 3}}


async def test_a_failing_operation_does_not_undo_those_before_it(
    client: AsyncQdrantClient, name: str
) -> None:
    def put(id_: int, vector: Sequence[float]) -> models.UpsertOperation:
        return models.UpsertOperation(upsert=models.PointsList(points=[point(id_, [*vector])]))

    with pytest.raises(UnexpectedResponse):
        await client.batch_update_points(name, [put(1, EAST), put(2, [1.0]), put(3, EAST)])
    assert await payloads(client, name) == {1: {}}


async def test_payloads_are_changed(client: AsyncQdrantClient, name: str) -> None:
    await client.upsert(name, [point(1, a=1, b=1), point(2, a=2, b=2)])
    await client.set_payload(name, {"a": 9}, points=[1])
    await client.overwrite_payload(name, {"c": 3}, points=[2])
    assert await payloads(client, name) == {1: {"a": 9, "b": 1}, 2: {"c": 3}}
    with pytest.raises(UnexpectedResponse) as refusal:
        await client.set_payload(name, {"a": 9}, points=[404])
    assert of(refusal) == (404, "Not found: No point with id 404 found")


async def test_points_are_deleted_by_id_and_by_filter(client: AsyncQdrantClient, name: str) -> None:
    await client.upsert(name, [point(1), point(2, a=1), point(TEXT_ID), point(3, a=2)])
    await client.delete(name, models.PointIdsList(points=[1, UUID(TEXT_ID), 404]))
    await client.delete(name, models.FilterSelector(filter=where("a", 1)))
    assert list(await payloads(client, name)) == [3]


async def test_a_query_finds_the_nearest_that_fit(client: AsyncQdrantClient, name: str) -> None:
    await client.upsert(
        name,
        [
            point(1, EAST, scope="a", text="east", size=1),
            point(2, NORTH, scope="a", text="north"),
            point(3, NORTH_EAST, scope="a", text="between"),
            point(4, EAST, scope="b", text="elsewhere"),
        ],
    )
    by_scope = models.QueryRequest(
        query=EAST,
        filter=where("scope", "a"),
        limit=2,
        params=models.SearchParams(exact=True),
        with_payload=["text"],
        with_vector=True,
    )
    close = models.QueryRequest(
        query=models.NearestQuery(nearest=NORTH),
        score_threshold=0.7,
        with_payload=models.PayloadSelectorInclude(include=["size", "text"]),
    )
    bare = models.QueryRequest(query=EAST, limit=1, filter=where("scope", "b"))
    first, second, third = await client.query_batch_points(name, [by_scope, close, bare])
    assert [(hit.id, hit.payload) for hit in first.points] == [
        (1, {"text": "east"}),
        (3, {"text": "between"}),
    ]
    assert [hit.score for hit in first.points] == pytest.approx([1.0, 0.6])
    assert first.points[1].vector == pytest.approx(NORTH_EAST)
    assert [(hit.id, hit.payload) for hit in second.points] == [
        (2, {"text": "north"}),
        (3, {"text": "between"}),
    ]
    assert [(hit.id, hit.payload, hit.vector) for hit in third.points] == [(4, None, None)]
    alone = await client.query_points(name, query=EAST, limit=1, query_filter=where("scope", "b"))
    assert [hit.id for hit in alone.points] == [4]


async def test_scrolling_goes_through_all_in_the_order_of_ids(
    client: AsyncQdrantClient, name: str
) -> None:
    ids = [1, 2, 3, 5, TEXT_ID]
    await client.upsert(name, [point(id_, scope="a") for id_ in reversed(ids)])
    await client.upsert(name, [point(4, scope="b")])
    seen: list[Any] = []
    offset: Any = None
    while True:
        records, offset = await client.scroll(
            name,
            scroll_filter=where("scope", "a"),
            limit=2,
            offset=offset,
            with_payload=["scope"],
            with_vectors=True,
        )
        assert all(record.payload == {"scope": "a"} and record.vector for record in records)
        seen.extend(record.id for record in records)
        if offset is None:
            break
    assert seen == ids


def field(key: str, **condition: Any) -> models.FieldCondition:
    return models.FieldCondition(key=key, **condition)


@pytest.mark.parametrize(
    ("condition", "fitting"),
    [
        (models.Filter(must=[is_("kind", "x"), is_("n", 1)]), {1}),
        (models.Filter(must=is_("kind", "x")), {1, 2}),
        (models.Filter(should=[is_("n", 1), is_("n", 3)]), {1, 3}),
        (models.Filter(must_not=[is_("kind", "x")]), {3, 4}),
        (models.Filter(must=[field("tags", match=models.MatchAny(any=["b", "c"]))]), {2, 3}),
        (models.Filter(must=[field("n", match=models.MatchAny(any=[1, 4]))]), {1, 4}),
        (models.Filter(must=[field("kind", match=models.MatchExcept(**{"except": ["x"]}))]), {3}),
        (models.Filter(must=[field("n", range=models.Range(gte=2, lt=4))]), {2, 3}),
        (models.Filter(must=[models.HasIdCondition(has_id=[2, 4, 404])]), {2, 4}),
        (
            models.Filter(must=[models.IsEmptyCondition(is_empty=models.PayloadField(key="kind"))]),
            {4},
        ),
        (
            models.Filter(
                must=[
                    models.Filter(should=[is_("n", 1), is_("n", 2)]),
                    models.Filter(must_not=[is_("tags", "b")]),
                ]
            ),
            {1},
        ),
    ],
)
async def test_filters_choose(
    client: AsyncQdrantClient, name: str, condition: models.Filter, fitting: set[int]
) -> None:
    await client.upsert(
        name,
        [
            point(1, kind="x", n=1, tags=["a"]),
            point(2, kind="x", n=2, tags=["a", "b"]),
            point(3, kind="y", n=3, tags=["c"]),
            point(4, n=4),
        ],
    )
    records, _ = await client.scroll(name, scroll_filter=condition)
    assert {record.id for record in records} == fitting
    assert (await client.count(name, condition)).count == len(fitting)


async def test_everything_is_counted_without_a_filter(client: AsyncQdrantClient, name: str) -> None:
    await client.upsert(name, [point(1), point(2)])
    assert (await client.count(name)).count == 2
    assert (await client.get_collection(name)).points_count == 2


def given(alias: str, collection: str) -> models.CreateAliasOperation:
    wanted = models.CreateAlias(collection_name=collection, alias_name=alias)
    return models.CreateAliasOperation(create_alias=wanted)


def taken(alias: str) -> models.DeleteAliasOperation:
    return models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=alias))


def renamed(old: str, new: str) -> models.RenameAliasOperation:
    wanted = models.RenameAlias(old_alias_name=old, new_alias_name=new)
    return models.RenameAliasOperation(rename_alias=wanted)


async def aliases(client: AsyncQdrantClient, name: str) -> list[str]:
    found = await client.get_collection_aliases(name)
    return [alias.alias_name for alias in found.aliases]


async def test_an_alias_is_swapped_in_one_call(client: AsyncQdrantClient, name: str) -> None:
    other, alias = next(_names), f"{name}-current"
    await create(client, other)
    await client.update_collection_aliases([given(alias, name)])
    await client.upsert(alias, [point(1, of="old")])
    await client.upsert(other, [point(1, of="new")])
    assert await payloads(client, alias) == {1: {"of": "old"}}
    assert await client.collection_exists(alias)

    await client.update_collection_aliases([taken(alias), given(alias, other)])
    assert await payloads(client, alias) == {1: {"of": "new"}}
    assert (await aliases(client, name), await aliases(client, other)) == ([], [alias])

    await client.update_collection_aliases([renamed(alias, f"{alias}-2")])
    listed = {(a.alias_name, a.collection_name) for a in (await client.get_aliases()).aliases}
    assert (f"{alias}-2", other) in listed
    assert alias not in {listed_alias for listed_alias, _ in listed}
    await client.delete_collection(other)
    assert not await client.collection_exists(f"{alias}-2")


async def test_aliases_change_together_or_not_at_all(client: AsyncQdrantClient, name: str) -> None:
    with pytest.raises(UnexpectedResponse) as refusal:
        await client.update_collection_aliases([given("fine", name), given("lost", "absent")])
    assert of(refusal) == (404, "Not found: Collection `absent` doesn't exist!")
    assert await aliases(client, name) == []
    with pytest.raises(UnexpectedResponse) as refusal:
        await client.update_collection_aliases([given(name, name)])
    assert of(refusal)[0] == 409


async def test_an_unknown_collection_is_not_found(client: AsyncQdrantClient) -> None:
    with pytest.raises(UnexpectedResponse) as refusal:
        await client.count("absent")
    assert of(refusal) == (404, "Not found: Collection `absent` doesn't exist!")


async def test_a_vector_of_another_size_is_refused(client: AsyncQdrantClient, name: str) -> None:
    error = "Wrong input: Vector dimension error: expected dim: 3, got 2"
    with pytest.raises(UnexpectedResponse) as refusal:
        await client.upsert(name, [point(1, [1.0, 0.0])])
    assert of(refusal) == (400, error)
    with pytest.raises(UnexpectedResponse) as refusal:
        await client.query_points(name, query=[1.0, 0.0])
    assert of(refusal) == (400, error)


async def test_an_id_that_is_neither_number_nor_uuid_is_refused(
    client: AsyncQdrantClient, name: str
) -> None:
    with pytest.raises(UnexpectedResponse) as refusal:
        await client.upsert(name, [point("one")])
    assert of(refusal)[0] == 400


@pytest.mark.parametrize("body", ["{", "[]", '{"points": 1}', '{"others": []}'])
async def test_a_malformed_body_is_refused_in_json(standin: StandIn, name: str, body: str) -> None:
    status, answer = plain(standin, "PUT", f"/collections/{name}/points", body)
    assert status == 400
    assert json.loads(answer)["status"]["error"].startswith("Format error in JSON body")


async def test_what_is_not_served_is_never_ignored(client: AsyncQdrantClient, name: str) -> None:
    words = models.Filter(must=[field("text", match=models.MatchText(text="word"))])
    with pytest.raises(UnexpectedResponse, match="does not serve MatchText"):
        await client.count(name, words)
    with pytest.raises(UnexpectedResponse, match="does not serve order_by"):
        await client.scroll(name, order_by="n")
    with pytest.raises(UnexpectedResponse) as refusal:
        await client.clear_payload(name, [1])
    assert refusal.value.status_code == 404


def test_health_and_version_are_told(standin: StandIn) -> None:
    standin.well()
    assert json.loads(plain(standin, "GET", "/")[1])["version"] == "1.19.0"
    assert plain(standin, "GET", "/healthz") == (200, b"healthz check passed")
    assert plain(standin, "GET", "/readyz") == (200, b"all shards are ready")
    assert plain(standin, "GET", "/elsewhere") == (404, b"")


async def test_it_fails_as_often_as_told(
    standin: StandIn, client: AsyncQdrantClient, name: str
) -> None:
    standin.fail(2)
    for _ in range(2):
        with pytest.raises(UnexpectedResponse) as refusal:
            await client.upsert(name, [point(1)])
        assert refusal.value.status_code == 503
    assert await payloads(client, name) == {}
    standin.fail(100, status=429)
    with pytest.raises(UnexpectedResponse) as refusal:
        await client.count(name)
    assert refusal.value.status_code == 429
    standin.well()
    assert (await client.count(name)).count == 0


async def test_a_slow_server_still_does_what_nobody_waits_for(
    standin: StandIn, client: AsyncQdrantClient, name: str
) -> None:
    standin.slow(0.3)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await client.upsert(name, [point(1)])
    standin.well()
    wait_until(lambda: count(standin, name) == 1, "the late write is there", seconds=10)
    assert await payloads(client, name) == {1: {}}


def count(standin: StandIn, name: str) -> int:
    _, answer = plain(standin, "POST", f"/collections/{name}/points/count", "{}")
    return json.loads(answer)["result"]["count"]


@pytest.mark.parametrize("end", [StandIn.stop, StandIn.kill], ids=["stopped", "killed"])
async def test_what_was_done_survives_a_restart(
    standin: StandIn,
    client: AsyncQdrantClient,
    name: str,
    end: Callable[[StandIn], None],
) -> None:
    await client.create_payload_index(name, "scope", models.PayloadSchemaType.KEYWORD)
    await client.update_collection_aliases([given(f"{name}-current", name)])
    await client.upsert(name, [point(1, NORTH_EAST, scope="a")])
    before, url = await client.get_collection(name), standin.url
    end(standin)
    with pytest.raises(ResponseHandlingException):
        await client.count(name)
    standin.restart()
    assert standin.url == url
    assert await client.get_collection(name) == before
    assert await payloads(client, f"{name}-current") == {1: {"scope": "a"}}


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
async def test_a_key_is_asked_for_and_another_version_is_told(tmp_path: Path) -> None:
    with StandIn(tmp_path, api_key="secret", version="1.16.3") as guarded:
        for key, error in (None, b"Must provide an API key"), ("wrong", b"Invalid API key"):
            stranger = connection(guarded, key)
            with pytest.raises(UnexpectedResponse) as refusal:
                await stranger.get_collections()
            await stranger.close()
            assert refusal.value.status_code == 401
            assert refusal.value.content.startswith(error)
        known = connection(guarded, "secret")
        assert (await known.get_collections()).collections == []
        assert (await known.info()).version == "1.16.3"
        await known.close()
        assert plain(guarded, "GET", "/readyz")[0] == 200


def test_it_ends_with_its_parent(tmp_path: Path) -> None:
    program = f"""
import os
from pathlib import Path
from tests.standin.process import StandIn
print(StandIn(Path({str(tmp_path)!r})).url, flush=True)
os._exit(1)
"""
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    address = run.stdout.strip().removeprefix("http://")
    assert address

    def gone() -> bool:
        try:
            http.client.HTTPConnection(address).connect()
        except ConnectionRefusedError:
            return True
        return False

    wait_until(gone, "the server of a dead parent is gone", seconds=10)
