"""How a forgotten text is recognised when it returns, although none of its content is kept.

Everything depends on a secret key: texts and their specific words become HMACs, and vectors are
rotated, which preserves their similarities but reveals no text.
"""

import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from schemas.base import EventId, ModelId, ScopeName
from schemas.events import FINGERPRINTS_MAX, Forgotten, Remember, Tombstone
from schemas.memories import Memory, Standing, Superseded
from streams.model.embedding import Vector, nowhere, pack, similarity
from streams.model.identity import content_key, normalised
from streams.model.merge import sentences
from streams.model.neighbours import StoredMemory
from streams.text.reading import AnalysedText

TEXT = "forgotten"
"""The text of a forgotten memory."""

_FIELD = "tombstone"
_SEPARATOR = "\x1f"


class WrongKey(Exception):
    """A tombstone was made with another key, so texts cannot be compared with it."""


@dataclass(frozen=True)
class TombstoneKey:
    """The secret that tombstones are made and checked with."""

    secret: bytes = field(repr=False)

    @cached_property
    def name(self) -> str:
        """An identifier of this key that reveals nothing else about it."""
        return self._code("key")[:16]

    def fingerprint(self, scope: ScopeName, text: str) -> str:
        """Return the code that two texts of a scope share if and only if their words are equal."""
        return self._code("text", scope, words_of(text))

    def specifics(self, scope: ScopeName, text: AnalysedText) -> tuple[str, ...]:
        """Return the codes that two texts share if their numbers, names and negations are equal."""
        denying = {negation.position for negation in text.negations}
        said = {
            (word.lemma, str(word.negated))
            for word in text.words
            if word.quantity or word.name or word.position in denying
        }
        return tuple(sorted(self._code("specific", scope, *one) for one in said))

    def turned(self, vector: Vector) -> Vector:
        """Return a vector rotated into the key's own space, at unit length."""
        turned = _rotation(self.secret, vector.shape[0]) @ vector.astype(np.float64)
        return (turned / (np.linalg.norm(turned) or 1.0)).astype(np.float32)

    def excused(self, base: EventId, scope: ScopeName, text: str) -> EventId:
        """Return an event id that admits a text although it is near a forgotten one.

        Only a holder of the key can make one; it is valid for this text in this scope.
        """
        return EventId(f"{base}.{self._code('excused', base, scope, text)[:32]}")

    def excuses(self, event: Remember) -> bool:
        """Return whether an event has such an id."""
        base, _, _ = event.event_id.rpartition(".")
        return event.event_id == self.excused(EventId(base), event.scope, event.text)

    def _code(self, *parts: str) -> str:
        message = _SEPARATOR.join(parts).encode()
        return hmac.new(self.secret, message, hashlib.sha256).hexdigest()


def words_of(text: str) -> str:
    """Return a text in the form compared with forgotten texts: normalised, without end marks."""
    return normalised(text).rstrip(" .!?…")


def recognisable(text: str) -> list[str]:
    """Return the parts of a text that are recognised: the whole text, and each sentence alone."""
    return [text, *sentences(text)]


def without(text: str, is_gone: Callable[[str], bool]) -> str:
    """Return a text without the sentences that are gone; empty if all are."""
    said = sentences(text)
    kept = [sentence for sentence in said if not is_gone(sentence)]
    return text if len(kept) == len(said) else " ".join(kept)


@dataclass(frozen=True)
class TombstoneProbe:
    """A text about to be remembered, prepared for comparison with tombstones.

    `near` is the minimum similarity at which it may say the same; None if only its words count.
    """

    scope: ScopeName
    text: AnalysedText
    vector: Vector
    near: float | None


@dataclass(frozen=True)
class Texts:
    """What a memory said: its own texts, past and present, and texts that repeat them in part."""

    own: Sequence[str]
    repeating: Sequence[str] = ()


def tombstone(
    key: TombstoneKey,
    memory: Memory,
    vector: Vector,
    texts: Texts,
    reading: AnalysedText,
    model: ModelId,
) -> Forgotten:
    """Return what remains of a forgotten memory; `reading` is the reading of its text.

    Each sentence of its own texts is recognised by itself as well.
    """
    said = [one for text in [memory.text, *texts.own] for one in recognisable(text)]
    prints = dict.fromkeys(key.fingerprint(memory.scope, one) for one in [*said, *texts.repeating])
    return Forgotten(
        memory_id=memory.id,
        version=memory.version,
        tombstone=Tombstone(
            key=key.name,
            fingerprints=tuple(prints)[:FINGERPRINTS_MAX],
            specifics=key.specifics(memory.scope, reading)[:FINGERPRINTS_MAX],
        ),
        embedding=pack(key.turned(vector), model),
    )


def cleared(memory: Memory, dimension: int, model: ModelId) -> Forgotten:
    """Return what is left of a memory whose facts may be told again: nothing."""
    embedding = pack(nowhere(dimension), model)
    return Forgotten(
        memory_id=memory.id, version=memory.version, tombstone=None, embedding=embedding
    )


def grave(gone: Forgotten, scope: ScopeName, at: datetime, version: int) -> Memory:
    """Return what is kept of a memory forgotten at `at`: its id and its tombstone."""
    left = gone.tombstone
    return Memory(
        id=gone.memory_id,
        scope=scope,
        text=TEXT,
        content_key=content_key(scope, TEXT),
        version=version,
        status=Standing.FORGOTTEN,
        metadata={} if left is None else {_FIELD: left.model_dump(mode="json")},
        created_at=at,
        last_seen_at=at,
        superseded=Superseded(by=None, at=at, reason=Standing.FORGOTTEN.value),
    )


def tombstone_of(memory: Memory) -> Tombstone | None:
    """Return the tombstone of a forgotten memory; None if it has none."""
    if memory.status is not Standing.FORGOTTEN or _FIELD not in memory.metadata:
        return None
    return Tombstone.model_validate(memory.metadata[_FIELD])


def recognised(
    key: TombstoneKey, said: TombstoneProbe, graves: Sequence[StoredMemory]
) -> Memory | None:
    """Return the forgotten memory that a text would restore; None if there is none.

    A text restores a memory if it has the same words, or is near it and has the same numbers, names
    and negations. Raises WrongKey if a tombstone was made with another key.
    """
    if not graves:
        return None
    fingerprint = key.fingerprint(said.scope, said.text.text)
    specifics = key.specifics(said.scope, said.text)
    turned = key.turned(said.vector)
    for grave in graves:
        left = tombstone_of(grave.memory)
        if left is None:
            continue
        if left.key != key.name:
            raise WrongKey(f"memory {grave.memory.id} was forgotten with another key")
        if fingerprint in left.fingerprints:
            return grave.memory
        if said.near is None or grave.vector is None or left.specifics != specifics:
            continue
        if similarity(turned, grave.vector) >= said.near:
            return grave.memory
    return None


@lru_cache(4)
def _rotation(secret: bytes, dimension: int) -> NDArray[np.float64]:
    """Return the key's rotation: QR of a normal random matrix draws it uniformly from all.

    The numbers come from SHAKE-256 by the Box-Muller transform.
    """
    drawn = hashlib.shake_256(secret + f"{_SEPARATOR}rotation{dimension}".encode())
    bits = np.frombuffer(drawn.digest(16 * dimension * dimension), dtype="<u8")
    uniform = (bits.astype(np.float64) + 0.5) / 2.0**64
    radius, angle = uniform.reshape(2, -1)
    normal = np.sqrt(-2.0 * np.log(radius)) * np.cos(2.0 * np.pi * angle)
    return np.linalg.qr(normal.reshape(dimension, dimension))[0]
