"""What the sinks share: one that was emptied under a running process is filled from its level."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from schemas.outcomes import Applied
from streams.model.fences import ReadPosition
from streams.model.ports.failures import Transient


class FollowedSink(ABC):
    """The part of ports.Sink that no format matters to; a subclass has what blocks."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._told: dict[int, int] = {}

    async def level(self, partition: int) -> ReadPosition | None:
        level = await asyncio.to_thread(self._level, partition)
        self._told[partition] = 0 if level is None else level.offset
        return level

    async def write(
        self, partition: int, changes: Sequence[Applied], reached: ReadPosition
    ) -> None:
        await asyncio.to_thread(self._write, partition, changes, reached)
        self._told[partition] = max(reached.offset, self._told.get(partition, 0))

    @abstractmethod
    def _level(self, partition: int) -> ReadPosition | None: ...

    @abstractmethod
    def _write(self, partition: int, changes: Sequence[Applied], reached: ReadPosition) -> None: ...

    def _require_what_was_told(self, partition: int, level: ReadPosition | None) -> None:
        """Raise Transient if the sink no longer has what the window builds on."""
        if (0 if level is None else level.offset) < self._told.get(partition, 0):
            raise Transient(
                f"{self._place} was emptied or replaced: partition {partition} is followed from "
                "what it has now"
            )
