from collections.abc import Sequence
from typing import Any, Generic, NamedTuple

from typing_extensions import TypeVar

KT = TypeVar("KT", covariant=True, default=Any)
VT = TypeVar("VT", covariant=True, default=Any)

class TopicPartition(NamedTuple):
    topic: str
    partition: int

class OffsetAndMetadata(NamedTuple):
    offset: int
    metadata: str

class RecordMetadata(NamedTuple):
    topic: str
    partition: int
    topic_partition: TopicPartition
    offset: int

class ConsumerRecord(Generic[KT, VT]):
    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: KT | None
    value: VT | None
    headers: Sequence[tuple[str, bytes | None]]
