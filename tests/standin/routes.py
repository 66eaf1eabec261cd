"""What each served request of Qdrant's REST API does."""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import qdrant_edge as engine
from pydantic import TypeAdapter
from qdrant_client.http import models as rest

from tests.standin import translation
from tests.standin.storage import Storage

_UPSERT: TypeAdapter[rest.PointInsertOperations] = TypeAdapter(rest.PointInsertOperations)
_SELECTOR: TypeAdapter[rest.PointsSelector] = TypeAdapter(rest.PointsSelector)


class Call(NamedTuple):
    """What a request says besides its method and the fixed parts of its path."""

    name: str
    """The collection or alias, where the path names one."""
    body: bytes
    wait: bool


Answer = Callable[[Storage, Call], Any]
"""Returns the result, ready for JSON."""


class _Route(NamedTuple):
    method: str
    path: re.Pattern[str]
    answer: Answer


def find(method: str, path: str) -> tuple[Answer, str] | None:
    """Return what answers a request, and the collection that its path names, or None."""
    for route in _ROUTES:
        fits = route.path.fullmatch(path) if route.method == method else None
        if fits is not None:
            return route.answer, fits.groupdict().get("name", "")
    return None


def _route(method: str, path: str, answer: Answer) -> _Route:
    return _Route(method, re.compile(path.replace("NAME", "(?P<name>[^/]+)")), answer)


def _create(storage: Storage, call: Call) -> bool:
    storage.create(call.name, rest.CreateCollection.model_validate_json(call.body))
    return True


def _delete(storage: Storage, call: Call) -> bool:
    return storage.delete(call.name)


def _info(storage: Storage, call: Call) -> dict[str, Any]:
    collection = storage.get(call.name)
    with collection.shard() as shard:
        return translation.collection(collection.created, shard.info())


def _exists(storage: Storage, call: Call) -> dict[str, bool]:
    return {"exists": storage.exists(call.name)}


def _names(storage: Storage, _: Call) -> dict[str, Any]:
    return {"collections": [{"name": name} for name in storage.names()]}


def _change_aliases(storage: Storage, call: Call) -> bool:
    wanted = rest.ChangeAliasesOperation.model_validate_json(call.body)
    storage.change_aliases(wanted.actions)
    return True


def _aliases(storage: Storage, call: Call) -> dict[str, Any]:
    """List the aliases of one collection, or of all where the path names none."""
    return {
        "aliases": [
            {"alias_name": alias, "collection_name": name}
            for alias, name in sorted(storage.aliases().items())
            if call.name in {"", name}
        ]
    }


def _create_index(storage: Storage, call: Call) -> dict[str, Any]:
    wanted = rest.CreateFieldIndex.model_validate_json(call.body)
    schema = translation.index(wanted.field_schema)
    operation = engine.UpdateOperation.create_field_index(wanted.field_name, schema)
    return _update(storage, call, operation)


def _upsert(storage: Storage, call: Call) -> dict[str, Any]:
    wanted = _UPSERT.validate_json(call.body)
    return _update(storage, call, translation.upsert(wanted))


def _delete_points(storage: Storage, call: Call) -> dict[str, Any]:
    wanted = _SELECTOR.validate_json(call.body)
    return _update(storage, call, translation.delete(wanted))


def _set_payload(storage: Storage, call: Call) -> dict[str, Any]:
    wanted = rest.SetPayload.model_validate_json(call.body)
    return _update(storage, call, translation.set_payload(wanted))


def _overwrite_payload(storage: Storage, call: Call) -> dict[str, Any]:
    wanted = rest.SetPayload.model_validate_json(call.body)
    return _update(storage, call, translation.overwrite_payload(wanted))


def _batch(storage: Storage, call: Call) -> list[dict[str, Any]]:
    """Apply the operations in order; as on the server, a failing one does not undo the others."""
    wanted = rest.UpdateOperations.model_validate_json(call.body)
    operations = [translation.update(operation) for operation in wanted.operations]
    return [_update(storage, call, operation) for operation in operations]


def _update(storage: Storage, call: Call, operation: engine.UpdateOperation) -> dict[str, Any]:
    """Apply an operation, also where the caller does not wait for it."""
    number = storage.get(call.name).update(operation)
    return {"operation_id": number, "status": "completed" if call.wait else "acknowledged"}


def _query(storage: Storage, call: Call) -> dict[str, Any]:
    return _search(storage, call, [rest.QueryRequest.model_validate_json(call.body)])[0]


def _query_batch(storage: Storage, call: Call) -> list[dict[str, Any]]:
    return _search(storage, call, rest.QueryRequestBatch.model_validate_json(call.body).searches)


def _search(
    storage: Storage, call: Call, wanted: Sequence[rest.QueryRequest]
) -> list[dict[str, Any]]:
    request = engine.QueryBatchRequest([translation.query(each) for each in wanted])
    with storage.get(call.name).shard() as shard:
        answers = shard.query_batch(request)
    return [{"points": [translation.scored(point) for point in points]} for points in answers]


def _retrieve(storage: Storage, call: Call) -> list[dict[str, Any]]:
    wanted = rest.PointRequest.model_validate_json(call.body)
    ids = translation.point_ids(wanted)
    payload = translation.payload_wanted(wanted.with_payload, unsaid=True)
    with storage.get(call.name).shard() as shard:
        records = shard.retrieve(ids, payload, wanted.with_vector or False)
    return [translation.record(record) for record in records]


def _scroll(storage: Storage, call: Call) -> dict[str, Any]:
    request = translation.scroll(rest.ScrollRequest.model_validate_json(call.body))
    with storage.get(call.name).shard() as shard:
        records, following = shard.scroll(request)
    return {
        "points": [translation.record(record) for record in records],
        "next_page_offset": None if following is None else translation.point_id(following),
    }


def _count(storage: Storage, call: Call) -> dict[str, int]:
    wanted = rest.CountRequest.model_validate_json(call.body)
    request = engine.CountRequest(wanted.exact is not False, translation.condition(wanted.filter))
    with storage.get(call.name).shard() as shard:
        return {"count": shard.count(request)}


_ROUTES = (
    _route("GET", "/collections", _names),
    _route("POST", "/collections/aliases", _change_aliases),
    _route("GET", "/aliases", _aliases),
    _route("PUT", "/collections/NAME", _create),
    _route("GET", "/collections/NAME", _info),
    _route("DELETE", "/collections/NAME", _delete),
    _route("GET", "/collections/NAME/exists", _exists),
    _route("GET", "/collections/NAME/aliases", _aliases),
    _route("PUT", "/collections/NAME/index", _create_index),
    _route("PUT", "/collections/NAME/points", _upsert),
    _route("POST", "/collections/NAME/points", _retrieve),
    _route("POST", "/collections/NAME/points/batch", _batch),
    _route("POST", "/collections/NAME/points/delete", _delete_points),
    _route("POST", "/collections/NAME/points/payload", _set_payload),
    _route("PUT", "/collections/NAME/points/payload", _overwrite_payload),
    _route("POST", "/collections/NAME/points/query", _query),
    _route("POST", "/collections/NAME/points/query/batch", _query_batch),
    _route("POST", "/collections/NAME/points/scroll", _scroll),
    _route("POST", "/collections/NAME/points/count", _count),
)
