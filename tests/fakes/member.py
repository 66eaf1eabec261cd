"""A member of a consumer group whose partitions are moved, and whose records are asked for."""

from collections.abc import Sequence

from streams.model.ports.log import Log, LogRecord


class ReadingMember:
    """Implements ports.GroupMember as Kafka's client does: it reads from positions of its own."""

    def __init__(self, log: Log, group: str, topic: str) -> None:
        self._log = log
        self._group = group
        self._topic = topic
        self._positions: dict[int, int] = {}
        self._paused: set[int] = set()
        self.calls: list[str] = []

    async def take(self, partitions: Sequence[int]) -> None:
        """Have these partitions and no others, each from where its group has committed."""
        self._paused.clear()
        self._positions.clear()
        for partition in partitions:
            committed = await self._log.committed(self._group, self._topic, partition)
            self._positions[partition] = 0 if committed is None else committed.offset

    def pause(self, partition: int) -> None:
        self.calls.append(f"pause {partition}")
        self._paused.add(partition)

    def resume(self, partition: int, offset: int) -> None:
        self.calls.append(f"resume {partition} at {offset}")
        self._positions[partition] = offset
        self._paused.discard(partition)

    async def fetch(self, limit: int) -> list[LogRecord]:
        """Return what would be handed over now, up to so many records of each partition."""
        fetched: list[LogRecord] = []
        for partition, offset in list(self._positions.items()):
            if partition not in self._paused:
                page = await self._log.read(self._topic, partition, offset, limit)
                if page:
                    self._positions[partition] = page[-1].offset + 1
                fetched += page
        return fetched
