"""How an event gives a live memory a new text: by its name, by superseding it, or by an answer."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from schemas.decisions import Decision, Insert, Marker, Reinforce
from schemas.events import Answer, Remember, Seen
from schemas.memories import Memory
from streams.clock.system import SystemClock
from streams.model.identity import (
    content_key,
    decision_id,
    memory_id,
    named_memory_id,
    review_id,
    update_id,
)
from streams.model.observed import believed
from streams.store.app.client import Client, Response, decisions_of
from streams.store.app.failures import UsageError
from streams.store.app.reading import StoreReader


async def renewing(
    reader: StoreReader, memory: Memory, event: Callable[[Mapping[str, object]], Remember]
) -> Remember:
    """Return the event that lets a memory say something else.

    `event` makes it from the fields that address the memory: its producer's name, or else its id as
    superseded. `renewed` has it decided on. Raises UsageError if the memory is pinned.
    """
    name = await _name(reader, unpinned(memory))
    return event({"memory_id": name} if name else {"supersedes": [memory.id], "memory_id": None})


async def renewed(
    client: Client, said: Remember, memory: Memory, author: Callable[[], str]
) -> list[Response]:
    """Have the event of an update decided on, and the memory retired for what it made.

    That takes an answer where the policy lets no event supersede, and where another memory has the
    words already. `author` names who gives it.
    """
    responses = await client.submit([said])
    answers = _settling(said, memory, decisions_of(responses), author)
    return [*responses, *(await client.submit(answers) if answers else ())]


def _settling(
    said: Remember, memory: Memory, decided: Sequence[Decision], author: Callable[[], str]
) -> list[Answer]:
    match decided:
        case [Insert()]:
            return [stands(said, memory, author())]
        case [Reinforce(memory=known)] if known.id != memory.id:
            return [stands(said, memory, author(), known)]
        case _:
            return []


def unpinned(memory: Memory) -> Memory:
    """Return a memory that may change. Raises UsageError if it is pinned."""
    if memory.pinned:
        raise UsageError(f"memory {memory.id} is pinned; unpin it first")
    return memory


def told_after(memory: Memory) -> datetime:
    """Return the time of an event that corrects a memory: now, and not before it was seen last."""
    now = SystemClock().now()
    return max(now, believed(memory.last_seen_at, now))


async def _name(reader: StoreReader, memory: Memory) -> str | None:
    """Return the name that a memory's producer gave it."""
    for decision in await reader.on_memories([memory.id]):
        event = None if isinstance(decision, Marker) else decision.event
        name = event.memory_id if isinstance(event, Remember) else None
        if name is not None and named_memory_id(memory.scope, name) == memory.id:
            return name
    return None


def stands(event: Remember, memory: Memory, author: str, known: Memory | None = None) -> Answer:
    """Return the answer that a new memory stands in place of an older one.

    The new one is what the event made, or the memory that was known to say the same.
    """
    made = decision_id(event.scope, event.event_id)
    review = review_id(made, memory.id)
    new = (
        Seen(memory_id=memory_id(made), content_key=content_key(event.scope, event.text))
        if known is None
        else Seen(memory_id=known.id, content_key=known.content_key)
    )
    return Answer(
        event_id=update_id(review, new.memory_id, author),
        scope=event.scope,
        review_id=review,
        newer=new,
        older=Seen(memory_id=memory.id, content_key=memory.content_key),
        verdict="contradicts",
        author=author,
        occurred_at=event.occurred_at,
    )
