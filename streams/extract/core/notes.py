"""The state while turns are processed: known memories, and the events taken so far."""

from collections import defaultdict
from collections.abc import Iterable
from itertools import islice

from schemas.base import EventId, MemoryId, ScopeName
from schemas.events import Remember
from schemas.memories import Memory
from streams.extract.core.synthesis import KnownMemory
from streams.model.identity import normalised


class Notes:
    """What is known per scope: the memories of a store, and the events taken so far."""

    def __init__(
        self, memories: Iterable[Memory] = (), events: Iterable[Remember] = (), known_max: int = 0
    ) -> None:
        """`memories` may include retired ones: they are not shown, and do not count as new.

        `events` were taken before; `known_max` memories are shown per scope.
        """
        self._known_max = known_max
        self._taken: set[tuple[ScopeName, EventId]] = set()
        self._stored: set[MemoryId] = set()
        self._by_scope = defaultdict[ScopeName, dict[str, KnownMemory]](dict)  # by words
        for memory in sorted(memories, key=lambda memory: memory.last_seen_at):
            self._stored.add(memory.id)
            if memory.live:
                self._by_scope[memory.scope][normalised(memory.text)] = KnownMemory.of(memory)
        for event in events:
            self.add(event)

    def taken(self, scope: ScopeName, event: EventId) -> bool:
        """Return whether an event was taken before."""
        return (scope, event) in self._taken

    def know(self, scope: ScopeName, events: Iterable[EventId]) -> None:
        """Mark events as taken before, whatever their content."""
        self._taken.update((scope, event) for event in events)

    def add(self, event: Remember) -> None:
        self._taken.add((event.scope, event.event_id))
        known = self._by_scope[event.scope]
        if event.supersedes:
            for gone in [said for said, one in known.items() if one.id in event.supersedes]:
                del known[gone]
        coming = KnownMemory.of(event)
        if coming.id not in self._stored:
            known.setdefault(normalised(event.text), coming)

    def of(self, scope: ScopeName) -> tuple[KnownMemory, ...]:
        """Return the memories of a scope to show: those seen last, in that order."""
        newest = islice(reversed(self._by_scope[scope].values()), self._known_max)
        return tuple(newest)[::-1]
