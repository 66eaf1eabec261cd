"""A store of generated memories: many small scopes, one scope of a thousand, and a large one."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from benchmarks.harness.deciding import POLICY, START
from benchmarks.harness.vectors import random_units
from schemas.base import EventId, ScopeName
from schemas.memories import Memory
from streams.model.embedding import Vector
from streams.model.identity import content_key, decision_id, memory_id
from streams.model.neighbours import StoredMemory
from streams.model.ports.index import Index, Query

_PAGE = 2_000
_SMALL = 100
_MIDDLE = 1_000
_STRIDE = 7_919
"""A prime, which spreads the memories of a scope over the whole store, as a stream would."""
_OVERFETCH = 8
"""How many more neighbours the deduplicator fetches from the index than the policy's limit."""


@dataclass(frozen=True)
class Layout:
    """The assignment of memories to scopes: a tenth in the large one, about 100 in each small one."""

    size: int

    @property
    def large(self) -> range:
        return range(self.size // 10)

    @property
    def middle(self) -> range:
        return range(self.large.stop, self.large.stop + min(_MIDDLE, self.size // 10))

    def scope(self, place: int) -> ScopeName:
        if place in self.large:
            return ScopeName("acme/large")
        if place in self.middle:
            return ScopeName("acme/middle")
        return self.small(place)

    def small(self, number: int) -> ScopeName:
        """Return one of the small scopes; `number` may be any integer."""
        scopes = max(1, (self.size - self.middle.stop) // _SMALL)
        return ScopeName(f"acme/user-{number % scopes}")

    def states(self) -> Iterator[list[StoredMemory]]:
        """Yield all memories with their vectors, page by page, with the scopes interleaved."""
        for page in range(0, self.size, _PAGE):
            order = range(page, min(page + _PAGE, self.size))
            vectors = random_units(page, len(order))
            yield [
                _stored(n, self.scope(n * _STRIDE % self.size), vector)
                for n, vector in zip(order, vectors, strict=True)
            ]

    def vectors(self, places: range, count: int) -> Iterator[Vector]:
        """Yield vectors of memories at these places, spread over as many pages as possible."""
        pages = range(0, self.size, _PAGE)
        each = -(-count // len(pages))
        for page in pages[:count]:
            order = range(page, min(page + _PAGE, self.size))
            vectors = zip(order, random_units(page, len(order)), strict=True)
            known = (vector for n, vector in vectors if n * _STRIDE % self.size in places)
            yield from islice(known, each)


async def fill(index: Index, layout: Layout) -> None:
    for states in layout.states():
        await index.write(states)


async def searches(index: Index, layout: Layout, places: range, count: int) -> list[float]:
    """Search for known vectors in their scope one at a time; return each search's milliseconds."""
    rules = POLICY.rules(scope := layout.scope(places.start)).nominate
    limit = rules.neighbours_max + _OVERFETCH
    taken: list[float] = []
    for vector in islice(layout.vectors(places, count), count):
        query = Query(scope, vector, limit, rules.similarity_min)
        started = time.perf_counter()
        await index.search([query])
        taken.append((time.perf_counter() - started) * 1e3)
    return taken


def _stored(number: int, scope: ScopeName, vector: Vector) -> StoredMemory:
    text = f"Member {number} left the folder of day {number * 13 % 9_973} in the archive."
    decided, key = decision_id(scope, EventId(f"stored-{number}")), content_key(scope, text)
    memory = Memory(
        id=memory_id(decided),
        scope=scope,
        text=text,
        content_key=key,
        version=1,
        created_at=START,
        last_seen_at=START,
    )
    return StoredMemory(memory, vector, ((decided, key),))
