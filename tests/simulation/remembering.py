"""A log that tells its watcher what it has lost: to compare all that was ever decided."""

from collections.abc import Sequence

from streams.log.local_broker import LocalBroker
from streams.model.ports.log import LogRecord
from streams.stage.flow.decisions import INDEXED

_ALL = 1_000_000


class RememberingLog(LocalBroker):
    """Erases as any other, and knows what it has erased."""

    def __init__(self) -> None:
        super().__init__(indexed=INDEXED)
        self._erased: dict[tuple[str, int, int], LogRecord] = {}

    async def erase(self, topic: str, partition: int, offsets: Sequence[int]) -> None:
        here = await self.read(topic, partition, 0, _ALL)
        self._erased |= {(topic, partition, r.offset): r for r in here if r.offset in offsets}
        await super().erase(topic, partition, offsets)

    async def ever(self, topic: str, partition: int) -> list[LogRecord]:
        """Return every record that a partition has had, in order."""
        gone = [r for place, r in self._erased.items() if place[:2] == (topic, partition)]
        here = await self.read(topic, partition, 0, _ALL)
        return sorted([*here, *gone], key=lambda record: record.offset)

    def has_erased(self, record: LogRecord) -> bool:
        return (record.topic, record.partition, record.offset) in self._erased
