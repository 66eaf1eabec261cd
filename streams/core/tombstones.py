"""How a text that was forgotten is recognised where it comes back, with nothing kept of what it said.

All depends on a secret key: texts and what is specific in them become HMACs, and vectors are turned
by a rotation of the space, so that two are as similar as before and neither tells a text.
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
from streams.core.embedding import Vector, nowhere, pack, similarity
from streams.core.identity import content_key, normalised
from streams.core.language.reading import Reading
from streams.core.merge import sentences
from streams.core.neighbours import Stored

TEXT = "forgotten"
"""What a forgotten memory says."""

_FIELD = "tombstone"
_SEPARATOR = "\x1f"


class WrongKey(Exception):
    """A tombstone was made with another key: nobody can tell what it stands for."""


@dataclass(frozen=True)
class Key:
    """The secret that tombstones are made and read with."""

    secret: bytes = field(repr=False)

    @cached_property
    def name(self) -> str:
        """What tells this key from others, and nothing else about it."""
        return self._code("key")[:16]

    def fingerprint(self, scope: ScopeName, text: str) -> str:
        """Return what two texts of a scope share exactly where they say the same words."""
        return self._code("text", scope, words_of(text))

    def specifics(self, scope: ScopeName, text: Reading) -> tuple[str, ...]:
        """Return what two texts share where they have the same numbers, names and negations."""
        denying = {negation.position for negation in text.negations}
        said = {
            (word.lemma, str(word.negated))
            for word in text.words
            if word.quantity or word.name or word.position in denying
        }
        return tuple(sorted(self._code("specific", scope, *one) for one in said))

    def turned(self, vector: Vector) -> Vector:
        """Return a vector in the key's own space, at length one."""
        turned = _rotation(self.secret, vector.shape[0]) @ vector.astype(np.float64)
        return (turned / (np.linalg.norm(turned) or 1.0)).astype(np.float32)

    def excused(self, base: EventId, scope: ScopeName, text: str) -> EventId:
        """Return an event id by which a text may be said although it is near what was forgotten.

        Only who has the key can make one, for this text in this scope.
        """
        return EventId(f"{base}.{self._code('excused', base, scope, text)[:32]}")

    def excuses(self, event: Remember) -> bool:
        """Tell whether an event has such an id."""
        base, _, _ = event.event_id.rpartition(".")
        return event.event_id == self.excused(EventId(base), event.scope, event.text)

    def _code(self, *parts: str) -> str:
        message = _SEPARATOR.join(parts).encode()
        return hmac.new(self.secret, message, hashlib.sha256).hexdigest()


def words_of(text: str) -> str:
    """Return a text as compared with what was forgotten: its end marks tell nothing."""
    return normalised(text).rstrip(" .!?…")


def recognisable(text: str) -> list[str]:
    """Return what is known again of a text: the whole of it, and each of its sentences alone."""
    return [text, *sentences(text)]


def without(text: str, is_gone: Callable[[str], bool]) -> str:
    """Return a text without the sentences that are gone; empty where all of them are."""
    said = sentences(text)
    kept = [sentence for sentence in said if not is_gone(sentence)]
    return text if len(kept) == len(said) else " ".join(kept)


@dataclass(frozen=True)
class Said:
    """A text about to be remembered, as tombstones are compared with it.

    `near` is the least similarity at which it may say the same; None where only its words count.
    """

    scope: ScopeName
    text: Reading
    vector: Vector
    near: float | None


@dataclass(frozen=True)
class Texts:
    """What a memory said: its texts by now and before, and those that only repeat it among others."""

    own: Sequence[str]
    repeating: Sequence[str] = ()


def tombstone(
    key: Key, memory: Memory, vector: Vector, texts: Texts, reading: Reading, model: ModelId
) -> Forgotten:
    """Return what is left of a memory; `reading` is that of its text.

    Each sentence of what was its own is known again, also by itself.
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
    """Return what is kept of a memory that is forgotten at a time: its id, and its tombstone."""
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
    """Read the tombstone of a forgotten memory; None where it has none."""
    if memory.status is not Standing.FORGOTTEN or _FIELD not in memory.metadata:
        return None
    return Tombstone.model_validate(memory.metadata[_FIELD])


def recognised(key: Key, said: Said, graves: Sequence[Stored]) -> Memory | None:
    """Return the forgotten memory that a text would bring back; None where it is new.

    It does so where it has the words of one, or is near to one and names the same things. Raises
    WrongKey.
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
    """Return the key's rotation: what QR makes of normal numbers is one of all, none likelier.

    The numbers are drawn from SHAKE-256 by Box and Muller.
    """
    drawn = hashlib.shake_256(secret + f"{_SEPARATOR}rotation{dimension}".encode())
    bits = np.frombuffer(drawn.digest(16 * dimension * dimension), dtype="<u8")
    uniform = (bits.astype(np.float64) + 0.5) / 2.0**64
    radius, angle = uniform.reshape(2, -1)
    normal = np.sqrt(-2.0 * np.log(radius)) * np.cos(2.0 * np.pi * angle)
    return np.linalg.qr(normal.reshape(dimension, dimension))[0]
