"""The memories that an index's only process has read or written last."""

from collections import OrderedDict
from collections.abc import Iterable

from schemas.base import MemoryId
from streams.model.neighbours import StoredMemory


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
