"""Metadata keys of a memory: the place that it belongs to, and how often it was seen before.

Extraction and import write them and recall reads them, so they share these names.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from pydantic import JsonValue

from schemas.memories import Memory

LOCATION_NAME: Final = "location_name"
"""The name of the place."""
SCORE: Final = "score"
"""By how much the score changed, with its sign."""
SEEN: Final = "seen"
"""How often it had been observed before import, according to the imported file."""
ENTERED: Final = "entered"
"""How often each session had entered the place by then, by session."""

NUMBER_BELOW: Final = 10**15
"""A larger number is neither a place's number nor a count."""


def whole_number(metadata: Mapping[str, JsonValue], name: str) -> int | None:
    """Return a whole number from any producer's metadata; None if there is none below the limit."""
    value = metadata.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if abs(value) < NUMBER_BELOW else None


def entered(told: Iterable[Mapping[str, JsonValue]]) -> dict[str, int]:
    """Return how often each session entered a place, as far as any of these metadata know.

    A session counts upwards, so that of two counts the higher is the later.
    """
    counts: Counter[str] = Counter()
    for metadata in told:
        kept = metadata.get(ENTERED)
        by_session = kept if isinstance(kept, dict) else {}
        for session in by_session:
            count = whole_number(by_session, session)
            counts |= Counter({session: 0 if count is None else count})
    return dict(counts)


def seen(memory: Memory) -> int:
    """Return how often a memory was observed, before its import and since."""
    known = whole_number(memory.metadata, SEEN)
    return memory.observation_count + (0 if known is None else max(known, 0) - 1)
