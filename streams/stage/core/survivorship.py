"""Which field values survive when a memory is created, seen again, merged or retired.

Earliest created, latest seen as far as times are likely, counts summed, labels united, the higher
importance and confidence (confidence rises when a text is confirmed), the stronger persistence,
active before tentative, and pinned if any is. Title and metadata belong to a text: if the text
stays, the first known value stays; if a new text replaces it, the newest value wins. Every wording
is kept as a variant. If an undo keeps one part apart from a memory, it keeps the whole apart. No
value that only one side has is dropped, except the end of validity if another fact in the same
memory has none.

`now` is when the event was taken in: a time after it is not believed; None if unknown.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import cast

from pydantic import JsonValue

from schemas.base import FEW_MAX, EventId, MemoryId
from schemas.events import Remember
from schemas.memories import Feedback, Memory, Persistence, Standing, Superseded, Turns, Unchecked
from streams.model import wordings
from streams.model.identity import content_key
from streams.model.observed import believed
from streams.model.places import ENTERED, entered
from streams.stage.core.cannot_link import sides

SESSIONS_MAX = 64
LABELS_MAX = 256
"""Bounds for a memory that is seen for years: the newest sessions and the first of the other labels
are kept. The log has them all."""

_CONFIDENCE_PLACES = 9
"""Enough for any figure that people give; further digits are floating-point noise."""


def born(event: Remember, identity: MemoryId, *, truncated: bool) -> Memory:
    """Return the memory that an event creates by itself."""
    return Memory.trusted(
        schema_version=1,
        id=identity,
        scope=event.scope,
        text=event.text,
        content_key=content_key(event.scope, event.text),
        version=1,
        status=Standing(event.status),
        persistence=event.persistence,
        title=event.title,
        category=event.category,
        importance=event.importance,
        confidence=event.confidence,
        tags=event.tags,
        entities=event.entities,
        sources=event.sources,
        sessions=() if event.session is None else (event.session,),
        turns=None if event.turn is None else Turns(first=event.turn, last=event.turn),
        valid_from=event.valid_from,
        valid_until=event.valid_until,
        pinned=event.pinned,
        metadata=event.metadata,
        observation_count=1,
        created_at=event.occurred_at,
        last_seen_at=event.occurred_at,
        truncated=truncated,
        merged_from=(),
        kept_apart=(),
        feedback=None,
        variants=(),
        folded=0,
        unchecked=None,
        superseded=None,
    )


def seen_again(memory: Memory, event: Remember, now: datetime | None = None) -> Memory:
    """Return the memory after one more observation: confidence up, the event's text a variant."""
    seen = born(event, memory.id, truncated=memory.truncated)
    update = {
        **_united([memory, seen], now),
        **_worded(memory.text, [memory, seen]),
        "confidence": _confirmed(memory.confidence, seen.confidence),
        "version": memory.version + 1,
    }
    return memory.with_values(**update)


def renewed(
    memory: Memory, event: Remember, now: datetime | None = None, *, truncated: bool
) -> Memory:
    """Return a memory addressed by name, with the event's text in place of its own.

    Status, validity and, if given, the title are the event's too, because they describe its text.
    The variants are dropped: they are wordings of the previous text. A correction is no sighting.
    """
    seen = born(event, memory.id, truncated=truncated)
    update = {
        **_united([memory, seen], now),
        "version": memory.version + 1,
        "text": event.text,
        "content_key": seen.content_key,
        "status": seen.status,
        "title": seen.title or memory.title,
        "valid_from": seen.valid_from,
        "valid_until": seen.valid_until,
        "truncated": truncated,
        "variants": (),
        "folded": 0,
        "unchecked": None,
        "observation_count": memory.observation_count,
    }
    return memory.with_values(**update)


def merged(
    targets: Sequence[Memory],
    event: Remember | None,
    identity: MemoryId,
    text: str,
    now: datetime | None = None,
    *,
    truncated: bool,
) -> Memory:
    """Return the memory that replaces the targets, and the event if there is one.

    Its title and each metadata value come from the newest source that has one. Its category is the
    first known one, because guards separate memories by category.
    """
    seen = [] if event is None else [born(event, identity, truncated=truncated)]
    sources = [*targets, *seen]
    newest_first = sorted(sources, key=lambda memory: believed(memory.last_seen_at, now))[::-1]
    update = {
        **_united(sources, now),
        **_worded(text, sources),
        "title": _first(memory.title for memory in newest_first),
        "metadata": _joined_metadata(newest_first),
        "id": identity,
        "version": 1,
        "text": text,
        "content_key": content_key(sources[0].scope, text),
        "truncated": truncated,
        "merged_from": tuple(memory.id for memory in targets),
    }
    return sources[0].with_values(**update)


def repeated(seen: Memory, known: Sequence[Memory], now: datetime | None = None) -> Memory:
    """Return a memory created by an event, extended to replace the memories that it repeats.

    It inherits their counts and labels as in a merge, but its own title, category and metadata
    values, which describe its text, take precedence.
    """
    newest_first = [seen, *known]
    update = {
        **_united([*known, seen], now),
        **_worded(seen.text, [seen, *known]),
        "title": _first(memory.title for memory in newest_first),
        "category": _first(memory.category for memory in newest_first),
        "metadata": _joined_metadata(newest_first),
        "merged_from": tuple(memory.id for memory in known),
    }
    return seen.with_values(**update)


def united(survivor: Memory, other: Memory, now: datetime | None = None) -> Memory:
    """Return the next version of a memory that absorbs another; its text stays."""
    update = {
        **_united([survivor, other], now),
        **_worded(survivor.text, [survivor, other]),
        "version": survivor.version + 1,
        "merged_from": tuple(dict.fromkeys([*survivor.merged_from, other.id])),
    }
    return survivor.with_values(**update)


def retired(memory: Memory, superseded: Superseded) -> Memory:
    """Return the next version of a memory, retired as superseded."""
    return memory.with_values(
        status=Standing.SUPERSEDED, superseded=superseded, version=memory.version + 1
    )


def said_again(memory: Memory) -> Remember:
    """Return an event that repeats what a memory says, at the time it was last seen.

    It has only the first source and the first FEW_MAX labels: an event holds fewer than a memory.
    """
    return Remember(
        event_id=EventId(memory.id),
        scope=memory.scope,
        text=memory.text,
        occurred_at=memory.last_seen_at,
        title=memory.title,
        category=memory.category,
        importance=memory.importance,
        confidence=memory.confidence,
        tags=memory.tags[:FEW_MAX],
        entities=memory.entities[:FEW_MAX],
        persistence=memory.persistence,
        status="tentative" if memory.status is Standing.TENTATIVE else "active",
        source=_first(memory.sources),
        valid_from=memory.valid_from,
        valid_until=memory.valid_until,
        pinned=memory.pinned,
        metadata=memory.metadata,
    )


def summed(told: Sequence[Feedback | None]) -> Feedback | None:
    """Sum the feedback of memories; None if none has any."""
    known = [one for one in told if one is not None]
    if not known:
        return None
    return Feedback(
        accessed=sum(one.accessed for one in known),
        helpful=sum(one.helpful for one in known),
        harmful=sum(one.harmful for one in known),
    )


def _worded(text: str, memories: Sequence[Memory]) -> dict[str, object]:
    """Return the variants of several memories under one shown text, and the folded count."""
    folded = sum(memory.folded for memory in memories)
    if all(_is_only(text, memory) for memory in memories):
        return {"variants": (), "folded": folded}  # the common case: an exact repeat
    kept = wordings.kept(text, [one for memory in memories for one in wordings.of(memory)])
    return {"variants": kept.variants, "folded": kept.folded + folded}


def _is_only(text: str, memory: Memory) -> bool:
    """Return whether a text is the only wording of a memory."""
    return memory.text == text and not memory.variants


def _united(memories: Sequence[Memory], now: datetime | None) -> dict[str, object]:
    """Return the combined fields of several memories, in order of precedence."""
    return {
        "status": _firmest(memories),
        "persistence": _strongest(memories),
        "title": _first([memory.title for memory in memories]),
        "category": _first([memory.category for memory in memories]),
        "importance": _highest([memory.importance for memory in memories]),
        "confidence": _highest([memory.confidence for memory in memories]),
        "tags": _union([memory.tags for memory in memories])[:LABELS_MAX],
        "entities": _union([memory.entities for memory in memories])[:LABELS_MAX],
        "sources": _union([memory.sources for memory in memories])[:LABELS_MAX],
        "sessions": _union([memory.sessions for memory in memories])[-SESSIONS_MAX:],
        "turns": _widened(memories),
        "valid_from": _start(memories),
        "valid_until": _end(memories),
        "pinned": any(memory.pinned for memory in memories),
        "metadata": _joined_metadata(memories),
        "kept_apart": sides([memory.kept_apart for memory in memories]),
        "observation_count": sum([memory.observation_count for memory in memories]),
        "feedback": summed([memory.feedback for memory in memories]),
        "unchecked": _unchecked(memories),
        "created_at": min([memory.created_at for memory in memories]),
        "last_seen_at": _latest([memory.last_seen_at for memory in memories], now),
    }


def _latest(times: Iterable[datetime], now: datetime | None) -> datetime:
    return max(times, key=lambda time: (believed(time, now), time))


def _start(memories: Sequence[Memory]) -> datetime | None:
    """Return the earliest known start; None if a fact without a start was seen before it.

    So the start never hides an observation.
    """
    start = min((memory.valid_from for memory in memories if memory.valid_from), default=None)
    if start is None or any(_seen_before(memory, start) for memory in memories):
        return None
    return start


def _seen_before(memory: Memory, start: datetime) -> bool:
    return memory.valid_from is None and memory.created_at < start


def _end(memories: Sequence[Memory]) -> datetime | None:
    """Return the latest end; None if one of the facts has none, because an end would hide it.

    Identical words are one fact: an end given by one memory applies to all unless the fact was seen
    after it.
    """
    end = max((memory.valid_until for memory in memories if memory.valid_until), default=None)
    endless = [memory for memory in memories if memory.valid_until is None]
    if end is None or not endless:
        return end
    one_fact = len({memory.content_key for memory in memories}) == 1
    return end if one_fact and all(memory.last_seen_at <= end for memory in endless) else None


def _joined_metadata(memories: Sequence[Memory]) -> dict[str, JsonValue]:
    """Unite metadata; the first value of a key stays, even if a later one differs.

    Visits to a place are counted on: they belong to no text.
    """
    joined: dict[str, JsonValue] = {}
    for memory in memories:
        for key, value in memory.metadata.items():
            if len(joined) < LABELS_MAX:
                joined.setdefault(key, value)
    if ENTERED in joined and (counts := entered(memory.metadata for memory in memories)):
        newest = dict(list(counts.items())[-SESSIONS_MAX:])
        joined[ENTERED] = cast("JsonValue", newest)
    return joined


def _unchecked(memories: Sequence[Memory]) -> Unchecked | None:
    """Return what the first lacks; what only others lack, it has with its own text."""
    if memories[0].unchecked is not None:
        return memories[0].unchecked
    return "not-compared" if any(memory.unchecked for memory in memories) else None


def _firmest(memories: Sequence[Memory]) -> Standing:
    active = any(memory.status is Standing.ACTIVE for memory in memories)
    return Standing.ACTIVE if active else Standing.TENTATIVE


def _strongest(memories: Sequence[Memory]) -> Persistence | None:
    known = [memory.persistence for memory in memories if memory.persistence is not None]
    return max(known, key=lambda one: one.rank) if known else None


def _first(values: Iterable[str | None]) -> str | None:
    for value in values:
        if value is not None:
            return value
    return None


def _confirmed(known: float | None, said: float | None) -> float | None:
    """Return a memory's confidence after an observation with a confidence of its own.

    Noisy-or: the memory is wrong only if both are, so the order of confirmations does not matter.
    An observation without a confidence changes nothing.
    """
    if known is None or said is None:
        return said if known is None else known
    return round(1 - (1 - known) * (1 - said), _CONFIDENCE_PLACES)


def _highest(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) if known else None


def _union(groups: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    if not any(groups):
        return ()
    return tuple(dict.fromkeys([label for group in groups for label in group]))


def _widened(memories: Sequence[Memory]) -> Turns | None:
    known = [memory.turns for memory in memories if memory.turns is not None]
    if not known:
        return None
    return Turns(first=min(turns.first for turns in known), last=max(turns.last for turns in known))
