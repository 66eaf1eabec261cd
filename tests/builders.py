"""Short calls with complete defaults: `event("likes oat milk", scope="ana")`."""

from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from schemas.base import ModelId
from schemas.events import Remember
from schemas.memories import Memory, Variant
from schemas.turns import Turn
from streams.model.embedding import Vector
from streams.model.identity import content_key
from streams.model.neighbours import StoredMemory
from streams.model.policy import Policy
from streams.model.ports.log import LogRecord
from streams.model.wordings import Outcome, with_vectors
from streams.stage.flow.judging import Judging
from streams.text.lexicon import Lexicon
from streams.text.reading import TextAnalyzer

MODEL = ModelId("fake")
DIMENSION = 8
START = datetime(2026, 3, 1, 9, tzinfo=UTC)


def event(text: str = "Ana likes tea.", **fields: Any) -> Remember:
    """Build an event; its id is made of its text unless given."""
    values: dict[str, Any] = {
        "event_id": f"event of {text}"[:200],
        "scope": "acme/ana",
        "occurred_at": START,
    }
    return Remember.model_validate({**values, **fields, "text": text})


def turn(*said: tuple[str, str], **fields: Any) -> Turn:
    """Build a turn of (speaker, text) pairs; its id is made of its texts unless given."""
    values: dict[str, Any] = {
        "turn_id": " ".join(" / ".join(text for _, text in said).split())[:100],
        "scope": "acme/ana",
        "occurred_at": START,
        "said": [{"by": by, "text": text} for by, text in said],
    }
    return Turn.model_validate({**values, **fields})


def memory(text: str = "Ana likes tea.", **fields: Any) -> Memory:
    """Build a live memory; its id is a number unless given."""
    values: dict[str, Any] = {
        "id": identity(1),
        "scope": "acme/ana",
        "version": 1,
        "created_at": START,
        "last_seen_at": START,
        **fields,
        "text": text,
    }
    values.setdefault("content_key", content_key(values["scope"], text))
    return Memory.model_validate(values)


def identity(number: int) -> str:
    """Return the memory id that stands for a number."""
    return f"00000000-0000-5000-8000-{number:012d}"


def later(hours: float) -> datetime:
    """Return a time after the start."""
    return START + timedelta(hours=hours)


def unit(*components: float) -> Vector:
    """Return the unit vector in the direction of the components, padded with zeros."""
    vector = np.zeros(DIMENSION)
    vector[: len(components)] = components
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def at_cosine(similarity: float, axis: int = 1) -> Vector:
    """Return a unit vector at this cosine to `unit(1)`, leaning towards an axis."""
    vector = np.zeros(DIMENSION)
    vector[0] = similarity
    vector[axis] = (1 - similarity**2) ** 0.5
    return vector.astype(np.float32)


def stored(
    text: str = "Ana likes tea.", vector: Vector | None = None, **fields: Any
) -> StoredMemory:
    """Build a memory with its vector."""
    return StoredMemory(memory(text, **fields), unit(1) if vector is None else vector)


def worded(known: StoredMemory, *others: tuple[str, Vector]) -> StoredMemory:
    """Add variants to a memory, each with its vector."""
    scope = known.memory.scope
    variants = [
        Variant(
            text=text,
            content_key=content_key(scope, text),
            first_seen_at=START,
            last_seen_at=START,
        )
        for text, _ in others
    ]
    vectors = {one.content_key: vector for one, (_, vector) in zip(variants, others, strict=True)}
    changed = known.memory.model_copy(update={"variants": tuple(variants)})
    return replace(known, memory=changed, variants=vectors)


def carrying(decision: Outcome, vector: Vector | None = None) -> Outcome:
    """Let a decision carry one vector for each variant of the memory that it states."""
    own = unit(1) if vector is None else vector
    return with_vectors(decision, defaultdict(lambda: own), MODEL)


def judging() -> Judging:
    """Build a judging without judges and without a dictionary."""
    return Judging(TextAnalyzer(Lexicon({}, (), {}, {})), {})


def policy(**sections: Any) -> Policy:
    """Build a policy for the fake model: match from .95, review from .8, log from .7.

    Nobody is asked, no guard objects: what is nearly identical is merged.
    """
    content: dict[str, Any] = {
        "name": "test",
        "model": MODEL,
        "bands": {"match": 0.95, "review": 0.8, "log": 0.7},
        "guards": False,
        "judges": {"chain": []},
        "with_verdict": {"contradicts": "supersede"},
        "without_verdict": {"match": "merge", "review": "keep-both"},
        "calibration": {"dataset": "none", "date": "2026-03-01", "command": "none"},
        **sections,
    }
    return Policy.model_validate(content)


def record(value: bytes | None, offset: int = 0, **fields: Any) -> LogRecord:
    """Build a record of memory.events."""
    values: dict[str, Any] = {"topic": "memory.events", "partition": 0, "key": None, **fields}
    return LogRecord(offset=offset, value=value, **values)
