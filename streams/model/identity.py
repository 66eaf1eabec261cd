"""Identity: ids derived from content and origin, and the content key of a text."""

import hashlib
import unicodedata
from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from uuid import UUID

from schemas.base import ContentKey, DecisionId, EventId, MemoryId, ScopeName
from schemas.events import Answer, Event, Remember
from schemas.memories import Target

_NAMESPACE = UUID("6d656d73-6965-5665-8000-000000000001")
_IN_NAMESPACE = hashlib.sha1(_NAMESPACE.bytes, usedforsecurity=False)
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}
_REMEMBERED = 8_192
"""How many keys and ids are cached: a batch asks for the same ones several times."""
_SHORT = 2_000
"""Maximum characters of a text whose key is cached: the cache holds the texts in memory."""
_SEPARATOR = "\x1f"
"""No name contains a control character (schemas/base.py), so joined names are unambiguous."""


def normalised(text: str) -> str:
    """Return the text as compared for identity: NFC, case-folded, white space collapsed.

    NFC and not NFKC: compatibility forms carry meaning ("10²" is not "102").
    """
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def spelt_alike(text: str, other: str) -> bool:
    """Return whether two texts differ at most in white space."""
    one, another = (unicodedata.normalize("NFC", said).split() for said in (text, other))
    return one == another


_ASKING = {"author", "occurred_at", "note"}
"""The fields that do not identify a request: who asks, when, and why."""


def content_key(scope: ScopeName, text: str) -> ContentKey:
    """Return the key that two texts of a scope share if and only if they have the same words.

    128 bits of SHA-256, in hexadecimal.
    """
    short = len(text) <= _SHORT
    return _content_key(scope, text) if short else _content_key.__wrapped__(scope, text)


@lru_cache(_REMEMBERED)
def _content_key(scope: ScopeName, text: str) -> ContentKey:
    digest = hashlib.sha256(f"{scope}{_SEPARATOR}{normalised(text)}".encode())
    return ContentKey(digest.hexdigest()[:32])


def event_key(event: Event) -> ContentKey:
    """Return the key of an event's content, which tells whether two events with one id agree."""
    if isinstance(event, Remember):
        return content_key(event.scope, event.text)
    if not isinstance(event, Answer):
        return content_key(event.scope, event.model_dump_json(exclude=_ASKING))
    settled = (event.review_id, event.newer.memory_id, event.older.memory_id, event.verdict)
    return content_key(event.scope, _SEPARATOR.join(settled))


@lru_cache(_REMEMBERED)
def decision_id(scope: ScopeName, event: EventId) -> DecisionId:
    """Return the id of the one decision on an event; an event id is unique within its scope."""
    return DecisionId(_derived("decision", scope, event))


def rejection_id(topic: str, partition: int, offset: int) -> DecisionId:
    """Return the id of the marker for a record that could not be read."""
    return DecisionId(_derived("rejection", topic, str(partition), str(offset)))


def forwarding_id(topic: str, partition: int, offset: int) -> DecisionId:
    """Return the id of the marker for a record that was republished to another partition."""
    return DecisionId(_derived("forwarding", topic, str(partition), str(offset)))


def memory_id(decision: DecisionId) -> MemoryId:
    """Return the id of the memory that a decision creates."""
    return MemoryId(_derived("memory", decision))


def named_memory_id(scope: ScopeName, name: str) -> MemoryId:
    """Return the id of the memory that producers address by their own name."""
    return MemoryId(_derived("named-memory", scope, name))


def event_id(source: str, line: int, content: bytes, taken: bytes) -> EventId:
    """Return the id of an event read from a line of a file that has no ids.

    The same text from the same line of the same file gives the same id, so a file that has grown
    adds only its new lines, and a file read with another mapping gives other events.
    """
    digest = hashlib.sha256(content + b"\x1f" + taken).hexdigest()
    return EventId(_derived("event", source.replace(_SEPARATOR, " "), str(line), digest))


def said_event_id(scope: ScopeName, author: str, at: datetime, text: str) -> EventId:
    """Return the id of a statement by an author; repeated at another time, it is a new event."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    return EventId(_derived("said-event", scope, author, at.isoformat(), digest))


def entry_event_id(scope: ScopeName, said: bytes) -> EventId:
    """Return the id of the event for a Memories.md entry, independent of the file's path."""
    return EventId(_derived("entry-event", scope, hashlib.sha256(said).hexdigest()))


def entry_name(scope: str, called: bytes) -> str:
    """Return the producer's name for the memory of a named entry in its scope."""
    return _derived("entry", scope, hashlib.sha256(called).hexdigest())


def turn_event_id(scope: ScopeName, turn: str, taken: str) -> EventId:
    """Return the id of the event for a statement extracted from a turn.

    The same statement from the same turn has one id, however often the turn is processed.
    """
    digest = hashlib.sha256(taken.encode()).hexdigest()
    return EventId(_derived("turn-event", scope, turn, digest))


def dead_letter_id(stage: str, origin: str, content: bytes) -> str:
    """Return the id of a dead letter; the same bytes failing at the same place share it."""
    digest = hashlib.sha256(content).hexdigest()
    return _derived("dead-letter", stage, origin.replace(_SEPARATOR, " "), digest)


def review_id(decision: DecisionId, older: MemoryId) -> str:
    """Return the id of the review that asks how a decision's memory relates to an older one."""
    return _derived("review", decision, older)


def pair_id(newer: MemoryId, older: MemoryId) -> str:
    """Return the id under which two memories are told apart that no review asks about."""
    return _derived("pair", newer, older)


def answer_id(review: str, verdict: str, author: str) -> EventId:
    """Return the id of an answer; the same answer by the same person has one id."""
    return EventId(_derived("answer", review, verdict, author))


def update_id(review: str, verdict: str, new: MemoryId, author: str) -> EventId:
    """Return the id of an update's answer, by which it is told from one that a person gave."""
    return answer_id(review, f"{verdict} {new}", author)


def retirement_id(scope: ScopeName, reason: str, memories: Iterable[Target]) -> EventId:
    """Return the id of a request to end memories; one id for the same versions and reason."""
    versions = sorted(f"{one.memory_id}/{one.version}" for one in memories)
    return EventId(_derived("retirement", scope, reason, *versions))


def proposal_id(scope: ScopeName, author: str, members: Iterable[Target]) -> EventId:
    """Return the id of an author's proposal to join memories; one id for the same versions."""
    versions = sorted(f"{one.memory_id}/{one.version}" for one in members)
    return EventId(_derived("proposal", scope, author, *versions))


def request_id(scope: ScopeName, kind: str, author: str, at: datetime, *about: str) -> EventId:
    """Return the id of a request; repeated at another time, it is a new request."""
    return EventId(_derived("request", scope, kind, author, at.isoformat(), *about))


def republished_id(undo: DecisionId, undone: DecisionId) -> EventId:
    """Return the id of an event that is decided again because its first decision was undone."""
    return EventId(_derived("republished", undo, undone))


def _derived(*names: str) -> str:
    """Return the version 5 UUID (RFC 9562) of the joined names, equal to the uuid module's.

    It takes a third of the module's time, and an event needs several.
    """
    digest = _IN_NAMESPACE.copy()
    digest.update(_SEPARATOR.join(names).encode())
    found = digest.hexdigest()
    variant = _VARIANT[found[16]]
    return f"{found[:8]}-{found[8:12]}-5{found[13:16]}-{variant}{found[17:20]}-{found[20:32]}"
