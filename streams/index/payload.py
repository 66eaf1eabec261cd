"""The payload of a memory in Qdrant, for the embedded engine and the server alike.

One point per memory, with a vector for each wording: a multivector, compared by the nearest one.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from schemas.base import ContentKey, DecisionId, MemoryId, ScopeName
from schemas.memories import Memory
from streams.model.embedding import Vector
from streams.model.neighbours import KnownEvent, StoredMemory
from streams.model.ports.failures import NoStore

SCOPE, CONTENT_KEY, STATUS, DECISION_IDS = "scope", "content_key", "status", "decision_ids"
CONTRADICTED = "contradicted"
VERSION = "version"
KEYWORDS = (SCOPE, CONTENT_KEY, STATUS, DECISION_IDS, CONTRADICTED)
"""The fields to filter by, each with an index; the scope is the tenant."""

POINT_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""The ids that a point may have; no memory has another."""

_CONTENTS = "decided_on"
_MEMORY = "memory"
_CONTRADICTED_AT = "contradicted_at"
_WORDED_AT = "worded_at"
_REMEMBERED = 1_024
"""How many memories are cached, each with the JSON text that it was read from, at some 5 KiB: owner
and writer read the same ones within a batch, and so do the searches of events that are alike."""
SEARCHED = (_MEMORY,)
"""The payload fields that a search needs."""
WHOLE = (_MEMORY, DECISION_IDS, _CONTENTS, CONTRADICTED, _CONTRADICTED_AT, _WORDED_AT)
"""The payload fields from which a memory is restored."""

Key = TypeVar("Key", ContentKey, MemoryId, ScopeName)


def to_payload(stored: StoredMemory) -> dict[str, Any]:
    """Return the fields that the engine filters by, and the memory as one JSON text.

    The engine's own JSON would round large numbers. What nobody filters by is one text and not a
    list: the embedded engine takes 2 µs for each value.
    """
    memory = stored.memory
    fields: dict[str, Any] = {
        SCOPE: memory.scope,
        CONTENT_KEY: list(memory.content_keys),
        STATUS: memory.status.value,
        VERSION: memory.version,
        DECISION_IDS: [identity for identity, _ in stored.decided],
        _CONTENTS: " ".join(key for _, key in stored.decided),
        _WORDED_AT: stored.worded_at,
        _MEMORY: memory.model_dump_json(),
    }
    if stored.contradicted:
        fields[CONTRADICTED] = [identity for identity, _ in stored.contradicted]
        fields[_CONTRADICTED_AT] = [version for _, version in stored.contradicted]
    return fields


def vectors_of(stored: StoredMemory) -> list[Vector]:
    """Return the vectors to write for a memory: its text's first, then its variants'.

    Raises TypeError if one is missing.
    """
    if not stored.is_whole:
        raise TypeError(f"memory {stored.memory.id} is written without a vector of each wording")
    return list(stored.wordings.values())


def from_payload(payload: Mapping[str, Any] | None, vectors: object) -> StoredMemory:
    """Read a point; `vectors` is None if they were not requested.

    Raises NoStore if another program wrote it.
    """
    try:
        fields = payload or {}
        memory = _memory(fields[_MEMORY])
        vector, variants = _read(memory, vectors)
        pairs = zip(fields.get(DECISION_IDS, ()), fields.get(_CONTENTS, "").split(), strict=True)
        decided = tuple((DecisionId(identity), ContentKey(key)) for identity, key in pairs)
        others = zip(fields.get(CONTRADICTED, ()), fields.get(_CONTRADICTED_AT, ()), strict=True)
        contradicted = tuple((MemoryId(identity), int(version)) for identity, version in others)
        worded_at = int(fields.get(_WORDED_AT, 1))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise NoStore(
            "the index holds a point that memsieve did not write: give memsieve a separate one"
        ) from error
    return StoredMemory(memory, vector, decided, variants, contradicted, worded_at)


def with_contents(
    found: Iterable[StoredMemory], keys: Sequence[ContentKey]
) -> dict[ContentKey, list[StoredMemory]]:
    """Return memories grouped by those of the keys that one of their wordings has."""
    return _grouped(found, keys, lambda stored: stored.memory.content_keys)


def contradicting(
    found: Iterable[StoredMemory], ids: Sequence[MemoryId]
) -> dict[MemoryId, list[StoredMemory]]:
    """Return memories by those of the ids that they were found to contradict."""
    return _grouped(found, ids, lambda stored: [identity for identity, _ in stored.contradicted])


def by_scope(
    found: Iterable[StoredMemory], scopes: Sequence[ScopeName]
) -> dict[ScopeName, list[StoredMemory]]:
    """Return the memories of these scopes by scope."""
    return _grouped(found, scopes, lambda stored: [stored.memory.scope])


def _grouped(
    found: Iterable[StoredMemory],
    wanted: Iterable[Key],
    keys_of: Callable[[StoredMemory], Iterable[Key]],
) -> dict[Key, list[StoredMemory]]:
    held: dict[Key, list[StoredMemory]] = {}
    asked = set(wanted)
    for stored in found:
        for key in asked.intersection(keys_of(stored)):
            held.setdefault(key, []).append(stored)
    return held


def without_vectors(stored: StoredMemory) -> StoredMemory:
    return replace(stored, vector=None, variants={})


@lru_cache(_REMEMBERED)
def _memory(written: str) -> Memory:
    return Memory.model_validate_json(written)


def _read(memory: Memory, vectors: object) -> tuple[Vector | None, dict[ContentKey, Vector]]:
    if vectors is None:
        return None, {}
    vector, *others = np.asarray(vectors, dtype=np.float32)
    keys = (variant.content_key for variant in memory.variants)
    return vector, dict(zip(keys, others, strict=True))


def remembered(
    found: Iterable[StoredMemory], ids: Sequence[DecisionId]
) -> dict[DecisionId, KnownEvent]:
    """Return what memories hold about these decisions."""
    contents: dict[DecisionId, ContentKey] = {}
    holders: dict[DecisionId, set[MemoryId]] = {}
    for stored in found:
        for identity, content in stored.decided:
            contents[identity] = content
            holders.setdefault(identity, set()).add(stored.memory.id)
    return {i: KnownEvent(contents[i], frozenset(holders[i])) for i in ids if i in contents}
