"""What metadata says of a memory: of the place that it is of, and how often it was seen before.

Who takes it from a turn or a file, and who shows it, must use the same words.
"""

from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from schemas.memories import Memory

LOCATION_NAME: Final = "location_name"
"""What the place is called."""
SCORE: Final = "score"
"""By how much the score changed, with its sign."""
SEEN: Final = "seen"
"""How often it was observed, by the file that it was imported from, up to then."""

NUMBER_BELOW: Final = 10**15
"""What is larger is no number of a place, and no count."""


def whole_number(metadata: Mapping[str, JsonValue], name: str) -> int | None:
    """Return a whole number that metadata of any producer holds; None where it holds none."""
    value = metadata.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if abs(value) < NUMBER_BELOW else None


def seen(memory: Memory) -> int:
    """Return how often a memory was observed, before it was imported and since."""
    known = whole_number(memory.metadata, SEEN)
    return memory.observation_count + (0 if known is None else max(known, 0) - 1)
