"""What makes two things the same thing: derived ids, and the key of a text's content."""

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
"""Keys and ids that are kept: those of a batch are asked for several times."""
_SHORT = 2_000
"""Characters of a text whose key is kept: the kept texts are held in memory."""
_SEPARATOR = "\x1f"
"""No name holds a control character (schemas/base.py), so joined names cannot be confused."""


def normalised(text: str) -> str:
    """Return the text as compared for identity: NFC, case-folded, white space collapsed.

    NFC and not NFKC: compatibility forms carry meaning ("10²" is not "102").
    """
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


_ASKING = {"author", "occurred_at", "note"}
"""What is no part of a request itself: who asks, when, and why."""


def content_key(scope: ScopeName, text: str) -> ContentKey:
    """Return the key that two texts of a scope share exactly when they say the same words.

    128 bits of SHA-256, in hexadecimal.
    """
    short = len(text) <= _SHORT
    return _content_key(scope, text) if short else _content_key.__wrapped__(scope, text)


@lru_cache(_REMEMBERED)
def _content_key(scope: ScopeName, text: str) -> ContentKey:
    digest = hashlib.sha256(f"{scope}{_SEPARATOR}{normalised(text)}".encode())
    return ContentKey(digest.hexdigest()[:32])


def event_key(event: Event) -> ContentKey:
    """Return the key of what an event says: of two with one id, whether they are the same."""
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
    """Return the id of the marker for a record that was published anew elsewhere."""
    return DecisionId(_derived("forwarding", topic, str(partition), str(offset)))


def memory_id(decision: DecisionId) -> MemoryId:
    """Return the id of the memory that a decision creates."""
    return MemoryId(_derived("memory", decision))


def named_memory_id(scope: ScopeName, name: str) -> MemoryId:
    """Return the id of the memory that producers address by a name of their own."""
    return MemoryId(_derived("named-memory", scope, name))


def event_id(source: str, line: int, content: bytes, taken: bytes) -> EventId:
    """Return the id of an event read from a line of a file that gives it none.

    The same text taken from the same line of the same file gives the same id, so a file that has
    grown adds only its new lines, and one that is read otherwise gives other events.
    """
    digest = hashlib.sha256(content + b"\x1f" + taken).hexdigest()
    return EventId(_derived("event", source.replace(_SEPARATOR, " "), str(line), digest))


def said_event_id(scope: ScopeName, author: str, at: datetime, text: str) -> EventId:
    """Return the id of what somebody said at a time: said again at another, it is another event."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    return EventId(_derived("said-event", scope, author, at.isoformat(), digest))


def entry_event_id(scope: ScopeName, said: bytes) -> EventId:
    """Return the id of what an entry of a Memories.md says, wherever the file lies."""
    return EventId(_derived("entry-event", scope, hashlib.sha256(said).hexdigest()))


def entry_name(scope: str, called: bytes) -> str:
    """Return the producer's name for the memory of an entry that is called so in its scope."""
    return _derived("entry", scope, hashlib.sha256(called).hexdigest())


def turn_event_id(scope: ScopeName, turn: str, taken: str) -> EventId:
    """Return the id of the event that was made of what was taken from a turn.

    The same taken from the same turn has one id, however often the turn is worked through.
    """
    digest = hashlib.sha256(taken.encode()).hexdigest()
    return EventId(_derived("turn-event", scope, turn, digest))


def dead_letter_id(stage: str, origin: str, content: bytes) -> str:
    """Return the id of a dead letter: the same bytes failing at the same place have one id."""
    digest = hashlib.sha256(content).hexdigest()
    return _derived("dead-letter", stage, origin.replace(_SEPARATOR, " "), digest)


def review_id(decision: DecisionId, older: MemoryId) -> str:
    """Return the id of the question what a decision's memory is to an older one."""
    return _derived("review", decision, older)


def answer_id(review: str, verdict: str, author: str) -> EventId:
    """Return the id of an answer: the same person saying the same twice has answered once."""
    return EventId(_derived("answer", review, verdict, author))


def retirement_id(scope: ScopeName, reason: str, memories: Iterable[Target]) -> EventId:
    """Return the id of the wish to end memories: of the same versions it is the same wish."""
    versions = sorted(f"{one.memory_id}/{one.version}" for one in memories)
    return EventId(_derived("retirement", scope, reason, *versions))


def proposal_id(scope: ScopeName, author: str, members: Iterable[Target]) -> EventId:
    """Return the id of a proposal to join memories: of the same versions it is the same one."""
    versions = sorted(f"{one.memory_id}/{one.version}" for one in members)
    return EventId(_derived("proposal", scope, author, *versions))


def request_id(scope: ScopeName, kind: str, author: str, at: datetime, *about: str) -> EventId:
    """Return the id of what somebody asks for at a time: asked for again, it is another wish."""
    return EventId(_derived("request", scope, kind, author, at.isoformat(), *about))


def republished_id(undo: DecisionId, undone: DecisionId) -> EventId:
    """Return the id of an event that is decided again, because its first decision was undone."""
    return EventId(_derived("republished", undo, undone))


def _derived(*names: str) -> str:
    """Return the UUID of version 5 (RFC 9562) of joined names, as the uuid module gives it.

    A third of the module's time: an event takes several.
    """
    digest = _IN_NAMESPACE.copy()
    digest.update(_SEPARATOR.join(names).encode())
    found = digest.hexdigest()
    variant = _VARIANT[found[16]]
    return f"{found[:8]}-{found[8:12]}-5{found[13:16]}-{variant}{found[17:20]}-{found[20:32]}"
