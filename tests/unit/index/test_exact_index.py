"""The exact index: one product for all vectors of a scope, and as true as one by one."""

import asyncio
import sys
from collections import Counter
from collections.abc import Callable

import pytest

from schemas.base import ScopeName
from streams.index.exact import ExactIndex
from streams.model.embedding import Vector, similarity
from streams.model.neighbours import StoredMemory
from streams.model.ports.index import Query
from tests.builders import at_cosine, identity, stored, unit

HERE = ScopeName("acme/ana")
FIFTY = [at_cosine(number / 50, 1 + number % 7) for number in range(50)]


def filled(*vectors: Vector) -> ExactIndex:
    index = ExactIndex()
    states = [stored(f"Fact {at}.", one, id=identity(at)) for at, one in enumerate(vectors)]
    asyncio.run(index.write(states))
    return index


def search(index: ExactIndex, vector: Vector) -> list[StoredMemory]:
    [found] = asyncio.run(index.search([Query(HERE, vector, limit=50, floor=-1.0)]))
    return found


@pytest.mark.covers("S0.40", "S0.45")
def test_cosine_similarity_is_that_of_every_vector_by_itself() -> None:
    index, wanted = filled(*FIFTY), unit(3, 2, 1)
    found = [one.memory.id for one in search(index, wanted)]
    by_itself = sorted(range(50), key=lambda at: (-similarity(wanted, FIFTY[at]), identity(at)))
    assert found == [identity(at) for at in by_itself]


@pytest.mark.covers("S0.43")
def test_vectorized_similarity_takes_a_tenth_of_the_steps_of_a_loop_and_no_more_for_more() -> None:
    """Counted, not timed: each call is a step through the interpreter, which is what a loop costs."""
    query = Query(HERE, unit(1), limit=1, floor=-1.0)
    loop = calls_in(lambda: max(similarity(query.vector, one) for one in FIFTY))
    of_fifty, of_five_hundred = filled(*FIFTY), filled(*FIFTY * 10)
    next_of(of_fifty, query)  # the scope's matrix is made once, and kept
    next_of(of_five_hundred, query)
    vectorized = calls_in(lambda: next_of(of_fifty, query))
    assert loop >= 10 * vectorized
    assert calls_in(lambda: next_of(of_five_hundred, query)) == vectorized


def test_a_change_is_found_by_the_next_search() -> None:
    index = filled(unit(1), unit(0, 1))
    assert search(index, unit(1))[0].memory.id == identity(0)
    nearer = stored("Fact 1, told anew.", unit(1, 0.1), id=identity(1), version=2)
    moved = stored("Fact 0, told anew.", unit(0, 0, 1), id=identity(0), version=2)
    asyncio.run(index.write([nearer, moved]))
    assert [one.memory.text for one in search(index, unit(1))] == [
        "Fact 1, told anew.",
        "Fact 0, told anew.",
    ]
    asyncio.run(index.clear())
    assert search(index, unit(1)) == []


def calls_in(work: Callable[[], object]) -> int:
    """Return how many functions are called by some work, in Python and in C."""
    events = Counter[str]()
    sys.setprofile(lambda _, what, __: events.update([what]))
    try:
        work()
    finally:
        sys.setprofile(None)
    return events["call"] + events["c_call"]


def next_of(index: ExactIndex, query: Query) -> object:
    """Search without an event loop: starting one would take longer than the search."""
    searching = index.search([query])
    try:
        searching.send(None)
    except StopIteration as found:
        return found.value
    raise AssertionError("a search in memory waits for nothing")
