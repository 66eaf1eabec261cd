"""A collection of a Qdrant server: the index of several processes.

One collection for all scopes, each scope a tenant: no graph over all points (m=0), one per scope
(payload_m). A scope smaller than FULL_SCAN_KILOBYTES is searched exactly, so for all but the
largest scopes the answer is the same as from `exact`.
"""

import asyncio
import re
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar
from uuid import UUID, uuid5

import grpc
from pydantic import TypeAdapter
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.conversions.common_types import PointId
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from schemas.base import ContentKey, DecisionId, MemoryId, ModelId, ScopeName
from schemas.memories import LIVE, Standing
from streams.index.following import new_token, require_followed
from streams.index.payload import (
    CONTENT_KEY,
    CONTRADICTED,
    DECISION_IDS,
    KEYWORDS,
    POINT_ID,
    SCOPE,
    SEARCHED,
    STATUS,
    VERSION,
    WHOLE,
    by_scope,
    contradicting,
    from_payload,
    remembered,
    to_payload,
    vectors_of,
    with_contents,
)
from streams.model.fences import ReadPosition
from streams.model.neighbours import KnownEvent, StoredMemory
from streams.model.ports.failures import Fatal, NoServer, NoStore, Transient, Unreachable
from streams.model.ports.index import FLOAT32_SLACK, UNFOLLOWED, IndexLevel, PartitionLevel, Query

VERSION_MIN: Final = (1, 19)
"""Earlier servers may replay a conditional write differently after a crash."""

FULL_SCAN_KILOBYTES = 20_000
"""About 13,000 vectors of 384 dimensions."""

_ATTEMPTS = 3
_PAUSE_SECONDS = 0.1
_SEARCH_BATCH = 64
_WRITE_BATCH = 256
_WRITE_CHARACTERS = 4_000_000
"""The server takes 32 MB; a character may take six bytes, and is escaped again inside JSON."""
_SCAN_PAGE = 500
_PAYLOAD_LINKS = 16
_LEVEL = "level"
_LEVEL_OFFSET = f"{_LEVEL}.offset"
_INDEX = "index"
_LEVEL_INDEX = f"{_LEVEL}.{_INDEX}"
_PARTITION = "partition"
_REACHED = TypeAdapter(ReadPosition)
_LEVELS = UUID("6d656d73-6965-5665-8000-000000000002")
_OVERLOADED = {408, 425, 429, 500, 502, 503, 504}
_REFUSED = {401, 403}
_NOT_FOUND, _CONFLICT = 404, 409

Answer = TypeVar("Answer")
Offset: TypeAlias = PointId | None


def connect(
    url: str,
    *,
    api_key: str | None,
    prefer_grpc: bool,
    grpc_port: int,
    timeout_seconds: float,
) -> AsyncQdrantClient:
    """Return a client that has not connected yet. An `https` url means TLS for HTTP and gRPC."""
    with warnings.catch_warnings():
        # A key over plain HTTP is fine inside one machine; docs/operations.md says when it is not.
        warnings.filterwarnings("ignore", message="Api key is used with an insecure connection")
        return AsyncQdrantClient(
            url=url,
            api_key=api_key,
            prefer_grpc=prefer_grpc,
            grpc_port=grpc_port,
            timeout=max(1, round(timeout_seconds)),
            check_compatibility=False,  # `open` checks the version and reports the remedy
        )


def collection_name(prefix: str, model: ModelId, dimension: int) -> str:
    """Return the collection's name: vectors of two models are never in the same one."""
    slug = re.sub(r"[^A-Za-z0-9._]+", "-", model).strip("-")
    return f"{prefix}-{slug}-{dimension}"


class QdrantIndex:
    """Implements ports.Index.

    `name` is an alias of the collection, so that another can replace it atomically.
    """

    def __init__(
        self, client: AsyncQdrantClient, name: str, dimension: int, place: str = "here"
    ) -> None:
        """`place` is the server's location for error messages."""
        self._client = client
        self._place = place
        self._name = name
        self._dimension = dimension
        self._opened = False

    @property
    def name(self) -> str:
        """The name in the server: an alias or a collection."""
        return self._name

    async def open(self) -> None:
        """Check the server, and create the collection if it does not exist.

        Raises NoServer if the server is too old or refuses the request, NoStore if the collection
        was made for something else, Unreachable if there is no answer. A collection that is lost
        later is created again, and the call that finds it gone raises Transient.
        """
        await self._require_version()
        if await self._found() is None:
            await self._create(f"{self._name}.1")
            with suppress(_AlreadyThere):
                await self._repeated(lambda: self._point_alias_to(f"{self._name}.1"))
        await self._make_whole()
        self._opened = True

    async def beside(self) -> "QdrantIndex":
        """Return a second collection, to be filled and then put in place of the current one.

        It is new, or the one that was begun before. Closing either closes the client of both.
        """
        used = await self.collection()
        number = int(used.removeprefix(f"{self._name}.")) + 1
        fresh = QdrantIndex(self._client, f"{self._name}.{number}", self._dimension, self._place)
        if await fresh._found() is None:
            await self._create(fresh.name)
        await fresh._make_whole()
        return fresh

    async def put_in_place(self, fresh: "QdrantIndex") -> str:
        """Point the alias to another collection, atomically for all clients.

        Returns the name of the previous collection, which is kept.
        """
        before = await self.collection()
        await self._ask(lambda: self._point_alias_to(fresh.name, instead=True))
        return before

    async def drop(self, collection: str) -> None:
        """Delete a collection."""
        await self._ask(lambda: self._client.delete_collection(collection))

    async def collection(self) -> str:
        """Return the name of the collection that the alias points to."""
        aliases = (await self._ask(self._client.get_aliases)).aliases
        found = [one.collection_name for one in aliases if one.alias_name == self._name]
        if not found:
            raise NoStore(f"{self._name} of Qdrant is not an alias: memsieve did not create it")
        return found[0]

    async def _make_whole(self) -> None:
        found = await self._fitting()
        for field, schema in _INDEXES.items():
            if field not in found.payload_schema:
                create = partial(self._client.create_payload_index, self._name, field, schema)
                await self._repeated(partial(create, wait=True))

    async def check(self) -> models.CollectionInfo:
        """Return the collection's description; change nothing. Raises like `open`."""
        await self._require_version()
        return await self._fitting()

    async def _fitting(self) -> models.CollectionInfo:
        found = await self._repeated(lambda: self._client.get_collection(self._name))
        made = found.config.params.vectors
        fits = (
            isinstance(made, models.VectorParams)
            and made.size == self._dimension
            and made.distance == models.Distance.COSINE
            and made.multivector_config == _BY_NEAREST
        )
        if not fits:
            raise NoStore(
                f"collection {self._name} of Qdrant was not made for memories of several vectors of "
                f"{self._dimension} dimensions: name another one with qdrant.collection_prefix"
            )
        return found

    async def search(self, queries: Sequence[Query]) -> list[list[StoredMemory]]:
        found: list[list[StoredMemory]] = []
        for start in range(0, len(queries), _SEARCH_BATCH):
            requests = [_request(query) for query in queries[start : start + _SEARCH_BATCH]]
            answers = await self._ask(
                lambda requests=requests: self._client.query_batch_points(self._name, requests)
            )
            found.extend([_stored(point) for point in answer.points] for answer in answers)
        return found

    async def get(self, ids: Sequence[MemoryId]) -> dict[MemoryId, StoredMemory]:
        known: list[models.ExtendedPointId] = [
            i for i in dict.fromkeys(ids) if POINT_ID.fullmatch(i)
        ]
        records = await self._ask(
            lambda: self._client.retrieve(
                self._name, known, with_payload=list(WHOLE), with_vectors=True
            )
        )
        found = [_stored(record) for record in records]
        return {stored.memory.id: stored for stored in found}

    async def with_content(
        self, keys: Sequence[ContentKey]
    ) -> dict[ContentKey, list[StoredMemory]]:
        condition = models.Filter(must=[_any(STATUS, _LIVE), _any(CONTENT_KEY, list(keys))])
        found = [one async for one in self._scroll(condition, with_vectors=False)]
        return with_contents(found, keys)

    async def contradicting(self, ids: Sequence[MemoryId]) -> dict[MemoryId, list[StoredMemory]]:
        condition = models.Filter(must=[_any(STATUS, _LIVE), _any(CONTRADICTED, list(ids))])
        found = [one async for one in self._scroll(condition, with_vectors=False)]
        return contradicting(found, ids)

    async def decided(self, ids: Sequence[DecisionId]) -> Mapping[DecisionId, KnownEvent]:
        condition = models.Filter(must=[_any(DECISION_IDS, list(ids))])
        found = [stored async for stored in self._scroll(condition, with_vectors=False)]
        return remembered(found, ids)

    async def forgotten(self, scopes: Sequence[ScopeName]) -> dict[ScopeName, list[StoredMemory]]:
        gone = models.Filter(must=[_is(STATUS, Standing.FORGOTTEN), _any(SCOPE, scopes)])
        return by_scope([one async for one in self._scroll(gone, with_vectors=True)], scopes)

    async def write(self, changes: Sequence[StoredMemory]) -> None:
        """Write whole points: the server checks and writes a request's points as one."""
        for batch in _batches(changes):
            points = [_point(change) for change in batch]
            upsert = partial(
                self._client.upsert, self._name, points, update_filter=_are_newer(batch), wait=True
            )
            await self._ask(upsert)

    async def count(self) -> int:
        memories = models.Filter(must=[_any(STATUS, _STANDINGS)])
        answer = await self._ask(
            lambda: self._client.count(self._name, count_filter=memories, exact=True)
        )
        return answer.count

    async def level(self) -> IndexLevel | None:
        is_level = models.Filter(must=[_is(STATUS, _LEVEL)])
        partitions: dict[int, PartitionLevel] = {}
        async for point in self._points(is_level, with_vectors=False, fields=[_LEVEL]):
            kept = (point.payload or {})[_LEVEL]
            partitions[kept[_PARTITION]] = _followed(kept)
        return IndexLevel(partitions, 0) if partitions else None

    async def keep_level(
        self, partition: int, reached: ReadPosition, *, since: PartitionLevel
    ) -> PartitionLevel:
        """Store the level as a point of the collection, so that an alias moves both.

        Its token is created with the point; the other collection of an alias has other tokens.
        """
        begun = bool(since.index)
        index = since.index or new_token()
        await self._ask(
            lambda: self._client.upsert(
                self._name,
                [_level_point(partition, PartitionLevel(reached, index))],
                update_filter=_is_behind(reached, since),
                # An upsert inserts what is absent, whatever the filter says.
                update_mode=models.UpdateMode.UPDATE_ONLY
                if begun
                else models.UpdateMode.INSERT_ONLY,
                wait=True,
            )
        )
        kept = await self._kept(partition)
        require_followed(partition, kept, PartitionLevel(since.reached, index))
        return kept

    async def clear(self) -> None:
        for values in ([_LEVEL], _STANDINGS):
            selector = models.FilterSelector(filter=models.Filter(must=[_any(STATUS, values)]))
            await self._ask(
                lambda selector=selector: self._client.delete(self._name, selector, wait=True)
            )

    async def scan(self, scope: ScopeName | None = None) -> AsyncIterator[StoredMemory]:
        condition = _any(STATUS, _STANDINGS) if scope is None else _is(SCOPE, scope)
        async for stored in self._scroll(models.Filter(must=[condition]), with_vectors=True):
            yield stored

    async def close(self) -> None:
        await self._client.close()

    async def _kept(self, partition: int) -> PartitionLevel:
        """Return the kept level of one partition."""
        records = await self._ask(
            lambda: self._client.retrieve(self._name, [_level_id(partition)], with_payload=[_LEVEL])
        )
        found = [_followed((one.payload or {})[_LEVEL]) for one in records]
        return found[0] if found else UNFOLLOWED

    async def _scroll(
        self, condition: models.Filter, *, with_vectors: bool
    ) -> AsyncIterator[StoredMemory]:
        async for point in self._points(condition, with_vectors=with_vectors, fields=WHOLE):
            yield _stored(point)

    async def _points(
        self, condition: models.Filter, *, with_vectors: bool, fields: Sequence[str]
    ) -> AsyncIterator[models.Record]:
        """Yield what matches the condition, ordered by id."""
        offset: Offset = None
        while True:
            request = partial(
                self._client.scroll,
                self._name,
                scroll_filter=condition,
                limit=_SCAN_PAGE,
                offset=offset,
                with_payload=list(fields),
                with_vectors=with_vectors,
            )
            records, following = await self._ask(request)
            for record in records:
                yield record
            if following is None:
                return
            offset = following

    async def _require_version(self) -> None:
        try:
            found = (await self._repeated(self._client.info)).version
        except _Misunderstood as error:
            raise NoServer(
                f"the server at {self._place} is not Qdrant: check qdrant.url"
            ) from error
        numbers = re.match(r"(\d+)\.(\d+)", found)
        if numbers is None or (int(numbers[1]), int(numbers[2])) < VERSION_MIN:
            wanted = ".".join(str(number) for number in VERSION_MIN)
            raise NoServer(f"Qdrant is version {found}; memsieve needs {wanted} or newer")

    async def _found(self) -> models.CollectionInfo | None:
        try:
            return await self._repeated(lambda: self._client.get_collection(self._name))
        except _Gone:
            return None

    async def _create(self, collection: str) -> None:
        """Create a collection. A concurrent creator makes the same one."""
        create = partial(
            self._client.create_collection,
            collection,
            vectors_config=models.VectorParams(
                size=self._dimension,
                distance=models.Distance.COSINE,
                multivector_config=_BY_NEAREST,
            ),
            hnsw_config=models.HnswConfigDiff(
                m=0, payload_m=_PAYLOAD_LINKS, full_scan_threshold=FULL_SCAN_KILOBYTES
            ),
        )
        with suppress(_AlreadyThere):
            await self._repeated(create)

    async def _point_alias_to(self, collection: str, *, instead: bool = False) -> None:
        """Point the alias to a collection, in one step if it pointed to another."""
        operations: list[models.AliasOperations] = []
        if instead:
            gone = models.DeleteAlias(alias_name=self._name)
            operations.append(models.DeleteAliasOperation(delete_alias=gone))
        made = models.CreateAlias(collection_name=collection, alias_name=self._name)
        operations.append(models.CreateAliasOperation(create_alias=made))
        await self._client.update_collection_aliases(operations)

    async def _ask(self, call: Callable[[], Awaitable[Answer]]) -> Answer:
        """Query the server. If an opened collection is gone, create it for those who refill it."""
        try:
            return await self._repeated(call)
        except _Gone as error:
            if not self._opened:
                raise
            await self.open()
            raise Transient(
                f"collection {self._name} of Qdrant was gone: the writer refills it from the log"
            ) from error

    async def _repeated(self, call: Callable[[], Awaitable[Answer]]) -> Answer:
        """Query the server; retry if a connection broke. Every call may be repeated."""
        for attempt in range(1, _ATTEMPTS):
            try:
                return await self._asked(call)
            except Unreachable:
                await asyncio.sleep(_PAUSE_SECONDS * attempt)
        return await self._asked(call)

    async def _asked(self, call: Callable[[], Awaitable[Answer]]) -> Answer:
        try:
            return await call()
        except ResponseHandlingException as error:
            if isinstance(error.source, ValueError):
                raise _Misunderstood(f"{self._place} does not answer like Qdrant") from error
            raise self._silent(error.source) from error
        except ResourceExhaustedResponse as error:
            raise Unreachable(f"Qdrant is overloaded: {_line(error)}") from error
        except UnexpectedResponse as error:
            raise self._meaning(error.status_code or 0, _line(error)) from error
        except grpc.RpcError as error:
            raise self._meaning(_status(error), _line(error)) from error
        except ValueError as error:  # the client's local mode
            status = _NOT_FOUND if "not found" in str(error) else 0
            raise self._meaning(status, _line(error)) from error

    def _meaning(self, status: int, reason: str) -> Exception:
        if status in _OVERLOADED:
            return self._silent(reason)
        if status in _REFUSED:
            return NoServer(f"Qdrant rejects us ({reason}): check qdrant.api_key")
        if status == _NOT_FOUND:
            return _Gone(
                f"collection {self._name} of Qdrant is gone: start memsieve service writer, which "
                "rebuilds it from the log"
            )
        if status == _CONFLICT:
            return _AlreadyThere(reason)
        return Fatal(f"Qdrant cannot do this: {reason}")

    def _silent(self, reason: object) -> Unreachable:
        hint = "is it running, and are qdrant.url, qdrant.grpc_port and qdrant.prefer_grpc right?"
        return Unreachable(f"Qdrant at {self._place} does not answer; {hint} ({_line(reason)})")


class _Misunderstood(Fatal):
    """The server that answers is not Qdrant."""


class _Gone(NoStore, _Misunderstood):
    """The name does not exist."""


class _AlreadyThere(Fatal):
    """Another process created it first."""


_BY_NEAREST = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
_LIVE = sorted(standing.value for standing in LIVE)
_STANDINGS = sorted(standing.value for standing in Standing)

_INDEXES: Mapping[str, models.KeywordIndexParams | models.IntegerIndexParams] = {
    **{
        field: models.KeywordIndexParams(
            type=models.KeywordIndexType.KEYWORD, is_tenant=field == SCOPE
        )
        for field in (*KEYWORDS, _LEVEL_INDEX)
    },
    **{
        field: models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER)
        for field in (VERSION, _LEVEL_OFFSET)
    },
}

_STATUS_OF_CODE = {
    grpc.StatusCode.UNAVAILABLE: 503,
    grpc.StatusCode.DEADLINE_EXCEEDED: 504,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.ABORTED: 503,
    grpc.StatusCode.INTERNAL: 500,
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.NOT_FOUND: _NOT_FOUND,
    grpc.StatusCode.ALREADY_EXISTS: _CONFLICT,
}


def _status(error: grpc.RpcError) -> int:
    """Return the equivalent HTTP status."""
    # Neither class of the error is a subclass of the other.
    code = error.code() if isinstance(error, grpc.Call | grpc.aio.AioRpcError) else None
    return _STATUS_OF_CODE.get(code, 0) if isinstance(code, grpc.StatusCode) else 0


def _line(error: object) -> str:
    """Format an error on one line; for a gRPC call, the server's message, not the whole dump."""
    if isinstance(error, grpc.aio.AioRpcError):
        said = f"{error.code().name} {error.details()}"
    else:
        said = f"{error}" if isinstance(error, str) else f"{type(error).__name__} {error}"
    return " ".join(said.split())[:300]


def _request(query: Query) -> models.QueryRequest:
    return models.QueryRequest(
        query=[query.vector.tolist()],
        filter=models.Filter(must=[_is(SCOPE, query.scope), _any(STATUS, _LIVE)]),
        limit=query.limit,
        score_threshold=query.floor - FLOAT32_SLACK,
        with_payload=list(SEARCHED),
        with_vector=True,
    )


def _batches(changes: Sequence[StoredMemory]) -> Iterator[list[StoredMemory]]:
    """Split changes into requests within the server's limits of count and size."""
    batch: list[StoredMemory] = []
    size = 0
    for change in changes:
        length = len(change.memory.model_dump_json())
        if batch and (len(batch) == _WRITE_BATCH or size + length > _WRITE_CHARACTERS):
            yield batch
            batch, size = [], 0
        batch.append(change)
        size += length
    if batch:
        yield batch


def _point(change: StoredMemory) -> models.PointStruct:
    rows = [vector.tolist() for vector in vectors_of(change)]
    return models.PointStruct(id=change.memory.id, vector=rows, payload=to_payload(change))


def _are_newer(batch: Sequence[StoredMemory]) -> models.Filter:
    """Match the changes that are newer than what is stored, or not stored at all."""
    ids: dict[int, list[models.ExtendedPointId]] = {}
    for change in batch:
        ids.setdefault(change.memory.version, []).append(change.memory.id)
    return models.Filter(must_not=[_has(version, those) for version, those in ids.items()])


def _has(version: int, ids: list[models.ExtendedPointId]) -> models.Filter:
    """Match the memories that are stored in this version or a later one."""
    reached = models.FieldCondition(key=VERSION, range=models.Range(gte=version))
    return models.Filter(must=[reached, models.HasIdCondition(has_id=ids)])


def _is_behind(reached: ReadPosition, since: PartitionLevel) -> models.Filter:
    """Match a level of the same index that is not behind `since`, but behind `reached`."""
    between = models.Range(gte=since.reached.offset, lt=reached.offset)
    lower = models.FieldCondition(key=_LEVEL_OFFSET, range=between)
    return models.Filter(must=[_is(_LEVEL_INDEX, since.index), lower])


def _level_point(partition: int, level: PartitionLevel) -> models.PointStruct:
    kept = {_PARTITION: partition, _INDEX: level.index, **_REACHED.dump_python(level.reached)}
    return models.PointStruct(
        id=_level_id(partition), vector={}, payload={STATUS: _LEVEL, _LEVEL: kept}
    )


def _followed(kept: Mapping[str, Any]) -> PartitionLevel:
    return PartitionLevel(_REACHED.validate_python(kept), kept[_INDEX])


def _level_id(partition: int) -> str:
    return str(uuid5(_LEVELS, str(partition)))


def _stored(point: models.ScoredPoint | models.Record) -> StoredMemory:
    return from_payload(point.payload, point.vector)


def _is(field: str, value: str) -> models.FieldCondition:
    return models.FieldCondition(key=field, match=models.MatchValue(value=value))


def _any(field: str, values: Sequence[str]) -> models.FieldCondition:
    return models.FieldCondition(key=field, match=models.MatchAny(any=list(values)))
