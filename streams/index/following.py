"""Tracks how far an index has followed the log, and detects that it was replaced."""

import secrets

from schemas.topics import DECISIONS
from streams.model.fences import ReadPosition
from streams.model.ports.failures import Transient
from streams.model.ports.index import UNFOLLOWED, IndexLevel, PartitionLevel


def new_token() -> str:
    """Create the unique token of an index, stored with the first level that it keeps."""
    return secrets.token_hex(8)


def raised(
    level: IndexLevel | None,
    partition: int,
    reached: ReadPosition,
    since: PartitionLevel,
    index: str,
) -> dict[int, PartitionLevel]:
    """Return the levels that an index with `level` keeps next. Raises like Index.keep_level.

    `index` is its token, used if it has none yet.
    """
    kept = {} if level is None else dict(level.partitions)
    before = kept.get(partition, UNFOLLOWED)
    require_followed(partition, before, since)
    if not before.index or before.reached.offset < reached.offset:
        kept[partition] = PartitionLevel(reached, before.index or index)
    return kept


def require_followed(partition: int, kept: PartitionLevel, since: PartitionLevel) -> None:
    """Raise Transient if `kept` belongs to another index than `since`, or is behind it."""
    if kept.index == since.index and kept.reached.offset >= since.reached.offset:
        return
    raise Transient(
        f"the index has followed {DECISIONS.name}/{partition} to {kept.reached.offset:,}, and is "
        f"not the one that had to {since.reached.offset:,}: it was rebuilt or replaced; what it "
        "lacks is applied first"
    )
