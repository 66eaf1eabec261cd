"""REST's models in the engine's words, and the engine's answers in REST's.

What the engine cannot do, or no test needs, is refused by name and never left out in silence.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, cast

import qdrant_edge as engine
from pydantic import BaseModel
from qdrant_client.http import models as rest

_GRAPH = {
    "m": 16,
    "ef_construct": 100,
    "full_scan_threshold": 10_000,
    "max_indexing_threads": 0,
    "on_disk": False,
}
"""The server's defaults."""

_MODES = {
    rest.UpdateMode.UPSERT: engine.UpdateMode.Upsert,
    rest.UpdateMode.INSERT_ONLY: engine.UpdateMode.InsertOnly,
    rest.UpdateMode.UPDATE_ONLY: engine.UpdateMode.UpdateOnly,
}


class Refused(Exception):
    """The request is answered with this status and, in the server's words, why."""

    def __init__(self, status: HTTPStatus, error: str) -> None:
        super().__init__(error)
        self.status = status


def unserved(what: str) -> Refused:
    return Refused(HTTPStatus.BAD_REQUEST, f"Bad request: the stand-in does not serve {what}")


@contextmanager
def meanings() -> Generator[None]:
    """Say with which status the server would answer what is raised here.

    The engine refuses values it cannot read as Python does, and raises a bare Exception for the
    rest.
    """
    try:
        yield
    except (Refused, KeyboardInterrupt, SystemExit):
        raise
    except (ValueError, TypeError, OverflowError) as error:
        raise Refused(HTTPStatus.BAD_REQUEST, f"Format error in JSON body: {error}") from error
    except BaseException as error:  # a panic of the engine is not even an Exception
        raise _meaning(str(error)) from error


def _meaning(error: str) -> Refused:
    if "dimension error" in error or "Not existing vector name" in error:
        return Refused(HTTPStatus.BAD_REQUEST, f"Wrong input: {error}")
    if error.startswith("No point with id"):
        return Refused(HTTPStatus.NOT_FOUND, f"Not found: {error} found")
    return Refused(HTTPStatus.INTERNAL_SERVER_ERROR, f"Service internal error: {error}")


def _refuse_others(request: BaseModel, served: set[str]) -> None:
    """Refuse a field that is given and not served."""
    given = {name for name, value in request if value is not None}
    if others := given - served:
        raise unserved(f"{', '.join(sorted(others))} in {type(request).__name__}")


def shard(created: rest.CreateCollection) -> engine.EdgeConfig:
    vectors = dense(created)
    graph = _graph(created)
    return engine.EdgeConfig(
        vectors=engine.EdgeVectorParams(
            size=vectors.size,
            distance=engine.Distance.Cosine,
            multivector_config=_several(vectors.multivector_config),
        ),
        hnsw_config=engine.HnswIndexConfig(
            m=graph.m,
            ef_construct=graph.ef_construct,
            full_scan_threshold=graph.full_scan_threshold,
            payload_m=graph.payload_m,
        ),
    )


def _several(wanted: rest.MultiVectorConfig | None) -> engine.MultiVectorConfig | None:
    """Say how points of several vectors are compared: by the nearest, the only way there is."""
    return wanted and engine.MultiVectorConfig(engine.MultiVectorComparator.MaxSim)


def dense(created: rest.CreateCollection) -> rest.VectorParams:
    """Return the only form of vectors that is served: without a name, compared by cosine."""
    if created.sparse_vectors or not isinstance(created.vectors, rest.VectorParams):
        raise unserved("named or sparse vectors")
    if created.vectors.distance is not rest.Distance.COSINE:
        raise unserved(f"the distance {created.vectors.distance.value}")
    return created.vectors


def _graph(created: rest.CreateCollection) -> rest.HnswConfig:
    wanted = {} if created.hnsw_config is None else created.hnsw_config.model_dump()
    given = {name: value for name, value in wanted.items() if value is not None}
    return rest.HnswConfig.model_validate(_GRAPH | given)


def collection(created: rest.CreateCollection, info: "engine.ShardInfo") -> dict[str, Any]:
    """Return what the server tells about a collection."""
    return {
        "status": "green",
        "optimizer_status": "ok",
        "indexed_vectors_count": info.indexed_vectors_count,
        "points_count": info.points_count,
        "segments_count": info.segments_count,
        "config": {
            "params": {
                "vectors": dense(created).model_dump(mode="json", exclude_none=True),
                "shard_number": 1,
                "replication_factor": 1,
                "write_consistency_factor": 1,
                "on_disk_payload": True,
            },
            "hnsw_config": _graph(created).model_dump(mode="json", exclude_none=True),
            "optimizer_config": {"default_segment_number": 0, "flush_interval_sec": 5},
        },
        "payload_schema": {key: _indexed(index) for key, index in info.payload_schema.items()},
    }


def index(
    schema: rest.PayloadFieldSchema | None,
) -> engine.PayloadSchemaType | engine.KeywordIndexParams | engine.IntegerIndexParams:
    match schema:
        case rest.PayloadSchemaType.KEYWORD:
            return engine.PayloadSchemaType.Keyword
        case rest.PayloadSchemaType.INTEGER:
            return engine.PayloadSchemaType.Integer
        case rest.KeywordIndexParams():
            _refuse_others(schema, {"type", "is_tenant", "on_disk", "enable_hnsw"})
            return engine.KeywordIndexParams(
                is_tenant=schema.is_tenant, on_disk=schema.on_disk, enable_hnsw=schema.enable_hnsw
            )
        case rest.IntegerIndexParams():
            _refuse_others(schema, {"type", "lookup", "range", "is_principal", "on_disk"})
            return engine.IntegerIndexParams(
                lookup=schema.lookup,
                range=schema.range,
                is_principal=schema.is_principal,
                on_disk=schema.on_disk,
            )
        case _:
            raise unserved(f"the index {schema}")


def _indexed(info: "engine.PayloadIndexInfo") -> dict[str, Any]:
    match info.params:
        case engine.KeywordIndexParams() as params:
            kind, names = "keyword", ("is_tenant", "on_disk", "enable_hnsw")
        case engine.IntegerIndexParams() as params:
            kind, names = "integer", ("lookup", "range", "is_principal", "on_disk")
        case _ as params:
            kind, names = str(info.data_type).rpartition(".")[2].lower(), ()
    answer: dict[str, Any] = {"data_type": kind, "points": info.points}
    given = {name: getattr(params, name) for name in names}
    if given := {name: value for name, value in given.items() if value is not None}:
        answer["params"] = {"type": kind, **given}
    return answer


def condition(wanted: rest.Filter | None) -> engine.Filter | None:
    return None if wanted is None else _filter(wanted)


def _filter(wanted: rest.Filter) -> engine.Filter:
    _refuse_others(wanted, {"must", "should", "must_not"})
    return engine.Filter(
        must=_conditions(wanted.must),
        should=_conditions(wanted.should),
        must_not=_conditions(wanted.must_not),
    )


def _conditions(
    wanted: list[rest.Condition] | rest.Condition | None,
) -> "list[engine.ConditionType] | None":
    if wanted is None:
        return None
    return [_condition(each) for each in (wanted if isinstance(wanted, list) else [wanted])]


def _condition(wanted: rest.Condition) -> "engine.ConditionType":
    match wanted:
        case rest.Filter():
            return _filter(wanted)
        case rest.FieldCondition():
            return _field(wanted)
        case rest.HasIdCondition():
            return engine.HasIdCondition(set(wanted.has_id))
        case rest.IsEmptyCondition():
            return engine.IsEmptyCondition(wanted.is_empty.key)
        case rest.IsNullCondition():
            return engine.IsNullCondition(wanted.is_null.key)
        case _:
            raise unserved(type(wanted).__name__)


def _field(wanted: rest.FieldCondition) -> engine.FieldCondition:
    _refuse_others(wanted, {"key", "match", "range", "is_empty", "is_null"})
    return engine.FieldCondition(
        wanted.key,
        match=None if wanted.match is None else _match(wanted.match),
        range=None if wanted.range is None else _range(wanted.range),
        is_empty=wanted.is_empty,
        is_null=wanted.is_null,
    )


def _match(wanted: rest.Match) -> "engine.MatchType":
    match wanted:
        case rest.MatchValue():
            return engine.MatchValue(wanted.value)
        case rest.MatchAny():
            return engine.MatchAny(wanted.any)
        case rest.MatchExcept():
            return engine.MatchExcept(wanted.except_)
        case _:
            raise unserved(type(wanted).__name__)


def _range(wanted: rest.RangeInterface) -> engine.RangeFloat:
    if isinstance(wanted, rest.DatetimeRange):
        raise unserved("ranges of times")
    return engine.RangeFloat(gte=wanted.gte, gt=wanted.gt, lte=wanted.lte, lt=wanted.lt)


def update(operation: rest.UpdateOperation) -> engine.UpdateOperation:
    match operation:
        case rest.UpsertOperation():
            return upsert(operation.upsert)
        case rest.DeleteOperation():
            return delete(operation.delete)
        case rest.SetPayloadOperation():
            return set_payload(operation.set_payload)
        case rest.OverwritePayloadOperation():
            return overwrite_payload(operation.overwrite_payload)
        case _:
            raise unserved(type(operation).__name__)


def upsert(wanted: rest.PointInsertOperations) -> engine.UpdateOperation:
    return engine.UpdateOperation.upsert_points(
        _batch(wanted) if isinstance(wanted, rest.PointsBatch) else _list(wanted),
        condition=condition(wanted.update_filter),
        update_mode=None if wanted.update_mode is None else _MODES[wanted.update_mode],
    )


def _list(wanted: rest.PointsList) -> list[engine.Point]:
    _refuse_others(wanted, {"points", "update_filter", "update_mode"})
    return [engine.Point(each.id, _vector(each.vector), each.payload) for each in wanted.points]


def _batch(wanted: rest.PointsBatch) -> list[engine.Point]:
    _refuse_others(wanted, {"batch", "update_filter", "update_mode"})
    ids, vectors = wanted.batch.ids, wanted.batch.vectors
    if not isinstance(vectors, list):
        raise unserved("named vectors in a batch")
    payloads = wanted.batch.payloads or [None] * len(ids)
    return [
        engine.Point(id_, _vector(vector), payload)
        for id_, vector, payload in zip(ids, vectors, payloads, strict=True)
    ]


def _vector(wanted: object) -> "engine.Vector":
    """Take a list of numbers, or of such lists, or names with vectors.

    The engine refuses names that it does not know, and several vectors where one is wanted.

    No vector at all, said with an empty object, is allowed.
    """
    if not isinstance(wanted, list | dict):
        raise unserved(f"a vector made of {type(wanted).__name__}")
    return cast("engine.Vector", wanted)


def delete(wanted: rest.PointsSelector) -> engine.UpdateOperation:
    if isinstance(wanted, rest.FilterSelector):
        _refuse_others(wanted, {"filter"})
        return engine.UpdateOperation.delete_points_by_filter(_filter(wanted.filter))
    _refuse_others(wanted, {"points"})
    return engine.UpdateOperation.delete_points(_ids(wanted.points))


def set_payload(wanted: rest.SetPayload) -> engine.UpdateOperation:
    _refuse_others(wanted, {"payload", "points", "filter", "key"})
    operations = engine.UpdateOperation
    if wanted.points is not None:
        return operations.set_payload(_ids(wanted.points), wanted.payload, wanted.key)
    return operations.set_payload_by_filter(_chosen(wanted), wanted.payload, wanted.key)


def overwrite_payload(wanted: rest.SetPayload) -> engine.UpdateOperation:
    _refuse_others(wanted, {"payload", "points", "filter"})
    operations = engine.UpdateOperation
    if wanted.points is not None:
        return operations.overwrite_payload(_ids(wanted.points), wanted.payload)
    return operations.overwrite_payload_by_filter(_chosen(wanted), wanted.payload)


def _chosen(wanted: rest.SetPayload) -> engine.Filter:
    if wanted.filter is None:
        raise ValueError("Either list of point ids or filter must be provided")
    return _filter(wanted.filter)


def _ids(wanted: Sequence[rest.ExtendedPointId]) -> "list[engine.PointId]":
    return list(wanted)


def query(wanted: rest.QueryRequest) -> engine.QueryRequest:
    _refuse_others(
        wanted,
        {
            "query",
            "filter",
            "params",
            "score_threshold",
            "limit",
            "offset",
            "with_vector",
            "with_payload",
        },
    )
    return engine.QueryRequest(
        limit=10 if wanted.limit is None else wanted.limit,
        offset=wanted.offset,
        query=None if wanted.query is None else _nearest(wanted.query),
        filter=condition(wanted.filter),
        score_threshold=wanted.score_threshold,
        params=None if wanted.params is None else _params(wanted.params),
        with_vector=wanted.with_vector,
        with_payload=payload_wanted(wanted.with_payload, unsaid=False),
    )


def _nearest(wanted: rest.QueryInterface) -> engine.Query:
    if isinstance(wanted, rest.NearestQuery):
        _refuse_others(wanted, {"nearest"})
        wanted = wanted.nearest
    if not isinstance(wanted, list):
        raise unserved(f"a query by {type(wanted).__name__}")
    return engine.Query.Nearest(wanted)


def _params(wanted: rest.SearchParams) -> engine.SearchParams:
    """Take what changes the answer; what only changes the speed of a server is dropped."""
    return engine.SearchParams(
        hnsw_ef=wanted.hnsw_ef,
        exact=bool(wanted.exact),
        indexed_only=bool(wanted.indexed_only),
    )


def scroll(wanted: rest.ScrollRequest) -> engine.ScrollRequest:
    _refuse_others(wanted, {"offset", "limit", "filter", "with_payload", "with_vector"})
    return engine.ScrollRequest(
        offset=wanted.offset,
        limit=10 if wanted.limit is None else wanted.limit,
        filter=condition(wanted.filter),
        with_payload=payload_wanted(wanted.with_payload, unsaid=True),
        with_vector=wanted.with_vector,
    )


def payload_wanted(
    wanted: rest.WithPayloadInterface | None, *, unsaid: bool
) -> "engine.WithPayloadType":
    match wanted:
        case None:
            return unsaid
        case bool():
            return wanted
        case list():
            return engine.PayloadSelector.Include(wanted)
        case rest.PayloadSelectorInclude():
            return engine.PayloadSelector.Include(wanted.include)
        case rest.PayloadSelectorExclude():
            return engine.PayloadSelector.Exclude(wanted.exclude)


def point_ids(wanted: rest.PointRequest) -> "list[engine.PointId]":
    _refuse_others(wanted, {"ids", "with_payload", "with_vector"})
    return _ids(wanted.ids)


def record(point: engine.Record) -> dict[str, Any]:
    return {"id": point_id(point.id), **_contents(point)}


def scored(point: engine.ScoredPoint) -> dict[str, Any]:
    identity = {"id": point_id(point.id), "version": point.version, "score": point.score}
    return {**identity, **_contents(point)}


def _contents(point: engine.Record | engine.ScoredPoint) -> dict[str, Any]:
    contents = {"payload": point.payload, "vector": point.vector}
    return {name: value for name, value in contents.items() if value is not None}


def point_id(known: "engine.PointId") -> int | str:
    return known if isinstance(known, int) else str(known)
