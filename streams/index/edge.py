"""Qdrant's engine in this process, on disk: the index of the embedded mode.

One directory, one process: the engine locks it. With the keyword index on the scope, the cost of a
search depends on its scope only. Large scopes that are searched often are searched in a copy of their
vectors; those too large for a copy need a graph.
"""

import asyncio
import operator
import shutil
from collections import OrderedDict
from collections.abc import (
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import numpy as np
import qdrant_edge as engine
from pydantic import TypeAdapter, ValidationError

from schemas.base import ContentKey, DecisionId, MemoryId, ScopeName
from schemas.memories import LIVE, Standing
from streams.index.following import new_token, raised
from streams.index.large_scopes import CopyLimits, LargeScopes, Rows
from streams.index.payload import (
    CONTENT_KEY,
    CONTRADICTED,
    DECISION_IDS,
    KEYWORDS,
    POINT_ID,
    SCOPE,
    STATUS,
    VERSION,
    by_scope,
    contradicting,
    from_payload,
    remembered,
    to_payload,
    vectors_of,
    with_contents,
    without_vectors,
)
from streams.model.fences import ReadPosition
from streams.model.neighbours import KnownEvent, StoredMemory
from streams.model.ports.failures import NoStore
from streams.model.ports.index import FLOAT32_SLACK, IndexLevel, PartitionLevel, Query

_LEVEL = TypeAdapter(IndexLevel)
_REMEDY = "delete this directory, and the next run rebuilds it from the log"
_SEARCH_BATCH = 64
"""Queries per call: the engine holds the GIL for a whole call, about 0.2 ms per query."""
_WRITE_BATCH = 256
_SCAN_PAGE = 1_000
_RECENT = 2_048
"""How many memories are kept as they were last read or written, in some 10 MiB: owner and writer
read the same ones within a batch, and so do searches of events that are alike. To read a memory
from the engine takes 30 µs, most of it to turn vectors and payload into Python's values."""
_WAITING = 4_096
"""How many memories may wait to be written: those that were only seen again. A memory that is repeated
often is then written once for many repeats; to write it takes 70 µs, and more with each repeat."""


class EdgeIndex:
    """Implements ports.Index.

    A state that no query tells from the one before, as after a repeat, waits in memory until the
    level is kept: after a kill the level is behind, and the writer applies the decisions again.
    """

    def __init__(
        self,
        path: Path,
        dimension: int,
        require_space: Callable[[], None] = lambda: None,
        copying: CopyLimits = CopyLimits(),  # noqa: B008 - frozen
    ) -> None:
        """Open the index, or create it if the directory is absent or empty.

        `require_space` is called before anything is written: the engine writes through memory maps,
        and on a full disk a signal kills the process instead of an error. Raises what that raises,
        and NoStore if another process has the index open, or if it is damaged.
        """
        require_space()
        self._require_space = require_space
        self._path = path
        self._dimension = dimension
        self._level = path / "level.json"
        self._recent = RecentMemories(_RECENT)
        self._waiting: dict[MemoryId, StoredMemory] = {}
        self._large = LargeScopes(self, dimension, copying)
        self._flushed = False
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._shard = _open(path) if any(path.iterdir()) else _create(path, dimension)
        except OSError as error:
            raise NoStore(f"{path} cannot be used as the index: {error}") from error

    async def search(self, queries: Sequence[Query]) -> list[list[StoredMemory]]:
        found: list[list[StoredMemory]] = []
        for start in range(0, len(queries), _SEARCH_BATCH):
            near = self._nearest(queries[start : start + _SEARCH_BATCH])
            held = self._held([identity for ids in near for identity in ids])
            found.extend([held[identity] for identity in ids] for ids in near)
            await asyncio.sleep(0)
        return found

    def _nearest(self, queries: Sequence[Query]) -> list[list[MemoryId]]:
        """Return the memories nearest to each query: from the copy of its scope, if there is one."""
        copies = [self._large.copy(query.scope) for query in queries]
        others = [query for query, copy in zip(queries, copies, strict=True) if copy is None]
        answers = iter(self._asked(others) if others else ())
        near = [
            next(answers) if copy is None else copy.nearest(query)
            for query, copy in zip(queries, copies, strict=True)
        ]
        for query in others:
            self._large.observe(query.scope)
        return near

    def _asked(self, queries: Sequence[Query]) -> list[list[MemoryId]]:
        """Return the engine's answers."""
        with _meanings(self._path):
            answers = self._shard.query_batch(
                engine.QueryBatchRequest(list(map(_request, queries)))
            )
            return [[_id(point) for point in points] for points in answers]

    def live_count(self, scope: ScopeName) -> int:
        with _meanings(self._path):
            return self._shard.count(engine.CountRequest(filter=_live_in(scope)))

    def live_vectors(self, scope: ScopeName, page: int) -> Iterator[list[tuple[MemoryId, Rows]]]:
        for points in self._pages(_live_in(scope), with_vector=True, size=page):
            yield [(_id(point), np.asarray(point.vector, np.float32)) for point in points]

    async def get(self, ids: Sequence[MemoryId]) -> dict[MemoryId, StoredMemory]:
        return self._held([i for i in ids if POINT_ID.fullmatch(i)])

    async def with_content(
        self, keys: Sequence[ContentKey]
    ) -> dict[ContentKey, list[StoredMemory]]:
        has_content = engine.Filter(must=[_LIVE_ONLY, _any(CONTENT_KEY, list(keys))])
        found = [_id(point) for points in self._pages(has_content) for point in points]
        held = self._held(found)
        return with_contents((without_vectors(held[identity]) for identity in found), keys)

    async def contradicting(self, ids: Sequence[MemoryId]) -> dict[MemoryId, list[StoredMemory]]:
        against = engine.Filter(must=[_LIVE_ONLY, _any(CONTRADICTED, list(ids))])
        self._write_waiting()
        return contradicting(self._scroll(against, with_vector=False), ids)

    async def decided(self, ids: Sequence[DecisionId]) -> Mapping[DecisionId, KnownEvent]:
        known = engine.Filter(must=[_any(DECISION_IDS, list(ids))])
        self._write_waiting()
        return remembered(self._scroll(known, with_vector=False), ids)

    async def forgotten(self, scopes: Sequence[ScopeName]) -> dict[ScopeName, list[StoredMemory]]:
        gone = engine.Filter(must=[_is(STATUS, Standing.FORGOTTEN), _any(SCOPE, list(scopes))])
        return by_scope(self._scroll(gone, with_vector=True), scopes)

    async def write(self, changes: Sequence[StoredMemory]) -> None:
        for start in range(0, len(changes), _WRITE_BATCH):
            self._require_space()
            batch = changes[start : start + _WRITE_BATCH]
            known = self._near_at_hand([change.memory.id for change in batch])
            newer = self._newer(batch, known)
            repeated = [one for one in newer if _is_found_alike(one, known.get(one.memory.id))]
            self._waiting |= {one.memory.id: one for one in repeated}
            written = [one for one in newer if self._waiting.get(one.memory.id) is not one]
            self._upsert(written)
            self._large.update(written)
            if len(self._waiting) > _WAITING:
                self._write_waiting()
            await asyncio.sleep(0)

    async def scan(self, scope: ScopeName | None = None) -> AsyncIterator[StoredMemory]:
        of_scope = None if scope is None else engine.Filter(must=[_is(SCOPE, scope)])
        self._write_waiting()
        for stored in self._scroll(of_scope, with_vector=True):
            yield stored

    async def count(self) -> int:
        with _meanings(self._path):
            return self._shard.info().points_count

    def optimise(self) -> bool:
        """Build HNSW graphs for the scopes that have grown large; return whether there was one.

        Their searches then use the graph instead of a full scan; later writes are scanned as before
        until the next call. Holds the GIL for minutes if the scopes are large: not for a process
        that serves.
        """
        with _meanings(self._path):
            built = self._shard.optimize()
            self._shard.flush()
        return built

    @property
    def in_graphs(self) -> int:
        """How many memories are covered by graphs."""
        with _meanings(self._path):
            return self._shard.info().indexed_vectors_count

    async def level(self) -> IndexLevel | None:
        try:
            return _LEVEL.validate_json(self._level.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            raise NoStore(f"{self._level} is damaged; {_REMEDY}") from error

    async def keep_level(
        self, partition: int, reached: ReadPosition, *, since: PartitionLevel
    ) -> PartitionLevel:
        kept = raised(await self.level(), partition, reached, since, new_token())
        self._write_waiting()
        content = _LEVEL.dump_json(IndexLevel(kept, await self.count()))
        with _meanings(self._path):
            if not self._flushed:
                self._shard.flush()
                self._flushed = True
            unfinished = self._level.with_suffix(".unfinished")
            unfinished.write_bytes(content)
            unfinished.replace(self._level)
        return kept[partition]

    async def clear(self) -> None:
        self._level.unlink(missing_ok=True)
        self._recent.clear()
        self._waiting.clear()
        self._large.clear()
        with _meanings(self._path):
            self._shard.close()
            shutil.rmtree(self._path)
            self._shard = _create(self._path, self._dimension)

    async def close(self) -> None:
        try:
            self._write_waiting()
        finally:
            with _meanings(self._path):
                self._shard.flush()
                self._shard.close()

    def _write_waiting(self) -> None:
        waiting = list(self._waiting.values())
        for start in range(0, len(waiting), _WRITE_BATCH):
            self._require_space()
            self._upsert(waiting[start : start + _WRITE_BATCH])

    def _upsert(self, changes: Sequence[StoredMemory]) -> None:
        if not changes:
            return
        points = [_point(change) for change in changes]
        self._flushed = False
        try:
            with _meanings(self._path):
                self._shard.update(engine.UpdateOperation.upsert_points(points))
        except BaseException:
            self._recent.clear()  # any of them may be stored
            self._large.clear()
            raise
        self._recent.keep(changes)
        for change in changes:
            self._waiting.pop(change.memory.id, None)

    def _newer(
        self, changes: Sequence[StoredMemory], known: Mapping[MemoryId, StoredMemory]
    ) -> list[StoredMemory]:
        """Return the changes that are newer than what is stored, or not stored at all.

        `known` are the states that are in memory. The engine needs no condition: no other process
        has it open, and no other task runs before they are written.
        """
        ids = [change.memory.id for change in changes if change.memory.id not in known]
        versions = {i: one.memory.version for i, one in known.items()} | self._versions(ids)
        return [
            change
            for change in changes
            if versions.get(change.memory.id, 0) < change.memory.version
        ]

    def _versions(self, ids: Sequence[MemoryId]) -> dict[MemoryId, int]:
        """Return the versions that the engine has stored."""
        if not ids:
            return {}
        version = engine.PayloadSelector.Include([VERSION])
        with _meanings(self._path):
            records = self._shard.retrieve(list(ids), with_payload=version, with_vector=False)
            return {_id(record): (record.payload or {})[VERSION] for record in records}

    def _near_at_hand(self, ids: Sequence[MemoryId]) -> dict[MemoryId, StoredMemory]:
        """Return those that are in memory: waiting, or read or written lately."""
        waiting = {i: self._waiting[i] for i in ids if i in self._waiting}
        return self._recent.held(ids) | waiting

    def _held(self, ids: Sequence[MemoryId]) -> dict[MemoryId, StoredMemory]:
        """Return what is stored under these ids; what was not read or written lately is read."""
        held = self._near_at_hand(ids)
        others: list[engine.PointId] = [i for i in dict.fromkeys(ids) if i not in held]
        if others:
            with _meanings(self._path):
                records = self._shard.retrieve(others, with_payload=True, with_vector=True)
                read = [_read(record) for record in records]
            self._recent.keep(read)
            held |= {stored.memory.id: stored for stored in read}
        return held

    def _scroll(
        self, condition: engine.Filter | None, *, with_vector: bool
    ) -> Iterator[StoredMemory]:
        """Yield what matches the condition, ordered by id."""
        for records in self._pages(condition, with_payload=True, with_vector=with_vector):
            for record in records:
                with _meanings(self._path):
                    stored = _read(record)
                yield stored

    def _pages(
        self,
        condition: engine.Filter | None,
        *,
        with_payload: bool = False,
        with_vector: bool = False,
        size: int = _SCAN_PAGE,
    ) -> Iterator[list[engine.Record]]:
        """Yield the points that match the condition, ordered by id, in pages of this size."""
        offset: engine.PointId | None = None
        while True:
            request = engine.ScrollRequest(
                offset=offset,
                limit=size,
                filter=condition,
                with_payload=with_payload,
                with_vector=with_vector,
            )
            with _meanings(self._path):
                records, offset = self._shard.scroll(request)
            yield records
            if offset is None:
                return


class RecentMemories:
    """Keeps the newest `memories_max` memories by id, with their vectors.

    Only for an index that no other process writes: what is kept here is what the index holds. At
    384 dimensions a memory takes some 5 KiB.
    """

    def __init__(self, memories_max: int) -> None:
        self._memories_max = memories_max
        self._kept: OrderedDict[MemoryId, StoredMemory] = OrderedDict()

    def keep(self, memories: Iterable[StoredMemory]) -> None:
        for one in memories:
            self._kept[one.memory.id] = one
            self._kept.move_to_end(one.memory.id)
        while len(self._kept) > self._memories_max:
            self._kept.popitem(last=False)

    def held(self, ids: Iterable[MemoryId]) -> dict[MemoryId, StoredMemory]:
        """Return those of the memories that are kept, by id, in the order of `ids`."""
        found = {identity: self._kept[identity] for identity in ids if identity in self._kept}
        for identity in found:
            self._kept.move_to_end(identity)
        return found

    def clear(self) -> None:
        self._kept.clear()


def _create(path: Path, dimension: int) -> engine.EdgeShard:
    """Create an index next to its path and rename it: a kill leaves none, or a complete one."""
    unfinished = path.with_name(f"{path.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    # Per-tenant graphs only (m=0): an index over all scopes would never be searched.
    graph = engine.HnswIndexConfig(m=0, ef_construct=100, full_scan_threshold=10_000, payload_m=16)
    by_nearest = engine.MultiVectorConfig(engine.MultiVectorComparator.MaxSim)
    vectors = engine.EdgeVectorParams(
        size=dimension, distance=engine.Distance.Cosine, multivector_config=by_nearest
    )
    shard = engine.EdgeShard.create(
        str(unfinished), engine.EdgeConfig(vectors=vectors, hnsw_config=graph)
    )
    for field in KEYWORDS:
        params = engine.KeywordIndexParams(is_tenant=field == SCOPE)
        shard.update(engine.UpdateOperation.create_field_index(field, params))
    shard.flush()
    shard.close()
    unfinished.replace(path)
    return _open(path)


def _open(path: Path) -> engine.EdgeShard:
    with _meanings(path):
        return engine.EdgeShard.load(str(path))


@contextmanager
def _meanings(path: Path) -> Generator[None]:
    """Translate the engine's failures; it raises nothing more specific than Exception."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of the engine is not even an Exception
        if "WouldBlock" in str(error):
            raise NoStore(f"{path} is in use by another process; wait until it ends") from error
        reason = " ".join(str(error).split())
        raise NoStore(f"{path} is damaged ({reason}); {_REMEDY}") from error


def _point(change: StoredMemory) -> engine.Point:
    rows = [vector.tolist() for vector in vectors_of(change)]
    return engine.Point(change.memory.id, rows, to_payload(change))


def _is_found_alike(change: StoredMemory, known: StoredMemory | None) -> bool:
    """Return whether every query that finds one of two states of a memory finds the other.

    Except one for the ids of decisions, which writes first what waits.
    """
    return (
        known is not None
        and change.memory.status is known.memory.status
        and change.memory.content_keys == known.memory.content_keys
        and change.contradicted == known.contradicted
        and all(map(operator.is_, vectors_of(change), vectors_of(known)))
    )


def _request(query: Query) -> engine.QueryRequest:
    return engine.QueryRequest(
        limit=query.limit,
        query=engine.Query.Nearest(query.vector.tolist()),
        filter=_live_in(query.scope),
        score_threshold=query.floor - FLOAT32_SLACK,
        with_payload=False,
        with_vector=False,
    )


def _is(field: str, value: str) -> engine.FieldCondition:
    return engine.FieldCondition(field, match=engine.MatchValue(value))


def _any(field: str, values: list[str]) -> engine.FieldCondition:
    return engine.FieldCondition(field, match=engine.MatchAny(values))


_LIVE_ONLY = _any(STATUS, sorted(LIVE))


@lru_cache(_RECENT)
def _live_in(scope: ScopeName) -> engine.Filter:
    return engine.Filter(must=[_is(SCOPE, scope), _LIVE_ONLY])


def _id(point: engine.ScoredPoint | engine.Record) -> MemoryId:
    return MemoryId(str(point.id))


def _read(point: engine.Record) -> StoredMemory:
    return from_payload(point.payload, point.vector)
