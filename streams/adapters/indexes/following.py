"""How far an index has followed the log, and what it says when it turns out to be another one."""

import secrets

from schemas.topics import DECISIONS
from streams.core.fences import Reached
from streams.ports import UNFOLLOWED, Followed, Level, Transient


def new_token() -> str:
    """Make what tells an index from every other; given with the first level that it keeps."""
    return secrets.token_hex(8)


def raised(
    level: Level | None, partition: int, reached: Reached, since: Followed, index: str
) -> dict[int, Followed]:
    """Return what an index that kept `level` keeps next. Raises as Index.keep_level.

    `index` is its token where it has none yet.
    """
    kept = {} if level is None else dict(level.partitions)
    before = kept.get(partition, UNFOLLOWED)
    require_followed(partition, before, since)
    if not before.index or before.reached.offset < reached.offset:
        kept[partition] = Followed(reached, before.index or index)
    return kept


def require_followed(partition: int, kept: Followed, since: Followed) -> None:
    """Raise Transient where what is kept is not of the index, or goes less far, than `since`."""
    if kept.index == since.index and kept.reached.offset >= since.reached.offset:
        return
    raise Transient(
        f"the index has followed {DECISIONS.name}/{partition} to {kept.reached.offset:,}, and is "
        f"not the one that had to {since.reached.offset:,}: it was made anew or swapped; what it "
        "lacks is applied first"
    )
