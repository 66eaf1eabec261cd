"""Copies of the vectors of large scopes: when they are made, and that they follow every change."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.base import MemoryId, ScopeName
from schemas.memories import Standing, Superseded
from streams.index.large_scopes import CopyLimits, LargeScopes, Rows, ScopeVectors
from streams.model.embedding import Vector
from streams.model.neighbours import StoredMemory
from streams.model.ports.index import Query
from tests.builders import DIMENSION, START, at_cosine, identity, stored, unit, worded

HERE, THERE = ScopeName("acme/ana"), ScopeName("acme/ben")
ROW_BYTES = DIMENSION * 4


class Held:
    """Implements LiveVectors over a dict; counts what is asked."""

    def __init__(self, *memories: StoredMemory) -> None:
        self.memories = {one.memory.id: one for one in memories}
        self.counted = Counter[ScopeName]()

    def live_count(self, scope: ScopeName) -> int:
        self.counted[scope] += 1
        return len(self._live(scope))

    def live_vectors(self, scope: ScopeName, page: int) -> Iterator[list[tuple[MemoryId, Rows]]]:
        last = ""
        while ids := [one for one in self._live(scope) if one > last][:page]:
            yield [(one, list(self.memories[one].wordings.values())) for one in ids]
            last = ids[-1]

    def _live(self, scope: ScopeName) -> list[MemoryId]:
        known = self.memories.values()
        return sorted(m.memory.id for m in known if m.memory.live and m.memory.scope == scope)


def known(count: int, scope: ScopeName = HERE, first: int = 1) -> list[StoredMemory]:
    numbers = range(first, first + count)
    return [stored(f"Fact {n}.", unit(1, n), id=identity(n), scope=scope) for n in numbers]


def searched(scopes: LargeScopes, scope: ScopeName = HERE, times: int = 1) -> ScopeVectors | None:
    """Search as the index does; return the copy that the last search used."""
    copy = None
    for _ in range(times):
        copy = scopes.copy(scope)
        if copy is None:
            scopes.observe(scope)
    return copy


def near(copy: ScopeVectors | None, vector: Vector, limit: int = 9) -> Sequence[MemoryId]:
    assert copy is not None
    return copy.nearest(Query(HERE, vector, limit, floor=-1.0))


def limits(**changed: int) -> CopyLimits:
    return replace(CopyLimits(searches_min=2, memories_min=3, page=2), **changed)


def test_a_scope_is_copied_bit_by_bit_once_it_was_searched_often() -> None:
    index = Held(*known(4))
    scopes = LargeScopes(index, DIMENSION, limits())
    assert searched(scopes, times=4) is None  # the first is not copied, then two pages and the end
    assert sorted(near(searched(scopes), unit(1))) == [identity(n) for n in range(1, 5)]
    assert index.counted == {HERE: 1}


def test_a_small_scope_is_counted_again_only_after_as_many_searches() -> None:
    index = Held(*known(2))
    scopes = LargeScopes(index, DIMENSION, limits(searches_min=8))
    assert searched(scopes, times=23) is None
    assert index.counted == {HERE: 2}


def test_only_so_many_scopes_are_observed() -> None:
    index = Held(*known(4))
    scopes = LargeScopes(index, DIMENSION, limits(scopes_max=1))
    for _ in range(9):
        searched(scopes, HERE)
        searched(scopes, THERE)
    assert index.counted == {}


def test_a_copy_that_is_in_use_is_not_dropped_for_another() -> None:
    index = Held(*known(4), *known(4, THERE, first=11))
    scopes = LargeScopes(index, DIMENSION, limits(bytes_max=9 * ROW_BYTES))
    searched(scopes, times=9)
    for _ in range(9):
        assert searched(scopes, THERE) is None
        assert searched(scopes, HERE) is not None


def test_a_copy_that_is_no_longer_used_is_dropped_for_another() -> None:
    index = Held(*known(4), *known(4, THERE, first=11))
    scopes = LargeScopes(index, DIMENSION, limits(bytes_max=9 * ROW_BYTES))
    searched(scopes, times=9)
    assert searched(scopes, THERE, times=9) is not None
    assert searched(scopes, HERE) is None


def test_a_copy_that_has_grown_too_large_is_dropped() -> None:
    scopes = LargeScopes(Held(*known(4)), DIMENSION, limits(bytes_max=9 * ROW_BYTES))
    searched(scopes, times=9)
    scopes.update(known(9, first=11))
    assert searched(scopes) is None


def test_a_copy_of_a_scope_with_too_many_wordings_is_dropped() -> None:
    others = [(f"Wording {n}.", unit(1, n)) for n in range(9)]
    index = Held(*[worded(one, *others) for one in known(4)])
    scopes = LargeScopes(index, DIMENSION, limits(bytes_max=9 * ROW_BYTES))
    assert searched(scopes, times=20) is None


def test_a_change_during_the_copying_is_followed() -> None:
    first, second, third, fourth = known(4)
    index = Held(first, second, third, fourth)
    scopes = LargeScopes(index, DIMENSION, limits())
    searched(scopes, times=2)  # the first two are copied
    gone = Superseded(by=MemoryId(identity(4)), at=START, reason="same-fact")
    retired = {"status": Standing.SUPERSEDED, "superseded": gone}
    moved = replace(second, vector=unit(0, 0, 1))
    changes = [
        replace(first, memory=first.memory.model_copy(update=retired)),
        moved,
        replace(fourth, memory=fourth.memory.model_copy(update=retired)),
        *known(1, first=9),
    ]
    index.memories |= {one.memory.id: one for one in changes}
    scopes.update(changes)
    copy = searched(scopes, times=3)
    assert near(copy, unit(0, 0, 1))[0] == second.memory.id
    assert sorted(near(copy, unit(1))) == [identity(2), identity(3), identity(9)]


def test_nothing_is_left_after_clearing() -> None:
    scopes = LargeScopes(Held(*known(4)), DIMENSION, limits())
    searched(scopes, times=9)
    scopes.clear()
    assert searched(scopes) is None


def test_a_memory_of_many_wordings_hides_no_other() -> None:
    vectors = ScopeVectors(DIMENSION, 2)
    vectors.put(MemoryId(identity(1)), [at_cosine(1 - n / 1_000) for n in range(99)])
    vectors.put(MemoryId(identity(2)), [at_cosine(0.5)])
    assert near(vectors, unit(1), limit=2) == [identity(1), identity(2)]


@given(
    st.lists(st.tuples(st.integers(1, 6), st.lists(st.integers(0, 99), max_size=3)), max_size=30),
    st.integers(1, 7),
    st.sampled_from([-1.0, 0.0, 0.5]),
)
def test_what_is_found_is_what_comparing_all_vectors_finds(
    puts: list[tuple[int, list[int]]], limit: int, floor: float
) -> None:
    vectors, held = ScopeVectors(DIMENSION, 0), dict[str, list[Vector]]()
    for number, angles in puts:
        held[identity(number)] = [unit(np.cos(angle), np.sin(angle)) for angle in angles]
        vectors.put(MemoryId(identity(number)), held[identity(number)])
    scores = {i: max(float(row @ unit(1)) for row in rows) for i, rows in held.items() if rows}
    expected = sorted((s for s in scores.values() if s >= floor), reverse=True)[:limit]
    found = vectors.nearest(Query(HERE, unit(1), limit, floor))
    assert len(set(found)) == len(found)
    assert [scores[one] for one in found] == pytest.approx(expected, abs=1e-6)


def test_a_wording_that_is_added_is_found() -> None:
    scopes = LargeScopes(Held(*known(4)), DIMENSION, limits())
    searched(scopes, times=9)
    [first] = known(1)
    scopes.update([worded(first, ("Another wording.", unit(0, 0, 1)))])
    assert near(searched(scopes), unit(0, 0, 1), limit=1) == [identity(1)]
