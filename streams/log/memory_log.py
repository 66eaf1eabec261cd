"""Topics, partitions, offsets and consumer groups in memory: a log that ends with its process.

It behaves like Kafka and the SQLite log: for rehearsals and tests, which keep nothing.
"""

from collections.abc import Callable, Sequence

from streams.model.ports import CommittedOffset, Fatal, LogRecord, OutgoingRecord, SourceMark

_READ_BYTES = 16_777_216
"""The size at which a batch of records ends, as in the other logs."""


class MemoryLog:
    """Implements ports.Log, ports.Lookup and ports.Ingestion. Looks up any header."""

    is_indexed = True

    def __init__(self) -> None:
        self._topics: dict[str, list[list[LogRecord | None]]] = {}
        self._places: dict[tuple[str, str, int], CommittedOffset] = {}
        self._marks: dict[str, SourceMark] = {}

    def create(self, topic: str, partitions: int) -> None:
        """Create a topic; do nothing if it exists with the same number of partitions.

        Raises Fatal if it has a different number.
        """
        existing = len(self._topics.get(topic, ()))
        if existing not in {0, partitions}:
            raise Fatal(f"topic {topic} has {existing} partitions, not {partitions}")
        self._topics.setdefault(topic, [[] for _ in range(partitions)])

    async def partitions(self, topic: str) -> int:
        return len(self._topic(topic))

    async def append(self, records: Sequence[OutgoingRecord]) -> list[int]:
        return self._append(records)

    async def read(self, topic: str, partition: int, offset: int, limit: int) -> list[LogRecord]:
        page: list[LogRecord] = []
        size = 0
        held = self._partition(topic, partition)
        for record in (held[at] for at in range(offset, len(held))):
            if record is None:
                continue
            page.append(record)
            size += len(record.value or b"")
            if size >= _READ_BYTES or len(page) >= limit:
                break
        return page

    async def beginning(self, topic: str, partition: int) -> int:
        held = self._partition(topic, partition)
        return next((at for at, record in enumerate(held) if record is not None), len(held))

    async def end(self, topic: str, partition: int) -> int:
        return len(self._partition(topic, partition))

    async def erase(self, topic: str, partition: int, offsets: Sequence[int]) -> None:
        held = self._partition(topic, partition)
        for offset in offsets:
            if offset < len(held):
                held[offset] = None

    async def commit(
        self, group: str, topic: str, partition: int, position: CommittedOffset
    ) -> None:
        self._places[group, topic, partition] = position

    async def committed(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        return self._places.get((group, topic, partition))

    async def find(self, topic: str, header: str, values: Sequence[str]) -> list[LogRecord]:
        wanted = {_bytes(value) for value in values}
        return self._having(topic, {header}, lambda value: value in wanted)

    async def find_beginning(
        self, topic: str, headers: Sequence[str], beginning: str
    ) -> list[LogRecord]:
        wanted = _bytes(beginning)
        return self._having(topic, set(headers), lambda value: value.startswith(wanted))

    async def mark(self, source: str) -> SourceMark | None:
        return self._marks.get(source)

    async def ingest(
        self, records: Sequence[OutgoingRecord], source: str, mark: SourceMark
    ) -> None:
        self._append(records)
        self._marks[source] = mark

    def _append(self, records: Sequence[OutgoingRecord]) -> list[int]:
        """Append all or none."""
        partitions = [self._partition(record.topic, record.partition) for record in records]
        offsets: list[int] = []
        for held, new in zip(partitions, records, strict=True):
            offsets.append(len(held))
            held.append(
                LogRecord(new.topic, new.partition, len(held), new.key, new.value, new.headers)
            )
        return offsets

    def _having(
        self, topic: str, headers: set[str], accepts: Callable[[bytes], bool]
    ) -> list[LogRecord]:
        return [
            record
            for held in self._topic(topic)
            for record in held
            if record is not None
            and any(
                name in headers and value is not None and accepts(value)
                for name, value in record.headers
            )
        ]

    def _partition(self, topic: str, partition: int) -> list[LogRecord | None]:
        held = self._topic(topic)
        if not 0 <= partition < len(held):
            raise Fatal(f"topic {topic} has no partition {partition}")
        return held[partition]

    def _topic(self, topic: str) -> list[list[LogRecord | None]]:
        try:
            return self._topics[topic]
        except KeyError:
            raise Fatal(f"topic {topic} does not exist") from None


def _bytes(value: str) -> bytes:
    """Encode a search value: terminals pass broken UTF-8 as surrogates."""
    return value.encode("utf-8", "surrogatepass")
