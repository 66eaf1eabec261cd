"""How a memory lies in Qdrant, whether its engine runs here or as a server."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from schemas.base import ContentKey, DecisionId, MemoryId
from schemas.memories import Memory
from streams.core.embedding import Vector
from streams.core.neighbours import Known, Stored
from streams.ports import NoStore

SCOPE, CONTENT_KEY, STATUS, DECISION_IDS = "scope", "content_key", "status", "decision_ids"
VERSION = "version"
KEYWORDS = (SCOPE, CONTENT_KEY, STATUS, DECISION_IDS)
"""The fields that are searched by, each with an index; the scope is the tenant."""

_CONTENTS = "decided_on"
_MEMORY = "memory"
SEARCHED = (_MEMORY,)
"""What a search needs of a payload."""
WHOLE = (_MEMORY, DECISION_IDS, _CONTENTS)
"""What a payload is read back from."""


def to_payload(stored: Stored) -> dict[str, Any]:
    """Give the engine what it filters by, and the memory as one text.

    The engine's own JSON is narrower than ours: it would round large numbers.
    """
    memory = stored.memory
    return {
        SCOPE: memory.scope,
        CONTENT_KEY: memory.content_key,
        STATUS: memory.status.value,
        VERSION: memory.version,
        DECISION_IDS: [identity for identity, _ in stored.decided],
        _CONTENTS: [key for _, key in stored.decided],
        _MEMORY: memory.model_dump_json(),
    }


def vector_of(stored: Stored) -> Vector:
    """Return the vector that a memory is written with; raises TypeError without one."""
    if stored.vector is None:
        raise TypeError(f"memory {stored.memory.id} is written without its vector")
    return stored.vector


def from_payload(payload: Mapping[str, Any] | None, vector: Vector | None) -> Stored:
    """Read a point. NoStore where somebody else wrote it."""
    try:
        fields = payload or {}
        memory = Memory.model_validate_json(fields[_MEMORY])
        pairs = zip(fields.get(DECISION_IDS, ()), fields.get(_CONTENTS, ()), strict=True)
        decided = tuple((DecisionId(identity), ContentKey(key)) for identity, key in pairs)
    except (KeyError, TypeError, ValueError, ValidationError) as error:
        raise NoStore(
            "the index holds a point that memsieve did not write: give memsieve one of its own"
        ) from error
    return Stored(memory, vector, decided)


def remembered(found: Iterable[Stored], ids: Sequence[DecisionId]) -> dict[DecisionId, Known]:
    """Return what memories remember of these decisions."""
    contents: dict[DecisionId, ContentKey] = {}
    holders: dict[DecisionId, set[MemoryId]] = {}
    for stored in found:
        for identity, content in stored.decided:
            contents[identity] = content
            holders.setdefault(identity, set()).add(stored.memory.id)
    return {i: Known(contents[i], frozenset(holders[i])) for i in ids if i in contents}
