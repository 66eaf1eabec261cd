"""What every Index keeps, each compared with the exact one, and what EdgeIndex promises on disk."""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from qdrant_client import AsyncQdrantClient

from schemas.base import ContentKey, DecisionId, MemoryId, ScopeName
from schemas.memories import Memory, Persistence, Side, Standing, Superseded, Turns
from streams.index.edge import EdgeIndex
from streams.index.exact import ExactIndex
from streams.index.large_scopes import CopyLimits
from streams.index.qdrant import QdrantIndex, collection_name
from streams.model.embedding import Vector
from streams.model.fences import BEGINNING, Epoch, ReadPosition
from streams.model.identity import content_key
from streams.model.neighbours import KnownEvent, StoredMemory
from streams.model.ports.failures import NoStore, Transient
from streams.model.ports.index import UNFOLLOWED, Index, PartitionLevel, Query
from streams.store.world.store_directory import IndexKind
from tests.builders import (
    DIMENSION,
    MODEL,
    START,
    at_cosine,
    identity,
    later,
    memory,
    stored,
    unit,
    worded,
)
from tests.support.machine.small_disk import on_small_disk
from tests.support.servers.qdrant import NAMED_SERVER
from tests.support.servers.qdrant_clients import grpc_client, rest_client

ROOT = Path(__file__).parents[2]
SCOPE = ScopeName("acme/ana")

SAME = 1e-5
"""How far two implementations may differ in one cosine."""

SCOPES = [
    ScopeName(name)
    for name in (
        "acme",
        "acme/ana",
        "acme/ana/work",
        "ACME/ana",
        "acme/an",
        "other/ana",
        "acme/ä",
        "acme/寿司 🧀/日本",
        'acme/it\'s "quoted" [1] {x} $ref %',
    )
]
"""Scopes that a careless filter mixes: beginnings of each other, other case, other scripts."""


Make = Callable[[pytest.FixtureRequest, Path], AbstractAsyncContextManager[Index]]


@asynccontextmanager
async def exact(_: pytest.FixtureRequest, _path: Path) -> AsyncGenerator[Index]:
    yield ExactIndex()


@asynccontextmanager
async def edge(_: pytest.FixtureRequest, path: Path) -> AsyncGenerator[Index]:
    index = EdgeIndex(path / "index", DIMENSION)
    yield index
    await index.close()


@asynccontextmanager
async def copied(_: pytest.FixtureRequest, path: Path) -> AsyncGenerator[Index]:
    """Search from the second time on in a copy of a scope's vectors, which is made bit by bit."""
    limits = CopyLimits(searches_min=1, memories_min=1, page=2)
    index = EdgeIndex(path / "index", DIMENSION, copying=limits)
    yield index
    await index.close()


@asynccontextmanager
async def local_mode(_: pytest.FixtureRequest, _path: Path) -> AsyncGenerator[Index]:
    """Speak to the client's own imitation of a server, which keeps no payload indexes."""
    index = QdrantIndex(AsyncQdrantClient(":memory:"), "test", DIMENSION)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Payload indexes have no effect")
        await index.open()
    yield index
    await index.close()


@asynccontextmanager
async def server(request: pytest.FixtureRequest, _path: Path) -> AsyncGenerator[Index]:
    """Speak to a Qdrant server, or to what stands in for it."""
    url: str = request.getfixturevalue("qdrant_url")
    prefix: str = request.getfixturevalue("collection_prefix")
    index = QdrantIndex(rest_client(url), collection_name(prefix, MODEL, DIMENSION), DIMENSION)
    await index.open()
    yield index
    await index.close()


@asynccontextmanager
async def grpc(request: pytest.FixtureRequest, _path: Path) -> AsyncGenerator[Index]:
    """Speak gRPC to a real server: the stand-in has REST only."""
    client = grpc_client(request.getfixturevalue("qdrant_url"))
    prefix: str = request.getfixturevalue("collection_prefix")
    index = QdrantIndex(client, collection_name(prefix, MODEL, DIMENSION), DIMENSION)
    await index.open()
    yield index
    await index.close()


INDEXES: Mapping[str, Make] = {
    IndexKind.EXACT: exact,
    IndexKind.EDGE: edge,
    "edge with copies": copied,
    IndexKind.QDRANT: server,
    "local mode": local_mode,
    **({"gRPC": grpc} if NAMED_SERVER else {}),
}


def test_every_kind_of_index_is_tested() -> None:
    missing = set(IndexKind) - INDEXES.keys()
    assert not missing, "add them to INDEXES: then all tests of this module run on them"


def retired(number: int, text: str = "Ana likes tea.", **fields: Any) -> StoredMemory:
    gone = Superseded(by=MemoryId(identity(999)), at=START, reason="same-fact")
    return stored(text, id=identity(number), status=Standing.SUPERSEDED, superseded=gone, **fields)


def forgotten(number: int, scope: ScopeName, vector: Vector) -> StoredMemory:
    gone = Superseded(by=None, at=START, reason="forgotten")
    fields = {"scope": scope, "status": Standing.FORGOTTEN, "superseded": gone}
    return stored("forgotten", vector, id=identity(number), **fields)


def ids(found: Sequence[StoredMemory]) -> list[str]:
    return [one.memory.id for one in found]


def numbers(*wanted: int) -> list[str]:
    return [identity(number) for number in wanted]


async def search(
    index: Index,
    vector: Vector | None = None,
    *,
    scope: ScopeName = SCOPE,
    limit: int = 100,
    floor: float = -1.0,
) -> list[StoredMemory]:
    query = Query(scope, unit(1) if vector is None else vector, limit, floor)
    (found,) = await index.search([query])
    return found


async def followed(index: Index) -> Mapping[int, PartitionLevel]:
    level = await index.level()
    return {} if level is None else level.partitions


def told(reached: int, since: int) -> str:
    """Return the pattern of what an index says that is not the one of before."""
    place = rf"memory\.decisions/0 to {reached}, and is not the one that had to {since}:"
    return f"{place} .*applied first$"


def newest(known: StoredMemory, change: StoredMemory) -> StoredMemory:
    """Return what a memory is after a write that may have come late."""
    return known if change.memory.version <= known.memory.version else change


async def everything(index: Index, scope: ScopeName | None = None) -> list[StoredMemory]:
    return [one async for one in index.scan(scope)]


def assert_same(
    found: Sequence[StoredMemory], expected: Sequence[StoredMemory], *, bits: bool = True
) -> None:
    """Compare memories, and vectors bit for bit, or to what float32 can tell apart."""
    assert [one.memory for one in found] == [one.memory for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.vector is not None
        assert other.vector is not None
        assert one.vector.dtype == np.float32
        if bits:
            assert one.vector.tobytes() == other.vector.tobytes()
        np.testing.assert_allclose(one.vector, other.vector, atol=1e-6)
        assert one.variants.keys() == other.variants.keys()
        for key, vector in one.variants.items():
            assert not bits or vector.tobytes() == other.variants[key].tobytes()
            np.testing.assert_allclose(vector, other.variants[key], atol=1e-6)


def cosine(query: Vector, found: StoredMemory) -> float:
    """Return the cosine of a query and the nearest wording of a memory."""
    exact = query.astype(np.float64)
    return max(float(np.dot(exact, one.astype(np.float64))) for one in found.wordings.values())


class TestIndex:
    @pytest.fixture(params=INDEXES.values(), ids=list(INDEXES))
    async def index(self, request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Index]:
        make: Make = request.param
        async with make(request, tmp_path) as index:
            yield index

    async def test_a_new_index_is_empty(self, index: Index) -> None:
        assert await search(index) == []
        assert await everything(index) == []
        assert await index.get([MemoryId(identity(1))]) == {}

    async def test_asking_for_nothing_gives_nothing(self, index: Index) -> None:
        await index.write([stored()])
        assert await index.search([]) == []
        assert await index.get([]) == {}
        assert await index.with_content([]) == {}
        await index.write([])
        assert len(await everything(index)) == 1

    async def test_a_memory_comes_back_whole(self, index: Index) -> None:
        full = StoredMemory(
            memory(
                "Ana drinks her tea\nwithout milk — “always”. 🫖\t\u2028" + "x" * 60_000,
                version=7,
                status=Standing.TENTATIVE,
                persistence=Persistence.CORE,
                category="preference",
                importance=0.1 + 0.2,
                confidence=1.0,
                tags=("drinks", "ä"),
                entities=("Ana",),
                sources=("user",),
                sessions=("s1", "s2"),
                turns=Turns(first=0, last=2**40),
                metadata={"a.b[0]": [1, 1.5, None, True, {"x": "y"}], "$": "", "n": -(2**62)},
                observation_count=3,
                created_at=START.replace(microsecond=123_456),
                last_seen_at=later(1),
                truncated=True,
                merged_from=(identity(8), identity(9)),
                kept_apart=(Side(undo=DecisionId("5d0c"), side=MemoryId(identity(7))),),
            ),
            unit(3, -1, 2),
        )
        await index.write([full])
        assert_same(await search(index), [full])
        assert_same(await everything(index), [full])
        assert_same(list((await index.get([full.memory.id])).values()), [full])

    @pytest.mark.covers("S0.50", "B56", "B58", "D4", "C11")
    async def test_a_search_stays_in_its_scope(self, index: Index) -> None:
        await index.write([stored(id=identity(n), scope=scope) for n, scope in enumerate(SCOPES)])
        queries = [Query(scope, unit(1), 100, -1.0) for scope in SCOPES]
        found = await index.search(queries)
        assert [ids(one) for one in found] == [numbers(n) for n in range(len(SCOPES))]
        assert await search(index, scope=ScopeName("nobody")) == []

    @pytest.mark.covers("B59")
    async def test_identical_text_in_two_scopes_is_two_memories(self, index: Index) -> None:
        text, hers, his = "The window leads on.", ScopeName("acme/ana"), ScopeName("acme/bob")
        await index.write(
            [stored(text, id=identity(1), scope=hers), stored(text, id=identity(2), scope=his)]
        )
        assert ids(await search(index, scope=hers)) == numbers(1)
        assert ids(await search(index, scope=his)) == numbers(2)
        keys = [content_key(hers, text), content_key(his, text)]
        found = await index.with_content(keys)
        assert [[s.memory.scope for s in found[key]] for key in keys] == [[hers], [his]]

    @pytest.mark.covers("S0.14")
    async def test_a_search_finds_live_memories_only(self, index: Index) -> None:
        await index.write(
            [
                stored(id=identity(1), status=Standing.ACTIVE),
                stored(id=identity(2), status=Standing.TENTATIVE),
                retired(3),
            ]
        )
        assert sorted(ids(await search(index))) == numbers(1, 2)

    @pytest.mark.covers("B9")
    async def test_a_search_gives_the_nearest_first_up_to_its_limit(self, index: Index) -> None:
        cosines = [0.2, 0.95, -0.4, 0.7, 0.9]
        await index.write(
            [
                stored(id=identity(n), vector=at_cosine(similarity, axis=1 + n))
                for n, similarity in enumerate(cosines)
            ]
        )
        assert ids(await search(index)) == numbers(1, 4, 3, 0, 2)
        assert ids(await search(index, limit=2)) == numbers(1, 4)
        assert ids(await search(index, limit=1)) == numbers(1)

    async def test_each_query_has_its_own_answer(self, index: Index) -> None:
        """More queries than an implementation may send at once, with limits and floors mixed."""
        axes = [unit(*([0] * axis), 1) for axis in range(DIMENSION)]
        await index.write(
            [stored(id=identity(n), vector=axis) for n, axis in enumerate(axes)]
            + [stored(id=identity(100 + n), vector=axis) for n, axis in enumerate(axes)]
        )
        asked = [(n % DIMENSION, 1 + n % 2, 0.5 if n % 3 else 1.5) for n in range(200)]
        found = await index.search(
            [Query(SCOPE, axes[axis], limit, floor) for axis, limit, floor in asked]
        )
        for (axis, limit, floor), answer in zip(asked, found, strict=True):
            if floor > 1:
                assert answer == []
            else:
                assert len(answer) == limit
                assert set(ids(answer)) <= {identity(axis), identity(100 + axis)}

    async def test_the_floor_is_included(self, index: Index) -> None:
        for number, similarity in enumerate([0.6, 0.7, 0.8, 0.85, 0.95]):
            await index.write([stored(id=identity(number), vector=at_cosine(similarity))])
            assert identity(number) in ids(await search(index, floor=similarity))
            assert identity(number) not in ids(await search(index, floor=similarity + SAME))

    async def test_the_floor_is_kept_to_the_accuracy_of_float32(self, index: Index) -> None:
        """A memory exactly at the floor is found, however the product was rounded."""
        vectors = [unit(n, 3, n % 7, -n % 5, 1) for n in range(1, 60)]
        await index.write([stored(id=identity(n), vector=v) for n, v in enumerate(vectors)])
        asked = unit(5, 1, -2, 3)
        for number, vector in enumerate(vectors):
            found = await search(index, asked, floor=cosine(asked, stored(vector=vector)))
            assert identity(number) in ids(found)

    async def test_vectors_come_back_bit_for_bit(
        self, index: Index, request: pytest.FixtureRequest
    ) -> None:
        if "local mode" in request.node.name:
            pytest.skip("the client's local mode normalises unit vectors once more")
        given = [
            stored(id=identity(n), vector=unit(n % 7, 1 + n, -n % 5, 1e-4 * n, 1e-30, n**0.5))
            for n in range(200)
        ]
        await index.write(given)
        assert_same(await everything(index), given)
        by_id = sorted(await search(index, limit=500), key=lambda one: one.memory.id)
        assert_same(by_id, given)
        found = await index.get([one.memory.id for one in given])
        assert_same([found[one.memory.id] for one in given], given)

    async def test_gets_what_is_stored_live_or_not(self, index: Index) -> None:
        live, gone = stored(id=identity(1)), retired(2)
        await index.write([live, gone])
        asked = [MemoryId(identity(n)) for n in (2, 3, 1, 2)]
        found = await index.get(asked)
        assert found.keys() == {live.memory.id, gone.memory.id}
        assert_same([found[one.memory.id] for one in (live, gone)], [live, gone])

    async def test_an_id_that_no_memory_can_have_is_absent(self, index: Index) -> None:
        assert await index.get([MemoryId("nothing like an id")]) == {}

    async def test_an_answer_belongs_to_the_caller(self, index: Index) -> None:
        await index.write([stored(id=identity(1))])
        asked = [MemoryId(identity(1))]
        (await index.get(asked)).clear()
        assert len(await index.get(asked)) == 1

    async def test_remembers_how_far_it_has_followed_the_log(self, index: Index) -> None:
        assert await index.level() is None
        await index.write([stored(id=identity(1)), stored("milk", id=identity(2))])
        assert await index.count() == 2
        first, second = ReadPosition(11, Epoch(2, "a"), 5), ReadPosition(12, Epoch(11, "b"), 6)
        other = await index.keep_level(0, ReadPosition(7), since=UNFOLLOWED)
        begun = await index.keep_level(3, first, since=UNFOLLOWED)
        raised = await index.keep_level(3, second, since=begun)
        assert [one.reached for one in (other, begun, raised)] == [ReadPosition(7), first, second]
        assert raised.index == begun.index
        level = await index.level()
        assert level is not None
        assert level.partitions == {0: other, 3: raised}
        assert level.memories in {0, 2}

    async def test_a_level_is_no_memory(self, index: Index) -> None:
        await index.keep_level(0, ReadPosition(7), since=UNFOLLOWED)
        assert await index.count() == 0
        assert await everything(index) == []
        assert await search(index) == []

    async def test_a_level_may_be_kept_before_anything_was_followed(self, index: Index) -> None:
        begun = await index.keep_level(0, BEGINNING, since=UNFOLLOWED)
        assert begun == PartitionLevel(BEGINNING, begun.index) != UNFOLLOWED
        assert await followed(index) == {0: begun}
        with pytest.raises(Transient, match=told(0, 0)):
            await index.keep_level(0, ReadPosition(7), since=UNFOLLOWED)
        kept = await index.keep_level(0, ReadPosition(7), since=begun)
        assert kept == PartitionLevel(ReadPosition(7), begun.index)

    @pytest.mark.parametrize("offset", [0, 7, 12])
    async def test_a_level_is_never_lowered(self, index: Index, offset: int) -> None:
        kept = await index.keep_level(0, ReadPosition(12, Epoch(11, "b"), 6), since=UNFOLLOWED)
        lower = ReadPosition(offset, Epoch(2, "a"), 5)
        for since in (BEGINNING, ReadPosition(7), kept.reached):
            assert await index.keep_level(0, lower, since=PartitionLevel(since, kept.index)) == kept
        assert await followed(index) == {0: kept}

    async def test_a_level_covers_what_was_applied_twice(self, index: Index) -> None:
        kept = await index.keep_level(0, ReadPosition(7), since=UNFOLLOWED)
        raised = PartitionLevel(ReadPosition(12), kept.index)
        since = PartitionLevel(ReadPosition(5), kept.index)
        assert await index.keep_level(0, ReadPosition(12), since=since) == raised
        assert await followed(index) == {0: raised}

    @pytest.mark.parametrize("offset", [3, 7, 12])
    async def test_who_begins_where_somebody_else_has_begun_is_told(
        self, index: Index, offset: int
    ) -> None:
        kept = await index.keep_level(0, ReadPosition(7), since=UNFOLLOWED)
        with pytest.raises(Transient, match=told(7, 0)):
            await index.keep_level(0, ReadPosition(offset), since=UNFOLLOWED)
        assert await followed(index) == {0: kept}
        other = await index.keep_level(1, ReadPosition(offset), since=UNFOLLOWED)
        assert await followed(index) == {0: kept, 1: other}

    @pytest.mark.parametrize("since", [0, 3, 7, 9])
    async def test_a_level_is_raised_only_by_who_knows_the_token_of_the_index(
        self, index: Index, since: int
    ) -> None:
        """What lay before was applied, but to another one, however far this one goes."""
        kept = await index.keep_level(0, ReadPosition(7), since=UNFOLLOWED)
        for token in ("", "another", kept.index[:-1], f"{kept.index}0", kept.index.upper() + "g"):
            with pytest.raises(Transient, match=told(7, since)):
                await index.keep_level(
                    0, ReadPosition(12), since=PartitionLevel(ReadPosition(since), token)
                )
        assert await followed(index) == {0: kept}

    async def test_an_index_that_nobody_has_followed_is_told_from_another(
        self, index: Index
    ) -> None:
        with pytest.raises(Transient, match=told(0, 7)):
            await index.keep_level(
                0, ReadPosition(12), since=PartitionLevel(ReadPosition(7), "another")
            )
        assert await index.level() is None

    @pytest.mark.parametrize("offset", [5, 12])
    async def test_an_index_that_goes_less_far_than_it_did_is_told(
        self, index: Index, offset: int
    ) -> None:
        """It was set back to a copy of itself: the token is the same, what came after is gone."""
        kept = await index.keep_level(0, ReadPosition(3), since=UNFOLLOWED)
        other = await index.keep_level(1, ReadPosition(20), since=UNFOLLOWED)
        with pytest.raises(Transient, match=told(3, 7)):
            await index.keep_level(
                0, ReadPosition(offset), since=PartitionLevel(ReadPosition(7), kept.index)
            )
        assert await followed(index) == {0: kept, 1: other}

    @pytest.mark.parametrize("refilled", [3, 7, 20])
    async def test_an_index_that_was_emptied_is_told(self, index: Index, refilled: int) -> None:
        """Also once it is filled anew, however far."""
        kept = await index.keep_level(0, ReadPosition(7), since=UNFOLLOWED)
        await index.clear()
        with pytest.raises(Transient, match=told(0, 7)):
            await index.keep_level(0, ReadPosition(12), since=kept)
        assert await index.level() is None
        anew = await index.keep_level(0, ReadPosition(refilled), since=UNFOLLOWED)
        assert anew.index != kept.index
        with pytest.raises(Transient, match=told(refilled, 7)):
            await index.keep_level(0, ReadPosition(12), since=kept)
        assert await followed(index) == {0: anew}

    async def test_forgets_everything_and_can_be_used_again(self, index: Index) -> None:
        await index.write([stored(id=identity(1))])
        await index.keep_level(0, ReadPosition(7), since=UNFOLLOWED)
        await index.clear()
        assert (await index.count(), await index.level()) == (0, None)
        assert await everything(index) == []
        assert await search(index) == []
        await index.write([stored("milk", id=identity(2))])
        assert ids(await search(index)) == numbers(2)

    async def test_finds_by_content_among_the_live(self, index: Index) -> None:
        """Of several all, by id, whatever the order in which they were written."""
        tea, milk = content_key(SCOPE, "tea"), content_key(SCOPE, "milk")
        await index.write(
            [
                stored("tea", id=identity(5)),
                retired(1, "tea"),
                stored("tea", id=identity(3), vector=unit(0, 1)),
                stored("tea", id=identity(4)),
                retired(2, "milk"),
            ]
        )
        found = await index.with_content([milk, tea, ContentKey("unheard of"), tea])
        assert found == {
            tea: [StoredMemory(memory("tea", id=identity(n)), None) for n in (3, 4, 5)],
        }

    async def test_knows_the_newest_decisions_that_made_a_memory(self, index: Index) -> None:
        first, second, third = (
            (DecisionId(identity(n)), ContentKey(f"{n:032x}")) for n in (7, 8, 9)
        )
        known = replace(stored(id=identity(1)), decided=(first, second))
        gone = replace(retired(2), decided=(third,))
        await index.write([known, gone])
        asked = [third[0], first[0], DecisionId(identity(6)), first[0]]
        assert await index.decided(asked) == {
            first[0]: KnownEvent(first[1], frozenset([known.memory.id])),
            third[0]: KnownEvent(third[1], frozenset([gone.memory.id])),
        }
        assert (await index.get([known.memory.id]))[known.memory.id].decided == (first, second)
        seen_again = stored(id=identity(1), version=2, observation_count=2)
        await index.write([replace(seen_again, decided=(second,))])
        still = {second[0]: KnownEvent(second[1], frozenset([known.memory.id]))}
        assert await index.decided([first[0], second[0]]) == still
        assert await index.decided([]) == {}

    async def test_knows_a_decision_as_long_as_one_of_its_memories_does(self, index: Index) -> None:
        both = (DecisionId(identity(7)), ContentKey("7" * 32))
        two = [replace(stored(id=identity(n)), decided=(both,)) for n in (1, 2)]
        await index.write(two)
        ids_of = frozenset(one.memory.id for one in two)
        assert await index.decided([both[0]]) == {both[0]: KnownEvent(both[1], ids_of)}
        await index.write([stored(id=identity(1), version=2)])
        left = frozenset([two[1].memory.id])
        assert await index.decided([both[0]]) == {both[0]: KnownEvent(both[1], left)}

    async def test_finds_what_was_found_to_contradict_a_memory(self, index: Index) -> None:
        """Of several all that are live, by id, with the versions that were seen."""
        nine, other = MemoryId(identity(1)), MemoryId(identity(9))
        eight, seven = (
            replace(live(n, f"At {n}."), contradicted=((nine, 3), (other, 1)), worded_at=2)
            for n in (8, 7)
        )
        gone = replace(retired(6), contradicted=((nine, 3),))
        await index.write([live(1, "At 9."), eight, gone, seven])
        bare = [replace(one, vector=None) for one in (seven, eight)]
        assert await index.contradicting([other, nine, MemoryId(identity(4))]) == {
            nine: bare,
            other: bare,
        }
        held = (await index.get([eight.memory.id]))[eight.memory.id]
        assert (held.contradicted, held.worded_at) == (eight.contradicted, 2)
        await index.write([live(8, "At 8.", version=2)])
        assert await index.contradicting([nine]) == {nine: [bare[0]]}
        assert await index.contradicting([]) == {}

    async def test_finds_what_was_forgotten_by_scope(self, index: Index) -> None:
        """With vectors, by id; live and retired ones are not among them."""
        other = ScopeName("acme/ana/work")
        gone = [
            forgotten(3, SCOPE, unit(0, 1)),
            forgotten(2, SCOPE, unit(0, 0, 1)),
            forgotten(4, other, unit(1)),
        ]
        await index.write([*gone, stored("tea", id=identity(1)), retired(5, "milk")])
        found = await index.forgotten([SCOPE, ScopeName("acme"), other])
        assert set(found) == {SCOPE, other}
        assert_same(found[SCOPE], [gone[1], gone[0]])
        assert_same(found[other], [gone[2]])
        assert await index.forgotten([ScopeName("acme")]) == {}
        assert await search(index, unit(0, 1), floor=0.9) == []

    async def test_a_memory_is_as_near_as_the_nearest_of_its_wordings(self, index: Index) -> None:
        """It is found once, and comes back with the vectors of all of them, bit for bit."""
        tea = worded(
            live(1, "Ana likes tea.", vector=unit(1)),
            ("Tea is what Ana likes.", unit(0, 1)),
            ("Ana: tea", unit(0, 0.6, 0.8)),
        )
        milk = live(2, "Ana likes milk.", vector=unit(0, 0.9, 0.1))
        await index.write([tea, milk])
        for nearest in (unit(1), unit(0, 1), unit(0, 0.6, 0.8)):
            assert_same(await search(index, nearest, floor=0.999), [tea])
        assert ids(await search(index, unit(0, 1))) == numbers(1, 2)
        assert ids(await search(index, unit(0, 1), limit=1)) == numbers(1)
        assert_same(await everything(index), [tea, milk])
        assert_same([(await index.get([tea.memory.id]))[tea.memory.id]], [tea])

    async def test_wordings_go_with_the_version_that_had_them(self, index: Index) -> None:
        before = worded(live(1, "Ana likes tea.", vector=unit(1)), ("Ana: tea", unit(0, 1)))
        after = worded(
            live(1, "Ana likes tea.", vector=unit(1), version=2), ("Tea for Ana", unit(0, 0, 1))
        )
        await index.write([before])
        await index.write([after])
        assert await search(index, unit(0, 1), floor=0.5) == []
        assert_same(await search(index, unit(0, 0, 1), floor=0.999), [after])

    async def test_finds_a_memory_by_the_content_of_any_wording(self, index: Index) -> None:
        known = worded(live(1, "Ana likes tea."), ("Ana: tea", unit(0, 1)))
        await index.write([known, live(2, "Ana: tea", vector=unit(0, 1))])
        shown, variant = known.memory.content_keys
        found = await index.with_content([variant, shown, content_key(SCOPE, "milk")])
        assert {key: ids(held) for key, held in found.items()} == {
            shown: numbers(1),
            variant: numbers(1, 2),
        }

    async def test_finds_many_contents_at_once(self, index: Index) -> None:
        texts = [f"fact {n}" for n in range(1_500)]
        await index.write([stored(text, id=identity(n)) for n, text in enumerate(texts)])
        keys = [content_key(SCOPE, text) for text in texts]
        found = await index.with_content(keys)
        assert [found[key][0].memory.id for key in keys] == numbers(*range(1_500))

    async def test_a_later_version_replaces_what_was_there(self, index: Index) -> None:
        before = stored("old text", id=identity(1), category="old", tags=["a", "b"])
        after = stored("new text", unit(0, 1), id=identity(1), version=2)
        await index.write([before])
        await index.write([after])
        assert_same(await everything(index), [after])
        assert_same(await search(index, unit(0, 1), floor=0.9), [after])
        assert await search(index, unit(1), floor=0.9) == []
        keys = [before.memory.content_key, after.memory.content_key]
        assert list(await index.with_content(keys)) == [after.memory.content_key]

    async def test_a_vector_that_is_read_and_written_again_stays_bit_equal(
        self, index: Index, request: pytest.FixtureRequest
    ) -> None:
        if "local mode" in request.node.name:
            pytest.skip("the client's local mode normalises unit vectors once more")
        given = [
            stored(id=identity(n), vector=unit(n % 7, 1 + n, -n % 5, 1e-4 * n, 1e-30, n**0.5))
            for n in range(600)
        ]
        await index.write(given)
        for version in (2, 3):
            found = await index.get([one.memory.id for one in given])
            again = [memory(id=one.memory.id, version=version) for one in given]
            await index.write([StoredMemory(one, found[one.id].vector) for one in again])
            expected = [StoredMemory(a, one.vector) for a, one in zip(again, given, strict=True)]
            assert_same(await everything(index), expected)

    async def test_a_state_without_its_vector_is_refused(self, index: Index) -> None:
        known = worded(live(1, "Ana likes tea."), ("Ana: tea", unit(0, 1)))
        for lacking in (replace(known, vector=None), replace(known, variants={})):
            with pytest.raises(TypeError, match=f"memory {identity(1)} is written without a vec"):
                await index.write([lacking])
        assert await everything(index) == []

    @pytest.mark.covers("B127", "D28")
    @pytest.mark.parametrize("version", [1, 2, 3])
    async def test_who_writes_late_changes_nothing(self, index: Index, version: int) -> None:
        decided = ((DecisionId(identity(7)), ContentKey("7" * 32)),)
        known = replace(live(1, "new text", version=3), decided=decided)
        gone = retired(2, version=3, vector=unit(0, 1))
        await index.write([known, gone])
        late = [memory("old text", id=identity(n), version=version) for n in (1, 2)]
        await index.write([StoredMemory(one, unit(0, 0, 1)) for one in late])
        assert_same(await everything(index), [known, gone])
        assert ids(await search(index)) == numbers(1)
        [(decision, content)] = decided
        held_by = frozenset([known.memory.id])
        assert await index.decided([decision]) == {decision: KnownEvent(content, held_by)}
        assert await index.with_content([late[0].content_key]) == {}

    async def test_who_writes_late_cannot_retire(self, index: Index) -> None:
        known = live(1, "new text", version=3)
        await index.write([known])
        await index.write([retired(1, version=2)])
        await index.write([retired(1, version=3)])
        assert_same(await search(index), [known])

    @pytest.mark.covers("D29")
    @pytest.mark.parametrize("version", [1, 2, 3])
    async def test_who_writes_late_brings_back_nothing_that_is_gone(
        self, index: Index, version: int
    ) -> None:
        """A point stays for what was retired or forgotten, and its version refuses the old one."""
        ended, left = retired(1, version=3), forgotten(2, SCOPE, unit(0, 1))
        left = replace(left, memory=left.memory.model_copy(update={"version": 3}))
        await index.write([ended, left])
        late = [stored("old text", id=identity(n), version=version) for n in (1, 2)]
        await index.write(late)
        assert_same(await everything(index), [ended, left])
        assert await search(index) == []
        assert await index.with_content([late[0].memory.content_key]) == {}

    async def test_each_state_of_a_write_is_judged_by_itself(self, index: Index) -> None:
        """Many versions at once, live and retired, known and new."""
        before = [live(n, "before", version=1 + n % 7, vector=unit(n + 1, 1)) for n in range(300)]
        await index.write(before)
        changes = [
            (retired if n % 5 == 0 else live)(
                n, "after", version=1 + n % 4, vector=unit(n + 1, 0, 1)
            )
            for n in range(310)
        ]
        await index.write(changes)
        expected = [*map(newest, before, changes), *changes[300:]]
        assert_same(await everything(index), expected, bits=False)
        assert {one.memory.text for one in expected[:300]} == {"before", "after"}

    async def test_retiring_hides_from_searches_at_once(self, index: Index) -> None:
        await index.write([stored(id=identity(1)), stored(id=identity(2))])
        await index.write([retired(1, version=2)])
        assert ids(await search(index)) == numbers(2)
        assert ids(await everything(index)) == numbers(1, 2)
        await index.write([stored(id=identity(1), version=3)])
        assert sorted(ids(await search(index))) == numbers(1, 2)

    async def test_scans_every_memory_in_the_order_of_ids(self, index: Index) -> None:
        """More than a page of them, live or not, of one scope or of all."""
        given = [
            retired(n, f"fact {n}", scope=SCOPES[n % 2], vector=unit(n + 1, 1))
            if n % 10 == 0
            else stored(f"fact {n}", id=identity(n), scope=SCOPES[n % 2], vector=unit(n + 1, 1))
            for n in range(2_345)
        ]
        await index.write(given[::-1])
        assert_same(await everything(index), given, bits=False)
        assert_same(await everything(index, SCOPES[1]), given[1::2], bits=False)
        assert await everything(index, ScopeName("nobody")) == []

    @pytest.mark.parametrize("page", [1_000, 2_000])
    async def test_scans_a_full_last_page_once(self, index: Index, page: int) -> None:
        await index.write([stored(f"fact {n}", id=identity(n)) for n in range(page)])
        assert ids(await everything(index)) == numbers(*range(page))

    async def test_what_was_searched_for_may_be_read_again(self, index: Index) -> None:
        """Reading has no effect, and what was found does not change with the index."""
        await index.write([stored(id=identity(1))])
        first = await search(index)
        await index.write([stored("new text", unit(0, 1), id=identity(1), version=2)])
        assert_same(first, [stored(id=identity(1))])


UNITS = (
    st.lists(st.integers(-9, 9), min_size=DIMENSION, max_size=DIMENSION)
    .filter(any)
    .map(lambda components: unit(*components))
)


@st.composite
def histories(draw: st.DrawFn) -> list[list[StoredMemory]]:
    """Batches of writes to a few ids: new states and retirements.

    Some come late: the memory may be at that version, or further.
    """
    batches: list[list[StoredMemory]] = []
    for latest in range(1, draw(st.integers(1, 4)) + 1):
        batch: list[StoredMemory] = []
        for number in sorted(draw(st.sets(st.integers(0, 19), max_size=12))):
            version = draw(st.integers(1, latest))
            make = retired if draw(st.integers(0, 4)) == 0 else live
            state = make(
                number,
                draw(st.sampled_from(["tea", "milk"])),
                scope=SCOPES[number % 3],
                version=version,
                vector=draw(UNITS),
            )
            others = draw(st.sampled_from([(), ("cocoa",), ("cocoa", "juice")]))
            state = worded(state, *((text, draw(UNITS)) for text in others))
            batch.append(replace(state, decided=decided_by(number, version)))
        batches.append(batch)
    return batches


def decided_by(number: int, versions: int) -> tuple[tuple[DecisionId, ContentKey], ...]:
    """Return the newest decisions on a memory that has so many versions."""
    return tuple(
        (DecisionId(identity(1_000 * number + version)), ContentKey(f"{version:032x}"))
        for version in range(max(1, versions - 1), versions + 1)
    )


def live(number: int, text: str, **fields: Any) -> StoredMemory:
    return stored(text, id=identity(number), **fields)


QUERIES = st.lists(
    st.builds(
        Query,
        st.sampled_from(SCOPES[:4]),
        UNITS,
        st.integers(1, 8),
        st.sampled_from([-1.0, 0.0, 0.3, 0.7, 0.95]),
    ),
    max_size=5,
)


# Not shrunk: every example makes an index on disk, so shrinking takes longer than a test may.
@pytest.mark.parametrize("make", [edge, local_mode, server], ids=["edge", "local mode", "server"])
@settings(
    max_examples=25,
    deadline=None,
    phases=set(Phase) - {Phase.shrink, Phase.explain},
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(history=histories(), queries=QUERIES)
async def test_every_index_agrees_with_the_exact_one(
    make: Make,
    request: pytest.FixtureRequest,
    history: list[list[StoredMemory]],
    queries: list[Query],
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        async with make(request, Path(directory)) as index:
            await index.clear()  # a server's collection is there from the last example
            await assert_agreement(index, history, queries)


async def assert_agreement(
    index: Index, history: list[list[StoredMemory]], queries: list[Query]
) -> None:
    """Write a history to an index and to the exact one, and ask both everything."""
    reference = ExactIndex()
    for batch in history:
        await reference.write(batch)
        await index.write(batch)
    for scope in (None, *SCOPES[:4]):
        found, expected = await everything(index, scope), await everything(reference, scope)
        assert_same(found, expected, bits=False)
    asked = [MemoryId(identity(number)) for number in range(20)]
    got, known = await index.get(asked), await reference.get(asked)
    assert got.keys() == known.keys()
    assert_same([got[one] for one in known], list(known.values()), bits=False)
    assert [got[one].decided for one in known] == [one.decided for one in known.values()]
    decisions = [pair[0] for number in range(20) for pair in decided_by(number, 4)]
    assert await index.decided(decisions) == await reference.decided(decisions)
    keys = [content_key(scope, text) for scope in SCOPES[:3] for text in ("tea", "milk", "juice")]
    assert await index.with_content(keys) == await reference.with_content(keys)
    answers, nearest = await index.search(queries), await reference.search(queries)
    for query, near, exactly in zip(queries, answers, nearest, strict=True):
        candidates = await search(reference, query.vector, scope=query.scope, floor=-2.0)
        assert_congruent(query, near, exactly, {one.memory.id for one in candidates})


def assert_congruent(
    query: Query, near: list[StoredMemory], nearest: list[StoredMemory], allowed: set[MemoryId]
) -> None:
    """Compare two answers: only memories within SAME of the edge of the answer may differ."""
    scores = [cosine(query.vector, one) for one in near]
    assert scores == pytest.approx(sorted(scores, reverse=True), abs=SAME)
    assert len(near) <= query.limit
    assert len(set(ids(near))) == len(near)
    assert set(ids(near)) <= allowed
    full = len(nearest) == query.limit
    edge_score = cosine(query.vector, nearest[-1]) if full else query.floor
    assert all(score >= edge_score - SAME for score in scores)
    certain = [one for one in nearest if cosine(query.vector, one) > edge_score + SAME]
    assert set(ids(certain)) <= set(ids(near))


def python(script: str, path: Path) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", script, str(path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )


PRELUDE = """
import asyncio, json, os, signal, sys
from pathlib import Path
from streams.index.edge import EdgeIndex
from streams.model.ports.failures import NoStore
from tests.builders import DIMENSION, identity, stored, unit
path = Path(sys.argv[1])
"""

KILLED_AFTER_WRITING = f"""{PRELUDE}
index = EdgeIndex(path, DIMENSION)
asyncio.run(index.write([stored(f"fact {{n}}", unit(n + 1, 1), id=identity(n)) for n in range(300)]))
asyncio.run(index.write([stored("fact 7", unit(0, 1), id=identity(7), version=2)]))
os.kill(os.getpid(), signal.SIGKILL)
"""

OPENED_ELSEWHERE = f"""{PRELUDE}
try:
    EdgeIndex(path, DIMENSION)
except NoStore as error:
    print(json.dumps(str(error)))
"""


WRITES_UNTIL_NO_SPACE = f"""{PRELUDE}
from functools import partial
from streams.store.app.settings import Settings
from streams.store.world.store_directory import StoreDirectory
require_space = partial(StoreDirectory(path).require_space, Settings().run.free_disk_bytes_min)
index = EdgeIndex(path, DIMENSION, require_space)
count = 0
try:
    while count < 100_000:
        some = [stored("x" * 4_000, unit(1, 1), id=identity(count + n)) for n in range(256)]
        asyncio.run(index.write(some))
        count += len(some)
except NoStore as error:
    message = str(error)
asyncio.run(index.close())
index = EdgeIndex(path, DIMENSION)
print(json.dumps([count, asyncio.run(index.count()), message]))
"""


class TestEdgeIndex:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "index"

    async def test_a_reopened_index_has_everything(self, path: Path) -> None:
        given = [stored(f"fact {n}", unit(n + 1, 1), id=identity(n)) for n in range(50)]
        given[7] = retired(7, "fact 7", vector=unit(8, 1))
        index = EdgeIndex(path, DIMENSION)
        await index.write(given)
        await index.close()
        for _ in range(2):
            index = EdgeIndex(path, DIMENSION)
            assert_same(await everything(index), given)
            assert len(await search(index)) == 49
            await index.close()

    async def test_a_reopened_index_is_the_same_one_and_one_made_anew_is_not(
        self, path: Path
    ) -> None:
        index = EdgeIndex(path, DIMENSION)
        kept = await index.keep_level(0, ReadPosition(7, Epoch(2, "a"), 5), since=UNFOLLOWED)
        await index.close()
        index = EdgeIndex(path, DIMENSION)
        assert await followed(index) == {0: kept}
        raised = await index.keep_level(0, ReadPosition(12), since=kept)
        assert raised == PartitionLevel(ReadPosition(12), kept.index)
        await index.close()
        shutil.rmtree(path)
        index = EdgeIndex(path, DIMENSION)
        anew = await index.keep_level(0, ReadPosition(20), since=UNFOLLOWED)
        assert anew.index != kept.index
        await index.close()

    def test_stops_before_a_disk_is_full(self, path: Path) -> None:
        """Its engine maps its files: on a full disk a signal would kill the process."""
        done = on_small_disk(WRITES_UNTIL_NO_SPACE, path.parent / "disk" / "index", "240m")
        assert done.returncode == 0, done.stderr
        written, kept, message = json.loads(done.stdout)
        assert 0 < written == kept < 100_000
        assert "is nearly full" in message

    async def test_an_empty_directory_becomes_an_index(self, tmp_path: Path) -> None:
        index = EdgeIndex(tmp_path, DIMENSION)
        await index.write([stored()])
        assert len(await everything(index)) == 1
        await index.close()

    async def test_what_was_written_survives_a_kill(self, path: Path) -> None:
        killed = python(KILLED_AFTER_WRITING, path)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        expected = [stored(f"fact {n}", unit(n + 1, 1), id=identity(n)) for n in range(300)]
        expected[7] = stored("fact 7", unit(0, 1), id=identity(7), version=2)
        index = EdgeIndex(path, DIMENSION)
        assert_same(await everything(index), expected)
        assert len(await search(index, limit=500)) == 300
        await index.close()

    async def test_a_killed_creation_is_healed(self, path: Path) -> None:
        """Creation happens in a directory beside; what a kill left there is thrown away."""
        await EdgeIndex(path, DIMENSION).close()
        unfinished = path.with_name("index.unfinished")
        shutil.move(path, unfinished)
        shutil.rmtree(unfinished / "wal")
        (unfinished / "edge_config.json").write_text("{", encoding="utf-8")
        index = EdgeIndex(path, DIMENSION)
        await index.write([stored()])
        assert len(await search(index)) == 1
        await index.close()
        assert not unfinished.exists()

    async def test_has_one_user_at_a_time(self, path: Path) -> None:
        index = EdgeIndex(path, DIMENSION)
        await index.write([stored()])
        with pytest.raises(NoStore) as refused:
            EdgeIndex(path, DIMENSION)
        expected = f"{path} is in use by another process; wait until it ends"
        assert str(refused.value) == expected
        assert json.loads(python(OPENED_ELSEWHERE, path).stdout) == expected
        assert len(await everything(index)) == 1
        await index.close()
        await EdgeIndex(path, DIMENSION).close()

    @pytest.mark.parametrize(
        "broken",
        [
            "edge_config.json",
            "wal/open-1",
            "segments/*/segment.json",
            "segments/*/payload_index/config.json",
            "segments/*/payload_index/*-scope-map/tracker.dat",
        ],
    )
    async def test_says_that_it_is_damaged(self, path: Path, broken: str) -> None:
        index = EdgeIndex(path, DIMENSION)
        await index.write([stored(f"fact {n}", id=identity(n)) for n in range(10)])
        await index.close()
        overwrite(path, broken)
        with pytest.raises(NoStore) as refused:
            EdgeIndex(path, DIMENSION)
        message = str(refused.value)
        assert message.startswith(f"{path} is damaged")
        assert "delete this directory" in message
        assert "\n" not in message

    async def test_damage_found_while_reading_is_told_as_such(self, path: Path) -> None:
        index = EdgeIndex(path, DIMENSION)
        await index.write([stored(f"fact {n}", id=identity(n)) for n in range(300)])
        await index.close()
        overwrite(path, "segments/*/payload_storage/page_0.dat")
        index = EdgeIndex(path, DIMENSION)
        with pytest.raises(NoStore, match="damaged"):
            await everything(index)

    def test_says_that_a_file_lies_in_its_place(self, path: Path) -> None:
        path.write_text("no index", encoding="utf-8")
        with pytest.raises(NoStore, match="cannot be used as the index"):
            EdgeIndex(path, DIMENSION)
        with pytest.raises(NoStore, match="cannot be used as the index"):
            EdgeIndex(path / "below", DIMENSION)
        assert path.read_text(encoding="utf-8") == "no index"

    @pytest.mark.parametrize(
        "awkward",
        [
            {"metadata": {"id": 10**30}},
            {"metadata": {"deep": json.loads("[" * 30 + "]" * 30)}},
            {"turns": Turns(first=0, last=2**53 - 1)},
        ],
        ids=["number", "depth", "turn"],
    )
    async def test_what_an_event_may_hold_can_be_stored(
        self, path: Path, awkward: dict[str, Any]
    ) -> None:
        index = EdgeIndex(path, DIMENSION)
        known = Memory.model_validate_json(memory(**awkward).model_dump_json())
        await index.write([StoredMemory(known, unit(1))])
        assert_same(list((await index.get([known.id])).values()), [StoredMemory(known, unit(1))])


def overwrite(path: Path, pattern: str) -> None:
    """Fill every file that fits the pattern with rubbish of its own length."""
    files = list(path.glob(pattern))
    assert files, pattern
    for file in files:
        file.write_bytes(b"\xab" * file.stat().st_size)
